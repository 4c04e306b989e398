"""Checkpoints of PyTorch, read through an unpickler that knows ten names and runs nothing.

A pickle is a program: it may ask for any function of any module and call it. Here what is asked
for is looked up in one table; a name that is not in it becomes an inert `Stranger`, so that a
checkpoint with a foreign object in a corner still gives its tensors.
"""

from __future__ import annotations

import io
import math
import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from tinylab.dtype import DType, dtypes
from tinylab.errors import FileFormatError
from tinylab.nn.files import Bytes, accept_filename, open_zip, place_in_zip, read_of_zip
from tinylab.tensor import Tensor
from tinylab.tensor.data import buffer_uop

_STORAGES = {
    "BoolStorage": dtypes.bool, "ByteStorage": dtypes.uint8, "CharStorage": dtypes.int8,
    "ShortStorage": dtypes.int16, "IntStorage": dtypes.int32, "LongStorage": dtypes.int64,
    "HalfStorage": dtypes.float16, "BFloat16Storage": dtypes.bfloat16,
    "FloatStorage": dtypes.float32, "DoubleStorage": dtypes.float64,
}  # fmt: skip
_DTYPES = {
    "bool": dtypes.bool, "uint8": dtypes.uint8, "int8": dtypes.int8, "int16": dtypes.int16,
    "int32": dtypes.int32, "int64": dtypes.int64, "uint16": dtypes.uint16,
    "uint32": dtypes.uint32, "uint64": dtypes.uint64, "float16": dtypes.float16,
    "bfloat16": dtypes.bfloat16, "float32": dtypes.float32, "float64": dtypes.float64,
    "float8_e4m3fn": dtypes.fp8e4m3, "float8_e5m2": dtypes.fp8e5m2,
    "float8_e4m3fnuz": dtypes.fp8e4m3fnuz, "float8_e5m2fnuz": dtypes.fp8e5m2fnuz,
}  # fmt: skip
_MAGIC = 0x1950A86A20F9469CFC6C
_MOST_OVERLAP = 64  # how often a storage may be repeated by a tensor whose rows overlap


class Storage(NamedTuple):
    """A run of bytes in the file; dtype is None where the tensor says what they are."""

    dtype: DType | None
    start: int
    size: int


class Stranger:
    """What stands for an object of a class that is not known: inert."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        """Forget an item."""

    def append(self, item: Any) -> None:
        """Forget an item."""

    def extend(self, items: Any) -> None:
        """Forget items."""

    def add(self, item: Any) -> None:
        """Forget an item."""


class _Known:
    """A function that a pickle may call; it takes no state, so a pickle cannot change it."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)

    def __setstate__(self, state: Any) -> None:
        raise FileFormatError("damaged file: it changes a function")


def _bytearray(reader: Any) -> None:
    """Bytes that may change, as long as the file has them: Python makes room first."""
    (length,) = struct.unpack("<Q", reader.read(8))
    reader.append(bytearray(reader.read(length)))


