"""The judge: what a tensor graph or a kernel AST computes, evaluated in numpy.

Written apart from the compiler: it knows the meaning of each operation and nothing of lowering.

    value(uop, {buffer: array})      the value of a tensor graph
    run_kernel(sink, [array, ...])   what a kernel AST does to its parameters, in slot order

Memory is a value here: AFTER(x, STORE(x, v)) is the array after the store and x itself still the
array before, so "an expression built before an in-place write sees the old value" needs no order of
evaluation. Arrays hold bfloat16 and fp8 as float32 (rounded after each operation), weak integers as
int64, weak floats as float64.

In a kernel each RANGE is an axis: a value is an array of one axis for each range of the kernel
(size 1 where it does not depend on it) followed by its own axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinylab.dtype import DType, Invalid, dtypes, least_upper_dtype
from tinylab.uop.ops import GroupOp, Ops, UOp

Array = npt.NDArray[Any]
MEMORY = {Ops.PARAM, Ops.BUFFER}


class OracleError(Exception):
    """The graph has no meaning here, or touches what is out of bounds."""


# *** numbers

SMALL_FLOATS = {dtypes.bfloat16, *dtypes.fp8s}


def storage(dtype: DType) -> np.dtype[Any]:
    """The numpy type that holds values of a dtype."""
    if dtype in SMALL_FLOATS:
        return np.dtype(np.float32)
    if dtype is dtypes.weakint:
        return np.dtype(np.int64)
    return np.dtype(np.float64 if dtype is dtypes.weakfloat else dtype.name)


def round_small(x: Array, dtype: DType) -> Array:
    """Floats rounded to bfloat16 or an fp8 type, ties to even; too large is 448 in e4m3."""
    exponent, mantissa = dtypes.finfo(dtype)
    fnuz = dtype in dtypes.fp8_fnuz
    bias = (1 << (exponent - 1)) - (not fnuz)
    wide = np.asarray(x, np.float64)
    _, power = np.frexp(np.where(np.isfinite(wide), wide, 0.0))
    scale = np.maximum(power - 1, 1 - bias) - mantissa
    rounded = np.ldexp(np.rint(np.ldexp(wide, -scale)), scale)
    rounded = np.where(np.isfinite(wide), rounded, wide)
    most = {
        dtypes.fp8e4m3: 448.0, dtypes.fp8e4m3fnuz: 240.0, dtypes.fp8e5m2fnuz: 57344.0
    }.get(dtype, (2 - 2.0**-mantissa) * 2.0**bias)  # fmt: skip
    no_infinity = fnuz or dtype is dtypes.fp8e4m3
    over = np.copysign(np.nan if fnuz else most if no_infinity else np.inf, wide)
    rounded = np.where(np.abs(rounded) > most, over, rounded)  # infinities too
    return np.where(fnuz & (rounded == 0), 0.0, rounded).astype(np.float32)


def cast(x: Array, dtype: DType) -> Array:
    """Integers wrap, floats round, a float out of an integer's range saturates and NaN gives 0."""
    with np.errstate(all="ignore"):
        if dtype in SMALL_FLOATS:
            return round_small(x, dtype)
        if not dtypes.is_int(dtype) or x.dtype.kind != "f":
            return x.astype(storage(dtype))
        whole = np.trunc(np.where(np.isnan(x), 0.0, np.asarray(x, np.float64)))
        low, high = int(dtype.min), int(dtype.max)
        inside = np.where((whole >= low) & (whole < high), whole, 0.0)
        # A uint64 above int64 needs the unsigned conversion, a negative one the signed.
        as_int = inside.astype(np.uint64 if dtype.kind == "uint" else np.int64)
        as_int = as_int.astype(storage(dtype))
        as_int = np.where(whole >= high, storage(dtype).type(high), as_int)
        return np.where(whole < low, storage(dtype).type(low), as_int)


def bits(x: Array, source: DType, target: DType) -> Array:
    """The same bits as another dtype; the last axis changes with the item size."""
    return unpack(pack(x, source).view(_packed(target)), target)


def _packed(dtype: DType) -> np.dtype[Any]:
    if dtype is dtypes.bfloat16:
        return np.dtype(np.uint16)
    return np.dtype(np.uint8) if dtype in dtypes.fp8s else storage(dtype)


