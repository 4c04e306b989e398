"""The PYTHON device: bounds, workgroups, and a listing that is data."""

import numpy as np
import pytest

from tests.renderer.programs import Program, index, param, run_python, window
from tinylab.device import Buffer, Device, TinyELF
from tinylab.dtype import AddrSpace, dtypes
from tinylab.errors import CompileError, DeviceError
from tinylab.renderer.python import PythonRenderer
from tinylab.runtime.python_code import Code
from tinylab.runtime.python_listing import parse
from tinylab.uop.args import ParamArg
from tinylab.uop.build import shape_to_shape_arg
from tinylab.uop.ops import Ops, UOp

F = dtypes.float32


def special(name: str, size: int) -> UOp:
    return UOp(Ops.SPECIAL, dtypes.int32, (UOp.const(size, dtypes.int32),), name)


def local(size: int) -> UOp:
    arg = ParamArg(0, F, addrspace=AddrSpace.LOCAL)
    return UOp(Ops.BUFFER, F, (shape_to_shape_arg((size,)),), arg)


# *** bounds


@pytest.mark.parametrize("place", [-1, 4, 100])
@pytest.mark.parametrize("kind", ["load", "store"])
def test_scalar_out_of_bounds(kind, place):
    p = Program("touch")
    out = p.add(param(0, 4, F))
    if kind == "load":
        p.store(out.index(index(0)), p.load(out.index(index(place))))
    else:
        p.store(out.index(index(place)), UOp.const(1.0, F))
    with pytest.raises(IndexError, match=rf"{kind} out of bounds: index {place} of data0") as e:
        run_python(p.done(), np.zeros(4, np.float32))
    assert "4 elements" in str(e.value)
    assert "touch" in str(e.value)


@pytest.mark.parametrize(("start", "place"), [(-1, -1), (1, 4), (9, 9)])
@pytest.mark.parametrize("kind", ["load", "store"])
def test_window_out_of_bounds(kind, start, place):
    p = Program()
    out, x = p.add(param(0, 8, F)), p.add(param(1, 4, F))
    if kind == "load":
        p.store(window(out, index(0), 4), p.load(window(x, index(start), 4)))
    else:
        p.store(window(x, index(start), 4), p.load(window(out, index(0), 4)))
    with pytest.raises(IndexError, match=f"{kind} out of bounds: index {place} of data1"):
        run_python(p.done(), np.zeros(8, np.float32), np.zeros(4, np.float32))


def test_gather_out_of_bounds():
    p = Program()
    out, x = p.add(param(0, 2, F)), p.add(param(1, 4, F))
    value = p.load(x.index(p.op(Ops.STACK, index(3), index(7))))
    p.store(window(out, index(0), 2), value)
    with pytest.raises(IndexError, match="index 7 of data1, which has 4"):
        run_python(p.done(), np.zeros(2, np.float32), np.zeros(4, np.float32))


# *** workgroups


def reverse_in_group(barrier: bool) -> list[UOp]:
    """Each item writes its own place of local memory and reads its mirror's."""
    p = Program("mirror")
    out, shared = p.add(param(0, 8, F)), p.add(local(4))
    group, item = p.add(special("gidx0", 2)), p.add(special("lidx0", 4))
    written = p.store(shared.index(item), p.op(Ops.CAST, item, arg=F))
    if barrier:
        written = p.op(Ops.BARRIER, written)
    value = p.load(shared.after(written).index(p.op(Ops.SUB, index(3), item)))
    place = p.op(Ops.ADD, p.op(Ops.MUL, group, index(4)), item)
    p.store(out.index(place), value)
    return p.done()


def test_items_wait_for_each_other_at_a_barrier():
    found = np.zeros(8, np.float32)
    run_python(reverse_in_group(True), found, global_size=(2, 1, 1), local_size=(4, 1, 1))
    assert found.tolist() == [3, 2, 1, 0] * 2


def test_without_a_barrier_items_see_what_is_there():
    """A missing barrier shows: the first items read memory that is not written yet."""
    found = np.zeros(8, np.float32)
    run_python(reverse_in_group(False), found, global_size=(2, 1, 1), local_size=(4, 1, 1))
    assert found.tolist() != [3, 2, 1, 0] * 2


def test_a_barrier_that_not_all_reach():
    p = Program("split")
    out, item = p.add(param(0, 4, F)), p.add(special("lidx0", 4))
    place = p.add(out.index(item))
    branch = p.op(Ops.IF, p.op(Ops.CMPLT, item, index(2)), place)
    p.op(Ops.BARRIER, place)
    p.op(Ops.ENDIF, branch)
    p.store(place, UOp.const(1.0, F))
    with pytest.raises(DeviceError, match="2 of 4 items of a workgroup of split"):
        run_python(p.done(), np.zeros(4, np.float32), local_size=(4, 1, 1))


# *** the listing


def test_listing_reads_like_python():
    text = PythonRenderer().render(reverse_in_group(True))
    assert text.splitlines()[0] == "def mirror(data0: float32[8]):"
    assert "    local0: float32[4] = LOCAL()" in text
    assert "    BARRIER()" in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def k(): __import__('os')", "line 1"),
        ("def k(data0: float32[4]):\n    x: float32 = open(data0)", "line 2"),
        ("def k(data0: float32[4]):\n    x: float32 = LOAD(b)", "b is not defined"),
        ("def k(data0: float32[4]):\n    x: float99 = LOAD(data0)", "float99"),
        ("def k(data0: float32[4]):\n    while True: pass", "line 2"),
        ("def k(data0: float32[4]):\n    x: float32 = ADD('s', 1)", "'s'"),
        ("def k(a: float32[4]): pass", "buffer a is not called"),
        ("x = 1", "not one function"),
        ("def k(:", "cannot be read"),
        ("def k(data0: float32[4]):\n    x: float32 = WMMA(data0)", "WMMA"),
        ("def k(data0: float32[4]):\n    STORE(data0, data0)", "place in memory"),
    ],
)
def test_text_outside_the_language_is_refused(text, words):
    with pytest.raises(CompileError, match=words):
        Code(parse(text))


def test_device_runs_a_listing():
    device = Device["PYTHON"]
    p = Program("double")
    out, x = p.add(param(0, 4, F)), p.add(param(1, 4, F))
    value = p.load(window(x, index(0), 4))
    p.store(window(out, index(0), 4), p.op(Ops.ADD, value, value))
    lib = device.compiler.compile(device.renderer.render(p.done()))
    program = device.runtime(TinyELF(lib, "double", device.renderer.target))
    result, source = (Buffer("PYTHON", 4, F).allocate() for _ in range(2))
    source.copyin(memoryview(np.arange(4, dtype=np.float32)).cast("B"))
    elapsed_s = program(result.get_buf("PYTHON"), source.get_buf("PYTHON"), wait=True)
    assert result.numpy().tolist() == [0, 2, 4, 6]
    assert elapsed_s > 0
