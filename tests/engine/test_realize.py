"""From lazy values to memory: what is computed, what is kept, what the caches know."""

from __future__ import annotations

import gc
import itertools
import re

import numpy as np
import pytest

from tinylab import Context, GlobalCounters, Tensor, Variable, record
from tinylab.engine import realize
from tinylab.errors import CompileError
from tinylab.opcodes import Ops


@pytest.fixture(autouse=True)
def _fresh():
    realize.forget_plans()
    GlobalCounters.reset()


def kernels_of(run) -> int:
    before = GlobalCounters.kernel_count
    run()
    return GlobalCounters.kernel_count - before


def test_realizing_twice_runs_once():
    x = Tensor([1.0, 2.0]) * 2
    assert kernels_of(x.realize) == 1
    assert kernels_of(x.realize) == 0
    assert x.tolist() == [2.0, 4.0]


def test_a_view_of_memory_runs_nothing():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    assert kernels_of(lambda: x.T.reshape(4)[1:3].realize()) <= 1
    assert kernels_of(lambda: x.reshape(4).realize()) == 0


def test_values_built_on_a_realized_one_read_its_memory():
    x = Tensor([1.0, 2.0]) + 1
    y = x * 3
    x.realize()
    assert any(u.op is Ops.BUFFER for u in y.uop.toposort())
    assert not any(u.op is Ops.CONST and u.arg == 1.0 for u in y.uop.toposort())
    assert y.tolist() == [6.0, 9.0]


def test_equal_graphs_over_other_buffers_share_a_plan():
    def step(values):
        return ((Tensor(values) + 1) * 2).sum().item()

    assert step([1.0, 2.0]) == 10.0
    known = len(realize.schedule_cache)
    assert step([5.0, 6.0]) == 26.0
    assert len(realize.schedule_cache) == known


def test_a_record_hears_everything_again_though_the_plan_is_known():
    def run():
        (Tensor([1.0, 2.0]) + 1).realize()

    run()
    with record() as first:
        run()
    with record() as second:
        run()
        run()
    assert [k.name for k in first.kernels] == [k.name for k in second.kernels]
    assert len(second.passes) >= len(first.passes) > 10
    assert len(second.kernels[0].runs_ns) == 2


def test_old_values_survive_a_write_that_is_realized_first():
    x = Tensor([1.0, 2.0, 3.0]).realize()
    old = x * 10
    x += 1
    x.realize()
    assert old.tolist() == [10.0, 20.0, 30.0]
    assert x.tolist() == [2.0, 3.0, 4.0]


def test_a_view_taken_before_a_write_keeps_what_it_showed():
    x = Tensor([1.0, 2.0, 3.0]).realize()
    first = x[:1]
    x.assign(x + 1).realize()
    assert first.tolist() == [1.0]


def test_equal_lazy_values_do_not_share_later_writes():
    a, b = Tensor([1.0, 2.0]).realize(), None
    x, y = a + 1, a + 1
    x.realize()
    x += 100
    x.realize()
    assert b is None
    assert y.tolist() == [2.0, 3.0]


def test_memory_goes_with_the_last_reference():
    gc.collect()
    gc.disable()
    try:
        before = GlobalCounters.mem_used
        x = Tensor.ones(1000, 1000).contiguous().realize()
        y = (x * 2).realize()
        del x, y
        assert GlobalCounters.mem_used == before
    finally:
        gc.enable()


def test_intermediate_memory_is_shared():
    x = Tensor(np.ones((64, 64), np.float32)).realize()
    y = x
    for _ in range(4):
        y = (y @ x).softmax()
    y.realize()
    (plan,) = [p for p in realize.schedule_cache.values() if len(p.steps) > 4]
    assert plan.schedule.bytes_planned < plan.schedule.bytes_apart / 2


def test_null_compiles_and_runs_nothing():
    x = (
        Tensor.ones(4, 4, device="NULL").contiguous()
        @ Tensor.ones(4, 4, device="NULL").contiguous()
    )
    x.realize()
    with pytest.raises(RuntimeError, match="no copyout on NULL"):
        x.numpy()


def test_the_python_device_agrees():
    data = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    with Context(DEV="PYTHON"):
        got = Tensor(data).softmax().numpy()
    np.testing.assert_allclose(got, Tensor(data).softmax().numpy(), rtol=1e-5)


def test_a_tensor_moves_between_devices():
    x = Tensor([1.0, 2.0]).to("PYTHON")
    assert x.device == "PYTHON"
    assert (x + 1).to("CPU").tolist() == [2.0, 3.0]


def test_noopt_gives_the_same_numbers():
    data = np.random.default_rng(1).standard_normal((33, 17)).astype(np.float32)
    with Context(NOOPT=1):
        plain = (Tensor(data) @ Tensor(data.T)).numpy()
    np.testing.assert_allclose((Tensor(data) @ Tensor(data.T)).numpy(), plain, rtol=1e-5, atol=1e-5)