def pack(x: Array, dtype: DType) -> Array:
    """Values as they lie in memory."""
    if dtype is dtypes.bfloat16:
        return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if dtype in dtypes.fp8s:
        from tinylab.dtype import float_to_fp8

        flat = [float_to_fp8(float(v), dtype) for v in np.ravel(x)]
        return np.array(flat, np.uint8).reshape(np.shape(x))
    return np.ascontiguousarray(x, storage(dtype))


def unpack(x: Array, dtype: DType) -> Array:
    """What lies in memory as values."""
    if dtype is dtypes.bfloat16:
        return (x.astype(np.uint32) << 16).view(np.float32)
    if dtype in dtypes.fp8s:
        from tinylab.dtype import fp8_to_float

        flat = [fp8_to_float(int(v), dtype) for v in np.ravel(x)]
        return np.array(flat, np.float32).reshape(np.shape(x))
    return x.astype(storage(dtype))


# *** one elementwise operation


def _truncated(x: Array, y: Array) -> Array:
    quotient = np.floor_divide(x, y)
    inexact = np.remainder(x, y) != 0
    return quotient + (inexact & ((x < 0) != (y < 0))).astype(quotient.dtype)


def _guarded(divide: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def guarded(x: Array, y: Array) -> Array:
        if x.dtype.kind == "f":
            return divide(x, y)
        zero = y == 0
        result = divide(x, np.where(zero, np.ones_like(y), y))
        return np.where(zero, np.zeros_like(result), result)

    return guarded


def _shift(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def shifted(x: Array, y: Array) -> Array:
        inside = (y >= 0) & (y < x.dtype.itemsize * 8)
        amount = np.where(inside, y, 0).astype(x.dtype)
        return np.where(inside, function(x, amount), np.zeros_like(x))

    return shifted


def threefry(counter: Array, key: Array) -> Array:
    """Threefry-2x32, 20 rounds; low word first."""
    mask, full = np.uint64(32), np.uint64(0xFFFFFFFF)
    c0, c1 = (counter & full).astype(np.uint32), (counter >> mask).astype(np.uint32)
    k0, k1 = (key & full).astype(np.uint32), (key >> mask).astype(np.uint32)
    keys = [k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA)]
    c0, c1 = c0 + k0, c1 + k1
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            c0 = c0 + c1
            c1 = ((c1 << np.uint32(turn)) | (c1 >> np.uint32(32 - turn))) ^ c0
        c0 = c0 + keys[(group + 1) % 3]
        c1 = c1 + keys[(group + 2) % 3] + np.uint32(group + 1)
    return (c1.astype(np.uint64) << mask) | c0.astype(np.uint64)


def _wide(function: Callable[..., Array]) -> Callable[..., Array]:
    """Worked out in float64, rounded by the caller."""
    return lambda *xs: function(*(np.asarray(x, np.float64) for x in xs))


NUMPY: dict[Ops, Callable[..., Array]] = {
    Ops.ADD: lambda x, y: x | y if x.dtype == np.bool_ else x + y,
    Ops.SUB: lambda x, y: x - y,
    Ops.MUL: lambda x, y: x & y if x.dtype == np.bool_ else x * y,
    Ops.FDIV: lambda x, y: x / y,
    Ops.POW: lambda x, y: np.power(np.asarray(x, np.float64), y) if x.dtype.kind == "f" else x**y,
    Ops.MAX: np.maximum,
    Ops.CDIV: _guarded(_truncated),
    Ops.CMOD: _guarded(np.fmod),
    Ops.FLOORDIV: _guarded(np.floor_divide),
    Ops.FLOORMOD: _guarded(np.remainder),
    Ops.CMPLT: np.less,
    Ops.CMPNE: np.not_equal,
    Ops.CMPEQ: np.equal,
    Ops.XOR: np.bitwise_xor,
    Ops.OR: np.bitwise_or,
    Ops.AND: np.bitwise_and,
    Ops.SHL: _shift(np.left_shift),
    Ops.SHR: _shift(np.right_shift),
    Ops.THREEFRY: threefry,
    Ops.MULACC: lambda x, y, z: x * y + z,
    Ops.EXP2: _wide(np.exp2),
    Ops.LOG2: _wide(np.log2),
    Ops.SIN: _wide(np.sin),
    Ops.COS: _wide(np.cos),
    Ops.SQRT: _wide(np.sqrt),
    Ops.RECIPROCAL: lambda x: 1 / np.asarray(x, np.float64),
    Ops.NEG: np.negative,
    Ops.TRUNC: lambda x: np.trunc(x) if x.dtype.kind == "f" else x,
}


def compute(op: Ops, dtype: DType, operands: Sequence[tuple[Array, DType]]) -> Array:
    """An elementwise operation with a result of this dtype, every rounding included."""
    if op is Ops.WHERE:
        (condition, _), (x, _), (y, _) = operands
        return np.where(condition, cast(x, dtype), cast(y, dtype))
    common = least_upper_dtype(*(d for _, d in operands))
    if op not in GroupOp.Comparison and op not in (Ops.SHL, Ops.SHR):
        common = dtype
    arrays = [cast(x, common) for x, _ in operands]
    with np.errstate(all="ignore"):
        return cast(np.asarray(NUMPY[op](*arrays)), dtype)


REDUCERS = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}


