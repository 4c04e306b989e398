"""Checkpoints of PyTorch, read through an unpickler that knows a few names and runs nothing.

A pickle is a program: it may ask for any function of any module and call it. Here what is asked
for is looked up in a table; a name that is not in it becomes an inert `Stranger`, so that a
checkpoint with a foreign object in a corner still gives its tensors; a warning says where.
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
from tinylab.nn.strangers import Known, Notes, Stranger, StrangerKind, stranger_kind
from tinylab.nn.torch_names import gathering, numpy_names, plain_names, set_array, set_dtype
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
_PAIRS = {
    "ComplexHalfStorage": dtypes.float16, "ComplexFloatStorage": dtypes.float32,
    "ComplexDoubleStorage": dtypes.float64,
}  # fmt: skip
_LACKED = {
    ("torch._utils", "_rebuild_sparse_tensor"): "a sparse tensor of PyTorch",
    ("torch._utils", "_rebuild_nested_tensor"): "a nested tensor of PyTorch",
    ("torch._utils", "_rebuild_qtensor"): "a quantised tensor of PyTorch",
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): "a tensor of PyTorch without values",
}
_PLAIN = ("torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer")
_MAGIC = 0x1950A86A20F9469CFC6C
_MOST_OVERLAP = 64  # how often a storage may be repeated by a tensor whose rows overlap


class Storage(NamedTuple):
    """A run of bytes in the file; dtype is None where the tensor says what they are.

    pairs: each element is two of the type, the real part and the imaginary one.
    """

    dtype: DType | None
    start: int
    size: int
    pairs: bool = False


class _StorageKind(NamedTuple):
    """A class of storages of PyTorch; dtype is None where it is only bytes."""

    dtype: DType | None
    pairs: bool = False

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return (self.dtype or dtypes.uint8).itemsize * (1 + self.pairs)


def _bytearray(reader: Any) -> None:
    """Bytes that may change, as long as the file has them: Python makes room first."""
    (length,) = struct.unpack("<Q", reader.read(8))
    reader.append(bytearray(reader.read(length)))


def _build(reader: Any) -> None:
    """Give an object its state: only those that are known take one."""
    state = reader.stack.pop()
    reader.build(reader.stack[-1], state)


Find = Callable[[_StorageKind, str], Storage]


class _Reader(pickle._Unpickler):
    """Unpickles; storages are found by key.

    Python's unpickler in Python: the one in C makes room for any number that a file gives to a
    memory, and one in 8 bytes takes all that there is.
    """

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **pickle._Unpickler.dispatch,
        pickle.BYTEARRAY8[0]: _bytearray,
        pickle.BUILD[0]: _build,
    }

    def __init__(self, file: Any, data: Bytes, find: Find, notes: Notes, strict: bool) -> None:
        super().__init__(file, encoding="utf-8")
        self.data, self.find, self.notes, self.strict = data, find, notes, strict
        rebuilt: dict[tuple[str, str], Callable[..., Any]] = {
            ("torch._utils", "_rebuild_tensor"): self._rebuild,
            ("torch._utils", "_rebuild_tensor_v2"): self._rebuild,
            ("torch._utils", "_rebuild_tensor_v3"): self._rebuild_v3,
            ("torch._utils", "_rebuild_parameter"): self._parameter,
            ("torch._utils", "_rebuild_parameter_with_state"): self._parameter,
            ("torch._tensor", "_rebuild_from_type_v2"): self._from_type,
            ("torch.serialization", "_get_layout"): str,
            ("torch", "Size"): gathering(tuple, data.grow),
            ("torch", "device"): lambda *args: ":".join(map(str, args)),
        }
        self._known: dict[tuple[str, str], Any] = {
            **plain_names(data.grow, notes),
            **numpy_names(data.grow, notes),
            **{name: Known(".".join(name), call) for name, call in rebuilt.items()},
            **{("torch", name): dtype for name, dtype in _DTYPES.items()},
            **{("torch", name): _StorageKind(dtype) for name, dtype in _STORAGES.items()},
            **{("torch", name): _StorageKind(dtype, True) for name, dtype in _PAIRS.items()},
            ("torch", "UntypedStorage"): _StorageKind(None),
            ("torch.storage", "UntypedStorage"): _StorageKind(None),
            ("torch.storage", "TypedStorage"): _StorageKind(None),
        }

    def find_class(self, module: str, name: str) -> Any:
        """What a name of the tables stands for, or a kind of Stranger, the same each time."""
        found = self._known.get((module, name))
        if found is None:
            what = _LACKED.get((module, name), f"{module}.{name}")
            found = self._known[module, name] = stranger_kind(what)
        return found

    def persistent_load(self, pid: Any) -> Any:
        """The storage that a key names, or the class of a module, which comes with its source."""
        if isinstance(pid, tuple) and pid[:1] == ("module",) and len(pid) > 1:
            return pid[1]
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
            raise FileFormatError(f"damaged file: it refers to {str(pid)[:60]}")
        kind, key = pid[1], pid[2]
        if isinstance(kind, StrangerKind) and not self.strict:
            return _stranger(kind.what)
        if not isinstance(kind, _StorageKind):
            what = getattr(kind, "what", str(kind)[:60])
            raise FileFormatError(f"tinylab has no storage of {what}")
        found = self.find(kind, str(key))
        self.notes.add(found, f"is a bare storage of {found.size} bytes, which is not read")
        return found

    def build(self, made: Any, state: Any) -> None:
        """Give an object its state.

        Raises: FileFormatError for an object that has none.
        """
        package = type(made).__module__.partition(".")[0]
        if isinstance(made, (Stranger, Known)):
            made.__setstate__(state)
        elif type(made) is OrderedDict and isinstance(state, dict):
            vars(made).update({k: v for k, v in state.items() if not hasattr(OrderedDict, k)})
        elif package == "numpy" and type(made).__name__ == "ndarray":
            set_array(made, state, self.data.grow, self.notes)
        elif package == "numpy" and hasattr(made, "newbyteorder") and hasattr(made, "alignment"):
            set_dtype(made, state)
        else:
            raise FileFormatError(f"damaged file: it changes a {type(made).__name__}")

    # *** tensors

    def _rebuild(
        self, storage: Any, offset: Any, size: Any, stride: Any, *rest: Any, dtype: Any = None
    ) -> Tensor | Stranger:
        """A tensor; rest: whether it has a gradient, its hooks, and marks such as "neg"."""
        for x in (storage, dtype):
            if isinstance(x, (Stranger, StrangerKind)):
                return _stranger(f"a tensor of {x.what}", size)
        marks = rest[2] if len(rest) > 2 and isinstance(rest[2], dict) else {}
        if not isinstance(storage, Storage) or not storage.pairs:
            found = _strided(self.data, storage, dtype, offset, size, stride)
            return found.neg() if marks.get("neg") else found
        if not isinstance(size, tuple) or not all(type(n) is int for n in (offset, *stride)):
            raise FileFormatError(f"damaged file: a tensor of {size} with steps {stride}")
        steps = (*(2 * n for n in stride), 1)
        found = _strided(self.data, storage, None, 2 * offset, (*size, 2), steps)
        if marks.get("conj"):
            found = found * Tensor([1, -1], device=found.device)
        pairs = found.neg() if marks.get("neg") else found
        return _stranger("a complex tensor of PyTorch, its pairs of parts in .args[0]", pairs)

    def _rebuild_v3(
        self,
        storage: Any,
        offset: Any,
        size: Any,
        stride: Any,
        needs_gradient: Any,
        hooks: Any,
        dtype: Any,
        *marks: Any,
    ) -> Tensor | Stranger:
        if not isinstance(dtype, (DType, StrangerKind)):
            raise FileFormatError(f"damaged file: a tensor of {str(dtype)[:60]}")
        return self._rebuild(
            storage, offset, size, stride, needs_gradient, hooks, *marks, dtype=dtype
        )

    def _parameter(self, t: Any, _: Any = None, __: Any = None, state: Any = None) -> Any:
        self._lose(t, state)
        return t

    def _from_type(self, rebuild: Any, kind: Any, args: Any, state: Any) -> Any:
        """A tensor that has attributes, or is of a class of its own."""
        if not isinstance(args, tuple) or not isinstance(rebuild, (Known, StrangerKind)):
            raise FileFormatError(f"damaged file: a tensor of {str(args)[:60]}")
        if isinstance(rebuild, StrangerKind) and isinstance(kind, StrangerKind):
            rebuild = kind  # its class says more than the function that would make it
        found = rebuild(*args)
        if isinstance(found, Stranger):
            found.state = state
            return found
        what = getattr(kind, "what", "")
        if isinstance(found, Tensor) and what not in _PLAIN:
            self.notes.add(found, f"is a Tensor and no {what}")
        self._lose(found, state)
        return found

    def _lose(self, t: Any, state: Any) -> None:
        """Note the attributes of a tensor: a Tensor takes none."""
        parts = state if isinstance(state, tuple) else (state,)
        names = [str(k)[:40] for part in parts if isinstance(part, dict) for k in part]
        lost = [n for n in names if not n.startswith("_") and n != "persistent"]
        if lost and isinstance(t, Tensor):
            self.notes.add(t, f"has lost {', '.join(map(repr, lost[:4]))}")


def _stranger(what: str, *args: Any) -> Stranger:
    made: Stranger = stranger_kind(what)(*args)
    return made


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

    A value that tinylab has no counterpart for is a Stranger, which says what it stands for and
    keeps what it was made of; one warning names them.

    Raises: FileFormatError for a file that is damaged, or no checkpoint.
    """
    data, notes = Bytes(t), Notes()
    if bytes(data.view[:2]) == b"PK":
        found = _load_zip(t, data, notes)
    elif bytes(data.view[:1]) == b"\x80":
        found = _load_plain(data, notes)
    elif bytes(data.view[257:262]) == b"ustar":
        raise FileFormatError(
            "a tar archive, in which PyTorch saved before its version 0.1.10, is not read",
            help="load it in PyTorch and save it again: torch.save(torch.load(old), new)",
        )
    else:
        raise FileFormatError(
            f"no checkpoint of PyTorch: it begins with {bytes(data.view[:8])!r}",
            help="torch.save makes one; tar_extract, safe_load and gguf_load read others",
        )
    notes.warn(found, "the checkpoint", stacklevel=4)
    return found  # type: ignore[no-any-return]


