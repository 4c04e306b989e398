"""The `tinylab` command: notebooks, profiles, recorded cells, kernels of another revision."""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tinylab.errors import LabError, TinylabError
from tinylab.helpers.text import pluralize
from tinylab.lab import trace_command, view
from tinylab.profiler import command

DEFAULT_NOTEBOOK = Path("notebooks") / "01_digits.ipynb"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 when all went well."""
    given = list(sys.argv[1:] if argv is None else argv)
    notebook, rest = split_lab(given[1:]) if given[:1] == ["lab"] else (None, [])
    args = _parser().parse_args(["lab"] if rest or notebook else given)
    try:
        if args.command == "profile":
            return command.run(args)
        if args.command == "trace":
            return trace_command.run(args)
        if args.command == "view":
            return view.run(args)
        if args.command == "replay":
            return replay(args)
        return open_lab(notebook, rest) if args.command == "lab" else run(args)
    except TinylabError as error:
        print(f"tinylab: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tinylab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    lab = commands.add_parser("lab", help="open a notebook in JupyterLab")
    lab.add_argument("notebook", nargs="?", help=f"default: {DEFAULT_NOTEBOOK}")
    lab.epilog = "what else is given goes to JupyterLab, such as --no-browser or --port 8889"
    run_ = commands.add_parser("run", help="run a notebook without a browser, write a report")
    run_.add_argument("notebook", nargs="?", help=f"default: {DEFAULT_NOTEBOOK}")
    run_.add_argument(
        "--html", metavar="FILE", help="the report; default: the notebook's name .html"
    )
    run_.add_argument("--save", metavar="FILE", help="keep the executed notebook too")
    run_.add_argument(
        "--timeout", type=float, help="seconds that one cell may take; default: no limit"
    )
    run_.add_argument("--kernel", help="kernel to use; default: the notebook's, or this Python")
    profile = commands.add_parser("profile", help="list and print what a profile capture holds")
    command.add_arguments(profile)
    shown = commands.add_parser("view", help="open the viewer of a profile, capture or record")
    view.add_arguments(shown)
    trace = commands.add_parser("trace", help="print passes, matches and graphs of a saved record")
    trace_command.add_arguments(trace)
    replay_ = commands.add_parser(
        "replay", help="make the kernels of another revision again and list what differs"
    )
    replay_.add_argument(
        "record", nargs="?", help="what CAPTURE_PROCESS_REPLAY=1 wrote; default: its own place"
    )
    return parser


def replay(args: argparse.Namespace) -> int:
    """Print what this revision makes of recorded kernels; 1 if anything differs."""
    from tinylab.engine import process_replay

    found = list(process_replay.replay(Path(args.record) if args.record else None))
    for difference in found:
        print(difference)
    differ = sum(d.what != "skipped" for d in found)
    print(f"{pluralize('difference', differ)}, {pluralize('kernel', len(found) - differ)} skipped")
    return 1 if differ else 0


def split_lab(given: Sequence[str]) -> tuple[str | None, list[str]]:
    """The notebook among the arguments of `lab`, and what is JupyterLab's.

    ["--port", "8889", "a.ipynb"]  ->  "a.ipynb", ["--port", "8889"]
    """
    if "-h" in given or "--help" in given:
        return None, []
    notebook = next((each for each in given if each.endswith(".ipynb")), None)
    if notebook is None and given and not given[0].startswith("-"):
        notebook = given[0]
    return notebook, [each for each in given if each is not notebook]


def open_lab(notebook: str | None, rest: Sequence[str] = ()) -> int:
    """Start JupyterLab on a notebook and wait until it ends."""
    path = find_notebook(notebook)
    if importlib.util.find_spec("jupyterlab") is None:
        raise LabError("JupyterLab is not installed", help="pip install jupyterlab")
    command = [sys.executable, "-m", "jupyterlab", *rest, *_as_root(rest), str(path)]
    with subprocess.Popen(command) as server:
        while True:
            try:
                return server.wait()
            except KeyboardInterrupt:
                continue  # JupyterLab asks, and ends when it is told to


def _as_root(rest: Sequence[str]) -> list[str]:
    """What JupyterLab must be told when the user is root, as in most containers."""
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    if not is_root or any(each.startswith("--allow-root") for each in rest):
        return []
    _say("tinylab: you are root: JupyterLab is started with --allow-root")
    return ["--allow-root"]


def run(args: argparse.Namespace) -> int:
    """Run a notebook with progress on the terminal; 1 if a cell failed."""
    from tinylab.lab.notebook import run_notebook
    from tinylab.lab.page import write_page

    path = find_notebook(args.notebook, "run")
    target = Path(args.html) if args.html else path.with_suffix(".html")
    kept = Path(args.save) if args.save else None
    for each in (target, *([kept] if kept else [])):
        _check_writable(each)
    ran = run_notebook(path, args.timeout, args.kernel, _say)
    try:
        if kept:
            ran.save(kept)
        write_page(ran, target)
    except OSError as error:
        raise LabError(f"{error.filename} cannot be written: {error.strerror}") from None
    _say(f"report: {target}")
    if ran.error:
        _say(f"failed: {ran.error}")
    return 1 if ran.error else 0


def _check_writable(path: Path) -> None:
    """Tell before a long run that its result could not be kept.

    Raises: LabError.
    """
    if path.is_dir():
        raise LabError(f"{path} is a folder", help=f"name a file in it: {path / 'report.html'}")
    if not path.parent.is_dir():
        raise LabError(f"there is no folder {path.parent} to write {path.name} to")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise LabError(f"{path} cannot be written: permission denied")


def _say(line: str) -> None:
    print(line, flush=True)


def find_notebook(notebook: str | None, command: str = "lab") -> Path:
    """The notebook that is meant: as given, or the first of the course.

    `command` is what wants it, for the way out.

    Raises: LabError if it is not there.
    """
    if notebook is not None:
        path = Path(notebook)
        if not path.is_file():
            raise LabError(f"there is no notebook {notebook}", help=_near(path))
        return path
    beside_package = Path(__file__).resolve().parents[2] / DEFAULT_NOTEBOOK
    for path in (DEFAULT_NOTEBOOK, beside_package):
        if path.is_file():
            return path
    help_ = f"name a notebook: tinylab {command} FILE"
    raise LabError(f"there is no {DEFAULT_NOTEBOOK} here", help=help_)


def _near(path: Path) -> str | None:
    folder = path.parent if path.parent.is_dir() else Path()
    names = sorted(p.name for p in folder.glob("*.ipynb"))
    return f"in {folder} there are {', '.join(names[:8])}" if names else None


if __name__ == "__main__":
    sys.exit(main())
