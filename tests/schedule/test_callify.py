"""The walk that numbers inputs does what the rule table does."""

from __future__ import annotations

from tests.schedule.graphs import tensor
from tinylab.dtype import dtypes
from tinylab.opcodes import Ops
from tinylab.schedule import callify
from tinylab.uop.ops import UOp


def _graphs() -> list[UOp]:
    x, y = tensor(3, 4), tensor(3, 4)
    several = UOp.sink((x + y).contiguous(), (y * x).contiguous(), x)
    written = UOp.sink(x.after(x.store(x + y)), (x - y).contiguous())
    variable = UOp.variable("n", 1, 4)
    bound = UOp.sink((x * variable.bind(3).cast(dtypes.float32)).contiguous())
    return [several, written, bound, UOp.sink(x), UOp.sink()]


def test_walk_agrees_with_the_rule() -> None:
    for sink in _graphs():
        assert callify(sink) == callify(sink, by_rules=True), sink


def test_inputs_are_numbered_as_they_are_met() -> None:
    x, y = tensor(2), tensor(2)
    called = callify(UOp.sink((y + x).contiguous(), x.contiguous()))
    assert called.inputs == (y.base, x.base)
    params = [u.arg.slot for u in called.body.toposort() if u.op is Ops.PARAM]
    assert params == [0, 1]


def test_equal_graphs_over_other_buffers_have_one_body() -> None:
    bodies = {callify(UOp.sink((tensor(2) + tensor(2)).contiguous())).body for _ in range(3)}
    assert len(bodies) == 1


def test_bodies_of_calls_stay() -> None:
    x, y = tensor(4), tensor(4)
    call = UOp(Ops.CALL, dtypes.void, (UOp.sink(x), y))
    for by_rules in (False, True):
        assert callify(UOp.sink(x, call), by_rules).body.src[1].src[0] is UOp.sink(x)
