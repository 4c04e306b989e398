"""`%load_ext tinylab`: the `%%tinygrad` cell magic, and records that display as debuggers."""

import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from tinylab.lab import report
from tinylab.lab.cells import CellRun, run_cell
from tinylab.trace.record import Record
from tinylab_widgets import options
from tinylab_widgets.debugger import debugger_of
from tinylab_widgets.displays import Displays
from tinylab_widgets.protocol import sentence

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"


class TinygradMagic:
    """`%%tinygrad`, for one shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.displays = Displays()

    def __call__(self, line: str, cell: str = "") -> None:
        """Run a cell, record it, show what came of it."""
        __tracebackhide__ = True
        try:
            chosen = options.parse(line)
        except options.OptionError as error:
            raise UsageError(str(error)) from None
        if chosen.help:
            print(options.HELP)
            return
        run = self._run(cell, chosen)
        if run.has_value:
            self.shell.displayhook(run.value)
        if run.error is not None and _is_refusal(run):
            raise UsageError(sentence(run.error))
        if chosen.widget and cell.strip() and not isinstance(run.error, SyntaxError):
            self.show(run.record)
        if run.error is not None:
            raise _with_users_frames(self.shell, run.error)

    def with_body(self, lines: list[str]) -> list[str]:
        """IPython refuses a cell magic without a body; an empty cell is no mistake to us."""
        if lines and lines[0].startswith("%%tinygrad") and not "".join(lines[1:]):
            return [lines[0].rstrip("\n") + "\n", "\n"]
        return lines

    def _run(self, cell: str, chosen: options.Options) -> CellRun:
        source = self.shell.transform_cell(cell)
        # IPython names the cell in tracebacks by this file name and number.
        number = self.shell.displayhook.prompt_count
        filename = self.shell.compile.cache(source, number, raw_code=cell)
        return run_cell(
            source,
            self.shell.user_ns,
            device=chosen.device,
            noopt=chosen.noopt,
            name=chosen.name,
            alias=chosen.alias,
            filename=filename,
        )

    def show(self, record: Record) -> None:
        """The debugger, and under it what a reader without a kernel sees.

        They are two outputs: a notebook that is opened without the widget's state shows an error
        in place of the first, and must not show only that. A live view hides the second.
        """
        static = report.mimebundle(record)
        if not hasattr(self.shell, "kernel"):  # a terminal shows text, and has no use for widgets
            display(static, raw=True)
            return
        shown = debugger_of(record)
        self.displays.note(shown)
        view = {"version_major": 2, "version_minor": 0, "model_id": shown.model_id}
        display({WIDGET_MIME: view, "text/plain": _first_line(static)}, raw=True)
        page = f'<div class="tinylab-static">{static["text/html"]}</div>'
        display({**static, "text/html": page}, raw=True)

    def record_bundle(self, record: Record) -> Any:
        """How a record displays: as its debugger, the same one each time."""
        return self.displays.bundle(debugger_of(record))


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
        self._lines = shell.SyntaxTB.structured_traceback(type(error), error, [])

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
    """`%load_ext tinylab`."""
    magic = TinygradMagic(shell)
    shell.register_magic_function(magic.__call__, "cell", "tinygrad")
    started = _cell_started(magic)
    shell.events.register("pre_run_cell", started)
    shell.set_hook("complete_command", _completer, str_key="%%tinygrad")
    shell.display_formatter.mimebundle_formatter.for_type(Record, magic.record_bundle)
    shell.input_transformers_cleanup.append(magic.with_body)
    _loaded[id(shell)] = (magic, started)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """`%unload_ext tinylab`."""
    loaded = _loaded.pop(id(shell), None)
    if loaded is None:
        return
    shell.events.unregister("pre_run_cell", loaded[1])
    shell.input_transformers_cleanup.remove(loaded[0].with_body)
    shell.magics_manager.magics["cell"].pop("tinygrad", None)
    shell.display_formatter.mimebundle_formatter.type_printers.pop(Record, None)


_loaded: dict[int, tuple[TinygradMagic, Callable[[Any], None]]] = {}


def _completer(_shell: Any, event: Any) -> list[str]:
    return options.complete(event.line)
