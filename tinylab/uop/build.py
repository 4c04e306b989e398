"""How nodes are made: constants, loops, storage, calls. Methods of UOp, by topic."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from tinylab.dtype import AddrSpace, ConstType, DType, Invalid, as_const, dtypes, strong_dtype
from tinylab.errors import BindError, ContractError, DTypeError, IndexingError
from tinylab.opcodes import AxisType, GroupOp, Ops
from tinylab.uop.args import CallInfo, ParamArg, RangeArg, ReduceArg, StageArg, is_unit
from tinylab.uop.infer import infer_dtype
from tinylab.uop.intern import callables, make

if TYPE_CHECKING:
    from tinylab.device import Buffer
    from tinylab.uop.node import UOp

Sint = Any  # int | UOp
_numbers = itertools.count()
# The axis id of the loop variable inside `_iota`: no loop of a kernel has a negative id.
IOTA_AXIS = -2


def fresh_number() -> int:
    """A number no buffer, placeholder or callable of this process has yet."""
    return next(_numbers)


def const(value: ConstType, dtype: DType | None = None) -> UOp:
    """A CONST; without a dtype bool, weakint or weakfloat by value."""
    if dtype is None:
        if isinstance(value, bool) or value is Invalid:
            dtype = dtypes.bool
        else:
            dtype = dtypes.weakfloat if isinstance(value, float) else dtypes.weakint
    return make(Ops.CONST, dtype, (), as_const(value, dtype))


def sint_to_uop(x: Sint, dtype: DType = dtypes.weakint) -> UOp:
    """A size as a node."""
    return const(x, dtype) if isinstance(x, int) else cast("UOp", x)


def shape_to_shape_arg(shape: Sequence[Sint]) -> UOp:
    """The node that holds sizes: one expression for one axis, a STACK for any other number."""
    items = tuple(sint_to_uop(s) for s in shape)
    if len(items) == 1:
        return items[0]
    return make(Ops.STACK, dtypes.weakint if items else dtypes.void, items)


def _as_uop(x: Any, dtype: DType | None = None) -> UOp:
    return const(x, dtype) if isinstance(x, int | float) or x is Invalid else x


class BuildMethods:
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
        """A loop variable 0..end-1; more ids before the type: range(4, 0, 1, AxisType.LOCAL)."""
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
        min_val: Any,
        max_val: Any,
        dtype: DType = dtypes.weakint,
        multiple_of: int = 1,
        param: bool = False,
    ) -> UOp:
        """A named size with bounds; param=True gives the kernel's side of it."""
        arg = ParamArg(
            -1,
            dtype,
            (min_val, max_val),
            None if multiple_of == 1 else multiple_of,
            name,
            AddrSpace.ALU,
        )
        return make(Ops.PARAM if param else Ops.BUFFER, dtype, (shape_to_shape_arg(()),), arg)

    def bind(self: UOp, val: Any) -> UOp:
        """The variable with a value.

        Raises: BindError outside the variable's range or off its multiple.
        """
        if not self.is_variable:
            raise BindError(f"need Variable, not {self.op}")
        lo, hi = self.arg.vmin_vmax
        value = _as_uop(val, self.dtype)
        if not lo <= value.vmin <= value.vmax <= hi:
            raise BindError(f"bind {val} not in range [{lo}, {hi}] of {self.arg.name}")
        step = self.arg.multiple_of
        if step and isinstance(val, int) and val % step:
            raise BindError(f"bind {val} not divisible by {step}, as {self.arg.name} must be")
        return self.after(make(Ops.STORE, dtypes.void, (self, value)))

    @property
    def is_variable(self: UOp) -> bool:
        return self.op in GroupOp.Defines and self.arg.addrspace is AddrSpace.ALU

    @property
    def is_bound_var(self: UOp) -> bool:
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
        arg = ParamArg(
            slot, dtype, vmin_vmax, multiple_of, name, addrspace, axis, device, volatile
        )
        return make(Ops.PARAM, dtype, (size,), arg)

    def param_like(self: UOp, slot: int) -> UOp:
        """The PARAM that stands for this value in a body."""
        if self.is_variable or self.is_bound_var:
            var = self.unbind()[0] if self.is_bound_var else self
            return make(Ops.PARAM, self.dtype, var.src, var.arg._replace(slot=slot))
        return BuildMethods.param(slot, self.dtype, self._shape, self.device)

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
        """A placeholder of this value's shape and dtype.

        Raises: ContractError for a symbolic shape.
        """
        if not all(isinstance(s, int) for s in self.shape):
            raise ContractError(f"no placeholder-like on symbolic shape {self.shape}")
        return BuildMethods.placeholder(self.shape, self.dtype, slot, addrspace)

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
    def from_buffer(opaque: Buffer, device: Any = None) -> UOp:
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
        if self.op is Ops.TUPLE:
            return self.src[idx]
        return make(Ops.GETTUPLE, infer_dtype(Ops.GETTUPLE, (self,), idx), (self,), idx)

    def stack(*srcs: UOp, **kwargs: Any) -> UOp:
        """Values joined along a new leading axis (plain nodes; Tensor.stack takes dim)."""
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
            return self.src[idx[0].arg]
        return make(Ops.INDEX, kwargs.get("dtype", self.dtype), (self, *idx))

    def kernel_getitem(self: UOp, idx: Any) -> UOp:
        """x[…] on an array inside a kernel: places give an INDEX, slices a SHRINK.

        Raises: IndexingError for more indices than axes.
        """
        items = idx if isinstance(idx, tuple) else (idx,)
        if len(items) > len(self.shape):
            raise IndexingError(f"too many indices: {len(items)} for shape {self.shape}")
        array: UOp = self
        if any(isinstance(i, slice) for i in items):
            array = self._shrink(
                *zip(
                    *(
                        _slice_bounds(i, s)
                        for i, s in itertools.zip_longest(
                            items, self.shape, fillvalue=slice(None)
                        )
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
        return self.op is Ops.CONST and self.arg is Invalid

    def broadcast(self: UOp, count: int) -> UOp:
        """count copies along a new axis; one copy is the value itself."""
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

    # *** movement: one node each, checked by the methods that call them

    def _reshape(self: UOp, shape: Sequence[Sint]) -> UOp:
        shape = tuple(shape)
        if shape == self.shape:
            return self
        below = self.src[0] if self.op is Ops.RESHAPE else self
        if below.shape == shape:
            return below
        return make(Ops.RESHAPE, self.dtype, (below, shape_to_shape_arg(shape)))

    def _permute(self: UOp, order: Sequence[int]) -> UOp:
        order = tuple(order)
        if order == tuple(range(len(order))):
            return self
        return make(Ops.PERMUTE, self.dtype, (self,), order)

    def _expand_front(self: UOp, sizes: Sequence[Sint]) -> UOp:
        return make(Ops.EXPAND, self.dtype, (self, shape_to_shape_arg(sizes))) if sizes else self

    def _pad(self: UOp, offsets: Sequence[Sint], sizes: Sequence[Sint]) -> UOp:
        return self._window(Ops.PAD, offsets, sizes)

    def _shrink(self: UOp, offsets: Sequence[Sint], sizes: Sequence[Sint]) -> UOp:
        return self._window(Ops.SHRINK, offsets, sizes)

    def _window(self: UOp, op: Ops, offsets: Sequence[Sint], sizes: Sequence[Sint]) -> UOp:
        if tuple(sizes) == self.shape and all(isinstance(o, int) and o == 0 for o in offsets):
            return self
        return make(
            op, self.dtype, (self, shape_to_shape_arg(offsets), shape_to_shape_arg(sizes))
        )

    def _flip(self: UOp, axes: Sequence[bool]) -> UOp:
        return make(Ops.FLIP, self.dtype, (self,), tuple(axes)) if any(axes) else self

    def _expand(self: UOp, shape: Sequence[Sint]) -> UOp:
        """Axes of size 1 stretched to a shape of the same rank: dropped, added in front, moved."""
        old = self.shape
        grown = [i for i, (a, b) in enumerate(zip(old, shape, strict=True)) if a is not b and a != b]
        if not grown:
            return self
        kept = [i for i in range(len(old)) if i not in grown]
        front = self._reshape([old[i] for i in kept])._expand_front([shape[i] for i in grown])
        order = grown + kept
        return front._permute([order.index(i) for i in range(len(old))])

    def _rop(self: UOp, op: Ops, axis: Sequence[int]) -> UOp:
        """A tensor reduce: the axes move to the front and vanish.

        Sizes of 1 are not reduced, only dropped.
        """
        shape = self.shape
        real = [a for a in sorted(axis) if not is_unit(shape[a])]
        kept = [a for a in range(len(shape)) if a not in axis]
        small = [a for a in axis if a not in real]
        value = self._permute(real + small + kept)
        value = value._reshape([shape[a] for a in real + kept])
        if not real:
            return value
        return make(Ops.REDUCE, self.dtype, (value,), ReduceArg(op, len(real)))

    def _mop(self: UOp, op: Ops, arg: tuple[Any, ...]) -> UOp:
        """A movement in the words of the shared methods.

        RESHAPE a shape, PERMUTE an order, EXPAND sizes to put in front, PAD (before, after) pairs,
        SHRINK (begin, end) pairs, FLIP one bool per axis.
        """
        if op is Ops.RESHAPE:
            return self._reshape(arg)
        if op is Ops.PERMUTE:
            return self._permute(arg)
        if op is Ops.EXPAND:
            return self._expand_front(arg)
        if op is Ops.FLIP:
            return self._flip(arg)
        if op is Ops.PAD:
            sizes = [b + s + a for (b, a), s in zip(arg, self.shape, strict=True)]
            return self._pad([b for b, _ in arg], sizes)
        return self._shrink([b for b, _ in arg], [e - b for b, e in arg])

    @staticmethod
    def _iota(size: Sint, dtype: DType) -> UOp:
        """(size,) 0, 1, 2, …: a loop variable staged over its own loop, never stored."""
        r = make(
            Ops.RANGE,
            dtypes.weakint,
            (sint_to_uop(size),),
            RangeArg((IOTA_AXIS, AxisType.PLACEHOLDER)),
        )
        return make(Ops.STAGE, dtype, (r.cast(dtype), r), StageArg(None))

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
        """The value on another device."""
        return make(Ops.COPY, self.dtype, (self,), device)

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
        """This body called with arguments: opaque bodies give a CALL, values a FUNCTION."""
        grad_key = None
        if grad_fxn is not None:
            grad_key = fresh_number()
            callables[grad_key] = grad_fxn
        arg = CallInfo(name, precompile, precompile_backward, aux, grad_key)
        if self.op in _OPAQUE:
            return make(Ops.CALL, dtypes.void, (self, *srcs), arg)
        body = self if self.op is Ops.TUPLE else BuildMethods.maketuple(self)
        return make(Ops.FUNCTION, dtypes.void, (body, *srcs), arg)

    def ins(self: UOp, arg: Any, **kwargs: Any) -> UOp:
        """A machine instruction on this node."""
        return make(Ops.INS, kwargs.get("dtype", self.dtype), (self,), arg)


_OPAQUE = {Ops.SINK, Ops.PROGRAM, Ops.LINEAR, Ops.COPY, Ops.CUSTOM_FUNCTION}


def _slice_bounds(item: Any, size: Sint) -> tuple[Sint, Sint]:
    """(offset, size) of one axis under a slice with step 1; a place keeps the whole axis."""
    if not isinstance(item, slice):
        return 0, size
    if item.step not in (None, 1):
        raise IndexingError(f"a slice inside a kernel has step 1, not {item.step}")
    start = 0 if item.start is None else item.start
    stop = size if item.stop is None else item.stop
    return start, stop - start


