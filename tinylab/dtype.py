"""Element types, their promotion and the exact rounding of a Python number to each of them."""

from __future__ import annotations

import enum
import functools
import math
import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tinylab.errors import DTypeError, UnknownDTypeError
from tinylab.helpers.arguments import explained_methods, explained_names
from tinylab.helpers.near import closest, no_member
from tinylab.small_floats import FloatLayout


class AddrSpace(enum.IntEnum):
    """Where a buffer lives; ALU holds values that are not memory (variables)."""

    GLOBAL = 1
    LOCAL = 2
    REG = 3
    ALU = 4

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise no_member(cls, value)

    def __repr__(self) -> str:
        return f"AddrSpace.{self.name}"


class InvalidType:
    """The value of an index that must not be used: loads give 0, stores are skipped."""

    _only: InvalidType | None = None

    def __new__(cls) -> InvalidType:  # noqa: D102 (there is one object)
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "Invalid"

    def __reduce__(self) -> str:
        return "Invalid"

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return False


Invalid: Final = InvalidType()


class ConstFloat(float):
    """A float that is equal to another only when all bits are: 0.0 != -0.0 and NaN == NaN."""

    __slots__ = ()

    @property
    def bits(self) -> int:
        """The 64 bits of the value; every NaN has the same ones."""
        return _NAN_BITS if math.isnan(self) else int.from_bytes(struct.pack("<d", self), "little")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, float):
            return (float.__eq__(self, other) and bool(self)) or self.bits == ConstFloat(other).bits
        return float.__eq__(self, other)  # a pattern's integer 0 means every zero

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.bits)

    def __repr__(self) -> str:
        return float.__repr__(self)


_NAN_BITS = int.from_bytes(struct.pack("<d", math.nan), "little")

PyConst: TypeAlias = int | float | bool
ConstType: TypeAlias = int | float | bool | InvalidType


class DType:
    """An element type. Equal names are the same object, so `is` compares.

    priority orders promotion, itemsize is in bytes, fmt is the letter of `struct` (None where it
    has none).
    """

    __slots__ = ("fmt", "itemsize", "kind", "name", "priority")

    def __init__(self, priority: int, itemsize: int, name: str, fmt: str | None, kind: str) -> None:
        self.priority = priority
        self.itemsize = itemsize
        self.name = name
        self.fmt = fmt
        self.kind = kind  # one of: void bool sint uint float

    def __repr__(self) -> str:
        return f"dtypes.{_ALIAS.get(self.name, self.name)}"

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return _by_name, (self.name,)

    def __lt__(self, other: DType) -> bool:
        if not isinstance(other, DType):
            return NotImplemented
        return (self.priority, self.itemsize, self.name) < (
            other.priority,
            other.itemsize,
            other.name,
        )

    @property
    def bits(self) -> int:
        """Width in bits; a bool has one."""
        return 1 if self.kind == "bool" else self.itemsize * 8

    @property
    def base(self) -> DType:
        """The type itself: there are no vector types."""
        return self

    @property
    def scalar_name(self) -> str:
        """The name itself: there are no vector types."""
        return self.name

    @property
    def min(self) -> int | float | bool:
        """Smallest value: -inf for floats, unbounded weak integers count as 64-bit."""
        if self.kind == "float":
            return -math.inf
        if self.kind == "bool":
            return False
        return 0 if self.kind == "uint" else -(1 << (self.itemsize * 8 - 1))

    @property
    def max(self) -> int | float | bool:
        """Largest value: inf for floats, unbounded weak integers count as 64-bit."""
        if self.kind == "float":
            return math.inf
        if self.kind == "bool":
            return True
        return (1 << (self.itemsize * 8 - (self.kind == "sint"))) - 1

    @property
    def has_infinity(self) -> bool:
        """Whether some values are infinite; fp8 types but e5m2 have NaN alone."""
        return self.kind == "float" and float_layout(self).special == "ieee"

    @property
    def lowest(self) -> int | float | bool:
        """What no value of the type is less than: of floats without infinities the last one."""
        if self.kind != "float" or self.has_infinity:
            return self.min
        return -float_layout(self).largest

    def const(self, value: ConstType) -> ConstType:
        """A Python value as a constant of this type: floats as ConstFloat, integers as int."""
        return as_const(value, self)


