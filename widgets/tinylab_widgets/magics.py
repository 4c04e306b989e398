"""`%load_ext tinylab`: the `%%tinygrad` cell magic, and what displays as a viewer.

Records display as debuggers, profiles as timelines, captures as their traces and counters.
"""

import contextlib
import shlex
import sys
import traceback
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display as _display

from tinylab.lab import report
from tinylab.lab.cells import CellRun, may_await, needs_await, run_cell, run_cell_async
from tinylab.lab.imports import ImportsTurned
from tinylab.trace.record import Record
from tinylab_widgets import completion, options
from tinylab_widgets.debugger import debugger_of
from tinylab_widgets.displays import Displays
from tinylab_widgets.protocol import sentence
from tinylab_widgets.viewer import Viewer

# Named, not imported: the types are loaded when a capture or a profile is.
_CAPTURES = ("Capture", "Captures")
_PROFILES = (("tinylab.profiler.collected", "Profile"), ("tinylab.profiler.merged", "Comparison"))
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"


def display(bundle: dict[str, Any]) -> None:
    """Show data that says its own types."""
    _display(bundle, raw=True)  # type: ignore[no-untyped-call]


class TinygradMagic:
    """`%%tinygrad`, for one shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.displays = Displays()
        self._profiles: weakref.WeakKeyDictionary[Record, Any] = weakref.WeakKeyDictionary()

    def __call__(self, line: str, cell: str = "") -> None:
        """Run a cell, record it, show what came of it."""
        __tracebackhide__ = True
        chosen = self._options(line)
        if chosen is not None:
            with self._imports_turned(chosen.alias):
                run = run_cell(**self._arguments(cell, chosen))
            self._finish(run, cell, chosen)

    async def wait(self, line: str, cell: str) -> None:
        """The same for a cell that awaits: it runs in the shell's loop, as any other cell."""
        __tracebackhide__ = True
        chosen = self._options(line)
        if chosen is not None:
            with self._imports_turned(chosen.alias):
                run = await run_cell_async(**self._arguments(cell, chosen))
            self._finish(run, cell, chosen)

    @contextlib.contextmanager
    def _imports_turned(self, alias: bool) -> Iterator[None]:
        """Meanwhile imports mean tinylab in what the cell's own magics run, such as %%time."""
        turned = [ImportsTurned()] if alias else []
        self.shell.ast_transformers.extend(turned)
        try:
            yield
        finally:
            for each in turned:
                self.shell.ast_transformers.remove(each)

    def prepared(self, lines: list[str]) -> list[str]:
        """A cell as IPython can take it: with a body, and with its await outside of the magic.

        IPython refuses a cell magic without a body, where an empty cell is no mistake to us; and
        it calls magics without waiting for them.
        """
        if not lines or not lines[0].startswith("%%tinygrad"):
            return lines
        body = "".join(lines[1:])
        if not body:
            return [lines[0].rstrip("\n") + "\n", "\n"]
        name, _, options_text = lines[0][2:].rstrip().partition(" ")
        if name != "tinygrad" or not may_await(body) or not needs_await(self._transformed(body)):
            return lines
        call = (
            f"get_ipython().find_cell_magic('tinygrad').__self__.wait({options_text!r}, {body!r})"
        )
        return [f"await {call}\n"]

    def _options(self, line: str) -> options.Options | None:
        """The options of a cell; None if only their help was asked for."""
        try:
            chosen = options.parse(line)
        except options.OptionError as error:
            raise UsageError(str(error)) from None
        if chosen.help:
            print(options.HELP)
            return None
        return chosen

    def _transformed(self, cell: str) -> str:
        """The cell as Python: its %magics and !commands are calls."""
        return str(self.shell.transform_cell(cell))  # type: ignore[no-untyped-call]

    def _arguments(self, cell: str, chosen: options.Options) -> dict[str, Any]:
        """What `run_cell` is told."""
        source = self._transformed(cell)
        # IPython names the cell in tracebacks by this file name and number.
        number = self.shell.displayhook.prompt_count
        return {
            "source": source,
            "namespace": self.shell.user_ns,
            "device": chosen.device,
            "noopt": chosen.noopt,
            "name": chosen.name,
            "alias": chosen.alias,
            "filename": self.shell.compile.cache(source, number, raw_code=cell),
            "profile": chosen.profile,
        }

    def _finish(self, run: CellRun, cell: str, chosen: options.Options) -> None:
        """Show the cell's value, its debugger, and what ended it early."""
        __tracebackhide__ = True
        if run.has_value:
            self.shell.displayhook(run.value)
        if run.error is not None and _is_refusal(run):
            raise UsageError(sentence(run.error))
        if chosen.widget and cell.strip() and not isinstance(run.error, SyntaxError):
            self._show_safely("debugger", "record", lambda: self.show(run.record))
            if chosen.profile:
                self._show_safely("timeline", "profile", lambda: self.show_profile(run, chosen))
        if not chosen.widget and cell.strip() and run.record.passes:
            print(report.without_view(run.record, chosen.name))
        if run.error is not None:
            raise _with_users_frames(self.shell, run.error)

    def _show_safely(self, view: str, kept: str, show: Callable[[], None]) -> None:
        """Show what a cell left; what fails in that must hide neither it nor the cell's error."""
        try:
            show()
        except Exception as error:
            message = f"the {view} cannot be shown: {sentence(error)}; the {kept} is kept"
            print(message, file=sys.stderr)

    def show(self, record: Record) -> None:
        """The debugger, and under it what a reader without a kernel sees."""
        display(self.record_bundle(record))

    def show_profile(self, run: CellRun, chosen: options.Options) -> None:
        """The timeline of a cell that was profiled, and under it its picture and top kernels."""
        from tinylab.lab.profiled import count_kernels  # here: other cells need no numpy
        from tinylab.profiler import still

        shown = run.profile
        if shown is None or (_is_empty(run.record) and still.is_empty(shown)):
            return  # the line in place of the debugger has said that nothing was computed
        if chosen.counters:
            count_kernels(shown)
        display(self.profile_bundle(shown))

    def _live(
        self, static: dict[str, str], make: Callable[[], Viewer], look: str = ""
    ) -> dict[str, str]:
        """Shows a viewer, and gives what is to be shown under it: its static form.

        They are two outputs: a notebook that is opened without the widget's state shows an error
        in place of the first, and must not show only that. A live view hides the second.
        """
        if not hasattr(self.shell, "kernel"):  # a terminal shows text, and has no use for widgets
            return static
        shown = make()
        self.displays.note(shown)
        view = {"version_major": 2, "version_minor": 0, "model_id": shown.model_id}
        display({WIDGET_MIME: view, "text/plain": _first_line(static)})
        held = f'<div class="tinylab-static{look}">{static["text/html"]}</div>'
        return {**static, "text/html": held}

    def open_captures(self, line: str) -> Any:
        """`%tinycapture PATH ...`: the viewer of a profiler's captures; several are compared.

        Gives the capture, so that a cell whose last line this is shows it.
        """
        from tinylab.profiler.capture import read_capture, read_captures

        paths = shlex.split(line)
        if not paths:
            raise UsageError("%tinycapture takes the folder of a capture, or a .sqtt file")
        try:
            return read_capture(paths[0]) if len(paths) == 1 else read_captures(*paths)
        except ValueError as error:  # what a capture is refused with
            raise UsageError(sentence(error)) from None

    def record_bundle(self, record: Record) -> Any:
        """How a record displays: as its debugger, the same one each time.

        One in which nothing was done is a line of text: there is nothing to step through. One of a
        file that holds a profile and no record displays as that profile.
        """
        static = report.mimebundle(record)
        if _is_empty(record):
            found = self._profile_beside(record)
            return static if found is None else self.profile_bundle(found)
        return self._live(static, lambda: debugger_of(record))

    def _profile_beside(self, record: Record) -> Any:
        """The profile in the file of a record, always the same one; None if there is none."""
        from tinylab.profiler import saved  # here: they load numpy
        from tinylab.profiler.files import load_profile
        from tinylab.trace.store import StoredRecord

        if not isinstance(record, StoredRecord):
            return None
        if record not in self._profiles and saved.is_alone(record):
            self._profiles[record] = load_profile(record.path)
        return self._profiles.get(record)

    def profile_bundle(self, shown: Any) -> Any:
        """How a profile, or two, display: as a timeline; one that grows still, as a picture.

        One in which nothing happened is a line of text.
        """
        from tinylab.profiler import still
        from tinylab_widgets.timeline import timeline_of

        static = still.mimebundle(shown)
        if getattr(shown, "running", False) or still.is_empty(shown):
            return static
        return self._live(static, lambda: timeline_of(shown), " tinylab-timeline")

    def capture_bundle(self, captures: Any) -> Any:
        """How captures display: as their viewer, and under it what is read without a kernel."""
        from tinylab.profiler import page  # here, so that notebooks without captures wait for none
        from tinylab_widgets.capture import viewer_of

        return self._live(page.mimebundle(captures), lambda: viewer_of(captures))


