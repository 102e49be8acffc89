"""An MCP server that needs nothing but the standard library: it starts in some 30 ms, so that tests can crash it often.

Each start and each run of a tool that is not read-only is a line in the file that LOG names. It does not start while the file DOWN exists.
"""

import json
import os
import sys
import threading
import time
from typing import Any

LOG, DOWN = os.environ["LOG"], os.environ["LOG"] + ".down"
WRITE = threading.Lock()
READ_ONLY = {"pid", "sleep", "echo", "variable"}
TOOLS = sorted(READ_ONLY | {"add_line", "crash", "fail", "crash_after_sleep"})


def log(line: str) -> None:
    with open(LOG, "a") as file:
        file.write(line + "\n")


def send(message: dict[str, Any]) -> None:
    with WRITE:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name not in READ_ONLY:
        log(name)
    if name == "crash":
        os._exit(3)
    if name == "crash_after_sleep":
        time.sleep(arguments["seconds"])
        os._exit(3)
    if name == "sleep":
        time.sleep(arguments["seconds"])
    text = {"pid": str(os.getpid()), "echo": arguments.get("text"), "variable": os.environ.get(arguments.get("name", ""))}
    return {"content": [{"type": "text", "text": str(text.get(name, "done"))}], "isError": name == "fail"}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    method, parameters = message["method"], message.get("params", {})
    if method == "initialize":
        info = {"name": "test", "version": "1"}
        version = parameters["protocolVersion"]
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
    if method == "tools/list":
        schema = {"type": "object"}
        hints = {name: {"readOnlyHint": name in READ_ONLY} for name in TOOLS}
        return {"result": {"tools": [{"name": name, "inputSchema": schema, "annotations": hints[name]} for name in TOOLS]}}
    if method == "tools/call" and parameters["name"] in TOOLS:
        return {"result": call(parameters["name"], parameters.get("arguments") or {})}
    if method == "tools/call":
        log(parameters["name"])
        return {"error": {"code": -32602, "message": f"there is no tool {parameters['name']}"}}
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": -32601, "message": f"there is no method {method}"}}


def serve(message: dict[str, Any]) -> None:
    send({"id": message["id"], **answer(message)})


def main() -> None:
    log("start")
    if os.path.exists(DOWN):
        sys.exit(4)
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message and "id" in message:
            threading.Thread(target=serve, args=(message,), daemon=True).start()


main()
