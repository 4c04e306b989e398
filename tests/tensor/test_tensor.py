# ruff: noqa: E501 (a row to a line)
"""Tensor itself: what it is made from, what comes out, what it says when something does not fit."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tinylab import Context, GlobalCounters, Tensor, UOp, Variable, dtypes
from tinylab.errors import (
    AssignError,
    ContractError,
    CreationError,
    DTypeError,
    IndexingError,
    OperandError,
    ShapeError,
    StackError,
)
from tinylab.opcodes import Ops
from tinylab.tensor import live
from tinylab.tensor.older import CREATION

NUMPY_TYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
NUMPY_TYPES += ["float16", "float32", "float64"]


@pytest.mark.parametrize("name", NUMPY_TYPES)
def test_numpy_keeps_its_type(name: str) -> None:
    data = np.array([[0, 1, 2], [3, 4, 5]]).astype(name)
    t = Tensor(data)
    assert t.dtype.name == name
    assert t.shape == (2, 3)
    assert t.numpy().dtype == data.dtype
    assert np.array_equal(t.numpy(), data)
    assert t.tolist() == data.tolist()
    assert np.array_equal(np.asarray(t.data()), data)


def test_numpy_is_copied() -> None:
    data = np.zeros(3, np.float32)
    t = Tensor(data)
    data[0] = 1
    out = t.numpy()
    out[1] = 2
    assert t.tolist() == [0, 0, 0]


def test_strides_of_numpy() -> None:
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (base.T, base[::-1, ::2], np.broadcast_to(base[0], (3, 6)), base[:0]):
        assert np.array_equal(Tensor(view).numpy(), view)
    assert Tensor(np.array([1, 2], dtype=">i4")).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        ([1, 2], dtypes.int32, (2,)),
        ([[1.5], [2]], dtypes.float32, (2, 1)),
        ([True, False], dtypes.bool, (2,)),
        ([True, 2], dtypes.int32, (2,)),
        ([], dtypes.float32, (0,)),
        ([[], []], dtypes.float32, (2, 0)),
        ([2**40], dtypes.int64, (1,)),
        (b"\x01\xff", dtypes.uint8, (2,)),
        (None, dtypes.float32, (0,)),
        ((1, (2)), dtypes.int32, (2,)),
        (np.float32(2), dtypes.float32, ()),
        ([np.int64(3), 4], dtypes.int32, (2,)),
    ],
)
def test_what_a_tensor_is_made_from(data, dtype, shape) -> None:  # type: ignore[no-untyped-def]
    t = Tensor(data)
    assert (t.dtype, t.shape) == (dtype, shape)
    t.tolist()


def test_numbers_are_weak_until_they_have_a_type() -> None:
    assert Tensor(3).dtype is dtypes.weakint
    assert Tensor(3.5).item() == 3.5
    assert Tensor(3.5, dtype=dtypes.float16).dtype is dtypes.float16
    assert (Tensor(2) + Tensor([1], dtype=dtypes.int8)).dtype is dtypes.int8
    a, b = Tensor(3.0, dtype="float32"), Tensor(3.0, dtype="float32")
    assert a.uop is not b.uop


@pytest.mark.parametrize("dtype", [dtypes.bfloat16, dtypes.float16, *dtypes.fp8s])
def test_small_floats_go_in_and_out(dtype) -> None:  # type: ignore[no-untyped-def]
    t = Tensor([1.5, -2.0, 0.0, 224.0], dtype=dtype)
    assert t.tolist() == [1.5, -2.0, 0.0, 224.0]
    assert t.numpy().tolist() == [1.5, -2.0, 0.0, 224.0]


def test_out_of_range_numbers_in_lists() -> None:
    assert Tensor([-1, -255], dtype=dtypes.uint8).tolist() == [255, 1]
    assert Tensor([1e39], dtype=dtypes.float32).tolist() == [float("inf")]
    assert Tensor([2.7, -2.7], dtype=dtypes.int32).tolist() == [2, -2]


def test_uop_as_data() -> None:
    assert Tensor(UOp.const(3)).item() == 3


def test_tensors_in_a_list_are_stacked() -> None:
    assert Tensor([Tensor([1, 2]), Tensor([3, 4])]).tolist() == [[1, 2], [3, 4]]


def test_repr() -> None:
    t = Tensor([[1, 2], [3, 4]])
    assert repr(t.realize()).startswith("Tensor([[1, 2],")
    assert repr(t + 1) == "<Tensor (2, 2) dtypes.int on CPU>"
    assert "(2000,)" in repr(Tensor.zeros(2000).realize())


def test_lengths_and_iteration() -> None:
    t = Tensor([[1, 2], [3, 4]])
    assert len(t) == 2
    assert [row.tolist() for row in t] == [[1, 2], [3, 4]]
    assert (t.numel(), t.nbytes(), t.ndim, t.element_size()) == (4, 16, 2, 4)
    assert (t.size(), t.size(-1)) == ((2, 2), 2)
    with pytest.raises(TypeError, match="len\\(\\) of a 0-d tensor"):
        len(Tensor(1.0))
    with pytest.raises(TypeError):
        iter(Tensor(1.0))


def test_item_needs_one_element() -> None:
    assert Tensor([[5]]).item() == 5
    with pytest.raises(AssertionError, match="must have one element for item"):
        Tensor([1, 2]).item()


def test_casts_and_bits() -> None:
    t = Tensor([1.9, -1.9, 0.0])
    assert t.int().tolist() == [1, -1, 0]
    assert t.bool().tolist() == [True, True, False]
    assert t.half().dtype is dtypes.float16
    assert t.double().long().short().float().tolist() == [1, -1, 0]
    assert Tensor([1.0]).bitcast(dtypes.int32).tolist() == [0x3F800000]
    assert Tensor([1, 2], dtype=dtypes.int32).bitcast(dtypes.uint8).tolist() == [
        1,
        0,
        0,
        0,
        2,
        0,
        0,
        0,
    ]
    assert t.cast(t.dtype) is t
    with pytest.raises(DTypeError, match="unsupported size in bitcast"):
        Tensor([1, 2, 3], dtype=dtypes.uint8).bitcast(dtypes.int16)
    with pytest.raises(ValueError, match="unknown dtype"):
        t.cast("float33")


def test_devices() -> None:
    t = Tensor([1.0])
    assert t.to(t.device) is t
    moved = Tensor([1.0, 2.0], device="PYTHON") + 1
    assert moved.device == "PYTHON"
    assert moved.to("CPU").tolist() == [2.0, 3.0]
    assert t.clone().uop is not t.uop
    with Context(DEV="NULL"):
        assert Tensor([1.0]).device == "NULL"


def test_only_what_is_held_is_alive() -> None:
    before = len(live)
    t = Tensor([1.0])
    u = t + 1
    assert len(live) == before + 2
    del t, u
    assert len(live) == before


def test_realize_lets_others_look_at_memory() -> None:
    a = Tensor([1.0, 2.0]) + 1
    b = a * 2
    a.realize()
    assert a.uop.is_realized
    assert a.uop.buf_uop in b.uop.toposort()
    assert b.tolist() == [4.0, 6.0]


def test_methods_leave_their_name() -> None:
    y = Tensor([1.0]).relu().softmax()
    names = {m.name for u in y.uop.toposort() for m in u.metadata or ()}
    assert names == {"relu", "softmax"}
    with Context(TRACEMETA=0):
        assert (Tensor([1.0]) - 7.25).uop.metadata is None


def test_import_loads_no_numpy() -> None:
    code = "import sys, tinylab; from tinylab import Tensor, nn; t = Tensor([1, 2]); "
    code += "assert 'numpy' not in sys.modules; assert (t + 1).tolist() == [2, 3]"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_realized_has_a_type_that_memory_has() -> None:
    x = (Tensor.ones(2, 3) > 0).where(1.0, 2.0)
    assert x.dtype is dtypes.weakfloat
    GlobalCounters.reset()
    assert x.realize().dtype is dtypes.float32
    assert GlobalCounters.kernel_count == 2
    assert x.uop.is_realized
    assert (Tensor.arange(3) > 1).where(1, 2).realize().dtype is dtypes.int32
    assert Tensor(2.0).realize().dtype is dtypes.weakfloat


def test_no_grad_is_an_older_spelling_of_nothing() -> None:
    x = Tensor([2.0])
    with pytest.warns(DeprecationWarning, match="only when backward"):
        Tensor.no_grad = True
    with pytest.warns(DeprecationWarning, match="only when backward"), Tensor.inference_mode():
        (x * x).sum().backward()
    with pytest.warns(DeprecationWarning, match="no_grad"):
        assert not Tensor.no_grad
    assert x.grad is not None


def test_training_has_older_spellings() -> None:
    with pytest.warns(DeprecationWarning, match="is deprecated, use"):
        manager = Tensor.train()
    with manager, pytest.warns(DeprecationWarning, match="is deprecated, use"):
        assert Tensor.training
    with pytest.warns(DeprecationWarning, match="is deprecated, use"):
        assert Tensor([1.0], requires_grad=True).is_param
    with pytest.warns(DeprecationWarning, match="is deprecated, use"):
        assert not Tensor([1.0]).is_param_().requires_grad_(False).is_param


MAKERS = {
    "arange": (3,), "eye": (2,), "full": ((2,), 1.0), "linspace": (0, 1, 3), "randperm": (3,),
    "glorot_uniform": (2, 2), "kaiming_normal": (2, 2), "kaiming_uniform": (2, 2),
    "from_blob": (np.zeros(4, np.float32).ctypes.data, (4,)), "full_like": (2.0,),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in CREATION if name != "from_url"])
def test_all_that_makes_a_tensor_takes_requires_grad(name: str) -> None:
    of = Tensor.ones(2, 2) if name.endswith("_like") else Tensor
    given = MAKERS.get(name, () if name.endswith("_like") else (2,))
    for marked in (True, False):
        with pytest.warns(DeprecationWarning, match=r"use is_param_\(\)") as told:
            assert getattr(of, name)(*given, requires_grad=marked).is_param is marked
        assert told[0].filename == __file__
    assert getattr(of, name)(*given).is_param is None


# fmt: off
ERRORS = {
    "reshape": (lambda: Tensor.ones(2, 3).reshape(4), ShapeError, "size mismatch, can't reshape"),
    "reshape -1": (lambda: Tensor.ones(6).reshape(-1, -1), RuntimeError, "only one dimension"),
    "permute": (lambda: Tensor.ones(2, 3).permute(0, 0), RuntimeError, "order is not a valid perm"),
    "expand": (lambda: Tensor.ones(2, 3).expand(4, 3), ValueError, "cannot broadcast"),
    "expand fewer": (lambda: Tensor.ones(2, 3).expand(3), ValueError, "fewer dimensions"),
    "shrink": (lambda: Tensor.ones(3).shrink(((0, 4),)), ValueError, "invalid shrink"),
    "shrink length": (lambda: Tensor.ones(2, 3).shrink(((0, 1),)), ValueError, "self.ndim=2"),
    "pad": (lambda: Tensor.ones(2).pad((1, 2, 3)), ValueError, "padding length is improper"),
    "pad mode": (lambda: Tensor.ones(2).pad((1, 1), mode="odd"), OperandError, "mode='odd'"),
    "axis": (lambda: Tensor.ones(2, 3).sum(2), IndexError, r"out of range \[-2, 1\]"),
    "unsqueeze": (lambda: Tensor.ones(2).unsqueeze(3), IndexError, "out of range"),
    "index": (lambda: Tensor.ones(2)[2], IndexError, "index=2 is out of bounds with size=2"),
    "list": (lambda: Tensor.ones(3, 2)[:, [0, -3]], IndexError, "index=-3 is out of bounds with size=2 on axis 1"),
    "nested list": (lambda: Tensor.ones(2)[[[0, 1], [2, 0]]], IndexError, "index=2 is out of bounds"),
    "range": (lambda: Tensor.ones(3, 2)[..., range(3)], IndexError, "index=2 is out of bounds with size=2 on axis 1"),
    "array": (lambda: Tensor.ones(2)[np.array([0, 5])], IndexError, "index=5 is out of bounds"),
    "indices": (lambda: Tensor.ones(2)[0, 0], IndexError, "too many indices"),
    "ellipses": (lambda: Tensor.ones(2)[..., ...], IndexError, "single ellipsis"),
    "bound": (lambda: Tensor.ones(8, 4)[: Variable("n", 1, 16).bind(12)], ShapeError, r"invalid shrink \(0, n\) of an axis of 8: its variables make it 0 to 12 of 8"),
    "bound place": (lambda: Tensor.ones(8, 4)[Variable("n", 1, 16).bind(8)], ShapeError, "make it 8 to 9 of 8"),
    "shapes": (lambda: Tensor.ones(2).expand((), (-1, -1)), ShapeError, "give sizes one by one"),
    "too large": (lambda: Tensor.ones(2**40, 2**40).contiguous().realize(), MemoryError, "Allocation of"),
    "float index": (lambda: Tensor.ones(2)[1.5], IndexError, "float indexing is not supported"),
    "float tensor": (lambda: Tensor.ones(2)[Tensor([1.0])], IndexingError, "indexing is not supp"),
    "dot": (lambda: Tensor.ones(2, 3) @ Tensor.ones(2, 3), RuntimeError, r"cannot dot \(2, 3\) and"),
    "conv": (lambda: Tensor.ones(1, 2, 4, 4).conv2d(Tensor.ones(1, 3, 2, 2)), ShapeError, r"\(1, 2, 4, 4\)"),
    "kernel": (lambda: Tensor.ones(1, 2, 2, 2).conv2d(Tensor.ones(1, 2, 3, 3)), ShapeError, "does not fit"),
    "stack": (lambda: Tensor.stack(Tensor.ones(2), Tensor.ones(3)), AssertionError, "all shapes must match"),
    "cat": (lambda: Tensor.ones(2, 3).cat(Tensor.ones(2, 4)), StackError, r"\(2, 4\)"),
    "place in nothing": (lambda: Tensor.ones(0).argmax(), ShapeError, "none of no elements"),
    "cross entropy": (lambda: Tensor.ones(2, 3).cross_entropy(Tensor([1])), ShapeError, "do not fit"),
    "creation": (lambda: Tensor(object()), RuntimeError, "can't create Tensor from"),
    "text": (lambda: Tensor(["a"]), RuntimeError, "Could not infer dtype of"),
    "ragged": (lambda: Tensor([[1, 2], [3]]), ValueError, "inhomogeneous shape from"),
    "complex": (lambda: Tensor(np.array([1j])), CreationError, "complex"),
    "negative size": (lambda: Tensor.ones(-1), CreationError, "invalid input shape="),
    "rand ints": (lambda: Tensor.rand(2, dtype=dtypes.int32), DTypeError, "rand only supports"),
    "assign dtype": (lambda: Tensor.ones(2).assign(Tensor([1, 2])), AssignError, "assign dtype mismatch"),
    "assign shape": (lambda: Tensor.ones(2).assign(Tensor.ones(3)), ValueError, "cannot broadcast"),
    "replace": (lambda: Tensor.ones(2).replace(Tensor.ones(3)), ContractError, "replace shape mismatch"),
    "assign of None": (lambda: Tensor.ones(2).assign(None), RuntimeError, "assign: None is no value"),
    "setitem of None": (lambda: Tensor.ones(2).__setitem__(0, None), RuntimeError, "setitem: None is no value"),
    "setitem of a complex number": (lambda: Tensor.ones(2).__setitem__(0, 1j), RuntimeError, "can't create Tensor from 1j"),
    "setitem of a complex array": (lambda: Tensor([1, 2]).__setitem__(0, np.array([1j])), RuntimeError, "complex128"),
    "setitem of text": (lambda: Tensor([True, False]).__setitem__(0, ["a"]), RuntimeError, "Could not infer dtype of 'a'"),
    "text as bools": (lambda: Tensor(["a"], dtype="bool"), RuntimeError, "Could not infer dtype of 'a'"),
    "setitem weak": (lambda: Tensor(1.0).expand(2).__setitem__(0, 2), RuntimeError, "cannot write into an expanded view"),
    "delete": (lambda: Tensor.ones(2).__delitem__(0), TypeError, "does not support deleting"),
    "int in place": (lambda: Tensor([1]).__itruediv__(2), AssignError, "dtype mismatch"),
    "split": (lambda: Tensor.ones(5).split([2, 2]), ShapeError, "do not add up"),
    "one_hot": (lambda: Tensor.ones(5).one_hot(2), DTypeError, "integer classes"),
    "gelu": (lambda: Tensor.ones(5).gelu("odd"), OperandError, "approximate='odd'"),
    "einsum": (lambda: Tensor.einsum("ij->k", Tensor.ones(2, 2)), OperandError, "no input"),
    "topk": (lambda: Tensor.ones(2).topk(3), ShapeError, "out of range"),
}
# fmt: on


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    call, kind, text = ERRORS[name]
    with pytest.raises(kind, match=text):
        call()


BOOLS = [
    True, False, np.True_, (slice(None), True), (..., False), (None, True, slice(0, 1)),
    (True, 0), (0, True), (False, 0), (slice(None), 0, True), (0, slice(1, None), True),
    (True, np.array([0, 1, 1])), (np.array([True, False]), True), (False, np.array([0])),
    (True, slice(None), np.array([2, 0])), np.array(True), np.array(False), (True, False),
    (np.array([0, 1]), ..., np.array([2, 0])), (slice(None), np.array([0, 1]), ..., True),
]  # fmt: skip


@pytest.mark.parametrize("index", BOOLS, ids=str)
def test_a_bool_is_an_axis_of_one_or_none(index: object) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = Tensor(values)[index]
    np.testing.assert_array_equal(found.numpy(), values[index])
    assert found.shape == values[index].shape
    written = Tensor(values.copy()).realize()
    written[index] = -1
    expected = values.copy()
    expected[index] = -1
    np.testing.assert_array_equal(written.numpy(), expected)


def test_what_scripts_ask_of_a_shape_and_a_type() -> None:
    assert Tensor.ones(2, 3).max_shape == (2, 3)
    assert Tensor.ones(2, 3).max_numel() == 6
    part = Tensor.ones(4, 3)[: UOp.variable("n", 1, 3)]
    assert part.max_shape == (3, 3)
    assert part.max_numel() == 9
    assert Tensor([1.0]).is_floating_point()
    assert not Tensor([1]).is_floating_point()


def test_to_moves_a_tensor_itself() -> None:
    t = Tensor([1, 2])
    t.grad = Tensor([3, 4])
    assert t.to_("CPU:1") is t
    assert t.device == "CPU:1"
    assert t.grad.device == "CPU:1"
    assert t.tolist() == [1, 2]


def test_operands_and_operations_of_nodes() -> None:
    t = Tensor([1.5, 2.5])
    assert t.ufix(2).dtype is dtypes.float32
    assert t.alu(Ops.MUL, t.ufix(2)).tolist() == [3, 5]
    assert t.const_like(7).tolist() == [7, 7]
    assert t.alu(Ops.CMPLT, t.const_like(2)).tolist() == [True, False]
