"""`python -m tinylab.compat script.py …`: a script written for tinygrad runs on tinylab."""

from __future__ import annotations

import os
import sys

from tinylab.compat.alias import alias
from tinylab.compat.children import follow_into_children, root
from tinylab.compat.launch import run_module, run_script

USAGE = "usage: python -m tinylab.compat script.py [arguments]\n       … -m module [arguments]"


def main() -> None:
    """Run a script, or a module, as Python would, with the alias in place."""
    name, *arguments = sys.argv[1:] or [""]
    if name in ("", "-h", "--help"):
        print(USAGE)
        raise SystemExit(0 if name else 2)
    if name == "-m" and not arguments:
        raise SystemExit(USAGE)
    if name != "-m" and not os.path.exists(name):
        raise SystemExit(f"there is no script {name!r}")
    alias()
    follow_into_children()
    # The script's folder takes the place of the one that tinylab may have been found in.
    if root() not in map(os.path.abspath, sys.path[1:]):
        sys.path.append(root())
    if name == "-m":
        run_module(arguments[0], arguments[1:])
    else:
        run_script(name, arguments)


if __name__ == "__main__":
    main()
