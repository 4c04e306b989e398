"""Derivatives: a row for each operation, and the walk that applies them from result to sources.

A row takes the node and the gradient of its value, and gives one gradient (or None) per source, in
the source's type; what broadcasting repeated is summed afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from tinylab.dtype import dtypes, strong_dtype, sum_acc_dtype
from tinylab.errors import GradientError
from tinylab.helpers.arguments import explained, shown
from tinylab.helpers.measure import Metadata
from tinylab.helpers.text import pluralize
from tinylab.mixin.base import shape_text
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.args import is_unit
from tinylab.uop.infer import Shape, node_to_shape
from tinylab.uop.intern import callables, make
from tinylab.uop.ops import UOp, shape_to_shape_arg

Grads: TypeAlias = "Sequence[UOp | None]"
Pairs: TypeAlias = "list[tuple[UOp, UOp | None]]"
Row: TypeAlias = "Callable[[UOp, UOp], Grads]"


def _const(like: UOp, value: float) -> UOp:
    return UOp.const(value, like.dtype)


def _mul(a: UOp, b: UOp) -> UOp:
    return a.alu(Ops.MUL, b)


def _scaled(a: UOp, factor: float) -> UOp:
    return _mul(a, _const(a, factor))


def _zero_where_not(mask: UOp, g: UOp) -> UOp:
    return mask.alu(Ops.WHERE, g, _const(g, 0))


def _zero_where(mask: UOp, g: UOp) -> UOp:
    return mask.alu(Ops.WHERE, _const(g, 0), g)


def _equal(a: UOp, b: UOp) -> UOp:
    return a.alu(Ops.CMPNE, b).logical_not()


# *** elementwise


def _exp2(x: UOp, g: UOp) -> Grads:
    return (_mul(g, _scaled(x, math.log(2))),)


def _log2(x: UOp, g: UOp) -> Grads:
    return (_mul(g, _scaled(x.src[0], math.log(2)).alu(Ops.RECIPROCAL)),)


def _sin(x: UOp, g: UOp) -> Grads:
    return (_mul(g, x.src[0].alu(Ops.COS)),)


def _cos(x: UOp, g: UOp) -> Grads:
    return (_scaled(_mul(g, x.src[0].alu(Ops.SIN)), -1),)


def _sqrt(x: UOp, g: UOp) -> Grads:
    return (_mul(g, _scaled(x, 2).alu(Ops.RECIPROCAL)),)


def _reciprocal(x: UOp, g: UOp) -> Grads:
    return (_scaled(_mul(_mul(g, x), x), -1),)


def _multiply(x: UOp, g: UOp) -> Grads:
    a, b = x.src
    return _mul(g, b), _mul(g, a)


def _divide(x: UOp, g: UOp) -> Grads:
    inverse = x.src[1].alu(Ops.RECIPROCAL)
    return _mul(g, inverse), _scaled(_mul(_mul(g, x), inverse), -1)


def _is_bound(x: UOp) -> bool:
    """Whether this is a constant that is told not to share, as that of relu."""
    while x.op in GroupOp.Movement:
        x = x.src[0]
    return x.op is Ops.DETACH and x.src[0].base.op is Ops.CONST


def _larger(x: UOp, g: UOp) -> Grads:
    """To the larger one; equal ones share, but beside a bound the slope is 0."""
    a, b = x.src
    if _is_bound(a) or _is_bound(b):
        return _zero_where_not(b.alu(Ops.CMPLT, a), g), _zero_where_not(a.alu(Ops.CMPLT, b), g)
    shared = _zero_where_not(_equal(a, b), _scaled(g, 0.5))

    def share(mine: UOp, other: UOp) -> UOp:
        return other.alu(Ops.CMPLT, mine).alu(Ops.WHERE, g, shared)

    return share(a, b), share(b, a)


def _power(x: UOp, g: UOp) -> Grads:
    """y x^(y-1) and x^y log x; 0 where the power does not depend on the side (y = 0, x = 0)."""
    base, exponent = x.src
    less = exponent.alu(Ops.ADD, _const(exponent, -1))
    zero = _const(base, 0)
    nonzero = base.alu(Ops.CMPLT, zero).alu(Ops.OR, zero.alu(Ops.CMPLT, base))
    constant = _equal(exponent, _const(exponent, 0)).alu(Ops.AND, nonzero.logical_not())
    # What is masked must be finite all the same: its own slopes are multiplied by 0.
    slope = _mul(exponent, base.alu(Ops.POW, _zero_where(constant, less)))
    still = _equal(base, zero).alu(
        Ops.AND, exponent.alu(Ops.CMPLT, _const(exponent, 0)).logical_not()
    )
    log = _scaled(still.alu(Ops.WHERE, _const(base, 1), base).alu(Ops.LOG2), math.log(2))
    return _mul(g, slope), _mul(g, _mul(x, log))


def _where(x: UOp, g: UOp) -> Grads:
    return None, _zero_where_not(x.src[0], g), _zero_where(x.src[0], g)


def _remainder(x: UOp, g: UOp) -> Grads:
    return g, None


def _multiply_add(x: UOp, g: UOp) -> Grads:
    a, b, _ = x.src
    return _mul(g, b), _mul(g, a), g


# *** movement


def _reshape(x: UOp, g: UOp) -> Grads:
    """A node of its own: what it stands on may be a tensor that a gradient is asked for later."""
    return make(Ops.RESHAPE, g.dtype, (g, shape_to_shape_arg(x.src[0].shape))), None


def _permute(x: UOp, g: UOp) -> Grads:
    return (g._permute(tuple(x.arg.index(i) for i in range(len(x.arg)))),)


def _expand(x: UOp, g: UOp) -> Grads:
    return _sum_axes(g, range(len(node_to_shape(x.src[1])))), None


def _pad(x: UOp, g: UOp) -> Grads:
    return g._shrink(node_to_shape(x.src[1]), x.src[0].shape), None, None


def _shrink(x: UOp, g: UOp) -> Grads:
    return g._pad(node_to_shape(x.src[1]), x.src[0].shape), None, None


def _flip(x: UOp, g: UOp) -> Grads:
    return (g._flip(x.arg),)


def _stack(x: UOp, g: UOp) -> Grads:
    shape = x.shape[1:]
    zeros = (0,) * len(shape)
    return [g._shrink((i, *zeros), (1, *shape))._reshape(shape) for i in range(len(x.src))]


# *** reductions


def _spread(value: UOp, like: UOp) -> UOp:
    """A reduced value seen in the shape that was reduced."""
    return value._expand_front(like.shape[: len(like.shape) - len(value.shape)])


def _reduce(x: UOp, g: UOp) -> Grads:
    source, op = x.src[0], x.arg[0]
    wide = _spread(g, source)
    if op is Ops.ADD:
        return (wide,)
    axes = range(x.arg[1])
    if op is Ops.MAX:
        hit = _equal(source, _spread(x, source))
        one = hit.cast(g.dtype)
        share = _sum_axes(one, axes).alu(Ops.RECIPROCAL)
        return (_zero_where_not(hit, _mul(wide, _spread(share, source))),)
    return (_mul(wide, _others(source, x.arg[1])),)


def _others(x: UOp, count: int) -> UOp:
    """The product of all other elements along the first axes, an axis at a time."""
    found = x._others(0)
    for _ in range(count - 1):
        x = x._rop(Ops.MUL, (0,))
        found = _mul(found, x._others(0))
    return found


# *** types, order, devices


def _cast(x: UOp, g: UOp) -> Grads:
    return (g.cast(x.src[0].dtype) if x.src[0].dtype.kind == "float" else None,)


def _same(x: UOp, g: UOp) -> Grads:
    return (g,)


def _copy(x: UOp, g: UOp) -> Grads:
    return (g.copy_to_device(x.src[0].device),)


def _allreduce(x: UOp, g: UOp) -> Grads:
    """Every device's value is in the sum that all devices get."""
    if x.arg[0] is not Ops.ADD:
        raise GradientError(f"no gradient goes through an allreduce with {x.arg[0]}")
    return (g,)


