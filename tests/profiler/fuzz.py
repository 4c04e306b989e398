"""Damaged captures: every part is read to its end or refused in words, in bounded time and memory.

python -m tests.profiler.fuzz 1000000
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from tinylab.errors import CaptureError
from tinylab.profiler import page, report, scene
from tinylab.profiler.capture import read_capture
from tinylab.profiler.code import disassemble
from tinylab.profiler.columns import pack
from tinylab.profiler.demo import FOLDER
from tinylab.profiler.desk import Desk
from tinylab.profiler.sqtt.lanes import viewer_lanes
from tinylab.profiler.summary import summarize

_SECONDS = 5.0  # for one capture; it takes some ten milliseconds
_NUMBERS = (0, 1, -1, 2**31, 2**63, 2**64, 10**30, 1.5, None, "", "../x", [], {}, True, "x" * 9)


def damage(rng: random.Random, folder: Path) -> str:
    """Changes one file; says which and how."""
    file = rng.choice(sorted(folder.iterdir()))
    if file.name == "capture.json" and rng.random() < 0.7:
        return _damage_json(rng, file)
    data = bytearray(file.read_bytes())
    kind = rng.choice(("flip", "cut", "fill", "swap", "random"))
    if kind == "cut" or not data:
        data = data[: rng.randrange(len(data) + 1)]
    elif kind == "random":
        data[8:] = rng.randbytes(rng.randrange(4096))
    else:
        _damage_bytes(rng, data, kind)
    file.write_bytes(data)
    return f"{file.name}: {kind}"


def _damage_bytes(rng: random.Random, data: bytearray, kind: str) -> None:
    for _ in range(rng.choice((1, 3, 30))):
        at = rng.randrange(len(data))
        if kind == "flip":
            data[at] ^= 1 << rng.randrange(8)
        elif kind == "fill":
            end = min(at + rng.randrange(64), len(data))
            data[at:end] = bytes([rng.choice((0, 255, 0x11, 0x21, 0x01))]) * (end - at)
        else:
            other = rng.randrange(len(data))
            data[at], data[other] = data[other], data[at]


def _damage_json(rng: random.Random, file: Path) -> str:
    try:
        value = json.loads(file.read_bytes())
    except ValueError:
        return "capture.json: damaged before"
    key = alter(rng, value, _NUMBERS)
    file.write_text(json.dumps(value))
    return f"capture.json: {key}"


def alter(rng: random.Random, value: Any, values: Sequence[object]) -> object:
    """Gives one place in JSON data another value, or takes it away; the key of the place."""
    place, key = value, None
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return key
        key = rng.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.8:
            place = place[key]
            continue
        if isinstance(place, dict) and rng.random() < 0.3:
            del place[key]
        else:
            place[key] = rng.choice(values)
        return key


def read_all(folder: Path) -> None:
    """All that can be asked of a capture.

    Raises: CaptureError for what is refused.
    """
    capture = read_capture(folder)
    summarize(capture)
    page.mimebundle(capture)
    for counters in capture.counters:
        list(report.counter_sections(capture, counters))
    for stream in capture.streams:
        trace = capture.trace(stream).index()
        viewer_lanes(trace)
        list(report.listing(trace))
    view_all(Desk((capture,)))


def view_all(desk: Desk) -> None:
    """All that a viewer asks."""
    json.dumps(desk.overview())
    for number in range(len(desk.streams)):
        info = desk.advance(number, 5)["info"]
        start, end = info["span"]
        for left, right, columns in ((start, end, 300), (0, info["end"], 50), (end - 9, end, 9)):
            pack(desk.window(number, left, right, columns, mark=1)["columns"])
        desk.window(number, start, end, 100, [0, 1, 256, scene.WAVE_LANE])
        desk.selection(number, start, end)
        desk.classes(number)
        desk.program(number)
        desk.search(number, "salu")
        desk.beside(number, 3, start - 1)
        desk.compare(number, 0)
    for number in range(len(desk.readouts)):
        rows = desk.counters(number)["rows"]
        for row in rows[:3]:
            desk.grid(number, row["name"], ["se", "xcc"], ["wgp"])
    desk.together(range(len(desk.readouts)))


def run(count: int, seed: int = 0) -> dict[str, int]:
    """Reads ``count`` damaged captures; counts those refused and those read."""
    rng = random.Random(seed)
    seen = {"read": 0, "refused": 0}
    # Text comes from another process, which may do as it likes: here it would only take time.
    with mock.patch.object(disassemble, "libraries", return_value=()):
        for number in range(count):
            seen[_one(rng, f"seed {seed}, capture {number}")] += 1
    return seen


def _one(rng: random.Random, name: str) -> str:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "capture"
        shutil.copytree(FOLDER, folder)
        what = [damage(rng, folder) for _ in range(rng.choice((1, 1, 2, 4)))]
        begin = time.process_time()
        try:
            read_all(folder)
            outcome = "read"
        except CaptureError as error:
            outcome = "refused" if error.message else "refused without a word"
        except Exception as error:
            raise AssertionError(f"{name}, {what}: {error!r}") from error
        spent = time.process_time() - begin
        assert spent < _SECONDS, f"{name}, {what}: {spent:.1f} s"
    return outcome


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(run(wanted, int(sys.argv[2]) if len(sys.argv) > 2 else 0))
