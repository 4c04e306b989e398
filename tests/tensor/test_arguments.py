"""Whatever a method is given, the answer is a value or a sentence: never Python's own words."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tinylab import Device, Tensor, TinyJit, Variable, dtypes, function, nn
from tinylab.errors import OperandError, TinylabError
from tinylab.helpers.arguments import explain, explained

WRONG = [None, "a", 1.5, object(), [1, "x"], -7, 99, {}, Tensor.ones(7, 9)]
# What runs what it is given, or waits for a file.
LEFT_OUT = {"from_url", "mro"}
METHODS = [
    n for n in dir(Tensor) if not n.startswith("_") and n not in LEFT_OUT
    and callable(getattr(Tensor, n))
]  # fmt: skip
LAYERS = [n for n in nn.__all__ if n[0].isupper()]
OPTIMIZERS = ["SGD", "Adam", "AdamW", "LAMB", "LARS", "Muon", "OptimizerGroup", "Optimizer"]
FILES = ["safe_load", "safe_save", "torch_load", "gguf_load", "tar_extract", "zip_extract"]
STATE = ["get_parameters", "get_state_dict", "load_state_dict", *FILES]


def calls(f: Callable[..., Any]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Wrong calls: keywords, numbers of arguments, kinds of each."""
    parameters = list(inspect.signature(f).parameters.values())
    given = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    starred = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    yield (), {"foo": 1}
    yield (), {}
    if not starred:
        yield (1,) * (len(given) + 3), {}
    for wrong in WRONG:
        if given or starred:
            yield (wrong,), {}
        if len(given) > 1 or starred:
            yield (wrong, wrong), {}
        if len(given) > 1:
            for right in (0, Tensor.ones(2, 3), "mean"):
                yield (right, wrong), {}
        for p in parameters:
            if p.default is not p.empty:
                yield (), {p.name: wrong}


def check(f: Callable[..., Any]) -> None:
    for args, kwargs in calls(f):
        with contextlib.suppress(TinylabError, FileNotFoundError):
            f(*args, **kwargs)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_methods(name: str) -> None:
    for t in (Tensor.ones(2, 3), Tensor.ones(4)):
        check(getattr(t, name))


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    check(getattr(nn, name))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str) -> None:
    check(getattr(nn.optim, name))


@pytest.mark.parametrize("name", STATE)
def test_files(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check(getattr(nn.state, name))


SENTENCES: dict[str, Callable[[], Any]] = {
    "zeros takes no keyword 'foo'": lambda: Tensor.zeros(2, foo=1),
    "sum takes no keyword 'axes'": lambda: Tensor.ones(2).sum(axes=0),  # type: ignore[call-arg]
    "topk needs k": lambda: Tensor.ones(2).topk(),  # type: ignore[call-arg]
    "relu takes no argument, not 1": lambda: Tensor.ones(2).relu(1),  # type: ignore[call-arg]
    "uniform: low is a number, not 'a'": lambda: Tensor.uniform(2, low="a"),  # type: ignore[arg-type]
    "alu: op is one of Ops, not 5": lambda: Tensor.ones(2).alu(5),  # type: ignore[arg-type]
    "matmul: x is a tensor, not 5": lambda: Tensor.ones(2, 3) @ 5,  # type: ignore[operator]
    "reshape: shape is an int or a sequence of ints or None, not 'ab'": (
        lambda: Tensor.ones(2).reshape("ab")
    ),
    "stack is called on a tensor, not on 5": lambda: Tensor.stack(5),  # type: ignore[arg-type]
    "float() needs a tensor of one element, not shape (2,)": lambda: float(Tensor.ones(2)),
    "int() needs a tensor of one element, not shape (2, 3)": lambda: int(Tensor.ones(2, 3)),
    "__bool__ on Tensor is not defined": lambda: bool(Tensor.ones(2)),
    "Variable a: no number lies between 5 and 2": lambda: Variable("a", 5, 2),
    "Variable a: its bounds are ints, not 'b' and 2": lambda: Variable("a", "b", 2),
    "the name of a Variable is a string, not 3": lambda: Variable(3, 1, 2),  # type: ignore[arg-type]
    "a is bound to an int, not 'x'": lambda: Variable("a", 1, 5).bind("x"),
    "TinyJit captures a function, not 5": lambda: TinyJit(5),  # type: ignore[type-var]
    "function traces a function, not 5": lambda: function(5),  # type: ignore[arg-type]
    "a device is called by a string, not 5": lambda: Tensor.ones(2).to(5),
    "no device is called CPUU": lambda: Device["CPUU"],
    "no dtype is called 'float33'": lambda: dtypes.float33,
    "3 bytes are no whole number of dtypes.float: each has 4": (
        lambda: Tensor(b"abc", dtype="float32")
    ),
    "Could not infer dtype of 'x' with type str": lambda: Tensor([1, "x"], dtype="float32"),
    "Linear needs out_features": lambda: nn.Linear(2),  # type: ignore[call-arg]
    "Linear: x is a tensor, not 5": lambda: nn.Linear(2, 3)(5),  # type: ignore[arg-type]
    "a layer needs one feature or more, not 0": lambda: nn.Linear(0, 3),
    "SGD takes no keyword 'rate'": lambda: nn.optim.SGD([Tensor.ones(2)], rate=1),  # type: ignore[call-arg]
    "safe_load reads a file's path or a tensor of bytes, not 5": lambda: nn.state.safe_load(5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_sentences(sentence: str) -> None:
    with pytest.raises(TinylabError) as raised:
        SENTENCES[sentence]()
    assert raised.value.message == sentence


def test_one_element_is_a_number() -> None:
    assert float(Tensor([[2.5]])) == 2.5
    assert int(Tensor(3)) == 3


def test_what_is_near_is_proposed() -> None:
    with pytest.raises(OperandError, match="did you mean axis"):
        Tensor.ones(2).sum(axes=0)  # type: ignore[call-arg]


def test_mistakes_inside_a_users_function_stay_what_they_are() -> None:
    def wrong(x: Tensor) -> Tensor:
        return x + len(5)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="has no len") as raised:
        Tensor.ones(2).sequential([wrong])
    assert not isinstance(raised.value, TinylabError)


def test_explained_says_nothing_where_the_arguments_fit() -> None:
    @explained
    def fails(n: int) -> float:
        return 1 / n

    with pytest.raises(ZeroDivisionError):
        fails(0)
    with pytest.raises(OperandError, match="n is an int, not 'a'"):
        fails("a")  # type: ignore[arg-type]
    assert explain(fails, "fails", (1,), {}) is None
