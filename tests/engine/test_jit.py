"""TinyJit: what is captured, what is replayed on which memory, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tinylab import Context, GlobalCounters, Tensor, TinyJit, Variable
from tinylab.engine.jit import CapturedJit
from tinylab.errors import JitError
from tinylab.opcodes import Ops


def vector(*values: float) -> Tensor:
    return Tensor([float(v) for v in values]).realize()


def kernels_of(run) -> int:
    GlobalCounters.reset()
    run()
    return GlobalCounters.kernel_count


@pytest.mark.parametrize("jit", [0, 1, 2])
def test_every_call_gives_the_functions_value(jit: int):
    with Context(JIT=jit):
        f = TinyJit(lambda x, y: (x * y + 1).sum().realize())
        for i in range(5):
            assert f(vector(i, 2.0), vector(3.0, i)).item() == 3.0 * i + 2.0 * i + 2
        assert f.cnt == 5
        assert isinstance(f.captured, CapturedJit) == (jit > 0)


def test_results_keep_their_values():
    square = TinyJit(lambda x: (x * x).realize())
    kept = [square(vector(i)) for i in range(6)]
    assert [t.item() for t in kept] == [float(i * i) for i in range(6)]


def test_results_of_in_place_updates_keep_their_values():
    state = vector(0.0)

    @TinyJit
    def add(x):
        state.assign(state + x)
        return state.realize()

    kept = [add(vector(1.0)) for _ in range(5)]
    assert state.item() == 5.0
    assert [t.item() for t in kept[1:]] == [2.0, 3.0, 4.0, 5.0]


def test_a_replay_is_one_native_call_whose_schedule_says_so():
    @TinyJit
    def f(x):
        y = (x + 1).contiguous()
        return (y * y.sum()).realize()

    for i in range(3):
        f(vector(1.0, i))
    (call,) = f.captured.linear.src
    assert call.src[0].op is Ops.CUSTOM_FUNCTION
    assert call.src[0].arg == "graph"
    assert len(call.src[0].src[0].src) == len(f.captured.steps) > 1


def test_without_graphs_the_schedule_is_plain():
    with Context(JIT=2):
        f = TinyJit(lambda x: (x + 1).realize())
        for i in range(3):
            f(vector(i))
        assert all(call.src[0].op is not Ops.CUSTOM_FUNCTION for call in f.captured.linear.src)


def test_a_method_is_bound_and_its_state_moves():
    class Counter:
        def __init__(self):
            self.total = vector(0.0)

        @TinyJit
        def add(self, x):
            self.total.assign(self.total + x)
            return (self.total * 2).realize()

    counter = Counter()
    assert [counter.add(vector(float(i))).item() for i in range(5)] == [0.0, 2.0, 6.0, 12.0, 20.0]


def test_tensors_in_containers_and_keywords_are_inputs():
    f = TinyJit(lambda pair, *, scale: ((pair[0] - pair[1]["x"]) * scale).realize())
    g = TinyJit(lambda pair, named, *, scale: ((pair[0] - named["x"]) * scale).realize())
    assert f.captured is None
    for i in range(4):
        assert g([vector(i)], {"x": vector(1.0)}, scale=vector(2.0)).item() == 2.0 * (i - 1)


def test_nested_results():
    f = TinyJit(lambda x: {"a": (x + 1).realize(), "b": [(x * 2).realize(), None]})
    for i in range(4):
        got = f(vector(i))
        assert (got["a"].item(), got["b"][0].item(), got["b"][1]) == (i + 1.0, i * 2.0, None)


def test_random_numbers_differ_from_call_to_call():
    draw = TinyJit(lambda x: (Tensor.rand(4) + x).realize())
    assert len({tuple(draw(vector(0.0)).tolist()) for _ in range(5)}) == 5


def test_what_does_not_depend_on_inputs_runs_once_when_pruned():
    weights = vector(1.0, 2.0)

    def f(x):
        table = (weights.exp2() * 3).contiguous().realize()
        return (table * x).realize()

    plain, pruned = TinyJit(f), TinyJit(prune=True)(f)
    for i in range(3):
        assert plain(vector(i)).tolist() == pruned(vector(i)).tolist() == [6.0 * i, 12.0 * i]
    x = vector(5.0)
    assert kernels_of(lambda: plain(x)) == 2
    assert kernels_of(lambda: pruned(x)) == 1


def test_state_is_never_pruned():
    state = vector(0.0)

    @TinyJit(prune=True)
    def f(x):
        state.assign(state + 1).realize()
        return (x + state).realize()

    assert [f(vector(10.0)).item() for _ in range(5)] == [11.0, 12.0, 13.0, 14.0, 15.0]


def test_sizes_that_are_bound_anew():
    base = Tensor(np.arange(10, dtype=np.float32)).realize()
    total = TinyJit(lambda t: (t + 1).sum().realize())
    for n in range(2, 8):
        size = Variable("n", 1, 10).bind(n)
        assert total(base[:size]).item() == sum(range(1, n + 1))


def test_a_record_sees_the_kernels_of_a_replay():
    from tinylab import record

    f = TinyJit(lambda x: (x + 1).realize())
    for i in range(3):
        f(vector(i))
    x = vector(1.0)
    with record() as rec:
        f(x)
    assert [e.kind for e in rec.events if e.kind == "run"] == ["run"]


def test_reset_captures_anew():
    f = TinyJit(lambda x: (x + 1).realize())
    for i in range(3):
        f(vector(i))
    f.reset()
    assert (f.cnt, f.captured) == (0, None)
    for i in range(3):
        assert f(vector(i, i)).tolist() == [i + 1.0, i + 1.0]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (lambda: (vector(1.0, 2.0, 3.0), vector(1.0)), "args mismatch in JIT"),
        (lambda: (Tensor([1, 2]).realize(), vector(1.0, 2.0)), "args mismatch in JIT"),
        (lambda: (vector(1.0, 2.0),), "args mismatch in JIT"),
        (lambda: (Tensor(3.0), vector(1.0, 2.0)), "JIT inputs must be real buffers"),
        (lambda: (x := vector(1.0, 2.0), x), "duplicate inputs to JIT"),
    ],
    ids=["shape", "dtype", "number", "constant", "twice"],
)
def test_calls_that_do_not_fit_are_refused(args, message: str):
    f = TinyJit(lambda x, y=None: (x + (0 if y is None else y)).realize())
    for _ in range(3):
        f(vector(1.0, 2.0), vector(3.0, 4.0))
    with pytest.raises(JitError, match=message):
        f(*args())
    assert f(vector(1.0, 1.0), vector(1.0, 2.0)).tolist() == [2.0, 3.0]


def test_nothing_to_capture():
    x = vector(1.0)
    f = TinyJit(lambda: x)
    f()
    with pytest.raises(JitError, match="didn't JIT anything!"):
        f()


def test_only_tensors_are_returned():
    f = TinyJit(lambda x: 3)
    with pytest.raises(JitError, match="JIT return contains non-Tensor value of type"):
        f(vector(1.0))


def test_values_cannot_be_asked_for_during_capture():
    f = TinyJit(lambda x: (x + x.sum().item()).realize())
    f(vector(1.0))
    with pytest.raises(JitError, match="cannot access tensor data during JIT capture"):
        f(vector(1.0))


def test_one_inside_another_is_refused():
    inner = TinyJit(lambda x: (x + 1).realize())
    outer = TinyJit(lambda x: (inner(x) * 2).realize())
    outer(vector(1.0))
    with pytest.raises(RuntimeError, match="having TinyJit inside another TinyJit"):
        outer(vector(1.0))
