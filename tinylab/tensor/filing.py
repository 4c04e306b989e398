"""Writes to files: at once, and after what was built before has kept what it reads of the old.

A view of a file is a window of it. A write through one is seen by the tensors that the rule of
`tinylab.tensor.sharing` says; any other that looks at the bytes keeps the old ones, in memory. Who
opens the file by itself, as another program may, sees what is in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinylab.engine.capture import open_captures
from tinylab.engine.locking import alone
from tinylab.errors import AssignError, JitError
from tinylab.mixin.indexing import parse_index, slice_view
from tinylab.tensor import disk
from tinylab.tensor.core import TensorCore
from tinylab.tensor.held import live
from tinylab.tensor.sharing import moved, owners_of, part, places_written, steps_to
from tinylab.tensor.waiting import is_stored, memory_under, storage_looked_at
from tinylab.tensor.writing import operand
from tinylab.uop.ops import UOp

if TYPE_CHECKING:
    from tinylab.tensor.tensor import Tensor


@alone
def assign(t: Tensor, view: UOp, x: Any, what: str = "assign") -> None:
    """Write a value to a view of a tensor on a file.

    what: "assign", or "setitem", which casts a value of another type.

    Raises: AssignError for another type, and for a place that is not in one piece; ShapeError where
    the value does not fit; JitError inside a captured function.
    """
    if open_captures():
        raise JitError(
            "a file cannot be written inside a captured function: a replay would not do it again",
            help="return the value, and write it outside",
        )
    cls = type(t)
    value = x.to("CPU") if isinstance(x, cls) else x
    like = cls.empty(*view.shape, dtype=view.dtype, device="CPU")
    data = operand(like, value, what)._bytes()
    place = disk.overwritten(view)
    if not place.size:
        return
    part(places_written(t, steps_to(view, t.uop) or ()))
    _keep_old(place, [t, *owners_of(t)])
    place.window.view(like.numel(), view.dtype).copyin(data)


@alone
def setitem(t: Tensor, indices: Any, v: Any) -> None:
    """t[indices] = v, of a tensor on a file."""
    plan = parse_index(t, indices)
    if any(p.kind == "tensor" for p in plan):
        raise AssignError(
            "elements of a file that a tensor picks cannot be written",
            help="write to slices in one piece; or to a copy, .to(None), and assign that",
        )
    view = slice_view(t, plan).uop
    if not isinstance(v, TensorCore) or v.uop is not view:  # of x[i] += y what is written is there
        assign(t, view, v, "setitem")


def _keep_old(place: disk.Overwritten, seeing: list[TensorCore]) -> None:
    """What looks at bytes that are overwritten keeps the old ones, but for those that see it."""
    waiting = live.to_compute_at(is_stored, storage_looked_at, place.memory, ())
    base = place.window.buffer.base
    views = live.lying_in(is_stored, [base], memory_under)
    for t in {id(t): t for t in (*waiting, *views)}.values():
        if any(t is x for x in seeing):
            continue
        kept = place.kept(t.uop)
        if kept is not t.uop:
            moved(t, kept)
