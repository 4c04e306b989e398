"""Cases of the rules for several devices, and of those that split reductions."""

from __future__ import annotations

import itertools
from typing import Any

from tests.schedule.cases import Case, has, is_
from tests.schedule.graphs import tensor
from tinylab.dtype import dtypes
from tinylab.opcodes import Ops
from tinylab.schedule.collectives import Collectives
from tinylab.schedule.shard import Place, device_number, joined, local, shards_of
from tinylab.uop.args import KernelInfo
from tinylab.uop.ops import ReduceArg, UOp

F32 = dtypes.float32
TWO = ("CPU", "CPU:1")
X = tensor(4, 3)


def on(device: str, *shape: int) -> UOp:
    size = 1
    for s in shape:
        size *= s
    return UOp.new_buffer(device, size, F32)._reshape(shape)


def reduced(x: UOp, op: Ops, count: int) -> UOp:
    return x.replace(op=Ops.REDUCE, src=(x,), arg=ReduceArg(op, count))


A0, A1 = on("CPU", 2, 3), on("CPU:1", 2, 3)
B0, B1 = on("CPU", 4, 3), on("CPU:1", 4, 3)
CUT, COPIES = joined([A0, A1], 0), joined([B0, B1], None)
ROWS = UOp._iota(4, dtypes.int32)._reshape((4, 1))


def parts(*wanted: UOp, axis: int | None = None) -> Any:
    return lambda found: shards_of(found) == (wanted, axis)


def axis_is(axis: int | None) -> Any:
    return lambda found: found.axis == axis and shards_of(found) is not None


STATE = joined([A0.base, A1.base], None)
MORE = joined([A0 + 1, A1 + 1], 0)
KERNEL = UOp.sink(arg=KernelInfo("k"))
WHOLE = joined([A0, A1], None).allreduce(Ops.ADD, TWO).rtag("reduced")

SHARD = {
    "copy_is_sent": Case(
        [(X.copy_to_device(TWO), lambda u: [p.op for p in u.src] == [Ops.CONTIGUOUS, Ops.COPY])],
        [X.copy_to_device("NULL")],
    ),
    "copy_of_part": Case(
        [(X.copy_to_device("NULL")._shrink((1, 0), (2, 3)), lambda u: u.src[0].op is Ops.SHRINK)],
        [X._shrink((1, 0), (2, 3))],
    ),
    "copy_of_copies": Case(
        [
            (COPIES.copy_to_device("CPU:1"), lambda u: u.op is Ops.CONTIGUOUS and u.src[0] is B1),
            (COPIES.copy_to_device("NULL"), lambda u: u.op is Ops.COPY and u.src[0] is B0),
        ],
        [CUT.copy_to_device("CPU"), X.copy_to_device("NULL"), COPIES.copy_to_device(TWO)],
    ),
    "operation_on_parts": Case(
        [
            (CUT + CUT, parts(A0 + A0, A1 + A1, axis=0)),
            (CUT + COPIES, axis_is(0)),
            (CUT * 2.0, parts(A0 * 2.0, A1 * 2.0, axis=0)),
            (ROWS.cast(F32) + CUT, axis_is(0)),
        ],
        [X + X, X + 2.0],
    ),
    "movement_of_parts": Case(
        [
            (CUT._permute((1, 0)), parts(A0._permute((1, 0)), A1._permute((1, 0)), axis=1)),
            (CUT._reshape((2, 2, 3)), axis_is(0)),
            (CUT._reshape((12,)), axis_is(0)),
            (CUT._expand_front((5,)), axis_is(1)),
            (CUT._shrink((2, 0), (2, 3)), lambda u: u.src[0].op is Ops.COPY and u.src[1] is A1),
            (CUT._pad((0, 1), (4, 5)), axis_is(0)),
            (CUT._flip((False, True)), axis_is(0)),
        ],
        [X._permute((1, 0))],
    ),
    "reduce_of_parts": Case(
        [
            (reduced(CUT, Ops.ADD, 1), has(Ops.ALLREDUCE)),
            (reduced(CUT._permute((1, 0)), Ops.ADD, 1), lambda u: u.op is not Ops.ALLREDUCE),
        ],
        [reduced(X, Ops.ADD, 1)],
    ),
    "allreduce_of_parts": Case(
        [
            (CUT.allreduce(Ops.ADD, TWO), lambda u: [p.arg for p in u.src] == [0, 1]),
            (CUT.allreduce(Ops.ADD, "NULL"), lambda u: u.op is Ops.COPY and u.arg == "NULL"),
        ],
        [WHOLE],
    ),
    "part_of_parts": Case(
        [(CUT.replace(op=Ops.MSELECT, src=(CUT,), arg=1), is_(A1))],
        [UOp(Ops.MSELECT, F32, (WHOLE,), 0)],
    ),
    "write_to_parts": Case(
        [
            (STATE.after(CUT.store(MORE)), lambda u: u.src[0].src[1].src[1] is A0 + 1),
            (CUT.after(KERNEL.call(CUT)), axis_is(0)),
        ],
        [X.base.after(X.store(X + 1))],
    ),
}

# The reduction movement sees: its reduced axis is in front.
SHARD["reduce_of_parts"].fires[1] = (
    reduced(joined([A0._permute((1, 0)), A1._permute((1, 0))], 1), Ops.ADD, 1),
    axis_is(0),
)
BY_DEVICE = [UOp(Ops.MSELECT, F32, (WHOLE,), n) for n in range(2)]
OWN_PART = [x._shrink((device_number(n, TWO), 0), (1, 3)) for n, x in enumerate(BY_DEVICE)]


def collectives(*scattered: UOp) -> Any:
    return lambda: Collectives(itertools.count(-3_000_000, -1), frozenset(scattered))


COLLECTIVES = {
    "gather": Case(
        [(CUT.copy_to_device("CPU"), lambda u: u.shape == (4, 3) and not shards_of(u))],
        [X.copy_to_device("NULL"), COPIES.copy_to_device("CPU")],
        ctx=collectives(),
    ),
    "reduce_everywhere": Case(
        [(WHOLE, lambda u: [p.op for p in u.src] == [Ops.ADD, Ops.ADD])],
        [joined([A1, A0], None).allreduce(Ops.ADD, TWO[::-1])],
        ctx=collectives(joined([A1, A0], None).allreduce(Ops.ADD, TWO[::-1])),
    ),
    "reduce_part": Case(
        [(OWN_PART[1], lambda u: u.op is Ops.ADD and u.device == "CPU:1")],
        [BY_DEVICE[1]._shrink((1, 0), (1, 3))],
        ctx=collectives(WHOLE),
    ),
    "part_of_parts": SHARD["part_of_parts"],
}

LONG = tensor(1 << 16)
WIDE = tensor(1 << 15, 512)
SPLIT_REDUCES = {
    "split_reduce": Case(
        [(reduced(LONG, Ops.MAX, 1), lambda u: u.src[0].src[0].shape == (256,))],
        [
            reduced(tensor(1 << 14), Ops.ADD, 1),  # short
            reduced(tensor(65537), Ops.ADD, 1),  # prime
            reduced(WIDE, Ops.ADD, 1),  # many results
            reduced(UOp._iota(1 << 16, dtypes.int32), Ops.ADD, 1),  # picks by position
            reduced(LONG, Ops.ADD, 1).rtag("split"),
        ],
    )
}
assert local(COPIES, 0, Place(1, TWO)).shape == (2, 3)
