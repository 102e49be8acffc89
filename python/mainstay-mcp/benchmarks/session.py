"""The cost of `session()` over the SDK's own stdio, both in one run, in turns: python benchmarks/session.py [--shared]

The server is `mainstay demo-server` and the call is `echo`, whose result the SDK checks against no schema. It prints the ratios: minimum and
p50 of one call at a time, and calls per second with 32 tasks. The figures in docs/python.md were written down from it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import statistics
import time
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from mainstay_mcp import program, session

ROUNDS = 20
CALLS = 100
TASKS = 32
CALLS_OF_A_TASK = 20


async def open_plain(stack: AsyncExitStack) -> ClientSession:
    parameters = StdioServerParameters(command=program(), args=["demo-server"])
    streams = await stack.enter_async_context(stdio_client(parameters))
    opened = await stack.enter_async_context(ClientSession(*streams))
    await opened.initialize()
    return opened


async def one_at_a_time(opened: ClientSession) -> list[float]:
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        await opened.call_tool("echo", {"text": "hello"})
        times.append((time.perf_counter() - start) * 1e6)
    return times


async def calls_per_second(opened: ClientSession) -> float:
    async def task() -> None:
        for _ in range(CALLS_OF_A_TASK):
            await opened.call_tool("echo", {"text": "hello"})

    start = time.perf_counter()
    await asyncio.gather(*(task() for _ in range(TASKS)))
    return TASKS * CALLS_OF_A_TASK / (time.perf_counter() - start)


async def main(shared: bool) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        plain = await open_plain(stack)
        supervised = await stack.enter_async_context(session(program(), "demo-server", shared=shared))
        await one_at_a_time(plain)
        await one_at_a_time(supervised)
        times: dict[str, list[float]] = {"plain": [], "session": []}
        rates: dict[str, list[float]] = {"plain": [], "session": []}
        for _ in range(ROUNDS):
            for name, opened in (("plain", plain), ("session", supervised)):
                times[name] += await one_at_a_time(opened)
                rates[name].append(await calls_per_second(opened))
    low = {name: min(values) for name, values in times.items()}
    p50 = {name: statistics.median(values) for name, values in times.items()}
    rate = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "python": platform.python_version(),
        "mcp": version("mcp"),
        "shared": shared,
        "min_us": {name: round(value) for name, value in low.items()},
        "p50_us": {name: round(value) for name, value in p50.items()},
        "calls_per_second_32_tasks": {name: round(value) for name, value in rate.items()},
        "min_ratio": round(low["session"] / low["plain"], 2),
        "p50_ratio": round(p50["session"] / p50["plain"], 2),
        "rate_ratio_32_tasks": round(rate["session"] / rate["plain"], 2),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", action="store_true", help="measure a server that is shared through the daemon")
    print(json.dumps(asyncio.run(main(parser.parse_args().shared)), indent=1))
