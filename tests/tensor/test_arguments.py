"""Whatever a method is given, the answer is a value or a sentence: never Python's own words."""

from __future__ import annotations

import contextlib
import enum
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tinylab
from tests.compat.names import IMPORTED
from tinylab import (
    Context,
    Device,
    Tensor,
    TinyJit,
    UOp,
    Variable,
    codegen,
    dtypes,
    fetch,
    function,
    getenv,
    nn,
)
from tinylab.codegen.opt import OptOps
from tinylab.compat import module
from tinylab.compat.modules import take
from tinylab.device import Buffer
from tinylab.engine.realize import create_linear_with_vars
from tinylab.errors import FetchError, OperandError, SettingError, TinylabError, UnknownDeviceError
from tinylab.gradient import compute_gradient
from tinylab.helpers.arguments import explain, explained
from tinylab.helpers.context import DEBUG, ContextVar
from tinylab.opcodes import Ops

WRONG = [None, "a", 1.5, int, object(), [1, "x"], -7, 99, {}, Tensor.ones(7, 9)]
ODD = [0, math.nan, math.inf, (), (0,), slice(None), np.array([3, 2]), np.array(1.5)]
# What runs what it is given, or waits for a file.
LEFT_OUT = {"from_url", "mro"}
METHODS = [
    n for n in dir(Tensor) if not n.startswith("_") and n not in LEFT_OUT
    and callable(getattr(Tensor, n))
]  # fmt: skip
LAYERS = [n for n in nn.__all__ if n[0].isupper()]
OPTIMIZERS = ["SGD", "Adam", "AdamW", "LAMB", "LARS", "Muon", "OptimizerGroup", "Optimizer"]
FILES = ["safe_load", "safe_save", "torch_load", "gguf_load", "tar_extract", "zip_extract"]
# What scripts import besides; what runs a command, waits or reads memory at an address is left out.
FACES = ["helpers", "dtype", "device", "uop.ops", "codegen.opt", "nn.state", "nn.optim"]
NOT_CALLED = {
    "system", "panic", "wait_cond", "to_mv", "from_mv", "mv_address", "trange", "tqdm",
    "diskcache_clear", "ContextVar", "select_first_inited", "amdgpu_disassemble",
    "cpu_objdump", "db_connection",
}  # fmt: skip
# Tables of the interpreter, with numbers checked before; and what imports or asks what it is given.
PLAIN = {"safe_exp2", "safe_pow", "fromimport"}
# Nodes are made on the hot path: keywords that they lack are Python's to refuse.
PLAIN |= {"UOp", "Variable", "UOpMetaClass"}
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
    for t in (Tensor.ones(2, 3), Tensor.ones(4), Tensor(1.0)):
        check(getattr(t, name))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_odd_values(name: str) -> None:
    f = getattr(Tensor.ones(2, 3), name)
    keywords = [
        p.name for p in inspect.signature(f).parameters.values() if p.default is not p.empty
    ]
    for odd in ODD:
        for args, kwargs in [((odd,), {}), *(((), {k: odd}) for k in keywords)]:
            with contextlib.suppress(TinylabError, FileNotFoundError):
                f(*args, **kwargs)


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


