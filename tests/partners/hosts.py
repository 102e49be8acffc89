"""Ten hosts, six servers: processes and memory, with a copy of each server for each host and with shared servers.

    python3 tests/partners/hosts.py target/release/mainstay

Needs the servers that `cargo xtask partners` installs, and Linux. Each host opens a session with each server and lists its tools; then all
processes are counted and their memory is added up. Memory is the proportional set size: a page that several processes share counts
once. Prints a table in Markdown.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

HOSTS = 10
NAMES = ["everything", "filesystem", "memory", "time", "git", "rmcp"]
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    partners = json.loads((target / "partners" / "partners.json").read_text())
    servers = [partners[name] for name in NAMES]
    rows = []
    for way in ["direct", "shared"]:
        with tempfile.TemporaryDirectory() as home:
            rows.append((way, *measure(way, program, servers, home)))
    print(f"| {HOSTS} hosts, {len(servers)} servers | server processes | other processes | memory |")
    print("|---|---|---|---|")
    for way, of_servers, others, memory in rows:
        print(f"| {way} | {of_servers} | {others} | {memory / 1024:.0f} MB |")


def measure(way, program, servers, home):
    environment = {
        "HOME": home,
        "PATH": os.environ["PATH"],
        "MAINSTAY_RUNTIME": home + "/run",
        "MAINSTAY_CACHE": home + "/cache",
    }
    processes = []
    for server in servers:
        for _ in range(HOSTS):
            own = dict(environment, **server["env"])
            command = [server["command"], *server["args"]]
            if way == "shared":
                named = [word for name in server["env"] for word in ("--env", name)]
                command = [program, "connect", *named, "--", *command]
            processes.append(start(command, own, home))
    # All at once: a host does not wait for another.
    openings = [threading.Thread(target=open_session, args=[process]) for process in processes]
    for opening in openings:
        opening.start()
    for opening in openings:
        opening.join(300)
        if opening.is_alive():
            sys.exit("a server does not answer")
    found = [pid for pid in all_processes() if marked(pid, home)]
    others = [pid for pid in found if is_mainstay(pid, program)]
    memory = sum(proportional(pid) for pid in found)
    for process in processes:
        process.stdin.close()
    for process in processes:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    subprocess.run([program, "daemon", "stop", "--quiet"], env=environment, check=False)
    return len(found) - len(others), len(others), memory


def start(command, environment, directory):
    return subprocess.Popen(
        command,
        env=environment,
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def open_session(process):
    client = {"name": "hosts", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    ask(process, 1, "initialize", params)
    send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    ask(process, 2, "tools/list", {})


def send(process, message):
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()


def ask(process, number, method, params):
    send(process, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    for line in process.stdout:
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            if "error" in message:
                sys.exit(f"{method}: {message['error']}")
            return
    sys.exit(f"{method}: the server has ended")


def all_processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def marked(pid, home):
    """Every process of this run has its home, or is a guardian of one."""
    try:
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"HOME={home}".encode() in environment


def is_mainstay(pid, program):
    try:
        return os.readlink(f"/proc/{pid}/exe") in (program, program + "-bridge")
    except OSError:
        return False


def proportional(pid):
    try:
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


main()
