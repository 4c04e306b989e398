"""Running a notebook without a browser: its outputs, and the records of its cells.

The cells run in a kernel of their own. Records are kept there and come back as .tlab files, so that
the report sees what the debugger would have shown.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tinylab.errors import LabError, TraceError
from tinylab.trace import store
from tinylab.trace.record import Record

Say = Callable[[str], None]
_SAVE_SECONDS = 120
_MOST_OF_A_SOCKET = 90  # the path of a socket is at most 104 bytes long
_KEEP = "import tinylab.lab.cells as _tinylab_cells; _tinylab_cells.keep_records()"
_SAVE = "import tinylab.lab.cells as _tinylab_cells; _tinylab_cells.save_records({folder!r})"


class Ended(enum.Enum):
    """How a run came to its end, as far as the kernel is concerned."""

    WHOLE = enum.auto()  # it is idle
    STOPPED = enum.auto()  # it may be busy still
    DIED = enum.auto()


@dataclass
class RanNotebook:
    """An executed notebook: its cells with outputs, its records, and what ended it early."""

    path: Path
    notebook: Any
    records: list[Record] = field(default_factory=list)
    error: str = ""
    ended: Ended = Ended.WHOLE
    elapsed_s: float = 0.0

    def save(self, path: Path) -> None:
        """Write the executed notebook."""
        import nbformat

        nbformat.write(self.notebook, path)  # type: ignore[no-untyped-call]


def run_notebook(
    path: Path, timeout_s: float | None = None, kernel: str | None = None, say: Say = print
) -> RanNotebook:
    """Run all cells in order, saying what is going on; a cell that fails ends the run.

    What was printed and shown until then is kept, also when the run is interrupted.

    Raises: LabError for a file that is no notebook.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    notebook = _read(path)
    ran = RanNotebook(path, notebook)
    begun = time.monotonic()
    folder = tempfile.TemporaryDirectory(prefix="tinylab-")
    progress = _Progress([c for c in notebook.cells if c.cell_type == "code"], say)

    class Client(NotebookClient):
        def output(self, outs: Any, msg: Any, display_id: str | None, cell_index: int) -> Any:
            if msg["msg_type"] == "stream":
                progress.printed(msg["content"]["text"])
            return super().output(outs, msg, display_id, cell_index)

        def create_kernel_manager(self) -> Any:
            return _over_sockets_of_its_own(super().create_kernel_manager(), folder)

    client = Client(
        notebook,
        timeout=timeout_s,
        kernel_name=kernel or _kernel_name(notebook),
        resources={"metadata": {"path": str(path.resolve().parent)}},
        store_widget_state=False,
        on_cell_start=progress.begin,
        on_cell_executed=progress.end,
    )
    with folder, _kernel(client, ran):
        try:
            _quietly(client, _KEEP)
            for index, cell in enumerate(notebook.cells):
                client.execute_cell(cell, index)
        except CellExecutionError as error:
            ran.error = f"{error.ename}: {error.evalue}"
        except CellTimeoutError:
            ran.error, ran.ended = f"a cell took more than {timeout_s} s", Ended.STOPPED
        except DeadKernelError:
            ran.error, ran.ended = "the kernel died", Ended.DIED
        except KeyboardInterrupt:
            ran.error, ran.ended = "interrupted", Ended.STOPPED
    ran.elapsed_s = time.monotonic() - begun
    return ran


def _read(path: Path) -> Any:
    """A notebook of a file, with all that a run needs.

    Raises: LabError for what is none.
    """
    import nbformat

    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text)
        if not isinstance(found, dict) or "nbformat" not in found:
            raise LabError(f"{path} is no notebook: it is JSON, but does not say its nbformat")
        notebook = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
        lacking = [
            i for i, c in enumerate(notebook.cells) if not {"cell_type", "source"} <= c.keys()
        ]
    except LabError:
        raise
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}") from None
    except Exception as error:  # whatever the reader trips over in a file of any content
        why = str(getattr(error, "message", error)).partition("\n")[0]
        raise LabError(f"{path} is no notebook: {why}") from None
    if lacking:
        raise LabError(f"{path} is no notebook: cell {lacking[0]} has no type or no source")
    return notebook