def test_where_broadcasting_is_not_allowed_lanes_may_still_be_broadcast():
    x, y = (Tensor.full((8, 8), n).contiguous().realize() for n in (2.0, 3.0))
    with Context(DISALLOW_BROADCAST=1):
        assert (x * y).sum(0).tolist() == [48.0] * 8
        with pytest.raises(RuntimeError, match=r"shape mismatch at Ops\.ADD"):
            (x + y.sum(0)).realize()


def test_debug_prints_each_kernel(capsys):
    with Context(DEBUG=2):
        (Tensor([1.0, 2.0]) + 1).realize()
    assert "*** CPU" in capsys.readouterr().out


def test_a_long_chain_of_writes_is_no_deep_recursion():
    x = Tensor([0.0]).contiguous().realize()
    for _ in range(1100):
        x += 1
    assert x.tolist() == [1100.0]


def test_a_slice_between_two_places_of_one_variable_has_a_known_size():
    v = Variable("v", 0, 7).bind(3)
    x = Tensor.arange(10).contiguous().realize()
    assert x[v : v + 2].shape == (2,)
    x[v : v + 2].assign(Tensor([7, 8], dtype=x.dtype))
    assert x.tolist() == [0, 1, 2, 7, 8, 5, 6, 7, 8, 9]
    x[v : v + 2].assign(x[v + 1 : v + 3])
    assert x.tolist() == [0, 1, 2, 8, 5, 5, 6, 7, 8, 9]


def test_a_variable_in_the_shape_of_new_tensors_and_as_a_place():
    v = Variable("v", 1, 7).bind(3)
    assert Tensor.full((v, 2), 3.0).sum().item() == 18
    x = Tensor.arange(20).reshape(10, 2).contiguous().realize()
    assert x[:v].argmax(0).tolist() == [2, 2]
    assert x[:v].zeros_like().sum(0).tolist() == [0, 0]
    x[v] = 5
    x[v + 1, 1] = 50
    assert x[v].tolist() == [5, 5]
    assert x.tolist() == [[0, 1], [2, 3], [4, 5], [5, 5], [8, 50]] + [
        [n, n + 1] for n in range(10, 20, 2)
    ]


# *** what is printed, and the tensor methods of kernels


def printed(capsys, level: int, run) -> str:
    capsys.readouterr()
    with Context(DEBUG=level, NO_COLOR=1):
        run()
    return capsys.readouterr().out


def softmaxes():
    x = Tensor(np.ones((16, 16), np.float32)).realize()
    return ((x @ x).softmax().contiguous() @ x).softmax()


def test_debug_1_says_how_much_was_scheduled_from_where_and_what_it_took(capsys):
    text = printed(capsys, 1, lambda: softmaxes().realize())
    line = re.compile(
        r"scheduled +(\d+) kernels in +[\d.]+ ms \| CACHE MISS [0-9a-f]{8} \| +\d+ uops in cache"
        r" \| .*test_realize.py:\d+"
    )
    assert int(line.search(text).group(1)) > 4
    assert re.search(r"memory reduced from [\d.]+ MB -> [\d.]+ MB, \d+ -> 1 bufs", text)
    again = printed(capsys, 1, lambda: softmaxes().realize())
    assert " | cache hit " in " ".join(again.split())
    assert "memory reduced" not in again
    # One kernel is no news before DEBUG=3.
    x = Tensor([1.0]).realize()
    assert printed(capsys, 1, (x + 1).realize) == ""
    assert "scheduled     1 kernels" in printed(capsys, 3, (x + 2).realize)


def test_debug_1_shows_a_bar_while_kernels_are_compiled(capsys):
    def bar(run, level: int = 1) -> str:
        capsys.readouterr()
        with Context(DEBUG=level, NO_COLOR=1):
            run()
        return capsys.readouterr().err

    count = len(softmaxes().schedule_linear().src)
    text = bar(softmaxes().realize)
    assert text.startswith("\rcompiling:   0%|")
    assert "100%|" in text
    assert f"| {count}/{count} [" in text
    assert text.endswith("\n")
    assert bar(softmaxes().realize) == ""  # known: nothing is compiled
    assert bar((Tensor([1.0]).realize() + 1).realize) == ""  # one kernel
    x = Tensor(np.ones((16, 16), np.float32)).realize()
    assert bar(((x @ x).softmax().contiguous() @ x).realize, 0) == ""


def test_debug_2_says_which_methods_a_kernel_comes_from(capsys):
    x = Tensor(np.ones((4, 4), np.float32)).realize()
    text = printed(capsys, 2, lambda: ((x @ x) + 1).relu().sum(0).to("CPU:1").realize())
    lines = [line for line in text.splitlines() if line.startswith("***")]
    assert [line[line.index("GB/s)") + 6 :] for line in lines] == [
        "['matmul', 'add', 'relu']",
        "['sum']",
        "['to']",
    ]


@pytest.mark.parametrize("cached", [False, True])
def test_calls_of_a_schedule_know_their_methods(cached):
    x, z = (Tensor(np.ones((4, 4), np.float32)).realize() for _ in range(2))
    y = (x @ x).softmax()
    if cached:
        (z @ z).softmax().realize()
    found = [[m.name for m in call.metadata] for call in y.schedule_linear().src]
    assert found[0] == ["matmul"]
    assert found[1:] == [["softmax"]] * (len(found) - 1)


