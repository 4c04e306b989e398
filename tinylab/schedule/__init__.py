"""From a tensor graph to a LINEAR schedule of kernels. This list of passes is the whole of it.

in    SINK of what is to be computed, inputs numbered (`callify`)
out   LINEAR of CALLs, and which buffers hold the results
"""

from __future__ import annotations

from typing import NamedTuple

from tinylab.helpers.context import (
    ALL2ALL,
    ALLREDUCE_CAST,
    DONT_REALIZE_EXPAND,
    FUSE_ARANGE,
    FUSE_CONV_BW,
    MAX_KERNEL_BUFFERS,
    PCONTIG,
    REDUCEOP_SPLIT_SIZE,
    REDUCEOP_SPLIT_THRESHOLD,
    RING,
    RING_ALLREDUCE_THRESHOLD,
    SPLIT_REDUCEOP,
)
from tinylab.schedule.add_buffers import internal_slots, pm_add_buffers
from tinylab.schedule.assign_ranges import numbers, pm_assign_ranges, pm_merge_reduces
from tinylab.schedule.callify import Callified, callify
from tinylab.schedule.collectives import collectives, joins_devices, pm_collectives
from tinylab.schedule.early_cleanup import pm_early_cleanup, written_buffers
from tinylab.schedule.flatten_linear import flatten_linear
from tinylab.schedule.inline_functions import FunctionContext, pm_inline_functions
from tinylab.schedule.keep_old_values import keep_old_values
from tinylab.schedule.make_there import make_there
from tinylab.schedule.order_kernels import Steps, order_kernels, steps_of
from tinylab.schedule.plan_memory import is_internal, plan_memory
from tinylab.schedule.realize_points import pm_realize_points, reasons_to_store
from tinylab.schedule.shard import DEVICE_NUMBER, has_several_devices, pm_shard, shards_of
from tinylab.schedule.split_kernels import plain, pm_split_kernels
from tinylab.schedule.split_reduces import pm_split_reduces, wanted
from tinylab.uop.ops import Ops, Pass, UOp, run_passes

__all__ = [
    "DEVICE_NUMBER",
    "KERNEL_GRAPH",
    "SETTINGS",
    "Callified",
    "Schedule",
    "callify",
    "create_schedule",
    "is_internal",
    "parts_of",
    "result_view",
]

# What a schedule depends on besides its graph.
SETTINGS = (
    RING,
    ALL2ALL,
    RING_ALLREDUCE_THRESHOLD,
    ALLREDUCE_CAST,
    SPLIT_REDUCEOP,
    REDUCEOP_SPLIT_THRESHOLD,
    REDUCEOP_SPLIT_SIZE,
    MAX_KERNEL_BUFFERS,
    FUSE_ARANGE,
    FUSE_CONV_BW,
    DONT_REALIZE_EXPAND,
    PCONTIG,
)

# fmt: off
KERNEL_GRAPH = (
    Pass("inline_functions", pm_inline_functions,
         ctx=lambda root, device: FunctionContext(device, create_schedule),
         why="from here on there are values, and no calls but those of kernels and lists"),
    Pass("make_there", run=make_there,
         why="a copy of a constant would need its storage on the device that it comes from"),
    Pass("shard", pm_shard, when=has_several_devices,
         why="from here on every value is on one device"),
    Pass("early_cleanup", pm_early_cleanup, ctx=written_buffers,
         why="what vanishes or is constant must not be scheduled"),
    Pass("keep_old_values", run=keep_old_values,
         why="from here on the order of kernels alone decides what a read sees"),
    Pass("collectives", pm_collectives, ctx=collectives, when=joins_devices,
         why="what several devices do together is copies between two and kernels on one"),
    Pass("split_reduces", pm_split_reduces, when=wanted,
         why="threads share what one kernel would do alone"),
    Pass("realize_points", pm_realize_points, bottom_up=True,
         ctx=reasons_to_store,
         why="everything between two stored values is one kernel"),
    Pass("assign_ranges", pm_assign_ranges, bottom_up=True, ctx=numbers,
         why="each stored value gets its loops; movement becomes index arithmetic"),
    Pass("merge_reduces", pm_merge_reduces,
         why="two nested sums are one sum over more loops"),
    Pass("add_buffers", pm_add_buffers, ctx=internal_slots,
         why="kernels speak of flat buffers only"),
    Pass("split_kernels", pm_split_kernels,
         why="a body per store, with numbered buffers and loops, so that equal ones are equal"),
)
# fmt: on


class Schedule(NamedTuple):
    """What to run, and where the results are.

    outputs: for each source of the sink, a view of a BUFFER of this schedule or of an input PARAM.
    steps: for each which calls of the LINEAR make it.
    """

    linear: UOp
    outputs: tuple[UOp, ...]
    bytes_apart: int
    bytes_planned: int
    buffer_count: int
    steps: tuple[Steps, ...] = ()


def result_view(x: UOp) -> UOp:
    """A state of a buffer without the calls that led to it."""
    while x.op is Ops.AFTER:  # a chain of writes is as long as the user made it
        x = x.src[0]
    if x.op is Ops.MSTACK:
        return x.replace(src=tuple(map(result_view, x.src)))
    if not x.src or x.op in (Ops.BUFFER, Ops.PARAM):
        return x
    return x.replace(src=(result_view(x.src[0]), *x.src[1:]))


def parts_of(view: UOp) -> tuple[UOp, ...]:
    """The views that a result is made of: one on each device."""
    found = shards_of(view)
    return (view,) if found is None else found.parts


def create_schedule(body: UOp, device: str | None = None, plan: bool = True) -> Schedule:
    """The schedule of a callified SINK.

    device: where values go that name no device. plan: whether internal buffers share arenas.

    Raises: ScheduleError for writes that no order makes right.
    """
    kernels = run_passes(body, KERNEL_GRAPH, device)
    outputs = tuple(result_view(x) for x in kernels.src)
    order: list[UOp] = []
    linear = _FLATTEN(_ORDER(kernels, order))
    steps = steps_of(kernels, order)
    if not plan:
        return Schedule(linear, outputs, 0, 0, 0, steps)
    held = {plain(part) for view in outputs for part in parts_of(view)}
    planned = plan_memory(linear, held)
    return Schedule(_PLAN(linear, planned.linear), outputs, *planned[1:], steps)


_ORDER = Pass("order_kernels", run=order_kernels, why="reads before overwrites, breadth first")
_FLATTEN = Pass("flatten_linear", run=flatten_linear, why="lists in a list run as one list")
_PLAN = Pass(
    "plan_memory",
    run=lambda linear, planned: planned,
    why="buffers that never live at the same time share memory",
)
