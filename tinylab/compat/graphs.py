"""Launches of many kernels, made of a LINEAR as scripts make them.

graph = graph_class(Device["CPU"])(linear, input_uops)
graph(input_uops, var_vals)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tinylab.engine.capture import CapturedStep
from tinylab.engine.graph import GraphException, NativeGraph, graph_class as own_class
from tinylab.engine.launch import Step, plan_schedule
from tinylab.engine.linear import ungraphed
from tinylab.helpers.arguments import explained_names
from tinylab.schedule import Schedule
from tinylab.uop.ops import UOp


class GraphRunner:
    """The kernels of a LINEAR in one launch; PARAM(slot) are the inputs.

    Raises: GraphException for kernels of a device that has no such thing, or of two.
    """

    def __init__(self, linear: UOp, input_uops: Sequence[UOp] = ()) -> None:
        plan = plan_schedule(Schedule(ungraphed(linear), (), 0, 0, 0), False)
        self.linear, self.arguments = linear, plan.arguments
        memory = plan.arguments.allocate(tuple(input_uops), {})
        steps = [
            CapturedStep(step, [memory[n] for n in step.arguments], call, _least(step))
            for step, call in zip(plan.steps, plan.schedule.linear.src, strict=True)
        ]
        self.launch = self._launch(steps, [s.arguments for s in plan.steps])

    def _launch(self, steps: list[CapturedStep], numbers: Sequence[Sequence[int]]) -> NativeGraph:
        devices = {s.step.device for s in steps}
        if len(devices) > 1:
            raise GraphException(f"one launch for each device, not for {sorted(devices)}")
        return NativeGraph(steps, numbers)

    def __call__(
        self, input_uops: Sequence[UOp], var_vals: dict[str, int], wait: bool = False
    ) -> float | None:
        """Run everything once; the seconds that it took, where somebody waits for it."""
        memory = self.arguments.allocate(tuple(input_uops), {})
        start_ns = time.perf_counter_ns()
        self.launch.run(memory, var_vals)
        return (time.perf_counter_ns() - start_ns) * 1e-9 if wait else None

    @staticmethod
    def supports_uop(batch_devs: Sequence[Any], new_call: UOp) -> bool:
        """Whether a CALL may join a launch on these devices."""
        kinds = {str(getattr(d, "device", d)).split(":")[0] for d in batch_devs}
        kinds |= {str(a.device).split(":")[0] for a in new_call.src[1:]}
        return len(kinds) == 1


def _least(step: Step) -> dict[str, int]:
    """Values for the variables of a step, until a call brings others."""
    variables = () if step.info is None else step.info.vars
    return {v.arg.name: int(v.vmin) for v in variables}


class MultiGraphRunner(GraphRunner):
    """The same for devices of one kind: CPU, CPU:1, … in one launch."""

    def _launch(self, steps: list[CapturedStep], numbers: Sequence[Sequence[int]]) -> NativeGraph:
        return NativeGraph(steps, numbers)


def graph_class(dev: Any) -> type[GraphRunner] | None:
    """What launches many kernels of a device at once; None where there is no such thing.

    Raises: UnknownDeviceError for what is neither a device nor its name.
    """
    return None if own_class(dev) is None else MultiGraphRunner


explained_names(globals())
__all__ = ["GraphException", "GraphRunner", "MultiGraphRunner", "graph_class"]
