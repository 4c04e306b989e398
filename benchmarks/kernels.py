"""Kernels on this processor against numpy, PyTorch and tinygrad, each in a process of its own."""

from __future__ import annotations

import statistics

from benchmarks import harness
from benchmarks.cases import CASES

LIBRARIES = ("tinylab", "numpy", "torch", "tinygrad")
BATCH_SECONDS = 0.05


def _workers() -> dict[str, harness.Worker]:
    found = {}
    for library in LIBRARIES:
        python, reason = harness.interpreter(library)
        if python is None:
            print(f"(no {library} column: {reason})")
        elif library == "tinygrad" and not harness.has_clang():
            print("(no tinygrad column: its CPU device needs clang; CLANG_DIR may name its folder)")
        else:
            found[library] = harness.Worker(python, "kernel_worker.py", library)
    return found


def measure(
    workers: dict[str, harness.Worker], case: str, rounds: int
) -> tuple[harness.Times, dict[str, str]]:
    """The smallest time of each round's batch for each library, and why some have none."""
    counts: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for library, worker in workers.items():
        told = worker.ask(case=case, count=1, only=True)
        if "error" in told:
            reasons[library] = told["error"]
        else:
            counts[library] = max(1, min(200, int(BATCH_SECONDS / told["seconds"][0])))
    subjects = {
        library: lambda library=library: min(
            workers[library].ask(case=case, count=counts[library])["seconds"]
        )
        for library in counts
    }
    return harness.by_turns(subjects, rounds), reasons


def run(rounds: int = 11, cases: tuple[str, ...] = CASES) -> None:
    """Every case; the ratio is to the best of numpy and PyTorch."""
    workers = _workers()
    rows = []
    for case in cases:
        times, reasons = measure(workers, case, rounds)
        row = [case]
        for library in workers:
            if library in times:
                row.append(harness.shown_time(statistics.median(times[library])))
            else:
                row.append("")
        rivals = [library for library in ("numpy", "torch") if library in times]
        if rivals and "tinylab" in times:
            best = min(rivals, key=lambda library: min(times[library]))
            row += [best, harness.shown_ratio(times[best], times["tinylab"])]
        else:
            row += ["", reasons.get("tinylab", "")[:60]]
        rows.append(row)
    for worker in workers.values():
        worker.close()
    head = ["case", *workers, "best", "tinylab / best"]
    harness.table("kernels, float32, heuristics (less than 1: tinylab is faster)", head, rows)
