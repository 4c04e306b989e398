"""`tinylab profile`: its arguments. What does the work is loaded when it is asked for."""

from __future__ import annotations

import argparse

FAMILIES = ("rdna3", "rdna4", "cdna")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add(
        "path",
        nargs="+",
        help="saved profile (.tlab), trace of Chrome's (.json, .json.gz), capture folder, "
        "capture.json or .sqtt file; several are compared",
    )
    add("-s", "--source", metavar="NAME", help="show one source, such as se1, pmc0, 'CPU kernels'")
    add("-i", "--instructions", action="store_true", help="with -s: sums, a row an instruction")
    add("-t", "--top", type=_count, metavar="N", help="the N kernels that took longest")
    add(
        "--interval",
        nargs=2,
        metavar=("A", "B"),
        help="of a profile: from the marker A to the next marker B",
    )
    add("--chrome", metavar="FILE", help="write a profile as a trace for Chrome and Perfetto")
    add("--csv", metavar="FILE", help="write the events of a profile, a line each")
    add("-n", "--limit", type=_count, metavar="N", help="at most N rows of a table")
    add("--summary-json", action="store_true", help="all results as one JSON object a capture")
    add("--json", action="store_true", help="a JSON object a row instead of tables")
    add("--family", choices=FAMILIES, help="packet table of a bare .sqtt file")


def _count(text: str) -> int:
    """A number of rows, from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rows: give 1 or more")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Prints what is asked for; the exit status is 0 when all went well."""
    from tinylab.profiler import terminal

    return terminal.run(args)