@pytest.mark.parametrize("face", FACES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_scripts_import(
    face: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    checked = 0
    for name in IMPORTED[f"tinygrad.{face}"].split():
        if name.startswith("_") or name in NOT_CALLED | PLAIN:
            continue
        found = getattr(module(f"tinygrad.{face}"), name, None)
        made = found is Any or (
            inspect.isclass(found)
            and (
                issubclass(found, (BaseException, float)) or not inspect.signature(found).parameters
            )
        )
        if not callable(found) or made or is_enum(found):
            continue
        check(found)
        checked += 1
    assert checked


@pytest.mark.parametrize("name", ["load", "profile", "profile_marker", "record"])
def test_top_level(name: str) -> None:
    check(getattr(tinylab, name))


STAGES = [
    codegen.apply_opts, codegen.do_to_program, codegen.full_rewrite_to_sink, codegen.line_rewrite,
    codegen.to_program, compute_gradient, create_linear_with_vars, module, take,
]  # fmt: skip


@pytest.mark.parametrize("function", STAGES, ids=lambda f: f.__name__)
def test_stages_that_scripts_call(function: Callable[..., Any]) -> None:
    with contextlib.suppress(ImportError):  # of a module that exists nowhere
        check(function)
    with pytest.raises(OperandError, match=f"{function.__name__} takes no keyword 'foo'"):
        function(foo=1)


def is_enum(found: Any) -> bool:
    return inspect.isclass(found) and issubclass(found, enum.Enum)


def called(owner: Any) -> list[str]:
    return [
        n for n in dir(owner)
        if not n.startswith("_") and n not in ("mro", "known")
        and inspect.isroutine(getattr(owner, n, None))
    ]  # fmt: skip


@pytest.mark.parametrize("name", called(UOp))
def test_nodes(name: str) -> None:
    for u in (Tensor.ones(2, 3).contiguous().uop, UOp.range(4, 0)):
        check(getattr(u, name))


@pytest.mark.parametrize("name", called(Device))
def test_devices(name: str) -> None:
    check(getattr(Device, name))


@pytest.mark.parametrize("name", called(dtypes))
def test_predicates_of_dtypes(name: str) -> None:
    check(getattr(dtypes, name))


@pytest.mark.parametrize("name", called(Buffer))
def test_buffers(name: str) -> None:
    check(getattr(Buffer("CPU", 4, dtypes.float32).allocate(), name))


@pytest.mark.parametrize("f", [Context, TinyJit, function, getenv, fetch, Variable])
def test_the_top_level(f: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check(f)


SENTENCES: dict[str, Callable[[], Any]] = {
    "GlobalCounters takes no keyword 'foo'": lambda: tinylab.GlobalCounters(foo=1),
    "disable_gc takes no keyword 'foo'": lambda: module("tinygrad.helpers").disable_gc(foo=1),
    "get_child: 'a.b' leads nowhere: {'c': 1} has no 'a'": (
        lambda: module("tinygrad.helpers").get_child({"c": 1}, "a.b")
    ),
    "i2u: 8 bits do not hold -300": lambda: module("tinygrad.helpers").i2u(8, -300),
    "round_up: no number is a multiple of 0, as 5 is to be": (
        lambda: module("tinygrad.helpers").round_up(5, 0)
    ),
    "DEBUG is an int, not <class 'int'>": lambda: Context(DEBUG=int).__enter__(),
    "as_param: slot is an int, not 'a'": lambda: Tensor([1.0]).realize().as_param("a"),
    "a buffer is on a device, called by a string, not 2": lambda: Buffer(2, 4, dtypes.int8),
    "a device is called by a string, not 1.5": lambda: module("tinygrad.engine.jit").graph_class(
        1.5
    ),
    "a file holds tensors by name, not 5 by 'a'": (
        lambda: nn.state.safe_save({"a": 5}, "x.safetensors")
    ),
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
    "no device is called FOO": lambda: Tensor.ones(2).to("FOO"),
    "no device is called BAR": lambda: Tensor([1], device="BAR"),
    "no device is called BAZ": lambda: Tensor.empty(2, device=("CPU", "BAZ")),
    "no device is called QUX": lambda: Tensor.rand(2, device="qux:1"),
    "getenv: key is a string, not 5": lambda: getenv(5),  # type: ignore[arg-type]
    "is_float: x is a dtype, not 'float'": lambda: dtypes.is_float("float"),  # type: ignore[arg-type]
    "a device is called by a string, not [1]": lambda: Device.get_class([1]),  # type: ignore[arg-type]
    "UOp: op is one of Ops, not 5": lambda: UOp(5),  # type: ignore[arg-type]
    "no setting is called UNKNOWN": lambda: Context(UNKNOWN=1),
    "DEBUG is an int, not 'a'": lambda: Context(DEBUG="a").__enter__(),
    "DEV is a string, not 5": lambda: Context(DEV=5).__enter__(),
    "DEBUG is an int, not 1.5": lambda: setattr(DEBUG, "value", 1.5),
    "Context takes no argument, not 1": lambda: Context(1),  # type: ignore[call-arg]
    "function takes no keyword 'precompil'": lambda: function(len, precompil=True),  # type: ignore[call-arg]
    "TinyJit takes no keyword 'prun'": lambda: TinyJit(len, prun=True),  # type: ignore[call-arg]
    "'mean' is no address": lambda: fetch("mean"),
    "ContextVar needs default_value": lambda: ContextVar("X"),  # type: ignore[call-arg]
    "no OptOps is 'UPCAS'": lambda: OptOps("UPCAS"),
    "no Ops is 999": lambda: Ops(999),
    "index keeps what it is given, and [1] may change": (
        lambda: Tensor.ones(2).contiguous().uop.index([1])
    ),
    "sort of a UOp needs what only a tensor has": lambda: Tensor.ones(2).contiguous().uop.sort(),
    "qr of a UOp needs what only a tensor has": lambda: Tensor.ones(2, 2).contiguous().uop.qr(),
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


def test_a_near_device_is_proposed() -> None:
    with pytest.raises(UnknownDeviceError, match="did you mean NULL"):
        Tensor.ones(2).to("NUL")


def test_errors_stay_what_scripts_catch() -> None:
    with pytest.raises(ValueError, match="no AddrSpace is 9"):
        module("tinygrad.dtype").AddrSpace(9)
    with pytest.raises(KeyError):
        Context(UNKNOWN=1)
    with pytest.raises(OSError, match="is no address"):
        fetch("data.txt")
    for kind in (SettingError, FetchError):
        assert issubclass(kind, TinylabError)


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
