"""What a capture holds, printed: tables for people, lines or an object of JSON for scripts."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from tinylab.errors import CaptureError
from tinylab.helpers.text import ansipad, colored, without_controls
from tinylab.profiler import profile_report, report
from tinylab.profiler.capture import Capture, read_capture
from tinylab.profiler.collected import Profile
from tinylab.profiler.desk import desk_of
from tinylab.profiler.files import is_profile, load_profile
from tinylab.profiler.reading import read_to_end
from tinylab.profiler.regular import map_file
from tinylab.profiler.report import Row, Section
from tinylab.profiler.sqtt.trace import Trace
from tinylab.profiler.summary import summarize, summarize_trace

_SAMPLE = 2000  # rows that decide how wide columns are
_WIDEST = 60
_MOST_COUNTED = 10_000  # rows beyond a limit: a trace has millions, made one by one


def run(args: argparse.Namespace) -> int:
    """Prints what is asked for; the exit status is 0.

    Raises: CaptureError for what cannot be read.
    """
    try:
        _refuse_unused(args)
        if args.summary_json:
            for path in args.path:
                print(json.dumps(_summary(Path(path), args.family)))
        else:
            for section in _sections(args):
                show(section, as_json=args.json, limit=args.limit)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read along has seen enough; Python must not complain about that as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _summary(path: Path, family: str | None) -> dict[str, Any]:
    if is_profile(path):
        return profile_report.summary(load_profile(path))
    if _is_blob(path):
        return {"sqtt": [{"file": path.name, **summarize_trace(_bare(path, family))}], "pmc": []}
    return summarize(read_capture(path))


def _is_blob(path: Path) -> bool:
    return path.suffix == ".sqtt"


def _bare(path: Path, family: str | None) -> Trace:
    return read_to_end(Trace(map_file(path), family=family), path.name)


def _bare_sections(path: Path, args: argparse.Namespace) -> Iterator[Section]:
    """Raises: CaptureError where another stream is asked for: there is only one."""
    name = path.stem
    if args.source not in (None, name):
        raise CaptureError(f"{path.name} has no source {args.source!r}", help=f"it has {name}")
    trace = _bare(path, args.family)
    if args.source or args.instructions:
        yield from _trace(trace, name, None, args.instructions)
    else:
        yield from report.stream_sections(trace, name, is_limited=args.limit is not None)


def _sections(args: argparse.Namespace) -> Iterator[Section]:
    paths = [Path(p) for p in args.path]
    profiles = [load_profile(path) for path in paths if is_profile(path)]
    yield from _profile_sections(profiles, args)
    paths = [path for path in paths if not is_profile(path)]
    for path in paths:
        if _is_blob(path):
            yield from _bare_sections(path, args)
    captures = [read_capture(p) for p in paths if not _is_blob(p)]
    for capture in captures:
        if args.top is not None:
            yield report.top_kernels(capture, args.top)
        elif args.source:
            yield from _source(capture, args.source, args.instructions)
        elif len(captures) == 1:
            yield from report.sources(capture)
    if len(captures) > 1 and args.top is None and not args.source:
        yield report.comparison(captures)


def _profile_sections(profiles: Sequence[Profile], args: argparse.Namespace) -> Iterator[Section]:
    for profile in profiles:
        if args.chrome:
            profile.to_chrome(args.chrome)
        if args.csv:
            profile.to_csv(args.csv)
        if args.top is not None:
            yield profile_report.top_kernels(profile, args.top, args.interval)
        elif args.source:
            yield from profile_report.lane_listing(profile, args.source, args.interval)
        elif len(profiles) == 1 and not (args.chrome or args.csv):
            yield from profile_report.sections(profile, args.interval)
    if len(profiles) == 2 and args.top is None and not args.source:
        yield profile_report.comparison(profiles[0], profiles[1], args.interval)
    if len(profiles) > 2:
        raise CaptureError(f"{len(profiles)} profiles cannot be compared", help="give two")


def _refuse_unused(args: argparse.Namespace) -> None:
    """Raises: CaptureError for an option that would do nothing here: nothing is left out unsaid."""
    paths = [Path(p) for p in args.path]
    profiles = [path for path in paths if is_profile(path)]
    blobs = [path for path in paths if _is_blob(path)]
    captures = len(paths) - len(profiles) - len(blobs)
    _refuse_overwriting(args, paths)
    if args.summary_json:
        names = ("source", "instructions", "top", "interval", "chrome", "csv", "limit")
        _refuse(args, names, "does nothing beside --summary-json, which is all results")
    if args.top is not None:
        _refuse(args, ("source",), "does nothing beside --top, which is of all kernels")
    if len(profiles) < len(paths):
        why = "is for profiles, and captures have no markers or events of that kind"
        _refuse(
            args, ("interval", "chrome", "csv"), why, "give a .tlab file or a trace of Chrome's"
        )
    if profiles:
        why = "is for thread traces, and a profile has none"
        _refuse(args, ("instructions", "family"), why, "give a capture folder or a .sqtt file")
        if args.chrome or args.csv:
            _refuse(args, ("interval",), "does not cut --chrome and --csv: they write all events")
    if blobs:
        _refuse(args, ("top",), "is of kernels, and a bare stream has no times of kernels")
    if captures:
        why = "is for bare .sqtt files, and a capture says what it is"
        _refuse(args, ("family",), why)
        if not args.source:
            _refuse(args, ("instructions",), "is of one stream", "name it: -s NAME -i")


def _refuse_overwriting(args: argparse.Namespace, paths: Sequence[Path]) -> None:
    """Raises: CaptureError where a file that is written is one that is read, or written twice."""
    written = {name: Path(path) for name in ("chrome", "csv") if (path := getattr(args, name))}
    for name, target in written.items():
        for path in paths:
            if _is_same(target, path):
                raise CaptureError(
                    f"--{name} would write {target} over {path}, which is read",
                    help="name another file",
                )
        if len(paths) > 1:
            raise CaptureError(
                f"--{name} writes one profile, and {len(paths)} are given",
                help="give one profile at a time",
            )
    if len(written) == 2 and _is_same(*written.values()):
        raise CaptureError(f"--chrome and --csv would both write {args.csv}", help="give two names")


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths are one file, also by links, or would be once it is written."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


def _refuse(
    args: argparse.Namespace, names: Sequence[str], why: str, way_out: str | None = None
) -> None:
    for name in names:
        if getattr(args, name) not in (None, False):
            raise CaptureError(f"--{name} {why}", help=way_out)


def _source(capture: Capture, name: str, instructions: bool) -> Iterator[Section]:
    for counters in capture.counters:
        if report.source_name(counters) == name:
            if instructions:
                raise CaptureError(
                    f"--instructions is of one stream, and {name} holds counters",
                    help=f"-s {name} alone prints them",
                )
            yield from report.counter_sections(capture, counters)
            return
    desk = desk_of(capture)
    for stream in desk.streams:
        if stream.name == name:
            trace = read_to_end(stream.trace, stream.info.file)
            for section in _trace(trace, name, stream.loaded, instructions):
                section.notes += desk.where_to_look(stream)
                yield section
            return
    names = [*map(report.source_name, capture.counters), *map(report.source_name, capture.streams)]
    raise CaptureError(f"the capture has no source {name!r}", help=f"it has {', '.join(names)}")


def _trace(trace: Trace, name: str, loaded: Any, instructions: bool) -> Iterator[Section]:
    if instructions:
        yield report.instruction_section(trace, loaded)
    else:
        yield from report.trace_sections(trace, name, loaded)


# *** printing


def show(section: Section, as_json: bool = False, limit: int | None = None) -> None:
    """A table with aligned columns, or a line of JSON a row."""
    rows = iter(section.rows)
    shown = rows if limit is None else islice(rows, limit)
    if as_json:
        for row in shown:
            print(json.dumps({"table": section.title, **row}))
        for note in section.notes:
            print(json.dumps({"table": section.title, "note": note}))
        return
    print(_colored(without_controls(section.title), "cyan"))
    _print_table(shown, section)
    if limit is not None:
        _print_left(rows)
    for note in section.notes:
        print(_colored(without_controls(note), "yellow"))
    print()


def _print_left(rows: Iterator[Row]) -> None:
    """How many rows a limit left out; of very many only that there are more."""
    left = sum(1 for _ in islice(rows, _MOST_COUNTED))
    if left:
        number = f"{left:,}" if left < _MOST_COUNTED else f"over {left - 1:,}"
        print(_colored(f"... {number} more", "yellow"))


def _colored(text: str, color: str) -> str:
    return colored(text, color) if sys.stdout.isatty() else text


def _print_table(rows: Iterator[Row], section: Section) -> None:
    sample = list(islice(rows, _SAMPLE))
    if not sample:
        print("nothing")
        return
    names = list(section.columns) or list(dict.fromkeys(k for row in sample for k in row))
    ways = [section.shown.get(n, str) for n in names]
    widths = [
        min(max(len(n), *(len(_cell(r.get(n), way)) for r in sample)), _WIDEST)
        for n, way in zip(names, ways, strict=True)
    ]
    right = [any(isinstance(row.get(n), int | float) for row in sample) for n in names]
    print(_line([_colored(n, "BLACK") for n in names], widths, [False] * len(names)))
    for row in _both(sample, rows):
        shown = [_cell(row.get(n), way) for n, way in zip(names, ways, strict=True)]
        print(_line(shown, widths, right))


def _both(first: Iterable[Row], then: Iterable[Row]) -> Iterator[Row]:
    yield from first
    yield from then


def _cell(value: object, way: Callable[[Any], str]) -> str:
    return "-" if value is None else without_controls(way(value))


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (
        c.rjust(w) if r else ansipad(c, w) for c, w, r in zip(cells, widths, right, strict=True)
    )
    return "  ".join(padded).rstrip()
