"""A client of the control API on the unix socket of this user's daemon."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from typing import Any, AsyncGenerator, Awaitable, NoReturn, TypeVar, cast
from urllib.parse import quote, urlencode

from .api import ApiProblem, EventRecord, ProgramStatus, ServerStatus
from .errors import ControlError

T = TypeVar("T")

# The daemon is on this machine: a connection that takes longer is not taken at all.
_CONNECT_TIMEOUT_SECONDS = 5.0

# The service sends a sign of life every 15 s.
_SILENCE_TIMEOUT_SECONDS = 60.0

# An answer lists all servers with their last lines of stderr, some ten thousand bytes each.
_BODY_LIMIT = 64 * 1024 * 1024

# The longest event: a failure with its lines of stderr has some ten thousand bytes. Also the longest line of an answer's head.
_EVENT_LIMIT = 4 * 1024 * 1024

_HEADER_LINES_LIMIT = 100


class Mainstay:
    """The daemon of this user: what its servers do, and commands to them.

    Each request has a connection of its own, so one object may be used by many tasks, threads, event loops and forked processes.
    Every request ends within `timeout` seconds. Whatever fails is a `ControlError`.
    """

    def __init__(self, socket: str | os.PathLike[str] | None = None, *, timeout: float = 30.0) -> None:
        self._socket = None if socket is None else os.fspath(socket)
        self._timeout = timeout

    async def status(self) -> ProgramStatus:
        """The daemon itself: version, process, numbers of servers and sessions."""
        return cast(ProgramStatus, await self._request("GET", "/api/v1"))

    async def servers(self, *, processes: bool = True) -> list[ServerStatus]:
        """All servers with their status. `processes=False` leaves out memory and CPU, which are read from `/proc`."""
        path = "/api/v1/servers" if processes else "/api/v1/servers?processes=false"
        listed = (await self._request("GET", path)).get("servers")
        if not isinstance(listed, list):
            raise _bad_answer("it lists no servers")
        return cast("list[ServerStatus]", listed)

    async def server(self, name: str) -> ServerStatus:
        """One server."""
        return cast(ServerStatus, await self._request("GET", f"/api/v1/servers/{quote(name, safe='')}"))

    async def restart(self, name: str) -> ServerStatus:
        """Opens a new connection to the server at once: skips the backoff, renews the budget."""
        return cast(ServerStatus, await self._request("POST", f"/api/v1/servers/{quote(name, safe='')}/restart"))

    async def events(
        self, *, after: str | None = None, tail: int | None = None, server: str | None = None
    ) -> AsyncGenerator[EventRecord, None]:
        """What happens, from now on: `async for event in Mainstay().events(): …`.

        `after` continues after the event with that `id`, and `tail` begins so many events before now. An event of the type `lagged` says
        that events are missing at its place. The iterator ends when the daemon ends; continue with `after` at the next one. Leaving the
        loop early closes the connection when the iterator is closed: `contextlib.aclosing` does that at once.
        """
        options = {"after": after, "tail": tail, "server": server}
        query = urlencode({name: value for name, value in options.items() if value is not None})
        answer = await self._within(
            self._timeout, self._send("GET", f"/api/v1/events?{query}", accept="text/event-stream")
        )
        try:
            if answer.status != 200:
                _raise_problem(answer.status, await self._within(self._timeout, answer.read_whole()))
            async for kind, identifier, data in _read_events(answer):
                if kind in ("record", "lagged"):
                    record = _parse(data)
                    if kind == "lagged":
                        record["type"] = "lagged"
                    elif identifier is not None:
                        record["id"] = identifier
                    yield cast(EventRecord, record)
        finally:
            answer.close()

    async def _request(self, method: str, path: str) -> dict[str, Any]:
        async def exchange() -> tuple[int, bytes]:
            answer = await self._send(method, path, accept="application/json")
            try:
                return answer.status, await answer.read_whole()
            finally:
                answer.close()

        status, body = await self._within(self._timeout, exchange())
        if not 200 <= status < 300:
            _raise_problem(status, body)
        return _parse(body)

    async def _send(self, method: str, path: str, *, accept: str) -> _Answer:
        socket = self._socket or _find_socket()
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_unix_connection(socket, limit=_EVENT_LIMIT), _CONNECT_TIMEOUT_SECONDS
            )
        except (OSError, asyncio.TimeoutError) as error:
            raise _no_daemon(socket) from error
        try:
            head = (
                f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nUser-Agent: mainstay-mcp (Python)\r\n"
                "Content-Length: 0\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode("ascii"))
            await writer.drain()
            return await _Answer.read_head(reader, writer)
        except BaseException:
            writer.close()
            raise

    async def _within(self, seconds: float, work: Awaitable[T]) -> T:
        try:
            return await asyncio.wait_for(work, seconds)
        except asyncio.TimeoutError:
            raise ControlError(
                f"the daemon did not answer within {seconds:g} s",
                where=self._socket or "its socket",
                remedy="run `mainstay doctor`, or give Mainstay() a longer timeout",
                kind="timed_out",
            ) from None
        except (OSError, asyncio.IncompleteReadError) as error:
            raise _connection_lost() from error


class _Answer:
    """An answer whose head was read."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, status: int, headers: dict[str, str]
    ) -> None:
        self.status = status
        self._reader = reader
        self._writer = writer
        self._is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        length = headers.get("content-length")
        if length is not None and not length.isdecimal():
            raise _bad_answer(f"its length is {length!r}")
        self._left = None if length is None else int(length)

    @classmethod
    async def read_head(cls, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> _Answer:
        words = (await _read_line(reader)).split(maxsplit=2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
            raise _bad_answer("it is not HTTP")
        headers: dict[str, str] = {}
        for _ in range(_HEADER_LINES_LIMIT):
            line = await _read_line(reader)
            if not line:
                return cls(reader, writer, int(words[1]), headers)
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        raise _bad_answer(f"it has more than {_HEADER_LINES_LIMIT} headers")

    async def read_part(self) -> bytes:
        """The next bytes of the body; none at its end."""
        if self._is_chunked:
            size_line = (await _read_line(self._reader)).partition(";")[0]
            try:
                size = int(size_line, 16)
            except ValueError:
                raise _bad_answer("its body is not chunked") from None
            if size > _BODY_LIMIT:
                raise _bad_answer(f"a part of it is longer than {_BODY_LIMIT} bytes")
            part = await self._reader.readexactly(size)
            await _read_line(self._reader)
            return part
        if self._left is None:
            return await self._reader.read(65536)
        part = await self._reader.read(min(65536, self._left)) if self._left else b""
        if not part and self._left:
            raise asyncio.IncompleteReadError(b"", self._left)
        self._left -= len(part)
        return part

    async def read_whole(self) -> bytes:
        body = bytearray()
        while part := await self.read_part():
            body += part
            if len(body) > _BODY_LIMIT:
                raise _bad_answer(f"it is longer than {_BODY_LIMIT} bytes")
        return bytes(body)

    def close(self) -> None:
        self._writer.close()


async def _read_events(answer: _Answer) -> AsyncGenerator[tuple[str, str | None, bytes], None]:
    """The server-sent events of a body: kind, id and data. The service ends lines with a line feed alone."""
    unread = bytearray()
    while True:
        try:
            part = await asyncio.wait_for(answer.read_part(), _SILENCE_TIMEOUT_SECONDS)
        except asyncio.TimeoutError:
            raise ControlError(
                f"the daemon sent nothing for {_SILENCE_TIMEOUT_SECONDS:.0f} s",
                remedy="run `mainstay doctor`",
                kind="timed_out",
            ) from None
        except (OSError, asyncio.IncompleteReadError):
            # The daemon ended in the middle of a part, as a daemon that is killed does.
            return
        if not part:
            return
        unread += part
        *blocks, rest = bytes(unread).split(b"\n\n")
        unread = bytearray(rest)
        if len(unread) > _EVENT_LIMIT:
            raise _bad_answer(f"an event is longer than {_EVENT_LIMIT} bytes")
        for block in blocks:
            fields: dict[bytes, bytes] = {}
            for line in block.split(b"\n"):
                name, _, value = line.partition(b":")
                fields[name] = fields.get(name, b"") + value.removeprefix(b" ")
            if b"event" in fields:
                identifier = fields.get(b"id")
                known = None if identifier is None else identifier.decode()
                yield fields[b"event"].decode(), known, fields.get(b"data", b"")


async def _read_line(reader: asyncio.StreamReader) -> str:
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.LimitOverrunError:
        raise _bad_answer(f"a line of it is longer than {_EVENT_LIMIT} bytes") from None
    return line.decode("latin-1").rstrip("\r\n")


def _find_socket() -> str:
    """Where the daemon of this user listens, by the rules of the program (docs/daemon.md)."""
    user = os.geteuid()
    override = os.environ.get("MAINSTAY_RUNTIME")
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if override:
        directory = override
    elif os.path.isabs(base) and os.path.isdir(base):
        directory = os.path.join(base, "mainstay")
    else:
        directory = f"/tmp/mainstay-{user}"
    socket = os.path.join(directory, "daemon.sock")
    try:
        # Not followed: a link in /tmp may be another user's.
        found = os.lstat(directory)
    except OSError as error:
        raise _no_daemon(socket) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user or found.st_mode & 0o022:
        raise ControlError(
            "the daemon's directory is not one that only this user can write to",
            where=directory,
            remedy="set MAINSTAY_RUNTIME to a directory of your own, for the daemon too",
            kind="no_daemon",
        )
    return socket


def _parse(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body)
    except ValueError:
        raise _bad_answer("it is not JSON") from None
    if not isinstance(parsed, dict):
        raise _bad_answer("it is not a JSON object")
    return parsed


def _raise_problem(status: int, body: bytes) -> NoReturn:
    problem = cast(ApiProblem, _parse(body))
    raise ControlError(
        problem.get("title") or f"the daemon refused the request with status {status}",
        where=problem.get("where") or "",
        remedy=problem.get("remedy") or "",
        kind=problem.get("kind") or "unknown",
        status=status,
    )


def _no_daemon(socket: str) -> ControlError:
    return ControlError(
        "no daemon of Mainstay runs for this user",
        where=socket,
        remedy="start it with `mainstay daemon start`, or set MAINSTAY_RUNTIME as it is set for the daemon",
        kind="no_daemon",
    )


def _connection_lost() -> ControlError:
    return ControlError(
        "the daemon closed the connection before it answered", remedy="ask again", kind="connection_lost"
    )


def _bad_answer(what: str) -> ControlError:
    return ControlError(
        f"the daemon's answer cannot be read: {what}", remedy="install the package and the program from one release", kind="bad_answer"
    )
