"""gguf files: numbers and texts by key, then tensors, most of them in quantised blocks.

Source: ggml, docs/gguf.md.
"""

from __future__ import annotations

import math
import struct
from typing import Any, NamedTuple

from tinylab.dtype import DType, dtypes
from tinylab.errors import FileFormatError
from tinylab.nn.files import Bytes, accept_filename
from tinylab.nn.quantised import BLOCKS
from tinylab.tensor import Tensor

# Types of elements that are stored as they are.
PLAIN: dict[int, DType] = {
    0: dtypes.float32, 1: dtypes.float16, 24: dtypes.int8, 25: dtypes.int16, 26: dtypes.int32,
    27: dtypes.int64, 28: dtypes.float64, 30: dtypes.bfloat16,
}  # fmt: skip
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
            12: "d"}  # fmt: skip
_TEXT, _ARRAY = 8, 9
_DEEPEST = 8  # arrays in arrays


class _Entry(NamedTuple):
    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


class _Cursor:
    """Reads a header from the front; all sizes are checked."""

    def __init__(self, data: Bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> memoryview:
        self.data.check(self.at, count, "the header")
        self.at += count
        return self.data.view[self.at - count : self.at]

    def number(self, fmt: str) -> Any:
        return struct.unpack(f"<{fmt}", self.take(struct.calcsize(f"<{fmt}")))[0]

    def text(self) -> str:
        return bytes(self.take(self.number("Q"))).decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _TEXT:
            return self.text()
        if kind != _ARRAY or depth > _DEEPEST:
            raise FileFormatError(f"damaged file: a value of type {kind} at byte {self.at}")
        inner, count = self.number("I"), self.number("Q")
        if inner in _NUMBERS:
            fmt = _NUMBERS[inner]
            raw = self.take(count * struct.calcsize(f"<{fmt}"))
            return [v[0] for v in struct.iter_unpack(f"<{fmt}", raw)]
        self.data.check(self.at, count, "an array")  # each item has a byte at least
        return [self.value(inner, depth + 1) for _ in range(count)]


@accept_filename
def gguf_load(t: Tensor) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(the values, the tensors) of a gguf file; quantised tensors as float32.

    Raises: FileFormatError for a file that is damaged, or a type that tinylab lacks.
    """
    data = Bytes(t)
    cursor = _Cursor(data)
    if bytes(cursor.take(4)) != b"GGUF":
        raise FileFormatError(f"no gguf file: it begins with {bytes(data.view[:4])!r}")
    version = cursor.number("I")
    if version not in (2, 3):
        raise FileFormatError(
            f"gguf of version {version}, not 2 or 3: it is older, or of another byte order"
        )
    tensors, pairs = cursor.number("Q"), cursor.number("Q")
    values = {cursor.text(): cursor.value(cursor.number("I")) for _ in range(pairs)}
    entries = [_entry(cursor) for _ in range(tensors)]
    align = values.get("general.alignment", 32)
    if type(align) is not int or align <= 0:
        raise FileFormatError(f"damaged file: an alignment of {align!r}")
    begin = -(-cursor.at // align) * align
    return values, {e.name: _tensor(data, begin + e.offset, e) for e in entries}


def _entry(cursor: _Cursor) -> _Entry:
    name, axes = cursor.text(), cursor.number("I")
    if axes > 8:
        raise FileFormatError(f"damaged file: {name[:80]!r} has {axes} axes")
    sizes = tuple(cursor.number("Q") for _ in range(axes))
    return _Entry(name, sizes[::-1], cursor.number("I"), cursor.number("Q"))


def _tensor(data: Bytes, start: int, entry: _Entry) -> Tensor:
    if entry.kind in PLAIN:
        return data.tensor(start, PLAIN[entry.kind], entry.shape)
    count = math.prod(entry.shape)
    blocks = _blocks(count, entry.kind, entry.name)
    raw = data.tensor(start, dtypes.uint8, (blocks * BLOCKS[entry.kind].size,))
    return ggml_data_to_tensor(raw, count, entry.kind).reshape(entry.shape)


# Types of the past, which tinylab cannot read.
_OTHERS = {
    4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8", 36: "IQ4_NL_4_4",
}  # fmt: skip


def _blocks(count: int, kind: int, name: str) -> int:
    if kind not in BLOCKS:
        names = ", ".join(b.name for b in BLOCKS.values())
        called = f" ({_OTHERS[kind]})" if kind in _OTHERS else ""
        raise FileFormatError(
            f"GGML type '{kind}'{called} of {name!r} is not supported!",
            help=f"tinylab reads {names}",
        )
    if count % BLOCKS[kind].elements:
        raise FileFormatError(
            f"damaged file: {name!r} has {count} elements, "
            f"no whole blocks of {BLOCKS[kind].elements}"
        )
    return count // BLOCKS[kind].elements


def ggml_data_to_tensor(t: Tensor, n: int, ggml_type: int) -> Tensor:
    """n elements of bytes in a type of ggml: plain ones as they are, blocks as float32.

    Raises: FileFormatError for a type that tinylab lacks, or too few bytes.
    """
    if ggml_type in PLAIN:
        dtype = PLAIN[ggml_type]
        if t.numel() < n * dtype.itemsize:
            raise FileFormatError(f"{n} of {dtype} need more than {t.numel()} bytes")
        return t.flatten()[: n * dtype.itemsize].bitcast(dtype)
    blocks = _blocks(n, ggml_type, "a tensor")
    kind = BLOCKS[ggml_type]
    if t.numel() < blocks * kind.size:
        raise FileFormatError(f"{n} of {kind.name} need more than {t.numel()} bytes")
    if n == 0:
        return Tensor.zeros(0)
    rows = t.flatten()[: blocks * kind.size].reshape(blocks, kind.size)
    return kind.decode(rows).reshape(blocks, kind.elements)
