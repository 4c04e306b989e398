"""Sections of an AMD code object, read with suspicion.

Hand-assembled objects leave most of the ELF header zero: only the offset, number and string index
of the section headers are used here, and each is 64 bytes long. No length is believed before it is
held against the file.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

from tinylab.errors import CaptureError

_SECTION = struct.Struct("<IIQQQQIIQQ")
_EMPTY = 8  # a section that takes room in memory and none in the file
_CODE = 0x4  # flag of sections with instructions


@dataclass(frozen=True)
class Section:
    """A named part: its address in the loaded image, and its bytes."""

    name: str
    address: int
    data: bytes
    flags: int


@dataclass(frozen=True)
class CodeObject:
    """What a code object holds."""

    sections: tuple[Section, ...]
    flags: int
    hash: str  # of the file: what traces call it, 16 hexadecimal digits

    @property
    def text(self) -> Section:
        """The section with the instructions.

        Raises: CaptureError if there is none.
        """
        for section in self.sections:
            if section.name == ".text":
                return section
        for section in self.sections:
            if section.flags & _CODE and section.data:
                return section
        raise CaptureError("the code object has no section with instructions")


def read_code_object(data: bytes) -> CodeObject:
    """The sections of an ELF file.

    Raises: CaptureError with the value that makes no sense.
    """
    if len(data) < 64 or data[:4] != b"\x7fELF":
        raise CaptureError(f"no code object: {len(data)} bytes that begin with {data[:4].hex()}")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    (flags,) = struct.unpack_from("<I", data, 0x30)
    count, names_at = struct.unpack_from("<HH", data, 0x3C)
    if table + count * _SECTION.size > len(data):
        raise CaptureError(
            f"the code object ends at byte {len(data)}, its {count} section headers at "
            f"{table + count * _SECTION.size}"
        )
    headers = [_SECTION.unpack_from(data, table + i * _SECTION.size) for i in range(count)]
    names = _contents(data, headers[names_at]) if names_at < count else b""
    sections = tuple(
        Section(_name(names, h[0]), h[3], _contents(data, h), h[2]) for h in headers if h[1]
    )
    return CodeObject(sections, flags, _hash(data))


def _contents(data: bytes, header: tuple[int, ...]) -> bytes:
    kind, offset, size = header[1], header[4], header[5]
    if kind == _EMPTY:
        return b""
    if offset + size > len(data):
        raise CaptureError(
            f"a section ends at byte {offset + size}, the code object at {len(data)}"
        )
    return data[offset : offset + size]


def _name(names: bytes, start: int) -> str:
    end = names.find(b"\0", start)
    return names[start : max(end, start)].decode("utf-8", "replace")


def _hash(data: bytes) -> str:
    digest = hashlib.md5(data, usedforsecurity=False).digest()[:8]
    return f"{int.from_bytes(digest, 'little'):016x}"
