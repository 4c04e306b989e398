"""Short names of element types, as methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinylab.dtype import dtypes
from tinylab.mixin.base import Primitives

if TYPE_CHECKING:
    from typing import Self


class CastsMixin(Primitives):
    """`x.half()` for `x.cast(dtypes.half)`, and the like."""

    __slots__ = ()

    def bool(self) -> Self:
        """Cast to bool."""
        return self.cast(dtypes.bool)

    def short(self) -> Self:
        """Cast to int16."""
        return self.cast(dtypes.int16)

    def int(self) -> Self:
        """Cast to int32."""
        return self.cast(dtypes.int32)

    def long(self) -> Self:
        """Cast to int64."""
        return self.cast(dtypes.int64)

    def half(self) -> Self:
        """Cast to float16."""
        return self.cast(dtypes.float16)

    def bfloat16(self) -> Self:
        """Cast to bfloat16."""
        return self.cast(dtypes.bfloat16)

    def float(self) -> Self:
        """Cast to float32."""
        return self.cast(dtypes.float32)

    def double(self) -> Self:
        """Cast to float64."""
        return self.cast(dtypes.float64)
