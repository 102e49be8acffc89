from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any, AsyncIterator, Awaitable, Callable, Iterator

import pytest
from conftest import HERE, Server, text

from mainstay_mcp import ControlError, Mainstay, program, session

pytestmark = pytest.mark.anyio


@pytest.fixture
def daemon(own_places: Path) -> Iterator[None]:
    """Whatever daemon a test caused is stopped."""
    yield
    subprocess.run([program(), "-q", "daemon", "stop"], capture_output=True, timeout=60)


@pytest.fixture
async def answering(own_places: Path) -> AsyncIterator[Callable[[bytes], Awaitable[Mainstay]]]:
    """A socket that answers each request with these bytes, and then closes; without bytes it never answers."""
    path = own_places / "fake.sock"
    servers: list[asyncio.AbstractServer] = []

    async def answer_with(content: bytes) -> Mainstay:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            if content:
                writer.write(content)
                writer.close()
            else:
                await reader.read()
                writer.close()

        servers.append(await asyncio.start_unix_server(serve, path))
        return Mainstay(path, timeout=0.3 if not content else 30)

    yield answer_with
    for server in servers:
        server.close()


async def test_servers_status_restart_and_events(server: Server, daemon: None) -> None:
    async with session(server.command, env=server.env, shared=True) as opened:
        first = text(await opened.call_tool("pid", {}))
        mainstay = Mainstay()
        status = await mainstay.status()
        assert (status["role"], status["servers"]) == ("daemon", 1)
        (listed,) = await mainstay.servers()
        assert listed["state"] == "connected"
        assert listed["starts"] == 1
        assert (await mainstay.servers(processes=False))[0]["name"] == listed["name"]

        kept = [event async for event in _until(mainstay, "connected", tail=100)]
        assert kept[-1]["server"] == listed["name"]
        assert kept[-1]["from"] == "connecting"
        # An id names the run of the daemon, so that nothing is missed between two streams.
        last = kept[-1]["id"]
        assert last.startswith(status["instance"] + ".")
        await mainstay.restart(listed["name"])
        expected = {("command", "restart"), ("transition", "connected")}
        async with aclosing(mainstay.events(after=last, server=listed["name"])) as events:
            async for event in events:
                expected.discard((event["type"], event["command"] if event["type"] == "command" else event.get("to", "")))
                if not expected:
                    break
        assert text(await opened.call_tool("pid", {})) != first
        assert (await mainstay.server(listed["name"]))["starts"] == 2


async def _until(mainstay: Mainstay, state: str, **options: Any) -> AsyncIterator[Any]:
    async with aclosing(mainstay.events(**options)) as events:
        async for event in events:
            yield event
            if event["type"] == "transition" and event["to"] == state:
                return


async def test_the_events_end_with_the_daemon(server: Server, daemon: None) -> None:
    async with session(server.command, env=server.env, shared=True):
        events = Mainstay().events(tail=1000)
        first = await events.__anext__()
        assert first["id"]
        process = await asyncio.create_subprocess_exec(program(), "-q", "daemon", "stop")
        async for _ in events:
            pass
        assert await process.wait() == 0


async def test_a_server_that_does_not_exist_is_refused_with_what_helps(server: Server, daemon: None) -> None:
    async with session(server.command, env=server.env, shared=True):
        (listed,) = await Mainstay().servers()
        with pytest.raises(ControlError) as raised:
            await Mainstay().restart(listed["name"] + "x/y")
        assert (raised.value.kind, raised.value.status) == ("unknown_server", 404)
        assert listed["name"] in raised.value.remedy


async def test_the_types_are_those_of_the_openapi_document(server: Server, daemon: None, own_places: Path) -> None:
    import mainstay_mcp.api

    async with session(server.command, env=server.env, shared=True):
        document = await Mainstay()._request("GET", "/api/v1/openapi.json")
    path = own_places / "openapi.json"
    path.write_text(json.dumps(document))
    generator = HERE.parent / "generate_api.py"
    written = subprocess.run([sys.executable, generator, path], capture_output=True, text=True, timeout=60, check=True).stdout
    remedy = "write it anew: python generate_api.py OPENAPI.json > src/mainstay_mcp/api.py"
    assert Path(mainstay_mcp.api.__file__).read_text() == written, remedy


async def test_without_a_daemon_the_remedy_says_how_to_start_one(own_places: Path) -> None:
    for socket in (None, own_places / "none.sock"):
        with pytest.raises(ControlError, match="mainstay daemon start") as raised:
            await Mainstay(socket).status()
        assert raised.value.kind == "no_daemon"


async def test_a_directory_that_others_can_write_to_is_refused(own_places: Path) -> None:
    (own_places / "run").chmod(0o777)
    with pytest.raises(ControlError, match="only this user can write"):
        await Mainstay().status()


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "timed_out"),
        (b"\n", "bad_answer"),
        (b"HTTP/1.1 200 OK\r\n", "connection_lost"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "connection_lost"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}", "bad_answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "bad_answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "bad_answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n", "bad_answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 101 + b"\r\n{}", "bad_answer"),
        (b"HTTP/1.1 500 no\r\nContent-Length: 2\r\n\r\n{}", "unknown"),
    ],
)
async def test_an_answer_that_is_none_is_an_error_and_never_a_hang(
    answering: Callable[[bytes], Awaitable[Mainstay]], content: bytes, kind: str
) -> None:
    mainstay = await answering(content)
    with pytest.raises(ControlError) as raised:
        await mainstay.status()
    assert raised.value.kind == kind
    with pytest.raises(ControlError) as raised:
        async for _ in mainstay.events():
            pass
        raise ControlError("the stream ended", kind=kind)
    assert raised.value.kind == kind


async def test_an_answer_in_chunks_is_read_whole(answering: Callable[[bytes], Awaitable[Mainstay]]) -> None:
    chunked = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"pid\r\n5\r\n": 7}\r\n0\r\n\r\n'
    assert (await (await answering(chunked)).status())["pid"] == 7


async def test_events_are_read_also_if_they_come_in_parts(answering: Callable[[bytes], Awaitable[Mainstay]]) -> None:
    parts = [
        b"retry: 1000\n: open\n\nid: a.1\nevent: rec",
        b'ord\ndata: {"type": "added"}\n\n:\n',
        b'\nevent: lagged\ndata: {"lost": 4, "reason": "lagged"}\n\nevent: later\ndata: {}\n\n',
    ]
    body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    mainstay = await answering(head + body + b"0\r\n\r\n")
    found = [event async for event in mainstay.events()]
    assert found == [{"type": "added", "id": "a.1"}, {"type": "lagged", "lost": 4, "reason": "lagged"}]
