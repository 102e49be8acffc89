"""Does everything with a server that lets the server reach its client, and says what came of it.

    lossless.py ERA TARGET

ERA is `legacy` or `modern`. TARGET is {"url": …} or {"command": …, "args": […], "env": {…}}. The server is one of
`tests/partners/both_eras_server.py` and `fastmcp_server.py`. One JSON object on stdout has what the client saw, feature by feature; two ways to
one server lose nothing if their objects are equal.
"""

import json
import os
import sys

import anyio
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.extension import advertise

MODES = {"legacy": "legacy", "modern": "auto"}
STEP_WITHIN = 30
EXTENSIONS = [advertise("com.example/thing", {"a": 1}), advertise("io.modelcontextprotocol/ui", {"mimeTypes": ["text/html"]})]


class Seen:
    """What reaches the client beside answers."""

    def __init__(self):
        self.asked = []
        self.logged = []
        self.changed = anyio.Event()
        self.updated = anyio.Event()

    async def elicit(self, context, params):
        # A server writes the schema's titles in its own way in each era.
        schema = params.requested_schema
        self.asked.append(["elicitation/create", params.message, schema["required"], sorted(schema["properties"])])
        return types.ElicitResult(action="accept", content={"name": "Ann"})

    async def sample(self, context, params):
        self.asked.append(["sampling/createMessage", params.messages[0].content.text, params.max_tokens])
        content = types.TextContent(type="text", text="forty-two")
        return types.CreateMessageResult(role="assistant", content=content, model="none")

    async def roots(self, context):
        self.asked.append(["roots/list"])
        return types.ListRootsResult(roots=[types.Root(uri="file:///a"), types.Root(uri="file:///b")])

    async def log(self, params):
        self.logged.append([params.level, params.data])

    async def message(self, message):
        method = getattr(message, "method", None) or getattr(getattr(message, "root", None), "method", None)
        if method == "notifications/tools/list_changed":
            self.changed.set()
        elif method == "notifications/resources/updated":
            self.updated.set()


def text(result):
    return [result.is_error, [getattr(content, "text", None) for content in result.content]]


async def call(client, seen, tool, arguments=None):
    seen.asked.clear()
    result = await client.call_tool(tool, arguments or {})
    return {"result": text(result), "asked": list(seen.asked)}


async def progress(client, seen):
    heard = []

    async def hear(progress, total, message):
        heard.append([progress, total, message])

    result = await client.call_tool("progress", {}, progress_callback=hear)
    return {"result": text(result), "heard": heard}


async def log(client, seen):
    seen.logged.clear()
    result = await client.call_tool("log", {})
    with anyio.move_on_after(STEP_WITHIN):
        while len(seen.logged) < 3:
            await anyio.sleep(0.01)
    return {"result": text(result), "logged": list(seen.logged)}


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
        return text(await client.call_tool("grow", {"name": name}))

    found = {}
    if era == "legacy":
        await client.list_tools(cache_mode="bypass")
        await client.subscribe_resource(uri)
        found["touch"] = text(await client.call_tool("touch", {}))
        found["grow"] = await grow("grown")
        for name, event in (("changed", seen.changed), ("updated", seen.updated)):
            with anyio.move_on_after(STEP_WITHIN):
                await event.wait()
            found[name] = event.is_set()
    else:
        async with client.listen(tools_list_changed=True, resource_subscriptions=[uri]) as subscription:
            events = set()
            await client.call_tool("touch", {})
            await grow("grown")
            with anyio.move_on_after(STEP_WITHIN):
                async for event in subscription:
                    events.add(type(event).__name__)
                    if len(events) == 2:
                        break
            found["events"] = sorted(events)
    tools = [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]
    found["has_grown"] = "grown" in tools
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
        "greeting": greeting.messages[0].content.text,
        "note": (await client.read_resource(uri)).contents[0].text,
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
        extensions=EXTENSIONS,
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
        for tool in ("elicit", "sample", "roots"):
            await step(tool, call(client, seen, tool))
        await step("progress", progress(client, seen))
        await step("log", log(client, seen))
        await step("cancel", cancel(client, seen))
        await step("client", capabilities(client, seen))
        await step("changes", changes(client, seen, era, offered.get("uri")))
    print(json.dumps(found, sort_keys=True))


anyio.run(main, sys.argv[1], json.loads(sys.argv[2]))
