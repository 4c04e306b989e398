"""Memory of a device: buffers, views into them, and the allocators behind them."""

from __future__ import annotations

import gc
import sys
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from tinylab.device.registry import Device
from tinylab.dtype import DType, dtypes
from tinylab.errors import (
    AllocationError,
    BufferError,
    ContractError,
    DeviceError,
    LostValueError,
)
from tinylab.helpers.context import DEBUG, LRU, MAX_BUFFER_SIZE
from tinylab.helpers.measure import GlobalCounters
from tinylab.helpers.memory import flat_mv
from tinylab.helpers.text import size_to_str
from tinylab.trace import events

if TYPE_CHECKING:
    import numpy

    from tinylab.device.program import Compiled

Opaque = TypeVar("Opaque")


class BufferSpec(NamedTuple):
    """Wishes for a piece of memory; a device may ignore those that mean nothing to it."""

    uncached: bool = False
    cpu_access: bool = False
    host: bool = False
    nolru: bool = False
    zero: bool = False
    external_ptr: int | None = None


# Between devices that do not see each other's memory, so much is copied at a time.
COPY_BYTES = 64 << 20


class Owner(NamedTuple):
    """What a piece of memory was made for: the tensor method, and the user's line."""

    method: str
    line: str

    def __str__(self) -> str:
        return f"{self.method} at {self.line}" if self.line else self.method


_KERNELS = Owner("values between kernels", "")


def largest_owners(device: str, count: int = 4) -> str:
    """Who holds the memory of a device, the largest first.

    "400.00 MB of randn at train.py:12, 12.00 MB of values between kernels"
    """
    totals: dict[Owner, int] = defaultdict(int)
    for b in gc.get_objects():
        # Looked for only when there is no memory left: nobody keeps a list of all buffers.
        if type(b) is Buffer and b.device == device and b._owned and b._buf is not None:
            totals[b.owner or _KERNELS] += b.nbytes
    most = sorted(totals.items(), key=lambda item: -item[1])[:count]
    return ", ".join(f"{size_to_str(size)} of {owner}" for owner, size in most)


