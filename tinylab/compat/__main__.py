"""`python -m tinylab.compat script.py …`: a script written for tinygrad runs on tinylab."""

from __future__ import annotations

import os
import runpy
import sys

from tinylab.compat.alias import alias

USAGE = "usage: python -m tinylab.compat script.py [arguments]\n       … -m module [arguments]"


def main() -> None:
    """Run a script, or a module, as Python would, with the alias in place."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        raise SystemExit(0 if arguments else 2)
    alias()
    if arguments[0] == "-m":
        if len(arguments) < 2:
            raise SystemExit(USAGE)
        sys.argv = arguments[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    if not os.path.exists(arguments[0]):
        raise SystemExit(f"there is no script {arguments[0]!r}")
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
