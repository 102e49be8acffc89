"""An MCP server on the Python SDK that uses every way in which a server reaches its client, in both eras.

It speaks on stdio, or with `streamable-http PORT` (at /mcp) on 127.0.0.1. The SDK itself translates between the eras: a tool states what
it asks as `Resolve(…)`. `slow` appends a line to the file that CANCELLED_FILE names when it is cancelled.
"""

import functools
import json
import os
import sys
from typing import Annotated

import anyio
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.lowlevel import NotificationOptions
from mcp.server.mcpserver import Context, Elicit, ListRoots, MCPServer, Resolve, Sample
from mcp_types import (
    CallToolResult,
    CreateMessageResult,
    EmptyResult,
    Implementation,
    ListRootsResult,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from echo_extension import add_echo

NOTE = "note://both-eras/hello"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

server = MCPServer("both-eras", log_level="WARNING")
subscribed = set()
least = LEVELS[0]


class Name(BaseModel):
    """The form of `elicit`."""

    name: str


def is_modern(ctx: Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def ask_name() -> Elicit[Name]:
    return Elicit("Ann?", Name)


@server.tool()
async def elicit(answer: Annotated[ElicitationResult[Name], Resolve(ask_name)]) -> str:
    """Asks for a name."""
    if isinstance(answer, AcceptedElicitation):
        return f"accept:{answer.data.name}"
    return answer.action


def ask_model() -> Sample:
    question = TextContent(type="text", text="What is the answer?")
    return Sample([SamplingMessage(role="user", content=question)], max_tokens=100)


@server.tool()
async def sample(answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Asks the client's model."""
    return answer.content.text


def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool()
async def roots(answer: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Asks for the client's roots."""
    return " ".join(str(root.uri) for root in answer.roots)


@server.tool()
async def progress(ctx: Context) -> str:
    """Reports progress three times."""
    for step in range(1, 4):
        await ctx.report_progress(step, 3, f"step {step}")
    return "3 steps"


@server.tool()
async def log(ctx: Context) -> str:
    """Logs three messages."""
    for level in ("info", "warning", "error"):
        if LEVELS.index(level) >= LEVELS.index(least):
            await ctx.log(level, f"a message at {level}", logger_name="both-eras")
    return "3 messages"


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Adds a tool and says that the list has changed."""
    server.add_tool(lambda: name, name=name, description="Was added.")
    if is_modern(ctx):
        await ctx.notify_tools_changed()
    else:
        await ctx.session.send_tool_list_changed()
    return f"added {name}"


@server.tool()
async def touch(ctx: Context) -> str:
    """Says that the resource has changed, to a client that subscribed."""
    if is_modern(ctx):
        await ctx.notify_resource_updated(NOTE)
    elif NOTE in subscribed:
        await ctx.session.send_resource_updated(NOTE)
    return "touched"


@server.tool()
async def slow(ctx: Context) -> str:
    """Waits until it is cancelled."""
    await ctx.report_progress(1, 2, "waiting")
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        with open(os.environ["CANCELLED_FILE"], "a", encoding="utf-8") as file:
            print(f"cancelled in {ctx.protocol_version}", file=file)
        raise
    return "never"


@server.tool()
async def capabilities(ctx: Context) -> str:
    """Answers with what it sees of its client."""
    declared = ctx.client_capabilities
    meta = dict(ctx.request_context.meta or {})
    info = meta.get(CLIENT_INFO)
    if info is None and ctx.session.client_params is not None:
        info = ctx.session.client_params.client_info
    if isinstance(info, Implementation):
        info = info.model_dump(by_alias=True, exclude_none=True)
    seen = {
        "protocolVersion": ctx.protocol_version,
        "clientInfo": info,
        "capabilities": declared and declared.model_dump(by_alias=True, exclude_none=True),
        "meta": meta,
    }
    return json.dumps(seen)


@server.tool()
async def rich() -> CallToolResult:
    """Answers with everything that a result may have."""
    return CallToolResult(
        content=[TextContent(type="text", text="rich", _meta={"com.example/of": "content"})],
        structured_content={"number": 1.5, "nothing": None, "list": [1, "two"]},
        is_error=True,
        _meta={"com.example/of": "result"},
    )


@server.prompt()
def greet(name: str) -> str:
    """Greets."""
    return f"Say hello to {name}."


@server.resource(NOTE)
def note() -> str:
    """A greeting."""
    return "hello"


async def subscribe(ctx, params: SubscribeRequestParams) -> EmptyResult:
    subscribed.add(str(params.uri))
    return EmptyResult()


async def unsubscribe(ctx, params: UnsubscribeRequestParams) -> EmptyResult:
    subscribed.discard(str(params.uri))
    return EmptyResult()


async def set_level(ctx, params: SetLevelRequestParams) -> EmptyResult:
    global least
    least = params.level
    return EmptyResult()


# `MCPServer` leaves these parts of the older era out; the server below it has them.
low_level = server._lowlevel_server
low_level.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
low_level.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)
low_level.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
changes = NotificationOptions(tools_changed=True)
add_echo(low_level)
low_level.create_initialization_options = functools.partial(low_level.create_initialization_options, changes)

if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            server.run()
        case ["streamable-http", port]:
            server.run("streamable-http", host="127.0.0.1", port=int(port))
        case _:
            sys.exit("usage: both_eras_server.py [streamable-http PORT]")
