"""`python -m tinylab`: the same as the command `tinylab`, where that is not on the path."""

from __future__ import annotations

import sys

from tinylab.lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