class _Reader(pickle._Unpickler):
    """Unpickles; storages are found by key.

    Python's unpickler in Python: the one in C makes room for any number that a file gives to a
    memory, and one in 8 bytes takes all that there is.
    """

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **pickle._Unpickler.dispatch,
        pickle.BYTEARRAY8[0]: _bytearray,
    }

    def __init__(self, file: Any, data: Bytes, find: Callable[[Any, str], Storage]) -> None:
        super().__init__(file, encoding="utf-8")
        self.data, self.find = data, find

    def find_class(self, module: str, name: str) -> Any:
        """A name of the table, or a Stranger."""
        if module == "torch" and (name in _STORAGES or name == "UntypedStorage"):
            return _StorageKind(name)
        if module == "torch.storage" and name in ("UntypedStorage", "TypedStorage"):
            return _StorageKind(name)
        if module == "torch" and name in _DTYPES:
            return _StorageKind(name)
        known = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch", "Size"): _Known(tuple),
            ("torch", "device"): _Known(lambda *args: str(args[0]) if args else ""),
            ("torch._utils", "_rebuild_tensor"): _Known(self._rebuild),
            ("torch._utils", "_rebuild_tensor_v2"): _Known(self._rebuild),
            ("torch._utils", "_rebuild_tensor_v3"): _Known(self._rebuild_v3),
            ("torch._utils", "_rebuild_parameter"): _Known(lambda t, *_: t),
            ("torch._utils", "_rebuild_parameter_with_state"): _Known(lambda t, *_: t),
            ("torch._tensor", "_rebuild_from_type_v2"): _Known(lambda _, __, args, *___: args),
        }
        return known.get((module, name), Stranger)

    def persistent_load(self, pid: Any) -> Storage:
        """The storage that a key names."""
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
            raise FileFormatError(f"damaged file: it refers to {str(pid)[:60]}")
        kind, key = pid[1], pid[2]
        if not isinstance(kind, _StorageKind):
            raise FileFormatError(f"tinylab has no storage of {str(kind)[:60]}")
        return self.find(kind.dtype, str(key))

    def _rebuild(self, storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Tensor:
        return _strided(self.data, storage, None, offset, size, stride)

    def _rebuild_v3(
        self,
        storage: Any,
        offset: Any,
        size: Any,
        stride: Any,
        _: Any,
        __: Any,
        kind: Any,
        *___: Any,
    ) -> Tensor:
        dtype = kind.dtype if isinstance(kind, _StorageKind) else None
        return _strided(self.data, storage, dtype, offset, size, stride)


class _StorageKind(NamedTuple):
    """A class of storages, or an element type, of PyTorch."""

    name: str

    @property
    def dtype(self) -> DType | None:
        """The element type; None where the storage is only bytes."""
        return _STORAGES.get(self.name) or _DTYPES.get(self.name)


def _strided(
    data: Bytes, storage: Any, dtype: DType | None, offset: Any, size: Any, stride: Any
) -> Tensor:
    """A window of a storage, with a step for each axis."""
    numbers = [offset, *size, *stride]
    if not isinstance(storage, Storage) or not all(type(n) is int and n >= 0 for n in numbers):
        raise FileFormatError(f"damaged file: a tensor of {size} with steps {stride}")
    own = dtype or storage.dtype
    if own is None or len(size) != len(stride):
        raise FileFormatError(f"damaged file: a tensor of {size} with steps {stride}")
    shape = tuple(size)
    if math.prod(shape) == 0:
        return data.tensor(0, own, shape)
    last = offset + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
    if (last + 1) * own.itemsize > storage.size:
        raise FileFormatError(
            f"damaged file: a tensor of {shape} with steps {tuple(stride)} from {offset} "
            f"in a storage of {storage.size} bytes"
        )
    # An axis without a step repeats: it is left out, and put back by expand.
    kept = tuple(n if s else 1 for n, s in zip(shape, stride, strict=True))
    start = storage.start + offset * own.itemsize
    return _laid_out(data, start, own, kept, tuple(stride)).expand(shape)


def _laid_out(
    data: Bytes, start: int, dtype: DType, shape: tuple[int, ...], stride: tuple[int, ...]
) -> Tensor:
    order = sorted(range(len(shape)), key=lambda i: (-stride[i], i))
    lying = tuple(shape[i] for i in order)
    whole = [math.prod(lying[i + 1 :]) for i in range(len(lying))]
    if all(n == 1 or stride[i] == w for i, n, w in zip(order, lying, whole, strict=True)):
        found = data.tensor(start, dtype, lying)
        return found.permute(tuple(order.index(i) for i in range(len(order))))
    return _gathered(data, start, dtype, shape, stride)


def _gathered(
    data: Bytes, start: int, dtype: DType, shape: tuple[int, ...], stride: tuple[int, ...]
) -> Tensor:
    """A window with gaps, or whose rows overlap: its elements, copied now."""
    import numpy as np

    reach = 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
    if math.prod(shape) > _MOST_OVERLAP * reach:
        raise FileFormatError(f"a tensor of {shape} repeats {reach} elements too often")
    data.grow(math.prod(shape) * dtype.itemsize, f"a tensor of {shape}")
    raw = np.frombuffer(data.view, np.uint8, reach * dtype.itemsize, start)
    words = np.ndarray(
        (*shape, dtype.itemsize), np.uint8, raw, 0, (*(s * dtype.itemsize for s in stride), 1)
    )
    return Tensor._from_uop(buffer_uop(words.tobytes(), dtype, shape, str(data.device)))


# *** containers


@accept_filename
def torch_load(t: Tensor) -> dict[str, Tensor]:
    """What a checkpoint of PyTorch holds, its tensors among it; no code of the file is run.

    Raises: FileFormatError for a file that is damaged, or no checkpoint.
    """
    data = Bytes(t)
    if bytes(data.view[:2]) == b"PK":
        found = _load_zip(t, data)
    elif bytes(data.view[:1]) == b"\x80":
        found = _load_plain(data)
    else:
        raise FileFormatError(
            f"no checkpoint of PyTorch: it begins with {bytes(data.view[:8])!r}",
            help="the oldest kind, a tar archive, must be saved again by PyTorch itself",
        )
    return found  # type: ignore[no-any-return]


def _load_zip(t: Tensor, data: Bytes) -> Any:
    with open_zip(t) as archive:
        names = {info.filename: info for info in archive.infolist()}
        program = next((n for n in names if n.endswith("/data.pkl") or n == "data.pkl"), None)
        if program is None:
            raise FileFormatError("no checkpoint of PyTorch: the archive has no data.pkl")
        folder = program.removesuffix("data.pkl")
        order = names.get(f"{folder}byteorder")
        if order is not None and read_of_zip(archive, order, data) not in (b"little", b""):
            raise FileFormatError("the checkpoint is of a machine with another byte order")

        def find(dtype: DType | None, key: str) -> Storage:
            info = names.get(f"{folder}data/{key}")
            place = None if info is None else place_in_zip(data, info)
            if info is None or place is None:
                raise FileFormatError(f"damaged file: it has no storage {key!r}")
            return Storage(dtype, place, info.file_size)

        return _unpickle(io.BytesIO(read_of_zip(archive, names[program], data)), data, find)


def _load_plain(data: Bytes) -> Any:
    """The kind before archives: pickles one after another, then the storages.

    Where the storages lie is only known behind the pickles, so these are read twice.
    """
    file = io.BytesIO(data.view)

    def nowhere(dtype: DType | None, key: str) -> Storage:
        places.setdefault(key, (dtype, 0, 0))
        return Storage(dtype, 0, len(data))

    places: dict[str, tuple[DType | None, int, int]] = {}
    if _unpickle(file, data, nowhere) != _MAGIC or _unpickle(file, data, nowhere) != 1001:
        raise FileFormatError("no checkpoint of PyTorch: its first numbers are others")
    _unpickle(file, data, nowhere)
    body = file.tell()
    _unpickle(file, data, nowhere)
    for key in _keys(_unpickle(file, data, nowhere)):
        dtype = places.get(key, (None, 0, 0))[0]
        start = file.tell() + 8
        data.check(start - 8, 8, f"the size of storage {key!r}")
        (count,) = struct.unpack("<q", file.read(8))
        size = count * (dtype or dtypes.uint8).itemsize
        data.check(start, size, f"storage {key!r}")
        places[key] = (dtype, start, size)
        file.seek(start + size)
    file.seek(body)
    return _unpickle(file, data, lambda _, key: Storage(*places[key]))


def _keys(found: Any) -> list[str]:
    if not isinstance(found, list):
        raise FileFormatError("damaged file: it has no list of storages")
    return [str(key) for key in found]


def _unpickle(file: io.BytesIO, data: Bytes, find: Callable[[Any, str], Storage]) -> Any:
    try:
        return _Reader(file, data, find).load()
    except FileFormatError:
        raise
    except Exception as e:  # a damaged pickle may raise anything
        raise FileFormatError(f"damaged file: {type(e).__name__}: {e}") from e
