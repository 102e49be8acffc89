from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest
from conftest import is_running, wait_until

import mainstay_mcp
from mainstay_mcp import ProgramError, SdkError, _program, _session, outcome, program


def an_executable(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return path


@pytest.fixture
def only_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(_program, "_places", lambda: [str(tmp_path)])
    yield tmp_path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The package as `pip install --target` leaves it."""
    package = Path(mainstay_mcp.__file__).parent
    shutil.copytree(package, tmp_path / "target" / "mainstay_mcp")
    (metadata,) = package.parent.glob("mainstay_mcp-*.dist-info")
    shutil.copytree(metadata, tmp_path / "target" / metadata.name)
    (tmp_path / "target" / "bin").mkdir()
    (tmp_path / "target" / "bin" / "mainstay").symlink_to(program())
    return tmp_path / "target"


def run_alone(target: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Runs code with the package and the standard library, and with nothing else."""
    python = getattr(sys, "_base_executable", sys.executable)
    environment = {"PYTHONPATH": str(target), "PATH": "/usr/bin:/bin"}
    return subprocess.run([python, "-S", "-c", code], env=environment, capture_output=True, text=True, timeout=60)


def test_the_program_is_the_one_that_was_installed_and_has_the_version_of_the_package() -> None:
    assert Path(program()).parent == Path(sys.executable).parent
    said = subprocess.run([program(), "--version"], capture_output=True, text=True, timeout=60).stdout
    assert said.split() == ["mainstay", importlib.metadata.version("mainstay-mcp")]
    assert mainstay_mcp.__version__ == importlib.metadata.version("mainstay-mcp")
    assert (Path(program()).parent / "mainstay-bridge").is_file()


def test_the_program_of_a_target_directory_is_found_without_any_other_package(target: Path) -> None:
    ran = run_alone(target, "import mainstay_mcp; print(mainstay_mcp.program())")
    assert ran.stdout.strip() == str(target / "bin" / "mainstay"), ran.stderr


def test_importing_the_package_imports_neither_the_sdk_nor_asyncio_nor_typing(target: Path) -> None:
    ran = run_alone(target, "import sys, mainstay_mcp; print({'mcp', 'asyncio', 'typing', 'anyio'} & set(sys.modules))")
    assert ran.stdout.strip() == "set()", ran.stderr


def test_every_public_name_exists() -> None:
    for name in mainstay_mcp.__all__:
        assert getattr(mainstay_mcp, name) is not None
    with pytest.raises(AttributeError):
        mainstay_mcp.no_such_name


def test_the_variable_names_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = an_executable(tmp_path / "other", "#!/bin/sh\n")
    monkeypatch.setenv("MAINSTAY_PROGRAM", str(other))
    assert program() == str(other)
    monkeypatch.setenv("MAINSTAY_PROGRAM", str(tmp_path / "missing"))
    with pytest.raises(ProgramError, match="MAINSTAY_PROGRAM") as raised:
        program()
    assert raised.value.remedy
    assert outcome(raised.value) == "not_sent"


def test_no_program_for_this_platform_is_an_error_with_places_and_remedy(only_place: Path) -> None:
    with pytest.raises(ProgramError, match="was not installed") as raised:
        program()
    assert str(only_place) in raised.value.where
    assert "pip install" in raised.value.remedy


def test_a_program_of_another_version_is_refused(only_place: Path) -> None:
    path = an_executable(only_place / "mainstay", "#!/bin/sh\necho mainstay 9.9.9\n")
    with pytest.raises(ProgramError, match=r"version 9\.9\.9, and this package has") as raised:
        program()
    assert raised.value.where == str(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("\x7fELF of another machine", "does not run on this machine"),
        ("#!/bin/sh\necho something else\n", "did not say its version but: 'something else'"),
        ("#!/bin/sh\nexec sleep 60\n", "did not say its version within"),
    ],
)
def test_what_is_not_the_program_is_refused(
    only_place: Path, monkeypatch: pytest.MonkeyPatch, content: str, words: str
) -> None:
    monkeypatch.setattr(_program, "_VERSION_TIMEOUT_SECONDS", 0.5)
    an_executable(only_place / "mainstay", content)
    with pytest.raises(ProgramError, match=words):
        program()


def test_without_the_sdk_a_session_is_refused_with_a_remedy(target: Path) -> None:
    code = (
        "import asyncio, mainstay_mcp\n"
        "async def main():\n"
        "    async with mainstay_mcp.session('true'): pass\n"
        "try: asyncio.run(main())\n"
        "except mainstay_mcp.SdkError as error: print(error)\n"
    )
    ran = run_alone(target, code)
    assert "pip install 'mcp>=1.19'" in ran.stdout, ran.stderr


def test_an_older_sdk_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.18.2" if name == "mcp" else found(name))
    with pytest.raises(SdkError, match="1.18.2 is older than 1.19"):
        _session._import_stdio()


@pytest.mark.parametrize("command", [["mainstay-mcp"], [sys.executable, "-m", "mainstay_mcp"]])
def test_the_entry_points_become_the_program(command: list[str]) -> None:
    path = [str(Path(sys.executable).parent / command[0]), *command[1:]]
    ran = subprocess.run([*path, "--version"], capture_output=True, text=True, timeout=60)
    assert ran.stdout == f"mainstay {mainstay_mcp.__version__}\n", ran.stderr
    started = subprocess.Popen([*path, "demo-server"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: os.readlink(f"/proc/{started.pid}/exe") == os.path.realpath(program()), "the process is the program")
        assert started.stdin is not None
        started.stdin.close()
        assert started.wait(30) == 0
    finally:
        started.kill()
        started.wait(30)
    assert not is_running(started.pid)


def test_an_entry_point_without_a_program_says_so_in_one_line(tmp_path: Path) -> None:
    environment = {**os.environ, "MAINSTAY_PROGRAM": str(tmp_path / "missing")}
    ran = subprocess.run([sys.executable, "-m", "mainstay_mcp"], env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: there is no program") and ran.stderr.count("\n") == 1
