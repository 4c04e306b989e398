"""What every renderer is: a target, what it can do, and lines of text that know their uops."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from tinylab.dtype import AddrSpace, DType, dtypes
from tinylab.errors import RenderError
from tinylab.opcodes import GroupOp, Ops, axis_letters
from tinylab.target import Caps, Target, as_target, caps_of
from tinylab.uop.ops import KernelInfo, UOp

# A line of the text, and the index of the uop in the linear list that it is of (None: of none).
Line = tuple[str, int | None]


class Renderer:
    """Turns the lines of a program into text; says what its target can do by itself.

    A subclass gives `device`, `code_for_op` and `render_lines`, and the limits that differ.
    """

    device = ""
    tensor_cores: Sequence[Any] = ()
    code_for_op: Collection[Ops] = frozenset()
    extra_matcher: Any = None

    def __init__(self, target: Target | str | None = None) -> None:
        """For a target, or its text; empty fields are the device's defaults."""
        found = Target() if target is None else as_target(target)
        self.target: Target = found.replacedefault(device=self.device)
        self.caps: Caps = caps_of(self.device or self.target.device)

    @property
    def has_local(self) -> bool:
        """Whether there are workgroups."""
        return self.caps.has_local

    @property
    def has_threads(self) -> bool:
        """Whether a kernel may be split over CPU threads."""
        return self.caps.has_threads

    @property
    def has_shared(self) -> bool:
        """Whether a workgroup has memory of its own."""
        return self.caps.has_shared

    @property
    def supports_float4(self) -> bool:
        """Whether memory is accessed several elements at a time."""
        return self.caps.supports_float4

    @property
    def global_max(self) -> tuple[int, ...] | None:
        """Limits of the grid, per axis; None is no limit."""
        return self.caps.global_max

    @property
    def local_max(self) -> tuple[int, ...] | None:
        """Limits of a workgroup, per axis; None is no limit."""
        return self.caps.local_max

    @property
    def shared_max(self) -> int:
        """Bytes of workgroup memory."""
        return self.caps.shared_max

    def vector_width(self, dtype: DType) -> int:
        """How many lanes of a type one native vector holds."""
        return max(1, 16 // max(1, dtype.itemsize))

    def supported_dtypes(self) -> Collection[DType]:
        """Types that values and memory may have; the others are emulated."""
        return frozenset(dtypes.all)

    def render_lines(self, uops: Sequence[UOp]) -> list[Line]:
        """The text, a line at a time, each with the index of its uop."""
        raise RenderError(f"{type(self).__name__} writes no text")

    def render(self, uops: Sequence[UOp]) -> str:
        """The program's text."""
        return "\n".join(text for text, _ in self.render_lines(uops)) + "\n"


# *** what renderers ask of a linear list


def function_name(uops: Sequence[UOp]) -> str:
    """The kernel's name, from the SINK that ends the list."""
    for u in reversed(uops):
        if u.op is Ops.SINK and isinstance(u.arg, KernelInfo):
            return u.arg.function_name
    return "test"


def buffers(uops: Sequence[UOp]) -> list[UOp]:
    """The buffers that a program is called with, by slot."""
    found = [u for u in uops if u.op is Ops.PARAM and u.arg.addrspace is not AddrSpace.ALU]
    return sorted(found, key=lambda u: int(u.arg.slot))


def variables(uops: Sequence[UOp]) -> list[UOp]:
    """The values that a program is called with, `core_id` among them, sorted by name."""
    found = [u for u in uops if u.op is Ops.PARAM and u.arg.addrspace is AddrSpace.ALU]
    return sorted(found, key=lambda u: str(u.arg.name))


# Words that the text around a kernel's statements uses itself.
_OWN_WORDS = re.compile(r"(data\d+|entry|(loop|next|end)_\w*)_*")


def variable_name(u: UOp) -> str:
    """A variable's name in a kernel's text: its own, with a _ behind a word of the text."""
    name = str(u.arg.name)
    return f"{name}_" if _OWN_WORDS.fullmatch(name) else name


def loop_name(u: UOp) -> str:
    """A loop variable's name: the letter of its kind, idx, the axis: Lidx1, Ridx0_1."""
    return f"{axis_letters[u.arg[-1]]}idx" + "_".join(str(i).replace("-", "m") for i in u.arg[:-1])


_ADDRESSES = frozenset({Ops.AFTER, Ops.INDEX, Ops.SHRINK, Ops.RESHAPE})


def buffer_of(u: UOp) -> UOp | None:
    """The PARAM or BUFFER whose memory a node stands for; None for a value."""
    while u.op in _ADDRESSES and u.src:
        u = u.src[0]
    if u.op in GroupOp.Defines and u.arg.addrspace is not AddrSpace.ALU:
        return u
    return None


def is_memory(u: UOp) -> bool:
    """Whether a node is a place in a buffer rather than a value."""
    return buffer_of(u) is not None


def int_shape(u: UOp) -> tuple[int, ...]:
    """The shape of a node as ints.

    Raises: RenderError for a symbolic size.
    """
    if any(not isinstance(s, int) for s in u.shape):
        raise RenderError(f"a program's value has the symbolic shape {u.shape}")
    return tuple(u.shape)


def constants_of(u: UOp) -> tuple[int, ...] | None:
    """The integers that an index, or a STACK of them, holds; None if one is not constant."""
    items = u.src if u.op is Ops.STACK else (u,)
    if any(i.op is not Ops.CONST for i in items):
        return None
    return tuple(int(i.arg) for i in items)
