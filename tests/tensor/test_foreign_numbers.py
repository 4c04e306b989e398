"""Numbers of numpy's, and whatever has `__index__`, are taken wherever a number is."""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinylab import Tensor, UOp, Variable, dtypes, nn
from tinylab.errors import CreationError, DTypeError, IndexingError, OperandError, TinylabError
from tinylab.helpers.kinds import asks_for_numbers
from tinylab.helpers.plain import plain_arguments


class Index:
    """Counts as an integer, and is none."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


X = Tensor.arange(24).reshape(2, 3, 4).float().realize()
FLAT = Tensor.arange(6).realize()
IMAGE = Tensor.arange(32).reshape(1, 2, 4, 4).float().realize()
WEIGHT = Tensor.ones(2, 2, 2, 2).realize()
PLACES = Tensor([[[0]]])
LOGITS, CLASSES = Tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 0.0]]), Tensor([0, 2])
KEY, COUNTER = Tensor([9, 7], dtype="uint32"), Tensor([0, 0], dtype="uint32")

# A method's name and calls of it, each with numbers where it takes any.
Call = tuple[Any, tuple[Any, ...], dict[str, Any]]
# fmt: off
CALLS: dict[str, list[Call]] = {
    name: [(X, (1,), {}), (X, ((0, 2),), {}), (X, (-1,), {})]
    for name in ("all", "any", "max", "mean", "min", "prod", "sum", "std", "var",
                 "logsumexp", "log_softmax", "softmax", "softmin")
} | {
    name: [(X, (1,), {}), (X, (-1,), {})]
    for name in ("argmax", "argmin", "argsort", "cummax", "cummin", "cumprod", "cumsum",
                 "logcumsumexp", "sort", "squeeze", "unsqueeze", "size")
} | {
    name: [(Tensor, (3,), {}), (Tensor, (2, 3), {}), (Tensor, ((2, 3),), {})]
    for name in ("empty", "invalids", "ones", "zeros", "rand", "randn", "normal",
                 "scaled_uniform", "uniform", "glorot_uniform", "kaiming_normal",
                 "kaiming_uniform")
} | {
    "allclose": [(X, (X,), {"rtol": 0.5, "atol": 1})],
    "arange": [(Tensor, (3,), {}), (Tensor, (1, 9, 2), {}), (Tensor, (0.5, 3.0), {})],
    "avg_pool2d": [(IMAGE, (2,), {"stride": 1, "padding": 1, "dilation": 1}),
                   (IMAGE, ((2, 1),), {"stride": (1, 2), "padding": (1, 0)})],
    "batchnorm": [(IMAGE, (), {"weight": None, "bias": None, "mean": Tensor.zeros(2),
                               "invstd": Tensor.ones(2), "axis": 1})],
    "cat": [(X, (X,), {"dim": 1})],
    "celu": [(X, (2.0,), {})],
    "chunk": [(X, (2,), {"dim": 1})],
    "clamp": [(X, (3, 7.5), {})],
    "clip": [(X, (3, 7.5), {})],
    "const": [(Tensor, (3,), {})],
    "const_like": [(X, (3,), {})],
    "conv2d": [(IMAGE, (WEIGHT,), {"stride": 1, "padding": 1, "dilation": 2, "groups": 1}),
               (IMAGE, (WEIGHT,), {"stride": (1, 2), "padding": (1, 0, 2, 1)})],
    "conv_transpose2d": [(IMAGE, (WEIGHT,), {"stride": 2, "padding": 1, "output_padding": 1,
                                             "groups": 1, "dilation": 1})],
    "cross_entropy": [(LOGITS, (CLASSES,), {"label_smoothing": 0.125})],
    "diagonal": [(X, (1, 0, 2), {})],
    "dropout": [(X, (0.0,), {})],
    "elu": [(X, (2.0,), {})],
    "expand": [(FLAT, (2, 6), {}), (FLAT, ((2, -1),), {})],
    "eye": [(Tensor, (3, 4), {})],
    "flatten": [(X, (1, 2), {})],
    "flip": [(X, (0, 2), {}), (X, ((0, 2),), {})],
    "full": [(Tensor, ((2, 3), 7), {}), (Tensor, (2, 1.5), {})],
    "full_like": [(X, (7,), {})],
    "gather": [(X, (1, PLACES), {})],
    "hardsigmoid": [(X, (0.25, 0.5), {})],
    "hardtanh": [(X, (3, 7.5), {})],
    "image_conv2d": [(IMAGE, (WEIGHT,), {"stride": 1, "padding": 1, "dilation": 1, "groups": 1})],
    "interpolate": [(IMAGE, ((3, 5),), {})],
    "isclose": [(X, (X + 1,), {"rtol": 0.0, "atol": 2})],
    "keccak": [(Tensor([1, 2, 3], dtype="uint8"), ((32, 6),), {})],
    "layernorm": [(X, (2,), {"eps": 0.5}), (X, ((1, 2),), {})],
    "leaky_relu": [(X - 9, (0.25,), {})],
    "linspace": [(Tensor, (0, 1, 5), {}), (Tensor, (0.5, 2.5, 5), {})],
    "manual_seed": [(Tensor, (3,), {})],
    "masked_select": [(X, (X > 4,), {"size": 5, "fill_value": 2})],
    "max_pool2d": [(IMAGE, (2,), {"stride": 1, "padding": 1, "dilation": 1}),
                   (IMAGE, ((2, 1),), {"stride": (1, 2)})],
    "max_unpool2d": [(Tensor([[[[1.0]]]]), (Tensor([[[[3]]]]), 2),
                      {"stride": 2, "padding": 0, "dilation": 1, "output_size": (1, 1, 2, 2)})],
    "multinomial": [(LOGITS, (2,), {})],
    "newton_schulz": [(LOGITS, (2, (2, 1), 0.5), {})],
    "nll_loss": [(LOGITS, (CLASSES,), {"ignore_index": 2})],
    "nonzero": [(LOGITS, (), {"size": 4, "fill_value": 2})],
    "normalize": [(X, (2.0, 1, 0.5), {})],
    "one_hot": [(CLASSES, (3,), {})],
    "pad": [(X, ((1, 2),), {"value": 2}), (X, (((0, 1), None, (2, 0)),), {"value": 0.5}),
            (X, ((-1, 0, 1, 1),), {})],
    "pad_to": [(X, (2, None, 6), {"value": 3}), (X, ((2, 5, 6),), {})],
    "permute": [(X, (2, 0, 1), {}), (X, ((2, 0, 1),), {})],
    "randint": [(Tensor, (2, 3), {"low": 2, "high": 9}), (Tensor, ((4,),), {"high": 2**40})],
    "random_bits": [(Tensor, (KEY, COUNTER, 5), {})],
    "randperm": [(Tensor, (5,), {})],
    "rearrange": [(X, ("a b (c d) -> a (b d) c",), {"c": 2})],
    "repeat": [(X, (2, 1, 2), {}), (FLAT, ((2, 3),), {})],
    "repeat_interleave": [(X, (2,), {"dim": 1}), (FLAT, (3,), {})],
    "reshape": [(X, (6, 4), {}), (X, ((-1, 12),), {}), (X, (None, 12), {})],
    "roll": [(X, (1, 2), {}), (X, ((1, -1), (0, 1)), {}), (FLAT, (2,), {})],
    "scaled_dot_product_attention": [(X, (X, X), {"dropout_p": 0.0})],
    "scatter": [(X, (1, PLACES, Tensor([[[7.0]]])), {}), (X, (2, PLACES, 7.0), {})],
    "scatter_reduce": [(X, (1, PLACES, Tensor([[[7.0]]]), "sum"), {})],
    "selu": [(X, (2.0, 0.5), {})],
    "shard": [(X, (("CPU", "CPU:1"), 0), {})],
    "shrink": [(X, (((0, 1), None, (1, 3)),), {})],
    "shrink_to": [(X, (1, None, 2), {}), (X, ((1, 2, 3),), {})],
    "softplus": [(X, (2.0,), {})],
    "sparse_categorical_crossentropy": [(LOGITS, (CLASSES,),
                                         {"ignore_index": 2, "label_smoothing": 0.125})],
    "split": [(X, (2,), {"dim": 2}), (X, ((1, 2),), {"dim": 1})],
    "stack": [(X, (X,), {"dim": 1})],
    "std_mean": [(X, (1,), {"correction": 0})],
    "topk": [(X, (2,), {"dim": 1})],
    "transpose": [(X, (0, 2), {})],
    "tril": [(X, (1,), {})],
    "triu": [(X, (-1,), {})],
    "unflatten": [(X, (2, (2, -1)), {})],
    "unfold": [(X, (2, 2, 1), {})],
    "var_mean": [(X, ((0, 1),), {"correction": 0})],
    "view": [(X, (6, 4), {}), (X, ((6, 4),), {})],
    "where": [(X > 4, (3, 0.5), {}), (X > 4, (X, 2), {})],
}
CALLS["std"].append((X, (1,), {"correction": 0}))
CALLS["var"].append((X, (1,), {"correction": 0}))
CALLS["normal"].append((Tensor, (3,), {"mean": 2.0, "std": 0.5}))
CALLS["uniform"].append((Tensor, (3,), {"low": 2, "high": 4.0}))
CALLS["kaiming_uniform"].append((Tensor, (3, 2), {"a": 0.5}))
CALLS["kaiming_normal"].append((Tensor, (3, 2), {"a": 0.5}))
# Changes its tensor, needs hardware, or is shown in another row: shard.
LEFT_OUT = {"as_param", "from_blob", "shard_", "decode_hevc_frame"}
UNFILLED = {"empty", "invalids"}

# What a whole number and a fraction become.
Change = Callable[[Any], Any]
FORMS: dict[str, tuple[Change, Change]] = {
    "int64": (np.int64, np.float64),
    "int8": (np.int8, np.float32),
    "0-d array": (np.array, np.float16),
    "index": (Index, np.longdouble),
}
# fmt: on


def changed(x: Any, whole: Change, fraction: Change, fill: bool = False) -> Any:
    """An argument with other numbers in it."""
    if isinstance(x, (list, tuple)):
        return type(x)(changed(v, whole, fraction) for v in x)
    if isinstance(x, float):
        return fraction(x)
    big = type(x) is int and whole is np.int8 and abs(x) > 100
    return np.int64(x) if big else whole(x) if type(x) is int else x


def outcome(x: Any, filled: bool = True) -> Any:
    """Shapes, types and values, to be compared."""
    if isinstance(x, (list, tuple)):
        return [outcome(v, filled) for v in x]
    if not isinstance(x, Tensor):
        return x
    return x.shape, x.dtype, x.numpy().tolist() if filled else None


def takes_numbers(name: str) -> bool:
    raw = inspect.getattr_static(Tensor, name)
    function = inspect.unwrap(getattr(raw, "__func__", raw))
    if not callable(function):
        return False
    scope = vars(sys.modules[function.__module__])
    parameters = inspect.signature(function).parameters.values()
    return any(p.annotation != "bool" and asks_for_numbers(p, scope) for p in parameters)


def test_every_method_that_takes_numbers_has_a_call() -> None:
    found = {n for n in dir(Tensor) if not n.startswith("_") and takes_numbers(n)}
    assert sorted(found - CALLS.keys() - LEFT_OUT) == []


# Operands may be tensors: an array beside one is an array, not a number.
OPERANDS = {"clamp", "clip", "where", "const", "const_like", "full", "full_like", "scatter"}


SWEEP = [
    (name, form)
    for name in CALLS
    for form in FORMS
    if name not in OPERANDS or form not in ("0-d array", "index")
]


@pytest.mark.parametrize(("name", "form"), SWEEP)
def test_methods(name: str, form: str) -> None:
    for owner, args, kwargs in CALLS[name]:
        found = []
        for whole, fraction in ((int, float), FORMS[form]):
            Tensor.manual_seed(1)
            given = [changed(x, whole, fraction) for x in (*args, *kwargs.values())]
            named = dict(zip(kwargs, given[len(args) :], strict=True))
            result = getattr(owner, name)(*given[: len(args)], **named)
            found.append(outcome(result, name not in UNFILLED))
        assert str(found[0]) == str(found[1])


@pytest.mark.parametrize("form", FORMS)
def test_indices(form: str) -> None:
    n = FORMS[form][0]
    assert X[n(1)].tolist() == X[1].tolist()
    assert X[0, n(2)].tolist() == X[0, 2].tolist()
    assert X[n(-1), ..., n(1)].tolist() == X[-1, ..., 1].tolist()
    assert X[:, n(1) :, n(0) : n(3) : n(2)].tolist() == X[:, 1:, 0:3:2].tolist()
    if form != "index":  # numpy lists of these are of objects, too
        assert X[[n(1), n(0)]].tolist() == X[[1, 0]].tolist()
    with pytest.raises(IndexingError, match="index=2 is out of bounds with size=2"):
        X[n(2)]
    y = Tensor([1.0, 2.0, 3.0])
    y[n(1)] = np.float32(7)
    y[n(2) :] = 5
    assert y.tolist() == [1, 7, 5]


def test_what_numpy_found_is_an_index() -> None:
    assert X[np.argmax([1, 5])].shape == (3, 4)
    assert X[np.bool_(True)].shape == (1, 2, 3, 4)
    assert X.sum(tuple(np.arange(2))).tolist() == X.sum((0, 1)).tolist()


def test_an_array_is_a_sequence_of_sizes() -> None:
    assert X.reshape(np.array([6, 4])).shape == (6, 4)
    assert X.permute(np.array([2, 0, 1])).shape == (4, 2, 3)
    assert Tensor.zeros(np.array([2, 3])).shape == (2, 3)
    assert X.pad(np.array([[0, 0], [1, 0], [0, 2]])).shape == (2, 4, 6)
    assert X.sum(np.array([0, 1])).tolist() == X.sum((0, 1)).tolist()


def test_refusals_name_plain_numbers() -> None:
    with pytest.raises(TinylabError, match=r"topk: k=9 is out of range"):
        X.topk(np.int64(9))
    with pytest.raises(TinylabError, match=r"can't reshape \(2, 3, 4\) to \(5,\)"):
        X.reshape(np.int64(5))


@pytest.mark.parametrize("form", FORMS)
def test_layers(form: str) -> None:
    n = FORMS[form][0]
    assert nn.Linear(n(3), n(2))(Tensor.ones(3)).shape == (2,)
    conv = nn.Conv2d(n(2), n(3), n(3), stride=n(2), padding=n(1))
    assert conv(IMAGE).shape == (1, 3, 2, 2)
    assert nn.Conv2d(2, 3, (n(3), n(1)))(IMAGE).shape == (1, 3, 2, 4)
    turned = nn.ConvTranspose2d(n(2), n(3), n(2), stride=n(2), output_padding=n(1))
    assert turned(IMAGE).shape == (1, 3, 9, 9)
    assert nn.BatchNorm(n(2))(IMAGE).shape == IMAGE.shape
    assert nn.GroupNorm(n(1), n(2))(IMAGE).shape == IMAGE.shape
    assert nn.InstanceNorm(n(2))(IMAGE).shape == IMAGE.shape
    assert nn.LayerNorm(n(4))(IMAGE).shape == IMAGE.shape
    assert nn.LayerNorm((n(4), n(4)))(IMAGE).shape == IMAGE.shape
    assert nn.LayerNorm2d(n(2))(IMAGE).shape == IMAGE.shape
    assert nn.RMSNorm(n(4))(IMAGE).shape == IMAGE.shape
    assert nn.Embedding(n(5), n(3))(Tensor([1, 2])).shape == (2, 3)
    assert nn.LSTMCell(n(4), n(3))(Tensor.ones(2, 4))[0].shape == (2, 3)


@pytest.mark.parametrize("form", FORMS)
def test_nodes(form: str) -> None:
    n = FORMS[form][0]
    size = Variable("size", n(1), n(10))
    assert size is Variable("size", 1, 10)
    assert size.bind(n(3)) is size.bind(3)
    assert UOp.range(n(97), 0) is UOp.range(97, 0)
    assert [type(x.arg) for x in UOp.range(n(98), 0).src] == [int]
    assert UOp.special(n(99), "gidx0") is UOp.special(99, "gidx0")
    one = UOp.const(3, dtypes.int)
    assert one.expand((n(3), n(4))).reshape((n(4), n(3))).shape == (4, 3)


def test_only_what_changes_is_made_anew() -> None:
    def f(axis: int | tuple[int, ...], x: Any) -> None: ...

    array = np.ones(3)
    assert plain_arguments(f, (1, array), {}) is None
    assert plain_arguments(f, ((1, 2),), {"x": X}) is None
    assert plain_arguments(f, (np.int64(1), array), {}) == ((1, array), {})
    given = plain_arguments(f, (1,), {"x": [np.float32(0.5)]})
    assert given == ((1,), {"x": [0.5]})
    assert plain_arguments(f, (np.array([1, 2]), None), {}) == (([1, 2], None), {})


def test_what_bounds_a_slice_is_an_integer() -> None:
    for wrong, said in ((1.5, "1.5"), ("a", "'a'"), (Tensor(1), "a tensor of shape ()")):
        for index in (slice(wrong, None), slice(None, wrong), slice(None, None, wrong)):
            with pytest.raises(IndexingError) as raised:
                X[index]
            assert raised.value.message == f"a slice is made of integers, not {said}"
    assert raised.value.help == "ask .item() of it"
    with pytest.raises(IndexingError, match="slice step cannot be 0"):
        X[::0]
    size = Variable("size", 1, 2)
    with pytest.raises(IndexingError, match=r"a slice is made of integers, not 1.5"):
        X[:size][1.5:]


def test_a_number_of_numpys_on_the_left_gives_a_tensor():
    """numpy worked it out, and the gradient was lost."""
    x = Tensor([1.0, 2.0])
    y = np.float32(2) * x + np.int64(1) - np.float64(3) / x
    assert isinstance(y, Tensor)
    assert y.tolist() == [0.0, 3.5]
    assert y.sum().gradient(x)[0].tolist() == [5.0, 2.75]
    assert isinstance(np.sin(x), np.ndarray)
    with pytest.raises(OperandError, match="ndarray is no operand"):
        _ = np.ones(2, np.float32) + x


# *** operators beside arrays, and what is no number

# fmt: off
ELEMENTS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq",
            "ne", "divmod")
BITS = ("and_", "or_", "xor", "lshift", "rshift")
IN_PLACE = ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand",
            "ior", "ixor", "ilshift", "irshift")
# fmt: on
TENSORS = {
    "floats": lambda: Tensor([1.0, 2.0, 3.0]),
    "ints": lambda: Tensor([1, 2, 3]),
    "uint8": lambda: Tensor([1, 2, 3], dtype="uint8"),
    "uint64": lambda: Tensor([1, 2, 3], dtype="uint64"),
    "bools": lambda: Tensor([True, False, True]),
}
NO_OPERANDS: dict[str, Any] = {
    "floats": np.array([1.0, 2.0, 3.0]),
    "ints": np.array([1, 2, 3]),
    "bytes": np.array([1, 2, 3], np.uint8),
    "bools": np.array([True, False, True]),
    "one": np.ones(1),
    "nothing": np.ones(0),
    "another shape": np.ones((2, 4)),
    "complex": np.array([1j, 2, 3]),
    "a complex 0-d array": np.array(1j),
    "a complex number of numpy's": np.complex64(1j),
    "text": np.array(["a", "b", "c"]),
    "objects": np.array([None, 1, 2], object),
    "a matrix": np.array([[1, 2, 3]]).view(np.matrix),
    "a list": [1, 2, 3],
    "a tuple": (1.0, 2.0, 3.0),
    "a set": {1},
    "None": None,
    "a string": "abc",
    "a complex number": 1j,
    "an object": object(),
}


def operation(name: str) -> Any:
    return divmod if name == "divmod" else getattr(operator, name)


@pytest.mark.parametrize("what", NO_OPERANDS)
@pytest.mark.parametrize("name", [*ELEMENTS, *BITS, "matmul", *IN_PLACE])
def test_an_operator_refuses_arrays_and_what_is_no_number(name: str, what: str) -> None:
    """It never answers with an array, which has no gradient, nor in the words of another library.

    tinygrad refuses arrays, too: whose type and device are meant is not said.
    """
    other = NO_OPERANDS[what]
    sides = [False] if name in IN_PLACE else [False, True]
    if (name, what) in (("mod", "a string"), ("pow", "a matrix")):  # those ask nobody
        sides = [False]
    for (kind, make), left in ((t, side) for t in TENSORS.items() for side in sides):
        with pytest.raises(TinylabError) as raised:
            operation(name)(*((other, make()) if left else (make(), other)))
        assert isinstance(raised.value, (OperandError, DTypeError)), kind
        assert "__" not in raised.value.message


@pytest.mark.parametrize("number", [2, 2.5, True, 300, -1])
@pytest.mark.parametrize("name", [*ELEMENTS, *BITS])
def test_an_array_of_no_axes_is_a_number(name: str, number: Any) -> None:
    for make in TENSORS.values():
        for left in (False, True):
            found = []
            for other in (number, np.array(number)):
                try:
                    pair = (other, make()) if left else (make(), other)
                    found.append(outcome(operation(name)(*pair)))
                except TinylabError as e:
                    found.append(e.message)
            assert str(found[0]) == str(found[1])


@pytest.mark.parametrize("name", [n for n in IN_PLACE if n != "imatmul"])
def test_an_array_of_no_axes_is_a_number_in_place(name: str) -> None:
    wants_bits = name in ("iand", "ior", "ixor", "ilshift", "irshift")
    found = []
    for other in (2, np.array(2)):
        x = Tensor([4, 5]) if wants_bits else Tensor([4.0, 5.0])
        found.append(outcome(operation(name)(x, other)))
    assert found[0] == found[1]


def test_a_matrix_product_with_an_array_keeps_no_values_from_the_gradient() -> None:
    t = Tensor.ones(2, 2)
    array: Any = np.ones((2, 2), np.float32)  # no operand by its type
    for product in (
        lambda: array @ t,
        lambda: t @ array,
        lambda: t.dot(array),
        lambda: t.matmul(array),
        lambda: t.linear(array),
    ):
        with pytest.raises(OperandError) as raised:
            product()
        assert raised.value.message == "ndarray is no operand of a tensor"
        assert raised.value.help == "make a Tensor of it first"
    assert (Tensor(array) @ t).tolist() == [[2, 2], [2, 2]]


def test_a_quotient_and_what_is_left() -> None:
    x = Tensor([7.5, -7.0])
    assert [t.tolist() for t in divmod(x, 2)] == [[3, -4], [1.5, 1]]
    assert [t.tolist() for t in divmod(10, Tensor([3, -4]))] == [[3, -3], [1, -2]]


# *** numpy's functions

M = Tensor([[3.0, 1.0, 2.0], [4.0, 5.0, 6.0]]).realize()
# fmt: off
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    name: getattr(np, name)
    for name in ("sum", "prod", "mean", "max", "min", "amax", "amin", "all", "any", "std", "var",
                 "argmax", "argmin", "cumsum", "cumprod", "ptp", "median", "count_nonzero", "sort",
                 "argsort", "squeeze", "ravel", "round", "nonzero", "argwhere", "flip", "transpose",
                 "diagonal", "trace", "size", "shape", "ndim", "array2string", "sin", "unique")
} | {
    "sum along": lambda x: np.sum(x, axis=1, keepdims=True),
    "sum in doubles": lambda x: np.sum(x, dtype=np.float64),
    "sum of some": lambda x: np.sum(x, where=x > 2),
    "std with a correction": lambda x: np.std(x, ddof=1),
    "max from": lambda x: np.max(x, initial=9),
    "into an array": lambda x: np.sum(x, axis=0, out=np.zeros(3, np.float32)),
    "concatenate": lambda x: np.concatenate([x, np.ones((2, 3), np.float32)], axis=1),
    "stack": lambda x: np.stack((x, x)),
    "where": lambda x: np.where(x > 2, x, 0),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "norm": np.linalg.norm,
    "clip": lambda x: np.clip(x, 2, 4),
    "percentile": lambda x: np.percentile(x, [25, 50]),
}
# fmt: on


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numpys_functions_give_numpys_answers(name: str) -> None:
    """sum, mean, max and their like asked for methods with numpy's keywords, and got a refusal."""
    found, right = FUNCTIONS[name](M), FUNCTIONS[name](M.numpy())
    assert type(found) is type(right)
    if isinstance(right, tuple):
        assert all(map(np.array_equal, found, right))
    else:
        assert np.array_equal(found, right)


