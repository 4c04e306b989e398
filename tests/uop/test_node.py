"""Nodes: interning, fields, walking, changing, numbers."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import subprocess
import sys
import threading
from typing import Any

import pytest

from tinylab.dtype import AddrSpace, Invalid, dtypes
from tinylab.errors import CreationError, TinylabError
from tinylab.helpers.context import Context
from tinylab.uop.intern import cache
from tinylab.uop.ops import AxisType, KernelInfo, Ops, ParamArg, UOp

DEEP = 100_000


def chain(length: int, tag: Any = None) -> UOp:
    """A graph as deep as it is long."""
    node = UOp.variable("start", 0, 10)
    if tag is not None:
        node = node.rtag(tag)
    one = UOp.const(1)
    for _ in range(length):
        node = UOp(Ops.MAX, dtypes.weakint, (node, one))
        one = node if one.op is not Ops.CONST else one
        node = UOp(Ops.ADD, dtypes.weakint, (node, UOp.const(1)))
    return node


# *** identity


def test_same_fields_same_object() -> None:
    assert UOp.const(3) + UOp.range(4, 0) is UOp.const(3) + UOp.range(4, 0)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (UOp.const(1), UOp.const(1.0)),
        (UOp.const(1), UOp.const(True)),
        (UOp.const(0.0), UOp.const(-0.0)),
        (UOp.const(1, dtypes.int32), UOp.const(1, dtypes.int64)),
        (UOp.range(4, 0), UOp.range(4, 1)),
        (UOp.range(4, 0), UOp.range(4, 0, AxisType.REDUCE)),
        (UOp.const(1), UOp.const(1).rtag("mark")),
    ],
)
def test_other_fields_other_object(a: UOp, b: UOp) -> None:
    assert a is not b
    assert a != b


def test_nan_is_one_node() -> None:
    assert UOp.const(math.nan) is UOp.const(float("nan"))


def test_equality_is_identity_and_builds_no_node() -> None:
    a = UOp.range(4, 0)
    assert (a == a) is True
    assert (a == UOp.range(4, 1)) is False
    assert a.eq(a).op is Ops.CMPNE


def test_nodes_are_forgotten_with_their_last_user() -> None:
    node = UOp.const(918_273)
    key = next(k for k, entry in cache.items() if entry() is node)
    del node
    gc.collect()
    assert key not in cache


def test_many_threads_build_the_same_graph() -> None:
    """Interning from several threads at once gives one node for one set of fields."""
    found: list[list[UOp]] = []
    start = threading.Barrier(8)

    def build() -> None:
        start.wait()
        nodes = []
        for n in range(400):
            r = UOp.range(n + 2, n)
            nodes += [r, r * 7 + n, (r + n) // 3]
        found.append(nodes)

    threads = [threading.Thread(target=build) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for other in found[1:]:
        assert all(a is b for a, b in zip(found[0], other, strict=True))


def test_copies_and_pickles_are_the_node() -> None:
    node = (UOp.range(4, 0) * 2 + 1).sink(arg=KernelInfo("k"))
    assert copy.copy(node) is node
    assert copy.deepcopy(node) is node
    assert pickle.loads(pickle.dumps(node)) is node


def test_pickles_of_any_depth() -> None:
    node = chain(DEEP)
    assert pickle.loads(pickle.dumps(node)) is node
    nodes = [UOp.range(4, 0) + i for i in range(200)]
    assert pickle.loads(pickle.dumps(UOp.sink(*nodes))) is UOp.sink(*nodes)


def test_expressions_are_cut_where_they_are_long() -> None:
    """A text as long as the graph is deep for each node took 9 GB at 40,000 nodes."""
    x, grown = UOp.variable("x", 0, 9), UOp.variable("x", 0, 9)
    for i in range(30_000):
        grown = grown.maximum(i) ^ x
    text = grown.render(simplify=False)
    assert "…" in text
    assert len(text) <= 200_100
    assert text.count("(") == text.count(")")
    doubled = x
    for _ in range(100):
        doubled = doubled ^ doubled
    assert len(doubled.render(simplify=False)) <= 200_100
    with pytest.raises(TinylabError, match="failed to be a single number") as caught:
        int(grown)
    assert len(str(caught.value)) < 500


def test_key_is_the_same_in_another_process() -> None:
    code = (
        "from tinylab.uop.ops import UOp;"
        "print((UOp.range(4, 0) * 2 + UOp.variable('n', 0, 9)).key.hex())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {(UOp.range(4, 0) * 2 + UOp.variable("n", 0, 9)).key.hex()}


def test_key_leaves_the_tag_out() -> None:
    a = UOp.range(4, 0)
    assert a.rtag("x").key == a.key
    assert a.key != UOp.range(4, 1).key
    assert len(a.key) == 32


# *** depth


def test_deep_graphs_need_no_recursion() -> None:
    node = chain(DEEP // 2)
    order = list(node.toposort())
    assert len(order) > DEEP
    assert order[-1] is node
    assert node.shape == ()
    assert node.vmin == DEEP // 2 + 1
    assert node.ranges == {}
    assert len(node.key) == 32
    assert node.device is None


def test_deep_graphs_are_rewritten_without_recursion() -> None:
    node = chain(DEEP // 2)
    start = next(u for u in node.toposort() if u.op is Ops.BUFFER)
    assert node.substitute({start: UOp.const(5)}).simplify().arg == DEEP // 2 + 5


# *** order


def test_toposort_has_sources_first_and_self_last() -> None:
    a, b = UOp.range(4, 0), UOp.range(8, 1)
    root = (a + b) * a
    seen: set[UOp] = set()
    for node in root.toposort():
        assert all(s in seen for s in node.src)
        seen.add(node)
    assert list(root.toposort())[-1] is root
    assert root not in root.backward_slice
    assert root in root.backward_slice_with_self


def test_toposort_gate_leaves_out_a_node_and_what_is_below_it() -> None:
    a = UOp.range(4, 0)
    inner = a + 1
    root = inner * 2
    assert inner not in root.toposort(lambda u: u is not inner)
    assert a not in root.toposort(lambda u: u is not inner)


def test_toposort_skips_bodies_of_calls() -> None:
    param = UOp.param(0, dtypes.int32, (4,))
    body = (param + 1).sink()
    call = body.call(UOp.new_buffer("NULL", 4, dtypes.int32))
    assert param in call.toposort()
    assert param not in call.toposort(enter_calls=False)


# *** changing


def test_replace() -> None:
    a = UOp.range(4, 0)
    node = a + 1
    assert node.replace(src=(a, UOp.const(2))) is a + 2
    assert node.replace(op=Ops.MUL).op is Ops.MUL
    assert node.rtag("t").tag == "t"
    with pytest.raises(AssertionError, match="unused kwargs in replace"):
        node.replace(sources=())


def test_replace_works_the_dtype_out_again() -> None:
    node = UOp.variable("n", 0, 9) + 1
    src = tuple(UOp.const(1, dtypes.int64) for _ in range(2))
    assert node.replace(src=src).dtype is dtypes.int64


# *** constants


@pytest.mark.parametrize(
    ("value", "dtype", "stored"),
    [
        (300, dtypes.uint8, 44),
        (2.7, dtypes.int32, 2),
        (1e20, dtypes.int32, dtypes.int32.max),
        (math.nan, dtypes.int32, 0),
        (0.1, dtypes.float16, 0.0999755859375),
        (3, dtypes.float32, 3.0),
        (2, dtypes.bool, True),
    ],
)
def test_constants_are_exact_in_their_type(value: Any, dtype: Any, stored: Any) -> None:
    node = UOp.const(value, dtype)
    assert node.arg == stored
    assert type(node.arg) in (type(stored), *type(stored).__subclasses__())


def test_constant_dtype_by_value() -> None:
    assert UOp.const(1).dtype is dtypes.weakint
    assert UOp.const(1.0).dtype is dtypes.weakfloat
    assert UOp.const(True).dtype is dtypes.bool
    assert UOp.invalid().arg is Invalid
    assert UOp.const((1, 2)).op is Ops.STACK


def test_const_like_has_the_shape() -> None:
    x = UOp.param(0, dtypes.float32, (3, 4))
    assert x.const_like(2).shape == (3, 4)
    assert x.const_like(2).dtype is dtypes.float32


# *** loops, storage, variables


def test_range() -> None:
    r = UOp.range(4, 0, 1, AxisType.LOCAL)
    assert r.arg == (0, 1, AxisType.LOCAL)
    assert r.arg[-1] is AxisType.LOCAL
    assert r.vmin == 0
    assert r.vmax == 3
    assert UOp.range(4, 0).arg[-1] is AxisType.WEAK
    assert list((r + 1).ranges) == [r]


def test_ranges_end() -> None:
    r, q = UOp.range(4, 0), UOp.range(3, 1, AxisType.REDUCE)
    data = UOp.param(0, dtypes.float32, (12,))
    total = data.index(r * 3 + q).reduce(q)
    assert list(total.ranges) == [r]
    stored = UOp.param(1, dtypes.float32, (4,)).index(r).store(total).end(r)
    assert not stored.ranges
    assert stored.ended_ranges == (r,)


def test_param_and_buffer() -> None:
    param = UOp.param(2, dtypes.float32, (3, 4))
    assert param.shape == (3, 4)
    assert isinstance(param.arg, ParamArg)
    assert param.arg.slot == 2
    assert param.addrspace is AddrSpace.GLOBAL
    buffer = UOp.new_buffer("NULL", 12, dtypes.float32)
    assert buffer.shape == (12,)
    assert buffer.device == "NULL"
    with pytest.raises(RuntimeError, match="weak dtype"):
        UOp.new_buffer("NULL", 12, dtypes.weakint)


def test_bind() -> None:
    n = UOp.variable("n", 1, 10)
    bound = n.bind(3)
    assert bound.unbind() == (n, 3)
    assert n.is_variable
    assert (bound * 2).unbind_all() == (n * 2, {n: 3})
    with pytest.raises(AssertionError, match=r"bind 11 not in range \[1, 10\]"):
        n.bind(11)
    with pytest.raises(AssertionError, match="can't unbind"):
        n.unbind()


def test_sym_infer() -> None:
    n = UOp.variable("n", 1, 10)
    assert (n * 3 + 1).sym_infer({"n": 4}) == 13
    assert [v.expr for v in (n + UOp.variable("a", 0, 3)).variables()] == ["a", "n"]


def test_one_value() -> None:
    assert int(UOp.const(3) + 4) == 7
    assert bool(UOp.range(4, 0) < 4) is True
    with pytest.raises(ValueError, match=r"eval failed to be a single number, range is 0 to 3"):
        int(UOp.range(4, 0))


# *** shape


def test_shape_is_the_broadcast() -> None:
    a, b = UOp.param(0, dtypes.float32, (8, 1)), UOp.param(1, dtypes.float32, (32,))
    assert (a + b).shape == (8, 32)
    with pytest.raises(IndexError, match="shape mismatch: objects cannot be broadcast"):
        _ = UOp(Ops.ADD, src=(a, UOp.param(1, dtypes.float32, (3, 5)))).shape


def test_broadcasting_can_be_disallowed() -> None:
    a, b = UOp.param(0, dtypes.float32, (8, 1)), UOp.param(1, dtypes.float32, (8,))
    with Context(DISALLOW_BROADCAST=1):
        assert (a + a * a).shape == (8, 1)
        with pytest.raises(RuntimeError, match=r"shape mismatch at Ops.ADD: PARAM \(8, 1\), PARAM"):
            _ = a.alu(Ops.ADD, b).shape
        with pytest.raises(RuntimeError, match=r"shape mismatch at Ops.MUL"):
            _ = a.alu(Ops.MUL, UOp.const(2.0)).shape
    assert a.alu(Ops.ADD, b).shape == (8, 8)


def test_no_value_has_no_shape() -> None:
    with pytest.raises(RuntimeError, match=r"shape requested, but Ops\.SINK doesn't have a shape"):
        _ = UOp.const(1).sink().shape


def test_errors_are_ours() -> None:
    with pytest.raises(TinylabError):
        int(UOp.range(4, 0))


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (UOp.variable("i", 0, 9) + 3, "(i+3)"),
        (UOp.variable("i", 0, 9) * 4 + 2, "(i*4+2)"),
        (UOp.variable("i", 0, 9) // 2, "(i//2)"),
        (UOp.variable("i", 0, 9) % 3, "(i%3)"),
        (UOp.variable("i", 0, 9) < 5, "(i<5)"),
        (UOp.variable("i", 0, 9).ne(3), "(i!=3)"),
        (UOp.variable("i", 0, 9).maximum(3), "max(i, 3)"),
        (UOp.variable("i", 0, 9).alu(Ops.CDIV, UOp.variable("j", 1, 9)), "cdiv(i, j)"),
        (UOp.range(4, 0, 1, AxisType.LOCAL), "r0_1"),
    ],
)
def test_render(node: UOp, text: str) -> None:
    assert node.render() == text


def test_python_text_rebuilds_the_node() -> None:
    r = UOp.range(4, 0)
    data = UOp.param(0, dtypes.float32, (4,))
    node = data.index(r).store(data.index(r) * 2.0 + 1.0).end(r).sink(arg=KernelInfo("k"))
    names: dict[str, Any] = {}
    exec("from tinylab.uop.ops import *", names)
    exec(node.pyrender(), names)
    assert names["ast"] is node


def test_values_of_one_number_and_short_casts() -> None:
    """What scripts ask of an expression as of a tensor; here without storage."""
    x = UOp.full((2, 3), 7)
    assert (x.shape, x.dtype, x.device) == ((2, 3), dtypes.int, None)
    assert UOp.zeros(2, 3).dtype is dtypes.default_float
    assert UOp.ones((4,), dtype="int8").dtype is dtypes.int8
    assert x.zeros_like() is UOp.full((2, 3), 0)
    assert x.ones_like(dtype=dtypes.float16) is UOp.full((2, 3), 1, dtypes.float16)
    assert UOp.ones(2, device="NULL").device == "NULL"
    names = "bool short int long half bfloat16 float double"
    assert [str(getattr(x, n)().dtype) for n in names.split()] == [
        f"dtypes.{n}" for n in names.split()
    ]
    assert x.clone().op is Ops.CONTIGUOUS
    assert x.clone("NULL").device == "NULL"
    with pytest.raises(CreationError, match="filled with a number, not 'a'"):
        UOp.full((2,), "a")
