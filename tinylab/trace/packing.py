r"""Lists of 32-bit integers as short blobs: bytes of equal weight side by side, then zlib.

    pack([7, 7, 8])  ->  b"\0" + 12 bytes      (short lists stay as they are)

Unpacking makes integers and nothing else, and never more than a file may claim.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from collections.abc import Iterable

from tinylab.errors import TraceError

_RAW, _PACKED = b"\0", b"\1"
_SHORT = 64  # integers; shorter lists gain nothing
_MOST_BYTES = 1 << 30


def pack(values: Iterable[int], level: int = 1) -> bytes:
    """Integers from 0 to 2**32-1 as a blob."""
    numbers = values if isinstance(values, array) else array("I", values)
    raw = _little_endian(numbers).tobytes()
    if len(numbers) < _SHORT:
        return _RAW + raw
    planes = b"".join([raw[weight::4] for weight in range(4)])
    packed = zlib.compress(planes, level)
    return _PACKED + packed if len(packed) < len(raw) else _RAW + raw


def unpack(blob: bytes) -> array[int]:
    """The integers of a blob.

    Raises: TraceError if the blob is damaged.
    """
    kind, body = blob[:1], blob[1:]
    if kind == _PACKED:
        planes = inflate(body)
        count = len(planes) // 4
        raw = bytearray(len(planes))
        if len(planes) % 4 == 0:
            for weight in range(4):
                raw[weight::4] = planes[weight * count : (weight + 1) * count]
    elif kind == _RAW:
        raw = bytearray(body)
    else:
        raise TraceError(f"a list of integers begins with {kind!r}", help="the file is damaged")
    if len(raw) % 4:
        raise TraceError(f"a list of integers has {len(raw)} bytes", help="the file is damaged")
    numbers = array("I")
    numbers.frombytes(bytes(raw))
    return _little_endian(numbers)


def inflate(blob: bytes) -> bytes:
    """What zlib packed, unless it is damaged or swells without bound.

    Raises: TraceError.
    """
    machine = zlib.decompressobj()
    try:
        found = machine.decompress(blob, _MOST_BYTES)
    except zlib.error as error:
        raise TraceError(f"a part of the file cannot be unpacked: {error}") from None
    if machine.unconsumed_tail:
        raise TraceError(f"a part of the file unpacks to more than {_MOST_BYTES} bytes")
    if not machine.eof:
        raise TraceError(f"a part of the file ends after {len(blob)} bytes, in the middle")
    return found


def _little_endian(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