_ALIAS = {
    "float32": "float",
    "float16": "half",
    "float64": "double",
    "int8": "char",
    "uint8": "uchar",
    "int16": "short",
    "uint16": "ushort",
    "int32": "int",
    "uint32": "uint",
    "int64": "long",
    "uint64": "ulong",
    "bfloat16": "bfloat16",
}


class _DTypes:
    """The table of element types; also the predicates over them."""

    def __getattr__(self, name: str) -> Any:
        near = closest(name, DTYPES_DICT)
        raise UnknownDTypeError(
            f"no dtype is called {name!r}", help=f"did you mean {near}?" if near else None
        )

    void: Final = DType(-1, 0, "void", None, "void")
    bool: Final = DType(0, 1, "bool", "?", "bool")
    weakint: Final = DType(1, 8, "weakint", None, "sint")
    int8: Final = DType(2, 1, "int8", "b", "sint")
    uint8: Final = DType(3, 1, "uint8", "B", "uint")
    int16: Final = DType(4, 2, "int16", "h", "sint")
    uint16: Final = DType(5, 2, "uint16", "H", "uint")
    int32: Final = DType(6, 4, "int32", "i", "sint")
    uint32: Final = DType(7, 4, "uint32", "I", "uint")
    int64: Final = DType(8, 8, "int64", "q", "sint")
    uint64: Final = DType(9, 8, "uint64", "Q", "uint")
    weakfloat: Final = DType(10, 8, "weakfloat", None, "float")
    fp8e4m3: Final = DType(11, 1, "fp8e4m3", None, "float")
    fp8e5m2: Final = DType(12, 1, "fp8e5m2", None, "float")
    fp8e4m3fnuz: Final = DType(13, 1, "fp8e4m3fnuz", None, "float")
    fp8e5m2fnuz: Final = DType(14, 1, "fp8e5m2fnuz", None, "float")
    float16: Final = DType(15, 2, "float16", "e", "float")
    bfloat16: Final = DType(16, 2, "bfloat16", None, "float")
    float32: Final = DType(17, 4, "float32", "f", "float")
    float64: Final = DType(18, 8, "float64", "d", "float")

    half, float, double = float16, float32, float64
    char, uchar, short, ushort = int8, uint8, int16, uint16
    int, uint, long, ulong = int32, uint32, int64, uint64

    fp8_ocp = (fp8e4m3, fp8e5m2)
    fp8_fnuz = (fp8e4m3fnuz, fp8e5m2fnuz)
    fp8s = fp8_ocp + fp8_fnuz
    floats = (*fp8s, float16, bfloat16, float32, float64)
    uints = (uint8, uint16, uint32, uint64)
    sints = (int8, int16, int32, int64)
    int8s, int16s, int32s, int64s = (
        (int8, uint8),
        (int16, uint16),
        (int32, uint32),
        (int64, uint64),
    )
    ints = uints + sints
    weaks = (weakint, weakfloat)
    all = (*floats, *ints, bool)

    @staticmethod
    def is_float(x: DType) -> builtins_bool:
        return x.kind == "float"

    @staticmethod
    def is_int(x: DType) -> builtins_bool:
        return x.kind in ("sint", "uint")

    @staticmethod
    def is_unsigned(x: DType) -> builtins_bool:
        return x.kind == "uint"

    @staticmethod
    def is_bool(x: DType) -> builtins_bool:
        return x.kind == "bool"

    @staticmethod
    def is_weak(x: DType) -> builtins_bool:
        return x is dtypes.weakint or x is dtypes.weakfloat

    @staticmethod
    def from_py(x: Any) -> DType:
        """The type of a Python value: bool, default int, default float; lists by their elements.

        Raises: DTypeError for a value that is none of these.
        """
        if x.__class__ is builtins_bool:
            return dtypes.bool
        if isinstance(x, builtins_float):
            return dtypes.default_float
        if isinstance(x, builtins_int):
            return dtypes.default_int
        if isinstance(x, list | tuple):
            return max((dtypes.from_py(v) for v in x), default=dtypes.default_float)
        raise DTypeError(
            f"Could not infer dtype of {x!r} with type {type(x).__name__}",
            help="pass a number, a bool or a nested list of them",
        )

    @staticmethod
    def finfo(dtype: DType) -> tuple[builtins_int, builtins_int]:
        """(exponent bits, mantissa bits) of a float type.

        Raises: DTypeError if dtype is no float type.
        """
        if dtype not in _FLOAT_LAYOUT:
            raise DTypeError(f"{dtype} is not a floating point type")
        layout = _FLOAT_LAYOUT[dtype]
        return layout.exponent, layout.mantissa

    @property
    def default_float(self) -> DType:
        return to_dtype(_default("DEFAULT_FLOAT", "float32"))

    @property
    def default_int(self) -> DType:
        return to_dtype(_default("DEFAULT_INT", "int32"))