def test_numpys_functions_write_to_no_tensor() -> None:
    x: Any = Tensor([1.0, 2.0])
    index = np.array([0])
    for name, call in {
        "sum": lambda: np.sum(np.ones((2, 2)), axis=0, out=x),
        "copyto": lambda: np.copyto(x, np.zeros(2)),
        "put": lambda: np.put(x, index, 5),
    }.items():
        with pytest.raises(OperandError) as raised:
            call()
        assert raised.value.message == f"numpy.{name} cannot write to a Tensor"
    assert x.tolist() == [1, 2]
    array: Any = np.zeros(2)
    np.copyto(array, x)
    assert array.tolist() == [1, 2]
    with pytest.raises(OperandError, match="ndarray is no operand"):
        array += x


def test_another_librarys_arrays_are_left_to_it() -> None:
    class Other:
        def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> str:
            return "theirs"

    both: Any = [Tensor([1.0]), Other()]
    assert np.concatenate(both) == "theirs"


@pytest.mark.parametrize(
    "name", ["float64", "float32", "float16", "int64", "int8", "uint16", "bool"]
)
def test_data_of_numpys_keeps_its_type(name: str) -> None:
    # numpy and PyTorch agree; only beside tensors are such numbers as weak as Python's.
    number = np.dtype(name).type(1)
    expected = Tensor(np.array([number])).dtype
    for data in (number, [number], [[number, number]], [np.array([1, 0], name)]):
        found = Tensor(data)
        assert found.dtype is expected
        assert found.tolist() == np.array(data).tolist()
    assert (Tensor([1.0]) * np.float64(2)).dtype is dtypes.float32


