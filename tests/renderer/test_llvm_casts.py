"""Every cast and bitcast between all types: this CPU and a generic one, scalars and vectors."""

import random
import struct

import numpy as np
import pytest

from tests.renderer.programs import (
    ARCHES,
    TYPES,
    Program,
    converted,
    edges,
    from_array,
    index,
    numpy_type,
    param,
    run_llvm,
    run_python,
    same,
    to_array,
    window,
)
from tinylab.dtype import DType, dtypes
from tinylab.uop.ops import Ops, UOp


def samples(dtype: DType, count: int) -> list:
    """Edge values, then random bits."""
    found = edges(dtype)
    rng = random.Random(dtype.name)
    while len(found) % 64 or len(found) < count:
        raw = np.frombuffer(
            rng.randbytes(dtype.itemsize),
            numpy_type(dtype) if dtype is not dtypes.bool else np.uint8,
        )
        found.append(bool(raw[0] & 1) if dtype is dtypes.bool else from_array(raw, dtype)[0])
    return found


def cast_all(old: DType, values: list, lanes: int, op: Ops = Ops.CAST, targets=TYPES) -> list[UOp]:
    """One program that converts an array to every type."""
    p = Program()
    source = p.add(param(0, len(values), old))
    outputs = [p.add(param(i + 1, len(values), new)) for i, new in enumerate(targets)]
    loop = p.loop(len(values) // lanes)
    at = p.op(Ops.MUL, loop, index(lanes))
    place = (lambda b: window(b, at, lanes)) if lanes > 1 else (lambda b: b.index(at))
    x = p.load(place(source))
    stores = [
        p.store(place(out), x if new is old else p.op(op, x, arg=new))
        for out, new in zip(outputs, targets, strict=True)
    ]
    p.end(p.op(Ops.GROUP, *stores), loop)
    return p.done()


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("old", TYPES, ids=lambda d: d.name)
def test_cast(old, lanes, arch):
    values = samples(old, 256)
    arrays = [to_array(values, old)] + [np.zeros(len(values), numpy_type(new)) for new in TYPES]
    run_llvm(cast_all(old, values, lanes), *arrays, arch=arch)
    check(old, values, arrays)


@pytest.mark.parametrize("old", TYPES, ids=lambda d: d.name)
def test_cast_on_python(old):
    values = samples(old, 256)
    arrays = [to_array(values, old)] + [np.zeros(len(values), numpy_type(new)) for new in TYPES]
    run_python(cast_all(old, values, 4), *arrays)
    check(old, values, arrays)


def check(old, values, arrays):
    for new, array in zip(TYPES, arrays[1:], strict=True):
        for value, found in zip(values, from_array(array, new), strict=True):
            wanted = converted(value, new)
            assert same(found, wanted), (
                f"{old.name} {value!r} -> {new.name}: {found!r}, not {wanted!r}"
            )


@pytest.mark.parametrize("arch", [*ARCHES, pytest.param(None, id="python")])
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("old", [t for t in TYPES if t is not dtypes.bool], ids=lambda d: d.name)
def test_bitcast_of_equal_size(old, lanes, arch):
    targets = [t for t in TYPES if t.itemsize == old.itemsize and t is not dtypes.bool]
    values = samples(old, 64)
    source = to_array(values, old)
    arrays = [source] + [np.zeros(len(values), numpy_type(new)) for new in targets]
    lines = cast_all(old, values, lanes, Ops.BITCAST, targets)
    if arch is None:
        run_python(lines, *arrays)
    else:
        run_llvm(lines, *arrays, arch=arch)
    for new, array in zip(targets, arrays[1:], strict=True):
        # Bits of a NaN beyond its being one are not promised.
        before, after = source.view(numpy_type(new)), array
        for value, a, b in zip(values, before, after, strict=True):
            number = from_array(np.array([a]), new)[0]
            if value == value and number == number:
                assert a == b, f"{value!r} as {new.name}"


@pytest.mark.parametrize("arch", [*ARCHES, pytest.param(None, id="python")])
def test_bitcast_rescales_the_last_axis(arch):
    p = Program()
    out, source = p.add(param(0, 8, dtypes.uint16)), p.add(param(1, 4, dtypes.float32))
    x = p.load(window(source, index(0), 4))
    bits = p.op(Ops.BITCAST, x, arg=dtypes.uint16)
    assert bits.shape == (8,)
    p.store(window(out, index(0), 8), bits)
    values = np.array([1.5, -2.0, 3e10, 0.1], np.float32)
    found = np.zeros(8, np.uint16)
    if arch is None:
        run_python(p.done(), found, values)
    else:
        run_llvm(p.done(), found, values, arch=arch)
    assert found.tolist() == list(struct.unpack("<8H", values.tobytes()))
