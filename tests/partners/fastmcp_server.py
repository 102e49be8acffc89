"""An MCP server on FastMCP that uses every way in which a server reaches its client, in both eras.

It speaks on stdio, or with `streamable-http PORT` (at /mcp) on 127.0.0.1, and offers what both_eras_server.py offers. FastMCP leaves the
eras to the tool: one of the older era asks during the call, one of 2026-07-28 returns what it asks and is called again. `slow` appends
a line to the file that CANCELLED_FILE names when it is cancelled.
"""

import json
import os
import sys

import anyio
from fastmcp import Context, FastMCP
from fastmcp.tools.base import ToolResult
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmptyResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    TextContent,
    ToolListChangedNotification,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from echo_extension import add_echo

NOTE = "note://fastmcp/hello"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
ASKED = "asked"

server = FastMCP("fastmcp")
bus = InMemorySubscriptionBus()
subscribed = set()


class Name(BaseModel):
    """The form of `elicit`."""

    name: str


def is_modern(ctx: Context) -> bool:
    return ctx.request_context.protocol_version in MODERN_PROTOCOL_VERSIONS


def answered(ctx: Context, kind):
    """The client's answer to what an earlier round of this call asked."""
    answer = (ctx.input_responses or {}).get(ASKED)
    return answer if answer is None or isinstance(answer, kind) else kind.model_validate(answer)


def asking(request) -> InputRequiredResult:
    return InputRequiredResult(input_requests={ASKED: request})


@server.tool(output_schema=None)
async def elicit(ctx: Context) -> str | InputRequiredResult:
    """Asks for a name."""
    if not is_modern(ctx):
        answer = await ctx.elicit("Ann?", Name)
        return f"accept:{answer.data.name}" if answer.action == "accept" else answer.action
    answer = answered(ctx, ElicitResult)
    if answer is None:
        form = ElicitRequestFormParams(message="Ann?", requested_schema=Name.model_json_schema())
        return asking(ElicitRequest(params=form))
    return f"accept:{answer.content['name']}" if answer.action == "accept" else answer.action


@server.tool(output_schema=None)
async def sample(ctx: Context) -> str | InputRequiredResult:
    """Asks the client's model."""
    question = TextContent(type="text", text="What is the answer?")
    messages = [SamplingMessage(role="user", content=question)]
    if not is_modern(ctx):
        answer = await ctx.session.create_message(messages, max_tokens=100, related_request_id=ctx.request_id)
        return answer.content.text
    answer = answered(ctx, CreateMessageResult)
    if answer is None:
        params = CreateMessageRequestParams(messages=messages, max_tokens=100)
        return asking(CreateMessageRequest(params=params))
    return answer.content.text


@server.tool(output_schema=None)
async def roots(ctx: Context) -> str | InputRequiredResult:
    """Asks for the client's roots."""
    answer = answered(ctx, ListRootsResult) if is_modern(ctx) else await ctx.session.list_roots()
    if answer is None:
        return asking(ListRootsRequest())
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
        await ctx.log(f"a message at {level}", level, logger_name="fastmcp")
    return "3 messages"


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Adds a tool and says that the list has changed."""

    def added() -> str:
        """Was added."""
        return name

    server.tool(added, name=name)
    if is_modern(ctx):
        await bus.publish(ToolsListChanged())
    else:
        await ctx.send_notification(ToolListChangedNotification())
    return f"added {name}"


@server.tool()
async def touch(ctx: Context) -> str:
    """Says that the resource has changed, to a client that subscribed."""
    if is_modern(ctx):
        await bus.publish(ResourceUpdated(uri=NOTE))
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
            print(f"cancelled in {ctx.request_context.protocol_version}", file=file)
        raise
    return "never"


@server.tool()
async def capabilities(ctx: Context) -> str:
    """Answers with what it sees of its client."""
    declared = ctx.session.client_capabilities
    meta = ctx.request_context.meta or {}
    info = meta.get(CLIENT_INFO)
    if info is None and ctx.session.client_params is not None:
        info = ctx.session.client_params.client_info.model_dump(by_alias=True, exclude_none=True)
    seen = {
        "protocolVersion": ctx.request_context.protocol_version,
        "clientInfo": info,
        "capabilities": declared and declared.model_dump(by_alias=True, exclude_none=True),
        "meta": meta,
    }
    return json.dumps(seen)


@server.tool(output_schema=None)
async def rich() -> ToolResult:
    """Answers with everything that a result may have."""
    return ToolResult(
        content=[TextContent(type="text", text="rich", _meta={"com.example/of": "content"})],
        structured_content={"number": 1.5, "nothing": None, "list": [1, "two"]},
        is_error=True,
        meta={"com.example/of": "result"},
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


# FastMCP serves no subscriptions of either era; the SDK's server below it does.
low_level = server._mcp_server
low_level.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
low_level.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)
low_level.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, ListenHandler(bus))
add_echo(low_level)

if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            server.run(show_banner=False, log_level="WARNING")
        case ["streamable-http", port]:
            server.run("streamable-http", show_banner=False, log_level="WARNING", host="127.0.0.1", port=int(port))
        case _:
            sys.exit("usage: fastmcp_server.py [streamable-http PORT]")