builtins_bool: TypeAlias = bool
builtins_int: TypeAlias = int
builtins_float: TypeAlias = float
DTypes = _DTypes
dtypes: Final = _DTypes()

_FLOAT_LAYOUT: Final[dict[DType, FloatLayout]] = {
    dtypes.fp8e4m3: FloatLayout(4, 3, "fn"),
    dtypes.fp8e5m2: FloatLayout(5, 2),
    dtypes.fp8e4m3fnuz: FloatLayout(4, 3, "fnuz"),
    dtypes.fp8e5m2fnuz: FloatLayout(5, 2, "fnuz"),
    dtypes.float16: FloatLayout(5, 10),
    dtypes.bfloat16: FloatLayout(8, 7),
    dtypes.float32: FloatLayout(8, 23),
    dtypes.float64: FloatLayout(11, 52),
}

DTYPES_DICT: Final[dict[str, DType]] = {
    k: v for k, v in vars(_DTypes).items() if isinstance(v, DType) and k != "void"
}
INVERSE_DTYPES_DICT: Final[dict[str, str]] = {v.name: k for k, v in DTYPES_DICT.items()} | {
    "void": "void"
}
DTypeLike: TypeAlias = str | DType


def _by_name(name: str) -> DType:
    return dtypes.void if name == "void" else DTYPES_DICT[name]


def _default(setting: str, fallback: str) -> str:
    """A setting that names a dtype. Late, so that this module stands below the settings table."""
    from tinylab.helpers import context

    return str(getattr(context, setting).value or fallback)


def to_dtype(dtype: DTypeLike) -> DType:
    """A dtype from its name or from itself.

    Raises: AttributeError (as DTypeError) for an unknown name.
    """
    if isinstance(dtype, DType):
        return dtype
    found = DTYPES_DICT.get(str(dtype).lower())
    if found is None:
        raise DTypeError(
            f"unknown dtype {dtype!r}", help="the names are: " + ", ".join(sorted(DTYPES_DICT))
        )
    return found


# Each type, and the types just above it: the promotion lattice of JAX without its extra weak types.
promo_lattice: Final[dict[DType, tuple[DType, ...]]] = {
    dtypes.bool: (dtypes.weakint,),
    dtypes.weakint: (dtypes.int8, dtypes.uint8),
    dtypes.int8: (dtypes.int16,),
    dtypes.int16: (dtypes.int32,),
    dtypes.int32: (dtypes.int64,),
    dtypes.int64: (dtypes.weakfloat,),
    dtypes.uint8: (dtypes.int16, dtypes.uint16),
    dtypes.uint16: (dtypes.int32, dtypes.uint32),
    dtypes.uint32: (dtypes.int64, dtypes.uint64),
    dtypes.uint64: (dtypes.weakfloat,),
    dtypes.weakfloat: dtypes.fp8s,
    **dict.fromkeys(dtypes.fp8s, (dtypes.float16, dtypes.bfloat16)),
    dtypes.float16: (dtypes.float32,),
    dtypes.bfloat16: (dtypes.float32,),
    dtypes.float32: (dtypes.float64,),
    dtypes.float64: (),
}


