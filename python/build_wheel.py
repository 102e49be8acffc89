"""Makes a wheel of mainstay-mcp from programs that were built already, in a second.

    python3 python/build_wheel.py --program target/debug/mainstay --bridge target/debug/mainstay-bridge --out DIR

It prints the wheel's path. maturin makes the wheel of a release; this one has the same content, without a bill of materials, and
serves the tests. Python 3.11 or later, the standard library alone.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import sysconfig
import tomllib
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGE = HERE / "mainstay-mcp"
NAME = "mainstay_mcp"

# The earliest time that a zip file can hold, so that equal files make an equal wheel.
TIMESTAMP = (1980, 1, 1, 0, 0, 0)


def metadata(project: dict[str, Any], version: str) -> str:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"Keywords: {','.join(project['keywords'])}",
        f"Author: {', '.join(author['name'] for author in project['authors'])}",
        f"License-Expression: {project['license']}",
        *(f"License-File: {file}" for file in project["license-files"]),
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
        f"Requires-Python: {project['requires-python']}",
        *(f"Project-URL: {label}, {url}" for label, url in project["urls"].items()),
        "Description-Content-Type: text/markdown; charset=UTF-8; variant=GFM",
        "",
        (PACKAGE / project["readme"]).read_text(encoding="utf-8"),
    ]
    return "\n".join(lines)


def build(program: Path, bridge: Path, out: Path, *, platform: str, level: int = 6) -> Path:
    """Writes the wheel into the directory `out` and returns its path."""
    with (PACKAGE / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    with (HERE.parent / "Cargo.toml").open("rb") as file:
        version = tomllib.load(file)["workspace"]["package"]["version"]
    tag = f"py3-none-{re.sub('[^a-zA-Z0-9]', '_', platform)}"
    info, data = f"{NAME}-{version}.dist-info", f"{NAME}-{version}.data"
    entry_points = "".join(f"{name}={target}\n" for name, target in project["scripts"].items())
    files: dict[str, tuple[bytes, int]] = {}
    for path in sorted((PACKAGE / "src" / NAME).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            files[path.relative_to(PACKAGE / "src").as_posix()] = (path.read_bytes(), 0o644)
    for name, path in (("mainstay", program), ("mainstay-bridge", bridge)):
        files[f"{data}/scripts/{name}"] = (path.read_bytes(), 0o755)
    files[f"{info}/METADATA"] = (metadata(project, version).encode(), 0o644)
    wheel = f"Wheel-Version: 1.0\nGenerator: build_wheel.py ({version})\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files[f"{info}/WHEEL"] = (wheel.encode(), 0o644)
    files[f"{info}/entry_points.txt"] = (f"[console_scripts]\n{entry_points}".encode(), 0o644)
    for license_file in project["license-files"]:
        files[f"{info}/licenses/{license_file}"] = ((PACKAGE / license_file).read_bytes(), 0o644)
    record = ""
    for name, (content, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)

    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{NAME}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name, (content, mode) in files.items():
            entry = zipfile.ZipInfo(name, TIMESTAMP)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, content, compresslevel=level)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True, help="the program mainstay")
    parser.add_argument("--bridge", type=Path, required=True, help="the program mainstay-bridge")
    parser.add_argument("--out", type=Path, required=True, help="the directory of the wheel")
    parser.add_argument("--platform", default=sysconfig.get_platform(), help="the platform tag [default: this machine's]")
    parser.add_argument("--level", type=int, default=6, help="how hard to compress, 1 to 9")
    options = parser.parse_args()
    print(build(options.program, options.bridge, options.out, platform=options.platform, level=options.level))


if __name__ == "__main__":
    main()
