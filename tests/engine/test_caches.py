"""Caches have a limit, and what went out of them works on where it is in use."""

from __future__ import annotations

import ctypes
import gc
import pickle
import weakref

import numpy as np
import pytest

import tinylab
from tinylab import Tensor, TinyJit, codegen
from tinylab.codegen.opt import strides
from tinylab.engine import compile as compiling, realize
from tinylab.engine.linear import run_linear
from tinylab.runtime.compilers import llvm
from tinylab.schedule import indexing
from tinylab.schedule.effects import written_slots
from tinylab.uop import intern

_CACHES = (compiling._loaded, compiling._compiled, codegen._programs, realize.schedule_cache)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch):
    """Caches of a few entries, empty at first."""
    for cache in _CACHES:
        cache.clear()
        monkeypatch.setattr(cache, "most", 8)
    yield
    for cache in _CACHES:
        cache.clear()


def _others(count: int = 20) -> None:
    """Kernels that nothing else uses."""
    x = Tensor([1.0, 2.0]).realize()
    for n in range(count):
        (x * (n + 0.123)).realize()


def test_a_loop_of_new_constants_fills_no_cache_beyond_its_limit(small):
    _others(40)
    assert [len(c) for c in _CACHES[:3]] == [8, 8, 8]
    assert realize.schedule_cache.weight() <= 8


def test_a_loop_of_new_constants_leaves_no_nodes_behind(small):
    def known() -> int:
        for memo in (written_slots, strides._strides, indexing.simplified, indexing.source_index):
            memo.cache_clear()
        gc.collect()
        return len(intern.cache)

    _others(10)
    before = known()
    _others(40)
    assert known() <= before


def test_kernels_that_went_are_freed(small):
    x = Tensor([1.0, 2.0]).realize()
    (x * 7.77).realize()
    (program,) = [weakref.ref(p) for p in compiling._loaded.values()]
    _others()
    gc.collect()
    assert program() is None


def test_a_captured_function_keeps_what_it_runs(small):
    @TinyJit
    def step(x: Tensor) -> Tensor:
        return ((x * 3).contiguous() + 1).sum(keepdim=True)

    def result(n: int) -> float:
        return step(Tensor([float(n), 1.0]).realize()).item()

    assert [result(n) for n in range(3)] == [5.0, 8.0, 11.0]
    _others()
    gc.collect()
    assert [result(n) for n in range(3)] == [5.0, 8.0, 11.0]
    saved = pickle.loads(pickle.dumps(step))
    _others()
    assert saved(Tensor([5.0, 1.0]).realize()).item() == 20.0


def test_a_schedule_in_the_hand_runs_after_its_kernels_went(small):
    x = Tensor([1.0, 2.0]).realize()
    y = x * 5 + 0.5
    linear = y.schedule_linear()
    _others()
    run_linear(linear)
    assert y.tolist() == [5.5, 10.5]


def test_a_record_is_whole_after_its_kernels_went(small):
    x = Tensor([1.0, 2.0]).realize()
    with tinylab.record() as record:
        (x * 9.5).realize()
    names = [k.name for k in record.kernels]
    _others()
    gc.collect()
    assert [k.name for k in record.kernels] == names
    assert record.kernels[0].source


def test_what_went_is_made_again(small):
    x = Tensor([1.0, 2.0]).realize()
    for _ in range(3):
        assert (x * 4 + 1).tolist() == [5.0, 9.0]
        _others(10)


def test_machine_code_lives_as_long_as_its_last_user(monkeypatch: pytest.MonkeyPatch):
    """A linker of LLVM's is let go of when it linked so much; its code stays for who has it."""
    monkeypatch.setattr(llvm._Linkers, "most", 2)
    ir = "define i32 @f{n}() {{ ret i32 {n} }}"
    machine = llvm.LLVMCompiler()
    linked = [llvm.Linked(machine.compile(ir.format(n=n)), f"f{n}") for n in range(7)]
    gc.collect()
    call = ctypes.CFUNCTYPE(ctypes.c_int32)
    assert [call(code[f"f{n}"])() for n, code in enumerate(linked)] == list(range(7))
    del linked[1:6]
    gc.collect()
    assert [call(linked[0]["f0"])(), call(linked[1]["f6"])()] == [0, 6]
    np.testing.assert_array_equal((Tensor([1, 2]) + 1).numpy(), [2, 3])
