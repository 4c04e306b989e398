"""DLPack: arrays of other libraries and tensors, each a view of the other's memory.

Python's side of the protocol is a capsule around a C struct; whoever takes it renames it, and
calls its deleter when done. Both forms are given and taken: with a version (1.x) and without.

Source: DLPack, dlpack.h, version 1.1.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from tinylab.device import Buffer, BufferSpec
from tinylab.dtype import DType, dtypes
from tinylab.errors import CreationError, DeviceError, DTypeError

CPU = 1
_HOST = (1, 3, 11)  # kDLCPU, and host memory that CUDA or ROCm pinned
_READ_ONLY = 1


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


# (code, bits) -> type
_TYPES: dict[tuple[int, int], DType] = {
    (0, 8): dtypes.int8, (0, 16): dtypes.int16, (0, 32): dtypes.int32, (0, 64): dtypes.int64,
    (1, 8): dtypes.uint8, (1, 16): dtypes.uint16, (1, 32): dtypes.uint32, (1, 64): dtypes.uint64,
    (2, 16): dtypes.float16, (2, 32): dtypes.float32, (2, 64): dtypes.float64,
    (4, 16): dtypes.bfloat16, (6, 8): dtypes.bool, (10, 8): dtypes.fp8e4m3,
    (11, 8): dtypes.fp8e4m3fnuz, (12, 8): dtypes.fp8e5m2, (13, 8): dtypes.fp8e5m2fnuz,
}  # fmt: skip
_CODES = {dtype: key for key, dtype in _TYPES.items()}

_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_SetName", _api)
)

# A capsule keeps a pointer to its name: these live as long as the process.
_NAMES = {False: b"dltensor", True: b"dltensor_versioned"}
_USED = {False: b"used_dltensor", True: b"used_dltensor_versioned"}

# *** out

_given: dict[int, tuple[Any, ...]] = {}  # a struct's address -> what it points to
_offered: dict[int, Any] = {}  # a struct's address -> the capsule that holds it, not yet taken


def _forget(address: int) -> None:
    _given.pop(address, None)


# Arrays may outlive this module when the process ends.
_forgetting = _Deleter(_forget)
_api.Py_IncRef(ctypes.py_object(_forgetting))


def give_up_unwanted() -> None:
    """Let go of the structs in capsules that nobody took and nobody holds any more.

    A destructor of the capsule would do it at once, but it runs Python while the taker's exception
    is set (numpy refuses bfloat16 so), which loses the exception.
    """
    for place in list(_offered):
        capsule = _offered[place]
        taken = not any(_is_valid(id(capsule), name) for name in _NAMES.values())
        if taken or sys.getrefcount(capsule) <= _OURS:
            del _offered[place]
            if not taken:
                _given.pop(place, None)


_OURS = 3  # references to a capsule above: the table's, the name's, and getrefcount's own


def capsule_of(
    address: int, shape: Sequence[int], dtype: DType, owner: Any, versioned: bool
) -> Any:
    """Memory in one piece as a capsule; owner is kept until the taker is done.

    Raises: DTypeError for a type that the protocol lacks.
    """
    if dtype not in _CODES:
        raise DTypeError(f"DLPack has no type like {dtype}", help="cast it first")
    code, bits = _CODES[dtype]
    sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    steps = (ctypes.c_int64 * max(len(shape), 1))(*_steps(shape))
    tensor = _Tensor(address, _Device(CPU, 0), len(shape), _Type(code, bits, 1), sizes, steps, 0)
    delete = ctypes.cast(_forgetting, ctypes.c_void_p)
    made: Any = (
        _Versioned(1, 0, None, delete, 0, tensor) if versioned else _Managed(tensor, None, delete)
    )
    place = ctypes.addressof(made)
    give_up_unwanted()
    _given[place] = (made, sizes, steps, owner)
    capsule = _api.PyCapsule_New(place, _NAMES[versioned], None)
    _offered[place] = capsule
    return capsule


def _steps(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


# *** in


class Taken(NamedTuple):
    """An array of another library: its memory, and how it lies there."""

    buffer: Buffer
    shape: tuple[int, ...]
    order: tuple[int, ...]  # axes by falling step: the memory is this permutation in one piece


class _Owner:
    """Calls a struct's deleter when nobody looks at the memory any more."""

    def __init__(self, address: int, deleter: int | None) -> None:
        self.address, self.deleter = address, deleter

    def __del__(self) -> None:
        if self.deleter and _Deleter:  # the names of a module are gone when the process ends
            _Deleter(self.deleter)(self.address)


def take(array: Any) -> Taken | None:
    """The memory of an array that speaks DLPack; None where it has gaps or may only be read.

    Raises: DeviceError for memory that this process cannot see; DTypeError, CreationError.
    """
    place = array.__dlpack_device__() if hasattr(array, "__dlpack_device__") else (CPU, 0)
    if int(place[0]) not in _HOST:
        raise DeviceError(
            f"an array on DLPack device {tuple(map(int, place))} is not in this machine's memory",
            help="move it to the CPU first",
        )
    versioned, address = _struct_of(_ask(array))
    struct: Any = (_Versioned if versioned else _Managed).from_address(address)
    owner = _Owner(address, struct.deleter)
    if versioned and struct.flags & _READ_ONLY:
        return None
    return _taken(struct.tensor, owner)


def _ask(array: Any) -> Any:
    if not hasattr(array, "__dlpack__"):
        return array  # a capsule
    try:
        return array.__dlpack__(max_version=(1, 0))
    except TypeError:
        return array.__dlpack__()


def _struct_of(capsule: Any) -> tuple[bool, int]:
    for versioned, name in _NAMES.items():
        if _is_valid(id(capsule), name):
            address = _pointer_of(id(capsule), name)
            _rename(id(capsule), _USED[versioned])
            return versioned, address
    raise CreationError(
        f"{type(capsule).__name__} does not speak DLPack", help="give an array, or Tensor(data)"
    )


def _taken(x: Any, owner: _Owner) -> Taken | None:
    key = (x.dtype.code, x.dtype.bits)
    if key not in _TYPES or x.dtype.lanes != 1:
        raise DTypeError(f"tinylab has no type like DLPack's code {key[0]} of {key[1]} bits")
    dtype = _TYPES[key]
    shape = tuple(x.shape[i] for i in range(x.ndim))
    steps = [x.strides[i] for i in range(x.ndim)] if x.strides else _steps(shape)
    order = tuple(sorted(range(len(shape)), key=lambda i: (-steps[i], i)))
    address = (x.data or 0) + x.byte_offset
    for i, step in zip(order, _steps([shape[i] for i in order]), strict=True):
        if shape[i] > 1 and steps[i] != step:
            return None
    if address % dtype.itemsize:
        return None
    return Taken(view_memory(address, math.prod(shape), dtype, owner), shape, order)


def view_memory(address: int, count: int, dtype: DType, owner: Any) -> Buffer:
    """Memory of this process as a buffer of the CPU; owner is kept as long as it."""
    spec = BufferSpec(external_ptr=address)
    found = Buffer("CPU", count, dtype, options=spec).allocate()
    found._buf.owner = owner
    return found
