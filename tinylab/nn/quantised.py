"""Blocks of quantised numbers of ggml, decoded by tensor operations: (n, bytes) -> (n, elements).

Each row of the table says how many elements a block has, in how many bytes, and how it is read. A
block has a scale d for all of its numbers; the K types have more scales inside a block of 256.

Source: ggml, ggml-common.h and ggml-quants.c (what the bytes mean); OCP Microscaling Formats 1.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tinylab.dtype import dtypes
from tinylab.nn.grids import IQ1_S, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, Grid, rows_of
from tinylab.tensor import Tensor


class Block(NamedTuple):
    """A type of ggml."""

    name: str
    elements: int
    size: int
    decode: Callable[[Tensor], Tensor]


# *** pieces of a block


def _half(b: Tensor, at: int) -> Tensor:
    """Two bytes as a float16, in float32: (n, 1)."""
    return b[:, at : at + 2].bitcast(dtypes.float16).float()


def _signed(b: Tensor) -> Tensor:
    return b.bitcast(dtypes.int8).float()


def _fields(b: Tensor, bits: int) -> Tensor:
    """(n, m) bytes as fields of so many bits, the lowest of all bytes first: (n, 8/bits * m)."""
    parts = [(b >> s) & ((1 << bits) - 1) for s in range(0, 8, bits)]
    return parts[0].cat(*parts[1:], dim=1)


def _nibbles(b: Tensor) -> Tensor:
    """The low halves of all bytes, then the high ones."""
    return _fields(b, 4).float()


def _in_order(b: Tensor, bits: int) -> Tensor:
    """(n, m) bytes as fields of so many bits, byte by byte, the low ones first."""
    each = Tensor(list(range(0, 8, bits)), dtype=dtypes.uint8, device=b.device)
    return ((b.unsqueeze(-1) >> each) & ((1 << bits) - 1)).flatten(1)


def _bits(b: Tensor) -> Tensor:
    """(n, m) bytes as 8 * m bits, byte by byte."""
    return _in_order(b, 1)


def _looked_up(b: Tensor, values: Sequence[int]) -> Tensor:
    """The halves of the bytes as places in a table of 16."""
    table = Tensor(list(values), dtype=dtypes.float32, device=b.device)
    return table[_fields(b, 4).cast(dtypes.int32)]


def _parts(x: Tensor, scales: Tensor) -> Tensor:
    """(n, 256) in as many parts as there are scales, each multiplied with its own."""
    parts = scales.shape[1]
    return (x.reshape(x.shape[0], parts, -1) * scales.unsqueeze(-1)).flatten(1)


def _spread(x: Tensor, count: int) -> Tensor:
    """(n, parts) repeated to (n, count)."""
    return x.unsqueeze(-1).expand(*x.shape, count // x.shape[1]).flatten(1)


# *** blocks of 32, and of 128


def _q1_0(b: Tensor) -> Tensor:
    """A bit for each number, its sign: d or -d."""
    d = _half(b, 0)
    return _bits(b[:, 2:]).ne(0).where(d, -d)


def _q4_0(b: Tensor) -> Tensor:
    return (_nibbles(b[:, 2:]) - 8) * _half(b, 0)


def _q4_1(b: Tensor) -> Tensor:
    return _nibbles(b[:, 4:]) * _half(b, 0) + _half(b, 2)


def _q5_0(b: Tensor) -> Tensor:
    return (_nibbles(b[:, 6:]) + _bits(b[:, 2:6]).float() * 16 - 16) * _half(b, 0)


def _q5_1(b: Tensor) -> Tensor:
    return (_nibbles(b[:, 8:]) + _bits(b[:, 4:8]).float() * 16) * _half(b, 0) + _half(b, 2)


def _q8_0(b: Tensor) -> Tensor:
    return _signed(b[:, 2:]) * _half(b, 0)


def _q8_1(b: Tensor) -> Tensor:
    return _signed(b[:, 4:]) * _half(b, 0)


_IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
# Twice the values of e2m1; the scale is halved.
_E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


def _iq4_nl(b: Tensor) -> Tensor:
    return _looked_up(b[:, 2:], _IQ4) * _half(b, 0)


def _mxfp4(b: Tensor) -> Tensor:
    """A power of two for each block: 2**(e - 127) for e2m1, whose table is doubled here."""
    e = b[:, :1].cast(dtypes.uint32)
    # The two smallest are denormal.
    bits = (e < 2).where(
        Tensor(0x00200000, dtype=dtypes.uint32, device=b.device) << e, (e - 1) << 23
    )
    scale: Tensor = bits.bitcast(dtypes.float32)
    return _looked_up(b[:, 1:], _E2M1) * scale


def _nvfp4(b: Tensor) -> Tensor:
    """Four times 16 numbers of e2m1, each with a scale of e4m3 without a sign."""
    e, m = ((b[:, :4] >> 3) & 15).cast(dtypes.uint32), (b[:, :4] & 7).cast(dtypes.uint32)
    normal = ((e + 120) << 23) | (m << 20)
    scale = e.eq(0).where(m.float() * 2**-9, normal.bitcast(dtypes.float32)) * 0.5
    scale = b[:, :4].eq(0x7F).where(0.0, scale)
    return _parts(_looked_up(b[:, 4:].reshape(-1, 8), _E2M1).reshape(b.shape[0], 64), scale)


# *** blocks of 256


def _q2_k(b: Tensor) -> Tensor:
    scales = b[:, :16]
    q = _quarters(b[:, 16:80])
    low = _spread((scales >> 4).float() * _half(b, 82), 256)
    return _parts(q.float(), (scales & 15).float() * _half(b, 80)) - low


def _quarters(b: Tensor) -> Tensor:
    """(n, 64) bytes as 256 fields of two bits: each half of the bytes by itself."""
    return _fields(b[:, :32], 2).cat(_fields(b[:, 32:], 2), dim=1)


def _q3_k(b: Tensor) -> Tensor:
    low = _quarters(b[:, 32:96]).float()
    high = _fields(b[:, :32], 1).float()
    s = b[:, 96:108]
    scales = _fields(s[:, :8], 4) | (_fields(s[:, 8:], 2) << 4)
    return _parts(low + high * 4 - 4, (scales.float() - 32) * _half(b, 108))


def _scales_k4(s: Tensor) -> tuple[Tensor, Tensor]:
    """Twelve bytes as eight scales and eight offsets of six bits."""
    first, second, rest = s[:, :4], s[:, 4:8], s[:, 8:]
    scales = (first & 63).cat((rest & 15) | ((first >> 6) << 4), dim=1)
    offsets = (second & 63).cat((rest >> 4) | ((second >> 6) << 4), dim=1)
    return scales.float(), offsets.float()


def _nibbles_of_32(b: Tensor) -> Tensor:
    """(n, 128) bytes as 256 halves: of each 32 bytes, the low ones and then the high ones."""
    return _fields(b.reshape(-1, 32), 4).reshape(b.shape[0], 256).float()


def _q4_k(b: Tensor) -> Tensor:
    scales, offsets = _scales_k4(b[:, 4:16])
    low = _spread(offsets * _half(b, 2), 256)
    return _parts(_nibbles_of_32(b[:, 16:]), scales * _half(b, 0)) - low


def _q5_k(b: Tensor) -> Tensor:
    scales, offsets = _scales_k4(b[:, 4:16])
    q = _nibbles_of_32(b[:, 48:]) + _fields(b[:, 16:48], 1).float() * 16
    return _parts(q, scales * _half(b, 0)) - _spread(offsets * _half(b, 2), 256)


def _q6_k(b: Tensor) -> Tensor:
    low = _fields(b[:, :128].reshape(-1, 64), 4).reshape(b.shape[0], 256)
    high = _quarters(b[:, 128:192])
    return _parts((low | (high << 4)).float() - 32, _signed(b[:, 192:208]) * _half(b, 208))


def _q8_k(b: Tensor) -> Tensor:
    return _signed(b[:, 4:260]) * b[:, :4].bitcast(dtypes.float32)


def _iq4_xs(b: Tensor) -> Tensor:
    low = (b[:, 4:8].unsqueeze(-1) >> Tensor([0, 4], dtype=dtypes.uint8, device=b.device)).flatten(
        1
    ) & 15
    pairs = Tensor([0, 2, 4, 6], dtype=dtypes.uint8, device=b.device)
    high = (b[:, 2:4].unsqueeze(-1) >> pairs).flatten(1) & 3
    scales = ((high << 4) | low).float() - 32
    q = _looked_up(b[:, 8:].reshape(-1, 16), _IQ4).reshape(b.shape[0], 256)
    return _parts(q, scales * _half(b, 0))


def _points(codes: Tensor, grid: Grid) -> Tensor:
    """(n, m) codes as the points that they stand for, one after another."""
    table = Tensor(rows_of(grid), dtype=dtypes.float32, device=codes.device)
    found: Tensor = table[codes.cast(dtypes.int32)]
    return found.flatten(1)


def _signs(bits: Tensor) -> Tensor:
    """(n, m) bytes as 8 * m factors of 1 or -1."""
    return 1 - _bits(bits).float() * 2


def _high_bits(low: Tensor, high: Tensor, bits: int) -> Tensor:
    """Codes of more than eight bits: their high ones lie together."""
    return low.cast(dtypes.int32) | (_in_order(high, bits).cast(dtypes.int32) << 8)


def _pairs(b: Tensor) -> Tensor:
    """The halves of each byte, the low one first."""
    return _in_order(b, 4).float()


def _iq2_s(b: Tensor) -> Tensor:
    codes = _high_bits(b[:, 2:34], b[:, 66:74], 2)
    scales = (_pairs(b[:, 74:82]) + 0.5) * _half(b, 0) * 0.25
    return _parts(_points(codes, IQ2_S) * _signs(b[:, 34:66]), scales)


def _iq3_s(b: Tensor) -> Tensor:
    codes = _high_bits(b[:, 2:66], b[:, 66:74], 1)
    scales = (_pairs(b[:, 106:110]) * 2 + 1) * _half(b, 0)
    return _parts(_points(codes, IQ3_S) * _signs(b[:, 74:106]), scales)


def _iq3_xxs(b: Tensor) -> Tensor:
    """A code for each four numbers, and a word for each 32: a scale and signs."""
    scales, signs = _scale_and_signs(b[:, 66:98])
    return _parts(_points(b[:, 2:66], IQ3_XXS) * signs, scales * _half(b, 0) * 0.5)


def _iq2_xxs(b: Tensor) -> Tensor:
    """For each 32 numbers four codes, and a word of a scale and signs."""
    groups = b[:, 2:66].reshape(b.shape[0], 8, 8)
    scales, signs = _scale_and_signs(groups[:, :, 4:].flatten(1))
    points = _points(groups[:, :, :4].flatten(1), IQ2_XXS)
    return _parts(points * signs, scales * _half(b, 0) * 0.25)


def _scale_and_signs(b: Tensor) -> tuple[Tensor, Tensor]:
    """Words of four bits of scale and four times seven signs: (n, words), (n, 32 * words)."""
    words = b.bitcast(dtypes.uint32)
    each = Tensor([0, 7, 14, 21], dtype=dtypes.uint32, device=b.device)
    seven = ((words.unsqueeze(-1) >> each) & 127).flatten(1)
    return (words >> 28).float() + 0.5, _eight_signs(seven)


def _eight_signs(seven: Tensor) -> Tensor:
    """Seven signs each, and an eighth that makes the number of minus signs even."""
    odd = seven ^ (seven >> 4)
    odd = odd ^ (odd >> 2)
    odd = (odd ^ (odd >> 1)) & 1
    return _signs((seven | (odd << 7)).cast(dtypes.uint8))


def _iq2_xs(b: Tensor) -> Tensor:
    """Sixteen bits for each eight numbers: nine of code, seven signs."""
    words = b[:, 2:66].bitcast(dtypes.uint16)
    scales = (_pairs(b[:, 66:74]) + 0.5) * _half(b, 0) * 0.25
    return _parts(_points(words & 511, IQ2_XS) * _eight_signs(words >> 9), scales)


_SHIFT = 0.125  # what the types of one bit add to each point, or take away


def _threes(words: Tensor) -> Tensor:
    """(n, m) words of sixteen bits as their four lowest fields of three: (n, 4 * m)."""
    each = Tensor([0, 3, 6, 9], dtype=dtypes.uint16, device=words.device)
    return ((words.unsqueeze(-1) >> each) & 7).flatten(1)


def _iq1_s(b: Tensor) -> Tensor:
    """A word for each 32 numbers: high bits of four codes, a scale, and which way they shift."""
    words = b[:, 34:50].bitcast(dtypes.uint16)
    codes = b[:, 2:34].cast(dtypes.int32) | (_threes(words).cast(dtypes.int32) << 8)
    scales = (((words >> 12) & 7).float() * 2 + 1) * _half(b, 0)
    shift = (words >> 15).eq(0).where(_SHIFT, -_SHIFT)
    return _parts(_points(codes, IQ1_S) + _spread(shift, 256), scales)


def _iq1_m(b: Tensor) -> Tensor:
    """The same with a scale for each 16 numbers; the block's own lies in four words' high bits."""
    words = b[:, 48:56].bitcast(dtypes.uint16)
    each = Tensor([12, 8, 4, 0], dtype=dtypes.uint16, device=b.device)
    d = ((words & 0xF000) >> each).sum(1, keepdim=True, dtype=dtypes.uint16)
    scales = (_threes(words).float() * 2 + 1) * d.bitcast(dtypes.float16).float()
    high = _in_order(b[:, 32:48], 4).cast(dtypes.int32)
    codes = b[:, :32].cast(dtypes.int32) | ((high & 7) << 8)
    shift = (high & 8).eq(0).where(_SHIFT, -_SHIFT)
    return _parts(_points(codes, IQ1_S) + _spread(shift, 256), scales)


def _tq1_0(b: Tensor) -> Tensor:
    """Digits to base three, five in a byte: the leading digit of byte * 3**n / 256."""

    def digits(part: Tensor, count: int) -> Tensor:
        turned = [(part.cast(dtypes.uint16) * 3**n) & 255 for n in range(count)]
        leading: Tensor = (turned[0].cat(*turned[1:], dim=1) * 3) >> 8
        return leading.float() - 1

    q = digits(b[:, :32], 5).cat(digits(b[:, 32:48], 5), digits(b[:, 48:52], 4), dim=1)
    return q * _half(b, 52)


def _tq2_0(b: Tensor) -> Tensor:
    return (_quarters(b[:, :64]).float() - 1) * _half(b, 64)


BLOCKS: dict[int, Block] = {
    2: Block("Q4_0", 32, 18, _q4_0),
    3: Block("Q4_1", 32, 20, _q4_1),
    6: Block("Q5_0", 32, 22, _q5_0),
    7: Block("Q5_1", 32, 24, _q5_1),
    8: Block("Q8_0", 32, 34, _q8_0),
    9: Block("Q8_1", 32, 36, _q8_1),
    10: Block("Q2_K", 256, 84, _q2_k),
    11: Block("Q3_K", 256, 110, _q3_k),
    12: Block("Q4_K", 256, 144, _q4_k),
    13: Block("Q5_K", 256, 176, _q5_k),
    14: Block("Q6_K", 256, 210, _q6_k),
    15: Block("Q8_K", 256, 292, _q8_k),
    16: Block("IQ2_XXS", 256, 66, _iq2_xxs),
    17: Block("IQ2_XS", 256, 74, _iq2_xs),
    18: Block("IQ3_XXS", 256, 98, _iq3_xxs),
    19: Block("IQ1_S", 256, 50, _iq1_s),
    20: Block("IQ4_NL", 32, 18, _iq4_nl),
    21: Block("IQ3_S", 256, 110, _iq3_s),
    22: Block("IQ2_S", 256, 82, _iq2_s),
    23: Block("IQ4_XS", 256, 136, _iq4_xs),
    29: Block("IQ1_M", 256, 56, _iq1_m),
    34: Block("TQ1_0", 256, 54, _tq1_0),
    35: Block("TQ2_0", 256, 66, _tq2_0),
    39: Block("MXFP4", 32, 17, _mxfp4),
    40: Block("NVFP4", 64, 36, _nvfp4),
    41: Block("Q1_0", 128, 18, _q1_0),
}