def reduce_axes(op: Ops, x: Array, axes: tuple[int, ...], dtype: DType, keep: bool) -> Array:
    """A reduction over some axes; floats are summed in float64 and rounded once."""
    if x.dtype == np.bool_:
        reducer: Any = {Ops.ADD: np.logical_or, Ops.MUL: np.logical_and, Ops.MAX: np.logical_or}[op]
        return np.asarray(reducer.reduce(x, axis=axes, keepdims=keep))
    wide = np.float64 if x.dtype.kind == "f" else x.dtype
    start: dict[str, Any] = {}
    if op is Ops.MAX and 0 in (x.shape[a] for a in axes):
        start["initial"] = dtype.min
    with np.errstate(all="ignore"):
        if op is Ops.MAX:
            total = REDUCERS[op].reduce(x.astype(wide), axis=axes, keepdims=keep, **start)
        else:
            total = REDUCERS[op].reduce(x, axis=axes, dtype=wide, keepdims=keep)
    return cast(np.asarray(total), dtype)


# *** graphs


def sizes(shape_node: UOp, ask: Callable[[UOp], Array]) -> tuple[int, ...]:
    """The integers that a shape node stands for."""
    items = shape_node.src if shape_node.op is Ops.STACK else (shape_node,)
    return tuple(int(np.ravel(ask(i))[0]) for i in items)


