"""Symbolic sizes: every operation along an axis whose size is known only when it runs."""

from __future__ import annotations

import itertools
import operator
import subprocess
import sys

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from tinylab import GlobalCounters, Tensor, TinyJit, UOp, Variable, dtypes
from tinylab.errors import BroadcastError, JitError, OperandError, ShapeError, SymbolicError
from tinylab.uop.ops import KernelInfo

HIGH = 70
DATA = np.random.default_rng(0).standard_normal((HIGH, 4)).astype(np.float32)
N, M = Variable("n", 1, HIGH), Variable("m", 1, HIGH)


def values(t: Tensor) -> np.ndarray:
    """What a tensor of symbolic sizes holds now."""
    sizes = []
    for s in t.shape:
        bare, known = s.unbind_all() if isinstance(s, UOp) else (UOp.const(s), {})
        sizes.append(int(bare.substitute({v: v.const_like(x) for v, x in known.items()})))
    return t.shrink(tuple((0, s) for s in sizes)).numpy()


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(0))
    return e / e.sum(0)


# name -> (of the first n rows, the same in numpy)
# fmt: off
ROWS = {
    "cat": (lambda x: x.cat(x[:1]), lambda x: np.concatenate([x, x[:1]])),
    "cat of two": (lambda x: x.cat(x * 2, x), lambda x: np.concatenate([x, x * 2, x])),
    "cat along another axis": (lambda x: x.cat(x, dim=1), lambda x: np.concatenate([x, x], 1)),
    "stack": (lambda x: x.stack(x + 1), lambda x: np.stack([x, x + 1])),
    "flip": (lambda x: x.flip(0), lambda x: x[::-1]),
    "roll": (lambda x: x.roll(1, 0), lambda x: np.roll(x, 1, 0)),
    "roll back": (lambda x: x.roll(-3, 0), lambda x: np.roll(x, -3, 0)),
    "pad": (lambda x: x.pad(((1, 2), None)), lambda x: np.pad(x, ((1, 2), (0, 0)))),
    "pad with a value": (lambda x: x.pad(((1, 0), None), value=3.0),
                         lambda x: np.pad(x, ((1, 0), (0, 0)), constant_values=3)),
    "repeat": (lambda x: x.repeat(2, 1), lambda x: np.tile(x, (2, 1))),
    "flatten": (lambda x: x.flatten(), lambda x: x.flatten()),
    "split an axis": (lambda x: x.reshape(x.shape[0], 2, 2).sum(1),
                      lambda x: x.reshape(-1, 2, 2).sum(1)),
    "last row": (lambda x: x[-1], lambda x: x[-1]),
    "backward": (lambda x: x[::-1], lambda x: x[::-1]),
    "every other": (lambda x: x[::2], lambda x: x[::2]),
    "sum": (lambda x: x.sum(0), lambda x: x.sum(0)),
    "max": (lambda x: x.max(0), lambda x: x.max(0)),
    "argmax": (lambda x: x.argmax(0), lambda x: x.argmax(0)),
    "var": (lambda x: x.var(0, correction=0), lambda x: x.var(0)),
    "softmax": (lambda x: x.softmax(0), softmax),
    "product with itself": (lambda x: x @ x.T, lambda x: x @ x.T),
    "product over the size": (lambda x: x.T @ x, lambda x: x.T @ x),
    "cumsum": (lambda x: x.cumsum(0), lambda x: x.cumsum(0)),
    "cumprod": (lambda x: x.cumprod(0), lambda x: x.cumprod(0)),
    "cummax": (lambda x: x.cummax(0)[0], lambda x: np.maximum.accumulate(x)),
    "cummin": (lambda x: x.cummin(0)[0], lambda x: np.minimum.accumulate(x)),
    "logcumsumexp": (lambda x: x.logcumsumexp(0), lambda x: np.log(np.exp(x).cumsum(0))),
    "sort": (lambda x: x.sort(0)[0], lambda x: np.sort(x, 0)),
    "sort backward": (lambda x: x.sort(0, descending=True)[0], lambda x: np.sort(x, 0)[::-1]),
    "argsort": (lambda x: x.argsort(0), lambda x: np.argsort(x, 0, kind="stable")),
    "sort of doubles": (lambda x: x.cast(dtypes.float64).sort(0)[0], lambda x: np.sort(x, 0)),
    "topk": (lambda x: x.topk(1, 0)[0], lambda x: x.max(0, keepdims=True)),
    "triu": (lambda x: x.triu(), np.triu),
    "diag": (lambda x: x[:, 0].diag(), lambda x: np.diag(x[:, 0])),
    "diagonal": (lambda x: (x @ x.T).diagonal(), lambda x: np.diagonal(x @ x.T)),
    "windows": (lambda x: x.unfold(0, 1, 1), lambda x: x[:, :, None]),
    "windows of three": (lambda x: x.pad(((2, 0), None)).unfold(0, 3, 1),
                         lambda x: sliding_window_view(np.pad(x, ((2, 0), (0, 0))), 3, 0)),
    "pool": (lambda x: x.T.unsqueeze(0).pad((0, 1)).max_pool2d((2,), stride=1).squeeze(0).T,
             lambda x: np.maximum(x, np.concatenate([x[1:], x[:1] * 0]))),
    "pool of pairs": (lambda x: x.cat(x).T.unsqueeze(0).max_pool2d((2,)).squeeze(0).T,
                      lambda x: np.concatenate([x, x]).reshape(-1, 2, 4).max(1)),
    "pool, partial windows too": (
        lambda x: x.T.unsqueeze(0).max_pool2d((2,), ceil_mode=True).squeeze(0).T,
        lambda x: np.maximum(x[::2], np.concatenate([x[1::2], x[-1:]])[: len(x[::2])])),
    "convolution": (lambda x: x.T.unsqueeze(0).conv2d(Tensor.ones(1, 4, 2), padding=(1,))[0, 0],
                    lambda x: np.convolve(x.sum(1), [1, 1])),
    "one hot": (lambda x: x.argmax(1).one_hot(4), lambda x: np.eye(4)[x.argmax(1)]),
    "gather": (lambda x: x[x.argmax(0)], lambda x: x[x.argmax(0)]),
    "scatter": (lambda x: x.scatter(0, Tensor([[0, 0, 0, 0]]), 5.0),
                lambda x: np.concatenate([x[:1] * 0 + 5, x[1:]])),
    "places that are not zero": (lambda x: (x > 0).nonzero(), lambda x: np.argwhere(x > 0)),
    "picked by a mask": (lambda x: x.masked_select(x > 0), lambda x: x[x > 0]),
    "to another device": (lambda x: x.to("CPU:1"), lambda x: x),
    "a value to another device": (lambda x: (x * 2).to("CPU:1") + 1, lambda x: x * 2 + 1),
    "a part to another device": (lambda x: x.to("CPU:1")[:, 1:].to("CPU"), lambda x: x[:, 1:]),
    "contiguous": (lambda x: x.contiguous(), lambda x: x),
}
# fmt: on


