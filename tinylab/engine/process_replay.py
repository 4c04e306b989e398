"""Process replay: kernels that one revision made, made again by another, and what differs.

    CAPTURE_PROCESS_REPLAY=1 python script.py    # each kernel that is lowered is added to a file
    tinylab replay                               # on another revision: the differences

A record holds the kernel before opts, the opts that were chosen, and the text that came out. On a
replay the choice is made anew, and text is made with the old choice: what the heuristics changed
and what the rest of the compiler changed are told apart.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tinylab import codegen
from tinylab.codegen import do_to_program
from tinylab.device import Device
from tinylab.engine.as_rows import from_rows, opts_from_rows, opts_to_rows, to_rows
from tinylab.errors import TinylabError, TraceError
from tinylab.helpers.cache import cache_dir
from tinylab.helpers.context import SETTINGS, Context
from tinylab.helpers.text import ansistrip
from tinylab.opcodes import Ops
from tinylab.trace import events
from tinylab.uop.ops import UOp

# What the text of a kernel depends on besides the kernel and its target.
_KEPT = tuple(setting.key for setting in codegen.SETTINGS)

_lock = threading.Lock()
_paths: list[Path] = []  # where captures that are open write to
_noted: set[tuple[Path, str, bytes]] = set()


def default_path() -> Path:
    """Where kernels go that CAPTURE_PROCESS_REPLAY asks for: PROCESS_REPLAY_FILE, or the cache."""
    return Path(os.environ.get("PROCESS_REPLAY_FILE") or Path(cache_dir) / "process_replay.jsonl")


@contextmanager
def capturing_kernels(path: Path) -> Iterator[None]:
    """Each kernel that is scheduled inside, known before or not, is added to a file."""
    _paths.append(path)
    try:
        with Context(CAPTURE_PROCESS_REPLAY=1, SCACHE=0):
            yield
    finally:
        _paths.remove(path)


def note_kernel(ast: UOp, device: str, program: UOp) -> None:
    """Add a kernel to the record, once: one line of JSON.

    Text of somebody's own, which no revision makes, is left out.
    """
    path = _paths[-1] if _paths else default_path()
    known = (path, device, ast.key)
    if events.is_quiet() or ast.op is not Ops.SINK or known in _noted:
        return
    info = program.src[0].arg
    line = {
        "name": ansistrip(program.arg.name),
        "device": device,
        "target": str(Device[device].target),
        "settings": {name: SETTINGS[name].value for name in _KEPT},
        "ast": to_rows(ast),
        "opts": opts_to_rows(info.applied_opts),
        "source": program.src[2].arg,
    }
    with _lock:
        _noted.add(known)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")


class Difference(NamedTuple):
    """What another revision makes of a kernel: "opts", "source", "error" or "skipped"."""

    kernel: str
    what: str
    before: str
    after: str

    def __str__(self) -> str:
        if self.what != "source":
            return f"{self.kernel}: {self.what}\n  was {self.before}\n  is  {self.after}"
        lines = difflib.unified_diff(
            self.before.splitlines(), self.after.splitlines(), "was", "is", lineterm="", n=1
        )
        return f"{self.kernel}: source\n  " + "\n  ".join(lines)


def replay(path: Path | None = None) -> Iterator[Difference]:
    """The kernels of a record that this revision makes differently; equal kernels once.

    Raises: TraceError for a file that is no record.
    """
    for line in _lines(path or default_path()):
        yield from _differences(line)


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    if not path.exists():
        raise TraceError(
            f"there is no record {path}", help="run something with CAPTURE_PROCESS_REPLAY=1 first"
        )
    if not path.is_file():
        raise TraceError(f"{path} is no file", help="give what CAPTURE_PROCESS_REPLAY=1 wrote")
    seen: set[bytes] = set()
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            if text not in seen:
                seen.add(text)
                yield _kernel(text, f"line {number} of {path}")


def _kernel(text: bytes, where: str) -> dict[str, Any]:
    """The fields of a line. Raises: TraceError for one that does not tell of a kernel."""
    try:
        found = json.loads(text)
    except ValueError as e:
        raise TraceError(f"{where} is no kernel: {e}") from e
    missing = _FIELDS - found.keys() if isinstance(found, dict) else _FIELDS
    if missing:
        raise TraceError(f"{where} is no kernel: it has no {sorted(missing)[0]}")
    return dict(found)


_FIELDS = frozenset({"name", "device", "target", "settings", "ast", "opts", "source"})


def _differences(line: dict[str, Any]) -> Iterator[Difference]:
    name = line["name"]
    try:
        device = Device[line["device"]]
        if str(device.target) != line["target"]:
            yield Difference(name, "skipped", line["target"], f"{device.target} here")
            return
        known = {k: v for k, v in line["settings"].items() if k in SETTINGS}
        with events.quietly(), Context(**known, CAPTURE_PROCESS_REPLAY=0):
            yield from _compared(line, from_rows(line["ast"]), device)
    except TinylabError as e:
        yield Difference(name, "error", "it was made", f"{type(e).__name__}: {e.message}")


def _compared(line: dict[str, Any], ast: UOp, device: Any) -> Iterator[Difference]:
    before = opts_from_rows(line["opts"])
    same_opts = ast.replace(arg=ast.arg._replace(opts_to_apply=before, beam=0))
    if not ast.arg.beam:  # what a search finds depends on the machine
        after = do_to_program(ast, device.renderer).src[0].arg.applied_opts
        if before != after:
            yield Difference(line["name"], "opts", _text(before), _text(after))
    source = do_to_program(same_opts, device.renderer).src[2].arg
    was, now = _code(line["source"]), _code(source)
    if was != now:
        yield Difference(line["name"], "source", was, now)


# What ties text to lines of uops: it is not run, and its numbers move with every node.
_LOCATIONS = re.compile(r", !dbg !\d+| !dbg !\d+|^!.*\n", re.MULTILINE)


def _code(text: str) -> str:
    return _LOCATIONS.sub("", text)


def _text(opts: Iterable[Any]) -> str:
    shown = [f"{o.op.name} {o.axis} {o.arg}" for o in opts]
    return ", ".join(shown) or "none"
