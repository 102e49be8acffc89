"""The tests run against the installed wheel: see python/test.py."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

HERE = Path(__file__).parent
DEADLINE_SECONDS = int(os.environ.get("MAINSTAY_TEST_DEADLINE", "100"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """A test that hangs fails."""

    def expire(*_: object) -> None:
        pytest.fail(f"the test did not end within {DEADLINE_SECONDS} s")

    signal.signal(signal.SIGALRM, expire)
    signal.alarm(DEADLINE_SECONDS)
    yield
    signal.alarm(0)


@pytest.fixture(autouse=True)
def own_places(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Each test has a daemon and a cache of its own, and its processes can be found by `MAINSTAY_TEST`."""
    # Not tmp_path: the path of a socket must be short.
    place = Path(tempfile.mkdtemp(prefix="mmcp-"))
    (place / "run").mkdir(mode=0o700)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(place))
    monkeypatch.setenv("MAINSTAY_RUNTIME", str(place / "run"))
    monkeypatch.setenv("MAINSTAY_TEST", place.name)
    monkeypatch.delenv("MAINSTAY_PROGRAM", raising=False)
    yield place
    shutil.rmtree(place, ignore_errors=True)


class Server:
    """The command of tests/server.py, and what it has logged."""

    def __init__(self, place: Path) -> None:
        self.script = place / "server.py"
        # An executable, so that a test can take the command away.
        self.script.write_text(f"#!{sys.executable}\n" + (HERE / "server.py").read_text())
        self.script.chmod(stat.S_IRWXU)
        self.log = place / "log"
        self.command = str(self.script)
        self.env = {"LOG": str(self.log)}

    def logged(self) -> Counter[str]:
        return Counter(self.log.read_text().split()) if self.log.exists() else Counter()


@pytest.fixture
def server(own_places: Path) -> Server:
    return Server(own_places)


def text(result: Any) -> str:
    return str(result.content[0].text)


def wait_until(true: Callable[[], bool], what: str, seconds: float = 30) -> None:
    """Looks again and again at what gives no event, such as /proc."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def kill_and_wait(pid: int) -> None:
    """Kills a server and waits until the supervisor has seen its end: it reaps the process."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), f"process {pid} is reaped")


def processes_of(mark: str) -> list[str]:
    """The processes that were started with this value of `MAINSTAY_TEST`, other than the test itself and those that it forked."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                if f"MAINSTAY_TEST={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return found


@pytest.fixture
def nothing_left(own_places: Path) -> Callable[[], None]:
    return lambda: wait_until(lambda: not processes_of(own_places.name), "no process is left")


@pytest.fixture
def refusing_server() -> Iterator[str]:
    """An MCP server over HTTP that refuses each call with 403."""
    import json
    import threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            method = message.get("method")
            answers: dict[str, Any] = {"ping": {}, "tools/list": {"tools": [{"name": "anything", "inputSchema": {"type": "object"}}]}}
            if method == "initialize":
                version = message["params"]["protocolVersion"]
                information = {"name": "refusing", "version": "1"}
                answers[method] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": information}
            if method == "tools/call":
                self.reply(403, b"no")
            elif "id" not in message:
                self.reply(202, b"")
            elif method in answers:
                self.reply(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answers[method]}).encode())
            else:
                error = {"code": -32601, "message": "no such method"}
                self.reply(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())

        def do_GET(self) -> None:
            self.reply(405, b"")

        do_DELETE = do_GET

        def reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.server_port}/mcp"
    listener.shutdown()
    listener.server_close()
