"""TinyJit: what is captured, what is replayed on which memory, and what is refused."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys

import numpy as np
import pytest

from tinylab import Context, GlobalCounters, Tensor, TinyJit, Variable
from tinylab.engine.capture import captured
from tinylab.engine.graph import GraphException, MultiGraphRunner, NativeGraph, graph_class
from tinylab.engine.jit import CapturedJit
from tinylab.engine.linear import run_linear
from tinylab.errors import JitError, ShapeError
from tinylab.opcodes import Ops
from tinylab.uop.ops import KernelInfo, UOp


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
    assert [t.item() for t in kept] == [1.0, 2.0, 3.0, 4.0, 5.0]


VIEWS = {
    "piece": lambda t: t[0:1],
    "detached": lambda t: t.detach(),
    "reversed": lambda t: t.flip(0),
    "realized": lambda t: t.reshape(2, 1).realize(),
}


@pytest.mark.parametrize("jit", [0, 1, 2])
@pytest.mark.parametrize("name", VIEWS)
def test_views_that_somebody_holds_see_the_old_state(name: str, jit: int):
    state, held, want = vector(1.0, 2.0), [], []

    @TinyJit
    def add(x):
        state.assign(state + x)
        return (state * 2).realize()

    with Context(JIT=jit):
        for _ in range(5):
            held.append(VIEWS[name](state))
            want.append(VIEWS[name](state.clone()).tolist())
            add(vector(1.0, 1.0))
        assert [t.tolist() for t in held] == want
        assert state.tolist() == [6.0, 7.0]
        assert add.captured is None or len(add.captured.steps) == 2  # and no copies of views


def test_views_of_an_input_that_is_written_see_the_old_value_and_what_was_given_the_new():
    double = TinyJit(lambda x: x.assign(x * 2).realize())
    for _ in range(4):
        whole = vector(1.0, 2.0, 3.0)
        before, given = whole[1:3], whole[0:2]
        double(given)
        assert (before.tolist(), given.tolist()) == ([2.0, 3.0], [2.0, 4.0])
        assert whole.tolist() == [2.0, 4.0, 3.0]


def test_what_a_function_writes_to_or_makes_follows_its_replays():
    state, seen = vector(1.0, 2.0), []

    @TinyJit
    def add(x):
        state[0:1].assign(x)
        seen[:] = [state.detach()]
        return (state + 0).realize()

    for i in range(4):
        add(vector(i))
        assert state.tolist() == seen[0].tolist() == [i, 2.0]


@pytest.mark.parametrize("jit", [0, 1])
def test_state_that_is_replaced_by_what_a_kernel_wrote_into_it_follows(jit: int):
    def add_one(o: UOp, x: UOp) -> UOp:
        i = UOp.range(o.shape[0], 0)
        return o[i].store(x[i] + 1).end(i).sink(arg=KernelInfo(name="add_one"))

    state, seen = vector(0.0, 0.0), []

    @TinyJit
    def step(x):
        state.replace(state.custom_kernel(x, fxn=add_one)[0])
        return state.realize()

    with Context(JIT=jit):
        for i in range(5):
            seen.append(state.detach())
            assert step(vector(i, 1.0)).tolist() == state.tolist() == [i + 1.0, 2.0]
    assert [t.tolist() for t in seen] == [[0.0, 0.0], *([i + 1.0, 2.0] for i in range(4))]


def test_a_captured_function_is_called_with_nodes_too():
    x = vector(1.0)
    double = TinyJit(lambda x: x.assign(x * 2).realize())
    double(x), double(x)
    view = x.detach()
    double.captured([x.uop], {})
    assert (x.item(), view.item()) == (8.0, 4.0)


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


@pytest.mark.parametrize("prune", [False, True])
def test_results_may_be_written_to(prune: bool):
    fixed, state = vector(1.0, 2.0), vector(3.0, 4.0)

    @functools.partial(TinyJit, prune=prune)
    def f(x):
        y = (x + fixed).contiguous()
        return y.flip(0), y[0:1], (fixed * 2).contiguous().realize(), state, x, x[1:2]

    for i in range(5):
        found = f(vector(i, 7.0))
        assert [t.tolist() for t in found] == [
            [9.0, i + 1.0], [i + 1.0], [2.0, 4.0], [3.0, 4.0], [i, 7.0], [7.0],
        ]  # fmt: skip
        for n, t in enumerate(found):
            t.assign(t * 0 - n).realize()
        assert [t.tolist() for t in found] == [[-n] * t.shape[0] for n, t in enumerate(found)]
    assert state.tolist() == [3.0, 4.0]


def test_what_has_no_memory_is_returned_too():
    f = TinyJit(lambda x: ((x + 1).realize(), x[0:0], Tensor(3.0), Tensor.zeros(0, 2)))
    for i in range(4):
        assert [t.tolist() for t in f(vector(i))] == [[i + 1.0], [], 3.0, []]


def test_random_numbers_differ_from_call_to_call():
    draw = TinyJit(lambda x: (Tensor.rand(4) + x).realize())
    assert len({tuple(draw(vector(0.0)).tolist()) for _ in range(5)}) == 5


def test_random_numbers_differ_where_a_write_computes_them():
    def draws(jit: int) -> list[float]:
        Tensor.manual_seed(1)
        state = vector(0.0)

        def f(x):
            drawn = Tensor.rand(1) + state * 0 + x
            state.assign(state + 1).realize()
            return drawn.realize()

        with Context(JIT=jit):
            draw = TinyJit(f)
            return [draw(vector(0.0)).item() for _ in range(6)]

    assert len(set(draws(1))) == 6
    assert draws(1) == draws(0)


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


def test_a_size_that_is_bound_inside_keeps_its_value():
    base = Tensor(np.arange(10, dtype=np.float32)).realize()
    size = Variable("n", 1, 10)
    total = TinyJit(lambda t: (base[: size.bind(4)] * t).sum().realize())
    assert [total(vector(i)).item() for i in range(4)] == [0.0, 6.0, 12.0, 18.0]


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


def test_inputs_may_be_separate_pieces_of_one_buffer():
    f = TinyJit(lambda x, y: (x.assign(x * 2).realize(), (x - y).realize()))
    for i in range(4):
        whole = vector(1.0, 2.0, 3.0, i)
        doubled, less = f(whole[0:2], whole[2:4])
        assert (doubled.tolist(), less.tolist()) == ([2.0, 4.0], [-1.0, 4.0 - i])
        assert whole.tolist() == [2.0, 4.0, 3.0, float(i)]
    with pytest.raises(JitError, match="argument 1 shares its buffer with other arguments"):
        f(vector(1.0, 2.0, 3.0, 4.0)[0:2], vector(1.0, 2.0, 3.0, 4.0)[2:4])


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        (lambda b: (b[0:3], b[1:4]), "0 is elements 0 to 3, and 1 is elements 1 to 4, of one"),
        (lambda b: (b[0:2], b), "0 is elements 0 to 2, and 1 is the whole, of one buffer"),
        (lambda b: (b[0:2].flip(0), b[2:4]), "0 is a view by SHRINK, FLIP, and 1 is elements"),
    ],
)
def test_inputs_that_share_memory_are_refused(pieces, message: str):
    f = TinyJit(lambda x, y: (x.sum() + y.sum()).realize())
    inputs = pieces(vector(1.0, 2.0, 3.0, 4.0))
    f(*inputs)
    with pytest.raises(JitError, match=f"duplicate inputs to JIT: {message}") as e:
        f(*inputs)
    assert ".clone()" in e.value.help


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda b: b[2:4], "is elements 2 to 4 of a buffer of 4, captured was elements 0 to 2"),
        (lambda b: b[0:2].flip(0), "is a view by SHRINK, FLIP of a buffer of 4, captured was"),
        (lambda b: b[0:2].clone(), "is the whole of a buffer of 2, captured was elements 0 to 2"),
    ],
)
def test_another_view_than_the_captured_one_is_named(other, message: str):
    f = TinyJit(lambda x: (x + 1).realize())
    whole = vector(1.0, 2.0, 3.0, 4.0)
    for _ in range(3):
        assert f(whole[0:2]).tolist() == [2.0, 3.0]
    with pytest.raises(JitError, match=message) as e:
        f(other(whole))
    assert ".clone()" in e.value.help
    f.reset()
    for i in range(4):
        assert f(whole[i % 3 : i % 3 + 2].clone()).tolist() == [i % 3 + 2.0, i % 3 + 3.0]


def test_nothing_to_capture():
    x = vector(1.0)
    f = TinyJit(lambda: x)
    f()
    with pytest.raises(JitError, match="didn't JIT anything!"):
        f()


def test_only_tensors_are_returned_by_what_is_captured():
    f = TinyJit(lambda x: (x + 1, 3))
    assert f(vector(1.0))[1] == 3
    with pytest.raises(JitError, match="JIT return contains non-Tensor value of type"):
        f(vector(1.0))


def test_anything_is_returned_where_nothing_is_captured():
    with Context(JIT=0):
        f = TinyJit(lambda x: (x + 1, {"n": 3, "text": "some"}))
        for i in range(3):
            value, more = f(vector(i))
            assert value.uop.base.op is Ops.BUFFER
            assert (value.item(), more) == (i + 1.0, {"n": 3, "text": "some"})


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


# *** launches of many kernels


def chain(count: int):
    """A function of so many kernels."""

    def f(x):
        for i in range(count):
            x = (x + i).contiguous()
        return x.realize()

    return TinyJit(f)


def replayed(f, times: int = 3):
    for i in range(times):
        found = f(vector(i, 1.0))
    return found


def sizes_of(f) -> list[int]:
    """How many kernels each launch has."""
    return [len(c.src[0].src[0].src) for c in f.captured.linear.src]


@pytest.mark.parametrize(
    ("first", "sizes"), [(4, [4, 8, 8]), (1, [1, 2, 4, 8, 5]), (0, [20]), (32, [20])]
)
def test_batches_double(first: int, sizes: list[int]):
    with Context(JIT_BATCH_SIZE=first):
        f = chain(20)
        assert replayed(f, 4).tolist() == [3.0 + sum(range(20)), 1.0 + sum(range(20))]
    assert sizes_of(f) == sizes


def test_what_is_printed_about_launches(capsys: pytest.CaptureFixture[str]):
    with Context(DEBUG=2, JIT_BATCH_SIZE=16, NO_COLOR=1):
        replayed(chain(20))
    text = capsys.readouterr().out
    for line in (
        "JIT captured 1 linears with 1 inputs",
        "JIT GRAPHing batch with 16 kernels",
        "JIT GRAPHing batch with 4 kernels",
        "jit execs 20 calls",
        " batched 16 ",
    ):
        assert line in text


def test_a_captured_schedule_runs_on_its_own():
    f = chain(3)
    result = replayed(f)
    linear = f.captured.linear
    (call,) = linear.src
    x = vector(10.0, 20.0)
    run_linear(linear, input_uops=[x.uop.base])
    last = call.src[0].src[0].src[-1]
    assert list(last.src[1]._buffer.numpy()) == [13.0, 23.0]
    assert result.tolist() == [5.0, 4.0]


def test_a_launch_holds_steps_of_one_kind_of_device():
    with captured() as capture:
        (vector(1.0) + 1).realize()
        (vector(1.0) + 1).to("PYTHON").contiguous().realize()
    with pytest.raises(GraphException, match="one launch cannot hold steps of"):
        NativeGraph(capture.steps, [[0]] * len(capture.steps))
    assert graph_class("CPU:1") is NativeGraph
    assert issubclass(NativeGraph, MultiGraphRunner)
    assert graph_class("PYTHON") is None


def test_steps_of_two_devices_that_do_not_wait_for_each_other_make_two_launches():
    def f(x, y):
        for i in range(3):
            x = (x + i).contiguous().realize()
            y = (y * 2 + i).contiguous().realize()
        return x, y

    f = TinyJit(f)
    for i in range(4):
        a, b = f(vector(i), Tensor([float(i)], device="PYTHON").realize())
        assert (a.item(), b.item()) == (i + 3.0, i * 8.0 + 4.0)
    assert [len(launcher) for launcher in f.captured.launchers] == [3, 3]


# *** memory between calls


def test_what_is_computed_once_is_not_overwritten_by_what_shares_memory():
    w = np.arange(64, dtype=np.float32)
    weights = Tensor(w).realize()

    def f(x):
        table = (weights * 3).contiguous()
        y = ((table.sum() * x).contiguous() + table).contiguous()
        z = (y.flip(0) * 2).contiguous()
        return ((z.flip(0) + z).contiguous().flip(0) + 1).realize()

    def expected(x):
        y = w.sum() * 3 * x + w * 3
        return 2 * (y + y[::-1]) + 1

    plain, pruned = TinyJit(f), TinyJit(f, prune=True)
    for i in range(5):
        x = Tensor(w * 0.25 + i).realize()
        np.testing.assert_allclose(plain(x).numpy(), expected(x.numpy()), rtol=1e-5)
        np.testing.assert_allclose(pruned(x).numpy(), expected(x.numpy()), rtol=1e-5)
    assert len(pruned.captured.steps) < len(plain.captured.steps)


def test_what_a_call_changes_is_not_computed_once():
    one = vector(1.0)

    @TinyJit(prune=True)
    def f(x):
        total = (one + 1).contiguous().realize()
        total.assign(total + x).realize()
        return (total * 2).realize()

    assert [f(vector(float(i))).item() for i in range(5)] == [4.0, 6.0, 8.0, 10.0, 12.0]


def test_intermediate_memory_is_given_back_and_taken_again():
    def f(x):
        y = (x.reshape(1024, 1) * x).contiguous()
        return (y.sum(0) + y[0]).realize()

    f = TinyJit(f)
    x = Tensor(np.ones(1024, np.float32)).realize()
    for _ in range(3):
        f(x)
    before = GlobalCounters.mem_used
    f.captured.free_intermediates()
    assert GlobalCounters.mem_used <= before - 4 * 1024 * 1024
    f.captured.free_intermediates()
    assert f(x).numpy()[0] == 1025.0


# *** as bytes

SAVED = """
import pickle, sys
from tinylab import Tensor, TinyJit, Variable

