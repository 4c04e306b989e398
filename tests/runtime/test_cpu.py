import ctypes
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from tests.runtime.kernels import ADD_ONE, COUNT, VALUE
from tinylab.device import Buffer, BufferSpec, Device, TinyELF
from tinylab.dtype import dtypes
from tinylab.runtime.compilers.llvm import LLVMCompiler
from tinylab.runtime.cpu_threads import NativePool, PythonPool, pool


def program(text):
    return Device["CPU"].runtime(TinyELF(LLVMCompiler().compile(text), "k"))


def zeros(size, dtype=dtypes.int64):
    return Buffer("CPU", size, dtype, options=BufferSpec(zero=True)).allocate()


def test_a_kernel_runs_on_its_buffers():
    prg, a, b = program(ADD_ONE), zeros(1, dtypes.float32), zeros(1, dtypes.float32)
    assert prg(a._buf) is None
    seconds = prg(a._buf, wait=True)
    assert 0 < seconds < 1
    prg(b._buf)
    prg(a._buf)
    assert (a.numpy()[0], b.numpy()[0]) == (3, 1)


def test_values_keep_their_places_beside_core_id():
    prg, out = program(VALUE), zeros(1)
    for value in (5, -7, 1 << 40):
        prg(out._buf, vals=(None, value))
        assert out.numpy()[0] == value


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_every_part_runs_once(parts):
    prg, out = program(COUNT), zeros(8)
    for _ in range(500):
        prg(out._buf, global_size=(parts, 1, 1))
    assert out.numpy().tolist() == [500] * parts + [0] * (8 - parts)


def test_parts_of_changing_number_and_pauses():
    import time

    prg, out, wanted = program(COUNT), zeros(8), np.zeros(8, np.int64)
    for i in range(3000):
        parts = 1 + i % 7
        prg(out._buf, global_size=(parts, 1, 1))
        wanted[:parts] += 1
        if i % 500 == 0:
            time.sleep(0.002)  # the workers fall asleep
    assert np.array_equal(out.numpy(), wanted)


def test_several_threads_call_at_once():
    prg = program(COUNT)
    outs = [zeros(4) for _ in range(4)]

    def work(out):
        for _ in range(500):
            prg(out._buf, global_size=(4, 1, 1))

    threads = [threading.Thread(target=work, args=(out,)) for out in outs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(out.numpy().tolist() == [500] * 4 for out in outs)


def test_the_interpreter_runs_while_a_kernel_does():
    from tests.runtime.kernels import kernel

    spin = kernel("br label %loop", ).replace("  ret void\n}", """
loop:
  %i = phi i64 [0, %0], [%j, %loop]
  store volatile i64 %i, ptr %data0
  %j = add i64 %i, 1
  %go = icmp slt i64 %j, 200000000
  br i1 %go, label %loop, label %out
out:
  ret void
}""")  # fmt: skip
    prg, out = program(spin), zeros(1)
    thread = threading.Thread(target=prg, args=(out._buf,))
    thread.start()
    turns = 0
    while thread.is_alive():
        turns += 1
    assert turns > 100


def test_the_callers_processors_are_what_they_were():
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("no processor affinity here")
    before = os.sched_getaffinity(0)
    prg, out = program(COUNT), zeros(8)
    for _ in range(200):
        prg(out._buf, global_size=(2, 1, 1))
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("make", [lambda: PythonPool(2), lambda: NativePool([0, 0, 0])])
def test_pools_by_hand(make):
    if make().__class__ is NativePool and sys.platform != "linux":
        pytest.skip("futexes are Linux'")
    threads, prg, out = make(), program(COUNT), zeros(8)
    pointers = (ctypes.c_uint64 * 1)(out._buf.address)
    for _ in range(200):
        threads.run(prg.address, ctypes.addressof(pointers), 0, 8)
    assert out.numpy().tolist() == [200] * 8
    if isinstance(threads, NativePool):
        threads.close()
        assert not any(t.is_alive() for t in threads._threads)


def test_a_fork_has_a_pool_of_its_own():
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    prg, out = program(COUNT), zeros(8)
    prg(out._buf, global_size=(4, 1, 1))
    parent = pool()
    pid = os.fork()
    if pid == 0:
        prg(out._buf, global_size=(4, 1, 1))
        right = out.numpy().tolist()[:4] == [2] * 4 and pool() is not parent
        os._exit(0 if right else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_the_process_ends_cleanly_with_threads_at_work():
    code = (
        "from tests.runtime.test_cpu import *\n"
        "prg, out = program(COUNT), zeros(8)\n"
        "for _ in range(1000): prg(out._buf, global_size=(2, 1, 1))\n"
        "print('done')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr


def test_many_programs_are_freed():
    import gc

    def maps():
        with open("/proc/self/maps") as f:
            return len(f.readlines())

    if sys.platform != "linux":
        pytest.skip("reads /proc")
    lib = LLVMCompiler().compile(ADD_ONE)
    for _ in range(20):
        Device["CPU"].runtime(TinyELF(lib, "k"))
    gc.collect()
    before = maps()
    for _ in range(200):
        Device["CPU"].runtime(TinyELF(lib, "k"))
    gc.collect()
    assert maps() - before < 50