def masked(x):
    x[x > 3] = 0


def picked(x):
    x[Tensor([1, 2])] = 7.0


def constant(x):
    x[2:4] = 3


def written_twice(x):
    x[1] = x[2]


@pytest.mark.parametrize(
    ("write", "method"),
    [
        (constant, "__setitem__"),
        (picked, "__setitem__"),
        (masked, "__setitem__"),
        (written_twice, "__setitem__"),
        (lambda x: x.assign(0), "assign"),
        (lambda x: x.assign(x.flip(0)), "assign"),
        (lambda x: x.__iadd__(1), "assign"),
        (lambda x: x[1:].assign(5.0), "assign"),
    ],
)
def test_kernels_of_writes_know_their_methods(capsys, write, method):
    x = Tensor(np.arange(8, dtype=np.float32)).realize()

    def run():
        write(x)
        x.realize()

    text = printed(capsys, 2, run)
    lines = [line.split("GB/s)")[1] for line in text.splitlines() if line.startswith("***")]
    assert lines
    assert all(line.strip() for line in lines), text
    assert method in lines[-1]


def test_kernels_on_several_devices_know_their_methods():
    devices = ("CPU:0", "CPU:1")
    x = Tensor(np.ones((8, 8), np.float32)).realize()
    for ring in (0, 2):
        with Context(RING=ring):
            columns, rows = (x.shard(devices, axis) for axis in (1, 0))
            found = (columns @ rows).relu().schedule_linear().src
        assert all(call.metadata for call in found)
        assert {m.name for call in found for m in call.metadata} <= {"shard", "matmul", "relu"}


def test_a_gradients_kernels_say_so():
    x, w = (Tensor(np.ones((4, 4), np.float32)).realize() for _ in range(2))
    (grad,) = (x @ w).relu().sum().gradient(w)
    found = {str(m) for call in grad.schedule_linear().src for m in call.metadata}
    assert found == {"matmul", "relu bw", "matmul bw"}


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        (3, "opts: (Opt("),
        (4, "define void @E_4"),
        (5, "ast = UOp(Ops.SINK"),
        (6, "STORE      void"),
        (7, "ret"),
        (7, "buffer: allocate 16 bytes on CPU"),
    ],
)
def test_what_each_level_shows(capsys, level, shown):
    x = Tensor([1.0, 2.0, 3.0, 4.0]).realize()

    def run():
        # A constant that no kernel had before.
        ((x + 1000.0 + next(NUMBERS)) * 2).realize()

    assert shown in printed(capsys, level, run)
    if level != 7:
        assert shown not in printed(capsys, level - 1, run)


NUMBERS = itertools.count()


# *** the storage of a node


def test_the_buffer_of_a_value():
    x = Tensor(np.arange(12, dtype=np.float32)).realize()
    whole = x.uop.base.buffer
    assert x.reshape(3, 4).uop.buffer is whole
    assert x.reshape(3, 4).detach().contiguous().uop.buffer is whole
    part = x.reshape(3, 4)[1:].uop.buffer
    assert (part.base, part.offset, part.size) == (whole, 16, 8)
    assert list(part.ensure_allocated().numpy()) == list(range(4, 12))
    empty = Tensor.empty(3).uop.buffer
    assert not empty.is_allocated()
    with pytest.raises(
        RuntimeError, match=r"non-contiguous view is not supported: PERMUTE to \(4, 3\)"
    ):
        _ = x.reshape(3, 4).T.uop.buffer
    with pytest.raises(AssertionError, match=r"must be BUFFER, but Ops\.ADD"):
        _ = (x + 1).uop.buffer


def test_the_buffers_of_a_value_on_several_devices():
    x = Tensor(np.arange(8, dtype=np.float32)).shard(("CPU:0", "CPU:1"), 0).realize()
    found = x.uop.buffer
    assert (found.device, found.size) == (("CPU", "CPU:1"), 4)
    assert [list(b.numpy()) for b in found.bufs] == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize(
    "setting", [{"TRANSCENDENTAL": 2}, {"EMULATED_DTYPES": "half"}, {"NUM_CPU_THREADS": 1}]
)
def test_what_a_program_depends_on_is_part_of_its_key(setting):
    x = Tensor([1.0, 2.0]).realize()
    (x.exp2() + 3).realize()
    with Context(**setting):
        known = len(realize.schedule_cache)
        (x.exp2() + 3).realize()
        assert len(realize.schedule_cache) == known + 1
        (x.exp2() + 3).realize()
        assert len(realize.schedule_cache) == known + 1


def test_a_program_that_must_not_be_compiled_is_named():
    x = Tensor([1.0, 2.0]).realize()
    refused = pytest.raises(CompileError, match="must be compiled, and ASSERT_COMPILE is set")
    with Context(ASSERT_COMPILE=1, CACHELEVEL=0), refused:
        (x * 0.123456).realize()
    assert (x * 0.5).tolist() == [0.5, 1.0]
