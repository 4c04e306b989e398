"""`tinylab profile`: its arguments. What does the work is loaded when it is asked for."""

from __future__ import annotations

import argparse
import functools
from typing import Any

FAMILIES = ("rdna3", "rdna4", "cdna")


class _Once(argparse.Action):
    """An option whose second value would silently take the place of the first."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Keeps the value; a second one ends the command with a sentence."""
        if getattr(namespace, self.dest) is not None:
            parser.error(f"--{self.dest} is given twice, and takes one value: leave one out")
        setattr(namespace, self.dest, values)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add(
        "path",
        nargs="+",
        help="saved profile (.tlab), trace of Chrome's (.json, .json.gz), capture folder, "
        "capture.json or .sqtt file; several are compared",
    )
    once = functools.partial(add, action=_Once)
    once("-s", "--source", metavar="NAME", help="show one source, such as se1, pmc0, 'CPU kernels'")
    add("-i", "--instructions", action="store_true", help="with -s: sums, a row an instruction")
    once("-t", "--top", type=_count, metavar="N", help="the N kernels that took longest")
    once(
        "--interval",
        nargs=2,
        metavar=("A", "B"),
        help="of a profile: from the marker A to the next marker B",
    )
    once("--chrome", metavar="FILE", help="write a profile as a trace for Chrome and Perfetto")
    once("--csv", metavar="FILE", help="write the events of a profile, a line each")
    once("-n", "--limit", type=_count, metavar="N", help="at most N rows of a table")
    add("--summary-json", action="store_true", help="all results as one JSON object a capture")
    add("--json", action="store_true", help="a JSON object a row instead of tables")
    once("--family", choices=FAMILIES, help="packet table of a bare .sqtt file")


def _count(text: str) -> int:
    """A number of rows, from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rows: give 1 or more")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Prints what is asked for; the exit status is 0 when all went well."""
    from tinylab.profiler import terminal

    return terminal.run(args)