@pytest.mark.parametrize("n", [1, 5, 33, HIGH])
@pytest.mark.parametrize("name", ROWS)
def test_along_a_symbolic_axis(name: str, n: int) -> None:
    run, expected = ROWS[name]
    found = values(run(Tensor(DATA).realize()[: N.bind(n)]))
    np.testing.assert_allclose(found, expected(DATA[:n]), rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["cat", "cumsum", "sort", "roll", "softmax"])
def test_kernels_are_compiled_once_for_the_range(name: str) -> None:
    run = ROWS[name][0]
    x = Tensor(DATA).realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        return run(x)

    for n in (3, 50, 7, 1, HIGH):
        found = values(step(x[: N.bind(n)]))
        np.testing.assert_allclose(found, ROWS[name][1](DATA[:n]), rtol=2e-4, atol=1e-5)
    assert step.captured is not None


def test_random_numbers() -> None:
    Tensor.manual_seed(1)
    some = values(Tensor.rand(N.bind(5), 3))
    Tensor.manual_seed(1)
    assert some.shape == (5, 3)
    np.testing.assert_array_equal(some, Tensor.rand(HIGH, 3).numpy()[:5])
    assert values(Tensor.randint(N.bind(6), low=2, high=4)).tolist().count(2) < 6
    assert np.isfinite(values(Tensor.randn(2, N.bind(6)))).all()


