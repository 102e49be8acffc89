"""Does everything with a server that lets the server reach its client, and says what came of it.

    lossless.py ERA TARGET

ERA is `legacy` or `modern`. TARGET is {"url": …} or {"command": …, "args": […], "env": {…}}. The server is one of
`tests/partners/both_eras_server.py` and `fastmcp_server.py`. One JSON object on stdout has what the client saw, feature by feature; two ways to
one server lose nothing if their objects are equal.
"""

import json
import os
import sys

from typing import Any, Literal

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.extension import ClientExtension, NotificationBinding, advertise

MODES = {"legacy": "legacy", "modern": "auto"}
STEP_WITHIN = 30
# A result says of itself which server it is from: in the modern era, the gateway puts its own name there.
SERVER_INFO = "io.modelcontextprotocol/serverInfo"


class EchoParams(types.RequestParams):
    value: Any


class Echo(types.Request[EchoParams, Literal["x/echo"]]):
    method: Literal["x/echo"] = "x/echo"
    params: EchoParams


class Unknown(types.Request[EchoParams, Literal["x/unknown"]]):
    method: Literal["x/unknown"] = "x/unknown"
    params: EchoParams


class EchoResult(types.Result):
    value: Any


class EchoedParams(types.NotificationParams):
    value: Any


class EchoExtension(ClientExtension):
    """Of `x/echo`, a method that no SDK knows."""

    identifier = "com.example/x"

    def __init__(self, seen):
        self.seen = seen

    def notifications(self):
        return [NotificationBinding(method="notifications/x/echoed", params_type=EchoedParams, handler=self.seen.hear_echo)]


class Seen:
    """What reaches the client beside answers."""

    def __init__(self):
        self.asked = []
        self.logged = []
        self.changed = anyio.Event()
        self.updated = anyio.Event()
        self.updated_uris = []
        self.echoed = anyio.Event()
        self.echoes = []

    async def elicit(self, context, params):
        self.asked.append(["elicitation/create", params.message, without_annotations(params.requested_schema)])
        return types.ElicitResult(action="accept", content={"name": "Ann"})

    async def sample(self, context, params):
        self.asked.append(["sampling/createMessage", params.messages[0].content.text, params.max_tokens])
        content = types.TextContent(type="text", text="forty-two")
        return types.CreateMessageResult(role="assistant", content=content, model="none")

    async def roots(self, context):
        self.asked.append(["roots/list"])
        return types.ListRootsResult(roots=[types.Root(uri="file:///a"), types.Root(uri="file:///b")])

    async def log(self, params):
        self.logged.append([params.level, params.logger, params.data])

    async def hear_echo(self, params):
        self.echoes.append(params.value)
        self.echoed.set()

    async def message(self, message):
        message = getattr(message, "root", message)
        method = getattr(message, "method", None)
        if method == "notifications/tools/list_changed":
            self.changed.set()
        elif method == "notifications/resources/updated":
            self.updated_uris.append(str(message.params.uri))
            self.updated.set()


def without_annotations(schema):
    """A server writes titles and descriptions in its own way in each era."""
    if isinstance(schema, dict):
        return {key: without_annotations(value) for key, value in schema.items() if key not in ("title", "description")}
    return schema


def dump(result):
    """A message as it was on the wire, but for what the era adds to every result."""
    dumped = result.model_dump(mode="json", by_alias=True, exclude_unset=True)
    dumped.pop("resultType", None)
    meta = dumped.get("_meta") or {}
    meta.pop(SERVER_INFO, None)
    if not meta:
        dumped.pop("_meta", None)
    return dumped


async def call(client, seen, tool, arguments=None):
    seen.asked.clear()
    result = await client.call_tool(tool, arguments or {})
    return {"result": dump(result), "asked": list(seen.asked)}


async def progress(client, seen):
    heard = []

    async def hear(progress, total, message):
        heard.append([progress, total, message])

    result = await client.call_tool("progress", {}, progress_callback=hear)
    return {"result": dump(result), "heard": heard}


async def log(client, seen, expected=3):
    seen.logged.clear()
    result = await client.call_tool("log", {})
    with anyio.move_on_after(STEP_WITHIN):
        while len(seen.logged) < expected:
            await anyio.sleep(0.01)
    return {"result": dump(result), "logged": list(seen.logged)}


async def level(client, seen):
    """Asks for fewer messages, and for all of them again."""
    await client.set_logging_level("error")
    few = await log(client, seen, 1)
    await client.set_logging_level("debug")
    return {"few": few["logged"], "all": (await log(client, seen))["logged"]}


async def errors(client, seen):
    """Errors of the protocol, as the server words them."""
    found = {}
    attempts = {
        "resource": lambda: client.read_resource("note://nothing"),
        "method": lambda: client.session.send_request(Unknown(params=EchoParams(value=1)), EchoResult),
    }
    for name, attempt in attempts.items():
        try:
            found[name] = dump(await attempt())
        except MCPError as error:
            found[name] = [error.code, error.message, error.data]
    return found


async def extension(client, seen):
    """A method and a notification that neither SDK nor gateway knows."""
    value = {"a": [1, None, 2.5], "b": "\u00e4"}
    result = await client.session.send_request(Echo(params=EchoParams(value=value)), EchoResult)
    with anyio.move_on_after(STEP_WITHIN):
        await seen.echoed.wait()
    return {"result": dump(result), "echoes": seen.echoes}


