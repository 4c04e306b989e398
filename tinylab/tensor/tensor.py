"""Tensor: data in and out, values on demand, writes in place, gradients."""

from __future__ import annotations

import builtins
import pathlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tinylab.dtype import (
    DType,
    DTypeLike,
    dtypes,
    strong_dtype,
    to_dtype,
)
from tinylab.engine.buffers import memory_at
from tinylab.engine.capture import open_captures, refuse_data_access
from tinylab.engine.realize import to_store
from tinylab.errors import (
    AssignError,
    ContractError,
    CreationError,
    GradientError,
    JitError,
    OperandError,
    ScalarGradientError,
    ShapeError,
)
from tinylab.gradient import compute_gradient
from tinylab.helpers.arguments import explained
from tinylab.mixin.base import shape_text
from tinylab.opcodes import Ops
from tinylab.tensor import data as host, disk, filing
from tinylab.tensor.beside_numpy import of_values
from tinylab.tensor.core import canonical
from tinylab.tensor.held import ANYTHING, live
from tinylab.tensor.history import Unfolded
from tinylab.tensor.looked import repr_of
from tinylab.tensor.noting import note_methods, note_nodes
from tinylab.tensor.older import OlderSpellings, OlderSwitches, deprecated, take_requires_grad
from tinylab.tensor.realizing import realize_all
from tinylab.tensor.sharing import become
from tinylab.tensor.writing import accumulated, assign, operand, setitem, stored_copy
from tinylab.trace.provenance import user_line
from tinylab.uop.ops import UOp


def _unpickled(cls: Any, uop: UOp, grad: Any, is_param: bool | None) -> Any:
    """A tensor from what `__reduce__` gave."""
    found = cls(uop)
    found.grad, found.is_param = grad, is_param
    return found


