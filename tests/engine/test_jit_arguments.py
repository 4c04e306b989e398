"""What a captured function is called with: tensors at any depth, and what may not change."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import pathlib
import pickle
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from tinylab import Context, Tensor, TinyJit, Variable, dtypes, nn
from tinylab.errors import JitError


def numbers(*values: float) -> Tensor:
    return Tensor([float(v) for v in values]).realize()


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Batch:
    x: Any
    scale: int = 2


class Holder:
    def __init__(self, w: Any) -> None:
        self.w = w


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


# How a tensor is packed, and unpacked again.
# fmt: off
PACKED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "list": (lambda t: [t], lambda x: x[0]),
    "list of lists": (lambda t: [[t]], lambda x: x[0][0]),
    "list of dicts": (lambda t: [{"a": t}], lambda x: x[0]["a"]),
    "dict of tuples": (lambda t: {"a": (None, t)}, lambda x: x["a"][1]),
    "named tuple": (lambda t: Pair(1, [t]), lambda x: x.b[0]),
    "dataclass": (lambda t: Batch([{"t": t}]), lambda x: x.x[0]["t"]),
    "deque": (lambda t: collections.deque([t]), lambda x: x[0]),
}
# fmt: on


@pytest.mark.parametrize("how", PACKED)
def test_tensors_in_containers_of_any_depth_are_inputs(how: str):
    pack, unpack = PACKED[how]
    f = TinyJit(lambda x, k: unpack(x) * 2 + k)
    for n in range(4):
        assert f(pack(numbers(n)), numbers(10)).item() == 2 * n + 10
    written = TinyJit(lambda x: unpack(x).assign(unpack(x) + 1))
    for n in range(4):
        x = numbers(n)
        written(pack(x))
        assert x.item() == n + 1


def test_variables_in_containers_are_bound_anew():
    f = TinyJit(lambda x, sizes: x[: sizes["n"][0]].sum())
    for n in range(1, 5):
        assert (
            f(numbers(1, 2, 3, 4), {"n": [Variable("n", 1, 4).bind(n)]}).item() == n * (n + 1) / 2
        )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (3, 4), (3, 3.0), (1, True), (None, 1), ("a", "b"), (b"a", b"b"), (1.5, -1.5),
        (float("nan"), 1.0), ([1, 2], [1, 3]), ({"n": 1}, {"n": 2}), ((1, (2, 3)), (1, (2, 4))),
        (slice(1), slice(2)), (dtypes.int32, dtypes.int64), (Colour.RED, Colour.BLUE),
        (np.arange(3), np.arange(3) + 1), (Batch(None, 1), Batch(None, 2)),
        (Pair(1, 2), Pair(1, 3)), (pathlib.Path("a"), pathlib.Path("b")),
        ([1], [1, 2]), (bytearray(b"a"), bytearray(b"b")),
        (types.SimpleNamespace(n=1), types.SimpleNamespace(n=2)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("named", [False, True])
def test_what_is_no_tensor_may_not_change(first: Any, second: Any, named: bool):
    f = TinyJit(lambda x, how: x + 1)

    def call(how: Any) -> Tensor:
        return f(numbers(1), how=how) if named else f(numbers(1), how)

    for _ in range(4):
        assert call(first).item() == 2
    with pytest.raises(JitError, match=r"args mismatch in JIT: .*how|args mismatch in JIT: arg"):
        call(second)
    assert call(first).item() == 2
    f.reset()
    for _ in range(3):
        assert call(second).item() == 2


def test_a_changed_number_is_named_with_the_way_out():
    f = TinyJit(lambda x, n: x * n)
    for _ in range(2):
        f(numbers(1), 3)
    with pytest.raises(JitError, match="argument 'n' was captured as 3, and is 4 now") as e:
        f(numbers(1), 4)
    assert "Variable or a tensor" in str(e.value.help)
    with pytest.raises(JitError, match="argument 'n' was captured as 3, and is 4 now"):
        f(numbers(1), n=4)


def test_a_saved_function_holds_numbers_against_those_of_its_capture():
    f = TinyJit(lambda x, n: x * n)
    for _ in range(2):
        f(numbers(1), 3)
    loaded = pickle.loads(pickle.dumps(f))
    assert loaded(numbers(2), 3).item() == 6
    with pytest.raises(JitError, match="argument 1 was captured as 3, and is 4 now"):
        loaded(numbers(2), 4)


def test_equal_values_may_be_passed_in_another_way():
    f = TinyJit(lambda x, n=3, *, how="a": x * n)
    for _ in range(2):
        f(numbers(1))
    assert f(numbers(2), 3).item() == f(numbers(2), n=3, how="a").item() == 6
    with pytest.raises(JitError, match="'n' was captured as 3, and is 5 now"):
        f(numbers(2), n=5)
    g = TinyJit(lambda x, **more: x + 1)
    for _ in range(2):
        g(numbers(1))
    with pytest.raises(JitError, match="argument 'more' was captured without"):
        g(numbers(1), more=1)


def test_arrays_and_functions_that_are_the_same_are_not_refused():
    f = TinyJit(lambda x, data, g, part, conf: g(x) * float(data.sum()))
    for n in range(4):
        got = f(
            numbers(n),
            np.ones(2),
            lambda x: x + 1,
            functools.partial(max, 1),
            types.SimpleNamespace(rate=0.5),
        )
        assert got.item() == 2 * (n + 1)


def test_a_function_with_another_tensor_in_its_closure_is_refused():
    f = TinyJit(lambda x, g: g(x))

    def adding(w: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda x: x + w

    w = numbers(1)
    for _ in range(3):
        assert f(numbers(1), adding(w)).item() == 2
    with pytest.raises(JitError, match="another object"):
        f(numbers(1), adding(numbers(5)))


def test_a_set_of_tensors_and_a_list_in_itself_are_refused():
    f = TinyJit(lambda x, more: x + 1)
    f(numbers(1), {numbers(1)})
    with pytest.raises(JitError, match="a set of tensors, which has no order"):
        f(numbers(1), {numbers(1)})
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(JitError, match="contains itself"):
        f(numbers(1), loop)


def test_an_object_is_state_and_another_one_is_refused():
    f = TinyJit(lambda x, model: x + model.w)
    model = Holder(numbers(1))
    for n in range(4):
        assert f(numbers(n), model).item() == n + 1 + 10 * n
        model.w += 10
    with pytest.raises(JitError, match=r"argument 1 is .*Holder.*, another object") as e:
        f(numbers(1), Holder(numbers(2)))
    assert "one TinyJit for each object" in str(e.value.help)


def test_a_method_is_captured_for_one_object():
    class Model(Holder):
        @TinyJit
        def add(self, x: Tensor) -> Tensor:
            return x + self.w

    one, two = Model(numbers(1)), Model(numbers(2))
    assert [one.add(numbers(n)).item() for n in range(4)] == [1, 2, 3, 4]
    with pytest.raises(JitError, match=r"argument 'self' is .*, another object"):
        two.add(numbers(1))


def test_a_method_of_a_dataclass_has_it_as_state():
    @dataclasses.dataclass
    class Counter:
        count: Tensor

        @TinyJit
        def step(self, x: Tensor) -> Tensor:
            self.count.assign(self.count + x)
            return self.count * 10

    counter = Counter(numbers(0))
    assert [counter.step(numbers(1)).item() for _ in range(4)] == [10, 20, 30, 40]
    assert counter.count.item() == 4


# Where a function finds state; each gives (the function, what puts another tensor there).
def _attribute() -> Any:
    model = Holder([Holder(numbers(5))])
    return (lambda x: x + model.w[0].w), lambda t: setattr(model.w[0], "w", t)


def _closure() -> Any:
    w = numbers(5)

    def put(t: Tensor) -> None:
        nonlocal w
        w = t

    return (lambda x: x + w), put


def _global() -> Any:
    names = {"w": numbers(5)}
    exec("f = lambda x: x + w", names)
    return names["f"], lambda t: names.__setitem__("w", t)


def _method() -> Any:
    model = Holder(numbers(5))
    model.forward = types.MethodType(lambda self, x: x + self.w, model)
    return model.forward, lambda t: setattr(model, "w", t)


def _replaced() -> Any:
    w = numbers(5)
    return (lambda x: x + w), w.replace


@pytest.mark.parametrize("place", [_attribute, _closure, _global, _method, _replaced])
def test_state_that_becomes_another_tensor_between_calls_is_refused(place: Any):
    function, put = place()
    f = TinyJit(function)
    for n in range(3):
        assert f(numbers(n)).item() == n + 5
    put(numbers(7))
    with pytest.raises(JitError, match="is another tensor than when the function was captured"):
        f(numbers(1))
    f.reset()
    want = function(numbers(1)).item()
    for _ in range(3):
        assert f(numbers(1)).item() == want


def test_a_write_to_another_tensor_that_lies_where_state_does_goes_elsewhere():
    w = numbers(5)
    f = TinyJit(lambda x: x + w)
    for n in range(3):
        assert f(numbers(n)).item() == n + 5
    other = Tensor(w.uop).assign(numbers(7)).realize()
    assert f(numbers(1)).item() == 6
    assert (w.item(), other.item()) == (5, 7)


def test_what_the_function_does_not_read_may_become_another_tensor():
    model = Holder(numbers(5))
    model.other = numbers(1)
    f = TinyJit(lambda x: (x + model.w, len(model.other.shape))[0])
    for n in range(3):
        f(numbers(n))
    model.other = numbers(2)
    model.w = model.w.reshape(1)  # the same memory
    assert f(numbers(1)).item() == 6


def test_state_that_is_bound_to_another_tensor_inside_is_refused():
    model = Holder(numbers(0))

    @TinyJit
    def step(x: Tensor) -> Tensor:
        model.w = (model.w + x).realize()
        return model.w + 1

    step(numbers(1))
    with pytest.raises(JitError, match=r"model.w is another tensor after the function") as e:
        step(numbers(1))
    assert "assign" in str(e.value.help)


def test_what_is_only_left_behind_may_be_another_tensor():
    model = Holder(numbers(0))

    @TinyJit
    def step(x: Tensor) -> Tensor:
        model.w = (x * 2).realize()
        return x + 1

    for n in range(4):
        assert step(numbers(n)).item() == n + 1
        assert model.w.item() == 2 * n


@pytest.mark.parametrize("jit", [0, 1, 2])
@pytest.mark.parametrize("stored", [False, True])
def test_gradients_add_up_in_replays(jit: int, stored: bool):
    w = numbers(1, 2).is_param_()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        (w * x).sum().backward()
        assert w.grad is not None
        return w.grad.realize() if stored else (w.grad * 1).realize()

    with Context(JIT=jit):
        total, kept = 0, []
        for n in range(5):
            total += n
            kept.append((step(numbers(n, 1)), [total, n + 1]))
            assert w.grad is not None
            assert w.grad.tolist() == [total, n + 1]
        for found, want in kept:
            assert found.tolist() == want


def test_a_gradient_that_is_dropped_between_calls_is_told_and_one_of_zeros_goes_on():
    w = numbers(1, 2).is_param_()

    @TinyJit
    def step(x: Tensor) -> None:
        (w * x).sum().backward()

    for n in range(3):
        step(numbers(n, 1))
    assert w.grad is not None
    w.grad.assign(w.grad * 0)
    step(numbers(5, 1))
    assert w.grad.tolist() == [5.0, 1.0]
    w.grad = None
    with pytest.raises(JitError, match=r"w.grad is no tensor any more") as e:
        step(numbers(5, 1))
    assert "zeros" in str(e.value.help)


def test_weights_that_are_loaded_behind_a_capture_are_told():
    model, other = nn.Linear(2, 1), nn.Linear(2, 1)
    f = TinyJit(lambda x: model(x))
    for n in range(3):
        f(numbers(n, 1))
    nn.state.load_state_dict(model, nn.state.get_state_dict(other), verbose=False)
    with pytest.raises(JitError, match=r"model.weight is another tensor") as e:
        f(numbers(1, 1))
    assert ".reset()" in str(e.value.help)
    f.reset()
    for n in range(3):
        assert f(numbers(n, 1)).item() == pytest.approx(other(numbers(n, 1)).item())


def test_training_of_a_model_that_is_an_argument():
    def losses(jit: int) -> list[float]:
        Tensor.manual_seed(1)
        model = nn.Linear(4, 2)
        optimizer = nn.optim.Adam([model.weight, model.bias])

        @TinyJit
        def step(model: nn.Linear, x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        with Context(JIT=jit, TRAINING=1):
            return [
                step(model, numbers(*range(4)).reshape(1, 4).realize()).item() for _ in range(5)
            ]

    np.testing.assert_allclose(losses(1), losses(0), rtol=1e-5)


def test_an_input_that_gets_a_gradient_is_not_state():
    @TinyJit
    def step(x: Tensor) -> Tensor:
        (x * x).sum().backward()
        assert x.grad is not None
        return x.grad * 1

    assert [step(numbers(n)).item() for n in range(4)] == [0, 2, 4, 6]


def test_objects_are_looked_into_without_their_code():
    class Lazy:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

        @property
        def costly(self) -> Any:
            raise AssertionError

    lazy, model = Lazy(), Holder(numbers(1))
    f = TinyJit(lambda x, lazy: (x + model.w, lazy)[0])
    assert [f(numbers(n), lazy).item() for n in range(4)] == [1, 2, 3, 4]


# *** inputs that are state as well


@pytest.mark.parametrize("jit", [0, 1, 2])
@pytest.mark.parametrize("pack", [lambda t: t, lambda t: [{"a": t}]])
def test_an_input_that_is_also_read_by_name_is_told_apart(jit: int, pack: Callable[[Any], Any]):
    w = numbers(5, 6)

    @TinyJit
    def step(x: Any) -> Tensor:
        return (x[0]["a"] if isinstance(x, list) else x) * 10 + w

    with Context(JIT=jit):
        for _ in range(4):
            assert step(pack(w)).tolist() == [55.0, 66.0]
        for n in range(4):
            assert step(pack(numbers(n, n))).tolist() == [10.0 * n + 5, 10.0 * n + 6]
        w.assign(w + 1)
        assert step(pack(w)).tolist() == [66.0, 77.0]
        assert step(pack(numbers(1, 1))).tolist() == [16.0, 17.0]


@pytest.mark.parametrize("jit", [0, 1, 2])
def test_pieces_of_data_that_an_object_holds_are_inputs(jit: int):
    class Trainer:
        def __init__(self) -> None:
            self.data = Tensor(np.arange(24, dtype=np.float32).reshape(6, 4)).realize()
            self.batches = [numbers(n, n + 1, n + 2, n + 3) for n in range(6)]

        @TinyJit
        def step(self, x: Tensor) -> Tensor:
            return x * 2

        @TinyJit
        def centred(self, x: Tensor) -> Tensor:
            return x - self.data.mean()

    with Context(JIT=jit):
        trainer = Trainer()
        for n in range(6):
            assert trainer.step(trainer.batches[n]).tolist()[0] == 2 * n
        for _ in range(5):
            found = trainer.centred(trainer.data[1])
            assert found.tolist() == [4 - 11.5, 5 - 11.5, 6 - 11.5, 7 - 11.5]


@pytest.mark.parametrize("jit", [0, 1])
def test_an_input_that_is_written_state_is_both_at_each_call(jit: int):
    w = numbers(0)

    @TinyJit
    def step(x: Tensor) -> Tensor:
        w.assign(w + 1)
        return x * 10

    with Context(JIT=jit):
        assert [step(w).item() for _ in range(4)] == [10.0, 20.0, 30.0, 40.0]
        if jit:
            with pytest.raises(JitError, match="argument 0 was also w when the function was"):
                step(numbers(7))
        else:
            assert step(numbers(7)).item() == 70.0


@pytest.mark.parametrize("jit", [0, 1, 2])
@pytest.mark.parametrize("view", [lambda t: t[:], Tensor.contiguous, Tensor.detach])
def test_a_view_that_is_older_than_a_write_is_the_argument_of_a_capture(
    jit: int, view: Callable[[Tensor], Tensor]
):
    state, x = numbers(0), numbers(1, 2)

    @TinyJit
    def step(x: Tensor) -> Tensor:
        state.assign(state + x.sum())
        return x * 1

    with Context(JIT=jit):
        assert step(x).tolist() == [1.0, 2.0]
        older = view(x)
        x += 1  # waits until the capture
        assert step(older).tolist() == [1.0, 2.0]
        assert step(numbers(100, 200)).tolist() == [100.0, 200.0]
        assert state.item() == 3 + 3 + 300


@pytest.mark.parametrize("jit", [0, 1, 2])
def test_a_view_that_kept_its_value_is_written_by_a_capture_and_not_by_replays(jit: int):
    x, other = numbers(1, 2), numbers(10, 20)
    whole = x[:]

    @TinyJit
    def add(x: Tensor) -> None:
        x += 1

    with Context(JIT=jit):
        for t in (x, whole, other):
            add(t)
        assert other.tolist() == [11.0, 21.0]
        assert whole.tolist() == x.tolist() == [2.0, 3.0]


def test_written_state_that_becomes_an_input_is_refused():
    w = numbers(0)

    @TinyJit
    def step(x: Tensor) -> Tensor:
        w.assign(w + 1)
        return x * 10

    for n in range(3):
        assert step(numbers(n)).item() == 10 * n
    with pytest.raises(JitError, match="it also knows as state") as e:
        step(w)
    assert "clone" in str(e.value.help)
    assert step(w.clone().realize()).item() == 30
    assert w.item() == 4

    @TinyJit
    def write(x: Tensor) -> Tensor:
        x += 1
        return w * 1

    for n in range(3):
        assert write(numbers(n)).item() == 4
    with pytest.raises(JitError, match="it also knows as state"):
        write(w)
    assert (write(numbers(1)).item(), w.item()) == (4, 4)


@pytest.mark.parametrize("jit", [0, 1, 2])
@pytest.mark.parametrize("view", [lambda t: t[:], Tensor.detach, lambda t: t.pad(((0, 0),))])
def test_a_replay_writes_to_an_older_view_of_what_a_waiting_write_changes(
    jit: int, view: Callable[[Tensor], Tensor]
):
    """The write was done when the view was placed already: the replay wrote to what it had left."""

    @TinyJit
    def add(x: Tensor) -> Tensor:
        x += 1
        return x * 1

    with Context(JIT=jit):
        for n in range(3):
            add(view(numbers(n, n)))
        a = numbers(3, 3)
        older = view(a)
        a += 100  # waits
        assert add(older).tolist() == [4.0, 4.0]
        assert older.tolist() == [4.0, 4.0]
        assert a.tolist() == [103.0, 103.0]


@pytest.mark.parametrize("jit", [1, 2])
def test_an_older_view_that_had_to_go_elsewhere_is_no_longer_what_was_captured(jit: int):
    add = TinyJit(lambda x: x.assign(x + 1) * 1)
    with Context(JIT=jit):
        for n in range(3):
            add(numbers(n, n).flip(0))
        a = numbers(3, 3)
        older = a.flip(0)
        a += 100
        with pytest.raises(JitError, match="is the whole of a buffer of 2, captured was a view by"):
            add(older)
        assert (a.tolist(), older.tolist()) == ([103.0, 103.0], [3.0, 3.0])


def test_detach_makes_no_other_argument():
    double = TinyJit(lambda x: x * 2)
    calls = [numbers(n) if n % 2 else numbers(n).detach() for n in range(5)]
    assert [double(x).item() for x in calls] == [0, 2, 4, 6, 8]
