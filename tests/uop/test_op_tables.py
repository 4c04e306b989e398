"""A new operation is found missing here in each table that must know it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.oracle import NUMPY
from tinylab.codegen.decompose_ops import decompositions
from tinylab.gradient import GRADIENTS
from tinylab.opcodes import AxisType, axis_colors, axis_letters, axis_to_pos
from tinylab.renderer.llvm_alu import NATIVE
from tinylab.renderer.python import PythonRenderer
from tinylab.uop.bounds import BOUNDS
from tinylab.uop.evaluate import python_alu
from tinylab.uop.infer import DTYPE_TABLE, SHAPE_TABLE
from tinylab.uop.ops import GroupOp, Ops, spec_kernel, spec_program, spec_tensor

# The dtype of these is stated by who makes them.
STATED = {Ops.CUSTOM, Ops.CUSTOMI, Ops.INS}
# Not lowered by these renderers: the devices that have them come later.
NOT_HERE = {Ops.WMMA}
# Only rules and traces hold these.
NO_STAGE = {Ops.PYLITERAL, Ops.REWRITE_ERROR}
# Parts of a PROGRAM or of a schedule; no stage's spec looks inside.
OUTSIDE = {Ops.PROGRAM, Ops.LINEAR, Ops.SOURCE, Ops.BINARY, Ops.GETADDR}
# No gradient: their values are integers or bools, or they only exist in lowered kernels.
NO_GRADIENT = GroupOp.Comparison | {
    Ops.CDIV, Ops.CMOD, Ops.FLOORDIV, Ops.FLOORMOD, Ops.SHL, Ops.SHR, Ops.XOR, Ops.OR, Ops.AND,
    Ops.THREEFRY, Ops.TRUNC, Ops.BITCAST, Ops.NEG, Ops.SUB, Ops.FDIV, Ops.MULACC,
}  # fmt: skip


@pytest.mark.parametrize("op", Ops, ids=lambda op: op.name)
def test_dtype_and_shape(op: Ops) -> None:
    assert op in SHAPE_TABLE, "infer.py: which shape has it?"
    assert op in DTYPE_TABLE or op in STATED, "infer.py: which dtype has it?"


@pytest.mark.parametrize("op", sorted(set(Ops) - NO_STAGE - OUTSIDE), ids=lambda op: op.name)
def test_some_stage_allows_it(op: Ops) -> None:
    known = {
        o for spec in (spec_tensor, spec_kernel, spec_program) for r in spec.rules for o in r.ops
    }
    assert op in known, "spec.py: at which stage is it legal, and how?"


@pytest.mark.parametrize("op", sorted(GroupOp.ALU), ids=lambda op: op.name)
def test_its_value_is_known(op: Ops) -> None:
    assert op in python_alu, "evaluate.py: what is its value?"
    assert op in NUMPY or op is Ops.WHERE, "tests/oracle.py: what is its value?"


@pytest.mark.parametrize("op", sorted(GroupOp.Elementwise - NO_GRADIENT), ids=lambda op: op.name)
def test_its_gradient_is_known(op: Ops) -> None:
    assert op in GRADIENTS, "gradient.py: what is its derivative?"


@pytest.mark.parametrize("op", sorted(GroupOp.ALU - NOT_HERE), ids=lambda op: op.name)
def test_each_renderer_writes_it_or_it_is_decomposed(op: Ops) -> None:
    lowered_apart = {Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.COS, Ops.POW}  # transcendental.py, powers.py
    only_where_native = {Ops.SUB, Ops.NEG, Ops.FDIV, Ops.MULACC, Ops.CMPEQ}
    for native in (NATIVE, PythonRenderer.code_for_op):
        decomposed = {o for rule in decompositions(native).rules for o in rule.ops}
        assert op in native or op in decomposed | lowered_apart | only_where_native


def test_bounds_are_of_real_operations() -> None:
    assert set(BOUNDS) <= set(Ops)


@pytest.mark.parametrize("kind", AxisType)
def test_axis_types(kind: AxisType) -> None:
    assert kind in axis_to_pos
    assert len(axis_letters[kind]) == 1
    assert axis_colors[kind]


def test_each_operation_is_explained() -> None:
    """A comment each: what `opcodes.py` says of an operation is its documentation."""
    source = (Path(__file__).parents[2] / "tinylab" / "opcodes.py").read_text()
    listed = re.findall(r"^    ([A-Z0-9_]+) = enum\.auto\(\)", source, re.M)
    assert set(listed) >= {op.name for op in Ops}


def test_order_of_operations_is_part_of_the_language() -> None:
    """The number of an operation decides the order of lines in a program."""
    assert [op.name for op in Ops][:5] == ["SPECIAL", "BUFFER", "NOOP", "REWRITE_ERROR", "PARAM"]
    assert Ops.CONST < Ops.CUSTOM < Ops.CONTIGUOUS < Ops.PYLITERAL
    assert Ops.PYLITERAL < Ops.COS, "ours come after those of the language"
    assert len(Ops) == 80
