"""Damaged profiles and traces: read to their end or refused in words, in bounded time and memory.

python -m tests.profiler.fuzz_profiles 1000000
"""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import tinylab
from tests.profiler.fuzz import alter
from tests.profiler.profiles import many
from tinylab import Tensor
from tinylab.errors import TinylabError
from tinylab.profiler import profile_report, still
from tinylab.profiler.collected import Profile
from tinylab.profiler.columns import pack
from tinylab.profiler.export import to_chrome
from tinylab.profiler.files import load_profile
from tinylab.profiler.timeline_desk import TimelineDesk

_SECONDS = 5.0  # for one file; it takes a few milliseconds
_WORDS = (
    b"1e999", b"-1", b"null", b"{}", b"[", b"]", b"}", b'"', b"\\u0000", b"NaN",
    b"99999999999999999999", b'"ph":"B"', b'"ph":"E"', b'"ph":"C"', b'"ts":-5', b'"dur":1e18',
    b'"pid":{}', b"\xff", b",,,", b"[" * 99,
)  # fmt: skip

_VALUES = (
    0, 1, -1, 2**31, 2**53, 2**64, 10**30, 1.5, -0.5, 1e300, float("nan"), float("inf"), None, "",
    "x" * 99, "B", "E", "C", "b", "e", "i", "X", "M", "s", [], {}, [[]], {"name": 3}, {"name": "n"},
    {"a": 1, "b": []}, {"kernel": -9}, {"kernel": 2**40}, {"value": "x"}, True, "tinylab",
    [["a", "b", 1, 2, 3, ""]], [["a", 1]],
)  # fmt: skip


def originals(folder: Path) -> list[tuple[str, bytes]]:
    """A small profile in each form that is read: (ending, bytes)."""
    profile = Profile("fuzzed", table=many(120, 3))
    found = []
    for ending in (".tlab", ".json", ".json.gz"):
        path = folder / f"whole{ending}"
        if ending == ".tlab":
            profile.save(path)
        else:
            to_chrome(profile, path)
        found.append((ending, path.read_bytes()))
    _counted().save(folder / "counted.tlab")
    return [*found, (".tlab", (folder / "counted.tlab").read_bytes())]


def _counted() -> Profile:
    """A profile with a record beside it, and counters of its kernels."""
    with tinylab.profile("counted", record=True) as p:
        Tensor.ones(6, 11).contiguous().sum().realize()
    figure = {"name": "flops", "value": 66, "unit": "operations", "kind": "counted", "note": "n"}
    for kernel in p.kernels.values():
        if kernel.number is not None:
            p.counted[kernel.number] = {"figures": [figure], "notes": ["n"], "message": ""}
    return p


def reworded(rng: random.Random, whole: bytes) -> bytes:
    """A trace with some values of its events changed for others: what remains is JSON."""
    trace = json.loads(whole)
    for _ in range(rng.choice((1, 3, 20))):
        place = rng.choice([*trace["traceEvents"], trace["otherData"]])
        key = rng.choice([*place, "args", "id", "ph", "ts", "dur", "name"])
        place[key] = rng.choice(_VALUES)
    return json.dumps(trace).encode()


def rewritten(rng: random.Random, whole: bytes) -> bytes:
    """A .tlab file with some of what it says of its profile changed for something else."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(whole)
        for _ in range(rng.choice((1, 3))):
            key, data = rng.choice(db.execute("SELECT key, data FROM profile").fetchall())
            value = [json.loads(data)]
            alter(rng, value, _VALUES)
            text = json.dumps(value[0]) if value else ""
            db.execute("UPDATE profile SET data = ? WHERE key = ?", (text, key))
        db.commit()
        return db.serialize()


def damaged(rng: random.Random, ending: str, whole: bytes) -> bytes:
    """A file with some of it changed."""
    if ending == ".tlab" and rng.random() < 0.5:
        return rewritten(rng, whole)
    if ending == ".json" and rng.random() < 0.6:
        return reworded(rng, whole)
    data = bytearray(whole)
    kind = rng.choice(("flip", "cut", "word", "drop", "twice"))
    if kind == "cut":
        return bytes(data[: rng.randrange(len(data) + 1)])
    for _ in range(rng.choice((1, 3, 20))):
        at = rng.randrange(len(data))
        if kind == "flip":
            data[at] ^= 1 << rng.randrange(8)
        elif kind == "word":
            data[at:at] = rng.choice(_WORDS)
        elif kind == "drop":
            del data[at : at + rng.randrange(1, 40)]
        else:
            data[at:at] = data[at : at + rng.randrange(1, 200)]
        if not data:
            break
    return bytes(data)


def read_all(path: Path) -> None:
    """All that can be asked of a profile.

    Raises: TinylabError for what is refused.
    """
    profile = load_profile(path)
    still.mimebundle(profile)
    desk = TimelineDesk(profile)
    page = desk.overview()
    json.dumps(page)
    start, end = page["span"]
    keys = [lane["key"] for lane in page["lanes"]][:50]
    for left, right in ((start, end), (start - 5, start + 5), (end, end + 1)):
        args = {"start": left, "end": right, "columns": 200, "keys": keys}
        pack(desk.answer("window", args)["columns"])
    desk.answer("select", {"start": start, "end": end})
    desk.answer("search", {"query": "r_1"})
    list(profile_report.sections(profile))
    profile_report.summary(profile)
    for event in range(min(5, page["events"])):
        desk.answer("event", {"event": event})


def run(count: int, seed: int = 0) -> dict[str, int]:
    """Reads ``count`` damaged files; counts those refused and those read."""
    rng = random.Random(seed)
    seen = {"read": 0, "refused": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wholes = originals(folder)
        for number in range(count):
            ending, whole = rng.choice(wholes)
            path = folder / f"damaged{ending}"
            path.write_bytes(damaged(rng, ending, whole))
            begin = time.process_time()
            try:
                read_all(path)
                seen["read"] += 1
            except TinylabError:
                seen["refused"] += 1
            spent = time.process_time() - begin
            assert spent < _SECONDS, f"file {number} of seed {seed} took {spent:.1f} s"
    return seen


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(run(wanted, int(sys.argv[2]) if len(sys.argv) > 2 else 0))