@functools.cache
def _above(dtype: DType) -> frozenset[DType]:
    return frozenset({dtype}).union(*(_above(d) for d in promo_lattice[dtype]))


@functools.cache
def least_upper_dtype(*ds: DType) -> DType:
    """The lowest type that all the given ones promote to.

    int8, uint8 -> int16;  int64, float16 -> float16;  weakint, float32 -> float32
    """
    if not ds:
        raise DTypeError("least_upper_dtype needs a dtype")
    if len(ds) == 1:
        return ds[0]
    if dtypes.void in ds:
        raise DTypeError(f"void has no value to promote in {ds}")
    return min(frozenset.intersection(*(_above(d) for d in ds)))


def dtype_for_ints(*values: int) -> DType:
    """The default int, or int64 where one of the numbers is too large for that."""
    default = dtypes.default_int
    return default if default.min <= min(values) and max(values) <= default.max else dtypes.int64


@functools.cache
def least_upper_float(dt: DType) -> DType:
    """The type itself if it is a float; the default float otherwise (weak for weak integers)."""
    if dt.kind == "float":
        return dt
    if dt is dtypes.weakint:
        return dtypes.weakfloat
    return least_upper_dtype(dt, dtypes.default_float)


def strong_dtype(dtype: DType) -> DType:
    """A weak type's default; others as they are."""
    if dtype is dtypes.weakint:
        return dtypes.default_int
    return dtypes.default_float if dtype is dtypes.weakfloat else dtype


def weak_dtype(dtype: DType) -> DType:
    """The weak type of the same kind; bool stays bool."""
    if dtype.kind == "float":
        return dtypes.weakfloat
    return dtypes.weakint if dtypes.is_int(dtype) else dtype


def sum_acc_dtype(dt: DType) -> DType:
    """The type in which a sum of dt is accumulated: small integers in 32 bits, halves in float32.

    Wide types stay as they are.
    """
    if dt.kind == "uint":
        return least_upper_dtype(dt, dtypes.uint32)
    if dt.kind in ("sint", "bool"):
        return least_upper_dtype(dt, dtypes.int32)
    return least_upper_dtype(dt, to_dtype(_default("SUM_DTYPE", "float32")))


@functools.cache
def can_lossless_cast(dt0: DType, dt1: DType) -> bool:
    """Whether each value of dt0 is a value of dt1."""
    if dt0 is dt1 or dt0.kind == "bool":
        return True
    if dt1.kind == "bool":
        return False
    if dt1.kind == "float":
        wide, narrow = float_layout(dt1), float_layout(dt0) if dt0.kind == "float" else None
        if narrow is not None:
            return wide.holds(narrow)
        fits = float(dt0.max) <= wide.largest
        return dt0.itemsize * 8 - (dt0.kind == "sint") <= wide.mantissa + 1 and fits
    return dt0.kind != "float" and dt0.min >= dt1.min and dt0.max <= dt1.max


def float_layout(dtype: DType) -> FloatLayout:
    """How the bits of a float type are laid out; a weak float is a double."""
    return _FLOAT_LAYOUT[dtypes.float64 if dtype is dtypes.weakfloat else dtype]


def float_to_fp16(x: float) -> float:
    """X rounded to float16, as a Python float."""
    return _FLOAT_LAYOUT[dtypes.float16].round(x)


def float_to_bf16(x: float) -> float:
    """X rounded to bfloat16, as a Python float."""
    return _FLOAT_LAYOUT[dtypes.bfloat16].round(x)


