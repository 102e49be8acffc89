"""A supervised server for the OpenAI Agents SDK."""

from __future__ import annotations

from functools import partial
from typing import Any

from agents.mcp import MCPServerStdio

from .._session import transport


class SupervisedServer(MCPServerStdio):
    """`MCPServerStdio` with supervision: `SupervisedServer("npx", "-y", "…")`; `options` are those of `MCPServerStdio`.

    The SDK's own retries are off: they repeat calls that may have run, and supervision repeats those that did not. Calls may take a
    minute, since they wait for a server that is being restarted.
    """

    def __init__(self, command: str, *args: str, shared: bool = False, env: Any = None, cwd: Any = None, **options: Any) -> None:
        timeout = options.pop("client_session_timeout_seconds", 60)
        params: Any = {"command": command, "args": [*args]}
        super().__init__(params, client_session_timeout_seconds=timeout, max_retry_attempts=0, **options)
        self._open = partial(transport, command, *args, env=env, cwd=cwd, shared=shared)

    def create_streams(self) -> Any:
        return self._open()