class Tensor(OlderSpellings, metaclass=OlderSwitches):
    """An array of one element type, worked out when its values are asked for.

    Tensor([[1, 2], [3, 4]]) + 1 is a graph; .tolist(), .numpy(), .item() or .realize() compute it.

    data: a number, nested lists, bytes, a numpy array (copied), a file's pathlib.Path (read when
    it moves from there), a UOp, or None (empty).

    Raises: CreationError for data that no tensor can be made from.
    """

    __slots__ = ("__dict__",)  # of no tensor until somebody sets an attribute of their own
    __array_priority__ = 1000  # np.float32(2) * x is ours: an array would have no gradient

    @explained
    def __init__(
        self,
        data: Any = None,
        device: Any = None,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
    ) -> None:
        self.grad: Tensor | None = None
        self._view_of, self._views, self._path, self._stands = (), None, None, None
        self._marks = ANYTHING if isinstance(data, UOp) else 0
        self.is_param = None
        if requires_grad is not None:
            deprecated("requires_grad", "is_param_()", frames=4)
        if device is None and dtype is None and isinstance(data, UOp):
            self.uop = data  # a way of its own: each result of a replay is made here
        else:
            wanted = None if dtype is None else to_dtype(dtype)
            self.uop = _data_uop(data, canonical(device), wanted)
        live.add(self)
        if requires_grad is not None:
            self.is_param_(bool(requires_grad))

    def __reduce__(self) -> tuple[Any, ...]:
        """Its graph, with the memory that it stands on."""
        state = self.__dict__ or None  # what the user set
        return _unpickled, (type(self), self.uop, self.grad, self.is_param), state

    # *** for people

    def __repr__(self) -> str:
        return repr_of(self)

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if self.numel() != 1:
            raise OperandError(
                f"the format {spec!r} is for one number, not for shape {shape_text(self.shape)}",
                help="format what tolist() gives",
            )
        return format(self.item(), spec)

    def __round__(self, digits: builtins.int | None = None) -> Tensor:
        if not digits:
            return self.round()
        return (self * 10.0**digits).round() / 10.0**digits

    def __bool__(self) -> bool:
        raise OperandError(
            "__bool__ on Tensor is not defined", help="ask .item(), .any() or .all()"
        )

    def __float__(self) -> builtins.float:
        return builtins.float(self._only("float"))

    def __int__(self) -> builtins.int:
        return builtins.int(self._only("int"))

    def _only(self, what: str) -> Any:
        if self.numel() != 1:
            raise OperandError(
                f"{what}() needs a tensor of one element, not shape {shape_text(self.shape)}",
                help=f"cast a tensor with .{what}(), or take one element of it",
            )
        return self.item()

    def __len__(self) -> builtins.int:
        if not self.shape:
            raise OperandError("len() of a 0-d tensor")
        return builtins.int(self.shape[0])

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, x: Any) -> Tensor:  # type: ignore[override]
        return self.eq(x)

    def __ne__(self, x: Any) -> Tensor:  # type: ignore[override]
        return self.ne(x)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise OperandError("iteration over a 0-d tensor")
        return (self[i] for i in range(len(self)))

    def ufix(self, x: Any) -> Tensor:
        """x as an operand: numbers become constants, expressions of sizes integers.

        Raises: OperandError for anything else.
        """
        if isinstance(x, UOp):
            return Tensor._from_uop(x).cast(
                self.dtype if self.dtype.kind != "bool" else dtypes.default_int
            )
        return super().ufix(x)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """What numpy.sum(x) and its like ask: theirs is the answer, for the values."""
        return of_values(function, types, args, kwargs)

    # *** values

    def realize(self, *lst: Tensor, do_update_stats: bool = True) -> Tensor:
        """Compute this and other tensors, and return this one.

        What is weak gets the default type of its kind, as memory has one; a bare number stays.

        Raises: what the stages raise: ScheduleError, CompileError, DeviceError.
        """
        for t in (self, *lst):
            if dtypes.is_weak(t.dtype) and t.uop.base.op is not Ops.CONST:
                t.uop, t._marks = t.uop.cast(strong_dtype(t.dtype)), ANYTHING
                live.changed(t)
        realize_all([self, *lst])
        return self

    def _is_stored(self) -> bool:
        return self.uop.is_realized and to_store(self.uop) is None

    def _stored(self) -> Tensor:
        """The values in one piece of memory, in a type that has storage."""
        refuse_data_access()
        # This tensor itself stays a graph: a look at a loss must not cut off its gradient.
        found = self.cast(strong_dtype(self.dtype)).contiguous()
        if found.uop is self.uop and found.uop.op is Ops.CONTIGUOUS:
            found = Tensor._from_uop(found.uop.f(Ops.CONTIGUOUS, arg="asked for by a look at it"))
        realize_all([found], look=True)
        if memory_at(found.uop) is None:
            found = Tensor._from_uop(found.uop.f(Ops.CONTIGUOUS))
            realize_all([found], look=True)
        return found

    # *** devices and copies

    def to(self, device: Any) -> Tensor:
        """This tensor on another device; itself if it is there already."""
        place = canonical(device)
        if place == self.device:
            return self
        if disk.on_disk(self.device):
            return self._moved(Tensor._from_uop(disk.moved(self.uop, place)))
        # What is somewhere is strong: memory has no weak type. (Readers make a constant.)
        strong = self.cast(strong_dtype(self.dtype)).uop
        if strong.device is None and self.uop.base.op is not Ops.CONST:
            if not disk.on_disk(place):
                return self._moved(Tensor._from_uop(stored_copy(strong, place)))
            strong = stored_copy(strong, self.device)  # a file computes nothing
        return self._moved(Tensor._from_uop(strong.copy_to_device(place)))

    def _moved(self, found: Tensor) -> Tensor:
        found.is_param = self.is_param
        if self.grad is not None:
            found.grad = self.grad.to(found.device)
        return found

    def to_(self, device: Any) -> Tensor:
        """Move this tensor to another device."""
        found = self.to(device)
        become(self, found)
        self.grad, self._marks = found.grad, ANYTHING
        return self

    def clone(self, device: Any = None) -> Tensor:
        """A copy in storage of its own."""
        place = self.device if device is None else canonical(device)
        source = self.cast(strong_dtype(self.dtype)).to(place)
        return Tensor._from_uop(stored_copy(source.uop, place))

    # *** writing

    def custom_kernel(
        self, *lst: Tensor, fxn: Callable[..., UOp], grad_fxn: Callable[..., Any] | None = None
    ) -> list[Tensor]:
        """All the tensors after a kernel written in uops; outputs come first by convention.

        fxn gets a placeholder for each tensor and returns a SINK with a KernelInfo (or a PROGRAM).
        grad_fxn(grad, call) returns a gradient or None for each tensor; without it one that is
        asked for is refused.

        Raises: ContractError for a kernel that is none, whose loops are left open, or that reads
        a tensor at other places than it writes it.
        """
        tensors = (self, *lst)
        try:
            found = UOp.custom_kernel(*(t.uop for t in tensors), fxn=fxn, grad_fxn=grad_fxn)
        except ContractError as e:
            e.help = f"{e.help}; asked for at {user_line()}" if e.help else None
            raise
        return [Tensor._from_uop(u) for u in found]

    def assign(self, x: Any) -> Tensor:
        """Write values in place; what was built from this tensor before keeps the old ones.

        A write is all there or not at all, for other threads too. `a.assign(a + 1)` reads and
        writes in two steps: threads that do so with one tensor need a lock, or updates are lost.

        Raises: AssignError for another type or device; ShapeError when the shape does not fit.
        """
        if disk.on_disk(self.device):
            filing.assign(self, self.uop, x)
        else:
            assign(self, operand(self, x, "assign"))
        return self

    def replace(self, x: Tensor) -> Tensor:
        """Become another tensor of the same shape.

        Inside a captured function this is done once, not at each replay: `assign` is.

        Raises: ContractError for another shape.
        """
        if x.shape != self.shape:
            raise ContractError(
                f"replace shape mismatch {shape_text(self.shape)} != {shape_text(x.shape)}"
            )
        old, self._marks = self.uop, x._marks
        become(self, x)
        live.wrote(self, old)
        live.replaced(self, old)
        return self

    def __setitem__(self, indices: Any, v: Any) -> None:
        if disk.on_disk(self.device):
            filing.setitem(self, indices, v)
        else:
            setitem(self, indices, v)
        live.add(self)

    def __delitem__(self, indices: Any) -> None:
        raise OperandError("Tensor does not support deleting items")

    def _index_tensor(self, items: Any) -> Tensor:
        found = Tensor(items, device=self.device)
        return found.cast(dtypes.default_int) if found.shape == (0,) else found

    def _mask_index(self, mask: Tensor) -> list[Tensor]:
        """The places of a mask's true elements, one tensor for each axis."""
        table = mask.nonzero()
        return [table[:, i] for i in range(mask.ndim)]

    def _known_count(self, mask: Tensor) -> int:
        if open_captures():
            raise JitError(
                "a mask picks as many elements as it has true ones, which a captured function "
                "cannot know",
                help="use mask.where(value, x), or pick outside",
            )
        # Kept, so that what a write by a mask changes is not what the mask is worked out from.
        return int(mask.realize().cast(dtypes.int32).sum().item())

    # *** gradients

    def is_param_(self, is_param: bool = True) -> Tensor:
        """Say whether `backward` gives this tensor a gradient even where others have none.

        A constant, such as Tensor(2.0), gets memory: what is made of it from now on depends on it.
        """
        self.is_param = is_param
        if is_param and self.uop.base.op is Ops.CONST:
            self.uop = self.clone().uop
            live.changed(self)
        return self

    def gradient(self, *targets: Tensor, gradient: Tensor | None = None) -> list[Tensor]:
        """The derivatives of this value with respect to other tensors.

        (x * x).sum().gradient(x) -> [2 * x]

        A target that this value does not depend on has zeros.

        Raises: ScalarGradientError without `gradient` unless there is one value; GradientError for
        an integer, and for a bare number such as Tensor(2.0).
        """
        found = self._gradients([t.uop for t in targets], gradient)
        for t in targets:
            if t.dtype.kind != "float":
                raise GradientError(f"only float Tensors have gradient, not {t.dtype}")
            if t.uop.op is Ops.CONST and t.shape == ():  # each 2.0 of a graph is one node
                what = "a weak Tensor" if dtypes.is_weak(t.dtype) else "a constant"
                raise GradientError(
                    f"cannot take gradient wrt {what}: {t.uop.arg} is no place of its own",
                    help="is_param_() makes it one, and so does a dtype in Tensor(number, dtype=…)",
                )
        return [
            Tensor._from_uop(found[t.uop]) if t.uop in found else t.zeros_like() for t in targets
        ]

    def _gradients(self, targets: Sequence[UOp], gradient: Tensor | None) -> dict[UOp, UOp]:
        if self.dtype.kind != "float":
            raise GradientError(f"only float Tensors have gradient, not {self.dtype}")
        if gradient is None:
            if self.shape != ():
                raise ScalarGradientError(
                    "backward must be called on a scalar tensor, not on shape "
                    f"{shape_text(self.shape)}",
                    help="reduce it with .sum() or .mean(), or pass gradient=",
                )
            first = UOp.const(1.0, self.dtype)
        else:
            if gradient.shape != self.shape:
                raise ShapeError(
                    f"gradient shape must match: {shape_text(gradient.shape)} for "
                    f"{shape_text(self.shape)}"
                )
            first = gradient.cast(self.dtype).uop
        known = set(self.uop.toposort())
        graph = Unfolded(self.uop)
        for line in sorted(graph.cut):
            warnings.warn(
                f"gradients end at memory that held a value they go through: {line} ran a write "
                "to it; call backward before, or write x = x + y, not x += y",
                stacklevel=5,
            )
        inside = {t: graph.inside(t) for t in targets}
        grads = graph.folded(compute_gradient(graph.root, first, inside.values()))
        found = {t: grads[u] for t, u in inside.items() if u in grads}
        note_nodes(found.values(), "backward", known, backward=True)
        return found

    def backward(self, gradient: Tensor | None = None) -> Tensor:
        """Give every leaf tensor below its gradient in `.grad`, added to what is there.

        Leaves are the tensors marked by `is_param_` (an optimizer marks its own); where none is
        marked, all float tensors with storage of their own.

        A look at values (`item`, `numpy`, …) cuts off no gradient, `realize` does: what lies in
        memory is a leaf. So is, after a look, what was written into memory that held a value before
        and depends on that value, and what was made of memory that is overwritten by then: a
        warning says where that ends the gradients of parameters. And so is, where no parameter is
        below, what was made of what an earlier look found written.

        Raises: ScalarGradientError without `gradient` unless there is one value.
        """
        below = {*self.uop.toposort(enter_calls=False)}
        below.update(Unfolded(self.uop).root.toposort(enter_calls=False))
        found = [t for t in live if t.uop in below and t.dtype.kind == "float" and t is not self]
        marked = [t for t in found if t.is_param]
        leaves = marked or [t for t in found if t.uop.has_buffer_identity(after_ok=True)]
        grads = self._gradients([t.uop for t in leaves], gradient)
        for t in leaves:
            uop = grads.get(t.uop)
            if uop is None:
                continue
            grad = Tensor._from_uop(uop)
            t.grad = grad if t.grad is None else accumulated(t.grad, grad)
            live.add(t.grad)
        return self

    # *** in-place operators

    def __iadd__(self, x: Any) -> Tensor:
        return self.assign(self._fitting(self.add(x)))

    def __isub__(self, x: Any) -> Tensor:
        return self.assign(self._fitting(self.sub(x)))

    def __imul__(self, x: Any) -> Tensor:
        return self.assign(self._fitting(self.mul(x)))

    def __itruediv__(self, x: Any) -> Tensor:
        return self.assign(self._fitting(self.div(x)))

    def __ifloordiv__(self, x: Any) -> Tensor:
        return self.assign(self._fitting(self // x))

    def __ipow__(self, x: Any) -> Tensor:
        return self.assign(self._fitting(self.pow(x)))

    def __iand__(self, x: Any) -> Tensor:
        return self.assign(self._fitting(self.bitwise_and(x)))

    def __ior__(self, x: Any) -> Tensor:
        return self.assign(self._fitting(self.bitwise_or(x)))

    def __ixor__(self, x: Any) -> Tensor:
        return self.assign(self._fitting(self.bitwise_xor(x)))

    def __ilshift__(self, x: Any) -> Tensor:
        return self.assign(self._fitting(self.lshift(x)))

    def __irshift__(self, x: Any) -> Tensor:
        return self.assign(self._fitting(self.rshift(x)))

    def __imatmul__(self, x: Tensor) -> Tensor:
        return self.assign(self._fitting(self.matmul(x)))

    def _fitting(self, result: Tensor) -> Tensor:
        """The result of an operation in place, in this tensor's type."""
        own = strong_dtype(self.dtype)
        if result.dtype is not own:
            if result.dtype.kind == "float" and own.kind != "float":
                raise AssignError(
                    f"assign dtype mismatch {own} != {result.dtype}: a float result does "
                    "not fit an integer tensor in place",
                    help="write x = x op y instead",
                )
            return result.cast(own)
        return result


def _data_uop(data: Any, device: Any, dtype: DType | None) -> UOp:
    """The node for what a Tensor is made from."""
    if isinstance(data, UOp):
        return data if dtype is None else data.cast(dtype)
    if isinstance(data, (bool, int, float)) and not host.is_array(data):  # as a np.float64 is
        if dtype is None:
            wide = type(data) is int and host.dtype_of_ints((data,)) is not dtypes.default_int
            return UOp.const(data, dtypes.int64 if wide else None)
        return host.buffer_uop(host.pack([data], dtype), dtype, (), device)
    if data is None:
        return host.empty_uop((0,), dtype or dtypes.default_float, device)
    if isinstance(data, (bytes, bytearray, memoryview)):
        return host.memory_uop(data, dtype, device)
    if isinstance(data, (list, tuple)):
        if any(isinstance(x, Tensor) for x in data):
            return _stacked(data, dtype).uop
        return host.list_uop(data, dtype, device)
    if isinstance(data, pathlib.Path):
        return disk.file_uop(data, dtype or dtypes.uint8)
    if hasattr(data, "__array__"):
        return host.array_uop(data, dtype, device)
    raise CreationError(
        f"can't create Tensor from {data!r} with type {type(data).__name__}",
        help="give a number, nested lists, bytes, a numpy array or a UOp",
    )


def _stacked(data: Sequence[Any], dtype: DType | None) -> Tensor:
    parts = [x if isinstance(x, Tensor) else Tensor(x) for x in data]
    found = parts[0].stack(*parts[1:])
    return found if dtype is None else found.cast(dtype)


take_requires_grad(Tensor)
note_methods(Tensor)
