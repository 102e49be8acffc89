"""Keeps MCP servers connected.

The package brings the program `mainstay` and these few functions; `mcp`, the MCP Python SDK, is the caller's own:

- `session(command, …)`: the SDK's `ClientSession` at a supervised server. It survives crashes of the server;
- `transport(command, …)`: the streams alone, for frameworks that make the session themselves;
- `outcome(result_or_error)`: whether a call may have run;
- `Mainstay()`: watches and restarts the servers of the daemon;
- `program()`: the path of the program.

Everything that goes wrong is a `MainstayError`. Importing this package imports neither `mcp` nor `asyncio`.
"""

from __future__ import annotations

from ._outcome import outcome
from ._program import program
from .errors import ControlError, MainstayError, ProgramError, SdkError, ServerError, WrongContextError

# Nor does it import `typing`, which takes longer than the package itself.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._control import Mainstay
    from ._outcome import Outcome
    from ._session import session, transport

    __version__: str

__all__ = [
    "ControlError",
    "Mainstay",
    "MainstayError",
    "Outcome",
    "ProgramError",
    "SdkError",
    "ServerError",
    "WrongContextError",
    "outcome",
    "program",
    "session",
    "transport",
]


def __getattr__(name: str) -> object:
    # What needs `asyncio` or the package's metadata is loaded when it is first used.
    if name in ("session", "transport"):
        from . import _session as module
    elif name == "Mainstay":
        from . import _control as module  # type: ignore[no-redef]
    elif name == "Outcome":
        from typing import Literal

        return Literal["not_sent", "refused", "unknown", "answered", "ok"]
    elif name == "__version__":
        from ._program import package_version

        return package_version()
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(module, name)
    globals()[name] = value
    return value