class Evaluation:
    """One evaluation: what is given for buffers, parameters and variables, and what was found."""

    def __init__(
        self,
        given: Mapping[UOp, Array],
        slots: Mapping[int, Array] | None = None,
        variables: Mapping[str, int] | None = None,
        ranges: Sequence[UOp] = (),
    ) -> None:
        self.given, self.slots, self.variables = given, slots or {}, variables or {}
        self.ranges = {r: i for i, r in enumerate(ranges)}
        self.values: dict[UOp, Array] = {}
        self.valid: dict[UOp, Array] = {}

    # Arrays have `rank` axes for ranges, then the node's own.
    @property
    def rank(self) -> int:
        return len(self.ranges)

    def value(self, root: UOp) -> Array:
        """The value of a node; sources first, without recursion."""
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self.values:
                stack.pop()
                continue
            missing = [s for s in self.needs(node) if s not in self.values]
            if missing:
                stack.extend(missing)
                continue
            self.values[node], self.valid[node] = self.evaluate(node)
            stack.pop()
        return self.values[root]

    def needs(self, u: UOp) -> tuple[UOp, ...]:
        """The sources whose values the node is made of."""
        if u.op in (Ops.RANGE, Ops.SPECIAL, *MEMORY):
            return ()
        if u.op is Ops.GETTUPLE and u.src[0].op is Ops.FUNCTION:
            return u.src[0].src[1:]
        if u.op in (Ops.CONTIGUOUS, Ops.COPY, Ops.DETACH, Ops.CONTIGUOUS_BACKWARD, Ops.GETTUPLE):
            return u.src[:1]
        if u.op is Ops.AFTER:
            return u.src[:1]
        if u.op is Ops.INDEX:
            return u.src
        if u.op is Ops.REDUCE:
            return u.src[:1]
        if u.op in (Ops.FUNCTION, Ops.CALL):
            return u.src[1:]
        if u.op in (Ops.STORE, Ops.END, Ops.SINK, Ops.GROUP, Ops.STAGE):
            return ()
        return tuple(s for s in u.src if s.dtype is not dtypes.void)

    def evaluate(self, u: UOp) -> tuple[Array, Array]:
        """(value, where it is valid) of a node whose sources have theirs."""
        if u.op is Ops.CONST:
            return self.constant(u)
        if u.op is Ops.WHERE:
            return self.select(u)
        if u.op in (Ops.INDEX, Ops.LOAD) and self.is_memory(u.src[0]):
            return self.load(u), self.everywhere()
        found = EVALUATE.get(u.op)
        if found is None and u.op in GroupOp.Elementwise:
            found = Evaluation.elementwise
        if found is None:
            raise OracleError(f"{u.op} has no value here")
        below = [self.valid[s] for s in self.needs(u) if s in self.valid and s._shape == ()]
        valid = self.everywhere()
        if u.op in GroupOp.Elementwise:
            for v in below:
                valid = valid & v
        return found(self, u), valid

    def everywhere(self) -> Array:
        return np.ones((1,) * self.rank, np.bool_)

    def own(self, x: Any, dtype: DType, shape: tuple[int, ...] = ()) -> Array:
        """An array with no dependence on ranges."""
        return cast(np.asarray(x), dtype).reshape((1,) * self.rank + shape)

    def constant(self, u: UOp) -> tuple[Array, Array]:
        if u.arg is Invalid:
            return self.own(0, u.dtype), ~self.everywhere()
        value = float(u.arg) if isinstance(u.arg, float) else u.arg
        return self.own(np.array(value), u.dtype), self.everywhere()

    def aligned(self, *nodes: UOp) -> list[Array]:
        """Values with as many own axes each: size 1 in front, as broadcasting has it."""
        most = max(len(n.shape) for n in nodes)
        found = []
        for n in nodes:
            x = self.values[n]
            lead, rest = x.shape[: self.rank], x.shape[self.rank :]
            found.append(x.reshape((*lead, *(1,) * (most - len(rest)), *rest)))
        return found

    def select(self, u: UOp) -> tuple[Array, Array]:
        c, x, y = self.aligned(*u.src)
        value = compute(Ops.WHERE, u.dtype, [(c, dtypes.bool), (x, u.dtype), (y, u.dtype)])
        if any(s._shape for s in u.src):
            return value, self.everywhere()
        vc, vx, vy = (self.valid[s] for s in u.src)
        return value, vc & np.where(c, vx, vy)

    def elementwise(self, u: UOp) -> Array:
        arrays = self.aligned(*u.src)
        if u.op is Ops.CAST:
            return cast(arrays[0], u.dtype)
        if u.op is Ops.BITCAST:
            return bits(arrays[0], u.src[0].dtype, u.dtype)
        types = [s.dtype for s in u.src]
        return compute(u.op, u.dtype, list(zip(arrays, types, strict=True)))

    # *** leaves

    def range_(self, u: UOp) -> Array:
        if u not in self.ranges:
            raise OracleError(f"{u} is open: no END or REDUCE closes it")
        axis, count = self.ranges[u], self.size_of(u)
        shape = [1] * self.rank
        shape[axis] = count
        return np.arange(count, dtype=np.int64).reshape(shape).astype(storage(u.dtype))

    def size_of(self, u: UOp) -> int:
        return int(np.ravel(self.value(u.src[0]))[0])

    def defined(self, u: UOp) -> Array:
        """What is given for a BUFFER, PARAM or variable."""
        if u in self.given:
            return self.own(self.given[u], u.dtype, self.shape_of(u))
        if u.arg.name is not None and u.arg.name in self.variables:
            return self.own(self.variables[u.arg.name], u.dtype)
        if u.op is Ops.PARAM and u.arg.slot in self.slots:
            return self.own(self.slots[u.arg.slot], u.dtype, self.shape_of(u))
        stored = getattr(u, "realized", None)
        if stored is not None:
            raw = np.frombuffer(bytes(stored.as_memoryview()), _packed(u.dtype))
            return self.own(unpack(raw, u.dtype), u.dtype, self.shape_of(u))
        raise OracleError(f"no value is given for {u}")

    def shape_of(self, u: UOp) -> tuple[int, ...]:
        shape = u._shape or ()
        return tuple(s if isinstance(s, int) else int(np.ravel(self.value(s))[0]) for s in shape)

    # *** memory

    def is_memory(self, u: UOp) -> bool:
        """Whether the node names storage rather than a computed value."""
        while u.op in (Ops.AFTER, Ops.RESHAPE, Ops.SHRINK, Ops.INDEX):
            u = u.src[0]
        return u.op in MEMORY

    def load(self, u: UOp) -> Array:
        if u.op is Ops.LOAD:
            inner = u.src[0]
            if len(u.src) == 1:
                return self.value(inner)
            alternative, gate = self.aligned(u.src[1], u.src[2] if len(u.src) > 2 else u.src[1])
            return np.where(gate, self.value(inner), alternative)
        array = self.values[u.src[0]]
        flat = array.reshape(array.shape[self.rank :])
        places, ok = self.places(flat.shape, u.src[1:])
        picked = flat[tuple(np.where(ok, p, 0) for p in places)]
        mask = ok.reshape((*ok.shape, *(1,) * (picked.ndim - ok.ndim)))
        return np.where(mask, picked, np.zeros((), picked.dtype))

    def places(self, shape: tuple[int, ...], index: Sequence[UOp]) -> tuple[list[Array], Array]:
        """(an index array per leading axis, where all are valid)."""
        arrays = [self.value(i) for i in index]
        ok = np.ones((), np.bool_)
        for i, array in zip(index, arrays, strict=True):
            own = array.ndim - self.rank
            ok = ok & self.valid[i].reshape((*self.valid[i].shape, *(1,) * own))
        for size, array, i in zip(shape, arrays, index, strict=False):
            outside = ok & ((array < 0) | (array >= size))
            if outside.any():
                raise OracleError(
                    f"index {np.broadcast_to(array, outside.shape)[outside][0]} is outside an axis "
                    f"of {size}: {i.render()}"
                )
        return [np.broadcast_to(a, np.broadcast_shapes(a.shape, ok.shape)) for a in arrays], ok

    def element(self, u: UOp) -> Array:
        """INDEX of a value that is no memory: own axes picked by own or ranged indices."""
        x = self.values[u.src[0]]
        lead, shape = x.shape[: self.rank], x.shape[self.rank :]
        places, ok = self.places(shape, u.src[1:])
        if all(n == 1 for n in lead):
            return x.reshape(shape)[tuple(np.where(ok, p, 0) for p in places)]
        scalars = [int(np.ravel(p)[0]) for p in places if p.size == 1]
        if len(scalars) != len(places):
            raise OracleError("an element of a ranged value needs constant indices here")
        return x[(*(slice(None),) * self.rank, *scalars)]

    def after(self, u: UOp) -> Array:
        """The array after the effects that are ordered before."""
        x, effects = u.src[0], u.src[1:]
        before = self.values[x]
        if not self.is_memory(x):
            return before
        if x.op is Ops.BUFFER and x.arg.name is not None:  # a bound variable
            return self.value(effects[0].src[1])
        base = _storage_of(x)
        array = before
        for effect in effects:
            array = self.effect(effect, base, x, array)
        return array

    def effect(self, effect: UOp, base: UOp, x: UOp, array: Array) -> Array:
        """`array`, the contents of x, after one effect on the storage under it."""
        if effect.op in (Ops.END, Ops.GROUP, Ops.SINK, Ops.BARRIER):
            for s in effect.src:
                array = self.effect(s, base, x, array)
            return array
        if effect.op is Ops.CALL:
            return self.called(effect, base, x, array)
        if effect.op is not Ops.STORE or _storage_of(effect.src[0]) is not base:
            return array
        return self.stored(effect, x, array)

    def stored(self, store: UOp, x: UOp, array: Array) -> Array:
        """The array after STORE(view of x, value)."""
        target, value = store.src[0], cast(self.value(store.src[1]), x.dtype)
        places = np.arange(array.size).reshape(array.shape)
        inner = Evaluation({**self.given, x: places.reshape(x.shape)}, self.slots, self.variables)
        inner.values[x] = places.reshape(x.shape)
        where = inner.value(target)
        flat = np.array(array).reshape(-1)
        flat[where] = np.broadcast_to(value, where.shape)
        return flat.reshape(array.shape)

    def called(self, call: UOp, base: UOp, x: UOp, array: Array) -> Array:
        body, arguments = call.src[0], call.src[1:]
        if body.op is Ops.COPY:
            source = self.value(arguments[1])
            return source.reshape(array.shape) if _storage_of(arguments[0]) is base else array
        arrays = [np.array(self.value(a)) for a in arguments]
        for a, content in zip(arguments, arrays, strict=True):
            if a is x:
                content[...] = array
        run_kernel(body, arrays, self.variables)
        for a, content in zip(arguments, arrays, strict=True):
            if _storage_of(a) is base:
                return content.reshape(array.shape)
        return array

    # *** shapes

    def reshape(self, u: UOp) -> Array:
        x = self.values[u.src[0]]
        return x.reshape(x.shape[: self.rank] + self.shape_of(u))

    def permute(self, u: UOp) -> Array:
        own = tuple(self.rank + a for a in u.arg)
        return np.transpose(self.values[u.src[0]], (*range(self.rank), *own))

    def expand(self, u: UOp) -> Array:
        x = self.values[u.src[0]]
        lead, own, more = x.shape[: self.rank], x.shape[self.rank :], sizes(u.src[1], self.value)
        return np.broadcast_to(x.reshape((*lead, *(1,) * len(more), *own)), (*lead, *more, *own))

    def pad(self, u: UOp) -> Array:
        x = self.values[u.src[0]]
        offsets, total = sizes(u.src[1], self.value), sizes(u.src[2], self.value)
        out = np.zeros(x.shape[: self.rank] + total, x.dtype)
        inside = tuple(slice(o, o + n) for o, n in zip(offsets, x.shape[self.rank :], strict=True))
        out[(..., *inside)] = x
        return out

    def shrink(self, u: UOp) -> Array:
        offsets, counts = sizes(u.src[1], self.value), sizes(u.src[2], self.value)
        inside = tuple(slice(o, o + n) for o, n in zip(offsets, counts, strict=True))
        return self.values[u.src[0]][(..., *inside)]

    def flip(self, u: UOp) -> Array:
        axes = tuple(self.rank + i for i, turned in enumerate(u.arg) if turned)
        return np.flip(self.values[u.src[0]], axes)

    def stack(self, u: UOp) -> Array:
        if not u.src:
            return np.zeros((1,) * self.rank + (0,), np.int64)
        arrays = [cast(a, u.dtype) for a in self.aligned(*u.src)]
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        return np.stack([np.broadcast_to(a, shape) for a in arrays], axis=self.rank)

    def reduce(self, u: UOp) -> Array:
        op, count = u.arg
        x = self.values[u.src[0]]
        axes = tuple(self.ranges[r] for r in u.src[1:] if r.op is Ops.RANGE)
        full = list(x.shape)
        for r in u.src[1:]:
            if r.op is Ops.RANGE:
                full[self.ranges[r]] = self.size_of(r)
        x = np.broadcast_to(x, full)
        if axes:
            x = reduce_axes(op, x, axes, u.dtype, keep=True)
        own = tuple(range(self.rank, self.rank + count))
        return reduce_axes(op, x, own, u.dtype, keep=False) if own else x

    # *** calls

    def stage(self, u: UOp) -> Array:
        """A value over loops of its own: an axis for each."""
        loops = [r for r in u.src[1:] if r.op is Ops.RANGE]
        inner = Evaluation(self.given, self.slots, self.variables, loops)
        return self.own(
            np.broadcast_to(inner.value(u.src[0]), self.shape_of(u)), u.dtype, self.shape_of(u)
        )

    def gettuple(self, u: UOp) -> Array:
        if u.src[0].op is not Ops.FUNCTION:
            return self.value(u.src[0].src[u.arg])
        function = u.src[0]
        slots = {i: self.value(a) for i, a in enumerate(function.src[1:])}
        return Evaluation({}, slots, self.variables).value(function.src[0].src[u.arg])

    def first(self, u: UOp) -> Array:
        return self.values[u.src[0]]


