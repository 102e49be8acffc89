"""Sessions of the installed MCP SDK, 1.19 and later or 2.x, at a server that Mainstay supervises.

Nothing of the SDK is imitated: the transport is its own `stdio_client` with the program in front of the server's command, and the
session is its own `ClientSession`. The SDK is imported when the first of them is used.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, AsyncIterator, Mapping

from ._program import program
from .errors import MainstayError, SdkError, ServerError, WrongContextError

if TYPE_CHECKING:
    from mcp import ClientSession

# The first version of the SDK whose sessions were tried.
_OLDEST_SDK = (1, 19)

# Of anyio, by their names: the SDK brings anyio, and nothing else of it is needed here.
_CLOSED_STREAM_ERRORS = ("BrokenResourceError", "ClosedResourceError")

_PREFIXES_FOR_PROGRAM = ("MAINSTAY_", "XDG_")


@asynccontextmanager
async def transport(
    command: str,
    *args: str,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    shared: bool = False,
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a supervised server, as `mcp.client.stdio.stdio_client` yields them: for `ClientSession` and for frameworks.

    The server is started on the first request, and again whenever it ends. Its environment is the SDK's (`HOME`, `LOGNAME`, `PATH`,
    `SHELL`, `TERM`, `USER`) and `env`. With `shared`, one server serves all programs of this user that name the same command,
    arguments, directory and variables, and outlives them by a minute; without, it is this transport's own and ends with it.

    Raises `ProgramError`, `SdkError`, or `MainstayError` if the directory does not exist. Enter and leave it in the same task.
    """
    stdio = _import_stdio()
    path = program()
    if cwd is not None and not os.path.isdir(cwd):
        raise MainstayError(
            "the server's working directory does not exist", where=os.fspath(cwd), remedy="create it, or correct cwd"
        )
    server = dict(env or {})
    if shared:
        named = [word for name in server for word in ("--env", name)]
        words = ["connect", "-q", *named, "--", command, *args]
    else:
        words = ["wrap", "-q", "--", command, *args]
    own = {name: value for name, value in os.environ.items() if name.startswith(_PREFIXES_FOR_PROGRAM)}
    parameters = stdio.StdioServerParameters(command=path, args=words, env={**own, **server}, cwd=cwd)
    own_error: BaseException | None = None
    try:
        async with stdio.stdio_client(parameters) as (read_stream, write_stream):
            try:
                yield read_stream, _ContextCheckingStream(write_stream)
            except BaseException as error:
                own_error = error
                raise
    except BaseException as error:
        await _raise_what_matters(error, own_error)


@asynccontextmanager
async def session(
    command: str,
    *args: str,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    shared: bool = False,
    **options: Any,
) -> AsyncIterator[ClientSession]:
    """An initialized `mcp.ClientSession` at a supervised server; `options` are those of `ClientSession`.

    The session stays open when the server crashes: a call waits for the new server, and one that was lost says so (`outcome`).
    An exception that leaves the block arrives as it is, not in an `ExceptionGroup`.

    Raises what `transport` raises, and `ServerError` if the server does not come up. Enter and leave it in the same task.
    """
    _import_stdio()
    from mcp import ClientSession

    own_error: BaseException | None = None
    try:
        async with transport(command, *args, env=env, cwd=cwd, shared=shared) as streams:
            async with ClientSession(*streams, **options) as opened:
                try:
                    await opened.initialize()
                except Exception as error:
                    raise _explain_failed_start(error, command) from error
                _check_requests(opened, streams[1])
                _tolerate_late_answers(opened)
                try:
                    yield opened
                except BaseException as error:
                    own_error = error
                    raise
    except BaseException as error:
        await _raise_what_matters(error, own_error)


def _import_stdio() -> Any:
    """The SDK's module `mcp.client.stdio`, if the SDK is new enough."""
    from importlib.metadata import PackageNotFoundError, version

    remedy = "install it with `pip install 'mcp>=1.19'`"
    try:
        found = version("mcp")
        import mcp.client.stdio
    except (ImportError, PackageNotFoundError) as error:
        raise SdkError(f"the MCP Python SDK cannot be imported ({error})", where="package mcp", remedy=remedy) from error
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    if numbers < _OLDEST_SDK:
        raise SdkError(
            f"the MCP Python SDK {found} is older than {'.'.join(map(str, _OLDEST_SDK))}", where="package mcp", remedy=remedy
        )
    return mcp.client.stdio


