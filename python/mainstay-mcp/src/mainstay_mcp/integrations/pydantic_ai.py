"""A supervised server for Pydantic AI."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import Any, AsyncIterator

from fastmcp.client.transports import ClientTransport
from mcp import ClientSession
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.mcp import MCPToolset

from .._outcome import outcome
from .._session import transport


class SupervisedTransport(ClientTransport):
    """A transport of FastMCP's client; the arguments are those of `mainstay_mcp.transport`."""

    def __init__(self, command: str, *args: str, **options: Any) -> None:
        self._open = partial(transport, command, *args, **options)

    @asynccontextmanager
    async def connect_session(self, *, transport_options: Any = None, **options: Any) -> AsyncIterator[ClientSession]:
        make = getattr(transport_options, "session_class", ClientSession)
        async with self._open() as streams, make(*streams, **options) as session:
            yield session


class SupervisedToolset(MCPToolset[Any]):
    """The tools of a supervised server: `Agent(…, toolsets=[SupervisedToolset("npx", "-y", "…")])`.

    The model is asked to call again (`ModelRetry`) only if the server answered with a JSON-RPC error; a call that may have run is a
    `ToolFailed`. `options` are those of `MCPToolset`, without `tool_error_behavior`.
    """

    def __init__(self, command: str, *args: str, env: Any = None, cwd: Any = None, shared: bool = False, **options: Any) -> None:
        options = {"init_timeout": 60, **options}
        supervised = SupervisedTransport(command, *args, env=env, cwd=cwd, shared=shared)
        super().__init__(supervised, tool_error_behavior="failed", **options)

    async def call_tool(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().call_tool(*args, **options)
        except ModelRetry as retry:
            if retry.__cause__ is None or outcome(retry.__cause__) != "unknown":
                raise
            raise ToolFailed(message=retry.message) from retry.__cause__
