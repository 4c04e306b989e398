"""Element type and shape of a node from its operation, sources and argument: a table each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tinylab.dtype import DType, Invalid, dtypes, least_upper_dtype, least_upper_float
from tinylab.errors import BroadcastError, DTypeError, ShapeError
from tinylab.helpers.context import DISALLOW_BROADCAST
from tinylab.mixin.base import shape_text, size_text
from tinylab.opcodes import GroupOp, Ops

if TYPE_CHECKING:
    from tinylab.uop.node import UOp

Shape = tuple[Any, ...]  # of int | UOp


# *** element types


def promote(src: tuple[UOp, ...]) -> DType:
    """The least upper type of the sources; void sources say nothing."""
    first = src[0].dtype
    if all(s.dtype is first for s in src):
        return first
    return least_upper_dtype(*dict.fromkeys(s.dtype for s in src if s.dtype is not dtypes.void))


def _first(op: Ops, src: tuple[UOp, ...], arg: Any) -> DType:
    return src[0].dtype


def _promoted(op: Ops, src: tuple[UOp, ...], arg: Any) -> DType:
    return promote(src) if src else dtypes.void


def _void(op: Ops, src: tuple[UOp, ...], arg: Any) -> DType:
    return dtypes.void


def _const(op: Ops, src: tuple[UOp, ...], arg: Any) -> DType:
    if isinstance(arg, bool) or arg is Invalid:
        return dtypes.bool
    return dtypes.weakfloat if isinstance(arg, float) else dtypes.weakint


def _gettuple(op: Ops, src: tuple[UOp, ...], arg: Any) -> DType:
    body: UOp = src[0].src[0] if src[0].op is Ops.FUNCTION else src[0]
    found: DType = body.src[arg].dtype
    return found


DTYPE_TABLE: dict[Ops, Callable[[Ops, tuple[UOp, ...], Any], DType]] = {
    **dict.fromkeys(GroupOp.Binary, _promoted),
    **dict.fromkeys(GroupOp.Comparison, lambda op, src, arg: dtypes.bool),
    **dict.fromkeys(
        (Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.COS, Ops.SQRT, Ops.RECIPROCAL),
        lambda op, src, arg: least_upper_float(src[0].dtype),
    ),
    **dict.fromkeys((Ops.SHL, Ops.SHR, Ops.NEG, Ops.TRUNC), _first),
    **dict.fromkeys((Ops.CAST, Ops.BITCAST), lambda op, src, arg: arg),
    **dict.fromkeys((Ops.BUFFER, Ops.PARAM), lambda op, src, arg: arg.dtype),
    **dict.fromkeys(
        (Ops.INDEX, Ops.LOAD, Ops.AFTER, Ops.SPECIAL, Ops.RANGE, Ops.REDUCE, Ops.ALLREDUCE), _first
    ),
    **dict.fromkeys(GroupOp.Movement, _first),
    **dict.fromkeys(
        (Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH, Ops.STAGE, Ops.COPY), _first
    ),
    **dict.fromkeys((Ops.MSELECT, Ops.MSTACK, Ops.UNSHARD), _first),
    **dict.fromkeys((Ops.STORE, Ops.END, Ops.SINK, Ops.GROUP, Ops.BARRIER, Ops.IF), _void),
    **dict.fromkeys((Ops.ENDIF, Ops.LINEAR, Ops.PROGRAM, Ops.SOURCE, Ops.TUPLE), _void),
    **dict.fromkeys((Ops.CALL, Ops.FUNCTION, Ops.CUSTOM_FUNCTION, Ops.REWRITE_ERROR), _void),
    Ops.PYLITERAL: _void,
    Ops.NOOP: lambda op, src, arg: src[0].dtype if src else dtypes.void,
    Ops.WHERE: lambda op, src, arg: promote(src[1:]),
    Ops.MULACC: _promoted,
    Ops.WMMA: lambda op, src, arg: src[2].dtype,
    Ops.STACK: _promoted,
    Ops.CONST: _const,
    Ops.BINARY: lambda op, src, arg: dtypes.uint8,
    Ops.GETADDR: lambda op, src, arg: dtypes.uint64,
    Ops.GETTUPLE: _gettuple,
}


def dtype_from_uop(op: Ops, src: tuple[UOp, ...], arg: Any) -> DType | None:
    """The element type that follows from op, sources and argument; None where it must be stated."""
    rule = DTYPE_TABLE.get(op)
    return None if rule is None else rule(op, src, arg)


def infer_dtype(op: Ops, src: tuple[UOp, ...], arg: Any) -> DType:
    """As `dtype_from_uop`.

    Raises: DTypeError where the type must be stated (CUSTOM, CUSTOMI, INS).
    """
    found = dtype_from_uop(op, src, arg)
    if found is None:
        raise DTypeError(f"the dtype of {op} does not follow from its sources", help="state it")
    return found


# *** shapes


def node_to_shape(node: UOp) -> Shape:
    """The sizes that a shape node holds: a STACK's items, one expression, or none."""
    items = node.src if node.op is Ops.STACK else (node,)
    return tuple(int(i.arg) if i.op is Ops.CONST else i for i in items)


