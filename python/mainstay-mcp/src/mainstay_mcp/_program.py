"""Finds the program that this package brought."""

from __future__ import annotations

import os
import sys

from .errors import ProgramError

# A hand on the program that does not answer must not hang its caller; a cold disk may need seconds.
_VERSION_TIMEOUT_SECONDS = 20.0

_checked: set[str] = set()


def program() -> str:
    """The path of the program `mainstay`.

    The environment variable `MAINSTAY_PROGRAM` names another one, which is taken as it is. Without it, the program is the one that
    was installed with this package, and must have its version.

    Raises `ProgramError` if there is none, if it does not run on this machine, or if its version is another.
    """
    override = os.environ.get("MAINSTAY_PROGRAM")
    if override:
        if not _is_program(override):
            raise ProgramError(
                "there is no program that can be executed",
                where=f"MAINSTAY_PROGRAM={override}",
                remedy="set MAINSTAY_PROGRAM to the full path of mainstay, or unset it",
            )
        return override
    places = _places()
    for place in places:
        path = os.path.join(place, "mainstay")
        if _is_program(path):
            if path not in _checked:
                _check_version(path)
                _checked.add(path)
            return path
    raise ProgramError(
        "the program mainstay was not installed with this package",
        where="looked in " + ", ".join(places),
        remedy="install a wheel for this platform with `pip install --force-reinstall --only-binary :all: mainstay-mcp`; where there is "
        "none, build the program with cargo and set MAINSTAY_PROGRAM to its path",
    )


def package_version() -> str:
    """The version of this package, which is also that of the program."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("mainstay-mcp")
    except PackageNotFoundError:
        raise ProgramError(
            "the metadata of the package mainstay-mcp is missing",
            where=os.path.dirname(__file__),
            remedy="install it with `pip install mainstay-mcp`, or set MAINSTAY_PROGRAM to the path of the program",
        ) from None


def _places() -> list[str]:
    """The directories where an installer can have put the scripts of this package, the likeliest first."""
    import sysconfig

    package = os.path.dirname(os.path.abspath(__file__))
    library = os.path.dirname(package)
    places = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", vars={"base": sys.base_prefix}),
        # pip --target
        os.path.join(library, "bin"),
        # pip --prefix: lib/python3.x/site-packages
        os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(library))), "bin"),
        # pip --user
        sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user")),
    ]
    return list(dict.fromkeys(places))


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _check_version(path: str) -> None:
    import subprocess

    expected = package_version()
    remedy = "install both from one release with `pip install --force-reinstall mainstay-mcp`"
    try:
        ran = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_TIMEOUT_SECONDS,
            check=False,
        )
    except OSError as error:
        raise ProgramError(
            f"the program does not run on this machine ({error.strerror})", where=path, remedy=remedy
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ProgramError(
            f"the program did not say its version within {_VERSION_TIMEOUT_SECONDS:.0f} s", where=path, remedy=remedy
        ) from error
    words = ran.stdout.decode(errors="replace").split()
    if ran.returncode != 0 or len(words) != 2 or words[0] != "mainstay":
        said = (ran.stderr or ran.stdout).decode(errors="replace").strip()[:500]
        raise ProgramError(f"the program did not say its version but: {said!r}", where=path, remedy=remedy)
    if words[1] != expected:
        raise ProgramError(
            f"the program has the version {words[1]}, and this package has {expected}", where=path, remedy=remedy
        )
