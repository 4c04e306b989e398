"""The operations of every stage, and the kinds of loop axes, in one table each.

The numeric order is part of the contract: it decides ties when nodes are put in order.
"""

from __future__ import annotations

import enum
from typing import Final

from tinylab.helpers.near import no_member


class Ops(enum.IntEnum):
    """What a node does. Meanings, sources and arguments: the catalogue printed from `uop.spec`."""

    # grid index, storage, and what carries no value
    SPECIAL = enum.auto()
    BUFFER = enum.auto()
    NOOP = enum.auto()
    REWRITE_ERROR = enum.auto()
    # programs and calls
    PARAM = enum.auto()
    FUNCTION = enum.auto()
    CALL = enum.auto()
    PROGRAM = enum.auto()
    LINEAR = enum.auto()
    SOURCE = enum.auto()
    BINARY = enum.auto()
    # order and grouping
    SINK = enum.auto()
    AFTER = enum.auto()
    GROUP = enum.auto()
    STACK = enum.auto()
    TUPLE = enum.auto()
    GETTUPLE = enum.auto()
    GETADDR = enum.auto()
    # memory
    INDEX = enum.auto()
    SHRINK = enum.auto()
    LOAD = enum.auto()
    STORE = enum.auto()
    # tensor cores
    WMMA = enum.auto()
    # unary
    CAST = enum.auto()
    BITCAST = enum.auto()
    EXP2 = enum.auto()
    LOG2 = enum.auto()
    SIN = enum.auto()
    SQRT = enum.auto()
    RECIPROCAL = enum.auto()
    NEG = enum.auto()
    TRUNC = enum.auto()
    # binary
    ADD = enum.auto()
    MUL = enum.auto()
    SHL = enum.auto()
    SHR = enum.auto()
    CDIV = enum.auto()
    MAX = enum.auto()
    CMOD = enum.auto()
    CMPLT = enum.auto()
    CMPNE = enum.auto()
    CMPEQ = enum.auto()
    XOR = enum.auto()
    OR = enum.auto()
    AND = enum.auto()
    THREEFRY = enum.auto()
    SUB = enum.auto()
    FDIV = enum.auto()
    POW = enum.auto()
    FLOORDIV = enum.auto()
    FLOORMOD = enum.auto()
    # ternary
    WHERE = enum.auto()
    MULACC = enum.auto()
    # control
    BARRIER = enum.auto()
    RANGE = enum.auto()
    IF = enum.auto()
    END = enum.auto()
    ENDIF = enum.auto()
    # literals and text
    CONST = enum.auto()
    CUSTOM = enum.auto()
    CUSTOMI = enum.auto()
    INS = enum.auto()
    # tensor graph
    CONTIGUOUS = enum.auto()
    CONTIGUOUS_BACKWARD = enum.auto()
    DETACH = enum.auto()
    STAGE = enum.auto()
    COPY = enum.auto()
    MSELECT = enum.auto()
    MSTACK = enum.auto()
    CUSTOM_FUNCTION = enum.auto()
    RESHAPE = enum.auto()
    PERMUTE = enum.auto()
    EXPAND = enum.auto()
    PAD = enum.auto()
    FLIP = enum.auto()
    UNSHARD = enum.auto()
    REDUCE = enum.auto()
    ALLREDUCE = enum.auto()
    PYLITERAL = enum.auto()
    # A sine a quarter turn on; its own operation, since pi/2 - x in floats loses digits of x.
    COS = enum.auto()

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise no_member(cls, value)

    def __str__(self) -> str:
        return f"Ops.{self.name}"

    __repr__ = __str__


