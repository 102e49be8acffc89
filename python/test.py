"""Tests the wheel of mainstay-mcp as a user gets it: built from the given programs, installed into fresh environments, and run there.

    python3 python/test.py --program target/debug/mainstay --bridge target/debug/mainstay-bridge --cache DIR

Each environment is a version of Python with a major of the MCP SDK, without Rust on its PATH; its packages are installed once and kept in
`--cache`, the wheel is installed anew each time. It prints one line for each, and the output of those that failed. Python 3.11 or later,
the standard library alone; the interpreters under test are found on PATH and in pyenv, or named with `--python 3.10=/path`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import build_wheel

PACKAGE = Path(__file__).resolve().parent / "mainstay-mcp"
TESTS = PACKAGE / "tests"

# Tests wait for processes more than they compute; two at a time keep two cores busy.
AT_THE_SAME_TIME = 2

# For the installation of all packages over a slow network, and for all tests of one environment on a busy machine.
INSTALL_TIMEOUT_SECONDS = 900
TEST_TIMEOUT_SECONDS = 400


@dataclass(frozen=True)
class Environment:
    """A Python with an SDK and, in some, frameworks."""

    name: str
    python: str
    packages: tuple[str, ...]
    # The frameworks are needed to check the types of what serves them.
    checks_types: bool = False


ENVIRONMENTS = (
    # The oldest SDK that `session()` takes, which needs an older pydantic.
    Environment("3.10, mcp 1.19", "3.10", ("mcp==1.19.0", "pydantic==2.11.10")),
    Environment("3.10, mcp 1.x", "3.10", ("mcp==1.30.0",)),
    Environment("3.10, mcp 2.x", "3.10", ("mcp==2.3.0",)),
    Environment("3.13, mcp 1.x, LangChain", "3.13", ("mcp==1.30.0", "langchain-mcp-adapters==0.3.2")),
    Environment(
        "3.13, mcp 2.x, OpenAI Agents, Pydantic AI",
        "3.13",
        ("mcp==2.3.0", "openai-agents==0.24.0", "pydantic-ai-slim[mcp]==2.68.0"),
        checks_types=True,
    ),
)


class Failure(Exception):
    """What a person reads of an environment that failed."""


def run(command: list[str | Path], *, seconds: float, path: Path | None = None) -> str:
    # Without Rust, and without what the caller's own environment would add.
    environment = {"PATH": f"{path}:/usr/bin:/bin" if path else os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    environment |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "LC_", "TMP"))}
    environment |= {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    try:
        ran = subprocess.run(
            command, cwd=PACKAGE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else error.stdout or ""
        raise Failure(f"{output}\nnot finished within {seconds:.0f} s: {command[0]}") from None
    if ran.returncode != 0:
        raise Failure(f"{ran.stdout}\nexit status {ran.returncode}: {' '.join(map(str, command))}")
    return ran.stdout


def find_python(version: str, named: dict[str, str]) -> str:
    if version in named:
        return named[version]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = sorted(pyenv.glob(f"{version}.*/bin/python"))
    # pyenv's shims are on PATH also for versions that are not active.
    on_path = shutil.which(f"python{version}")
    for candidate in [*map(str, reversed(found)), on_path]:
        if candidate and subprocess.run([candidate, "--version"], capture_output=True).returncode == 0:
            return candidate
    raise Failure(f"there is no Python {version}: install it, or name it with --python {version}=/path")


def prepare(environment: Environment, cache: Path, python: str) -> Path:
    """The directory of the environment, made if its packages or its Python changed."""
    requirements = TESTS / "requirements.txt"
    key = "\0".join((python, requirements.read_text(), *environment.packages))
    place = cache / hashlib.sha256(key.encode()).hexdigest()[:16]
    done = place / "installed"
    if not done.exists():
        shutil.rmtree(place, ignore_errors=True)
        run([python, "-m", "venv", place], seconds=INSTALL_TIMEOUT_SECONDS)
        pip: list[str | Path] = [place / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "-r", requirements, *environment.packages], seconds=INSTALL_TIMEOUT_SECONDS)
        done.touch()
    return place


def test(environment: Environment, cache: Path, wheel: Path, named: dict[str, str], arguments: list[str]) -> str:
    place = prepare(environment, cache, find_python(environment.python, named))
    python = place / "bin" / "python"
    pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--no-index", "--no-deps", "--force-reinstall", wheel], seconds=INSTALL_TIMEOUT_SECONDS)
    path = place / "bin"
    said = run([python, "-m", "pytest", "-p", "no:cacheprovider", *arguments], seconds=TEST_TIMEOUT_SECONDS, path=path)
    summary = said.strip().splitlines()[-1].strip("= ")
    if environment.checks_types:
        sources = ["src/mainstay_mcp", "tests", "generate_api.py", "benchmarks/session.py"]
        run([python, "-m", "mypy", "--cache-dir", place / "mypy", *sources], seconds=TEST_TIMEOUT_SECONDS, path=path)
        summary += ", types checked"
    return summary


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True, help="the program mainstay")
    parser.add_argument("--bridge", type=Path, required=True, help="the program mainstay-bridge")
    parser.add_argument("--cache", type=Path, required=True, help="the directory of the environments and the wheel")
    parser.add_argument("--python", action="append", default=[], metavar="VERSION=PATH", help="an interpreter under test")
    parser.add_argument("arguments", nargs="*", help="for pytest, after --")
    options = parser.parse_args()
    named = dict(each.split("=", 1) for each in options.python)
    cache = options.cache.resolve()
    start = time.monotonic()
    # One of its own for each run: a second run must not replace the wheel that this one installs.
    wheels = cache / f"wheel-{os.getpid()}"
    failed = 0
    try:
        wheel = build_wheel.build(options.program, options.bridge, wheels, platform=sysconfig.get_platform(), level=1)

        def report(environment: Environment) -> str | None:
            begun = time.monotonic()
            try:
                summary = test(environment, cache, wheel, named, options.arguments)
            except Failure as failure:
                return f"FAILED {environment.name}\n{failure}"
            print(f"passed {environment.name}: {summary} ({time.monotonic() - begun:.0f} s in all)", flush=True)
            return None

        with ThreadPoolExecutor(AT_THE_SAME_TIME) as pool:
            for problem in pool.map(report, ENVIRONMENTS):
                if problem:
                    failed += 1
                    print(problem, flush=True)
    finally:
        shutil.rmtree(wheels, ignore_errors=True)
    print(f"{len(ENVIRONMENTS) - failed} of {len(ENVIRONMENTS)} environments passed in {time.monotonic() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
