"""However the interpreter ends, no process is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest
from conftest import Server, is_running, wait_until

HEAD = """
import asyncio, os, sys
from mainstay_mcp import session

async def main():
    async with session({command!r}, env={env!r}) as opened:
        pid = (await opened.call_tool("pid", {{}})).content[0].text
        print(pid, flush=True)
        {ending}

asyncio.run(main())
"""


def start(server: Server, ending: str) -> tuple[subprocess.Popen[str], int]:
    code = HEAD.format(command=server.command, env=server.env, ending=ending)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


@pytest.mark.parametrize(
    "ending",
    [
        "return",
        "sys.exit(3)",
        "os._exit(3)",
        "raise LookupError",
        "os.kill(os.getpid(), 9)",
        "asyncio.create_task(opened.call_tool('sleep', {'seconds': 100})); await asyncio.sleep(0.05); raise LookupError",
        "asyncio.get_running_loop().stop(); await asyncio.sleep(100)",
    ],
)
def test_an_interpreter_that_ends_leaves_nothing(server: Server, nothing_left: Callable[[], None], ending: str) -> None:
    process, pid = start(server, ending)
    process.communicate(timeout=60)
    wait_until(lambda: not is_running(pid), "the server has ended")
    nothing_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_of_a_call_ends_the_program_and_its_server(
    server: Server, nothing_left: Callable[[], None], number: signal.Signals
) -> None:
    process, pid = start(server, "await opened.call_tool('crash_after_sleep', {'seconds': 100})")
    wait_until(lambda: server.logged()["crash_after_sleep"] == 1, "the call runs")
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    if number == signal.SIGINT:
        assert said.rstrip().endswith("KeyboardInterrupt"), said
    assert not Path(f"/proc/{process.pid}").exists()
    wait_until(lambda: not is_running(pid), "the server has ended")
    nothing_left()
    assert server.logged() == {"start": 1, "crash_after_sleep": 1}


def test_a_forked_child_that_lives_on_does_not_hold_the_server(server: Server) -> None:
    """The child has copies of the pipes, so the end of the input is never seen."""
    ending = "child = os.fork() or (os.close(1), os.close(2), __import__('time').sleep(20), os._exit(0)); print(child, flush=True)"
    process, pid = start(server, ending)
    process.communicate(timeout=60)
    assert process.returncode == 0
    wait_until(lambda: not is_running(pid), "the server has ended", 15)
