"""Measuring by turns: A B, B A, ...; ratios by the median of pairs and by the smallest times.

A machine that others use is in another state every few seconds, so two numbers taken one after the
other say little. Rounds alternate, each round gives one ratio, and a difference is believed when
the median of the ratios and the ratio of the smallest times agree.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
Times = dict[str, list[float]]


def by_turns(subjects: dict[str, Callable[[], float]], rounds: int) -> Times:
    """The times of each subject, one a round, in an order that turns around each round.

    One round before them warms up caches of files and byte code, and is thrown away.
    """
    for subject in subjects.values():
        subject()
    times: Times = {name: [] for name in subjects}
    names = list(subjects)
    for i in range(rounds):
        for name in names if i % 2 == 0 else reversed(names):
            times[name].append(subjects[name]())
    return times


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """theirs / ours: the median of the rounds' ratios, and the ratio of the smallest."""
    pairs = [b / a for a, b in zip(ours, theirs, strict=True)]
    return statistics.median(pairs), min(theirs) / min(ours)


def shown_ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """'3.2 x (3.4)': how many times longer theirs takes, by pairs and by the smallest."""
    by_pairs, smallest = ratio(ours, theirs)
    return f"{by_pairs:.2f} x ({smallest:.2f})"


def shown_time(seconds: float) -> str:
    """2.31 s, 45.1 ms, 8.20 us."""
    for limit, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= limit:
            return f"{seconds / limit:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as a Markdown table, columns aligned."""
    texts = [tuple(head), *(tuple(str(cell) for cell in row) for row in rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(head))]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) + " |" for r in texts
    ]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    print(f"\n### {title}\n", *lines, sep="\n", flush=True)


# *** other libraries, each in a process of its own


def _can_import(python: str, module: str) -> bool:
    # Outside of the tree, so that a directory is not taken for the module.
    found = subprocess.run(
        [python, "-c", f"import {module}"], cwd="/", env=environment(), capture_output=True
    )
    return found.returncode == 0


# Byte code of every measured process, so that none compiles modules and the tree stays as it is.
_BYTE_CODE = Path(tempfile.gettempdir()) / "tinylab-benchmarks"


def environment(**more: str) -> dict[str, str]:
    """The environment of a measured process: this tree first, and what CLANG_DIR adds to PATH."""
    env = {**os.environ, "PYTHONPATH": str(HERE.parent), "PYTHONHASHSEED": "0", **more}
    env["PYTHONPYCACHEPREFIX"] = str(_BYTE_CODE)
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    if clang := os.environ.get("CLANG_DIR"):
        env["PATH"] = clang + os.pathsep + env["PATH"]
    return env


@functools.cache
def interpreter(library: str) -> tuple[str | None, str]:
    """The Python that has a library, and why there is none.

    tinygrad may live in an environment of its own: TINYGRAD_PYTHON names its interpreter.
    """
    python = os.environ.get(f"{library.upper()}_PYTHON", sys.executable)
    if not _can_import(python, library):
        return None, f"{library} is not installed for {python}; {library.upper()}_PYTHON names one"
    return python, ""


def has_clang() -> bool:
    """Whether tinygrad's CPU device can compile here."""
    return shutil.which("clang", path=environment()["PATH"]) is not None


def run_json(python: str, script: str, *arguments: str, **env: str) -> Any:
    """The last line that a script prints, as JSON; a fresh process."""
    done = subprocess.run(
        [python, str(HERE / script), *arguments],
        env=environment(**env),
        capture_output=True,
        text=True,
        cwd=HERE,
    )
    if done.returncode:
        raise RuntimeError(f"{script} {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


class Worker:
    """A process that answers one line of JSON with another, and keeps its state between."""

    def __init__(self, python: str, script: str, *arguments: str, **env: str) -> None:
        self.process = subprocess.Popen(
            [python, str(HERE / script), *arguments],
            env=environment(**env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=HERE,
        )

    def ask(self, **question: Any) -> Any:
        """The answer to one question.

        Raises: RuntimeError when the process has ended.
        """
        to, back = self.process.stdin, self.process.stdout
        assert to is not None, "a pipe"
        assert back is not None, "a pipe"
        to.write(json.dumps(question) + "\n")
        to.flush()
        line = back.readline()
        if not line:
            raise RuntimeError(f"the worker ended at {question}")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None, "a pipe"
        self.process.stdin.close()
        self.process.wait()
