"""How a candidate's buffers lie in memory so that a stray access is seen, and what one means.

Each buffer **ends** at pages that nobody may touch (and begins behind such pages), so that one
element too far is a fault with an address. Sizes that are no multiple of 64 bytes leave a few bytes
of padding before the guard; they hold a pattern, as do the bytes before the buffer in its first
page.

    guard | pattern, buffer, pattern | guard
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from typing import NamedTuple

PAGE = mmap.PAGESIZE
ALIGNMENT = 64
GUARD_BYTES = 16 << 20  # address space only; catches an index that is a few rows off
PATTERN = 0xA5


class Region(NamedTuple):
    """A buffer's place in the shared file: whole pages at ``start``, its data from ``data`` on."""

    name: str
    size: int
    start: int
    pages_bytes: int
    data: int

    @property
    def end(self) -> int:
        """Where its data ends in the file."""
        return self.data + self.size


def plan(buffers: Sequence[tuple[str, int]]) -> tuple[list[Region], int]:
    """Places for (name, size) buffers in one file, and the file's size."""
    regions: list[Region] = []
    start = 0
    for name, size in buffers:
        padded = -(-size // ALIGNMENT) * ALIGNMENT
        pages_bytes = max(-(-padded // PAGE) * PAGE, PAGE)
        regions.append(Region(name, size, start, pages_bytes, start + pages_bytes - padded))
        start += pages_bytes
    return regions, max(start, PAGE)


def fill_padding(file: mmap.mmap, region: Region) -> None:
    """Writes the pattern around a buffer."""
    for low, high in _padding(region):
        file[low:high] = bytes([PATTERN]) * (high - low)


def overwritten(file: mmap.mmap, region: Region) -> int | None:
    """The byte offset, from the buffer's start, of a store into its padding; None is well."""
    for low, high in _padding(region):
        found = file[low:high]
        if found.count(PATTERN) != len(found):
            first = next(i for i, byte in enumerate(found) if byte != PATTERN)
            return low + first - region.data
    return None


def _padding(region: Region) -> tuple[tuple[int, int], tuple[int, int]]:
    return (region.start, region.data), (region.end, region.start + region.pages_bytes)


class Mapped:
    """The regions of a file in this process, each between two guards, until it is closed."""

    def __init__(self, file: int, regions: Sequence[Region]) -> None:
        self._held: list[tuple[int, int]] = []
        self.addresses: list[int] = []  # of the data
        for region in regions:
            length = region.pages_bytes + 2 * GUARD_BYTES
            base = _mmap(None, length, 0, _PRIVATE, -1, 0)
            self._held.append((base, length))
            start = base + GUARD_BYTES
            _mmap(start, region.pages_bytes, 3, mmap.MAP_SHARED | _FIXED, file, region.start)
            self.addresses.append(start + region.data - region.start)

    def close(self) -> None:
        """Unmaps everything."""
        for base, length in self._held:
            _libc().munmap(ctypes.c_void_p(base), ctypes.c_size_t(length))
        self._held.clear()


_FIXED = 0x10
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _mmap(at: int | None, length: int, protection: int, flags: int, file: int, offset: int) -> int:
    function = _libc().mmap
    function.restype = ctypes.c_void_p
    found = function(
        ctypes.c_void_p(at), ctypes.c_size_t(length), protection, flags, file, ctypes.c_long(offset)
    )
    if found is None or found == ctypes.c_void_p(-1).value:
        raise MemoryError(f"{length} bytes of address space cannot be had")
    return int(found)


def map_page(file: int, at: int | None = None) -> int:
    """One shared page of a file; ``at`` replaces what is there."""
    return _mmap(at, PAGE, 3, mmap.MAP_SHARED | (_FIXED if at else 0), file, 0)


# *** what a fault means


UNKNOWN = 1 << 63  # a page fault's error where the system does not tell


class Fault(NamedTuple):
    """What the signal handler wrote before the process ended."""

    signal: int
    code: int
    address: int
    stack: int
    instruction: int
    error: int  # of the page fault; bit 1 is a store


def explain(fault: Fault, regions: Sequence[Region], addresses: Sequence[int]) -> str:
    """A sentence: "it stored to data0 at byte 64, just past its end (it has 64 bytes)"."""
    if fault.signal == 8:
        return "it divided an integer by zero, or the smallest integer by -1"
    if fault.signal == 4:
        return "it ran into an instruction that this processor does not have"
    verb = "touched" if fault.error & UNKNOWN else "stored to" if fault.error & 2 else "loaded from"
    for region, address in zip(regions, addresses, strict=True):
        low = address - (region.data - region.start) - GUARD_BYTES
        if low <= fault.address < low + region.pages_bytes + 2 * GUARD_BYTES:
            return f"it {verb} {region.name} {_where(fault.address - address, region.size)}"
    if abs(fault.address - fault.stack) < 1 << 20:
        return "it ran out of stack"
    if fault.code == 128:  # the processor gave no address
        return "it used an address that is misaligned for its vector, or impossible"
    return f"it {verb} address 0x{fault.address:x}, where there is no buffer"


def _where(offset: int, size: int) -> str:
    if offset < 0:
        return f"at byte {offset}, before its start (it has {size} bytes)"
    past = offset - size
    how_far = "just past its end" if past < ALIGNMENT else f"{past} bytes past its end"
    return f"at byte {offset}, {how_far} (it has {size} bytes)"
