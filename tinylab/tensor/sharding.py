"""Tensors on several devices: cut along an axis, or one copy on each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tinylab.dtype import strong_dtype
from tinylab.errors import ShardError
from tinylab.tensor import disk
from tinylab.tensor.core import canonical
from tinylab.tensor.held import ANYTHING
from tinylab.tensor.interchange import TensorInterchange
from tinylab.tensor.sharing import become
from tinylab.tensor.writing import stored_copy
from tinylab.uop.ops import UOp

if TYPE_CHECKING:
    from typing import Self


class TensorSharding(TensorInterchange):
    """Methods that spread a tensor over devices."""

    __slots__ = ()

    def shard(self, devices: Sequence[str], axis: int | None = None) -> Self:
        """This tensor on several devices: equal parts of an axis, or a copy on each.

        (8, 3).shard(("CPU", "CPU:1"), axis=0)  ->  (8, 3), of which each device holds (4, 3)

        Raises: ShardError for a tensor that is on several already, an axis that does not divide
        by their number, and devices that are no tuple or list.
        """
        if not isinstance(devices, (tuple, list)):
            raise ShardError(
                f"shard takes a tuple of devices, not {devices!r}",
                help="shard(('CPU', 'CPU:1'), axis=0) cuts, .to('CPU:1') moves the whole",
            )
        if not devices:
            raise ShardError("shard over no devices", help="name one or more: ('CPU', 'CPU:1')")
        names = canonical(tuple(devices))
        if isinstance(names, str):
            moved: Self = self.to(names)
            return moved
        cut = None if axis is None else self._axis(axis)
        found = self._from_uop(self._sharded(names, cut))
        found.is_param = self.is_param
        if self.grad is not None:
            found.grad = self.grad.shard(devices, axis)
        return found

    def _sharded(self, devices: Sequence[str], axis: int | None) -> UOp:
        source = self.cast(strong_dtype(self.dtype))
        if disk.on_disk(source.device):
            source = source.to(devices[0])
        if source.uop.device is None:
            return stored_copy(source.uop, devices, axis)
        return source.uop.shard(tuple(devices), axis)

    def shard_(self, devices: Sequence[str], axis: int | None = None) -> Self:
        """Spread this tensor over several devices; see `shard`."""
        found = self.shard(devices, axis)
        become(self, found)
        self.grad, self._marks = found.grad, ANYTHING
        return self

    def shard_like(self, y: Self) -> Self:
        """This tensor where another one is, cut as that one is.

        Raises: ShardError where it is on several devices in another way.
        """
        if isinstance(y.device, str):
            moved: Self = self.to(y.device)
            return moved
        if self.device == y.device and self.uop.axis == y.uop.axis:
            return self
        return self.shard(y.device, y.uop.axis)
