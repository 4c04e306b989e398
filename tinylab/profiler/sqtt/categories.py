"""Kinds of instruction, for colours and sums: a few words for all classes of all families."""

from __future__ import annotations

import numpy as np

from tinylab.profiler.sqtt.native import Array
from tinylab.profiler.sqtt.packets import Table
from tinylab.profiler.sqtt.stats import CLASSES, class_name

CATEGORIES = (
    "scalar",
    "scalar memory",
    "vector",
    "transcendental",
    "matrix",
    "memory",
    "local memory",
    "branch",
    "barrier",
    "wait",
    "message",
    "end",
    "other SIMD",
    "other",
)

# First match wins. Names begin with these words.
_PREFIXES = (
    ("OTHER_MSG", "message"),
    ("OTHER_", "other SIMD"),
    ("WMMA", "matrix"),
    ("VALU_MAI", "matrix"),
    ("VALUT", "transcendental"),
    ("VALU_SCL_TRANS", "transcendental"),
    ("VALU", "vector"),
    ("VINTERP", "vector"),
    ("SMEM", "scalar memory"),
    ("SALU", "scalar"),
    ("LDS", "local memory"),
    ("SGMEM", "memory"),
    ("VMEM", "memory"),
    ("FLAT", "memory"),
    ("BUF", "memory"),
    ("JUMP", "branch"),
    ("NEXT", "branch"),
    ("CALL", "branch"),
    ("BARRIER", "barrier"),
    ("IMMEDIATE", "wait"),
    ("ISSUE", "wait"),
    ("MESSAGE", "message"),
    ("WAVEEND", "end"),
)


def category_of(name: str) -> str:
    """The category of a class: "SGMEM_RD_2" -> "memory"."""
    return next((category for prefix, category in _PREFIXES if name.startswith(prefix)), "other")


_TABLES: dict[str, Array] = {}


def categories(table: Table) -> Array:
    """Category numbers by class number (see stats.class_of), for one family."""
    if table.family not in _TABLES:
        names = (class_name(table, n) if _exists(table, n) else "" for n in range(CLASSES))
        numbers = [CATEGORIES.index(category_of(name)) for name in names]
        _TABLES[table.family] = np.array(numbers, np.uint8)
    return _TABLES[table.family]


def _exists(table: Table, number: int) -> bool:
    return number in table.ops if number < 256 else number - 256 < len(table.kinds)
