"""`python -m benchmarks [NAME ...]`: all benchmarks, or those that are named."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import time

_FRONT_END = ("paint", "timeline")
NAMES = (
    "imports",
    "compile",
    "recording",
    "steps",
    "kernels",
    "overhead",
    "counting",
    "growth",
    "hooks",
    *_FRONT_END,
)


def main(arguments: list[str]) -> None:
    """Run the benchmarks one after another; nothing else should run meanwhile."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(NAMES))
    names = parser.parse_args(arguments).names
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]!r}; there are {', '.join(NAMES)}")
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    print(f"{time.strftime('%Y-%m-%d')}, load before {load}")
    for name in names or NAMES:
        importlib.import_module(f"benchmarks.{name}").run()


if __name__ == "__main__":
    main(sys.argv[1:])
