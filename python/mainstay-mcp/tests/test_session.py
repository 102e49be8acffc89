from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import sys
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, AsyncIterator, Callable

import anyio
import mcp
import pytest
from conftest import Server, kill_and_wait, text

from mainstay_mcp import ServerError, WrongContextError, _session, outcome, program, session, transport

SDK_ERROR: Any = getattr(mcp, "MCPError", None) or getattr(mcp, "McpError")


@pytest.mark.anyio
async def test_a_session_is_the_sdks_own_and_survives_a_crash(server: Server, nothing_left: Callable[[], None]) -> None:
    async with session(server.command, env=server.env) as opened:
        assert type(opened) is mcp.ClientSession
        first = int(text(await opened.call_tool("pid", {})))
        kill_and_wait(first)
        second = int(text(await opened.call_tool("pid", {})))
        assert first != second
    assert server.logged() == {"start": 2}
    nothing_left()


@pytest.mark.anyio
async def test_ten_parallel_calls_after_a_crash_cause_one_start_and_are_all_answered(server: Server) -> None:
    async with session(server.command, env=server.env) as opened:
        first = int(text(await opened.call_tool("pid", {})))
        kill_and_wait(first)
        results = await asyncio.gather(*(opened.call_tool("pid", {}) for _ in range(10)))
    assert [outcome(result) for result in results] == ["ok"] * 10
    assert len({text(result) for result in results} - {str(first)}) == 1
    assert server.logged() == {"start": 2}


@pytest.mark.anyio
async def test_a_thousand_calls_cancelled_at_random_leave_a_session_that_works(server: Server) -> None:
    draw = random.Random(7)
    descriptors = Path("/proc/self/fd")
    async with session(server.command, env=server.env) as opened:
        pid = text(await opened.call_tool("pid", {}))
        before = len(list(descriptors.iterdir()))
        ended = 0

        async def call(seconds: float, patience: float) -> None:
            nonlocal ended
            with anyio.move_on_after(patience):
                await opened.call_tool("sleep", {"seconds": seconds})
            ended += 1

        for _ in range(50):
            async with anyio.create_task_group() as group:
                for _ in range(20):
                    group.start_soon(call, draw.random() * 0.02, draw.random() * 0.02)
        assert ended == 1000
        assert text(await opened.call_tool("pid", {})) == pid
        assert len(list(descriptors.iterdir())) == before


