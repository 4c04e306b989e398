"""How nodes are made: constants, loops, storage, calls. Methods of UOp, by topic."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from tinylab.dtype import AddrSpace, DType, Invalid, dtypes, strong_dtype
from tinylab.errors import (
    BindError,
    ContractError,
    DTypeError,
    IndexingError,
    OperandError,
)
from tinylab.helpers.arguments import shown
from tinylab.mixin.base import Number, shape_text
from tinylab.opcodes import AxisType, GroupOp, Ops
from tinylab.uop.args import CallInfo, KernelInfo, ParamArg, RangeArg, ReduceArg, StageArg
from tinylab.uop.infer import infer_dtype
from tinylab.uop.intern import callable_number, make
from tinylab.uop.kernel_order import refuse_unordered, slots_written
from tinylab.uop.moves import MoveMethods, Sint, const, shape_to_shape_arg, sint_to_uop
from tinylab.uop.names import check_variable

if TYPE_CHECKING:
    from tinylab.device import Buffer, MultiBuffer
    from tinylab.uop.node import UOp

numbers = itertools.count()


def fresh_number() -> int:
    """A number no buffer or placeholder of this process has yet."""
    return next(numbers)


def _as_uop(x: Any, dtype: DType | None = None) -> UOp:
    return const(x, dtype) if isinstance(x, int | float) or x is Invalid else x


class BuildMethods(MoveMethods):
    """Constructors and methods of UOp that make nodes."""

    __slots__ = ()

    # *** values

    @staticmethod
    def const(b: Any, dtype: DType | None = None) -> UOp:
        """A constant; a tuple gives a STACK, a node is cast."""
        if isinstance(b, tuple):
            return BuildMethods.stack(
                *(BuildMethods.const(v, dtype or dtypes.from_py(b)) for v in b)
            )
        if not isinstance(b, int | float) and b is not Invalid:
            if not hasattr(b, "src"):
                raise OperandError(f"a constant is a number or a UOp, not {shown(b)}")
            return b if dtype is None else b.cast(dtype)  # type: ignore[no-any-return]
        return const(b, dtype)

    @staticmethod
    def cconst(b: Any, dtype: DType) -> UOp:
        """A constant by value, cast to a type."""
        return BuildMethods.const(b).cast(dtype)

    @staticmethod
    def invalid() -> UOp:
        """The constant that an index has where it must not be used."""
        return const(Invalid)

    def const_like(self: UOp, b: Any, dtype: DType | None = None) -> UOp:
        """A constant of this node's dtype, expanded to its shape."""
        value = BuildMethods.const(b, dtype or self.dtype)
        shape = self._shape
        if not shape:
            return value
        return value._expand_front(shape)

    @staticmethod
    def range(
        end: Sint,
        axis_id: int,
        axis_type: Any = AxisType.WEAK,
        *arg: Any,
        dtype: DType = dtypes.weakint,
        src: tuple[UOp, ...] = (),
    ) -> UOp:
        """A loop variable that counts from 0 to end-1.

        More ids may stand before the type: UOp.range(4, 0, 1, AxisType.LOCAL).
        """
        return make(
            Ops.RANGE, dtype, (sint_to_uop(end, dtype), *src), RangeArg((axis_id, axis_type, *arg))
        )

    @staticmethod
    def loop(axis_id: int, *arg: Any) -> UOp:
        """An unbounded loop, closed by effect.end(loop, go_on)."""
        forever = make(Ops.NOOP, dtypes.void)
        kind = arg or (AxisType.LOOP,)
        return make(Ops.RANGE, dtypes.void, (forever,), RangeArg((axis_id, *kind)))

    @staticmethod
    def special(end: Sint, name: str, dtype: DType = dtypes.weakint) -> UOp:
        """A grid index 0..end-1."""
        return make(Ops.SPECIAL, dtype, (sint_to_uop(end, dtype),), name)

    @staticmethod
    def variable(
        name: str,
        min_val: Number,
        max_val: Number,
        dtype: DType = dtypes.weakint,
        multiple_of: int = 1,
        param: bool = False,
    ) -> UOp:
        """A named size with bounds; param=True gives the kernel's side of it.

        Raises: SymbolicError for a name that is no string, and for bounds that hold no number.
        """
        check_variable(name, min_val, max_val, dtype)
        return BuildMethods._variable_of_any_name(name, min_val, max_val, dtype, multiple_of, param)

    @staticmethod
    def _variable_of_any_name(
        name: str,
        min_val: Any,
        max_val: Any,
        dtype: DType = dtypes.weakint,
        multiple_of: int = 1,
        param: bool = False,
    ) -> UOp:
        """As `variable`, under any name."""
        arg = ParamArg(
            -1,
            dtype,
            (min_val, max_val),
            None if multiple_of == 1 else multiple_of,
            name,
            AddrSpace.ALU,
        )
        return make(Ops.PARAM if param else Ops.BUFFER, dtype, (shape_to_shape_arg(()),), arg)

    def bind(self: UOp, val: Number) -> UOp:
        """The variable with a value.

        Raises: BindError outside the variable's range or off its multiple.
        """
        if not self.is_variable:
            raise BindError(f"need Variable, not {self.op}")
        lo, hi = self.arg.vmin_vmax
        if not isinstance(val, int) and not hasattr(val, "vmin"):
            raise BindError(f"{self.arg.name} is bound to an int, not {val!r}")
        value = _as_uop(val, self.dtype)
        if not lo <= value.vmin <= value.vmax <= hi:
            raise BindError(f"bind {val} not in range [{lo}, {hi}] of {self.arg.name}")
        step = self.arg.multiple_of
        if step and isinstance(val, int) and val % step:
            raise BindError(f"bind {val} not divisible by {step}, as {self.arg.name} must be")
        return self.after(make(Ops.STORE, dtypes.void, (self, value)))

    @property
    def is_variable(self: UOp) -> bool:
        """Whether this is a named size."""
        return self.op in GroupOp.Defines and self.arg.addrspace is AddrSpace.ALU

    @property
    def is_bound_var(self: UOp) -> bool:
        """Whether this is a named size with a value."""
        return self.op is Ops.AFTER and self.src[0].is_variable

    def unbind(self: UOp) -> tuple[UOp, int]:
        """(variable, value) of a bound variable.

        Raises: BindError for anything else.
        """
        if not self.is_bound_var or self.src[1].src[1].op is not Ops.CONST:
            raise BindError(f"can't unbind {self.op}: it is no Variable with a value")
        return self.src[0], int(self.src[1].src[1].arg)

    def unbind_all(self: UOp) -> tuple[UOp, dict[UOp, int]]:
        """(the expression with bare variables, their values)."""
        bound = {u: u.unbind() for u in self.toposort() if u.is_bound_var}
        bare = self.substitute({u: var for u, (var, _) in bound.items()}) if bound else self
        return bare, dict(bound.values())

    @property
    def expr(self: UOp) -> str:
        """The name of a variable."""
        return str((self.src[0] if self.op is Ops.AFTER else self).arg.name)

    # *** storage

    @staticmethod
    def param(
        slot: int,
        dtype: DType,
        shape: tuple[Sint, ...] | None = None,
        device: Any = None,
        vmin_vmax: tuple[Any, Any] | None = None,
        multiple_of: int | None = None,
        name: str | None = None,
        addrspace: AddrSpace = AddrSpace.GLOBAL,
        axis: int | None = None,
        volatile: bool = False,
    ) -> UOp:
        """The numbered input of a body; without a shape it is no array.

        Raises: DTypeError for a weak dtype.
        """
        if dtypes.is_weak(dtype) and addrspace is not AddrSpace.ALU:
            raise DTypeError(f"cannot create param for weak dtype {dtype}", help="cast it first")
        size = make(Ops.NOOP, dtypes.void) if shape is None else shape_to_shape_arg(shape)
        arg = ParamArg(slot, dtype, vmin_vmax, multiple_of, name, addrspace, axis, device, volatile)
        return make(Ops.PARAM, dtype, (size,), arg)

    def param_like(self: UOp, slot: int) -> UOp:
        """The PARAM that stands for this value in a body."""
        if self.is_variable or self.is_bound_var:
            var = self.src[0] if self.is_bound_var else self
            return make(Ops.PARAM, self.dtype, var.src, var.arg._replace(slot=slot))
        return BuildMethods.param(slot, self.dtype, self._shape, self.device, axis=self.axis)

    @staticmethod
    def placeholder(
        shape: tuple[int, ...],
        dtype: DType,
        slot: int | None = None,
        addrspace: AddrSpace = AddrSpace.GLOBAL,
        device: Any = None,
        volatile: bool = False,
        tag: Any = None,
    ) -> UOp:
        """An array inside a kernel: GLOBAL is a flat PARAM, LOCAL and REG a flat BUFFER."""
        if addrspace is not AddrSpace.GLOBAL and device is not None:
            raise ContractError(f"a {addrspace.name} placeholder has no device, not {device!r}")
        arg = ParamArg(
            fresh_number() if slot is None else slot,
            strong_dtype(dtype),
            addrspace=addrspace,
            device=device,
            volatile=volatile,
        )
        size = 1
        for s in shape:
            size *= s
        op = Ops.PARAM if addrspace is AddrSpace.GLOBAL else Ops.BUFFER
        flat = make(op, arg.dtype, (const(size),), arg, tag)
        return flat if len(shape) == 1 else flat._reshape(shape)

    def placeholder_like(self: UOp, slot: int, addrspace: AddrSpace = AddrSpace.GLOBAL) -> UOp:
        """A placeholder of this value's dtype and shape; of its shard's shape on several devices.

        Raises: ContractError for a symbolic shape.
        """
        if not all(isinstance(s, int) for s in self.shape):
            raise ContractError(f"no placeholder-like on symbolic shape {shape_text(self.shape)}")
        return BuildMethods.placeholder(self.shard_shape, self.dtype, slot, addrspace)

    @staticmethod
    def new_buffer(device: Any, size: int, dtype: DType, num: int | None = None) -> UOp:
        """A flat BUFFER of its own on a device.

        Raises: DTypeError for a weak dtype.
        """
        if dtypes.is_weak(dtype):
            raise DTypeError(f"cannot create storage for weak dtype {dtype}", help="cast it first")
        arg = ParamArg(fresh_number() if num is None else num, dtype, device=device)
        return make(Ops.BUFFER, dtype, (const(size),), arg)

    @staticmethod
    def from_buffer(opaque: Buffer | MultiBuffer, device: Any = None) -> UOp:
        """The BUFFER node of existing storage."""
        node = BuildMethods.new_buffer(device or opaque.device, opaque.size, opaque.dtype)
        node._buffer = opaque
        return node

    # *** order and effects

    def sink(*srcs: UOp | None, **kwargs: Any) -> UOp:
        """The root that joins effects; None is left out."""
        found = tuple(s for s in srcs if s is not None)
        return make(Ops.SINK, dtypes.void, found, kwargs.get("arg"), kwargs.get("tag"))

    def group(*srcs: UOp | None, **kwargs: Any) -> UOp:
        """Effects joined without meaning; one alone is itself."""
        found = tuple(s for s in srcs if s is not None)
        if len(found) == 1 and not kwargs:
            return found[0]
        return make(Ops.GROUP, dtypes.void, found, kwargs.get("arg"), kwargs.get("tag"))

    def maketuple(*srcs: UOp) -> UOp:
        """Several results as one."""
        return make(Ops.TUPLE, dtypes.void, srcs)

    def gettuple(self: UOp, idx: int) -> UOp:
        """One of several results."""
        results = self if self.op is Ops.TUPLE else self.src[0]
        if not 0 <= idx < len(results.src):
            raise IndexingError(f"gettuple: there are {len(results.src)} results, none is {idx}")
        if results is self:
            return self.src[idx]
        return make(Ops.GETTUPLE, infer_dtype(Ops.GETTUPLE, (self,), idx), (self,), idx)

    def stack(*srcs: UOp, dim: int | None = None) -> UOp:
        """Values joined along a new axis; without dim as one STACK node, the new axis first."""
        if dim is not None:
            return super(BuildMethods, srcs[0]).stack(*srcs[1:], dim=dim)
        return make(Ops.STACK, infer_dtype(Ops.STACK, srcs, None), srcs)

    def after(self: UOp, *src: UOp, **kwargs: Any) -> UOp:
        """This value, ordered after others."""
        return make(Ops.AFTER, self.dtype, (self, *src), None, kwargs.get("tag")) if src else self

    def end(self: UOp, *src: UOp) -> UOp:
        """This effect, with loops closed."""
        return make(Ops.END, dtypes.void, (self, *src)) if src else self

    def barrier(self: UOp, *src: UOp) -> UOp:
        """A workgroup barrier after effects."""
        return make(Ops.BARRIER, dtypes.void, (self, *src))

    def load(self: UOp, *src: UOp, **kwargs: Any) -> UOp:
        """Read; sources: an alternative value and a gate."""
        return make(Ops.LOAD, kwargs.get("dtype", self.dtype), (self, *src))

    def store(self: UOp, src: Any, gate: UOp | None = None, **kwargs: Any) -> UOp:
        """Write; a Python value becomes a constant of the target's dtype."""
        value = _as_uop(src, self.dtype)
        tail = () if gate is None else (gate,)
        return make(Ops.STORE, dtypes.void, (self, value, *tail), kwargs.get("arg"))

    def set(self: UOp, val: Any, end: UOp | Sequence[UOp] = ()) -> UOp:
        """The array after this element was stored and the loops ended.

        acc = acc[0].set(acc.after(r)[0] + x[r], end=r)
        """
        loops = tuple(end) if isinstance(end, tuple | list) else (end,)
        array = self.src[0]
        while array.op is Ops.AFTER:
            array = array.src[0]
        return array.after(self.store(val).end(*cast("tuple[UOp, ...]", loops)))

    def alu(self: UOp, op: Ops, *src: UOp, **kwargs: Any) -> UOp:
        """An operation on this and other nodes."""
        srcs = (self, *src)
        return make(op, kwargs.get("dtype") or infer_dtype(op, srcs, None), srcs)

    def f(self: UOp, op: Ops, **kwargs: Any) -> UOp:
        """A node with this one as its only source, of the same dtype unless stated."""
        return make(
            op, kwargs.get("dtype", self.dtype), (self,), kwargs.get("arg"), kwargs.get("tag")
        )

    def cast(self: UOp, dtype: str | DType) -> UOp:
        """The value converted; the same type is itself."""
        from tinylab.dtype import to_dtype

        dtype = to_dtype(dtype)
        return self if self.dtype is dtype else make(Ops.CAST, dtype, (self,), dtype)

    def bitcast(self: UOp, dtype: str | DType) -> UOp:
        """The bits read as another type.

        Raises: DTypeError for weak dtypes.
        """
        from tinylab.dtype import to_dtype

        dtype = to_dtype(dtype)
        if self.dtype is dtype:
            return self
        if dtypes.is_weak(dtype) or dtypes.is_weak(self.dtype):
            raise DTypeError(f"bitcast requires concrete dtypes, not {self.dtype} to {dtype}")
        return make(Ops.BITCAST, dtype, (self,), dtype)

    # *** arrays

    def index(self: UOp, *srcs: Any, **kwargs: Any) -> UOp:
        """The element (or sub-array) at the given place; ints become constants, None is skipped."""
        idx = tuple(_as_uop(s) for s in srcs if s is not None)
        if self.op is Ops.STACK and len(idx) == 1 and idx[0].op is Ops.CONST:
            found: UOp = self.src[idx[0].arg]
            return found
        return make(Ops.INDEX, kwargs.get("dtype", self.dtype), (self, *idx))

    def __getitem__(self: UOp, idx: Any) -> UOp:
        """An element or part: of an array inside a kernel, or of a tensor value."""
        if self.device is None and self.addrspace not in (None, AddrSpace.ALU):
            return self.kernel_getitem(idx)
        return super().__getitem__(idx)

    def kernel_getitem(self: UOp, idx: Any) -> UOp:
        """x[…] on an array inside a kernel: places give an INDEX, slices a SHRINK.

        Raises: IndexingError for more indices than axes.
        """
        items = idx if isinstance(idx, tuple) else (idx,)
        if len(items) > len(self.shape):
            raise IndexingError(
                f"too many indices: {len(items)} for shape {shape_text(self.shape)}"
            )
        array: UOp = self
        if any(isinstance(i, slice) for i in items):
            array = self._shrink(
                *zip(
                    *(
                        _slice_bounds(i, s)
                        for i, s in itertools.zip_longest(items, self.shape, fillvalue=slice(None))
                    ),
                    strict=True,
                )
            )
        places = tuple(i for i in items if not isinstance(i, slice))
        if len(places) == len(items):
            return array.index(*places)
        lead = tuple(i for i, item in enumerate(items) if not isinstance(item, slice))
        kept = tuple(i for i in range(len(array.shape)) if i not in lead)
        return array._permute(lead + kept).index(*places) if places else array

    def valid(self: UOp, cond: UOp) -> UOp:
        """This index where cond holds; Invalid elsewhere."""
        if cond.op is Ops.CONST and cond.arg is True:
            return self
        return make(Ops.WHERE, self.dtype, (cond, self, const(Invalid)))

    def get_idx(self: UOp) -> UOp:
        """The index without its condition."""
        guarded = self.op is Ops.WHERE and self.src[2].arg is Invalid
        return self.src[1] if guarded else self

    def get_valid(self: UOp) -> UOp:
        """The condition of an index; the constant True for a plain one."""
        guarded = self.op is Ops.WHERE and self.src[2].arg is Invalid
        return self.src[0] if guarded else const(True)

    @property
    def is_invalid(self: UOp) -> bool:
        """Whether this is the constant of an index not to be used."""
        return self.op is Ops.CONST and self.arg is Invalid

    def broadcast(self: UOp, count: int) -> UOp:
        """Count copies along a new axis; one copy is the value itself."""
        return self if count == 1 else BuildMethods.stack(*([self] * count))

    def contract(self: UOp, *rngs: UOp) -> UOp:
        """A STACK of this value at every value of the ranges, the last one fastest."""
        sizes = [range(r.vmax + 1) for r in rngs]
        found = [
            self.substitute({r: r.const_like(v) for r, v in zip(rngs, at, strict=True)})
            for at in itertools.product(*sizes)
        ]
        return BuildMethods.stack(*found)

    def reduce(self: UOp, *src: UOp, **kwargs: Any) -> UOp:
        """The value reduced over ranges; arg is the operation (or a ReduceArg)."""
        arg = kwargs.get("arg", Ops.ADD)
        reduce_arg = ReduceArg(arg, 0) if isinstance(arg, Ops) else ReduceArg(*arg)
        return make(Ops.REDUCE, self.dtype, (self, *src), reduce_arg)

    def stage(self: UOp, *rngs: UOp, arg: StageArg) -> UOp:
        """This value, stored over ranges."""
        return make(Ops.STAGE, self.dtype, (self, *rngs), arg)

    def detach(self: UOp) -> UOp:
        """The same value, where gradients stop."""
        return make(Ops.DETACH, self.dtype, (self,))

    def contiguous(self: UOp, **kwargs: Any) -> UOp:
        """The same value, stored."""
        return self if self.op is Ops.CONTIGUOUS else make(Ops.CONTIGUOUS, self.dtype, (self,))

    def contiguous_backward(self: UOp) -> UOp:
        """The same value, whose gradient is stored."""
        return make(Ops.CONTIGUOUS_BACKWARD, self.dtype, (self,))

    # *** devices and calls

    def copy_to_device(self: UOp, device: Any, arg: Any = None) -> UOp:
        """The value on another device; a weak one passes through memory as the strong one."""
        strong = self.cast(strong_dtype(self.dtype))
        return make(Ops.COPY, strong.dtype, (strong,), device).cast(self.dtype)

    @staticmethod
    def custom_function(name: str, *src: UOp) -> UOp:
        """A host action, for use in a CALL."""
        return make(Ops.CUSTOM_FUNCTION, dtypes.void, src, name)

    def call(
        self: UOp,
        *srcs: UOp,
        grad_fxn: Callable[..., Any] | None = None,
        name: str | None = None,
        precompile: bool = False,
        precompile_backward: bool = False,
        aux: Any = None,
    ) -> UOp:
        """This body called with arguments: opaque bodies give a CALL, values a FUNCTION.

        Raises: OperandError for arguments that are not what the body's parameters are.
        """
        grad_key = None if grad_fxn is None else callable_number(grad_fxn)
        arg = CallInfo(name, precompile, precompile_backward, aux, grad_key)
        if self.op in _OPAQUE:
            return make(Ops.CALL, dtypes.void, (self, *srcs), arg)
        body = self if self.op is Ops.TUPLE else BuildMethods.maketuple(self)
        _check_arguments(body, srcs)
        return make(Ops.FUNCTION, dtypes.void, (body, *srcs), arg)

    def custom_kernel(
        *srcs: UOp, fxn: Callable[..., UOp], grad_fxn: Callable[..., Any] | None = None
    ) -> list[UOp]:
        """The sources after a kernel written in uops; the outputs come first by convention.

        fxn gets a placeholder for each source (slot = position) and returns a SINK with a
        KernelInfo, or a PROGRAM. grad_fxn(grad, call) gives a gradient or None for each source.

        Raises: ContractError for another result, for loops that are left open, and for an array
        that is read at other places than it is written.
        """
        stored = [s if s.has_buffer_identity(after_ok=True) else s.contiguous() for s in srcs]
        kernel = fxn(*(s.placeholder_like(n) for n, s in enumerate(stored)))
        is_node = isinstance(kernel, BuildMethods)
        if not is_node or (kernel.op is not Ops.PROGRAM and not isinstance(kernel.arg, KernelInfo)):
            got = f"{kernel.op} with {kernel.arg!r}" if is_node else shown(kernel)
            raise ContractError(
                f"a custom kernel must return a SINK with a KernelInfo, or a PROGRAM, not {got}",
                help="end it with .sink(arg=KernelInfo(name=...))",
            )
        if kernel.ranges:
            names = ", ".join(str(r.arg) for r in kernel.ranges)
            raise ContractError(
                f"ranges {names} are leaking out of the call", help="close them with .end(...)"
            )
        if kernel.op is Ops.SINK:
            refuse_unordered(kernel)
        # What is no buffer of its own is copied where it is written: others may read it too.
        for n in slots_written(kernel):
            if n < len(srcs) and not srcs[n].has_buffer_identity(after_ok=True):
                stored[n] = make(Ops.CONTIGUOUS, srcs[n].dtype, (srcs[n],), _WRITTEN_BY_HAND)
        call = kernel.call(*stored, grad_fxn=grad_fxn)
        return [s.after(call) for s in stored]

    def ins(self: UOp, arg: Any, **kwargs: Any) -> UOp:
        """A machine instruction on this node."""
        return make(Ops.INS, kwargs.get("dtype", self.dtype), (self,), arg)


