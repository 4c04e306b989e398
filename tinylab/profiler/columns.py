"""Columns of numbers as one buffer, for a front end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def pack(arrays: Mapping[str, Any]) -> tuple[list[dict[str, Any]], bytes]:
    """Columns as one buffer for a front end: (name, type, shape, offset) of each, and the bytes.

    Little endian, each column at a multiple of eight. Integers of 64 bits become doubles, in which
    a front end counts. Values that are no arrays are left out.
    """
    specs, blob = [], bytearray()
    for name, column in arrays.items():
        if not isinstance(column, np.ndarray):
            continue
        kind = np.dtype(np.float64) if column.dtype.kind in "iu" and column.itemsize == 8 else None
        little = np.ascontiguousarray(column, (kind or column.dtype).newbyteorder("<"))
        specs.append(
            {
                "name": name,
                "type": little.dtype.name,
                "shape": list(column.shape),
                "offset": len(blob),
            }
        )
        blob += little.tobytes()
        blob += bytes(-len(blob) % 8)
    return specs, bytes(blob)
