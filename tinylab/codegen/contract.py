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
    def target(self) -> Target: ...
    @property
    def has_local(self) -> bool: ...
    @property
    def has_threads(self) -> bool: ...
    @property
    def has_shared(self) -> bool: ...
    @property
    def supports_float4(self) -> bool: ...
    @property
    def global_max(self) -> tuple[int, ...] | None: ...
    @property
    def local_max(self) -> tuple[int, ...] | None: ...
    @property
    def shared_max(self) -> int: ...
    @property
    def tensor_cores(self) -> Sequence[Any]: ...
    @property
    def code_for_op(self) -> Collection[Ops]: ...

    def vector_width(self, dtype: DType) -> int:
        """How many lanes of a type one native vector holds."""
        ...

    def supported_dtypes(self) -> Collection[DType]:
        """Types that values and memory may have; the others are emulated."""
        ...

    def render(self, uops: Sequence[UOp]) -> str:
        """The program's text."""
        ...
