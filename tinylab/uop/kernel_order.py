"""What a kernel written by hand may not do: read an array while its loops write it elsewhere.

x[i].store(x[i] + 1)       fine: each element is read where it is written
x[i + 4].store(x[i])       fine while i < 4: what is read is never written
x[i].store(x[n - 1 - i])   refused: what is read depends on which element comes first
x[0].store(x[0] + y[i])    refused: it is read once, before the loop; x.after(i)[0] is read in each
                           step, which is fine if i is a LOOP: its steps have an order

Steps have an order in a LOOP and a REDUCE, and in a plain loop that options are kept away from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tinylab.errors import ContractError
from tinylab.opcodes import AxisType, GroupOp, Ops

if TYPE_CHECKING:
    from tinylab.uop.node import UOp

# Loops whose steps run side by side, whatever options are kept away from the kernel.
_IN_ORDER = (AxisType.LOOP, AxisType.REDUCE, AxisType.DEVICE)
_AT_ONCE = frozenset(AxisType) - {*_IN_ORDER, AxisType.WEAK}


def refuse_unordered(kernel: UOp) -> None:
    """Check a kernel's body.

    Raises: ContractError for an array that is read at other places than it is written.
    """
    stores = stores_in_loops(kernel)
    for store, loops in stores.items():
        array = _array(store.src[0])
        if array is None:
            continue
        for reader, around in stores.items():
            for place in _reads(reader.src[1:], array):
                _check(kernel, array, (place, around & loops), (store.src[0], loops))


def _check(
    kernel: UOp, array: UOp, read: tuple[UOp, set[UOp]], write: tuple[UOp, set[UOp]]
) -> None:
    """A read and a write of one array, each with the loops that it stands in."""
    one, other = _bare(read[0]), _bare(write[0])
    if _apart(one, other):
        return
    missed = read[1] - _loops_in(read[0])
    if any(r.vmax != 0 for r in missed):
        raise ContractError(
            f"kernel {kernel.arg.name!r} reads its argument {array.arg.slot} once, before the loop "
            f"over {' and '.join(sorted(r.render() for r in missed))} that writes it",
            help="write x.after(the range)[…] for what the step before has left there",
        )
    at = _loops_in(one) | _loops_in(other)
    # What is read where it is written: the loops count that come back there.
    if not _in_order(write[1] - at if one is other else write[1] | at, kernel):
        raise ContractError(
            f"kernel {kernel.arg.name!r} reads its argument {array.arg.slot} at other places than "
            f"it writes it, in no given order",
            help="pass the tensor once more, as .contiguous(), and read from that; or "
            "read from x.after(the store)",
        )


def stores_in_loops(kernel: UOp) -> dict[UOp, set[UOp]]:
    """The stores of a kernel, with the loops that are closed around each."""
    found: dict[UOp, set[UOp]] = {}
    for u in kernel.toposort():
        if u.op is Ops.STORE:
            found.setdefault(u, set())
        elif u.op is Ops.END:
            for store in _joined(u.src[0]):
                found.setdefault(store, set()).update(r for r in u.src[1:] if r.op is Ops.RANGE)
    return found


def slots_written(kernel: UOp) -> set[int]:
    """The slots of a kernel's arguments that it stores to; of machine code those that it names."""
    if kernel.op is Ops.PROGRAM:
        return {*(kernel.arg.outs if kernel.arg is not None else ())} or {0}
    found = set()
    for u in kernel.toposort():
        if u.op is Ops.STORE:
            place = u.src[0]
            while place.src and place.op is not Ops.PARAM:
                place = place.src[0]
            if place.op is Ops.PARAM:
                found.add(place.arg.slot)
    return found


def _joined(effect: UOp) -> list[UOp]:
    """The stores that one effect consists of."""
    if effect.op is Ops.STORE:
        return [effect]
    if effect.op is Ops.END:
        return _joined(effect.src[0])
    return [store for s in effect.src for store in _joined(s)] if effect.op is Ops.GROUP else []


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


def _loops_in(place: UOp) -> set[UOp]:
    return {u for u in place.toposort() if u.op in (Ops.RANGE, Ops.SPECIAL)}


def _in_order(loops: set[UOp], kernel: UOp) -> bool:
    """Whether the steps of all these loops run one after another."""
    kept = kernel.arg.opts_to_apply == () or kernel.tag is not None
    return not any(_at_once(r, kept) for r in loops)


def _at_once(loop: UOp, kept: bool) -> bool:
    """Whether steps of a loop may run side by side; options may make a WEAK one so."""
    if loop.vmax == 0:
        return False
    if loop.op is Ops.SPECIAL or loop.arg[-1] in _AT_ONCE:
        return True
    return loop.arg[-1] is AxisType.WEAK and not kept


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