_WRITTEN_BY_HAND = "a kernel written by hand writes to it"
_OPAQUE = {Ops.SINK, Ops.PROGRAM, Ops.LINEAR, Ops.COPY, Ops.CUSTOM_FUNCTION}


def _check_arguments(body: UOp, args: tuple[UOp, ...]) -> None:
    params = [u for u in body.toposort(enter_calls=False) if u.op is Ops.PARAM and u.arg.slot >= 0]
    count = max((p.arg.slot + 1 for p in params), default=0)
    if count > len(args):
        raise OperandError(f"expected {count} args, got {len(args)}")
    for p in params:
        a, n = args[p.arg.slot], p.arg.slot
        if a.dtype is not p.dtype:
            raise OperandError(f"arg {n} dtype mismatch: {a.dtype} for {p.dtype}")
        if p._shape is None or a._shape is None or not _fits(a.shape, p.shape):
            shapes = [None if x._shape is None else shape_text(x.shape) for x in (a, p)]
            raise OperandError(f"arg {n} shape mismatch: {shapes[0]} for {shapes[1]}")
        if a.axis != p.axis:
            raise OperandError(f"arg {n} axis mismatch: cut along {a.axis}, not {p.axis}")


def _fits(given: tuple[Sint, ...], wanted: tuple[Sint, ...]) -> bool:
    """Whether an argument has the shape of its parameter; sizes that may vary are not compared."""
    pairs = zip(given, wanted, strict=False)
    known = [(a, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int)]
    return len(given) == len(wanted) and all(a == b for a, b in known)


def _slice_bounds(item: Any, size: Sint) -> tuple[Sint, Sint]:
    """(offset, size) of one axis under a slice with step 1; a place keeps the whole axis."""
    if not isinstance(item, slice):
        return 0, size
    if item.step not in (None, 1):
        raise IndexingError(f"a slice inside a kernel has step 1, not {item.step}")
    start = 0 if item.start is None else item.start
    stop = size if item.stop is None else item.stop
    return start, stop - start