def _contiguous_backward(x: UOp, g: UOp) -> Grads:
    return (g.alu(Ops.CONTIGUOUS),)


def _stored(x: UOp, g: UOp) -> tuple[UOp | None, list[tuple[UOp, UOp]]]:
    """(gradient of the value before, [(stored value, its gradient)]) of AFTER(target, STORE…).

    What was stored gets the gradient of its place, what was there before that of the rest; of
    several writes the last comes first.
    """
    found = []
    for effect in reversed(x.src[1:]):
        if effect.op is not Ops.STORE:
            continue
        target, value = effect.src[:2]
        found.append((value, _seen_through(target, x.src[0], g)))
        g = _zero_where(_written(target, x.src[0]), g)
    return g, found


def views_between(target: UOp, base: UOp) -> list[UOp]:
    """The movements between a value and what is written of it, outermost first."""
    chain = []
    while target is not base:
        if target.op not in GroupOp.Movement and target.op is not Ops.DETACH:
            raise GradientError(
                f"no gradient goes through a write into {target.op} of another value",
                help="write into a view of the tensor itself",
            )
        if target.op is not Ops.DETACH:
            chain.append(target)
        target = target.src[0]
    return chain


def _seen_through(target: UOp, base: UOp, g: UOp) -> UOp:
    """The gradient at the places that were written."""
    for view in reversed(views_between(target, base)):
        g = view.replace(src=(g, *view.src[1:]))
    return g


