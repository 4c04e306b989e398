"""A tensor's schedule in the hand, and calls of bodies: what the engine does, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tinylab.engine.linear import deferred
from tinylab.errors import OperandError, ScheduleError
from tinylab.helpers.arguments import shown
from tinylab.schedule import callify
from tinylab.schedule.effects import is_write
from tinylab.tensor.held import live
from tinylab.tensor.sharding import TensorSharding
from tinylab.uop.ops import UOp

if TYPE_CHECKING:
    from typing import Self


class TensorScheduling(TensorSharding):
    """Methods that schedule without running, and that call bodies."""

    __slots__ = ()

    if TYPE_CHECKING:

        def realize(self, *lst: Self) -> Self:
            """Compute the values."""
            ...

    def linear_with_vars(self, *lst: Self) -> tuple[UOp, dict[str, int]]:
        """(the LINEAR of kernels that would compute these tensors, the values of variables).

        The tensors look at the memory that the kernels fill once `run_linear` has run; what is in
        memory already gives an empty LINEAR.
        """
        with deferred() as noted:
            self.realize(*lst)
        return noted.linear, noted.var_vals

    def schedule_linear(self, *lst: Self) -> UOp:
        """The LINEAR of kernels that would compute these tensors.

        Raises: ScheduleError where it depends on variables.
        """
        linear, var_vals = self.linear_with_vars(*lst)
        if var_vals:
            raise ScheduleError(
                f"the schedule depends on {sorted(var_vals)}", help="use linear_with_vars()"
            )
        return linear

    def as_param(self, slot: int) -> Self:
        """The numbered parameter that stands for this tensor in a body.

        Raises: OperandError for a number that is no int.
        """
        if not isinstance(slot, int):
            raise OperandError(f"as_param: slot is an int, not {shown(slot)}")
        return self._from_uop(self.uop.param_like(slot))

    def call(self, *lst: Self, fxn: Self | UOp, grad_fxn: Callable[..., Any] | None = None) -> Self:
        """The value of a body over PARAMs, called with this and other tensors as arguments 0, 1, ….

        fxn: the body's value, a tensor or a node; grad_fxn(grad, call) its own gradient.
        """
        body = fxn if isinstance(fxn, UOp) else fxn.uop
        call = body.call(self.uop, *(t.uop for t in lst), grad_fxn=grad_fxn)
        return self._from_uop(call.gettuple(0))

    def callify(self, *lst: Self) -> Self:
        """These tensors as results of one call whose body names its inputs by number.

        Writes that wait are done first: each run of the body would do them again.
        """
        nodes = UOp.sink(self.uop, *(t.uop for t in lst)).toposort(enter_calls=False)
        writes = [self._from_uop(x) for x in nodes if is_write(x)]
        if writes:
            writes[-1].realize(*writes[:-1])
        called = callify(UOp.maketuple(self.uop, *(t.uop for t in lst)))
        call = called.body.call(*called.inputs, name="callify")
        for n, t in enumerate((self, *lst)):
            t.uop = call.gettuple(n)
            live.changed(t)
        return self