class Buffer:
    """Memory on one device: ``size`` elements of ``dtype``, or a view into another buffer.

    It has no memory until it is allocated; a view shares its base's.
    """

    profile_events: ClassVar[list[Any]] = []
    owner: Owner | None = None
    awaited = False  # a schedule that was taken to be run later fills it

    def __init__(
        self,
        device: str,
        size: int,
        dtype: DType,
        opaque: Any = None,
        options: BufferSpec | None = None,
        initial_value: bytes | bytearray | memoryview | None = None,
        uop_refcount: int = 0,
        base: Buffer | None = None,
        offset: int = 0,
        preallocate: bool = False,
    ) -> None:
        if not isinstance(device, str):
            raise BufferError(f"a buffer is on a device, called by a string, not {device!r}")
        if base is not None and base._base is not None:
            raise BufferError("the base of a view is itself a view", help="use view.view(...)")
        self.device, self.size, self.dtype = device, size, dtype
        self.options, self.offset = options, offset
        self._base: Buffer | None = base
        self._buf: Any = None
        self._uop_refcount = self._views = 0
        self.ref(uop_refcount)
        if opaque is not None:
            self.allocate(opaque)
        elif initial_value is not None:
            self.allocate().copyin(memoryview(initial_value))
        elif preallocate:
            self.allocate()

    def __repr__(self) -> str:
        tail = f" offset:{self.offset}" if self._base is not None else ""
        real = self.is_allocated()
        return f"<buf real:{real} device:{self.device} size:{self.size} dtype:{self.dtype}{tail}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._base is not None:
            return type(self)._rebuild_view, (self._base, self.size, self.dtype, self.offset)
        data = bytes(self.as_memoryview()) if self.is_initialized() else None
        # What somebody else keeps is copied.
        options = None if self.options is None else self.options._replace(external_ptr=None)
        return type(self), (self.device, self.size, self.dtype, None, options, data)

    @staticmethod
    def _rebuild_view(base: Buffer, size: int, dtype: DType, offset: int) -> Buffer:
        return base.view(size, dtype, offset)

    @property
    def base(self) -> Buffer:
        """The buffer whose memory this is: itself, unless it is a view."""
        return self if self._base is None else self._base

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.size * self.dtype.itemsize

    @property
    def allocator(self) -> Allocator[Any]:
        """Where its memory comes from."""
        return Device[self.device].allocator

    @property
    def uop_refcount(self) -> int:
        """How many nodes use the memory."""
        return self.base._uop_refcount

    def ref(self, cnt: int) -> Buffer:
        """Counts a node that begins (1) or ceases (-1) to use the memory."""
        self.base._uop_refcount += cnt
        return self

    def is_allocated(self) -> bool:
        """Whether there is memory."""
        return self.base._buf is not None

    def is_initialized(self) -> bool:
        """Whether there is memory and this view of it was made."""
        return self._buf is not None

    def ensure_allocated(self) -> Buffer:
        """Allocates unless that was done."""
        return self if self._buf is not None else self.allocate()

    def allocate(self, opaque: Any = None, external_ptr: int | None = None) -> Buffer:
        """Takes memory from the device, or uses what is given.

        Raises: BufferError if it has memory, AllocationError if there is none left.
        """
        if self._buf is not None:
            raise BufferError(f"can't allocate already allocated buffer {self}")
        if 0 < MAX_BUFFER_SIZE.value < self.size and self.allocator.takes_memory:
            raise BufferError(
                f"buffer of size {self.size} is too large, MAX_BUFFER_SIZE is {MAX_BUFFER_SIZE}",
                help=f"{size_to_str(self.nbytes)} on {self.device}: work on it in parts, or raise "
                "the limit",
            )
        if external_ptr is not None:
            self.options = (self.options or BufferSpec())._replace(external_ptr=external_ptr)
        if self._base is not None:
            self._base.ensure_allocated()
            self._base._views += 1
            self._buf = self.allocator._offset(self._base._buf, self.nbytes, self.offset)
            return self
        self._buf = self.allocator.alloc(self.nbytes, self.options) if opaque is None else opaque
        if self._owned:
            _count_memory(self.device, self.nbytes)
        return self

    @property
    def _owned(self) -> bool:
        return self._base is None and (self.options is None or self.options.external_ptr is None)

    def deallocate(self) -> None:
        """Gives the memory back; the buffer may be allocated again."""
        if self._buf is None:
            raise BufferError(f"can't deallocate {self}: it has no memory")
        if self._base is not None:
            self._base._views -= 1
        else:
            allocator = Device.opened(self.device).allocator
            allocator.free(self._buf, self.nbytes, self.options)
            if self._owned:
                _count_memory(self.device, -self.nbytes)
        self._buf = None

    def __del__(self, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        # At exit modules are half gone, `sys` too; the memory goes with the process. The collector
        # runs anywhere, while a context variable is set, too: no setting may be changed here.
        if getattr(self, "_buf", None) is not None and not at_exit():
            self.deallocate()

    def view(self, size: int, dtype: DType, offset: int) -> Buffer:
        """``size`` elements of ``dtype`` from byte ``offset``, sharing memory.

        Raises: BufferError if they do not lie inside.
        """
        if offset >= max(self.nbytes, 1):
            raise BufferError(f"offset must be less than nbytes: {offset} of {self.nbytes}")
        if offset + size * dtype.itemsize > self.nbytes:
            end = offset + size * dtype.itemsize
            raise BufferError(f"a view to byte {end} of a buffer of {self.nbytes} bytes")
        return Buffer(self.device, size, dtype, base=self.base, offset=self.offset + offset)

    @property
    def trace_num(self) -> int:
        """Numbers of buffers in tinygrad's viewer.

        Raises: ContractError always.
        """
        raise ContractError(
            "a buffer has no number in a trace of its own here",
            help="record() numbers what it saw: for kernel in record.kernels",
        )

    def get_buf(self, device: str) -> Any:
        """What a program on ``device`` is called with."""
        buf = self.ensure_allocated()._buf
        return buf if device == self.device else Device[device].allocator.map(self)

    def copyin(self, mv: memoryview) -> Buffer:
        """Fills the buffer with the bytes of a view of its size."""
        data = flat_mv(mv)
        if len(data) != self.nbytes:
            raise BufferError(f"copy size mismatch, {len(data)} bytes into {self.nbytes}")
        if not events.listening():
            self._fill(data)
            return self
        with events.span("copy", f"to {self.device}", device=self.device, mem=self.nbytes):
            self._fill(data)
        return self

    def _fill(self, data: memoryview) -> None:
        if self.nbytes:
            self.allocator._copyin(self.ensure_allocated()._buf, data)

    def copyout(self, mv: memoryview) -> memoryview:
        """Fills a writable view of the buffer's size, and returns it."""
        data = flat_mv(mv)
        if len(data) != self.nbytes:
            raise BufferError(f"copy size mismatch, {self.nbytes} bytes into {len(data)}")
        if not events.listening():
            self._read(data)
            return mv
        with events.span("copy", f"from {self.device}", device=self.device, mem=self.nbytes):
            self._read(data)
        return mv

    def _read(self, data: memoryview) -> memoryview:
        if self.nbytes:
            Device[self.device].synchronize()
            self.allocator._copyout(data, self._need())
        return data

    def copy_from(self, src: Buffer) -> Buffer:
        """Takes over the bytes of another buffer, on whatever device it is."""
        if src.nbytes != self.nbytes:
            raise BufferError(f"copy size mismatch, {src.nbytes} bytes into {self.nbytes}")
        shared = src.allocator._as_buffer(src._need())
        if shared is None and self.nbytes > COPY_BYTES:
            return self._copy_in_pieces(src)
        if shared is None:
            shared = src._read(memoryview(bytearray(src.nbytes)))
        else:
            Device[src.device].synchronize()
        self._fill(flat_mv(shared))
        return self

    def _copy_in_pieces(self, src: Buffer) -> Buffer:
        """Through memory of this process, a piece at a time: it never holds the whole."""
        for start in range(0, self.nbytes, COPY_BYTES):
            size = min(COPY_BYTES, self.nbytes - start)
            piece = src.view(size, dtypes.uint8, start).ensure_allocated()
            data = piece._read(memoryview(bytearray(size)))
            self.view(size, dtypes.uint8, start).ensure_allocated()._fill(data)
        return self

    def as_memoryview(
        self, allow_zero_copy: bool = False, force_zero_copy: bool = False, no_sync: bool = False
    ) -> memoryview:
        """The bytes; shared with the device where that is allowed and possible, else a copy."""
        if allow_zero_copy or force_zero_copy:
            shared = self.allocator._as_buffer(self._need())
            if shared is not None:
                if not no_sync:
                    Device[self.device].synchronize()
                return shared
            if force_zero_copy:
                raise DeviceError(f"memory of {self.device} cannot be seen from here")
        return self.copyout(memoryview(bytearray(self.nbytes)))

    def numpy(self) -> numpy.ndarray[Any, Any]:
        """The elements as an array of their own; raw bytes where numpy has no such dtype."""
        import numpy as np

        fmt = self.dtype.fmt
        return np.frombuffer(self.as_memoryview(), dtype=np.uint8 if fmt is None else np.dtype(fmt))

    def _need(self) -> Any:
        if self._buf is not None:
            return self._buf
        if self.base.awaited:
            raise BufferError(
                "the schedule of this value was taken, and was not run",
                help="run_linear(linear, var_vals) computes it",
            )
        raise BufferError(f"{self} has no memory to read", help="allocate it first")


class LostBuffer(Buffer):
    """In place of memory that somebody would still have read, and that holds something else now.

    Raises: LostValueError, with these words, whenever it is used.
    """

    def __init__(self, device: str, size: int, dtype: DType, message: str, help: str) -> None:
        super().__init__(device, size, dtype)
        self._words = message, help

    def allocate(self, opaque: Any = None, external_ptr: int | None = None) -> Buffer:
        """Nothing brings it back."""
        raise LostValueError(*self._words)

    def _need(self) -> Any:
        raise LostValueError(*self._words)

    def __reduce__(self) -> tuple[Any, ...]:
        raise LostValueError(*self._words)


def _count_memory(device: str, change: int) -> None:
    if not device.startswith("DISK"):  # a file is looked at where it lies
        GlobalCounters.mem_used += change
    GlobalCounters.mem_used_per_device[device] += change
    if DEBUG.value < 7 and not events.listening():
        return
    what, used = "allocate" if change > 0 else "free", GlobalCounters.mem_used_per_device[device]
    events.point(what, device, bytes=abs(change), used=used)
    if DEBUG >= 7:
        print(f"buffer: {what} {abs(change)} bytes on {device}, {used} in use")


class Allocator(Generic[Opaque]):
    """Where a device's memory comes from. A device writes the methods that begin with "_"."""

    supports_copy_from_disk = True
    supports_transfer = True
    takes_memory = True  # what is mapped takes none, and may be larger

    def __init__(self, dev: Compiled[Any]) -> None:
        self.dev = dev
        self.default_buffer_spec = BufferSpec()

    def alloc(self, size: int, options: BufferSpec | None = None) -> Opaque:
        """Memory of ``size`` bytes.

        Raises: AllocationError if there is none left.
        """
        try:
            return self._alloc(size, options or self.default_buffer_spec)
        except (MemoryError, OverflowError) as e:  # more than there are addresses
            name = self.dev.device
            used = GlobalCounters.mem_used_per_device[name]
            raise AllocationError(
                f"Allocation of {size} failed on {name}. Used: {used}",
                help=f"{name} holds {largest_owners(name) or 'nothing'}",
            ) from e

    def free(self, opaque: Opaque, size: int, options: BufferSpec | None = None) -> None:
        """Gives memory back."""
        self._free(opaque, options or self.default_buffer_spec)

    def map(self, buf: Buffer) -> Any:
        """What this device calls another device's memory."""
        raise DeviceError(
            f"{self.dev.device} cannot use memory of {buf.device}",
            help=f"move the tensor with .to({self.dev.device!r})",
        )

    def _alloc(self, size: int, options: BufferSpec) -> Opaque:
        raise NotImplementedError(f"{type(self).__name__}._alloc")

    def _free(self, opaque: Opaque, options: BufferSpec) -> None:
        """Nothing to do where memory goes with its last reference."""

    def _copyin(self, dest: Opaque, src: memoryview) -> None:
        raise NotImplementedError(f"{type(self).__name__}._copyin")

    def _copyout(self, dest: memoryview, src: Opaque) -> None:
        raise NotImplementedError(f"{type(self).__name__}._copyout")

    def _offset(self, buf: Opaque, size: int, offset: int) -> Opaque:
        raise NotImplementedError(f"{type(self).__name__}._offset")

    def _as_buffer(self, src: Opaque) -> memoryview | None:
        """The memory itself, where the process can see it."""
        return None


class LRUAllocator(Allocator[Opaque]):
    """Keeps freed memory for the next buffer of its size; gives up the oldest when it is too much.

    Memory fresh from the system costs a page fault per 4 KiB (16 ms for 64 MB), so a training step
    that makes the same buffers each time is bound by them without this.
    """

    def __init__(self, dev: Compiled[Any], limit_bytes: int = 2**63) -> None:
        super().__init__(dev)
        self.limit_bytes, self.kept_bytes = limit_bytes, 0
        self._kept: defaultdict[tuple[int, BufferSpec], list[Opaque]] = defaultdict(list)
        self._ages: OrderedDict[tuple[int, BufferSpec], None] = OrderedDict()
        self._lock = threading.RLock()  # __del__ may free while this thread allocates

    def alloc(self, size: int, options: BufferSpec | None = None) -> Opaque:
        """Memory that was freed, or new; what is kept is given up before this fails."""
        with self._lock:
            key = (size, options or self.default_buffer_spec)
            if kept := self._kept.get(key):
                self.kept_bytes -= size
                return kept.pop()
        try:
            return super().alloc(size, options)
        except MemoryError:
            self.free_cache()
            return super().alloc(size, options)

    def free(self, opaque: Opaque, size: int, options: BufferSpec | None = None) -> None:
        """Keeps the memory unless LRU is 0 or the wishes forbid it."""
        spec = options or self.default_buffer_spec
        # What was freed holds its old bytes: no answer to a wish for zeros.
        if not LRU or spec.nolru or spec.zero or spec.external_ptr is not None or size == 0:
            super().free(opaque, size, options)
            return
        with self._lock:
            self._kept[(size, spec)].append(opaque)
            self._ages[(size, spec)] = None
            self._ages.move_to_end((size, spec))
            self.kept_bytes += size
            self._shrink(self.limit_bytes)

    def free_cache(self) -> None:
        """Gives all kept memory back."""
        with self._lock:
            self._shrink(0)

    def _shrink(self, limit_bytes: int) -> None:
        while self.kept_bytes > limit_bytes and self._ages:
            key = next(iter(self._ages))
            kept = self._kept[key]
            if kept:
                super().free(kept.pop(), *key)
                self.kept_bytes -= key[0]
            if not kept:
                del self._ages[key], self._kept[key]
