"""Data into buffers and out of them: numbers, lists, bytes, numpy arrays."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from tinylab.device import Buffer, MultiBuffer, Owner
from tinylab.dtype import (
    DType,
    as_const,
    dtype_for_ints,
    dtypes,
    from_storage_scalar,
    least_upper_dtype,
    storage_fmt_for_dtype,
    to_storage_scalar,
)
from tinylab.errors import CreationError, ShapeError
from tinylab.helpers.arguments import shown
from tinylab.helpers.context import Context
from tinylab.helpers.seq import fully_flatten
from tinylab.schedule.effects import buffer_below
from tinylab.tensor import dlpack
from tinylab.trace.provenance import user_line
from tinylab.uop.ops import UOp
from tinylab.uop.sharding import even_part

if TYPE_CHECKING:
    import numpy


# The buffers of data that a function made while it is traced; None where none is.
_made: ContextVar[list[UOp] | None] = ContextVar("_made", default=None)


@contextmanager
def data_noted() -> Iterator[list[UOp]]:
    """A list of the buffers that are filled with data inside, which may use a device for that."""
    found: list[UOp] = []
    token = _made.set(found)
    try:
        yield found
    finally:
        _made.reset(token)
        note_made(found)


def note_made(buffers: Iterable[UOp]) -> None:
    """Buffers are the own ones of the function that is traced, if one is."""
    made = _made.get()
    if made is not None:
        made += buffers


def buffer_uop(data: Any, dtype: DType, shape: Sequence[int], device: Any) -> UOp:
    """A BUFFER that holds these bytes, in a shape; on several devices each holds them all."""
    count = math.prod(shape)
    if count == 0:
        return UOp.const(0, dtype)._expand_front(tuple(shape))
    names = device if isinstance(device, tuple) else (device,)
    with nullcontext() if _made.get() is None else Context(ALLOW_DEVICE_USAGE=1):
        parts = [Buffer(d, count, dtype, initial_value=data) for d in names]
    for part in parts:
        part.owner = Owner("data", user_line())
    memory = MultiBuffer(names, count, dtype, parts) if len(parts) > 1 else parts[0]
    found = UOp.from_buffer(memory)
    note_made([buffer_below(found)])
    return found._reshape(tuple(shape))


def empty_uop(shape: Sequence[Any], dtype: DType, device: Any, axis: int | None = None) -> UOp:
    """A BUFFER of its own, with no memory yet, in a shape; on several devices perhaps cut.

    Where a size is symbolic there is room for the largest.
    """
    if math.prod(shape) == 0:
        return UOp.const(0, dtype)._expand_front(tuple(shape))
    part = list(shape)
    if axis is not None:
        part[axis] = even_part(tuple(shape), axis, len(device))
    room = tuple([s if isinstance(s, int) else s.vmax for s in part])
    whole = UOp.new_buffer(device, math.prod(room), dtype)._reshape(room)
    return whole._shrink((0,) * len(room), tuple(part)).unshard(axis)


# *** in


def shape_of_list(data: Any) -> tuple[int, ...]:
    """The sizes of nested lists.

    [[1, 2], [3, 4]] -> (2, 2)

    Raises: CreationError when lists of one level have different lengths.
    """
    if not isinstance(data, (list, tuple)):
        return tuple(data.shape) if is_array(data) else ()
    inner = [shape_of_list(x) for x in data]
    if any(s != inner[0] for s in inner):
        raise CreationError(
            f"inhomogeneous shape from {data if len(data) < 8 else type(data).__name__}: "
            f"its items have the shapes {sorted(set(inner))[:4]}",
            help="make the inner lists equally long",
        )
    return (len(data), *(inner[0] if inner else ()))


def is_array(x: object) -> bool:
    """Whether x is an array or a number of numpy's, which need not be imported."""
    return type(x).__module__.split(".")[0] == "numpy" and hasattr(x, "shape")


def dtype_of_list(flat: Sequence[Any]) -> DType:
    """bool, default int or default float, by the elements; wide integers are int64.

    Raises: CreationError for an element that is no number.
    """
    kinds = _kinds_of_numbers(flat)
    if not kinds:
        return dtypes.default_float
    if any(issubclass(k, float) for k in kinds):
        return dtypes.default_float
    if kinds <= {bool}:
        return dtypes.bool
    return dtype_of_ints(flat)


