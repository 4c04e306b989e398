"""DISK: a file as memory. "DISK:/path" holds bytes; nothing is computed there.

"DISK:shm:name" is memory that processes share: a file of that name which lies in memory.

A buffer is a map of the file: its bytes are read when they are copied to another device, and what
is copied in is written. The file is made, and grown, when it is written to; never to be read.
"""

from __future__ import annotations

import mmap
import os
import pathlib
import tempfile
import threading
from typing import Any, NamedTuple

from tinylab.device import Allocator, BufferSpec, Compiled, Program
from tinylab.errors import DeviceError
from tinylab.target import Target


class MappedFile:
    """The bytes of a device's file that a buffer stands for; the file is opened when it is used."""

    def __init__(self, path: pathlib.Path, size: int) -> None:
        self.path, self.size = path, size
        self._lock = threading.Lock()
        self._map = memoryview(b"")

    def read(self, stop: int) -> memoryview:
        """The file up to a byte.

        Raises: DeviceError for a file that has not so many, or that cannot be opened.
        """
        with self._lock:
            # A page that the file lost since would end the process.
            if len(self._map) < stop or _bytes_left(self._map) < stop:
                self._map = _opened(self.path, stop, self.size, grow=False)
            return self._map

    def write(self, stop: int) -> memoryview:
        """The file up to a byte, to write to; what it lacks of the buffer's size is added as zeros.

        Raises: DeviceError for a file that may only be read, or that cannot be made or grown.
        """
        with self._lock:
            if min(len(self._map), _bytes_left(self._map)) < max(stop, self.size):
                self._map = _opened(self.path, self.size, self.size, grow=True)
            if self._map.readonly:
                raise _only_read(self.path)
            return self._map


def _bytes_left(mapped: memoryview) -> int:
    """How many bytes the file of a map has now."""
    return mapped.obj.size() if isinstance(mapped.obj, mmap.mmap) else 0


class KeptBytes:
    """What a file held, in memory: the old content of what is overwritten."""

    def __init__(self, data: bytearray) -> None:
        self._data = memoryview(data)

    def read(self, stop: int) -> memoryview:
        """All of it."""
        return self._data

    write = read


class FileWindow(NamedTuple):
    """Bytes of a mapped file, or kept ones."""

    whole: MappedFile | KeptBytes
    offset: int
    size: int

    def view(self) -> memoryview:
        """The bytes, shared."""
        if self.size == 0:
            return memoryview(b"")
        stop = self.offset + self.size
        return self.whole.read(stop)[self.offset : stop]


class DiskAllocator(Allocator[FileWindow]):
    """Maps the device's one file."""

    dev: DiskDevice
    takes_memory = False

    def _alloc(self, size: int, options: BufferSpec) -> FileWindow:
        return FileWindow(MappedFile(self.dev.path, size), 0, size)

    def _copyin(self, dest: FileWindow, src: memoryview) -> None:
        stop = dest.offset + dest.size
        dest.whole.write(stop)[dest.offset : stop] = src

    def _copyout(self, dest: memoryview, src: FileWindow) -> None:
        dest[:] = src.view()

    def _offset(self, buf: FileWindow, size: int, offset: int) -> FileWindow:
        return FileWindow(buf.whole, buf.offset + offset, size)

    def _as_buffer(self, src: FileWindow) -> memoryview:
        return src.view()


class DiskDevice(Compiled[FileWindow]):
    """One file.

    Raises: DeviceError for a name without a path.
    """

    def __init__(self, device: str) -> None:
        _, _, path = device.partition(":")
        if path.startswith("shm:"):
            path = _shared_path(path.removeprefix("shm:"))
        if not path:
            raise DeviceError("DISK needs a path", help='write it behind the name: "DISK:/a/file"')
        self.path = pathlib.Path(path)
        super().__init__(device, DiskAllocator(self), (), Program)

    @property
    def target(self) -> Target:
        """The device alone: nothing is rendered for it."""
        return Target(self.kind)

    @property
    def renderer(self) -> Any:
        """None.

        Raises: DeviceError, always.
        """
        raise DeviceError(
            f"nothing is computed on {self.device}", help="move the tensor with .to(None) first"
        )


def _shared_path(name: str) -> str:
    """Where memory of a name lies; whoever made it removes the file.

    Raises: DeviceError for a name that is a path.
    """
    if not name or "/" in name or os.sep in name:
        raise DeviceError(f"shared memory needs a plain name, not {name!r}", help="DISK:shm:name")
    return os.path.join("/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir(), name)


def _only_read(path: pathlib.Path) -> DeviceError:
    return DeviceError(f"{path} may only be read", help="change its permissions")


def _opened(path: pathlib.Path, stop: int, whole: int, grow: bool) -> memoryview:
    try:
        return _map_file(path, stop, whole, grow)
    except OSError as e:
        raise DeviceError(f"cannot open {path}: {e.strerror}") from e


def _map_file(path: pathlib.Path, stop: int, whole: int, grow: bool) -> memoryview:
    """A file up to a byte, and on to where the buffer ends if there is as much."""
    readonly = path.exists() and not os.access(path, os.W_OK)
    if readonly and grow:
        raise _only_read(path)
    flags = os.O_RDONLY if readonly else os.O_RDWR
    file = os.open(path, flags | (os.O_CREAT if grow else 0) | getattr(os, "O_BINARY", 0))
    try:
        found = os.fstat(file).st_size
        if found < stop and not grow:
            raise DeviceError(
                f"{path} has {found} bytes, and {stop} are to be read",
                help=f"the tensor takes {whole} bytes; write it first, or make it smaller",
            )
        if found < stop:
            os.ftruncate(file, stop)
        size = stop if grow else min(found, whole)
        access = mmap.ACCESS_READ if readonly else mmap.ACCESS_WRITE
        return memoryview(mmap.mmap(file, size, access=access))
    finally:
        os.close(file)