def broadcast_shape(*shapes: Shape) -> Shape:
    """Numpy's rule, aligned at the right; only size 1 stretches.

    (8, 1), (32,) -> (8, 32)

    Raises: BroadcastError with the shapes.
    """
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    ndim = max(map(len, shapes))
    padded = [(1,) * (ndim - len(s)) + s for s in shapes]
    out = []
    for sizes in zip(*padded, strict=True):
        distinct = {s for s in sizes if not (isinstance(s, int) and s == 1)}
        if len(distinct) > 1:
            listed = " and ".join(map(shape_text, shapes))
            raise BroadcastError(
                f"shape mismatch: objects cannot be broadcast to a single shape: {listed}",
                help="sizes must be equal or 1, aligned at the right",
            )
        out.append(distinct.pop() if distinct else 1)
    return tuple(out)


def _shape_first(u: UOp) -> Shape | None:
    return u.src[0]._shape


def _shape_none(u: UOp) -> Shape | None:
    return None


def _shape_scalar(u: UOp) -> Shape | None:
    return ()


def _shape_broadcast(u: UOp) -> Shape | None:
    shapes = [s._shape for s in u.src]
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    if any(s is None for s in shapes):
        return None
    if DISALLOW_BROADCAST:
        listed = ", ".join(f"{s.op.name} {shape_text(s.shape)}" for s in u.src)
        raise BroadcastError(
            f"shape mismatch at {u.op}: {listed}",
            help="expand the sources to one shape first, or set DISALLOW_BROADCAST=0",
        )
    return broadcast_shape(*shapes)  # type: ignore[arg-type]


def _shape_defined(u: UOp) -> Shape | None:
    return None if not u.src or u.src[0].op is Ops.NOOP else node_to_shape(u.src[0])


def _shape_stack(u: UOp) -> Shape | None:
    if not u.src:
        return (0,)
    inner = u.src[0]._shape
    return None if inner is None else (len(u.src), *inner)


def _shape_index(u: UOp) -> Shape | None:
    inner = u.src[0]._shape
    indices = u.src[1:]
    if inner is None:
        return None
    found: Shape = ()
    for i in indices:
        found += i._shape or ()
    return found + tuple(inner[len(indices) :])


def _shape_load(u: UOp) -> Shape | None:
    return u.src[0]._shape


def _shape_gettuple(u: UOp) -> Shape | None:
    if u.src[0].op is not Ops.FUNCTION:
        inner: Shape | None = u.src[0].src[u.arg]._shape
        return inner
    function = u.src[0]
    shape: Shape | None = function.src[0].src[u.arg]._shape
    if shape is None or all(isinstance(s, int) for s in shape):
        return shape
    params = {
        p: function.src[1 + p.arg.slot]
        for s in shape
        if not isinstance(s, int)
        for p in s.toposort()
        if p.op is Ops.PARAM
    }
    return tuple(s if isinstance(s, int) else s.substitute(params) for s in shape)


