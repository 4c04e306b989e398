"""Bytes of files as tensors: windows of what is mapped or in memory, archives, a file's interface.

Nothing is read before it is used: a tensor of a file is a copy, still to be made, of its window.
"""

from __future__ import annotations

import bz2
import functools
import gzip
import inspect
import io
import lzma
import math
import os
import pathlib
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tinylab.device import Device
from tinylab.dtype import DType, dtypes
from tinylab.errors import FileFormatError, OperandError
from tinylab.helpers.arguments import explained, explained_class, shown
from tinylab.helpers.unpack import refuse_growth
from tinylab.tensor import Tensor
from tinylab.tensor.data import buffer_uop
from tinylab.tensor.disk import on_disk
from tinylab.uop.ops import UOp

T = TypeVar("T")


@explained
def accept_filename(func: Callable[[Tensor], T]) -> Callable[[Tensor | str | pathlib.Path], T]:
    """A function of a tensor of bytes that takes a file's name too, by `fn` or its own word."""
    fits = inspect.isfunction(func)
    parameters = list(inspect.signature(func).parameters.values()) if fits else []
    if len(parameters) != 1:
        raise OperandError(f"accept_filename takes a function of one tensor, not {shown(func)}")
    own = parameters[0]
    other = "t" if own.name == "fn" else "fn"

    @functools.wraps(func)
    def named(*args: Any, **kwargs: Any) -> T:
        if not args and other in kwargs and own.name not in kwargs:
            kwargs[own.name] = kwargs.pop(other)
        (source,) = signature.bind(*args, **kwargs).arguments.values()
        if not isinstance(source, (Tensor, str, os.PathLike)):
            raise OperandError(
                f"{func.__name__} reads a file's path or a tensor of bytes, not {shown(source)}"
            )
        return func(source if isinstance(source, Tensor) else Tensor(pathlib.Path(source)))

    signature = inspect.Signature([own.replace(annotation=Tensor | str | pathlib.Path)])
    vars(named)["__signature__"] = signature
    return explained(named, func.__name__)


class Bytes:
    """The bytes of a tensor, and tensors of its windows."""

    def __init__(self, t: Tensor) -> None:
        self.memory = t._memory()
        self.view = memoryview(b"") if self.memory is None else t._shared_bytes().cast("B")
        self.device = Device.DEFAULT if on_disk(t.device) else t.device
        self._grown = 0

    def __len__(self) -> int:
        return len(self.view)

    def tensor(self, start: int, dtype: DType, shape: Sequence[int]) -> Tensor:
        """Elements from a place on; of a file, a copy that is made when it is needed.

        Raises: FileFormatError for a window that is not inside.
        """
        count = math.prod(shape)
        self.check(start, count * dtype.itemsize, f"{dtype.name} {tuple(shape)}")
        if count == 0 or self.memory is None:
            return Tensor._from_uop(buffer_uop(b"", dtype, shape, str(self.device)))
        filed = on_disk(self.memory.device)
        if (self.memory.offset + start) % dtype.itemsize and not filed:
            piece = self.view[start : start + count * dtype.itemsize]
            return Tensor._from_uop(buffer_uop(piece, dtype, shape, str(self.device)))
        window = self.memory.view(count, dtype, start).ensure_allocated()
        found = Tensor._from_uop(UOp.from_buffer(window)._reshape(tuple(shape)))
        return found.to(self.device) if filed else found

    def check(self, start: int, size: int, what: str) -> None:
        """Raise FileFormatError unless some bytes lie inside."""
        if start < 0 or size < 0 or start + size > len(self.view):
            raise FileFormatError(
                f"damaged file: {what} in bytes {start} to {start + size} of {len(self.view)}"
            )

    def grow(self, count: int, what: str) -> None:
        """Count bytes that are made of these, before they are made.

        Raises: FileFormatError where a small file asks for much more memory than it has bytes.
        """
        self._grown += count
        refuse_growth(self._grown, len(self.view), what)


# How much memory a file may ask for: so much in any case, and so often its own size.