class GroupOp:
    """Sets of operations that rules and passes speak of."""

    Unary: Final = frozenset(
        {Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.COS, Ops.SQRT, Ops.RECIPROCAL, Ops.NEG, Ops.TRUNC}
    )
    Binary: Final = frozenset(
        {
            Ops.ADD,
            Ops.MUL,
            Ops.CDIV,
            Ops.MAX,
            Ops.CMOD,
            Ops.CMPLT,
            Ops.CMPNE,
            Ops.CMPEQ,
            Ops.XOR,
            Ops.SHL,
            Ops.SHR,
            Ops.OR,
            Ops.AND,
            Ops.THREEFRY,
            Ops.SUB,
            Ops.FDIV,
            Ops.POW,
            Ops.FLOORDIV,
            Ops.FLOORMOD,
        }
    )
    Ternary: Final = frozenset({Ops.WHERE, Ops.MULACC})
    ALU: Final = Unary | Binary | Ternary
    Broadcastable: Final = Binary | Ternary
    Elementwise: Final = ALU | {Ops.CAST, Ops.BITCAST}
    Defines: Final = frozenset({Ops.PARAM, Ops.BUFFER})
    Irreducible: Final = frozenset({Ops.CONST, Ops.SPECIAL, Ops.RANGE, Ops.PARAM, Ops.GETADDR})
    Movement: Final = frozenset(
        {Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.PAD, Ops.SHRINK, Ops.FLIP}
    )
    Commutative: Final = frozenset(
        {Ops.ADD, Ops.MUL, Ops.MAX, Ops.CMPNE, Ops.CMPEQ, Ops.XOR, Ops.AND, Ops.OR}
    )
    Associative: Final = frozenset({Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.MAX})
    Idempotent: Final = frozenset({Ops.OR, Ops.AND, Ops.MAX})
    Reduce: Final = frozenset({Ops.ADD, Ops.MUL, Ops.MAX})
    Comparison: Final = frozenset({Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ})
    All: Final = frozenset(Ops)


class AxisType(enum.Enum):
    """What a RANGE is: a place in the grid, a lane, a loop."""

    DEVICE = "d"
    GLOBAL = "g"
    WARP = "w"
    LOCAL = "l"
    WEAK = "L"
    GROUP_REDUCE = "G"
    REDUCE = "R"
    UPCAST = "u"
    UNROLL = "r"
    THREAD = "t"
    PLACEHOLDER = "p"
    LOOP = "o"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise no_member(cls, value)

    def __repr__(self) -> str:
        return f"AxisType.{self.name}"

    def __lt__(self, other: AxisType) -> bool:
        return _AXIS_ORDER[self] < _AXIS_ORDER[other]


_AXIS_ORDER = {kind: i for i, kind in enumerate(AxisType)}

# Axes of a kernel are ordered by this key, then by axis id.
axis_to_pos: Final[dict[AxisType, int]] = {
    AxisType.DEVICE: -2,
    AxisType.WEAK: -1,
    AxisType.LOOP: -1,
    AxisType.GLOBAL: 0,
    AxisType.THREAD: 0,
    AxisType.WARP: 1,
    AxisType.LOCAL: 2,
    AxisType.GROUP_REDUCE: 2,
    AxisType.UPCAST: 3,
    AxisType.REDUCE: 4,
    AxisType.UNROLL: 5,
    AxisType.PLACEHOLDER: 6,
}

# The letter of an axis in shapes and in the names of loop variables.
axis_letters: Final[dict[AxisType, str]] = {
    kind: "L" if kind is AxisType.LOOP else kind.value for kind in AxisType
}

axis_colors: Final[dict[AxisType, str]] = {
    AxisType.DEVICE: "green",
    AxisType.GLOBAL: "blue",
    AxisType.THREAD: "BLUE",
    AxisType.WARP: "CYAN",
    AxisType.LOCAL: "cyan",
    AxisType.WEAK: "WHITE",
    AxisType.LOOP: "WHITE",
    AxisType.GROUP_REDUCE: "RED",
    AxisType.REDUCE: "red",
    AxisType.UPCAST: "yellow",
    AxisType.UNROLL: "magenta",
    AxisType.PLACEHOLDER: "WHITE",
}