EVALUATE: dict[Ops, Callable[[Evaluation, UOp], Array]] = {
    Ops.RANGE: Evaluation.range_,
    Ops.STAGE: Evaluation.stage,
    Ops.PARAM: Evaluation.defined,
    Ops.BUFFER: Evaluation.defined,
    Ops.INDEX: Evaluation.element,
    Ops.LOAD: Evaluation.first,
    Ops.AFTER: Evaluation.after,
    Ops.RESHAPE: Evaluation.reshape,
    Ops.PERMUTE: Evaluation.permute,
    Ops.EXPAND: Evaluation.expand,
    Ops.PAD: Evaluation.pad,
    Ops.SHRINK: Evaluation.shrink,
    Ops.FLIP: Evaluation.flip,
    Ops.STACK: Evaluation.stack,
    Ops.REDUCE: Evaluation.reduce,
    Ops.GETTUPLE: Evaluation.gettuple,
    **dict.fromkeys(
        (Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH, Ops.COPY, Ops.NOOP),
        Evaluation.first,
    ),
}


def _storage_of(u: UOp) -> UOp:
    """The BUFFER or PARAM under views and orderings."""
    while u.op not in MEMORY and u.src:
        u = u.src[0]
    return u


def value(
    root: UOp,
    given: Mapping[UOp, Array] | None = None,
    variables: Mapping[str, int] | None = None,
) -> Array:
    """The value of a tensor graph; buffers that are not given are read where they are realized."""
    return np.asarray(Evaluation(given or {}, None, variables).value(root))


