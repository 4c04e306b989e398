"""Errors of tinylab: one class per stage, each with a message and a line of help.

A message states the fact in one sentence with its values; the help line says what to do. Every
class also derives from the builtin exception that scripts already catch at that place, so that
``except ValueError`` around a reshape keeps working.

    try: Tensor.ones(2, 3).reshape(4)
    ShapeError: size mismatch, can't reshape (2, 3) to (4,): 6 elements, not 4
    help: write -1 for one size and it is worked out
"""

from __future__ import annotations


class TinylabError(Exception):
    """A mistake that tinylab can name: what is wrong, and what to do about it."""

    def __init__(self, message: str = "", help: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.help = help

    def __str__(self) -> str:
        """The message; the help, if there is any, on a second line."""
        return self.message if self.help is None else f"{self.message}\nhelp: {self.help}"


# What computing something may fail with. Anything else comes from outside, as a Ctrl-C does: the
# handler of a signal raised it.
FAILURES = (
    TinylabError,
    RuntimeError,
    MemoryError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


class ContractError(TinylabError, AssertionError):
    """A call that a method does not take, where scripts expect an AssertionError."""


class SettingError(TinylabError, KeyError, ValueError, RuntimeError):
    """A setting that does not exist, exists twice, or has a value of the wrong type."""


# *** the language


class ShapeError(TinylabError, ValueError, RuntimeError):
    """Sizes that do not fit: reshape, shrink, pad, permute, dot."""


class BroadcastError(ShapeError, IndexError):
    """Shapes of operands that cannot be broadcast together."""


class StackError(ShapeError, AssertionError):
    """Tensors to join whose shapes differ: stack, cat."""


class DTypeError(TinylabError, TypeError, ValueError, RuntimeError):
    """An element type that an operation does not take."""


class UnknownDTypeError(DTypeError, AttributeError):
    """A name that no element type has."""


class CreationError(TinylabError, RuntimeError, ValueError, TypeError):
    """Data that no tensor can be made from."""


class IndexingError(TinylabError, IndexError, TypeError):
    """An index or axis that is out of range or of a type that cannot index."""


class OperandError(TinylabError, TypeError):
    """An argument of a type that a method does not take."""


class MemberError(OperandError, ValueError):
    """A value that no member of an enumeration has."""


class AssignError(TinylabError, RuntimeError):
    """A write into a tensor that does not fit it, or that other uses forbid."""


class GradientError(TinylabError, RuntimeError):
    """A derivative that does not exist or was not written."""


class ScalarGradientError(GradientError, AssertionError):
    """Backward from something that is not one number."""


class OptimizerError(TinylabError, RuntimeError, ValueError):
    """An optimizer that cannot step: training is off, or a rate makes no sense."""


class SymbolicError(TinylabError, ValueError, RuntimeError):
    """An expression that has no single value, or a variable without one."""


class BindError(SymbolicError, AssertionError):
    """A variable bound to a value outside its range, or not bound at all."""


class ZeroDivisorError(SymbolicError, ZeroDivisionError):
    """An expression of sizes or places that is divided by zero."""


class FunctionError(TinylabError, RuntimeError):
    """A traced function that cannot be one node: its result, its inputs, what it does inside."""


class ShardError(TinylabError, RuntimeError):
    """Tensors on several devices whose parts do not fit."""


# *** the compiler


class RewriteError(TinylabError, RuntimeError):
    """A rule table that does not come to an end, or a rule that went wrong."""


class SpecError(RewriteError):
    """A graph that a stage does not accept."""


class ScheduleError(TinylabError, RuntimeError):
    """A graph that cannot be put in order, such as a cycle of writes."""


class BindMismatchError(ScheduleError):
    """Two values of one variable in one computation."""


class CodegenError(TinylabError, RuntimeError):
    """A kernel that cannot be lowered."""


class KernelOptError(TinylabError):
    """An opt that cannot be applied to this kernel, and why."""


class RenderError(TinylabError, RuntimeError):
    """A program for which a target has no words."""


class CompileError(TinylabError, RuntimeError):
    """Source text that the target's compiler refuses, or that must not be run."""


class JitError(TinylabError, RuntimeError):
    """A function that cannot be captured or replayed."""


class UncapturedError(JitError, AssertionError):
    """A captured function that has nothing captured yet, or no function to capture again."""


class GraphException(JitError):
    """Steps that cannot be launched together."""


# *** devices


class DeviceError(TinylabError, RuntimeError):
    """A device that is absent, misnamed or cannot do what is asked."""


class UnknownDeviceError(DeviceError, ModuleNotFoundError):
    """A name that no device has."""


class ForbiddenDeviceError(DeviceError, AssertionError):
    """A device used where ALLOW_DEVICE_USAGE=0 forbids it."""


class BufferError(DeviceError, AssertionError):
    """A buffer that is allocated twice, viewed past its end, or copied to another size."""


class AllocationError(DeviceError, MemoryError):
    """Memory that a device does not have."""


class LostValueError(TinylabError, RuntimeError):
    """A value whose sources were overwritten before a run that ended early came to it."""


class BoundsError(DeviceError, IndexError):
    """A load or store outside its buffer, seen by a device that checks."""


# *** what stands above the compiler


class TraceError(TinylabError, ValueError):
    """A trace file that cannot be read."""


class CaptureError(TinylabError, ValueError):
    """A profile capture, trace stream or code object that cannot be read."""


class CounterError(TinylabError, RuntimeError):
    """Counters that a kernel, a device or a cache model cannot give."""


class LabError(TinylabError, RuntimeError):
    """A question of a front end that has no answer."""


class WorkerError(LabError):
    """An isolated process that could not be started or fed."""


class FetchError(TinylabError, OSError):
    """A download that failed or is not what was expected."""


class FileFormatError(CreationError):
    """A file of arrays that is damaged, or of a kind that cannot be read."""


class CompatError(TinylabError, RuntimeError):
    """The name of tinygrad that cannot be made to mean tinylab here."""