def _kinds_of_numbers(flat: Sequence[Any]) -> set[type]:
    """The types of the elements.

    Raises: CreationError for an element that is no number.
    """
    kinds = {type(x) for x in flat}
    for kind in kinds:
        if not issubclass(kind, (bool, int, float)):
            bad = next(x for x in flat if type(x) is kind)
            raise CreationError(
                f"Could not infer dtype of {bad!r} with type {kind.__name__}",
                help="give numbers, bools or nested lists of them",
            )
    return kinds


def dtype_of_ints(flat: Sequence[int]) -> DType:
    """The default int, or int64 where that is too small.

    Raises: CreationError where that is too small too.
    """
    low, high = min(flat), max(flat)
    found = dtype_for_ints(low, high)
    if not (found.min <= low and high <= found.max):
        raise CreationError(
            f"{shown(low if low < found.min else high)} does not fit {found}",
            help="give the dtype: uint64 holds up to 2**64 - 1, a float about as much",
        )
    return found


def check_fits(x: Any, dtype: DType) -> None:
    """Refuse an integer that a type has no room for; below 0 it counts from the unsigned's end.

    Raises: CreationError with the bounds of the type.
    """
    if not isinstance(x, int) or dtype.kind not in ("sint", "uint") or dtypes.is_weak(dtype):
        return
    least = -dtype.max if dtype.kind == "uint" else dtype.min
    _check_within(x, least, dtype)


def check_whole(x: Any, dtype: DType) -> None:
    """Refuse a float whose whole part an integer type has no room for, an infinity and NaN.

    Raises: CreationError with the bounds of the type.
    """
    if isinstance(x, float) and dtype.kind in ("sint", "uint"):
        _check_within(math.trunc(x) if math.isfinite(x) else x, dtype.min, dtype)


def _check_within(x: int | float, least: int | float, dtype: DType) -> None:
    if not least <= x <= dtype.max:
        raise CreationError(
            f"{shown(x)} does not fit {dtype}, which holds {dtype.min} to {dtype.max}",
            help="give a wider dtype, or take x & mask for its low bits"
            if isinstance(x, int)
            else "give a number that it holds, or a float dtype",
        )


def pack(flat: Sequence[Any], dtype: DType) -> bytes:
    """Numbers as the bytes of a type: floats round, -1 is the largest of an unsigned type.

    Raises: CreationError for an integer that the type has no room for.
    """
    fmt = f"<{len(flat)}{storage_fmt_for_dtype(dtype)}"
    if dtype.fmt is not None:
        try:
            return struct.pack(fmt, *flat)
        except (struct.error, OverflowError, TypeError):
            for x in flat:  # out of range, or floats for integers: element by element
                check_fits(x, dtype)
    return struct.pack(fmt, *(to_storage_scalar(as_const(x, dtype), dtype) for x in flat))