def expression(root: UOp, variables: Mapping[UOp, Array] | None = None) -> Array:
    """The value of an index expression: an axis for each RANGE below it, in order."""
    ranges = [u for u in root.toposort() if u.op is Ops.RANGE]
    evaluation = Evaluation(variables or {}, None, None, ranges)
    found = evaluation.value(root)
    return np.broadcast_to(found, [evaluation.size_of(r) for r in ranges] + list(root.shape))


# *** kernels


def _stores(u: UOp, ranges: tuple[UOp, ...] = ()) -> Iterator[tuple[UOp, tuple[UOp, ...]]]:
    """(store, the ranges that close over it), in order."""
    if u.op is Ops.STORE:
        yield u, ranges
    elif u.op in (Ops.SINK, Ops.GROUP):
        for s in u.src:
            yield from _stores(s, ranges)
    elif u.op is Ops.END:
        yield from _stores(u.src[0], (*ranges, *(r for r in u.src[1:] if r.op is Ops.RANGE)))
    else:
        raise OracleError(f"{u.op} is no effect that a kernel may end in")


def run_kernel(
    sink: UOp, arrays: Sequence[Array], variables: Mapping[str, int] | None = None
) -> None:
    """Do to the arrays (in slot order, changed in place) what a kernel AST says."""
    for store, closed in _stores(sink):
        inner = [u for u in store.toposort() if u.op is Ops.RANGE]
        ranges = list(dict.fromkeys([*closed, *inner]))
        slots = dict(enumerate(arrays))
        evaluation = Evaluation({}, slots, variables, ranges)
        _run_store(evaluation, store, closed, arrays)


