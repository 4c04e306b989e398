"""`tinylab view FILE ...`: the viewer of a capture, profile or record, with no notebook to write.

A notebook of one cell is written into a folder that goes again, its cell is run in a kernel of a
JupyterLab of its own, and the page opens when there is something to see. Meanwhile the terminal
shows how far reading is, and Ctrl+C leaves it off.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import webbrowser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinylab.errors import LabError
from tinylab.helpers.text import stderr_log

_START_SECONDS = 90
_END_SECONDS = 10
_ANSWER_SECONDS = 60
_TAIL = 2000  # bytes of a server's last words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add(
        "path",
        nargs="+",
        help="capture folder, capture.json, .sqtt file, trace of Chrome's (.json, .json.gz) or "
        ".tlab file; several captures, or two profiles, are compared",
    )
    add("--no-browser", action="store_true", help="print the address and open no browser")
    add("--port", type=int, default=0, help="of the page on this machine; default: a free one")


def run(args: argparse.Namespace) -> int:
    """Show the files and wait until that is ended; the exit status is 0.

    Raises: LabError, CaptureError or TraceError for what cannot be shown.
    """
    code = cell_of([Path(path) for path in args.path])
    for needed in ("jupyterlab", "anywidget"):
        if importlib.util.find_spec(needed) is None:
            raise LabError(f"{needed} is not installed", help="pip install jupyterlab anywidget")
    for ended in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:
        signal.signal(ended, _interrupt)  # the server is to end in any case
    with tempfile.TemporaryDirectory(prefix="tinylab-view-") as folder:
        name = f"{Path(args.path[0]).resolve().stem or 'view'}.ipynb"
        with _server(Path(folder), args.port) as server:
            _write(server.folder / name, code, server.execute(name, code))
            address = server.url(f"doc/tree/{name}")
            print(f"{address}\nCtrl+C ends it", flush=True)
            if not args.no_browser:
                webbrowser.open(address)
            server.process.wait()
    return 0


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


# *** what is shown


def cell_of(paths: Sequence[Path]) -> str:
    """The cell that shows some files.

    Raises: LabError for what does not go together, CaptureError or TraceError for what is no
    capture and no trace.
    """
    found = [(_kind_of(path), str(path.resolve())) for path in paths]
    kinds = {kind for kind, _ in found}
    if len(kinds) > 1:
        raise LabError(
            f"{' and '.join(sorted(kinds))} are not shown together", help="give files of one kind"
        )
    (kind,) = kinds
    most = {"captures": len(found), "profiles": 2, "records": 1}[kind]
    if len(found) > most:
        raise LabError(f"{len(found)} {kind} are not compared", help=f"give {most}")
    given = [repr(path) for _, path in found]
    if kind == "captures":
        read = "read_capture" if len(given) == 1 else "read_captures"
        return _cell(f"from tinylab.profiler import {read}", f"{read}({', '.join(given)})")
    if kind == "records":
        return _cell("import tinylab", f"tinylab.load({given[0]})")
    if len(given) == 1 and _has_record(paths[0]):
        load = "from tinylab.profiler import load_profile"
        # Its kernels lead to the debugger, which has to be on the page for that.
        made = f"profile = load_profile({given[0]})\ndisplay(profile)"
        return _cell(load, f"{made}\nprofile.record")
    if len(given) == 1:
        return _cell("from tinylab.profiler import load_profile", f"load_profile({given[0]})")
    loaded = ", ".join(f"load_profile({path})" for path in given)
    return _cell("from tinylab.profiler import compare, load_profile", f"compare({loaded})")


def _cell(load: str, value: str) -> str:
    return f"%load_ext tinylab\n{load}\n\n{value}"


def _kind_of(path: Path) -> str:
    from tinylab.profiler.capture import read_capture
    from tinylab.profiler.files import is_profile
    from tinylab.profiler.saved import has_profile
    from tinylab.trace import store

    if path.suffix == ".tlab":
        return "profiles" if has_profile(store.load(path)) else "records"
    if is_profile(path):
        return "profiles"
    read_capture(path)
    return "captures"


def _has_record(path: Path) -> bool:
    """Whether a profile's file holds the rewrites of its kernels too."""
    from tinylab.profiler.saved import is_alone
    from tinylab.trace import store

    return path.suffix == ".tlab" and not is_alone(store.load(path))