def test_sizes_that_are_equal_in_another_form_are_equal() -> None:
    x = Tensor(DATA).realize()
    n, m = N.bind(9), M.bind(4)
    np.testing.assert_array_equal(values(x[: n + m] + x[: m + n]), DATA[:13] * 2)
    assert x[:n].pad(((0, HIGH - n), None)).shape == (HIGH, 4)
    np.testing.assert_array_equal(values(x[:n].cat(x[:m])), np.concatenate([DATA[:9], DATA[:4]]))


def test_bounds_of_slices_count_from_the_end_that_is_there() -> None:
    x = Tensor(DATA).realize()[: N.bind(5)]
    np.testing.assert_array_equal(values(x[-2:]), DATA[3:5])
    np.testing.assert_array_equal(values(x[:-2]), DATA[:3])
    np.testing.assert_array_equal(values(x[:9]), DATA[:5])
    np.testing.assert_array_equal(values(x[-9:]), DATA[:5])
    np.testing.assert_array_equal(x[-2].numpy(), DATA[3])
    with pytest.raises(IndexError, match="index=5 is out of bounds with size=5"):
        x[5]


def test_a_piece_of_a_buffer_in_one_piece_is_not_copied() -> None:
    x = Tensor(DATA).realize()
    GlobalCounters.reset()
    x[: N.bind(5)].contiguous().realize()
    assert GlobalCounters.kernel_count == 0
    x[:, : Variable("k", 1, 4).bind(2)].contiguous().realize()
    assert GlobalCounters.kernel_count == 1