@pytest.mark.anyio
async def test_a_reader_that_fails_while_the_block_is_left_is_not_the_callers_cancellation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in 1.x, if an answer arrives while the session closes its streams."""
    leaving = anyio.Event()

    @asynccontextmanager
    async def stdio_client(_: object) -> AsyncIterator[tuple[None, None]]:
        async def read() -> None:
            await leaving.wait()
            raise anyio.BrokenResourceError

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            yield None, None

    scripted = SimpleNamespace(stdio_client=stdio_client, StdioServerParameters=lambda **_: None)
    monkeypatch.setattr(_session, "_import_stdio", lambda: scripted)
    async with transport("server"):
        leaving.set()
        await anyio.sleep(60)


@pytest.mark.anyio
async def test_a_deadline_around_a_session_ends_the_block(server: Server) -> None:
    went_on = False
    for _ in range(2):
        with anyio.move_on_after(0.3) as scope:
            async with session(server.command, env=server.env) as opened:
                for _ in range(10):
                    with anyio.move_on_after(0.0002):
                        await opened.call_tool("sleep", {"seconds": 0.3})
                await opened.call_tool("sleep", {"seconds": 60})
            went_on = True
        assert scope.cancelled_caught
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_sleep_in_session(server), 0.3)
    assert not went_on


async def _sleep_in_session(server: Server) -> None:
    async with session(server.command, env=server.env) as opened:
        await opened.call_tool("sleep", {"seconds": 60})


@pytest.mark.anyio
async def test_each_outcome_is_what_happened(server: Server) -> None:
    async with session(server.command, env=server.env) as opened:
        assert outcome(await opened.call_tool("echo", {"text": "x"})) == "ok"
        assert outcome(await opened.call_tool("fail", {})) == "answered"
        with pytest.raises(SDK_ERROR) as raised:
            await opened.call_tool("no_such_tool", {})
        assert outcome(raised.value) == "answered"
        assert outcome(await opened.call_tool("crash", {})) == "unknown"
        assert outcome(await opened.call_tool("add_line", {})) == "ok"

        pid = int(text(await opened.call_tool("pid", {})))
        server.script.unlink()
        kill_and_wait(pid)
        assert outcome(await opened.call_tool("add_line", {})) == "not_sent"
    assert server.logged() == {"start": 2, "fail": 1, "no_such_tool": 1, "crash": 1, "add_line": 1}


@pytest.mark.anyio
async def test_a_call_that_a_server_over_http_refuses_is_refused(refusing_server: str) -> None:
    async with session(program(), "wrap", "-q", "--url", refusing_server) as opened:
        assert outcome(await opened.call_tool("anything", {})) == "refused"


@pytest.mark.anyio
async def test_a_call_whose_answer_never_comes_is_unknown(server: Server) -> None:
    async with transport(server.command, env=server.env) as streams:
        from datetime import timedelta

        # 1.x takes a timedelta, 2.x seconds.
        limit: Any = 0.2 if hasattr(mcp, "MCPError") else timedelta(seconds=0.2)
        async with mcp.ClientSession(*streams) as opened:
            await opened.initialize()
            with pytest.raises(SDK_ERROR) as raised:
                await opened.call_tool("sleep", {"seconds": 50}, read_timeout_seconds=limit)
            assert outcome(raised.value) == "unknown"


@pytest.mark.anyio
async def test_a_command_that_does_not_exist_is_a_server_error() -> None:
    with pytest.raises(ServerError, match="not found") as raised:
        async with session("/no/such/command"):
            pass
    assert raised.value.where == "/no/such/command"
    assert raised.value.facts["state"] == "permanently_failed"
    assert outcome(raised.value) == "not_sent"
    assert outcome(raised.value.__cause__) == "not_sent"


@pytest.mark.anyio
async def test_an_exception_leaves_the_block_as_it_is(server: Server) -> None:
    with pytest.raises(LookupError, match="mine"):
        async with session(server.command, env=server.env):
            raise LookupError("mine")


@pytest.mark.anyio
async def test_variables_and_directory_reach_the_server(server: Server, own_places: Path) -> None:
    (own_places / "inner").mkdir()
    for shared in (False, True):
        environment = {**server.env, "COLOUR": "blue"}
        async with session(server.command, env=environment, cwd=own_places / "inner", shared=shared) as opened:
            assert text(await opened.call_tool("variable", {"name": "COLOUR"})) == "blue"
            pid = text(await opened.call_tool("pid", {}))
            assert os.readlink(f"/proc/{pid}/cwd") == str(own_places / "inner")


def test_two_event_loops_in_two_threads_and_one_after_another(server: Server) -> None:
    async def pid() -> str:
        async with session(server.command, env=server.env) as opened:
            answers = [text(await opened.call_tool("pid", {})) for _ in range(20)]
            assert len(set(answers)) == 1
            return answers[0]

    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(asyncio.run(pid()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found += [asyncio.run(pid()), asyncio.run(pid())]
    assert len(set(found)) == 4


def test_a_session_of_another_event_loop_is_refused(server: Server) -> None:
    opened: list[mcp.ClientSession] = []
    ready, done = threading.Event(), threading.Event()

    async def hold() -> None:
        async with session(server.command, env=server.env) as mine:
            opened.append(mine)
            ready.set()
            await asyncio.get_running_loop().run_in_executor(None, done.wait, 60)

    async def use() -> None:
        await opened[0].call_tool("pid", {})

    holder = threading.Thread(target=lambda: asyncio.run(hold()))
    holder.start()
    assert ready.wait(60)
    with pytest.raises(WrongContextError, match="event loop") as raised:
        asyncio.run(use())
    assert outcome(raised.value) == "not_sent"
    done.set()
    holder.join(60)
    with pytest.raises(WrongContextError, match="closed"):
        asyncio.run(use())


@pytest.mark.anyio
async def test_a_forked_child_is_refused_and_its_parent_goes_on(server: Server) -> None:
    async with session(server.command, env=server.env) as opened:
        child = os.fork()
        if child == 0:
            try:
                await opened.call_tool("pid", {})
            except WrongContextError:
                os._exit(0)
            except BaseException:
                os._exit(1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert outcome(await opened.call_tool("pid", {})) == "ok"


def _use_in_child(opened: mcp.ClientSession, command: str, env: dict[str, str]) -> None:
    async def use() -> None:
        with pytest.raises(WrongContextError, match="forked"):
            await opened.call_tool("pid", {})
        async with session(command, env=env) as own:
            await own.call_tool("pid", {})

    asyncio.run(use())


def test_a_child_of_multiprocessing_opens_a_session_of_its_own(server: Server) -> None:
    async def main() -> int | None:
        async with session(server.command, env=server.env) as opened:
            arguments: Any = (opened, server.command, server.env)
            child = multiprocessing.get_context("fork").Process(target=_use_in_child, args=arguments)
            child.start()
            await asyncio.get_running_loop().run_in_executor(None, child.join, 60)
            return child.exitcode

    assert asyncio.run(main()) == 0


@pytest.mark.skipif(not hasattr(mcp, "Client"), reason="the client of 2.x")
@pytest.mark.anyio
async def test_the_client_of_the_newer_sdk_takes_the_transport(server: Server) -> None:
    async with mcp.Client(transport(server.command, env=server.env)) as client:  # type: ignore[attr-defined,unused-ignore]
        first = int(text(await client.call_tool("pid", {})))
        kill_and_wait(first)
        assert int(text(await client.call_tool("pid", {}))) != first


@pytest.mark.anyio
async def test_a_server_on_the_installed_sdk_is_supervised(own_places: Path) -> None:
    script = own_places / "sdk_server.py"
    script.write_text(
        "import os\n"
        "try:\n    from mcp.server.fastmcp import FastMCP as Server\n"
        "except ImportError:\n    from mcp.server.mcpserver import MCPServer as Server\n"
        "server = Server('sdk')\n"
        "@server.tool()\ndef pid() -> int:\n    return os.getpid()\n"
        "server.run()\n"
    )
    async with session(sys.executable, str(script)) as opened:
        first = int(text(await opened.call_tool("pid", {})))
        kill_and_wait(first)
        assert int(text(await opened.call_tool("pid", {}))) != first