def bytes_uop(raw: bytes, dtype: DType, device: str) -> UOp:
    """Bytes as the elements of a type.

    Raises: CreationError where they are no whole number of elements.
    """
    if len(raw) % dtype.itemsize:
        raise CreationError(
            f"{len(raw)} bytes are no whole number of {dtype}: each has {dtype.itemsize}"
        )
    return buffer_uop(raw, dtype, (len(raw) // dtype.itemsize,), device)


def memory_uop(data: bytes | bytearray | memoryview, dtype: DType | None, device: str) -> UOp:
    """What lies in memory: elements of a type, of that which a memoryview has, or bytes."""
    if dtype is None and isinstance(data, memoryview) and data.format not in ("B", "b", "c"):
        return array_uop(data, None, device)
    return bytes_uop(bytes(data), dtype or dtypes.uint8, device)


def list_uop(data: Any, dtype: DType | None, device: str) -> UOp:
    """Nested lists as a stored value."""
    shape = shape_of_list(data)
    items = fully_flatten(data)
    flat = [x.item() if is_array(x) else x for x in items]
    own = dtype
    if own is None:
        own = _dtype_of_items(items) or dtype_of_list(flat)
    if own is dtypes.bool:
        _kinds_of_numbers(flat)  # anything has a truth value
    try:
        return buffer_uop(pack(flat, own), own, shape, device)
    except TypeError:
        _kinds_of_numbers(flat)
        raise


def _dtype_of_items(items: Sequence[Any]) -> DType | None:
    """The type of numpy's numbers; beside Python's only where they are floats, else None."""
    kinds = {x.dtype: x for x in items if is_array(x)}
    if not kinds:
        return None
    found = least_upper_dtype(*map(dtype_of_numpy, kinds.values()))
    if all(map(is_array, items)):
        return found
    return least_upper_dtype(found, dtypes.default_float) if found.kind == "float" else None


def numpy_dtype(dtype: DType) -> Any:
    """numpy's name of a type; None where it has none."""
    import numpy as np

    return None if dtype.fmt is None else np.dtype(dtype.fmt)


def dtype_of_numpy(array: numpy.ndarray[Any, Any] | numpy.generic) -> DType:
    """The type of an array or a number of numpy's.

    Raises: CreationError for types without a counterpart (complex, strings, objects).
    """
    for dtype in dtypes.all:
        if dtype.fmt is not None and array.dtype == numpy_dtype(dtype):
            return dtype
    raise CreationError(
        f"can't create Tensor from a numpy array of {array.dtype}",
        help="convert it with .astype(...) first",
    )


def array_uop(data: Any, dtype: DType | None, device: str) -> UOp:
    """A copy of what numpy can make an array of; types that numpy lacks come by DLPack.

    Raises: CreationError for what does not give its values, such as what records a gradient.
    """
    import numpy as np

    try:
        array = np.asarray(data)
    except TypeError:
        taken = dlpack.take(data) if hasattr(data, "__dlpack__") else None
        if taken is None:
            raise
    except RuntimeError as error:  # PyTorch's words for a tensor that has a gradient, or is lazy
        raise CreationError(
            f"can't create Tensor from a {type(data).__name__}: {shown(str(error))}",
            help="give its values: of PyTorch, x.detach()" if hasattr(data, "detach") else None,
        ) from error
    else:
        return numpy_uop(array, dtype, device)
    lying = tuple(taken.shape[i] for i in taken.order)
    found = buffer_uop(bytes(taken.buffer.as_memoryview()), taken.buffer.dtype, lying, device)
    found = found._permute(tuple(taken.order.index(i) for i in range(len(lying))))
    return found if dtype is None else found.cast(dtype)


def numpy_uop(array: numpy.ndarray[Any, Any], dtype: DType | None, device: str) -> UOp:
    """A copy of a numpy array, whatever its strides; cast when a type is given."""
    import numpy as np

    if array.dtype.byteorder not in ("=", "|", "<"):
        array = array.astype(array.dtype.newbyteorder("="))
    own = dtype_of_numpy(array)
    whole = np.ascontiguousarray(array)
    data: Any = whole.reshape(-1).view(np.uint8) if whole.size else b""
    found = buffer_uop(data, own, array.shape, device)
    return found if dtype is None else found.cast(dtype)


# *** out


def with_format(view: memoryview, dtype: DType, shape: Sequence[int] | None = None) -> memoryview:
    """Bytes as a memoryview of a type's elements, in a shape if one is given."""
    fmt: Any = storage_fmt_for_dtype(dtype)
    raw: Any = view.cast("B")
    if fmt == "e":
        import numpy as np  # a memoryview cannot be cast to halves, an array of them can be viewed

        raw = memoryview(np.frombuffer(raw, dtype=np.float16))  # type: ignore[arg-type]
        return raw if shape is None else memoryview(raw.obj.reshape(shape))
    found: memoryview = raw.cast(fmt) if shape is None else raw.cast(fmt, tuple(shape))
    return found


def unpack(view: memoryview, dtype: DType) -> list[Any]:
    """Bytes as Python numbers."""
    fmt = storage_fmt_for_dtype(dtype)
    values = list(struct.unpack(f"<{view.nbytes // dtype.itemsize}{fmt}", view.cast("B")))
    return values if dtype.fmt is not None else [from_storage_scalar(v, dtype) for v in values]


def nested(flat: list[Any], shape: Sequence[int]) -> Any:
    """Numbers as nested lists of a shape; one number for shape ()."""
    if not shape:
        return flat[0]
    for size in reversed(shape[1:]):
        count = len(flat) // size if size else math.prod(shape[:-1])
        flat = [flat[i * size : (i + 1) * size] for i in range(count)]
    return flat


def to_numpy(view: memoryview, dtype: DType, shape: Sequence[int]) -> Any:
    """Bytes as a numpy array of their own; types that numpy lacks become float32.

    Raises: ShapeError for sizes that numpy has no room for, though one of them is 0.
    """
    import numpy as np

    known = numpy_dtype(dtype)
    if known is None:
        flat = np.array(unpack(view, dtype), dtype=np.float32)
    else:
        flat = np.frombuffer(view, dtype=known)
    try:
        return flat.reshape(shape)
    except ValueError as error:
        raise ShapeError(f"numpy has no arrays of shape {tuple(shape)}: {error}") from error
