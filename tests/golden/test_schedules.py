"""The schedules of the benchmark models: each kernel's axes and its reason, read in review."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from syrupy.assertion import SnapshotAssertion

import tinylab
from benchmarks.models import MODELS
from tests.golden.snapshots import WholeFile
from tinylab import Context
from tinylab.opcodes import Ops, axis_letters
from tinylab.uop.ops import UOp


class TextExtension(WholeFile):
    file_extension = "txt"


@pytest.fixture
def text(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextExtension)


def axes(body: UOp) -> str:
    """The loops of a kernel: letter and size of each, in order."""
    loops = [u for u in body.toposort() if u.op is Ops.RANGE]
    ordered = sorted(loops, key=lambda u: u.arg[0])
    return " ".join(f"{axis_letters[u.arg[-1]]}{u.src[0].render()}" for u in ordered)


def lines(linear: UOp) -> Iterator[str]:
    yield f"{len(linear.src)} kernels"
    for call in linear.src:
        where = axes(call.src[0]) if call.src[0].op is Ops.SINK else call.src[0].op.name.lower()
        yield f"{where or 'one value'} | {call.arg.aux}"


@pytest.mark.parametrize("name", MODELS)
def test_schedule(text: SnapshotAssertion, name: str):
    with Context(DEV="NULL", TRAINING=1):
        tensors = MODELS[name](tinylab)
        linear, _ = tensors[0].linear_with_vars(*tensors[1:])
    assert "\n".join(lines(linear)) + "\n" == text(name=name)
