"""What a Tensor is: a node of the graph, and the primitives the language is written against."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tinylab.device import Device, canonicalize_device
from tinylab.dtype import (
    AddrSpace,
    ConstType,
    DType,
    DTypeLike,
    Invalid,
    InvalidType,
    dtypes,
    to_dtype,
)
from tinylab.errors import DTypeError, UnknownDeviceError
from tinylab.mixin import OpMixin
from tinylab.mixin.base import Shape, Size, shape_text
from tinylab.opcodes import AxisType, GroupOp, Ops
from tinylab.tensor.held import ANYTHING
from tinylab.uop.args import ReduceArg, StageArg, is_unit
from tinylab.uop.build import BuildMethods
from tinylab.uop.evaluate import convert, exec_alu
from tinylab.uop.infer import infer_dtype
from tinylab.uop.intern import make
from tinylab.uop.moves import settled
from tinylab.uop.ops import UOp, shape_to_shape_arg

if TYPE_CHECKING:
    from typing import Self


# The axis id of the loop in an iota; it never meets another loop.
_IOTA_AXIS = -7


class Move(NamedTuple):
    """A movement without what it moves."""

    op: Ops
    arg: Any
    rest: tuple[UOp, ...]  # further sources: sizes and places


class Path(NamedTuple):
    """How a view was taken: the steps, outermost first, and what that was, to where it began.

    shape, itemsize: of what it was taken of. further: how that was taken.
    """

    steps: tuple[Move | DType, ...]
    shape: Shape
    itemsize: int
    further: Path | None


class TensorCore(OpMixin):
    """A node of the graph with the primitives of the language."""

    __slots__ = (
        "__weakref__",
        "_marks",
        "_path",
        "_stands",
        "_view_of",
        "_views",
        "grad",
        "is_param",
        "uop",
    )

    uop: UOp
    grad: Any
    is_param: bool | None
    _view_of: tuple[Any, ...]  # `Link`s to those that a write into it reaches
    _views: dict[int, weakref.ref[Any]] | None
    _path: Path | None
    _stands: object  # at which content of its buffer: see `may_write`
    _marks: int  # see `mark_of`

    @classmethod
    def _from_uop(cls, uop: UOp) -> Self:
        """A tensor for a node, not yet known to anyone."""
        self = object.__new__(cls)
        self.uop, self.grad, self.is_param, self._marks = uop, None, None, ANYTHING
        self._view_of, self._views, self._path, self._stands = (), None, None, None
        return self

    # *** what it is

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """The element type."""
        return self.uop.dtype

    @property
    def shape(self) -> Shape:
        """The sizes."""
        return self.uop.shape

    @property
    def device(self) -> str | tuple[str, ...]:
        """Where the value is, or will be worked out."""
        return self.uop.device or Device.DEFAULT

    # *** primitives

    @classmethod
    def const(cls, b: ConstType, dtype: DType | None = None) -> Self:
        """A number of shape (); weak where no dtype is given."""
        if dtype is not None and not isinstance(b, InvalidType):
            b = convert(b, dtype)
        return cls._from_uop(UOp.const(b, dtype))

    @classmethod
    def _iota(cls, size: Size, dtype: DType) -> Self:
        """(size,) 0, 1, 2, …: a value stored over its own loop, which no one stores."""
        if isinstance(size, int) and size <= 1:
            return cls.const(0, dtype)._broadcast_to((max(size, 0),))
        loop = UOp.range(size, _IOTA_AXIS, AxisType.WEAK)
        place = loop.cast(dtype) if dtype is not dtypes.weakint else loop
        return cls._from_uop(place.stage(loop, arg=StageArg(None, AddrSpace.GLOBAL, True, "iota")))

    def alu(self, op: Ops, *src: Self) -> Self:
        """An elementwise operation on this and other tensors of one type; constants are folded."""
        srcs = [self.uop, *(s.uop for s in src)]
        known = [s.src[0] if s.op is Ops.DETACH else s for s in srcs]
        if all(s.op is Ops.CONST for s in known) and all(s.arg is not Invalid for s in known):
            dtype = infer_dtype(op, tuple(srcs), None)
            value = exec_alu(op, dtype, [s.arg for s in known])
            return self._from_uop(UOp.const(value, dtype))
        return self._from_uop(srcs[0].alu(op, *srcs[1:]))

    def cast(self, dtype: DTypeLike) -> Self:
        """The values in another element type.

        Floats round, integers wrap, floats out of an integer's range saturate.

        Raises: UnknownDTypeError for a name that no type has.
        """
        wanted = to_dtype(dtype)
        if self.uop.dtype is wanted:
            return self
        if self.uop.op is Ops.CONST:
            return self.const(self.uop.arg, wanted)
        return self._from_uop(self.uop.cast(wanted))

    def bitcast(self, dtype: DTypeLike) -> Self:
        """The bits read as another element type; the last axis takes up a change of size.

        They are a view: a write into them reaches this tensor.

        Raises: DTypeError when the last axis is no multiple.
        """
        wanted = to_dtype(dtype)
        if wanted is self.dtype:
            return self
        old, new = self.dtype.itemsize, wanted.itemsize
        if old == new:
            return self._from_uop(self.uop.bitcast(wanted))
        if not self.shape or self.shape[-1] * old % new:
            raise DTypeError(
                f"unsupported size in bitcast of {shape_text(self.shape)} {self.dtype} to {wanted}",
                help="the bytes of the last axis must be a multiple of the new size",
            )
        return _resized_bits(self, wanted)

    def detach(self) -> Self:
        """The same value, where gradients stop: a view, through which this tensor is written."""
        return self._from_uop(self.uop.f(Ops.DETACH))

    def contiguous(self, **kwargs: Any) -> Self:
        """The same value, stored in one piece.

        Of what is contiguous already (the whole of a tensor, rows of it) it is a view, as in
        PyTorch: a write into it reaches this tensor. A snapshot is `clone`.
        """
        if self.uop.op is Ops.CONTIGUOUS or self.uop.has_buffer_identity(after_ok=True):
            return self
        if dtypes.is_weak(self.dtype):
            return self
        return self._from_uop(self.uop.f(Ops.CONTIGUOUS))

    def contiguous_backward(self) -> Self:
        """The same value, whose gradient is stored in one piece."""
        return self._from_uop(self.uop.f(Ops.CONTIGUOUS_BACKWARD))

    def _mop(self, op: Ops, arg: tuple[Any, ...]) -> Self:
        return self._from_uop(_MOVES[op](self.uop, arg))

    def _rop(self, op: Ops, axes: tuple[int, ...]) -> Self:
        """A reduction: the axes move to the front and vanish; sizes of 1 are only dropped."""
        shape = self.shape
        real = [a for a in sorted(axes) if not is_unit(shape[a])]
        small = [a for a in axes if a not in real]
        kept = [a for a in range(self.ndim) if a not in axes]
        x = self.uop._permute((*real, *small, *kept))
        if small:
            x = _reshape(x, tuple(shape[a] for a in (*real, *kept)))
        if real:
            x = make(Ops.REDUCE, x.dtype, (x,), ReduceArg(op, len(real)))
        return self._from_uop(x)


_WORDS = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}
T = TypeVar("T", bound=TensorCore)


def _resized_bits(x: T, wanted: DType) -> T:
    """Bits read in larger or smaller pieces, the low ones first."""
    old, new = x.dtype.itemsize, wanted.itemsize
    words, pieces = x.bitcast(_WORDS[old]), max(old, new) // min(old, new)
    wide = _WORDS[max(old, new)]
    shifts = x._iota(pieces, wide) * (8 * min(old, new))
    if new < old:
        parts = (words.unsqueeze(-1) >> shifts).cast(_WORDS[new])
        return parts.reshape((*x.shape[:-1], x.shape[-1] * pieces)).bitcast(wanted)
    parts = words.reshape((*x.shape[:-1], x.shape[-1] // pieces, pieces)).cast(wide) << shifts
    return parts._rop(Ops.ADD, (parts.ndim - 1,)).bitcast(wanted)


def _reshape(x: UOp, shape: Shape) -> UOp:
    """A RESHAPE of its own: the node below stays in the graph, as a tensor may be that node."""
    return make(Ops.RESHAPE, x.dtype, (x, shape_to_shape_arg(settled(shape))))


def _pad(x: UOp, pads: tuple[tuple[Size, Size], ...]) -> UOp:
    return x._mop(Ops.PAD, pads)


def _shrink(x: UOp, box: tuple[tuple[Size, Size], ...]) -> UOp:
    return x._mop(Ops.SHRINK, box)


def _expand(x: UOp, sizes: Shape) -> UOp:
    return x._mop(Ops.EXPAND, sizes)


_MOVES: dict[Ops, Any] = {
    Ops.RESHAPE: _reshape,
    Ops.PERMUTE: BuildMethods._permute,
    Ops.EXPAND: _expand,
    Ops.FLIP: BuildMethods._flip,
    Ops.PAD: _pad,
    Ops.SHRINK: _shrink,
}
assert set(_MOVES) == GroupOp.Movement, "a movement without its constructor"


def canonical(device: Any) -> Any:
    """A device's one spelling, or a tuple of them; None is the default one.

    Raises: UnknownDeviceError for none, and with the nearest right name for one there is not.
    """
    place = canonicalize_device(device)
    if place == ():
        raise UnknownDeviceError("a tensor is on one device or more, not on ()", help="name one")
    for name in (place,) if isinstance(place, str) else place:
        Device.kind(name)
    return place
