"""What a kernel written by hand may not do: read an array while its loops write it elsewhere.

x[i].store(x[i] + 1)       fine: each element is read where it is written
x[i + 4].store(x[i])       fine while i < 4: what is read is never written
x[i].store(x[n - 1 - i])   refused: what is read depends on which element comes first
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tinylab.errors import ContractError
from tinylab.opcodes import AxisType, GroupOp, Ops

if TYPE_CHECKING:
    from tinylab.uop.node import UOp

# Loops whose steps run side by side, whatever options are kept away from the kernel.
_AT_ONCE = (AxisType.GLOBAL, AxisType.LOCAL, AxisType.WARP, AxisType.THREAD)


def refuse_unordered(kernel: UOp) -> None:
    """Check a kernel's body.

    Raises: ContractError for an array that is read at other places than it is written.
    """
    stores = [u for u in kernel.toposort() if u.op is Ops.STORE]
    values = [s for store in stores for s in store.src[1:]]
    for written in dict.fromkeys(store.src[0] for store in stores):
        array = _array(written)
        if array is None:
            continue
        for place in _reads(values, array):
            if not _in_order(place, written, kernel):
                raise ContractError(
                    f"kernel {kernel.arg.name!r} reads its argument {array.arg.slot} at other "
                    f"places than it writes it, in no given order",
                    help="pass the tensor once more, as .contiguous(), and read from that; or "
                    "read from x.after(the store)",
                )


def _array(place: UOp) -> UOp | None:
    """The parameter that a place lies in; None for registers, and after an effect."""
    while place.op in GroupOp.Movement or place.op is Ops.INDEX or _only_inside(place):
        place = place.src[0]
    return place if place.op is Ops.PARAM and not place.is_variable else None


def _only_inside(x: UOp) -> bool:
    """Whether an AFTER only says in which loops the value is used."""
    return x.op is Ops.AFTER and all(s.op is Ops.RANGE for s in x.src[1:])


def _reads(values: Iterable[UOp], array: UOp) -> Iterator[UOp]:
    """The places of an array that a value is worked out from, effects before it left out."""
    stack, seen = list(values), set()
    while stack:
        x = stack.pop()
        if x in seen:
            continue
        seen.add(x)
        if x.op is Ops.PARAM or x.op in GroupOp.Movement or x.op is Ops.INDEX:
            if _array(x) is array:
                yield x
            # What an index itself reads.
            stack.extend(x.src[1:])
        elif x.op is Ops.AFTER and not _only_inside(x):
            continue
        else:
            stack.extend(x.src)


def _in_order(read: UOp, written: UOp, kernel: UOp) -> bool:
    """Whether what a read sees does not depend on which of the loop's steps runs first."""
    one, other = _bare(read), _bare(written)
    if one is other or _apart(one, other):
        return True
    loops = {r for u in (read, written) for r in u.toposort() if r.op in (Ops.RANGE, Ops.SPECIAL)}
    at_once = any(r.op is Ops.SPECIAL or r.arg[-1] in _AT_ONCE for r in loops)
    kept = kernel.arg.opts_to_apply == () or kernel.tag is not None
    return kept and not at_once


def _bare(place: UOp) -> UOp:
    """A place without the loops that it is said to be used in."""
    inside = {u: u.src[0] for u in place.toposort() if _only_inside(u)}
    return place.substitute(inside, walk=True) if inside else place


def _apart(a: UOp, b: UOp) -> bool:
    """Whether two places of one array never meet: some index of theirs has other bounds."""
    if not (a.op is b.op is Ops.INDEX) or a.src[0] is not b.src[0]:
        return False
    pairs = zip(a.src[1:], b.src[1:], strict=False)
    return any(i.vmax < j.vmin or j.vmax < i.vmin for i, j in pairs)
