"""A kernel under tuning: its ranges in order, their sizes and kinds, the opts applied so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinylab.codegen.opt import KernelOptError, Opt, OptOps, check
from tinylab.codegen.opt.actions import ACTIONS
from tinylab.codegen.range_tools import (
    OUTPUT_KINDS,
    REDUCE_KINDS,
    ranges_in,
    replace_ranges,
    size_of,
)
from tinylab.helpers.text import colored
from tinylab.opcodes import AxisType, Ops, axis_colors, axis_letters
from tinylab.uop.ops import KernelInfo, UOp

if TYPE_CHECKING:
    from tinylab.codegen.contract import Renderer


class Scheduler:
    """One kernel's AST with its axes, to which opts are applied one after another.

    Axes are ordered by kind (grid, workgroup, lanes, reduce loops, unrolled), then by axis id. An
    opt's axis is a position in that list, except: UNROLL counts the reduce axes of more than one
    step, GROUP and GROUPTOP count the REDUCE axes.
    """

    def __init__(self, ast: UOp, ren: Renderer) -> None:
        info = ast.arg if isinstance(ast.arg, KernelInfo) else KernelInfo()
        self.ast = ast
        self.ren = ren
        self.info = info
        self.dont_use_locals: bool = info.dont_use_locals
        self.applied_opts: list[Opt] = list(info.applied_opts)
        self._rngs: list[UOp] | None = None

    def copy(self) -> Scheduler:
        """A kernel that can be tuned apart from this one."""
        twin = Scheduler(self.ast, self.ren)
        twin.info, twin.dont_use_locals = self.info, self.dont_use_locals
        twin.applied_opts = list(self.applied_opts)
        return twin

    # *** the axes

    @property
    def rngs(self) -> list[UOp]:
        """The kernel's ranges of more than one step, in axis order."""
        if self._rngs is None:
            self._rngs = ranges_in(self.ast)
        return self._rngs

    @property
    def shape_len(self) -> int:
        """How many axes there are."""
        return len(self.rngs)

    @property
    def full_shape(self) -> list[int | UOp]:
        """The size of each axis."""
        return [size_of(r) for r in self.rngs]

    @property
    def axis_types(self) -> list[AxisType]:
        """The kind of each axis."""
        return [r.arg[-1] for r in self.rngs]

    @property
    def reduceops(self) -> list[UOp]:
        """The kernel's reduces."""
        return [u for u in self.ast.toposort() if u.op is Ops.REDUCE]

    def axes_of(self, *kinds: AxisType) -> list[int]:
        """Positions of the axes of these kinds."""
        return [i for i, kind in enumerate(self.axis_types) if kind in kinds]

    def _int_axes_of(self, *kinds: AxisType) -> list[int]:
        return [i for i in self.axes_of(*kinds) if isinstance(size_of(self.rngs[i]), int)]

    @property
    def upcastable_dims(self) -> list[int]:
        """Positions of the output axes of known size."""
        return self._int_axes_of(*OUTPUT_KINDS)

    @property
    def unrollable_dims(self) -> list[int]:
        """Positions of the reduce axes of known size."""
        return self._int_axes_of(*REDUCE_KINDS)

    def shape_str(self) -> list[str]:
        """A letter and a count per kind: ['g0', 'g1', 'l0', 'R0', 'u0']."""
        counts: dict[str, int] = {}
        names = []
        for kind in self.axis_types:
            letter = axis_letters[kind]
            names.append(f"{letter}{counts.get(letter, 0)}")
            counts[letter] = counts.get(letter, 0) + 1
        return names

    def axis_colors(self) -> list[str]:
        """The colour of each axis; a grid axis without workgroups is bright blue."""
        plain = AxisType.GLOBAL if self.dont_use_locals else None
        return ["BLUE" if k is plain else axis_colors[k] for k in self.axis_types]

    def size_texts(self) -> list[str]:
        """The sizes as text; a symbolic one is its expression."""
        return [str(s) if isinstance(s, int) else s.render() for s in self.full_shape]

    def colored_shape(self, pad: int | None = None, dense: bool = False) -> str:
        """The sizes in the colours of their kinds."""
        texts = [t if dense else f"{t:>4}" for t in self.size_texts()]
        shape = " ".join(colored(t, c) for t, c in zip(texts, self.axis_colors(), strict=True))
        return shape + " " * max(0, (pad or 0) - sum(len(t) + 1 for t in texts) + 1)

    # *** opts

    def real_axis(self, op: OptOps, axis: int | None) -> int:
        """An opt's axis as a position in the full list.

        Raises: KernelOptError if there is no such axis.
        """
        if op is OptOps.UNROLL:
            axes = self.unrollable_dims
        elif op in (OptOps.GROUP, OptOps.GROUPTOP):
            axes = self.axes_of(AxisType.REDUCE)
        else:
            axes = list(range(self.shape_len))
        if not axes:
            raise KernelOptError(self._lacking(op))
        if axis is None or not 0 <= axis < len(axes):
            given = "none is given" if axis is None else str(axis)
            raise KernelOptError(
                f"invalid axis on {op.name}: {given}, and there are {len(axes)} to choose from",
                help=f"give one from 0 to {len(axes) - 1}" if axes else None,
            )
        return axes[axis]

    def _lacking(self, op: OptOps) -> str:
        """Why an opt has no axis to choose from; earlier opts may have taken it whole."""
        if op not in (OptOps.UNROLL, OptOps.GROUP, OptOps.GROUPTOP):
            return f"this kernel has no axis for {op.name}"
        text = f"this kernel has no reduce axis for {op.name}"
        if op is OptOps.UNROLL and self.axes_of(*REDUCE_KINDS):
            return f"{text}: its size must be known"
        taken = self.axes_of(AxisType.UNROLL, *REDUCE_KINDS)
        return f"{text} left: earlier opts took it" if taken else text

    def apply_opt(self, opt: Opt, append_opt: bool = True) -> None:
        """Change the AST by one opt.

        Raises: KernelOptError, with the AST as it was, if the opt is not legal here.
        """
        ACTIONS[opt.op](self, opt)
        if append_opt:
            self.applied_opts.append(opt)

    def set_ast(self, ast: UOp) -> None:
        """Go on with another AST of the same kernel."""
        self.ast, self._rngs = ast, None

    def new_axis_id(self) -> int:
        """An axis id that no range of this kernel has."""
        ids = [i for u in self.ast.toposort() if u.op is Ops.RANGE for i in u.arg[:-1]]
        return max(ids, default=-1) + 1

    def shift_to(self, rng: UOp, amount: int, kind: AxisType, top: bool = False) -> UOp:
        """Give `amount` steps of a range to a new one: its inner part, or its outer part if top.

        r of 32, 4  ->  r' of 8 times 4, plus a new range of 4

        Raises: KernelOptError if the amount does not divide the size.
        """
        rest = rng.src[0].divides(amount)
        check(
            amount > 0 and rest is not None,
            f"{amount} can't divide {rng.src[0].render()} in [{', '.join(self.size_texts())}]",
            help="choose a divisor of the axis, or PADTO first",
        )
        assert rest is not None, "checked above"
        inner = UOp.range(amount, self.new_axis_id(), kind)
        rest = rest.simplify()
        if rest.op is Ops.CONST and rest.arg == 1:
            self.set_ast(replace_ranges(self.ast, {rng: inner}))
            return inner
        outer = rng.replace(src=(rest, *rng.src[1:]))
        # The order of the sum is the order in which END lists the ranges: outer first.
        whole = inner * rest + outer if top else outer * amount + inner
        self.set_ast(replace_ranges(self.ast, {rng: whole}))
        return inner

    # *** the result

    def kernel_name(self) -> str:
        """'r' or 'E' (has a reduce, or none), then each size in its colour."""
        kind = "r" if self.reduceops else "E"
        sizes = (colored(t, c) for t, c in zip(self.size_texts(), self.axis_colors(), strict=True))
        return colored("_", "BLACK").join([kind, *sizes])

    def get_optimized_ast(self, name_override: str | None = None) -> UOp:
        """The AST with what was decided in its KernelInfo."""
        name = name_override or (self.kernel_name() if self.info.name == "test" else self.info.name)
        info = self.info._replace(
            name=name,
            axis_types=tuple(self.axis_types),
            dont_use_locals=self.dont_use_locals,
            applied_opts=tuple(self.applied_opts),
            opts_to_apply=None,
        )
        return self.ast.replace(arg=info)
