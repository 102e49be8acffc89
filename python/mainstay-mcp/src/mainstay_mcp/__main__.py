"""Runs the program in place of this process: `python -m mainstay_mcp …` and `mainstay-mcp …`."""

from __future__ import annotations

import os
import sys

from ._program import program
from .errors import MainstayError

# What the program answers if its arguments or its configuration are wrong.
_EXIT_CODE = 2


def main() -> None:
    """Replaces this process by the program, with the same arguments, streams and environment."""
    path = ""
    try:
        path = program()
        os.execv(path, [path, *sys.argv[1:]])
    except MainstayError as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"error: the program does not run on this machine ({path}): {error.strerror}", file=sys.stderr)
    sys.exit(_EXIT_CODE)


if __name__ == "__main__":
    main()
