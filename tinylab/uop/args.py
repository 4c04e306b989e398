"""What UOp.arg holds: hashable, printable records. Callables never sit here (keys, trace files)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from tinylab.dtype import AddrSpace, DType, PyConst
from tinylab.helpers.text import ansistrip
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.names import program_name

if TYPE_CHECKING:
    from tinylab.target import Target
    from tinylab.uop.node import UOp


class RangeArg(tuple[Any, ...]):
    """(axis id, …, AxisType): more than one id after a split by hand."""

    __slots__ = ()

    @property
    def ids(self) -> tuple[int, ...]:
        """The numbers of the axis."""
        return tuple(self[:-1])

    @property
    def axis(self) -> int:
        """The first number."""
        return int(self[0])

    @property
    def kind(self) -> AxisType:
        """The AxisType."""
        kind: AxisType = self[-1]
        return kind

    def with_kind(self, kind: AxisType) -> RangeArg:
        """The same axis as another kind."""
        return RangeArg((*self[:-1], kind))


class ReduceArg(NamedTuple):
    """The operation, and how many leading axes are reduced (0 where RANGEs are sources)."""

    op: Ops
    count: int = 0  # type: ignore[assignment]


class StageArg(NamedTuple):
    """A value that is stored over ranges; `reason` says why it is no part of its consumer."""

    device: str | tuple[str, ...] | None
    addrspace: AddrSpace = AddrSpace.GLOBAL
    removable: bool = True
    reason: str = ""


BufferizeOpts = StageArg


class WmmaArg(NamedTuple):
    """A tensor core: (N, M, K), what it multiplies, how many threads of which device share it."""

    dims: tuple[int, int, int]
    dtype_in: DType
    device: str
    threads: int
    upcast_axes: Any = None


class ParamArg(NamedTuple):
    """A numbered input of a body, a buffer, or (addrspace ALU) a variable.

    slot -1 is a variable that is known by its name. vmin_vmax are inclusive bounds.
    """

    slot: int
    dtype: DType
    vmin_vmax: tuple[PyConst, PyConst] | None = None
    multiple_of: int | None = None
    name: str | None = None
    addrspace: AddrSpace = AddrSpace.GLOBAL
    axis: int | None = None
    device: str | tuple[str, ...] | None = None
    volatile: bool = False

    def __repr__(self) -> str:
        shown = [f"{self.slot}", f"{self.dtype!r}"]
        for name, default in type(self)._field_defaults.items():
            value = getattr(self, name)
            if value != default:
                shown.append(f"{name}={value!r}")
        return f"ParamArg({', '.join(shown)})"


class CallInfo(NamedTuple):
    """What a CALL or FUNCTION is besides its body and arguments.

    grad_key names a gradient function in `node.callables`, so that no callable sits in a key.
    device_number is what `_device_num` is in a kernel that several devices share.
    """

    name: str | None = None
    precompile: bool = False
    precompile_backward: bool = False
    aux: Any = None
    grad_key: int | None = None
    device_number: int | None = None


class KernelInfo(NamedTuple):
    """Marks a SINK as the body of one kernel.

    name "test" means: derive it from the axes. opts_to_apply replaces heuristics and search, also
    when it is empty.
    """

    name: str = "test"
    axis_types: tuple[AxisType, ...] = ()
    dont_use_locals: bool = False
    applied_opts: tuple[Any, ...] = ()
    opts_to_apply: tuple[Any, ...] | None = None
    estimates: Any = None
    beam: int = 0

    @property
    def function_name(self) -> str:
        """The name as targets can spell it."""
        return program_name(self.name)


class ProgramInfo(NamedTuple):
    """How a program is launched: grid, buffers by slot, variables in order."""

    name: str = "test"
    global_size: tuple[int | UOp, ...] = (1, 1, 1)
    local_size: tuple[int, ...] | None = None
    vars: tuple[UOp, ...] = ()
    globals: tuple[int, ...] = ()
    outs: tuple[int, ...] = ()
    ins: tuple[int, ...] = ()
    target: Target | None = None
    estimates: Any = None

    @property
    def function_name(self) -> str:
        """The name as targets can spell it."""
        return program_name(self.name)

    @property
    def runtimevars(self) -> dict[str, int]:
        """Variables that the launch itself sets, by name, with their position in `vars`."""
        return {v.arg.name: i for i, v in enumerate(self.vars) if v.arg.name == "core_id"}

    def launch_dims(
        self, var_vals: dict[str, int]
    ) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
        """(global size, local size) for the values of the variables."""
        sizes = tuple(
            s if isinstance(s, int) else int(s.sym_infer(var_vals)) for s in self.global_size
        )
        return sizes, self.local_size

    def vals(self, var_vals: dict[str, int]) -> tuple[int | None, ...]:
        """Values in the order of `vars`; None for what the launch sets.

        Raises: RuntimeError (ScheduleError) when a variable has no value.
        """
        from tinylab.errors import ScheduleError

        found: list[int | None] = []
        for v in self.vars:
            name = v.arg.name
            if name == "core_id":
                found.append(None)
            elif name in var_vals:
                found.append(var_vals[name])
            else:
                raise ScheduleError(
                    f"unbound Variable '{name}' used by {ansistrip(self.name)}",
                    help=f"bind it: Variable({name!r}, lo, hi).bind(value)",
                )
        return tuple(found)


def is_unit(size: object) -> bool:
    """Whether a size is the integer 1."""
    return isinstance(size, int) and size == 1


def product(sizes: tuple[int, ...]) -> int:
    """All sizes multiplied."""
    return math.prod(sizes)
