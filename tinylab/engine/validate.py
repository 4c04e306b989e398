"""VALIDATE_WITH_CPU: each kernel of another device is run on the CPU too, on the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinylab.device import Buffer
from tinylab.engine.compile import lower_kernel
from tinylab.engine.launch import Step, execute, program_step
from tinylab.errors import DeviceError
from tinylab.helpers.text import ansistrip
from tinylab.uop.args import CallInfo
from tinylab.uop.ops import UOp

# What results may differ by, relative to their size and absolute.
TOLERANCE = 1e-3


def validated(
    step: Step,
    ast: UOp,
    buffers: Sequence[Buffer],
    var_vals: dict[str, int],
    run: Callable[[], None],
) -> None:
    """Run a step, and compare what it wrote with what the CPU writes.

    ast: the kernel before opts.

    Raises: DeviceError with the kernel, the place and both values where they differ.
    """
    own = [Buffer("CPU", b.size, b.dtype, initial_value=bytes(b.as_memoryview())) for b in buffers]
    run()
    number = next(iter(step.known.values()), None)
    program = lower_kernel(ast, "CPU")
    places = tuple(range(len(own)))
    same = program_step(program, "CPU", places, CallInfo(device_number=number))
    execute(same.with_values(var_vals), own, wait=True)
    for slot in same.outs:
        _compare(step, slot, buffers[slot], own[slot])


def _compare(step: Step, slot: int, found: Buffer, expected: Buffer) -> None:
    import numpy as np

    if found.dtype.fmt is None:
        return  # numpy has no such numbers
    got, want = found.numpy(), expected.numpy()
    close = np.isclose(got, want, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
    if close.all():
        return
    at = int(np.argmin(close))
    raise DeviceError(
        f"kernel {ansistrip(step.name)} on {step.device} gives {got[at]} at element {at} of "
        f"argument {slot}, and the CPU {want[at]}; {int((~close).sum())} of {close.size} elements "
        "differ",
        help="VALIDATE_WITH_CPU=0 does not compare",
    )
