"""Methods of nodes that need what stands above the graph: storage, numbers, derivatives.

They are answered by the tensor, or the part of the compiler, that does the work; it is found by
name when first asked.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tinylab.errors import ContractError
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.filled import FilledMethods

if TYPE_CHECKING:
    from tinylab.uop.node import UOp


def _tensors() -> Any:
    return importlib.import_module("tinylab.tensor").Tensor


class AboveMethods(FilledMethods):
    """What a Tensor does too, for a node: its result is a node."""

    __slots__ = ()

    @staticmethod
    def empty(*shape: Any, device: Any = None, dtype: Any = None) -> UOp:
        """Storage that is not filled; see `Tensor.empty`."""
        found: UOp = _tensors().empty(*shape, device=device, dtype=dtype).uop
        return found

    @staticmethod
    def invalids(*shape: Any, device: Any = None, dtype: Any = None) -> UOp:
        """As `empty`: values that must not be read before they are written."""
        return AboveMethods.empty(*shape, device=device, dtype=dtype)

    def empty_like(self: UOp, dtype: Any = None, device: Any = None) -> UOp:
        """Storage that is not filled, in this value's shape, type and place."""
        found: UOp = _tensors()._from_uop(self).empty_like(dtype=dtype, device=device).uop
        return found

    @staticmethod
    def rand(*shape: Any, device: Any = None, dtype: Any = None, contiguous: bool = True) -> UOp:
        """Random numbers come of a stream that tensors draw from; a node may be read at any time.

        Raises: ContractError always.
        """
        raise ContractError(
            "only tensors draw random numbers", help="of a tensor take the node: Tensor.rand(3).uop"
        )

    @staticmethod
    def _random_words(num: int, device: Any) -> UOp:
        return AboveMethods.rand(num)

    def _drawn_like(self: UOp, draw: Any, kwargs: dict[str, Any]) -> UOp:
        return AboveMethods.rand(*self.shape)

    def data(self: UOp) -> memoryview:
        """The computed values as memory; see `Tensor.data`."""
        found: memoryview = _tensors()._from_uop(self).data()
        return found

    def item(self: UOp) -> Any:
        """The one computed value as a Python number; see `Tensor.item`."""
        return _tensors()._from_uop(self).item()

    def gradient(self: UOp, *targets: UOp, gradient: UOp | None = None) -> list[UOp]:
        """The derivatives with respect to nodes; see `Tensor.gradient`.

        (x * x).sum().gradient(x) -> [2 * x]
        """
        wrap = _tensors()._from_uop
        given = None if gradient is None else wrap(gradient)
        found = wrap(self).gradient(*map(wrap, targets), gradient=given)
        return [t.uop for t in found]

    def contiguous_view(self: UOp) -> tuple[UOp, int] | None:
        """The value below movements, and where in it this one begins, if it is one piece of it.

        x[1:3] -> (x, 1); x.flip(0) -> None
        """
        view = self
        while view.op is Ops.BITCAST:
            view = view.src[0]
        base = view
        while base.op in GroupOp.Movement and base.op is not Ops.PAD:
            base = base.src[0]
        if base is view or base.op is Ops.PAD:
            return None if base.op is Ops.PAD else (base, 0)
        rules = importlib.import_module("tinylab.schedule.views")
        offset = rules.contiguous_view_offset(view, {base})
        return None if offset is None else (base, offset)

    def contiguous_view_offset(self: UOp) -> int | None:
        """Where this value begins in the one below movements; None where it is no piece of it."""
        found = self.contiguous_view()
        return None if found is None else found[1]

    def to_elf(self: UOp) -> Any:
        """The compiled PROGRAM with its name and arguments, as a device loads it.

        Raises: ContractError for another node, or a program that is not compiled yet.
        """
        if self.op is not Ops.PROGRAM or self.src[-1].op is not Ops.BINARY:
            what = "not compiled yet" if self.op is Ops.PROGRAM else f"a {self.op.name}"
            raise ContractError(
                f"to_elf needs a compiled PROGRAM, and this one is {what}",
                help="codegen.to_program makes one of a kernel",
            )
        return importlib.import_module("tinylab.engine.compile").to_elf(self)