@explained_class
class TensorIO(io.RawIOBase):
    """A tensor of bytes as a file that is read: TensorIO(t).read(4)."""

    def __init__(self, t: Tensor) -> None:
        if t.ndim != 1 or t.dtype is not dtypes.uint8:
            raise FileFormatError(
                f"TensorIO reads one axis of uint8, not {t.shape} of {t.dtype}",
                help="use .bitcast(dtypes.uint8).flatten()",
            )
        self._view = Bytes(t).view
        self._position = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes; all that is left without a size."""
        left = max(len(self._view) - self._position, 0)
        count = left if size is None or size < 0 else min(size, left)
        found = bytes(self._view[self._position : self._position + count])
        self._position += count
        return found

    def readinto(self, buffer: Any) -> int:
        """The next bytes into a buffer; how many they were."""
        room = memoryview(buffer).cast("B")
        found = self.read(len(room))
        room[: len(found)] = found
        return len(found)

    def write(self, buffer: Any) -> int:
        """Raise UnsupportedOperation: a tensor is only read."""
        raise io.UnsupportedOperation("a TensorIO is only read: write with Tensor.assign")

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: len(self._view)}[whence]
        self._position = max(start + offset, 0)
        return self._position

    def tell(self) -> int:
        """The place."""
        return self._position


# *** archives


_PACKED: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
}


class _Growing:
    """What is unpacked, as a file: no read gives more than the packed file may grow to."""

    def __init__(self, file: Any, data: Bytes) -> None:
        self.file, self.data = file, data
        self.seek, self.tell, self.close = file.seek, file.tell, file.close

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        self.data.grow(size if size >= 0 else 1 << 62, "the archive")
        return self.file.read(size)  # type: ignore[no-any-return]


@accept_filename
def tar_extract(t: Tensor) -> dict[str, Tensor]:
    """The files of a tar archive, each as a tensor of its bytes; a packed archive is unpacked.

    Raises: FileFormatError for what is no such archive.
    """
    data, found = Bytes(t), {}
    unpack = next((f for magic, f in _PACKED.items() if data.view[: len(magic)] == magic), None)
    raw: Any = io.BufferedReader(TensorIO(t))
    try:
        if unpack is not None:
            raw = _Growing(unpack(raw), data)
        with tarfile.open(fileobj=raw, mode="r:") as archive:
            for member in archive:
                if not member.isreg():
                    continue
                if unpack is None and not member.issparse():
                    place, shape = member.offset_data, (member.size,)
                    found[member.name] = data.tensor(place, dtypes.uint8, shape)
                else:
                    if member.issparse():  # its gaps are made, not read
                        data.grow(member.size, repr(member.name))
                    file = archive.extractfile(member)
                    found[member.name] = _of_bytes(file.read() if file else b"", data)
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as e:
        raise FileFormatError(f"no tar archive: {e}") from e
    return found


@accept_filename
def zip_extract(t: Tensor) -> dict[str, Tensor]:
    """The files of a zip archive, each as a tensor of its bytes; packed ones are unpacked.

    Raises: FileFormatError for what is no such archive.
    """
    data, found = Bytes(t), {}
    with open_zip(t) as archive:
        for info in archive.infolist():
            if not info.filename:
                raise FileFormatError("damaged zip archive: a file in it has no name")
            if info.is_dir():
                continue
            place = place_in_zip(data, info)
            if place is not None:
                found[info.filename] = data.tensor(place, dtypes.uint8, (info.file_size,))
            else:
                found[info.filename] = _of_bytes(read_of_zip(archive, info, data), data)
    return found


def _of_bytes(raw: bytes, source: Bytes) -> Tensor:
    return Tensor._from_uop(buffer_uop(raw, dtypes.uint8, (len(raw),), str(source.device)))


def open_zip(t: Tensor) -> zipfile.ZipFile:
    """A tensor of bytes as a zip archive.

    Raises: FileFormatError for what is none.
    """
    try:
        return zipfile.ZipFile(io.BufferedReader(TensorIO(t)))
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as e:
        raise FileFormatError(f"no zip archive: {e}") from e


def read_of_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo, data: Bytes) -> bytes:
    """A file of an archive, checked; no longer than the archive says.

    Raises: FileFormatError for a damaged one, or one that grows too much.
    """
    data.grow(info.file_size, repr(info.filename))
    try:
        return archive.read(info)
    except Exception as e:  # zlib's, zipfile's and io's own errors
        raise FileFormatError(f"{info.filename!r} of the archive cannot be read: {e}") from e


def place_in_zip(data: Bytes, info: zipfile.ZipInfo) -> int | None:
    """Where a file that is stored as it is begins; None for a packed one.

    Raises: FileFormatError where its header is no such header.
    """
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        return None
    start = info.header_offset
    data.check(start, 30, f"the header of {info.filename!r}")
    head = bytes(data.view[start : start + 30])
    if head[:4] != b"PK\3\4":
        raise FileFormatError(f"damaged archive: {info.filename!r} has no header")
    name, extra = int.from_bytes(head[26:28], "little"), int.from_bytes(head[28:30], "little")
    data.check(start + 30 + name + extra, info.file_size, repr(info.filename))
    return start + 30 + name + extra
