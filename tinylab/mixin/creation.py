"""Values from nothing but a shape: ranges, identities, grids, masks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinylab.dtype import ConstType, DType, DTypeLike, dtype_for_ints, dtypes, to_dtype
from tinylab.errors import CreationError, OperandError, ShapeError
from tinylab.mixin.base import Number, Size, shape_text
from tinylab.mixin.padding import PaddingMixin

if TYPE_CHECKING:
    from typing import Self


class CreationMixin(PaddingMixin):
    """Values that need no data; they are worked out where they are used."""

    __slots__ = ()

    def const_like(self, b: ConstType, dtype: Any = None) -> Self:
        """A number in this value's shape, and in its type unless another is given."""
        return self.const(b, to_dtype(dtype) if dtype is not None else self.dtype)._broadcast_to(
            self.shape
        )

    @classmethod
    def arange(
        cls,
        start: Number,
        stop: Number | None = None,
        step: Number = 1,
        dtype: DTypeLike | None = None,
    ) -> Self:
        """Numbers from start (0 if only one is given) up to, not including, stop.

        arange(3) -> [0, 1, 2];  arange(5, 10, 2) -> [5, 7, 9];  arange(5.5) -> six floats

        Whole numbers beyond the default int are int64.

        Raises: OperandError when step is 0, or a number is infinite or NaN; CreationError for a
        type without room for the first or last number, and for bools.
        """
        if stop is None:
            start, stop = 0, start
        if step == 0:
            raise OperandError("arange: step must not be 0")
        if any(isinstance(x, float) and not math.isfinite(x) for x in (start, stop, step)):
            raise OperandError(f"arange: {start=}, {stop=} and {step=} must be finite")
        count = _count(start, stop, step)
        own = _range_dtype(start, stop, step, count) if dtype is None else to_dtype(dtype)
        if own.kind == "float":
            places = cls._iota(count, dtypes.default_int).cast(own)
            return places * step + start if (step, start) != (1, 0) else places
        if any(isinstance(x, float) for x in (start, step)):
            return cls.arange(start, stop, step, dtypes.float32).cast(own)
        _check_room(start, step, count, own)
        places = cls._iota(count, own)
        return places if (step, start) == (1, 0) else (places * step + start).cast(own)

    @classmethod
    def linspace(
        cls, start: float, stop: float, steps: int, dtype: DTypeLike | None = None
    ) -> Self:
        """Evenly spaced numbers from start to stop, both included.

        linspace(0, 1, 3) -> [0.0, 0.5, 1.0]

        Raises: CreationError for a negative number of steps or a bool type.
        """
        dtype = to_dtype(dtype if dtype is not None else dtypes.default_float)
        if steps < 0:
            raise CreationError(f"linspace: number of steps must be non-negative, not {steps}")
        if dtype is dtypes.bool:
            raise CreationError("linspace: linspace with bool dtype is not supported")
        if steps == 1:
            return cls.const(start, dtype).reshape(1)
        wide = dtype if dtype.kind == "float" and dtype.itemsize >= 4 else dtypes.float32
        places = cls._iota(steps, dtypes.default_int)
        step = (stop - start) / max(steps - 1, 1)
        # From both ends, so that the last number is stop itself.
        up = places.cast(wide) * step + start
        down = (steps - 1 - places).cast(wide) * -step + stop
        return (places * 2 < steps).where(up, down).cast(dtype)

    @classmethod
    def eye(cls, n: int, m: int | None = None, dtype: DTypeLike | None = None) -> Self:
        """Ones on the diagonal, zeros elsewhere; n rows and m (or n) columns.

        Raises: CreationError for a negative size.
        """
        columns = n if m is None else m
        if n < 0 or columns < 0:
            raise CreationError(f"eye: cannot have negative sizes {n}, {columns}")
        rows = cls._iota(n, dtypes.default_int).reshape((n, 1))
        places = cls._iota(columns, dtypes.default_int).reshape((1, columns))
        return rows.eq(places).cast(dtype if dtype is not None else dtypes.default_float)

    @classmethod
    def _tri(cls, rows: Size, columns: Size, diagonal: Size) -> Self:
        """Where column - row >= diagonal."""
        row = cls._iota(rows, dtypes.default_int).reshape((rows, 1))
        column = cls._iota(columns, dtypes.default_int).reshape((1, columns))
        return column.ge(row + diagonal)

    def triu(self, diagonal: Size = 0) -> Self:
        """The part of each matrix on and above a diagonal; zeros below."""
        return self._tri(*self._matrix("triu"), diagonal).where(self, self.const(0, self.dtype))

    def tril(self, diagonal: Size = 0) -> Self:
        """The part of each matrix on and below a diagonal; zeros above."""
        return self._tri(*self._matrix("tril"), diagonal + 1).where(self.const(0, self.dtype), self)

    def _matrix(self, what: str) -> tuple[Size, Size]:
        """The sizes of the last two axes.

        Raises: ShapeError where there are fewer.
        """
        if self.ndim < 2:
            raise ShapeError(f"{what} needs two axes, not shape {shape_text(self.shape)}")
        return self.shape[-2], self.shape[-1]


def _count(start: Any, stop: Any, step: Any) -> Any:
    """How many numbers there are; an expression where one of them is symbolic."""
    if any(not isinstance(x, (int, float)) for x in (start, stop, step)):
        return (stop - start) // step
    if any(isinstance(x, float) for x in (start, stop, step)):
        return max(math.ceil((stop - start) / step), 0)
    return max(-(-(stop - start) // step), 0)


def _ends(start: Any, step: Any, count: Any) -> tuple[int, int] | None:
    """The first and last of whole numbers; None where that is not known, or there are none."""
    if not all(isinstance(x, int) for x in (start, step, count)) or count == 0:
        return None
    return start, start + (count - 1) * step


def _range_dtype(start: Any, stop: Any, step: Any, count: Any) -> DType:
    if any(isinstance(x, float) for x in (start, stop, step)):
        return dtypes.default_float
    ends = _ends(start, step, count)
    return dtypes.default_int if ends is None else dtype_for_ints(*ends)


def _check_room(start: Any, step: Any, count: Any, dtype: DType) -> None:
    ends = _ends(start, step, count)
    if ends is None or (dtype.min <= min(ends) and max(ends) <= dtype.max):
        return
    raise CreationError(
        f"arange: {dtype} has no room for the numbers from {ends[0]} to {ends[1]}",
        help=f"it holds those from {dtype.min} to {dtype.max}; cast() wraps",
    )
