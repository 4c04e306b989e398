"""Split a range that indices take apart anyway: r % 4 and r // 4 become two ranges.

for r in 32: a[r // 4], b[r % 4]  ->  for o in 8, i in 4: a[o], b[i]

Then no index divides, and each part has a stride of its own.
"""

from __future__ import annotations

from tinylab.codegen.range_tools import FREE_KINDS, replace_ranges, size_of
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.ops import UOp

SPLITTABLE = (*FREE_KINDS, AxisType.REDUCE)


def split_ranges(sink: UOp, ctx: object = None) -> UOp:
    """The kernel with each range split at the divisor that its indices use.

    A range with several divisors is split at the smallest and looked at again.
    """
    while True:
        order = sink.toposort()
        divisors = _divisors(order)
        if not divisors:
            return sink
        first_id = _first_free_id(order)
        new = {}
        for i, (rng, divisor) in enumerate(divisors.items()):
            kind = rng.arg[-1]
            size = size_of(rng)
            assert isinstance(size, int), "only ranges of known size are split"
            outer = rng.replace(src=(rng.src[0].const_like(size // divisor), *rng.src[1:]))
            inner = UOp.range(divisor, first_id + i, kind)
            new[rng] = outer * divisor + inner
        sink = _simplified(replace_ranges(sink, new))


def _divisors(order: dict[UOp, None]) -> dict[UOp, int]:
    """For each range that is divided: the smallest divisor that divides its size."""
    found: dict[UOp, int] = {}
    for u in order:
        if u.op not in (Ops.FLOORMOD, Ops.FLOORDIV):
            continue
        rng, by = u.src
        if rng.op is not Ops.RANGE or by.op is not Ops.CONST or rng.arg[-1] not in SPLITTABLE:
            continue
        size, divisor = size_of(rng), int(by.arg)
        if isinstance(size, int) and 1 < divisor < size and size % divisor == 0:
            found[rng] = min(divisor, found.get(rng, divisor))
    return found


def _first_free_id(order: dict[UOp, None]) -> int:
    return max((i for u in order if u.op is Ops.RANGE for i in u.arg[:-1]), default=-1) + 1


def _simplified(sink: UOp) -> UOp:
    from tinylab.codegen.simplify import simplify_kernel

    return simplify_kernel(sink)