def _write(path: Path, code: str, outputs: list[Any]) -> None:
    """The notebook as if its cell had been run there, trusted: it is ours."""
    import nbformat
    from nbformat import sign, v4

    cell = v4.new_code_cell(code, outputs=outputs, execution_count=1)  # type: ignore[no-untyped-call]
    notebook = v4.new_notebook(cells=[cell])  # type: ignore[no-untyped-call]
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
    sign.NotebookNotary().sign(nbformat.read(path, as_version=4))  # type: ignore[no-untyped-call]


# *** a JupyterLab


@contextlib.contextmanager
def _server(folder: Path, port: int) -> Iterator[Server]:
    """A JupyterLab in a folder, on this machine alone, until the block is left.

    Raises: LabError if it does not start.
    """
    token = secrets.token_hex(16)
    port = port or _free_port()
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", f"--ServerApp.root_dir={folder}",
        "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={token}", "--ServerApp.allow_root=True", "--LabApp.news_url=",
    ]  # fmt: skip
    log = folder / ".server.log"
    with log.open("wb") as words:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, start_new_session=True
        )
    server = Server(folder, process, port, token)
    try:
        if not server.answers():
            tail = log.read_bytes()[-_TAIL:].decode(errors="replace")
            raise LabError(f"JupyterLab does not start: {tail}")
        yield server
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
        process.kill()
        process.wait()


@dataclass
class Server:
    """A JupyterLab that runs."""

    folder: Path
    process: subprocess.Popen[bytes]
    port: int
    token: str

    def url(self, path: str) -> str:
        """An address of it, for whoever may see what it shows."""
        return f"http://127.0.0.1:{self.port}/{path}?token={self.token}"

    def answers(self) -> bool:
        """Whether it has started, or does soon."""
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError):
                self._ask("api/status")
                return True
            time.sleep(0.1)
        return False

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url(path), data)
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(request, timeout=_ANSWER_SECONDS) as reply:
            return json.loads(reply.read())

    def execute(self, notebook: str, code: str) -> list[Any]:
        """What code shows in a kernel that the page of a notebook will find.

        Raises: LabError with the last line of the error, if it ends in one.
        """
        from jupyter_client.blocking.client import BlockingKernelClient
        from jupyter_core.paths import jupyter_runtime_dir

        wanted = {"name": notebook, "path": notebook, "type": "notebook"}
        session = self._ask("api/sessions", wanted | {"kernel": {"name": "python3"}})
        file = Path(jupyter_runtime_dir()) / f"kernel-{session['kernel']['id']}.json"
        client = BlockingKernelClient(connection_file=str(file))
        client.load_connection_file()
        client.start_channels()
        shown = Shown()
        try:
            client.wait_for_ready(timeout=_ANSWER_SECONDS)
            client.execute_interactive(code, allow_stdin=False, output_hook=shown.hear)
        finally:
            client.stop_channels()
            shown.end_line()
        if shown.error:
            raise LabError(shown.error)
        return shown.outputs


class Shown:
    """What a cell shows, from the messages of its kernel; bars are drawn on the terminal too."""

    def __init__(self) -> None:
        self.outputs: list[Any] = []
        self.error = ""
        self._bars: dict[str, Any] = {}
        self._is_open = False

    def hear(self, message: dict[str, Any]) -> None:
        """One message."""
        from nbformat import v4

        kind, content = message["msg_type"], message["content"]
        display = content.get("transient", {}).get("display_id")
        if kind == "update_display_data":
            self._redraw(display, content["data"])
        elif kind == "error":
            self.error = content["evalue"] or content["ename"]
        elif kind in ("display_data", "execute_result", "stream"):
            self.outputs.append(v4.output_from_msg(message))  # type: ignore[no-untyped-call]
            if display:
                self._bars[display] = self.outputs[-1]

    def _redraw(self, display: str, data: dict[str, Any]) -> None:
        if display in self._bars:
            self._bars[display]["data"] = data
        if sys.stderr.isatty():
            stderr_log(f"\r\033[K{data.get('text/plain', '')}")
            self._is_open = True

    def end_line(self) -> None:
        """What is printed next begins a line of its own."""
        if self._is_open:
            stderr_log("\n")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
