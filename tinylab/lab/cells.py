"""Running a cell of user code while recording what the compiler makes of it."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import itertools
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from tinylab.helpers.context import Context
from tinylab.lab.imports import rewrite_imports
from tinylab.lab.lines import mark_lines, marked_value
from tinylab.trace.record import Cell, Record, record

if TYPE_CHECKING:
    from tinylab.profiler.collected import Profile

_numbers = itertools.count(1)
_kept: list[Record] | None = None


@dataclass
class CellRun:
    """What a cell left: its record, the value of its last line, and what ended it early."""

    record: Record
    value: Any = None
    has_value: bool = False
    error: BaseException | None = None
    profile: Profile | None = None  # where that was asked for


class CellOptions(TypedDict, total=False):
    """How a cell is run; what each means is told by `run_cell`."""

    device: str | None
    noopt: bool
    name: str | None
    alias: bool
    filename: str | None
    profile: bool


def run_cell(source: str, namespace: dict[str, Any], **options: Unpack[CellOptions]) -> CellRun:
    """Run code in a namespace and record it; an exception is kept, not raised.

    `name` binds the record in the namespace, also when the cell fails; `alias` (True unless given)
    lets ``import tinygrad`` mean tinylab; `filename` is what tracebacks show, made up if not given;
    `profile` also notes when each line, pass, kernel and copy ran.
    An interrupt is kept too: what was recorded up to it stays. A cell that awaits gets a loop of
    its own; where one runs already, await `run_cell_async`.
    """
    running = run_cell_async(source, namespace, **options)
    if needs_await(source):
        return asyncio.run(running)
    try:
        running.send(None)
    except StopIteration as ended:
        run: CellRun = ended.value
        return run
    raise AssertionError("code without await never waits")


async def run_cell_async(
    source: str,
    namespace: dict[str, Any],
    *,
    device: str | None = None,
    noopt: bool = False,
    name: str | None = None,
    alias: bool = True,
    filename: str | None = None,
    profile: bool = False,
) -> CellRun:
    """The same in the loop that runs: the cell may await at its top level."""
    filename = filename or f"<tinylab cell {next(_numbers)}>"
    show_in_tracebacks(filename, source)
    run = CellRun(Record())
    try:
        body, last, value = _compile(source, filename, alias, profile)
        cell = Cell(source, filename)
        with (
            _settings(device, noopt),
            _profiling(run, profile, name or "cell"),
            record(name or "cell", cell) as run.record,
        ):
            run.record.device = _device_name()
            if name:
                namespace[name] = run.record
            await _evaluated(body, namespace)
            if last is not None and value is not None:
                with marked_value(value, source):
                    run.value, run.has_value = await _evaluated(last, namespace), True
    except BaseException as error:  # the caller shows it; what was recorded must not be lost
        run.error = error
        if run.record.cell is None:
            run.record.cell, run.record.error = Cell(source, filename), error
    if name:
        namespace[name] = run.record
        if run.profile is not None:
            namespace[f"{name}_profile"] = run.profile
    if _kept is not None:
        _kept.append(run.record)
    return run


@contextlib.contextmanager
def _profiling(run: CellRun, wanted: bool, name: str) -> Iterator[None]:
    """A profile around the cell, with the cell's record beside it."""
    if not wanted:
        yield
        return
    from tinylab.profiler.listen import profile

    with profile(name) as run.profile:
        try:
            yield
        finally:
            run.profile.record = run.record


async def _evaluated(code: CodeType, namespace: dict[str, Any]) -> Any:
    """The value of code that may wait; None for statements."""
    value = eval(code, namespace)
    return await value if code.co_flags & inspect.CO_COROUTINE else value


def may_await(source: str) -> bool:
    """Whether code has a word that waits; most has none, and need not be looked at closer."""
    return "await" in source or "async" in source


def needs_await(source: str) -> bool:
    """Whether code awaits outside of any function; False for what is no Python."""
    if not may_await(source):
        return False
    try:
        code = compile(source, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return bool(code.co_flags & inspect.CO_COROUTINE)


def keep_records() -> None:
    """Keep the record of every cell that runs from now on, for a report of the whole notebook."""
    global _kept
    _kept = []


def save_records(folder: str) -> None:
    """Write the records that were kept to .tlab files, in the order in which the cells ran."""
    from tinylab.lab.report import save

    for number, each in enumerate(_kept or ()):
        save(each, Path(folder) / f"{number:05}.tlab")


def show_in_tracebacks(filename: str, source: str) -> None:
    """Let tracebacks, `inspect` and the debugger find the text of code that is in no file."""
    lines = source.splitlines(keepends=True)
    linecache.cache[filename] = (len(source), None, lines, filename)


def _compile(
    source: str, filename: str, alias: bool, lines: bool = False
) -> tuple[CodeType, CodeType | None, ast.expr | None]:
    """The cell's statements, and its last line apart if that is an expression.

    lines: each statement tells when it runs.
    """
    tree = ast.parse(source, filename)
    # A semicolon hides the value, as in IPython.
    has_value = bool(tree.body) and isinstance(tree.body[-1], ast.Expr)
    has_value = has_value and not source.rstrip().endswith(";")
    if alias:
        tree = rewrite_imports(tree)
    last = tree.body.pop() if has_value else None
    if lines:
        tree = mark_lines(tree, source)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    value, shown = None, None
    if isinstance(last, ast.Expr):
        shown = last.value
        value = compile(ast.Expression(shown), filename, "eval", flags, dont_inherit=True)
    try:
        body = compile(tree, filename, "exec", flags, dont_inherit=True)
    except SyntaxError:
        if not lines:
            raise
        # Blocks nested as deep as Python allows leave no room for spans around their lines.
        return _compile(source, filename, alias)
    return body, value, shown


@contextlib.contextmanager
def _settings(device: str | None, noopt: bool) -> Any:
    from tinylab.device import Device

    changes: dict[str, Any] = {}
    if device:
        changes["DEV"] = device
    if noopt:
        changes["NOOPT"] = 1
    with Context(**changes):
        if device:
            # A wrong name, of a device or a renderer, is answered before the cell runs.
            Device.get_class(Device.DEFAULT)
            _ = Device.default.target
        yield


def _device_name() -> str:
    from tinylab.device import Device

    return Device.DEFAULT