def _explain_failed_start(error: Exception, command: str) -> Exception:
    """A server that does not come up is reported by the program in the answer to `initialize`."""
    answer = getattr(error, "error", None)
    data = getattr(answer, "data", None)
    facts = data.get("mainstay") if isinstance(data, Mapping) else None
    if isinstance(facts, Mapping):
        remedy = "correct the command, or see what the server wrote to stderr"
        return ServerError(str(getattr(answer, "message", error)).rstrip("."), where=command, remedy=remedy, facts=facts)
    if getattr(answer, "code", None) == -32000:
        return ServerError(
            "the program ended before the session was open", where=command, remedy="see what it wrote to stderr", facts={}
        )
    return error


async def _raise_what_matters(error: BaseException, own_error: BaseException | None) -> None:
    """Raises what ended a block: `own_error`, which the block raised itself, or `error`, which came out of the SDK's task groups.

    A group of one exception says nothing more than that exception. And 1.x ends with an error if the server still answered while the
    session was being closed, such as the calls that were cancelled before: nobody misses those answers.
    """
    matters = [leaf for leaf in _leaves(error) if type(leaf).__name__ not in _CLOSED_STREAM_ERRORS]
    if len(matters) > 1:
        raise error
    only = matters[0] if matters else own_error
    if not matters and isinstance(own_error, asyncio.CancelledError) and "cancel scope" in str(own_error):
        # The task group of 1.x was cancelled because of such an error. A scope around this block that is cancelled raises again here.
        from anyio.lowlevel import checkpoint_if_cancelled

        await checkpoint_if_cancelled()
        return
    if only is not None:
        raise only from only.__cause__


def _leaves(error: BaseException) -> list[BaseException]:
    # The builtin class of groups is missing before Python 3.11.
    members = getattr(error, "exceptions", None)
    if not isinstance(members, tuple):
        return [error]
    return [leaf for member in members for leaf in _leaves(member)]


class _ContextCheckingStream:
    """The stream that requests are written to. It refuses those of a forked process and of another event loop.

    Nothing reads the stream there, so they would wait for ever.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._process = os.getpid()
        self._loop = _running_loop()

    def check_context(self) -> None:
        if os.getpid() != self._process:
            raise WrongContextError(
                "the session belongs to the process that opened it",
                where=f"process {os.getpid()}, forked from {self._process}",
                remedy="open a session of its own in the forked process, or start processes with `spawn`",
            )
        if _running_loop() is not self._loop:
            closed = self._loop is not None and self._loop.is_closed()
            raise WrongContextError(
                "the session belongs to the event loop that opened it" + (", which is closed" if closed else ""),
                where="another event loop",
                remedy="open and use a session within one `asyncio.run`",
            )

    async def send(self, item: Any) -> None:
        self.check_context()
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> _ContextCheckingStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _check_requests(opened: ClientSession, stream: _ContextCheckingStream) -> None:
    """Has the session refuse a request before the SDK awaits anything for it: in a forked child, on Python 3.10, that fails obscurely."""
    send_request = opened.send_request

    async def send_checked_request(*args: Any, **options: Any) -> Any:
        stream.check_context()
        return await send_request(*args, **options)

    # On this one object, so that its class is the SDK's own.
    setattr(opened, "send_request", send_checked_request)


def _tolerate_late_answers(opened: ClientSession) -> None:
    """Keeps a session of 1.x open if an answer arrives at the very moment when its call is cancelled.

    Its receive loop would end with an error, and with it the session: 1,000 calls cancelled at random do not survive that.
    2.x has no such fault and no such dictionary.
    """
    if hasattr(opened, "_response_streams"):
        setattr(opened, "_response_streams", _AnswerStreams(opened._response_streams))


class _AnswerStreams(dict[Any, Any]):
    """Where the session puts the answers, by request."""

    def pop(self, *key_and_default: Any) -> Any:
        stream = super().pop(*key_and_default)
        return None if stream is None else _AnswerStream(stream)


class _AnswerStream:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def send(self, answer: Any) -> None:
        from anyio import BrokenResourceError, ClosedResourceError

        try:
            await self._stream.send(answer)
        except (BrokenResourceError, ClosedResourceError):
            # Its caller has just been cancelled.
            pass


def _running_loop() -> asyncio.AbstractEventLoop | None:
    # `None` under trio, whose streams refuse foreign loops by themselves.
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