def _written(target: UOp, base: UOp) -> UOp:
    """Where a write into this view falls, in the shape of the whole."""
    mask = UOp.const(True, dtypes.bool)._expand_front(target.shape)
    return placed(views_between(target, base), mask)


def placed(chain: Iterable[UOp], value: UOp) -> UOp:
    """A value put where a chain of movements (outermost first) would look for it; 0 elsewhere."""
    for view in chain:
        value = _MOVEMENT[view.op](view, value)[0]  # type: ignore[assignment]
    return value


def _none(x: UOp, g: UOp) -> Grads:
    """What has no derivative."""
    return [None] * len(x.src)


def _flat(x: UOp, g: UOp) -> Grads:
    """A derivative of 0: it is handed on to what is below without being worked out."""
    return [None] * len(x.src)


_MOVEMENT: dict[Ops, Row] = {
    Ops.RESHAPE: _reshape,
    Ops.PERMUTE: _permute,
    Ops.EXPAND: _expand,
    Ops.PAD: _pad,
    Ops.SHRINK: _shrink,
    Ops.FLIP: _flip,
}

GRADIENTS: dict[Ops, Row] = {
    **_MOVEMENT,
    Ops.EXP2: _exp2,
    Ops.LOG2: _log2,
    Ops.SIN: _sin,
    Ops.COS: _cos,
    Ops.SQRT: _sqrt,
    Ops.RECIPROCAL: _reciprocal,
    Ops.NEG: lambda x, g: (_scaled(g, -1),),
    Ops.TRUNC: _flat,
    Ops.ADD: lambda x, g: (g, g),
    Ops.SUB: lambda x, g: (g, _scaled(g, -1)),
    Ops.MUL: _multiply,
    Ops.FDIV: _divide,
    Ops.MAX: _larger,
    Ops.POW: _power,
    Ops.FLOORMOD: _remainder,
    Ops.CMOD: _remainder,
    Ops.FLOORDIV: _none,
    Ops.CDIV: _none,
    Ops.WHERE: _where,
    Ops.MULACC: _multiply_add,
    Ops.STACK: _stack,
    Ops.REDUCE: _reduce,
    Ops.CAST: _cast,
    Ops.CONTIGUOUS: _same,
    Ops.CONTIGUOUS_BACKWARD: _contiguous_backward,
    Ops.COPY: _copy,
    Ops.ALLREDUCE: _allreduce,
    **dict.fromkeys(
        (
            Ops.DETACH,
            Ops.BITCAST,
            Ops.CONST,
            Ops.BUFFER,
            Ops.PARAM,
            Ops.STAGE,
            Ops.MSELECT,
            Ops.MSTACK,
            Ops.CMPLT,
            Ops.CMPNE,
            Ops.CMPEQ,
            Ops.XOR,
            Ops.OR,
            Ops.AND,
            Ops.SHL,
            Ops.SHR,
            Ops.THREEFRY,
        ),
        _none,
    ),
}


def _sum_axes(x: UOp, axes: Iterable[int]) -> UOp:
    """A sum over axes in a type wide enough."""
    wide = sum_acc_dtype(x.dtype)
    return x.cast(wide)._rop(Ops.ADD, tuple(axes)).cast(x.dtype)


def _unbroadcast(g: UOp, source: UOp) -> UOp:
    """The gradient in the shape of a source that was broadcast: summed where it was repeated."""
    shape = source.shape
    if g.shape == shape:
        return g
    lead = len(g.shape) - len(shape)
    repeated = [
        i + lead for i, s in enumerate(shape) if is_unit(s) and not is_unit(g.shape[i + lead])
    ]
    axes = (*range(lead), *repeated)
    return (_sum_axes(g, axes) if axes else g)._reshape(shape)


def _flows(x: UOp) -> bool:
    """Whether a gradient may pass through a node at all."""
    return x.dtype.kind == "float" and x.op is not Ops.DETACH


def _reaches(root: UOp, targets: set[UOp]) -> tuple[list[UOp], set[UOp]]:
    """(all nodes through which gradients may flow, sources first; those above a target)."""
    order = list(root.toposort(gradients_pass, enter_calls=False))
    above: set[UOp] = set()
    for x in order:
        if x in targets or any(s in above for s in x.src):
            above.add(x)
    return order, above


