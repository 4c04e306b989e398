"""What code generation asks of a target; `renderer.base` satisfies it without importing it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from tinylab.dtype import DType
    from tinylab.opcodes import Ops
    from tinylab.target import Target
    from tinylab.uop.ops import UOp


@runtime_checkable
class Renderer(Protocol):
    """Turns the lines of a program into text, and says what its target can do.

    code_for_op holds the Ops that the target has by itself; everything else is decomposed first.
    global_max and local_max are the limits of the grid and of a workgroup, per axis.
    """

    @property
    def target(self) -> Target:
        """What is compiled for."""
        ...

    @property
    def has_local(self) -> bool:
        """Whether there are workgroups."""
        ...

    @property
    def has_threads(self) -> bool:
        """Whether a kernel may be split over CPU threads."""
        ...

    @property
    def has_shared(self) -> bool:
        """Whether a workgroup has memory of its own."""
        ...

    @property
    def supports_float4(self) -> bool:
        """Whether memory is accessed several elements at a time."""
        ...

    @property
    def global_max(self) -> tuple[int, ...] | None:
        """Limits of the grid, per axis; None is no limit."""
        ...

    @property
    def local_max(self) -> tuple[int, ...] | None:
        """Limits of a workgroup, per axis; None is no limit."""
        ...

    @property
    def shared_max(self) -> int:
        """Bytes of workgroup memory."""
        ...

    @property
    def tensor_cores(self) -> Sequence[Any]:
        """Matrix instructions."""
        ...

    @property
    def code_for_op(self) -> Collection[Ops]:
        """Operations that the target has by itself."""
        ...

    def vector_width(self, dtype: DType) -> int:
        """How many lanes of a type one native vector holds."""
        ...

    def supported_dtypes(self) -> Collection[DType]:
        """Types that values and memory may have; the others are emulated."""
        ...

    def render(self, uops: Sequence[UOp]) -> str:
        """The program's text."""
        ...
