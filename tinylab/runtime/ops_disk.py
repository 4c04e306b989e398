"""DISK: a file as memory. "DISK:/path" holds bytes; nothing is computed there.

"DISK:shm:name" is memory that processes share: a file of that name which lies in memory.

A buffer is a map of the file: its bytes are read when they are copied to another device, and what
is copied in is written. The file is made, and grown, when a buffer needs more than it has.
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


class FileWindow(NamedTuple):
    """Bytes of a mapped file."""

    whole: memoryview
    offset: int
    size: int

    def view(self) -> memoryview:
        """The bytes, shared."""
        return self.whole[self.offset : self.offset + self.size]


class DiskAllocator(Allocator[FileWindow]):
    """Maps the device's one file."""

    dev: DiskDevice

    def _alloc(self, size: int, options: BufferSpec) -> FileWindow:
        return FileWindow(self.dev.mapped(size), 0, size)

    def _copyin(self, dest: FileWindow, src: memoryview) -> None:
        if dest.whole.readonly:
            raise DeviceError(f"{self.dev.path} may only be read", help="change its permissions")
        dest.view()[:] = src

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
        self._lock = threading.Lock()
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

    def mapped(self, size: int) -> memoryview:
        """At least so many bytes of the file; what it lacks is added as zeros.

        Raises: DeviceError when the file cannot be opened, made or grown.
        """
        if size == 0:
            return memoryview(b"")
        with self._lock:
            try:
                return _map_file(self.path, size)
            except OSError as e:
                raise DeviceError(f"cannot open {self.path}: {e.strerror}") from e


def _shared_path(name: str) -> str:
    """Where memory of a name lies; whoever made it removes the file.

    Raises: DeviceError for a name that is a path.
    """
    if not name or "/" in name or os.sep in name:
        raise DeviceError(f"shared memory needs a plain name, not {name!r}", help="DISK:shm:name")
    return os.path.join("/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir(), name)


def _map_file(path: pathlib.Path, size: int) -> memoryview:
    readonly = path.exists() and not os.access(path, os.W_OK)
    flags = os.O_RDONLY if readonly else os.O_RDWR | os.O_CREAT
    file = os.open(path, flags | getattr(os, "O_BINARY", 0))
    try:
        if os.fstat(file).st_size < size:
            os.ftruncate(file, size)
        access = mmap.ACCESS_READ if readonly else mmap.ACCESS_WRITE
        return memoryview(mmap.mmap(file, size, access=access))
    finally:
        os.close(file)