def gradients_pass(x: UOp) -> bool:
    """Whether gradients may go on below a node."""
    through = x.op in (Ops.STORE, Ops.CAST, Ops.CALL, Ops.FUNCTION, Ops.SINK)
    return x.op is not Ops.DETACH and (x.dtype.kind == "float" or through)


def _kernel_of(x: UOp, above: set[UOp]) -> UOp | None:
    """The CALL whose result this is, if it has a gradient function or would need one."""
    if x.op is not Ops.AFTER:
        return None
    calls = (e for e in x.src[1:] if e.op is Ops.CALL)
    return next((e for e in calls if e.arg.grad_key is not None or e in above), None)


def _called_of(x: UOp, above: set[UOp]) -> UOp | None:
    """The call that a value is one of the results of, if gradients of all of them go there."""
    if x.op is Ops.GETTUPLE and x.src[0].op is Ops.FUNCTION:
        return x.src[0]
    return _kernel_of(x, above)


def _call_pairs(call: UOp, incoming: dict[UOp, UOp], above: set[UOp]) -> Pairs:
    """Each argument of a call with its gradient; incoming: the gradients of its results.

    Where somebody wrote a function for it, one gradient is passed as grad_fxn(grad, call), several
    in the order of the results as grad_fxn(*grads, call=call).

    Raises: GradientError for a kernel without a gradient function.
    """
    if call.arg.grad_key is None and call.op is Ops.CALL:
        raise GradientError(
            f"expected TUPLE body for gradient, got {call.src[0].op}: a kernel written by hand has "
            "no derivative",
            help="give it one, grad_fxn=lambda grad, call: (...), or .detach() what it is called "
            "with",
        )
    if call.arg.grad_key is None:
        return _function_pairs(call, incoming, above)
    function = callables[call.arg.grad_key]
    grads = [incoming[x] for x in sorted(incoming, key=lambda x: _place(x, call))]
    found = function(grads[0], call) if len(grads) == 1 else function(*grads, call=call)
    return list(zip(call.src[1:], _written_gradients(found, call.src[1:]), strict=True))


def _written_gradients(found: Any, sources: Sequence[UOp]) -> list[UOp | None]:
    """What a user's gradient function returned: one for each argument, tensors as their nodes.

    Raises: GradientError for another number, for what is no value, and for one of another shape.
    """
    help = "return a tuple of one for each argument, outputs too; None where there is none"
    if not isinstance(found, (tuple, list)):
        raise GradientError(f"the gradient function gave {shown(found)}", help=help)
    if len(found) != len(sources):
        raise GradientError(
            f"the gradient function gave {pluralize('gradient', len(found))} for "
            f"{pluralize('argument', len(sources))}",
            help=help,
        )
    nodes = [getattr(grad, "uop", grad) for grad in found]
    for n, (grad, source) in enumerate(zip(nodes, sources, strict=True)):
        if grad is None:
            continue
        if not isinstance(grad, UOp):
            raise GradientError(
                f"the gradient function gave {shown(grad)} for argument {n}", help=help
            )
        if not _stretches(source.shape, grad.shape):
            raise GradientError(
                f"the gradient function gave shape {shape_text(grad.shape)} for argument {n} of "
                f"shape {shape_text(source.shape)}",
                help="it must have the shape of the argument, or one that broadcasting gave it",
            )
    return nodes


def _stretches(small: Shape, large: Shape) -> bool:
    """Whether broadcasting makes one shape of the other."""
    lead = len(large) - len(small)
    return lead >= 0 and all(is_unit(a) or a == b for a, b in zip(small, large[lead:], strict=True))


def _place(result: UOp, call: UOp) -> int:
    """Which one of a call's results a value is."""
    if result.op is Ops.GETTUPLE:
        return int(result.arg)
    return call.src.index(result.src[0])


@explained
def compute_gradient(root: UOp, root_grad: UOp, targets: Iterable[UOp]) -> dict[UOp, UOp]:
    """The gradients of a value with respect to nodes below it, where it depends on them.

    Works through the graph once, from the result down, without recursion.

    Raises: GradientError for an operation that has no derivative.
    """
    return _gradients({root: root_grad}, targets)