async def cancel(client, seen):
    """Cancels a call that runs, and waits until the server says so."""
    path = os.environ["CANCELLED_FILE"]
    began = anyio.Event()

    async def hear(progress, total, message):
        began.set()

    async with anyio.create_task_group() as group:

        async def run():
            await client.call_tool("slow", {}, progress_callback=hear)

        group.start_soon(run)
        await began.wait()
        group.cancel_scope.cancel()
    with anyio.move_on_after(STEP_WITHIN):
        while not os.path.exists(path) or os.path.getsize(path) == 0:
            await anyio.sleep(0.01)
        os.remove(path)
        return {"cancelled": True}
    return {"cancelled": False}


async def changes(client, seen, era, uri):
    """Subscribes, and waits for a change of the tools and of a resource."""

    async def grow(name):
        return dump(await client.call_tool("grow", {"name": name}))

    async def has_grown():
        """Asked after each change: the first one may be of a list that the gateway had from an earlier run."""
        tools = (await client.list_tools(cache_mode="bypass")).tools
        return "grown" in [tool.name for tool in tools]

    found = {"has_grown": False}
    if era == "legacy":
        await client.list_tools(cache_mode="bypass")
        await client.subscribe_resource(uri)
        found["touch"] = dump(await client.call_tool("touch", {}))
        found["grow"] = await grow("grown")
        with anyio.move_on_after(STEP_WITHIN):
            await seen.updated.wait()
        with anyio.move_on_after(STEP_WITHIN):
            while not found["has_grown"]:
                await seen.changed.wait()
                seen.changed = anyio.Event()
                found["has_grown"] = await has_grown()
        found["uris"] = seen.updated_uris
    else:
        async with client.listen(tools_list_changed=True, resource_subscriptions=[uri]) as subscription:
            events = {}
            await client.call_tool("touch", {})
            await grow("grown")
            with anyio.move_on_after(STEP_WITHIN):
                async for event in subscription:
                    name = type(event).__name__
                    events[name] = str(getattr(event, "uri", None))
                    if name == "ToolsListChanged":
                        found["has_grown"] = await has_grown()
                    if len(events) == 2 and found["has_grown"]:
                        break
            found["events"] = events
    return found


async def capabilities(client, seen):
    """What the server sees of the client that every way must pass on."""
    result = json.loads((await client.call_tool("capabilities", {})).content[0].text)
    declared = result["capabilities"] or {}
    return {
        "extensions": declared.get("extensions"),
        "kinds": sorted(set(declared) & {"elicitation", "sampling", "roots"}),
        "client": (result["clientInfo"] or {}).get("name"),
        "protocol": result["protocolVersion"],
    }


async def offers(client, seen):
    tools = (await client.list_tools()).tools
    resources = (await client.list_resources()).resources
    prompts = (await client.list_prompts()).prompts
    uri = str(resources[0].uri)
    greeting = await client.get_prompt("greet", {"name": "Ann"})
    return {
        "tools": sorted((tool.model_dump(mode="json") for tool in tools), key=lambda tool: tool["name"]),
        "resources": [resource.model_dump(mode="json") for resource in resources],
        "prompts": [prompt.model_dump(mode="json") for prompt in prompts],
        "greeting": dump(greeting),
        "note": dump(await client.read_resource(uri)),
        "uri": uri,
    }


async def main(era, target):
    seen = Seen()
    server = target.get("url") or StdioServerParameters(**target)
    client = Client(
        server,
        mode=MODES[era],
        read_timeout_seconds=STEP_WITHIN,
        elicitation_callback=seen.elicit,
        sampling_callback=seen.sample,
        list_roots_callback=seen.roots,
        logging_callback=seen.log,
        log_level="debug" if era == "modern" else None,
        message_handler=seen.message,
        client_info=types.Implementation(name="lossless", version="1"),
        extensions=[
            advertise("com.example/thing", {"a": 1}),
            advertise("io.modelcontextprotocol/ui", {"mimeTypes": ["text/html"]}),
            EchoExtension(seen),
        ],
    )
    found = {}

    async def step(name, work):
        try:
            found[name] = await work
        except Exception as error:
            found[name] = {"error": repr(error)}
        return found[name]

    async with client:
        declared = client.server_capabilities.model_dump(mode="json", by_alias=True, exclude_none=True)
        found["server"] = {
            "protocol": client.protocol_version,
            "name": client.server_info and client.server_info.name,
            "extensions": declared.get("extensions"),
            "capabilities": sorted(declared),
        }
        offered = await step("offers", offers(client, seen))
        for tool in ("elicit", "sample", "roots", "rich"):
            await step(tool, call(client, seen, tool))
        await step("progress", progress(client, seen))
        await step("log", log(client, seen))
        if era == "legacy":
            await step("level", level(client, seen))
        await step("errors", errors(client, seen))
        await step("extension", extension(client, seen))
        await step("cancel", cancel(client, seen))
        await step("client", capabilities(client, seen))
        await step("changes", changes(client, seen, era, offered.get("uri")))
    print(json.dumps(found, sort_keys=True))


anyio.run(main, sys.argv[1], json.loads(sys.argv[2]))
