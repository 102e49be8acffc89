"""The examples of docs/python.md run, and no framework repeats a call that may have run. Frameworks that are not installed are skipped."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import HERE, Server, kill_and_wait

from mainstay_mcp import outcome, session

pytestmark = pytest.mark.anyio


async def test_langchain_tools_survive_a_crash_and_are_not_repeated(server: Server) -> None:
    tools_module = pytest.importorskip("langchain_mcp_adapters.tools")
    async with session(server.command, env=server.env) as opened:
        tools = {tool.name: tool for tool in await tools_module.load_mcp_tools(opened)}
        answer = await tools["pid"].ainvoke({})
        kill_and_wait(int(answer[0]["text"]))
        assert (await tools["pid"].ainvoke({}))[0]["text"] != answer[0]["text"]
        call = {"type": "tool_call", "id": "1", "name": "crash", "args": {}}
        message = await tools["crash"].ainvoke(call)
        assert message.status == "error"
        assert "may have run: check its effects" in str(message.content)
    assert server.logged()["crash"] == 1


async def test_langchains_retries_can_be_limited_to_calls_that_did_not_run(server: Server) -> None:
    tools_module = pytest.importorskip("langchain_mcp_adapters.tools")
    exceptions = pytest.importorskip("langchain_core.tools")
    async with session(server.command, env=server.env) as opened:
        tools = {tool.name: tool for tool in await tools_module.load_mcp_tools(opened, handle_tool_errors=False)}
        with pytest.raises(exceptions.ToolException) as raised:
            await tools["crash"].ainvoke({})
        assert outcome(raised.value) == "unknown"


async def test_openai_agents_survive_a_crash_and_do_not_repeat(server: Server) -> None:
    pytest.importorskip("agents")
    from mainstay_mcp.integrations.openai_agents import SupervisedServer

    async with SupervisedServer(server.command, env=server.env) as supervised:
        first: Any = await supervised.call_tool("pid", {})
        kill_and_wait(int(first.content[0].text))
        assert outcome(await supervised.call_tool("pid", {})) == "ok"
        assert outcome(await supervised.call_tool("crash", {})) == "unknown"
        assert outcome(await supervised.call_tool("pid", {})) == "ok"
    assert server.logged() == {"start": 3, "crash": 1}
    with pytest.raises(TypeError, match="max_retry_attempts"):
        SupervisedServer(server.command, max_retry_attempts=3)


async def test_an_agent_of_openai_reads_that_the_call_may_have_run(server: Server) -> None:
    agents = pytest.importorskip("agents")
    from agents.items import ModelResponse
    from agents.usage import Usage
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    from mainstay_mcp.integrations.openai_agents import SupervisedServer

    seen: list[Any] = []

    class Script(agents.Model):  # type: ignore[misc, name-defined, unused-ignore]
        """Calls the tool once, and then ends."""

        async def get_response(self, *_: Any, **options: Any) -> ModelResponse:
            seen.append(options.get("input"))
            output: list[Any]
            if len(seen) == 1:
                output = [ResponseFunctionToolCall(type="function_call", call_id="1", name="crash", arguments="{}")]
            else:
                words = ResponseOutputText(type="output_text", text="done", annotations=[])
                output = [ResponseOutputMessage(type="message", id="1", role="assistant", status="completed", content=[words])]
            return ModelResponse(output=output, usage=Usage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    async with SupervisedServer(server.command, env=server.env) as supervised:
        agents.set_tracing_disabled(True)
        agent = agents.Agent(name="a", model=Script(), mcp_servers=[supervised])
        ran = await agents.Runner.run(agent, "go")
    assert ran.final_output == "done"
    assert "may have run: check its effects" in json.dumps(seen[1], default=str)
    assert server.logged()["crash"] == 1


async def test_an_agent_of_pydantic_ai_survives_a_crash_and_is_not_asked_to_repeat(server: Server) -> None:
    pytest.importorskip("pydantic_ai.mcp")
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from mainstay_mcp.integrations.pydantic_ai import SupervisedToolset

    plan = ["pid", "crash", "pid"]
    seen: list[Any] = []

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(messages[-1].parts[-1])
        if len(seen) > len(plan):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart(plan[len(seen) - 1], {})])

    agent = Agent(FunctionModel(script), toolsets=[SupervisedToolset(server.command, env=server.env)])
    assert (await agent.run("go")).output == "done"
    assert [part.outcome for part in seen[1:]] == ["success", "failed", "success"]
    assert "may have run: check its effects" in str(seen[2].content)
    assert seen[1].content != seen[3].content
    assert server.logged()["crash"] == 1


async def test_pydantic_ai_does_not_repeat_a_call_whose_connection_was_lost(server: Server) -> None:
    toolsets = pytest.importorskip("pydantic_ai.mcp")
    import mcp
    from pydantic_ai.exceptions import ModelRetry, ToolFailed

    from mainstay_mcp.integrations.pydantic_ai import SupervisedToolset

    errors: list[Any] = []

    async def fail(*_: Any, **__: Any) -> None:
        error: Any = getattr(mcp, "MCPError")(*errors[0])
        raise ModelRetry("lost") from error

    with pytest.raises(TypeError, match="tool_error_behavior"):
        SupervisedToolset(server.command, tool_error_behavior="retry")
    toolset = SupervisedToolset(server.command, env=server.env)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toolsets.MCPToolset, "call_tool", fail)
        errors[:] = [(-32000, "Connection closed")]
        with pytest.raises(ToolFailed, match="lost"):
            await toolset.call_tool("crash", {}, None, None)
        errors[:] = [(-32602, "wrong arguments")]
        with pytest.raises(ModelRetry, match="lost"):
            await toolset.call_tool("crash", {}, None, None)


DOCUMENT = HERE.parents[2] / "docs" / "python.md"


@pytest.mark.skipif(not DOCUMENT.exists(), reason="the documents are in the repository")
@pytest.mark.parametrize("place", [DOCUMENT, HERE.parent / "README.md"])
def test_every_example_of_the_documents_compiles_and_names_only_what_exists(place: Path) -> None:
    import ast

    import mainstay_mcp

    examples = re.findall(r"```python\n(.*?)```", place.read_text(), re.DOTALL)
    assert examples
    for example in examples:
        tree = ast.parse(example)
        compile(tree, str(place), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "mainstay_mcp":
                assert {name.name for name in node.names} <= set(mainstay_mcp.__all__)
