"""Raw memory: memoryviews, addresses, and ctypes arrays of one another."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from tinylab.errors import ContractError


def flat_mv(mv: memoryview | bytes | bytearray) -> memoryview:
    """The same memory as one axis of bytes."""
    if not isinstance(mv, memoryview):
        mv = memoryview(mv)
    return mv if mv.format == "B" and mv.ndim == 1 else mv.cast("B")


def from_mv(mv: memoryview, to_type: Any = ctypes.c_char) -> Any:
    """A writable view as a ctypes array that shares its memory."""
    return ctypes.cast(
        ctypes.addressof(to_type.from_buffer(mv)),
        ctypes.POINTER(to_type * (len(mv) * mv.itemsize // ctypes.sizeof(to_type))),
    ).contents


def to_mv(ptr: int, sz: int) -> memoryview:
    """The ``sz`` bytes at an address, shared, not copied; whoever asks keeps them alive."""
    return memoryview(_byte_array(sz).from_address(ptr)).cast("B")


def mv_address(mv: memoryview) -> int:
    """Where a view's first byte lies, read-only views included."""
    if not mv.c_contiguous:
        raise ContractError("the address of a view with gaps says nothing about its items")
    if mv.nbytes == 0:
        return 0
    if not mv.readonly:
        return ctypes.addressof(ctypes.c_char.from_buffer(mv))
    info = _PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(mv), ctypes.byref(info), 0)
    address = info.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(info))
    return int(address)


def pad_bytes(b: bytes, align: int) -> bytes:
    """Zeros at the end up to a multiple of ``align``."""
    return b + b"\x00" * (-len(b) % align)


# A new array type costs 4 us; sizes repeat.
@functools.lru_cache(maxsize=4096)
def _byte_array(size: int) -> Any:
    return ctypes.c_uint8 * size


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]