def _gradients(roots: dict[UOp, UOp], targets: Iterable[UOp]) -> dict[UOp, UOp]:
    """The gradients of several values, each with its own, added up; 0 below what is flat."""
    wanted = set(targets)
    order, above = _reaches(UOp.sink(*roots), wanted)
    grads = dict(roots)
    flat: set[UOp] = set()  # what only flat functions are made of
    incoming: dict[UOp, dict[UOp, UOp]] = {}  # gradients of the results of calls, by call
    for x in reversed(order):
        if x not in above:
            continue
        g = grads.get(x)
        call = _called_of(x, above)
        if g is not None and call is not None and _flows(x):
            incoming.setdefault(call, {})[x] = g
            continue
        if x in incoming:
            pairs = _call_pairs(x, incoming[x], above)
        elif g is not None and _flows(x):
            pairs = _pairs(x, g)
        else:
            flat.update(_below_flat(x, above) if x in flat else ())
            continue
        if GRADIENTS.get(x.op) is _flat:
            flat.update(_below_flat(x, above))
        for source, grad in pairs:
            if grad is None or source not in above or not _flows(source):
                continue
            grad = _unbroadcast(grad.cast(source.dtype), source)
            if x.metadata is not None:
                _mark_backward(grad, tuple(Metadata(m.name, True) for m in x.metadata))
            known = grads.get(source)
            grads[source] = grad if known is None else known.alu(Ops.ADD, grad)
    zeros = {t: _const(t, 0)._expand_front(t.shape) for t in wanted & flat}
    return zeros | {t: grads[t] for t in wanted if t in grads}


def _below_flat(x: UOp, above: set[UOp]) -> list[UOp]:
    """What a value was made of, where a gradient would flow: those whose gradient is 0 as well."""
    if GRADIENTS.get(x.op) is _none:
        return []
    call = _called_of(x, above)
    sources = [call] if call is not None else [*x.src]
    if x.op is Ops.AFTER:
        sources += [e.src[1] for e in x.src[1:] if e.op is Ops.STORE]
    return [s for s in sources if s in above and (s is call or _flows(s))]


def _mark_backward(grad: UOp, methods: tuple[Metadata, ...]) -> None:
    """The nodes of a gradient come from the method whose gradient it is."""
    stack = [grad]
    while stack:
        x = stack.pop()
        if x.metadata is None and x.src and x.dtype is not dtypes.weakint:
            x.metadata = methods
            stack.extend(x.src)


def _function_pairs(f: UOp, incoming: dict[UOp, UOp], above: set[UOp]) -> Pairs:
    """Each argument of a FUNCTION with the gradient that comes through its results.

    The body's own gradient, with the arguments in the place of its parameters; only for arguments
    that a gradient is wanted of. With precompile_backward it is a function of its own.
    """
    inputs = {
        u: f.src[1 + u.arg.slot]
        for u in f.src[0].toposort(enter_calls=False)
        if u.op is Ops.PARAM and u.arg.slot >= 0
    }
    roots: dict[UOp, UOp] = {}
    given: list[UOp] = []
    for x, grad in incoming.items():
        value = f.src[0].src[x.arg]
        g = grad.cast(strong_dtype(grad.dtype))  # of a number it is weak, and no parameter is
        p = UOp.param(len(f.src) - 1 + len(given), g.dtype, value.shape, g.device, axis=g.axis)
        roots[value] = p if value not in roots else roots[value].alu(Ops.ADD, p)
        given.append(g)
        inputs[p] = g
    inner = _gradients(roots, [p for p, a in inputs.items() if a in above and _flows(p)])
    wanted = list(inner)
    if f.arg.precompile_backward and wanted:
        body = UOp.maketuple(*inner.values())
        name = f"backward of {f.arg.name}"
        call = body.call(*f.src[1:], *given, name=name, precompile=True, precompile_backward=True)
        return [(inputs[p], call.gettuple(n)) for n, p in enumerate(wanted)]
    return [(inputs[p], grad.substitute(inputs, walk=True)) for p, grad in inner.items()]


def _shard_pairs(x: UOp, g: UOp) -> Pairs:
    """What was cut into shards gets the whole gradient, back on its own device.

    UNSHARD(SHRINK(COPY(x, devices), its part), devices): the pair of x.
    """
    copied = x.src[0]
    while copied.op in (Ops.SHRINK, Ops.RESHAPE):
        copied = copied.src[0]
    if copied.op is not Ops.COPY:
        return []
    source = copied.src[0]
    return [(source, g.copy_to_device(source.device))]


def _pairs(x: UOp, g: UOp) -> Pairs:
    """Each source with its gradient."""
    if x.op is Ops.AFTER:
        before, stored = _stored(x, g)
        return [(x.src[0], before), *stored]
    if x.op is Ops.UNSHARD:
        return _shard_pairs(x, g)
    row = GRADIENTS.get(x.op)
    if row is None:
        raise GradientError(f"failed to compute gradient for {x.op}: it has no derivative")
    return list(zip(x.src, row(x, g), strict=False))
