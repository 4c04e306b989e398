"""Sizes of AMD instructions, and where branches go: enough to follow a wave through a program.

The first word names the encoding by its high bits; the encoding says where an operand may ask for
a literal or for lane controls, either of which adds a word. Three generations: gfx9 (CDNA), gfx11
(RDNA3), gfx12 (RDNA4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tinylab.errors import CaptureError

SILENT, BRANCH, END, CALL, INDIRECT, PADDING, MATRIX = 1, 2, 4, 8, 16, 32, 64
_LITERAL, _SDWA, _DPP, _DPP8 = 255, 249, 250, (233, 234)


class Instruction(NamedTuple):
    """One instruction: its address, size in bytes, encoding, flags, branch target or -1."""

    pc: int
    size: int
    encoding: str
    flags: int
    target: int
    raw: bytes

    @property
    def hex(self) -> str:
        """The encoding as words: "f4000002 f8000000"."""
        words = (self.raw[i : i + 4] for i in range(0, len(self.raw), 4))
        return " ".join(f"{int.from_bytes(w, 'little'):08x}" for w in words)


class Encoding(NamedTuple):
    """Words that begin with ``value`` in their highest ``bits`` bits."""

    name: str
    bits: int
    value: int
    words: int
    extra: Callable[[int, int], int] | None = None  # (first word, second word) -> more words


@dataclass(frozen=True)
class Generation:
    """What one generation of chips encodes how."""

    name: str
    encodings: tuple[Encoding, ...]
    control: dict[tuple[str, int], int]  # (encoding, operation) -> flags


# *** words that operands ask for


def _scalar2(first: int, _second: int) -> int:
    return int(_LITERAL in (first & 0xFF, (first >> 8) & 0xFF))


def _scalar1(first: int, _second: int) -> int:
    return int(first & 0xFF == _LITERAL)


def _vector(first: int, _second: int) -> int:
    source = first & 0x1FF
    return int(source in (_LITERAL, _SDWA, _DPP, *_DPP8))


def _vector9(first: int, _second: int) -> int:
    return int(first & 0x1FF in (_LITERAL, _SDWA, _DPP))


def _with_constant(ops: Iterable[int], otherwise: Callable[[int, int], int]) -> Callable[..., int]:
    always = frozenset(ops)

    def extra(first: int, second: int) -> int:
        return 1 if (first >> 25) & 0x3F in always else otherwise(first, second)

    return extra


def _scalar2_constant(first: int, second: int) -> int:
    return 1 if (first >> 23) & 0x7F in (69, 70) else _scalar2(first, second)


def _vector3(_first: int, second: int) -> int:
    sources = (second & 0x1FF, (second >> 9) & 0x1FF, (second >> 18) & 0x1FF)
    return int(_LITERAL in sources or sources[0] in (_DPP, *_DPP8))


def _dual(first: int, second: int) -> int:
    ops = ((first >> 22) & 15, (first >> 17) & 31)
    constant = any(op in (1, 2) for op in ops)
    return int(constant or _LITERAL in (first & 0x1FF, second & 0x1FF))


def _setreg(op: int) -> Callable[[int, int], int]:
    return lambda first, _second: int((first >> 23) & 31 == op)


def _image(first: int, _second: int) -> int:
    return first & 1  # addresses that are no run of registers


# fmt: off
_SCALAR = (
    Encoding("SOP1", 9, 0b101111101, 1, _scalar1),
    Encoding("SOPC", 9, 0b101111110, 1, _scalar2),
    Encoding("SOPP", 9, 0b101111111, 1),
)
_RDNA = (
    *_SCALAR,
    Encoding("SOPK", 4, 0b1011, 1, _setreg(19)),
    Encoding("SOP2", 2, 0b10, 1, _scalar2_constant),
    Encoding("VOPC", 7, 0b0111110, 1, _vector),
    Encoding("VOP1", 7, 0b0111111, 1, _vector),
    Encoding("VOP2", 1, 0b0, 1, _with_constant((44, 45, 55, 56), _vector)),
    Encoding("VOP3P", 8, 0b11001100, 2, _vector3),
    Encoding("VINTERP", 8, 0b11001101, 2),
    Encoding("LDSDIR", 8, 0b11001110, 1),
    Encoding("VOPD", 6, 0b110010, 2, _dual),
    Encoding("VOP3", 6, 0b110101, 2, _vector3),
    Encoding("DS", 6, 0b110110, 2),
    Encoding("SMEM", 6, 0b111101, 2),
    Encoding("EXP", 6, 0b111110, 2),
)
_GFX11 = (
    *_RDNA,
    Encoding("FLAT", 6, 0b110111, 2),
    Encoding("MUBUF", 6, 0b111000, 2),
    Encoding("MTBUF", 6, 0b111010, 2),
    Encoding("MIMG", 6, 0b111100, 2, _image),
)
_GFX12 = (
    *_RDNA,
    Encoding("VBUFFER", 6, 0b110001, 3),
    Encoding("VIMAGE", 6, 0b110100, 3),
    Encoding("VSAMPLE", 6, 0b111001, 3),
    Encoding("FLAT", 6, 0b111011, 3),
)
_GFX9 = (
    *_SCALAR,
    Encoding("SOPK", 4, 0b1011, 1, _setreg(20)),
    Encoding("SOP2", 2, 0b10, 1, _scalar2),
    Encoding("VOPC", 7, 0b0111110, 1, _vector9),
    Encoding("VOP1", 7, 0b0111111, 1, _vector9),
    Encoding("VOP2", 1, 0b0, 1, _with_constant((23, 24, 36, 37), _vector9)),
    Encoding("VOP3PX", 16, 0xD3AC, 4),
    Encoding("VOP3P", 9, 0b110100111, 2),
    Encoding("VOP3", 6, 0b110100, 2),
    Encoding("SMEM", 6, 0b110000, 2),
    Encoding("VINTRP", 6, 0b110101, 1),
    Encoding("EXP", 6, 0b110001, 2),
    Encoding("DS", 6, 0b110110, 2),
    Encoding("FLAT", 6, 0b110111, 2),
    Encoding("MUBUF", 6, 0b111000, 2),
    Encoding("MTBUF", 6, 0b111010, 2),
    Encoding("MIMG", 6, 0b111100, 2),
)
# fmt: on

_GFX11_CONTROL = {
    ("SOPP", 0): PADDING,
    ("SOPP", 7): SILENT,  # s_delay_alu
    ("SOPP", 31): PADDING,  # s_code_end
    **{("SOPP", op): BRANCH for op in range(32, 43)},
    **{("SOPP", op): END for op in (48, 49, 50)},
    ("SOPK", 20): CALL,
    ("SOP1", 72): INDIRECT,  # s_setpc_b64
    ("SOP1", 73): INDIRECT,  # s_swappc_b64
    **{("VOP3P", op): MATRIX for op in range(0x40, 0x46)},
}
_GFX12_CONTROL = {
    **{key: flags for key, flags in _GFX11_CONTROL.items() if key[0] != "VOP3P"},
    ("SOPP", 8): SILENT,  # s_wait_alu
    ("SOPP", 20): SILENT,  # s_barrier_wait
}
_GFX9_CONTROL = {
    ("SOPP", 0): PADDING,
    **{("SOPP", op): BRANCH for op in (2, 4, 5, 6, 7, 8, 9, 23, 24, 25, 26)},
    **{("SOPP", op): END for op in (1, 27, 30)},
    ("SOPK", 21): CALL,
    ("SOP1", 29): INDIRECT,
    ("SOP1", 30): INDIRECT,
}
GENERATIONS = {
    "gfx9": Generation("gfx9", _GFX9, _GFX9_CONTROL),
    "gfx11": Generation("gfx11", _GFX11, _GFX11_CONTROL),
    "gfx12": Generation("gfx12", _GFX12, _GFX12_CONTROL),
}
IU4 = 0x45  # the matrix operation of RDNA3 that takes half the time
_OPERATION = {"SOPP": (16, 0x7F), "SOPK": (23, 0x1F), "SOP1": (8, 0xFF), "VOP3P": (16, 0x7F)}


def generation_of(target: str) -> Generation:
    """Of a processor's name: "gfx1201" -> gfx12.

    Raises: CaptureError for one that has no table.
    """
    number = target.removeprefix("gfx")
    name = "gfx9" if number.startswith("9") else f"gfx{number[:2]}"
    if name not in GENERATIONS:
        raise CaptureError(
            f"no instruction sizes are known for {target!r}", help=f"for {', '.join(GENERATIONS)}"
        )
    return GENERATIONS[name]


def decode_instructions(text: bytes, base: int, generation: Generation) -> list[Instruction]:
    """All instructions of a section, to the first word that begins none; padding left out.

    Unknown words end the list: what follows them could be anything.
    """
    out: list[Instruction] = []
    at = 0
    while at + 4 <= len(text):
        found = _decode(text, at, base, generation)
        if found is None:
            break
        out.append(found)
        at += found.size
    while out and out[-1].flags & PADDING:
        out.pop()
    return out


def _decode(text: bytes, at: int, base: int, generation: Generation) -> Instruction | None:
    first = int.from_bytes(text[at : at + 4], "little")
    second = int.from_bytes(text[at + 4 : at + 8], "little")
    encoding = next((e for e in generation.encodings if first >> (32 - e.bits) == e.value), None)
    if encoding is None:
        return None
    extra = encoding.extra(first, second) if encoding.extra else 0
    size = 4 * (encoding.words + extra)
    if at + size > len(text):
        return None
    flags, target = 0, -1
    if encoding.name in _OPERATION:
        shift, mask = _OPERATION[encoding.name]
        flags = generation.control.get((encoding.name, (first >> shift) & mask), 0)
    if flags & (BRANCH | CALL):
        offset = (first & 0xFFFF) - ((first & 0x8000) << 1)
        target = base + at + size + 4 * offset
    return Instruction(base + at, size, encoding.name, flags, target, text[at : at + size])
