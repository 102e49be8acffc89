"""The client of the Python SDK, told what to do.

    python_client.py ERA TARGET STEPS

ERA is `legacy` or `modern`. TARGET is a JSON object: {"url": …}, or {"command": …, "args": […], "env": {…}}. STEPS is a JSON array of
objects; `do` says what. One line of JSON on stdout says what came of each, the first one what was agreed on. A step that fails
says so under `error`, and the next one is done.
"""

import itertools
import json
import pathlib
import sys

import anyio
import mcp_types as types
from mcp import Client, StdioServerParameters

LISTED_WITHIN = 30
STEP_WITHIN = 30
REPEAT_INTERVAL = 0.005
MODES = {"legacy": "legacy", "modern": "2026-07-28"}


class Steps:
    def __init__(self, client, asked):
        self.client = client
        self.asked = asked

    async def list(self, step):
        """Lists until a tool is there: a server that is not up yet has none."""
        tools = []
        with anyio.move_on_after(LISTED_WITHIN):
            while step["until"] not in tools:
                tools = [tool.name for tool in (await self.client.list_tools(cache_mode="bypass")).tools]
                await anyio.sleep(0.05)
        return {"tools": tools}

    async def call(self, step):
        return text(await self.client.call_tool(step["tool"], step["arguments"]))

    async def repeat(self, step):
        """Calls a tool with one key after the other until a file is there, and once more then."""
        ended = {}
        for n in itertools.count():
            is_last = pathlib.Path(step["until"]).exists()
            key = f"{step['key']}n{n}"
            ended[key] = outcome(await self.client.call_tool(step["tool"], {"key": key}))
            if is_last:
                return {"ended": ended}
            await anyio.sleep(REPEAT_INTERVAL)

    async def progress(self, step):
        heard = []

        async def hear(progress, total, message):
            heard.append(progress)

        result = await self.client.call_tool(step["tool"], step["arguments"], progress_callback=hear)
        return text(result) | {"heard": heard}

    async def ask(self, step):
        self.asked.clear()
        result = await self.client.call_tool(step["tool"], step["arguments"])
        return text(result) | {"asked": list(self.asked)}

    async def prompt(self, step):
        listed = [prompt.name for prompt in (await self.client.list_prompts()).prompts]
        result = await self.client.get_prompt(step["name"], step["arguments"])
        return {"listed": listed, "text": result.messages[0].content.text}

    async def resource(self, step):
        listed = [str(resource.uri) for resource in (await self.client.list_resources()).resources]
        result = await self.client.read_resource(step["uri"])
        return {"listed": listed, "text": result.contents[0].text}


def text(result):
    texts = [content.text for content in result.content if content.type == "text"]
    return {"text": "\n".join(texts), "is_error": bool(result.is_error)}


def outcome(result):
    """What Mainstay says of a call that failed; `answered` for an answer of the server."""
    return (result.meta or {}).get("mainstay", {}).get("outcome", "failed" if result.is_error else "answered")


def say(step, what):
    print(json.dumps({"do": step} | what), flush=True)


async def main(era, target, steps):
    asked = []

    async def elicit(context, params):
        asked.append("elicitation/create")
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def sample(context, params):
        asked.append("sampling/createMessage")
        content = types.TextContent(type="text", text="a sampled answer")
        return types.CreateMessageResult(role="assistant", content=content, model="none")

    server = target.get("url") or StdioServerParameters(**target)
    client = Client(
        server,
        mode=MODES[era],
        elicitation_callback=elicit,
        sampling_callback=sample,
        read_timeout_seconds=STEP_WITHIN,
    )
    async with client:
        say("connect", {"protocol": client.protocol_version})
        known = Steps(client, asked)
        for step in steps:
            try:
                say(step["do"], await getattr(known, step["do"])(step))
            except Exception as error:
                say(step["do"], {"error": repr(error)})


anyio.run(main, sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]))
