"""What each pass does to a kernel, as whole files: the graph before and after, read in review."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from tests.codegen.kernels import (
    arange,
    convolution,
    elementwise,
    gather,
    matmul,
    pad,
    reshaped,
    row_reduce,
    softmax,
    two_sums,
)
from tests.golden.listing import listing
from tinylab.codegen import PASSES, line_rewrite
from tinylab.codegen.opt import Opt, OptOps
from tinylab.dtype import dtypes
from tinylab.helpers.context import Context
from tinylab.opcodes import Ops
from tinylab.renderer import Renderer
from tinylab.renderer.llvmir import LLVMRenderer
from tinylab.renderer.python import PythonRenderer
from tinylab.uop.ops import UOp

TARGET = "CPU:LLVM:x86_64,x86-64-v3"


class TextExtension(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "txt"


@pytest.fixture
def text(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextExtension)


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    with Context(NUM_CPU_THREADS=2):
        yield


def tuned(kernel: UOp, *opts: Opt) -> UOp:
    return kernel.replace(arg=kernel.arg._replace(opts_to_apply=opts))


UPCAST, UNROLL, THREAD, PADTO = OptOps.UPCAST, OptOps.UNROLL, OptOps.THREAD, OptOps.PADTO
CASES: dict[str, UOp] = {
    "split_ranges": reshaped(6, 8),
    "merge_ranges": row_reduce(Ops.ADD, 4, 8),
    "collapse_loads": gather(),
    "opts": tuned(matmul(8, 16, 4), Opt(UPCAST, 1, 8), Opt(THREAD, 0, 2)),
    "expand_lanes": tuned(matmul(4, 8, 8), Opt(UPCAST, 1, 4), Opt(UNROLL, 0, 2)),
    "lower_reduce": tuned(row_reduce(Ops.ADD, 4, 32), Opt(UNROLL, 0, 8)),
    "share_loops": tuned(two_sums()),
    "gpu_dims": tuned(elementwise(4, 8), Opt(THREAD, 0, 2)),
    "coalesce": tuned(pad(10, 3, 3), Opt(UPCAST, 0, 8)),
    "gate_memory": tuned(pad(10, 3, 3)),
    "index_dtype": tuned(arange()),
    "exact_exp": tuned(softmax(2, 4)),
    "transcendental": tuned(softmax(2, 4)),
    "decompose_ops": tuned(convolution(1, 4, 3)),
    "word_pairs": tuned(row_reduce(Ops.ADD, 4, 8, dtypes.int64), Opt(UPCAST, 0, 4)),
    "narrow_ints": tuned(row_reduce(Ops.MUL, 4, 8, dtypes.int16), Opt(UPCAST, 0, 4)),
}
EMULATED = {"word_pairs": "long", "narrow_ints": "short,ushort"}


@pytest.mark.parametrize("name", list(CASES))
def test_pass(name: str, text: SnapshotAssertion) -> None:
    # The one for targets that have 2**x.
    ren: Renderer = PythonRenderer() if name == "exact_exp" else LLVMRenderer(TARGET)
    graph = CASES[name]
    with Context(EMULATED_DTYPES=EMULATED.get(name, "")):
        for one in PASSES:
            before, graph = graph, one(graph, ren)
            if one.name == name:
                break
        else:
            pytest.fail(f"no pass is called {name}")
    assert f"before\n{listing(before)}\nafter\n{listing(graph)}" == text


@pytest.mark.parametrize("name", ["opts", "lower_reduce", "coalesce"])
def test_lines(name: str, text: SnapshotAssertion) -> None:
    """The order of the program's lines: loops opened and closed, what is invariant outside."""
    graph, ren = CASES[name], LLVMRenderer(TARGET)
    for one in PASSES:
        graph = one(graph, ren)
    lines = line_rewrite(graph, ren).src
    depth, found = 0, []
    for u in lines:
        depth -= len(u.src) - 1 if u.op is Ops.END else 0
        if u.op is not Ops.CONST:
            found.append("  " * depth + f"{u.op.name} {u.dtype.name} {list(u._shape or ())}")
        depth += u.op is Ops.RANGE
    assert "\n".join(found) + "\n" == text