weights, state = Tensor([5.0, 6.0]).realize(), Tensor([0.0, 0.0]).realize()
n = Variable("n", 1, 2)

@TinyJit
def step(x):
    y = (x * weights).contiguous()
    state.assign(state + x)
    return {"y": (y.flip(0) + 1).realize(), "state": state.realize(), "same": x.reshape(2, 1)}

total = TinyJit(lambda x: (x * 2).sum().realize())
for i in range(3):
    step(Tensor([1.0, float(i)]).realize())
    total(weights[: n.bind(1 + i % 2)])
sys.stdout.buffer.write(pickle.dumps((step, total, weights[1:], weights * 2)))
"""


def test_a_captured_function_goes_to_another_process():
    saved = subprocess.run([sys.executable, "-c", SAVED], capture_output=True, check=True).stdout
    taken = vector(7.0, 7.0)  # another memory under the same number
    step, total, view, lazy = pickle.loads(saved)
    assert (view.tolist(), lazy.tolist(), taken.tolist()) == ([6.0], [10.0, 12.0], [7.0, 7.0])
    for i in range(2):
        found = step(vector(2.0, i))
        assert found["y"].tolist() == [i * 6.0 + 1, 11.0]
        assert found["state"].tolist() == [3.0 + 2 * (i + 1), 3.0 + i]
        assert found["same"].tolist() == [[2.0], [float(i)]]
    n = Variable("n", 1, 2)
    assert [total(taken[: n.bind(k)]).item() for k in (1, 2)] == [14.0, 28.0]
    assert (step.fxn, step.cnt) == (None, 4)
    assert pickle.loads(pickle.dumps(step))(vector(1.0, 1.0))["y"].tolist() == [7.0, 6.0]


def test_what_is_not_captured_cannot_be_saved_nor_captured_again():
    with pytest.raises(AssertionError, match="can't pickle an uncaptured JIT"):
        pickle.dumps(TinyJit(lambda x: x))
    f = chain(1)
    replayed(f)
    loaded = pickle.loads(pickle.dumps(f))
    with pytest.raises(AssertionError, match="can't reset without a function"):
        loaded.reset()


@pytest.mark.parametrize("jit", [0, 1, 2])
def test_what_was_built_before_a_replay_sees_the_old_state(jit: int):
    state, kept = vector(0.0), []
    with Context(JIT=jit):
        add = TinyJit(lambda x: (state.assign(state + x) + 0).realize())
        for i in range(5):
            value, weak = state * 10, (state < 2).where(7, 8)
            kept.append(state * 100)
            add(vector(1.0))
            assert (value.item(), weak.item()) == (10.0 * i, 7 if i < 2 else 8)
            assert state.item() == i + 1.0
    assert [t.item() for t in kept] == [0.0, 100.0, 200.0, 300.0, 400.0]


def test_what_was_built_before_a_replay_that_writes_its_input_sees_the_old_value():
    x = vector(1.0)
    double = TinyJit(lambda x: x.assign(x * 2).realize())
    for i in range(5):
        before = x + 0
        double(x)
        assert (before.item(), x.item()) == (2.0**i, 2.0 ** (i + 1))


@pytest.mark.parametrize("writes", [False, True])
def test_a_write_that_waits_happens_before_a_replay(writes: bool):
    state = vector(0.0)
    step = TinyJit(lambda x: ((state.assign(state + x) if writes else state + x) + 0).realize())
    for i in range(5):
        state.assign(vector(10.0 * i))
        assert step(vector(1.0)).item() == 10.0 * i + 1
    assert state.item() == 40.0 + writes


def test_what_waits_and_reads_nothing_that_is_written_still_waits():
    state, other = vector(0.0), vector(3.0)
    add = TinyJit(lambda x: (state.assign(state + x) + 0).realize())
    waiting = other * 2
    for _ in range(3):
        add(vector(1.0))
        assert waiting.uop.op is Ops.MUL
    assert waiting.item() == 6.0


def test_what_waits_is_no_write_of_what_is_captured():
    state = vector(0.0)
    read = TinyJit(lambda x: (state + x).realize())
    for i in range(4):
        state.assign(vector(i))
        assert read(vector(1.0)).item() == i + 1.0
        assert read.captured is None or len(read.captured.steps) == 1


def test_a_variable_that_leaves_its_axis_in_a_replay_is_refused() -> None:
    """A cache one step too far: the write would land in other memory."""
    cache = Tensor.zeros(8, 2).contiguous().realize()

    @TinyJit
    def step(place: UOp, x: Tensor) -> Tensor:
        cache.shrink(((place, place + 1), None)).assign(x).realize()
        return (cache + 0).realize()

    place = Variable("place", 0, 15)
    for i in range(8):
        found = step(place.bind(i), Tensor.full((1, 2), i + 1.0).contiguous().realize())
        assert found[:, 0].tolist() == [*range(1, i + 2), *[0] * (7 - i)]
    with pytest.raises(ShapeError, match="its variables make it 8 to 9 of 8"):
        step(place.bind(8), Tensor.full((1, 2), 9.0).contiguous().realize())
    assert cache[:, 1].tolist() == [*range(1, 9)]