def _to_float32(x: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def _wrap(bits: int, signed: bool) -> Callable[[Any], int]:
    mask, half = (1 << bits) - 1, 1 << (bits - 1)

    def wrap(value: Any) -> int:
        low = int(value) & mask
        return low - (mask + 1) if signed and low >= half else low

    return wrap


# A Python number to the nearest value of a type: integers wrap, floats round to nearest even.
truncate: Final[dict[DType, Callable[[Any], Any]]] = {
    dtypes.bool: bool,
    dtypes.weakint: int,
    dtypes.weakfloat: float,
    dtypes.float16: float_to_fp16,
    dtypes.bfloat16: float_to_bf16,
    dtypes.float32: _to_float32,
    dtypes.float64: float,
    **{d: _FLOAT_LAYOUT[d].round for d in dtypes.fp8s},
    **{d: _wrap(d.itemsize * 8, d.kind == "sint") for d in dtypes.ints},
}


def saturate(value: float, dtype: DType) -> int:
    """A float to an integer type: toward zero, held inside the type's range; NaN is 0."""
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return int(dtype.max if value > 0 else dtype.min)
    return int(max(dtype.min, min(dtype.max, int(value))))


def to_float(value: PyConst, dtype: DType) -> float:
    """A number as a double that rounds to the float type as the number itself does.

    An integer of more bits than a double has is rounded once, to the type: ties go to even there.
    """
    if isinstance(value, float) or abs(value) <= 1 << 53 or dtype is dtypes.weakfloat:
        return _as_double(value)
    extra = abs(value).bit_length() - (dtypes.finfo(dtype)[1] + 1)
    low = abs(value) & ((1 << extra) - 1)
    high = abs(value) >> extra
    half = 1 << (extra - 1)
    high += low > half or (low == half and high & 1)
    return _as_double(high << extra if value > 0 else -(high << extra))


def _as_double(value: PyConst) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def as_const(value: ConstType, dtype: DType) -> ConstType:
    """A Python value as it is stored in a CONST of the type: exact in the type.

    2.7, int32 -> 2;  300, uint8 -> 44;  1, float32 -> ConstFloat(1.0)
    """
    if value is Invalid:
        return value
    assert not isinstance(value, InvalidType), "Invalid is one object"
    if dtype.kind == "float":
        return ConstFloat(truncate[dtype](to_float(value, dtype)))
    if dtype.kind == "bool":
        return bool(value)
    if isinstance(value, float):
        return saturate(value, dtype)
    return int(truncate[dtype](value))


def float_to_fp8(x: float, dtype: DType) -> int:
    """The 8 bits of x rounded to an fp8 type."""
    return int(to_storage_scalar(x, dtype))


def fp8_to_float(x: int, dtype: DType) -> float:
    """The value of the 8 bits of an fp8 type."""
    return float(from_storage_scalar(x, dtype))


def to_storage_scalar(x: Any, dtype: DType) -> Any:
    """A value as it is packed with `storage_fmt_for_dtype`: the bits of types struct lacks."""
    if dtype is dtypes.bfloat16:
        return struct.unpack("<I", struct.pack("<f", float_to_bf16(x)))[0] >> 16
    if dtype in dtypes.fp8s:
        return _FLOAT_LAYOUT[dtype].pack(truncate[dtype](x))
    return x


def from_storage_scalar(x: Any, dtype: DType) -> Any:
    """The value of what was unpacked with `storage_fmt_for_dtype`."""
    if dtype is dtypes.bfloat16:
        return struct.unpack("<f", struct.pack("<I", x << 16))[0]
    if dtype in dtypes.fp8s:
        return _FLOAT_LAYOUT[dtype].unpack(x)
    return x


def storage_fmt_for_dtype(dtype: DType) -> str:
    """The struct letter in which a type is stored: itself, or the unsigned bits of its width."""
    if dtype is dtypes.bfloat16:
        return "H"
    if dtype in dtypes.fp8s:
        return "B"
    if dtype.fmt is None:
        raise DTypeError(f"cannot create storage for weak dtype {dtype}", help="cast it first")
    return dtype.fmt


def bitcast(x: Any, in_dtype: DType, out_dtype: DType) -> Any:
    """The bits of x read as another type of the same size."""
    packed = struct.pack("<" + storage_fmt_for_dtype(in_dtype), to_storage_scalar(x, in_dtype))
    (raw,) = struct.unpack("<" + storage_fmt_for_dtype(out_dtype), packed)
    return from_storage_scalar(raw, out_dtype)


explained_names(globals())
explained_methods(_DTypes)