def _is_empty(record: Record) -> bool:
    return not record.passes and not record.kernels


def _first_line(static: dict[str, str]) -> str:
    return static["text/plain"].partition("\n")[0]


def _is_refusal(run: CellRun) -> bool:
    """Whether the cell never began: a device that is none, say."""
    assert run.error is not None, "only runs that ended early are asked about"
    frames = traceback.extract_tb(run.error.__traceback__)
    cell = run.record.cell
    inside = any(cell is not None and frame.filename == cell.filename for frame in frames)
    return not inside and hasattr(run.error, "help") and not isinstance(run.error, SyntaxError)


class InvalidCell(Exception):
    """The cell is no Python: shown as the syntax error that it is, without the magic's frames."""

    def __init__(self, shell: InteractiveShell, error: SyntaxError) -> None:
        super().__init__(str(error))
        self._lines = shell.SyntaxTB.structured_traceback(type(error), error, None)

    def _render_traceback_(self) -> list[str]:
        return list(self._lines)


def _users_part(error: BaseException, filename: str) -> TracebackType | None:
    """The traceback from the first frame of the user's cell on."""
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename != filename:
        at = at.tb_next
    return at


def _with_users_frames(shell: InteractiveShell, error: BaseException) -> BaseException:
    """The same exception, which shows the user's frames and not those of the magic.

    It is raised again, so that the cell counts as failed and "run all" stops.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) and error.filename in shell.compile._filename_map:
        return InvalidCell(shell, error)
    files = [f.filename for f in frames if f.filename in shell.compile._filename_map]
    part = _users_part(error, files[0]) if files else None
    if part is None:
        return error

    def lines() -> list[str]:
        shown = shell.InteractiveTB.structured_traceback(type(error), error, part)
        return list(shown)

    try:
        error._render_traceback_ = lines  # type: ignore[attr-defined]
    except AttributeError:  # an exception with slots
        return error.with_traceback(part)
    return error


def _cell_started(magic: TinygradMagic) -> Callable[[Any], None]:
    def begin(info: Any) -> None:
        magic.displays.begin(getattr(info, "cell_id", None))

    return begin


def load_ipython_extension(shell: InteractiveShell) -> None:
    """`%load_ext tinylab`; loaded again it stands in for itself."""
    unload_ipython_extension(shell)
    magic = TinygradMagic(shell)
    shell.magics_manager.register_function(magic.__call__, "cell", "tinygrad")
    shell.magics_manager.register_function(magic.open_captures, "line", "tinycapture")
    started = _cell_started(magic)
    shell.events.register("pre_run_cell", started)
    completion.install(shell)
    _bundles(shell).for_type(Record, magic.record_bundle)
    for name in _CAPTURES:
        _bundles(shell).for_type_by_name("tinylab.profiler.capture", name, magic.capture_bundle)
    for home, name in _PROFILES:
        _bundles(shell).for_type_by_name(home, name, magic.profile_bundle)
    shell.input_transformers_cleanup.append(magic.prepared)
    _loaded[id(shell)] = (magic, started)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """`%unload_ext tinylab`."""
    loaded = _loaded.pop(id(shell), None)
    if loaded is None:
        return
    shell.events.unregister("pre_run_cell", loaded[1])
    shell.input_transformers_cleanup.remove(loaded[0].prepared)
    shell.magics_manager.magics["cell"].pop("tinygrad", None)
    completion.remove(shell)
    shell.magics_manager.magics["line"].pop("tinycapture", None)
    _bundles(shell).type_printers.pop(Record, None)
    for name in _CAPTURES:
        _bundles(shell).pop(f"tinylab.profiler.capture.{name}", None)
    for home, name in _PROFILES:
        _bundles(shell).pop(f"{home}.{name}", None)


def _bundles(shell: InteractiveShell) -> Any:
    """What makes the bundles of objects that a cell shows."""
    assert shell.display_formatter is not None, "a shell that runs cells shows values"
    return shell.display_formatter.mimebundle_formatter


_loaded: dict[int, tuple[TinygradMagic, Callable[[Any], None]]] = {}
