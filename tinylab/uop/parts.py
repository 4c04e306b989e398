"""Methods that take a node apart or name what it is: text, order, sizes, devices, addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinylab.dtype import dtypes
from tinylab.errors import ContractError, ShardError
from tinylab.mixin.base import shape_text
from tinylab.opcodes import Ops
from tinylab.uop.above import AboveMethods
from tinylab.uop.args import StageArg, WmmaArg
from tinylab.uop.build import BuildMethods, numbers
from tinylab.uop.intern import make

if TYPE_CHECKING:
    from tinylab.uop.node import UOp


class PartMethods(AboveMethods):
    """What a node is made of, and nodes of one kind made of it."""

    __slots__ = ()

    unique_num = numbers

    def argstr(self: UOp) -> str:
        """The argument as text."""
        return repr(self.arg)

    def tagstr(self: UOp) -> str:
        """The tag as `repr` shows it; empty without one."""
        return "" if self.tag is None else f", tag={self.tag}"

    @property
    def tuplize(self: UOp) -> tuple[Any, ...]:
        """What nodes are ordered by: number of the op, argument, dtype, then the sources'."""
        found: dict[UOp, tuple[Any, ...]] = {}
        for x in self.toposort():
            found[x] = (x.op.value, x.arg, x.dtype, *(found[s] for s in x.src))
        return found[self]

    @property
    def as_shape(self: UOp) -> tuple[Any, ...]:
        """The sizes that a shape node holds: numbers where they are known, else expressions.

        UOp.stack(c2, n) -> (2, n)
        """
        items = self.src if self.op is Ops.STACK else (self,)
        return tuple(s.arg if s.op is Ops.CONST else s for s in items)

    @property
    def bool_slice(self: UOp) -> frozenset[UOp]:
        """The truth values among this node and those below it."""
        return frozenset(x for x in self.toposort() if x.dtype is dtypes.bool)

    @property
    def is_virtual(self: UOp) -> bool:
        """Whether this value is on no device: it is worked out by who reads it."""
        return self.device is None

    @property
    def trace_num(self: UOp) -> int:
        """Numbers of nodes in tinygrad's viewer.

        Raises: ContractError always.
        """
        raise ContractError(
            "a node has no number in a trace of its own here",
            help="record() numbers what it saw: for kernel in record.kernels",
        )

    def vconst_like(self: UOp, b: Any) -> UOp:
        """A constant for each element, as one STACK; for a scalar the constant itself."""
        one = BuildMethods.const(b, self.dtype)
        return one if self._shape in (None, ()) else BuildMethods.stack(*[one] * self.numel())

    def bufferize(self: UOp, *args: UOp, arg: StageArg | None = None) -> UOp:
        """This value, stored over ranges (STAGE).

        Raises: ContractError for an argument that is no BufferizeOpts.
        """
        if arg is not None and not isinstance(arg, StageArg):
            raise ContractError(
                f"bufferize takes arg=BufferizeOpts(device), not {arg!r}",
                help="from tinygrad.schedule.rangeify import BufferizeOpts",
            )
        return self.stage(*args, arg=arg if arg is not None else StageArg(self.device))

    def mselect(self: UOp, arg: int) -> UOp:
        """What one of the devices of a value holds.

        Raises: ShardError for a value on one device, one that is cut, or a number of no device.
        """
        places = self.device
        if not isinstance(places, tuple):
            raise ShardError(
                f"mselect picks from a value on several devices, and this one is on {places}",
                help="shard it: x.shard(devices)",
            )
        if self.axis is not None:
            raise ShardError(
                f"mselect picks one of equal copies, and this value is cut along axis {self.axis}",
                help="realized, its parts stand below: x.unsharded_base.mselect(0)",
            )
        if not isinstance(arg, int) or not 0 <= arg < len(places):
            raise ShardError(f"mselect: {arg!r} is none of 0 to {len(places) - 1}")
        return make(Ops.MSELECT, self.dtype, (self,), arg)

    def mstack(self: UOp, *srcs: UOp) -> UOp:
        """Values of one shape, each on a device of its own, as one value on all of them.

        Raises: ShardError for another shape or type, or a value that is not on one device.
        """
        if not srcs:
            return self
        parts = (self, *srcs)
        places = {s.device for s in parts if isinstance(s.device, str)}
        kinds = {(s.dtype, s.shape) for s in parts}
        if len(kinds) > 1 or len(places) < len(parts):
            raise ShardError(
                "mstack joins values of one shape and type, each on a device of its own, not "
                + ", ".join(f"{s.dtype} {shape_text(s.shape)} on {s.device}" for s in parts)
            )
        return make(Ops.MSTACK, self.dtype, parts)

    def getaddr(self: UOp, device: str | None = None) -> UOp:
        """Where in memory a stored value begins, as a uint64.

        Raises: ContractError for a value that has no storage.
        """
        place = device if device is not None else self.buf_uop.device
        return make(Ops.GETADDR, dtypes.uint64, (self,), place)

    @staticmethod
    def wmma(
        a: UOp,
        b: UOp,
        acc: UOp,
        dims: tuple[int, int, int],
        device: str,
        threads: int,
        tc_upcast_axes: Any = None,
    ) -> UOp:
        """a·b + acc of a tensor core, dims (N, M, K): a node, which no target here lowers yet."""
        arg = WmmaArg(dims, a.dtype, device, threads, tc_upcast_axes)
        return make(Ops.WMMA, acc.dtype, (a, b, acc), arg)
