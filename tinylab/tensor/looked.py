"""What people may look at without anything being computed: stored values, and constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinylab.dtype import DType, dtypes, strong_dtype
from tinylab.errors import TinylabError
from tinylab.mixin.base import shape_text
from tinylab.opcodes import GroupOp, Ops
from tinylab.tensor import data as host

if TYPE_CHECKING:
    from tinylab.tensor.tensor import Tensor

Array = Any  # numpy is loaded when something is shown, not before


class Looked:
    """A tensor as it is shown: its sizes as numbers, where its variables have values."""

    def __init__(self, x: Tensor) -> None:
        self.own, self.shape = x, shape_text(x.shape)
        self.bound: dict[str, int] = {}
        if not self._has_numbers():
            self._bind()

    def _has_numbers(self) -> bool:
        return all(isinstance(size, int) for size in self.own.shape)

    def _bind(self) -> None:
        found = {u: u.unbind() for u in self.own.uop.toposort() if u.is_bound_var}
        self.bound = {var.arg.name: value for var, value in found.values()}
        if found:
            fixed = self.own.uop.substitute({u: u.const_like(n) for u, (_, n) in found.items()})
            self.own = type(self.own)._from_uop(fixed.simplify())

    @property
    def where(self) -> str:
        """The values of the variables: "v = 3"; "" without any."""
        return ", ".join(f"{name} = {self.bound[name]}" for name in sorted(self.bound))

    @property
    def numel(self) -> int | None:
        """How many elements there are; None where a variable has no value."""
        return self.own.numel() if self._has_numbers() else None

    @property
    def constant(self) -> bool | int | float | None:
        """The value of all elements, where the graph says so and nothing needs computing."""
        node = self.own.uop
        while node.op in GroupOp.Movement or node.op is Ops.DETACH:
            if node.op is Ops.PAD:
                return None
            node = node.src[0]
        return node.arg if node.op is Ops.CONST else None

    def values(self) -> Array | None:
        """The values as an array; None where they are not computed yet.

        Raises: TinylabError where they cannot be read: NULL keeps none, a capture gives none.
        """
        if self.numel is None:
            return None
        value = self.constant
        if value is not None:
            import numpy as np

            return np.broadcast_to(_scalar(value, self.own.dtype), self.own.shape)
        if not self.own._is_stored():
            return None
        dtype = strong_dtype(self.own.dtype)
        # A look shares the memory; types that numpy lacks are copied as float32.
        view = self.own._shared_bytes() if dtype.fmt is not None else self.own._bytes()
        return host.to_numpy(view, dtype, self.own.shape)


def _scalar(value: bool | int | float, dtype: DType) -> Array:
    """A constant of a type; one without a type of its own is the number of Python."""
    import numpy as np

    if dtypes.is_weak(dtype) and (isinstance(value, float) or abs(value) < 1 << 63):
        return np.array(value)
    own = strong_dtype(dtype)
    return host.to_numpy(memoryview(host.pack([value], own)), own, ())


def repr_of(x: Tensor) -> str:
    """The tensor as a line: its values where they are few and known, else what it is."""
    look = Looked(x)
    where = f" where {look.where}" if look.bound else ""
    count = look.numel
    if count is not None and count <= 1000:
        try:
            values = look.values()
        except TinylabError:  # a line of text is no place for an error
            values = None
        if values is not None:
            shape = f"shape={look.shape}{where}, " if look.bound else ""
            return f"Tensor({_printed(values)}, {shape}dtype={x.dtype}, device={x.device!r})"
    return f"<Tensor {look.shape}{where} {x.dtype} on {x.device}>"


def _printed(values: Array) -> str:
    """The values as numpy prints them, on the lines that follow where there are several."""
    import numpy as np

    text = np.array2string(values, separator=", ", precision=4, suppress_small=False)
    return text if "\n" not in text else text.replace("\n", "\n       ")