def _over_sockets_of_its_own(manager: Any, folder: tempfile.TemporaryDirectory[str]) -> Any:
    """A kernel that is spoken to through files of this user, not over TCP, where that is possible.

    Nobody else on the machine can listen, and the kernel has no reason to warn of it.
    """
    base = str(Path(folder.name) / "kernel")
    if os.name == "posix" and len(base) < _MOST_OF_A_SOCKET:
        manager.transport, manager.ip = "ipc", base
    return manager


def _kernel_name(notebook: Any) -> str:
    """The notebook's kernel if it is installed here, else this Python's."""
    from jupyter_client.kernelspec import KernelSpecManager

    wanted = str(notebook.metadata.get("kernelspec", {}).get("name", ""))
    known = KernelSpecManager().find_kernel_specs()
    return wanted if wanted in known else "python3"


@contextlib.contextmanager
def _kernel(client: Any, ran: RanNotebook) -> Iterator[None]:
    """A kernel that runs meanwhile; its records are fetched before it goes."""
    with client.setup_kernel():
        try:
            yield
        finally:
            if ran.ended is not Ended.DIED:
                ran.records = _fetch_records(client, ran.ended is Ended.STOPPED)


def _fetch_records(client: Any, busy: bool) -> list[Record]:
    """The records that the kernel kept; one that is busy still is interrupted first."""
    if busy:
        _result(client.km.interrupt_kernel())
    with tempfile.TemporaryDirectory(prefix="tinylab-") as folder:
        with contextlib.suppress(LabError):
            _quietly(client, _SAVE.format(folder=folder))
        return _load_all(Path(folder))


def _quietly(client: Any, code: str) -> None:
    """Run code in the kernel that is no cell of the notebook.

    Raises: LabError if it fails.
    """
    import queue

    try:
        reply = client.kc.execute_interactive(
            code,
            silent=True,
            store_history=False,
            timeout=_SAVE_SECONDS,
            output_hook=lambda m: None,
        )
        reply = _result(reply)
    except (TimeoutError, queue.Empty, RuntimeError) as error:
        raise LabError(f"the kernel does not answer: {error}") from None
    if reply["content"]["status"] != "ok":
        raise LabError(f"the kernel refuses {code!r}: {reply['content'].get('evalue', '')}")


def _result(reply: Any) -> Any:
    """The reply of a client that may be asynchronous."""
    import asyncio
    import inspect

    if not inspect.isawaitable(reply):
        return reply
    return asyncio.get_event_loop().run_until_complete(reply)


def _load_all(folder: Path) -> list[Record]:
    """Every record in a folder, read whole, since the folder goes."""
    found: list[Record] = []
    for path in sorted(folder.glob("*.tlab")):
        with contextlib.suppress(TraceError):
            found.append(store.load(path).read_all())
    return found


class _Progress:
    """Tells which cell runs, what it prints while it does, and how long it took."""

    def __init__(self, cells: list[Any], say: Say) -> None:
        self._cells = cells
        self._say = say
        self._begun = 0.0
        self._line = ""

    def begin(self, cell: Any, cell_index: int) -> None:
        """A cell begins."""
        if cell in self._cells:
            self._begun = time.monotonic()
            number = next(n for n, each in enumerate(self._cells, 1) if each is cell)
            self._say(f"[{number}/{len(self._cells)}] {_first_line(cell.source)}")

    def printed(self, text: str) -> None:
        """A cell printed something; whole lines are passed on."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._say(f"      {line.rsplit(chr(13), 1)[-1]}")

    def end(self, cell: Any, cell_index: int, execute_reply: Any) -> None:
        """A cell ended, well or not."""
        if self._line:
            self.printed("\n")
        self._say(f"      {time.monotonic() - self._begun:.1f} s")


def _first_line(source: str) -> str:
    lines = [line for line in source.splitlines() if line.strip()]
    words = next((line for line in lines if not line.startswith("%")), lines[0] if lines else "")
    return words.strip()[:72]