def test_data_of_several_types_is_as_of_python() -> None:
    assert Tensor([1, np.float64(1e300)]).tolist() == [1, 1e300]
    assert Tensor([0.5, np.float64(0.1)]).dtype is dtypes.float64
    assert Tensor([np.float16(0.5), np.float64(0.5)]).dtype is dtypes.float64
    assert Tensor([np.float16(0.5), 0.1]).dtype is dtypes.default_float
    assert Tensor([np.int8(1), np.int16(300)]).dtype is dtypes.int16
    assert Tensor([np.uint8(3), 4]).dtype is dtypes.default_int
    assert Tensor([np.float64(0.5)], dtype=dtypes.half).dtype is dtypes.half
    with pytest.raises(CreationError, match="numpy array of complex64"):
        Tensor([np.complex64(1)])


@pytest.mark.parametrize(
    "array",
    [
        np.array(["a", "b"]),
        np.array([1j, 2]),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")]),
    ],
    ids=str,
)
def test_arrays_of_what_is_no_number_are_refused_in_a_sentence(array: Any) -> None:
    x, images = Tensor.ones(2, 2), Tensor.ones(1, 1, 3, 3)
    calls: list[Callable[[], Any]] = [
        lambda: x.reshape(array),
        lambda: x.expand(array),
        lambda: x.permute(array),
        lambda: x.sum(axis=array),
        lambda: x.roll(array),
        lambda: x.split(array),
        lambda: Tensor.zeros(array),
        lambda: Tensor.rand(array),
        lambda: images.max_pool2d(array),
        lambda: images.interpolate(array),
    ]
    for call in calls:
        with pytest.raises(TinylabError):
            call()
