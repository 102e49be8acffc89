"""An MCP server on the Python SDK, built as its users build one: a peer that Mainstay did not write.

It speaks on stdio, or with `streamable-http PORT` (at /mcp) or `sse PORT` (at /sse) on 127.0.0.1. It offers
just enough to watch a connection from the other side.
"""

import sys

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

NOTE = "note://python-server/hello"

server = MCPServer("python-server", log_level="WARNING")
read_only = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=read_only)
def echo(text: str) -> str:
    """Answers with its text."""
    return text


@server.tool()
async def sleep(millis: int, ctx: Context, steps: int = 4) -> str:
    """Sleeps, reporting progress."""
    for step in range(steps):
        await anyio.sleep(millis / steps / 1000)
        await ctx.report_progress(step + 1, steps)
    return f"slept {millis} ms"


@server.tool(annotations=read_only)
def level(ctx: Context) -> str:
    """Answers with the level at which it is to log, which a modern client says with each request."""
    meta = ctx.request_context.meta or {}
    return meta.get("io.modelcontextprotocol/logLevel", "none")


@server.tool()
async def touch(ctx: Context) -> str:
    """Says that the resource has changed; only modern subscriptions hear of it."""
    await ctx.notify_resource_updated(NOTE)
    return "touched"


@server.resource(NOTE)
def note() -> str:
    """A greeting."""
    return "hello"


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            server.run()
        case [transport, port]:
            server.run(transport, host="127.0.0.1", port=int(port))
        case _:
            sys.exit("usage: python_server.py [streamable-http|sse PORT]")