def test_gradients() -> None:
    x = Tensor(DATA).realize()
    part = x[: N.bind(5)]
    (grad,) = (part.cat(x[: M.bind(3)]) ** 2).sum().gradient(x)
    expected = np.zeros_like(DATA)
    expected[:5] += 2 * DATA[:5]
    expected[:3] += 2 * DATA[:3]
    np.testing.assert_allclose(grad.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("view", [True, False])
def test_what_was_built_for_another_size_sees_the_old_values(view: bool) -> None:
    x = Tensor(DATA).realize()
    part = x[: N.bind(3)]
    before = part if view else part * 2
    total = part.sum(0)
    np.testing.assert_allclose(total.numpy(), DATA[:3].sum(0), rtol=1e-5)
    x[: N.bind(7)] = x[: N.bind(7)] + 1
    after = DATA.copy()
    after[:7] += 1
    np.testing.assert_array_equal(x.numpy(), after)
    np.testing.assert_array_equal(values(before), DATA[:3] * (1 if view else 2))
    np.testing.assert_allclose(total.numpy(), DATA[:3].sum(0), rtol=1e-5)


def test_readers_with_different_sizes_are_each_computed_before_a_write() -> None:
    x = Tensor(DATA).realize()
    sums = [x[: N.bind(n)].sum(0) for n in (3, 5)]
    x[M.bind(1)] = 0.0
    assert x.numpy()[1].tolist() == [0.0] * 4
    for n, total in zip((3, 5), sums, strict=True):
        np.testing.assert_allclose(total.numpy(), DATA[:n].sum(0), rtol=1e-5)


def test_two_values_of_a_variable_in_one_computation_are_refused() -> None:
    x = Tensor(DATA).realize()
    with pytest.raises(RuntimeError, match="bind mismatch on n, 3 != 4"):
        (x[: N.bind(3)].sum(0) + x[: N.bind(4)].sum(0)).realize()


# *** sentences

N_OR_M = r"\(n, 4\).*\(m, 4\)"


def test_errors_print_sizes_as_expressions() -> None:
    x = Tensor(DATA).realize()
    a, b = x[: N.bind(5)], x[: M.bind(3)]
    with pytest.raises(BroadcastError, match=f"add of {N_OR_M}"):
        _ = a + b
    with pytest.raises(ShapeError, match=r"cannot broadcast \(m, 4\) to new_shape=\(n, 4\)"):
        a.assign(b)
    with pytest.raises(ShapeError, match=r"can't reshape \(n, 4\) to \(20,\): \(n\*4\) elements"):
        a.reshape(20)
    with pytest.raises(ShapeError, match=r"size n.*\nhelp: give its Variable a lower bound of 2"):
        a.topk(2, 0)


# *** a node beside a tensor

OPERATORS = "add sub mul truediv floordiv mod pow lshift rshift and_ or_ xor lt le gt ge eq ne"


@pytest.mark.parametrize("name", OPERATORS.split())
def test_a_tensor_answers_for_a_node_on_its_left(name: str) -> None:
    apply = getattr(operator, name)
    numbers = np.array([1, 2, 5, 3], np.int32)
    found = apply(N.bind(3), Tensor(numbers))
    np.testing.assert_allclose(found.numpy(), apply(3, numbers), rtol=1e-6)
    np.testing.assert_allclose(
        apply(Tensor(numbers), N.bind(3)).numpy(), apply(numbers, 3), rtol=1e-6
    )


def test_a_nodes_method_takes_no_tensor() -> None:
    with pytest.raises(OperandError, match="Tensor is no operand of a node's method"):
        N.bind(3).maximum(Tensor([1, 2]))
    with pytest.raises(ShapeError, match="cannot dot"):
        _ = N.bind(3) @ Tensor([1, 2])


def test_a_variable_may_be_the_first_thing_that_is_made() -> None:
    code = "from tinylab import Variable; print(Variable('n', 1, 9).bind(3).render())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "n"


# *** writes that read their own buffer at places that only a run knows


def reasons(t: Tensor) -> list[str]:
    return [call.arg.aux.split(":")[0] for call in t.linear_with_vars()[0].src]


COPIED = ["the update reads its own buffer through another view", "a write in place"]


@pytest.mark.parametrize("jitted", [False, True])
def test_an_overlap_that_depends_on_variables_is_right_for_all_of_them(jitted: bool) -> None:
    def move(x: Tensor, to: UOp, come_from: UOp) -> Tensor:
        return x[to : to + 3].assign(x[come_from : come_from + 3] * 2).realize()

    run = TinyJit(move) if jitted else move
    for to, come_from in itertools.product(range(7), range(7)):
        x = Tensor(LINE).realize()
        run(x, Variable("to", 0, 6).bind(to), Variable("come_from", 0, 6).bind(come_from))
        wanted = LINE.copy()
        wanted[to : to + 3] = LINE[come_from : come_from + 3] * 2
        np.testing.assert_array_equal(x.numpy(), wanted)


LINE = np.arange(10, dtype=np.float32)


@pytest.mark.parametrize("size", range(1, 9))
def test_an_overlap_of_symbolic_length(size: int) -> None:
    n = Variable("n", 1, 9).bind(size)
    x, y, z = (Tensor(LINE).realize() for _ in range(3))
    x[1 : n + 1].assign(x[:n])
    y[:n].assign(y[:n].flip(0))
    z[:n] += z[:n]
    wanted = [LINE.copy() for _ in range(3)]
    wanted[0][1 : size + 1] = LINE[:size]
    wanted[1][:size] = LINE[:size][::-1]
    wanted[2][:size] *= 2
    for found, right in zip((x, y, z), wanted, strict=True):
        np.testing.assert_array_equal(found.numpy(), right)


def test_what_is_copied_first_is_what_may_overlap() -> None:
    v = Variable("v", 0, 6).bind(2)
    same, further, turned = (Tensor(LINE).realize() for _ in range(3))
    found = [
        reasons(same[v : v + 2].assign(same[v : v + 2] * 2)),
        reasons(further[v : v + 2].assign(further[v + 1 : v + 3])),
        reasons(turned[v : v + 2].assign(turned[: v + 2].flip(0)[:2])),
    ]
    assert found == [["a write in place"], COPIED, COPIED]


@pytest.mark.parametrize(("low", "high"), [(1, 8), (3, 12), (2, 16)])
def test_variables_of_one_name_and_other_ranges_are_one_in_a_kernel(low: int, high: int) -> None:
    x = Tensor(DATA[:16]).realize()
    for value in (3, 8):
        rows = x[: Variable("n", 1, 16).bind(value)]
        same = x[: Variable("n", low, high).bind(value)]
        found = (rows.sum() + same.sum() * 2).item()
        assert found == pytest.approx(3 * DATA[:value].sum(), rel=1e-5)
        both = rows.sum(0) + x[Variable("n", low, high).bind(value)]
        np.testing.assert_allclose(both.numpy(), DATA[:value].sum(0) + DATA[value], rtol=1e-5)


def test_a_function_gets_no_two_variables_of_one_name() -> None:
    step = TinyJit(lambda n, m: (Tensor(DATA)[:n].sum() + Tensor(DATA)[:m].sum()).realize())
    step(Variable("n", 1, 8).bind(2), Variable("n", 1, 8).bind(2))
    with pytest.raises(JitError, match="two variables are called n, from 1 to 8 and from 1 to 9"):
        step(Variable("n", 1, 8).bind(2), Variable("n", 1, 9).bind(2))


_WORDS_OF_KERNELS = ("data0", "data1", "data0_", "entry", "alu0", "acc0", "idx0", "Lidx0", "Ridx0")
_MORE_WORDS = ("loop_Ridx0", "end_Lidx0", "val0", "bufs", "vals", "var0", "int", "range", "ADD")


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_a_variable_may_be_called_as_something_in_the_text_of_a_kernel(device: str) -> None:
    x = Tensor.arange(10).to(device).contiguous().realize()
    for name in (*_WORDS_OF_KERNELS, *_MORE_WORDS):
        n, m = Variable(name, 1, 5).bind(3), Variable(f"{name}_", 1, 5).bind(2)
        assert int(x[:n].sum().item()) == 3, name
        assert (x[:n].sum() * 10 + x[:m].sum()).item() == 31, name


@pytest.mark.parametrize("name", ["", "a b", "né", "9", "n.x", "%x", "lambda", "None"])
def test_a_name_that_no_source_can_hold_is_refused(name: str) -> None:
    with pytest.raises(SymbolicError, match="letters, digits and _ make a name"):
        Variable(name, 1, 5)


@pytest.mark.parametrize("name", ["core_id", "_device_num"])
def test_a_variable_that_launches_set_is_not_the_users(name: str) -> None:
    """Under these names a kernel read the number of its thread or device: a wrong number."""
    with pytest.raises(SymbolicError, match=f"cannot be called '{name}': kernels count their"):
        Variable(name, 1, 5)


_KERNELS = ("", "9", "lambda", "if", "a b", "né", "memcpy", "main", "data0", "entry", "llvm.sin")


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_a_kernel_may_have_any_name(device: str) -> None:
    for name in _KERNELS:

        def double(out: UOp, x: UOp, name: str = name) -> UOp:
            i = UOp.range(4, 0)
            return out[i].store(x[i] * 2).end(i).sink(arg=KernelInfo(name=name))

        x = Tensor([1, 2, 3, 4], device=device).realize()
        out = Tensor.empty(4, dtype=x.dtype, device=device).custom_kernel(x, fxn=double)[0]
        assert out.tolist() == [2, 4, 6, 8], name
