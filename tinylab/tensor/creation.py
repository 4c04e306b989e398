"""Tensors from a shape: filled storage, empty storage, and their like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinylab.dtype import ConstType, DType, DTypeLike, dtypes, strong_dtype, to_dtype
from tinylab.errors import CreationError
from tinylab.helpers.arguments import shown
from tinylab.mixin.base import Sizes, as_shape
from tinylab.mixin.random import check_sizes
from tinylab.tensor.core import TensorCore, canonical
from tinylab.tensor.data import check_fits, dtype_of_ints, empty_uop
from tinylab.tensor.writing import stored_copy
from tinylab.uop.ops import UOp

if TYPE_CHECKING:
    from typing import Self


class TensorCreation(TensorCore):
    """Constructors that take a shape, a type and a device."""

    __slots__ = ()

    @classmethod
    def empty(cls, *shape: Sizes, device: Any = None, dtype: DTypeLike | None = None) -> Self:
        """Storage that is not filled: what is in it is undefined.

        empty(2, 3) or empty((2, 3))

        Raises: CreationError for a negative size.
        """
        sizes = check_sizes(as_shape(shape))
        own = to_dtype(dtype) if dtype is not None else dtypes.default_float
        return cls._from_uop(empty_uop(sizes, own, canonical(device)))

    @classmethod
    def invalids(cls, *shape: Sizes, device: Any = None, dtype: DTypeLike | None = None) -> Self:
        """As `empty`: values that must not be read before they are written."""
        return cls.empty(*shape, device=device, dtype=dtype)

    @classmethod
    def full(
        cls,
        shape: Sizes,
        fill_value: Any,
        dtype: DTypeLike | None = None,
        device: Any = None,
        buffer: bool = True,
    ) -> Self:
        """One number everywhere, in storage of its own; buffer=False leaves it a constant.

        full((2, 3), 7) -> int32 (2, 3)

        Raises: CreationError for a negative size.
        """
        sizes = check_sizes(as_shape((shape,) if not isinstance(shape, (tuple, list)) else shape))
        value = cls._fill(fill_value, dtype)
        spread = value._broadcast_to(sizes)
        if not buffer:
            return spread
        return cls._from_uop(stored_copy(spread.uop, canonical(device)))

    @classmethod
    def _fill(cls, fill_value: Any, dtype: DTypeLike | None) -> Self:
        number = fill_value
        if getattr(fill_value, "shape", None) == () and hasattr(fill_value, "__array_interface__"):
            number = fill_value.item()  # of numpy's
        if isinstance(fill_value, UOp):
            value = cls._from_uop(fill_value)
        elif isinstance(fill_value, TensorCore):
            value = cls._from_uop(fill_value.uop)
        elif isinstance(number, (bool, int, float)):
            value = cls.const(number)
        else:
            raise CreationError(f"a tensor cannot be filled with {shown(fill_value)}")
        own = to_dtype(dtype) if dtype is not None else strong_dtype(value.dtype)
        if isinstance(number, int):
            own = dtype_of_ints((number,)) if dtype is None and value.dtype.kind != "bool" else own
            check_fits(number, own)
        return value.cast(own)

    @classmethod
    def zeros(cls, *shape: Sizes, **kwargs: Any) -> Self:
        """Zeros; takes dtype, device and buffer as `full` does."""
        return cls.full(as_shape(shape), 0.0, **_with_float(kwargs))

    @classmethod
    def ones(cls, *shape: Sizes, **kwargs: Any) -> Self:
        """Ones; takes dtype, device and buffer as `full` does."""
        return cls.full(as_shape(shape), 1.0, **_with_float(kwargs))

    def full_like(
        self,
        fill_value: ConstType,
        dtype: DTypeLike | None = None,
        device: Any = None,
        buffer: bool = True,
    ) -> Self:
        """One number in this tensor's shape, type and device."""
        own: DType = to_dtype(dtype) if dtype is not None else self.dtype
        if isinstance(self.device, tuple) and device is None and buffer:
            spread = self._fill(fill_value, strong_dtype(own))._broadcast_to(self.shape)
            return self._from_uop(stored_copy(spread.uop, self.device, self.uop.axis))
        place = device if device is not None else self.device
        return self.full(self.shape, fill_value, strong_dtype(own), place, buffer)

    def zeros_like(self, **kwargs: Any) -> Self:
        """Zeros in this tensor's shape, type and device."""
        return self.full_like(0, **kwargs)

    def ones_like(self, **kwargs: Any) -> Self:
        """Ones in this tensor's shape, type and device."""
        return self.full_like(1, **kwargs)

    def empty_like(self, dtype: DTypeLike | None = None, device: Any = None) -> Self:
        """Storage that is not filled, in this tensor's shape, type and device."""
        own = to_dtype(dtype) if dtype is not None else strong_dtype(self.dtype)
        if isinstance(self.device, tuple) and device is None:
            return self._from_uop(empty_uop(self.shape, own, self.device, self.uop.axis))
        place = device if device is not None else self.device
        return self.empty(*self.shape, dtype=own, device=place)


def _with_float(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**kwargs, "dtype": kwargs.get("dtype") or dtypes.default_float}
