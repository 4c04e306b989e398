"""What an ELF object needs from elsewhere: the names of its undefined symbols.

Linking an object whose symbols cannot be found takes the process down, so it is asked first.
Layout: System V ABI, "Object files"; 64-bit little-endian only, which is what LLVM emits here.
"""

from __future__ import annotations

import struct

_SYMBOL_TABLE = 2
_UNDEFINED = 0


def undefined_symbols(obj: bytes) -> tuple[str, ...]:
    """Names that the object uses and does not define; empty for what is no 64-bit ELF.

    An object that calls sinf -> ("sinf",)
    """
    if obj[:6] != b"\x7fELF\x02\x01":
        return ()
    (table,) = struct.unpack_from("<Q", obj, 0x28)
    entry_size, count = struct.unpack_from("<HH", obj, 0x3A)
    # name type flags addr offset size link info align entry_size
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", obj, table + i * entry_size) for i in range(count)
    ]
    names: list[str] = []
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], section[9]):
            name, _info, _other, where, _value, _size = struct.unpack_from("<IBBHQQ", obj, at)
            if name and where == _UNDEFINED:
                start = strings + name
                names.append(obj[start : obj.index(b"\0", start)].decode())
    return tuple(names)
