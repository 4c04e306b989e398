"""Values of one number in a shape, as expressions: they need no storage and no device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinylab.dtype import DTypeLike, dtypes, strong_dtype, to_dtype
from tinylab.errors import CreationError
from tinylab.helpers.arguments import shown
from tinylab.mixin.base import Sizes, as_shape
from tinylab.mixin.random import check_sizes
from tinylab.opcodes import Ops
from tinylab.uop.build import BuildMethods
from tinylab.uop.intern import make

if TYPE_CHECKING:
    from tinylab.uop.node import UOp


class FilledMethods(BuildMethods):
    """`zeros`, `ones`, `full` and their like; a Tensor's have storage, these are constants."""

    __slots__ = ()

    @staticmethod
    def full(
        shape: Sizes, fill_value: Any, dtype: DTypeLike | None = None, device: Any = None
    ) -> UOp:
        """One number everywhere; on a device if one is named.

        UOp.full((2, 3), 7) -> (2, 3) int32

        Raises: CreationError for a negative size, or a value that is no number.
        """
        sizes = check_sizes(as_shape((shape,) if not isinstance(shape, (tuple, list)) else shape))
        if not (isinstance(fill_value, (bool, int, float)) or hasattr(fill_value, "src")):
            raise CreationError(f"a value is filled with a number, not {shown(fill_value)}")
        value = BuildMethods.const(fill_value)
        value = value.cast(to_dtype(dtype) if dtype is not None else strong_dtype(value.dtype))
        spread = value._expand_front(sizes)
        return spread if device is None else spread.copy_to_device(device)

    @staticmethod
    def zeros(*shape: Sizes, dtype: DTypeLike | None = None, device: Any = None) -> UOp:
        """Zeros."""
        return FilledMethods.full(as_shape(shape), 0, dtype or dtypes.default_float, device)

    @staticmethod
    def ones(*shape: Sizes, dtype: DTypeLike | None = None, device: Any = None) -> UOp:
        """Ones."""
        return FilledMethods.full(as_shape(shape), 1, dtype or dtypes.default_float, device)

    def full_like(
        self: UOp, fill_value: Any, dtype: DTypeLike | None = None, device: Any = None
    ) -> UOp:
        """One number in this value's shape and type."""
        own = to_dtype(dtype) if dtype is not None else self.dtype
        return FilledMethods.full(self.shape, fill_value, strong_dtype(own), device)

    def zeros_like(self: UOp, **kwargs: Any) -> UOp:
        """Zeros in this value's shape and type."""
        return self.full_like(0, **kwargs)

    def ones_like(self: UOp, **kwargs: Any) -> UOp:
        """Ones in this value's shape and type."""
        return self.full_like(1, **kwargs)

    def clone(self: UOp, device: Any = None) -> UOp:
        """The value in storage of its own, here or on another device."""
        if device is not None and device != self.device:
            return self.copy_to_device(device)
        return make(Ops.CONTIGUOUS, self.dtype, (self,))