def _shape_bitcast(u: UOp) -> Shape | None:
    shape, old, new = u.src[0]._shape, u.src[0].dtype.itemsize, u.dtype.itemsize
    if not shape or old == new:
        return shape
    if shape[-1] * old % new:
        raise ShapeError(
            f"unsupported size in bitcast: the last axis of {shape_text(shape)} has "
            f"{size_text(shape[-1])} x {old} bytes, which is no multiple of {new}",
            help="pad the last axis, or bitcast to a type of the same size",
        )
    return (*shape[:-1], shape[-1] * old // new)


def _shape_stage(u: UOp) -> Shape | None:
    inner = u.src[0]._shape
    return None if inner is None else tuple(_range_size(r) for r in u.src[1:]) + inner


def _range_size(r: UOp) -> Any:
    if r.op is Ops.CONST:
        return 1
    size = r.src[0]
    return size.arg if size.op is Ops.CONST else size


def _shape_unshard(u: UOp) -> Shape | None:
    inner = list(u.src[0].shape)
    for axis, r in zip(u.arg, u.src[1:], strict=True):
        inner[axis] = inner[axis] * _range_size(r)
    return tuple(inner)


SHAPE_TABLE: dict[Ops, Callable[[UOp], Shape | None]] = {
    **dict.fromkeys(GroupOp.Binary | GroupOp.Ternary, _shape_broadcast),
    **dict.fromkeys(GroupOp.Unary | {Ops.CAST}, _shape_first),
    **dict.fromkeys((Ops.CONST, Ops.RANGE, Ops.SPECIAL, Ops.GETADDR), _shape_scalar),
    **dict.fromkeys((Ops.BUFFER, Ops.PARAM), _shape_defined),
    **dict.fromkeys(
        (Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH, Ops.COPY, Ops.AFTER), _shape_first
    ),
    **dict.fromkeys((Ops.STORE, Ops.END, Ops.MSELECT, Ops.MSTACK, Ops.ALLREDUCE), _shape_first),
    **dict.fromkeys((Ops.SINK, Ops.GROUP, Ops.BARRIER, Ops.IF, Ops.ENDIF), _shape_none),
    **dict.fromkeys((Ops.LINEAR, Ops.PROGRAM, Ops.SOURCE, Ops.TUPLE, Ops.CALL), _shape_none),
    **dict.fromkeys((Ops.FUNCTION, Ops.CUSTOM_FUNCTION, Ops.REWRITE_ERROR), _shape_none),
    Ops.PYLITERAL: _shape_none,
    Ops.NOOP: lambda u: u.src[0]._shape if u.src else None,
    Ops.INS: _shape_scalar,
    Ops.CUSTOM: lambda u: _shape_broadcast(u) if u.src else (),
    Ops.CUSTOMI: lambda u: _shape_broadcast(u) if u.src else (),
    Ops.BINARY: lambda u: (len(u.arg),),
    Ops.STACK: _shape_stack,
    Ops.INDEX: _shape_index,
    Ops.LOAD: _shape_load,
    Ops.GETTUPLE: _shape_gettuple,
    Ops.BITCAST: _shape_bitcast,
    Ops.STAGE: _shape_stage,
    Ops.UNSHARD: _shape_unshard,
    Ops.RESHAPE: lambda u: node_to_shape(u.src[1]),
    Ops.PERMUTE: lambda u: tuple(u.src[0].shape[a] for a in u.arg),
    Ops.EXPAND: lambda u: node_to_shape(u.src[1]) + u.src[0].shape,
    Ops.PAD: lambda u: node_to_shape(u.src[2]),
    Ops.SHRINK: lambda u: node_to_shape(u.src[2]),
    Ops.FLIP: _shape_first,
    Ops.REDUCE: lambda u: None if (s := u.src[0]._shape) is None else s[u.arg[1] :],
    Ops.WMMA: lambda u: broadcast_shape(*(s.shape[:-1] for s in u.src)) + u.src[2].shape[-1:],
}


def infer_shape(u: UOp) -> Shape | None:
    """The shape of a node whose sources have theirs; None where the node is no value."""
    return SHAPE_TABLE[u.op](u)