def _run_store(e: Evaluation, store: UOp, closed: tuple[UOp, ...], arrays: Sequence[Array]) -> None:
    target, x = store.src[0], store.src[1]
    found = cast(e.value(x), target.dtype)
    array = arrays[_storage_of(target).arg.slot]
    gate = e.value(store.src[2]) if len(store.src) > 2 else np.ones((), np.bool_)
    if target.op is not Ops.INDEX:
        places = Evaluation({}, {_storage_of(target).arg.slot: np.arange(array.size)})
        where = places.value(target)
        array.reshape(-1)[where] = np.broadcast_to(found, where.shape)
        return
    lead = e.shape_of(target.src[0])
    index, ok = e.places(lead, target.src[1:])
    full = np.broadcast_shapes(
        found.shape, ok.shape, gate.shape, *(i.shape for i in index), _loop_shape(e, closed)
    )
    chosen = np.broadcast_to(ok & gate, full)
    at = tuple(np.broadcast_to(i, full)[chosen] for i in index)
    array.reshape(lead)[at] = np.broadcast_to(found, full)[chosen]


def _loop_shape(e: Evaluation, closed: tuple[UOp, ...]) -> tuple[int, ...]:
    shape = [1] * e.rank
    for r in closed:
        shape[e.ranges[r]] = e.size_of(r)
    return tuple(shape)