def _load_zip(t: Tensor, data: Bytes, notes: Notes) -> Any:
    with open_zip(t) as archive:
        names = {info.filename: info for info in archive.infolist()}
        program = next((n for n in names if n.endswith("/data.pkl") or n == "data.pkl"), None)
        if program is None:
            raise FileFormatError("no checkpoint of PyTorch: the archive has no data.pkl")
        folder = program.removesuffix("data.pkl")
        order = names.get(f"{folder}byteorder")
        if order is not None and read_of_zip(archive, order, data) not in (b"little", b""):
            raise FileFormatError("the checkpoint is of a machine with another byte order")

        def find(kind: _StorageKind, key: str) -> Storage:
            info = names.get(f"{folder}data/{key}")
            place = None if info is None else place_in_zip(data, info)
            if info is None or place is None:
                raise FileFormatError(f"damaged file: it has no storage {key!r}")
            return Storage(kind.dtype, place, info.file_size, kind.pairs)

        file = io.BytesIO(read_of_zip(archive, names[program], data))
        return _unpickle(file, data, find, notes)


def _load_plain(data: Bytes, notes: Notes) -> Any:
    """The kind before archives: pickles one after another, then the storages.

    Where the storages lie is only known behind the pickles, so these are read twice.
    """
    file = io.BytesIO(data.view)

    def nowhere(kind: _StorageKind, key: str) -> Storage:
        kinds.setdefault(key, kind)
        return Storage(kind.dtype, 0, len(data), kind.pairs)

    def read(find: Find) -> Any:
        return _unpickle(file, data, find, notes, strict=True)

    kinds: dict[str, _StorageKind] = {}
    if read(nowhere) != _MAGIC or read(nowhere) != 1001:
        raise FileFormatError("no checkpoint of PyTorch: its first numbers are others")
    read(nowhere)
    body = file.tell()
    read(nowhere)
    places: dict[str, Storage] = {}
    for key in _keys(read(nowhere)):
        kind = kinds.get(key, _StorageKind(None))
        start = file.tell() + 8
        data.check(start - 8, 8, f"the size of storage {key!r}")
        (count,) = struct.unpack("<q", file.read(8))
        size = count * kind.itemsize
        data.check(start, size, f"storage {key!r}")
        places[key] = Storage(kind.dtype, start, size, kind.pairs)
        file.seek(start + size)
    file.seek(body)
    return read(lambda _, key: places[key])


def _keys(found: Any) -> list[str]:
    if not isinstance(found, list):
        raise FileFormatError("damaged file: it has no list of storages")
    return [str(key) for key in found]


def _unpickle(file: io.BytesIO, data: Bytes, find: Find, notes: Notes, strict: bool = False) -> Any:
    try:
        return _Reader(file, data, find, notes, strict).load()
    except FileFormatError:
        raise
    except Exception as e:  # a damaged pickle may raise anything
        raise FileFormatError(f"damaged file: {type(e).__name__}: {e}") from e
