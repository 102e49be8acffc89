"""The exceptions of this package. Each says what is wrong, where, and what helps; all of them are a `MainstayError`.

`outcome()` answers `not_sent` for those that end an operation before anything was sent. The others do not concern a call.
"""

from __future__ import annotations

# Importing `typing` takes longer than importing this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

__all__ = [
    "ControlError",
    "MainstayError",
    "ProgramError",
    "SdkError",
    "ServerError",
    "WrongContextError",
]


class MainstayError(Exception):
    """Something that this package cannot do: `what` is wrong, `where`, and the `remedy`."""

    nothing_sent = True

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where, remedy)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        help_ = f": {self.remedy}" if self.remedy else ""
        return f"{self.what}{place}{help_}"


class ProgramError(MainstayError):
    """The program `mainstay` is missing, cannot run on this machine, or has another version than this package."""


class SdkError(MainstayError):
    """The MCP Python SDK (`mcp`) is not installed, or older than the first version that works."""


class ServerError(MainstayError):
    """The server did not come up, so the session was not opened: its command does not exist, or it ends at once.

    `facts` is what the program says of it: `server`, `state`, `reason`, `attempt`, `retryAfterMs`.
    """

    def __init__(self, what: str, *, where: str, remedy: str, facts: Mapping[str, Any]) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.facts = dict(facts)


class WrongContextError(MainstayError):
    """A session was used in a forked process, or in another event loop than the one that opened it. It would wait for ever."""


class ControlError(MainstayError):
    """The control API refused a request, did not answer, or there is no daemon.

    `kind` is the word for programs: that of the control API (`unknown_server`, `conflict`, …), or `no_daemon`, `timed_out`,
    `connection_lost`, `bad_answer` of this client. `status` is the HTTP status if there was one.
    """

    nothing_sent = False

    def __init__(
        self, what: str, *, where: str = "", remedy: str = "", kind: str, status: int | None = None
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.kind = kind
        self.status = status
