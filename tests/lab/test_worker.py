import dataclasses
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from tests.runtime.kernels import ADD_ONE, COUNT, VALUE, kernel, load_at, store_at
from tinylab.lab import worker as worker_module
from tinylab.lab.worker import Job, Outcome, Slot, Worker
from tinylab.runtime.compilers.llvm import LLVMCompiler
from tinylab.runtime.isolated.memory import Fault, explain, plan

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="workers need fork")

FOREVER = kernel("br label %loop").replace(
    "  ret void\n}", "loop:\n  store volatile i32 1, ptr %data0\n  br label %loop\n}"
)


@pytest.fixture(scope="module")
def worker():
    made = Worker()
    yield made
    made.close()


def out(size=64, data=None):
    return [Slot("data0", size, data, output=True)]


def run(worker, text, buffers=None, limit_s=5.0, budget_s=0.0, **more):
    return worker.run(Job("k", text, buffers or out(), **more), limit_s, budget_s)


def test_outputs_are_those_of_the_first_run(worker):
    done = worker.run(Job("k", ADD_ONE, out(4, np.float32([41]).tobytes())), budget_s=0.02)
    assert (done.status, done.message) == ("ok", "")
    assert np.frombuffer(done.outputs[0], np.float32) == [42]
    assert len(done.samples_ns) >= 5
    assert 0 < done.p10_us <= done.median_us <= done.p90_us
    assert done.first_ns > 0


def test_objects_values_and_parts(worker):
    code = LLVMCompiler().compile(COUNT)
    done = run(worker, code, out(64), parts=4)
    assert np.frombuffer(done.outputs[0], np.int64).tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    done = run(worker, VALUE, out(8), vals=(None, -9))
    assert np.frombuffer(done.outputs[0], np.int64) == [-9]


def test_assembly_is_sent_along(worker):
    assert "ret" in run(worker, ADD_ONE, assembly=True).assembly


def test_the_clock_may_be_declined(worker):
    seen = []
    done = worker.run(Job("k", ADD_ONE, out()), accept=lambda o: bool(seen.append(o.ok)))
    assert seen == [True]
    assert done.ok
    assert done.samples_ns == []


ZEROS = ("<16 x float>", "zeroinitializer")
DEEP = """define void @deep(ptr %p) noinline {
  %a = alloca [100 x i64]
  store volatile ptr %p, ptr %a
  call void @deep(ptr %a)
  %v = load volatile i64, ptr %a
  ret void
}"""
# name: (text, size of data0, what is said)
CRASHES = {
    "a store past the end": (
        store_at(64),
        64,
        r"stored to data0 at byte 64, just past its end \(it has 64 bytes\)",
    ),
    "a load past the end": (load_at(64), 64, "loaded from data0 at byte 64, just past its end"),
    "a vector past the end": (store_at(64, *ZEROS), 64, "stored to data0 at byte 64, just past"),
    "half a vector past the end": (
        store_at(4064, *ZEROS),
        4096,
        "stored to data0 at byte 4096, just past",
    ),
    "far past the end": (
        load_at(1 << 20),
        64,
        "loaded from data0 at byte 1048576, 1048512 bytes past",
    ),
    "before the start": (store_at(-5000), 64, "stored to data0 at byte -5000, before its start"),
    "no buffer at all": (
        kernel("store volatile i32 1, ptr inttoptr (i64 4096 to ptr)"),
        64,
        "address 0x1000, where there is no",
    ),
    "null": (kernel("store volatile i32 1, ptr null"), 64, "stored to address 0x0"),
    "a misaligned vector": (
        kernel(
            "%at = getelementptr i8, ptr %data0, i64 4",
            "%v = load volatile <16 x float>, ptr %at, align 64",
        ),
        128,
        "misaligned",
    ),
    "division by zero": (
        kernel(
            "%v = load volatile i32, ptr %data0", "%w = sdiv i32 7, %v", "store i32 %w, ptr %data0"
        ),
        64,
        "divided an integer by zero",
    ),
    "no such instruction": (
        "declare void @llvm.trap()\n" + kernel("call void @llvm.trap()"),
        64,
        "an instruction that this processor does not have",
    ),
    "endless recursion": (kernel("call void @deep(ptr %data0)") + DEEP, 64, "out of stack"),
}


@pytest.mark.skipif(sys.platform != "linux", reason="the fault handler reads Linux' records")
@pytest.mark.parametrize("case", CRASHES)
def test_a_crash_is_a_sentence(worker, case):
    text, size, message = CRASHES[case]
    done = run(worker, text, out(size))
    assert done.status == "crashed", done
    assert re.search(message, done.message), done.message
    assert run(worker, ADD_ONE).ok


def test_a_crash_in_a_thread_of_the_pool(worker):
    text = kernel(
        "%row = mul i64 %core_id, 1048576",
        "%at = getelementptr i8, ptr %data0, i64 %row",
        "store i32 1, ptr %at",
    )
    done = run(worker, text, out(64), parts=4)
    assert (done.status, "stored to data0" in done.message) == ("crashed", True)


@pytest.mark.parametrize(("offset", "size"), [(100, 100), (-8, 64), (97, 97)])
def test_a_store_into_the_padding_is_seen(worker, offset, size):
    done = run(worker, store_at(offset), out(size))
    assert done.status == "wrong"
    assert f"stored to data0 at byte {offset}" in done.message


def test_an_input_must_stay_as_it_was(worker):
    done = run(worker, store_at(0), [Slot("data0", 64, b"\1" * 64)])
    assert (done.status, done.message) == ("wrong", "it stored to data0, which is an input")
    assert run(worker, load_at(0), [Slot("data0", 64, b"\1" * 64)]).ok


def test_an_endless_loop_ends_at_the_limit(worker):
    start = time.monotonic()
    done = run(worker, FOREVER, limit_s=0.5)
    assert (done.status, done.message) == ("timeout", "it did not finish within 0.5 s")
    assert time.monotonic() - start < 5
    assert run(worker, ADD_ONE).ok


def test_stop_ends_it_at_once(worker):
    threading.Timer(0.2, worker.stop).start()
    assert run(worker, FOREVER, limit_s=60).status == "stopped"
    assert run(worker, ADD_ONE).ok


def test_stop_is_heard_while_the_process_is_made(monkeypatch):
    fresh, nursery = Worker(), worker_module._nursery()

    class Slow:
        def fork(self):
            fresh.stop()
            return nursery.fork()

    monkeypatch.setattr(worker_module, "_nursery", Slow)
    assert run(fresh, FOREVER, limit_s=60).status == "stopped"
    assert run(fresh, ADD_ONE).ok
    fresh.close()


def test_an_interrupt_is_passed_on_and_the_worker_lives(worker):
    ended = threading.Event()

    def press() -> None:
        # Python drops an interrupt that falls into some object's destructor: then press again.
        while not ended.wait(0.3 if not pressed else 10):
            pressed.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    pressed: list[bool] = []
    # Whoever starts the tests in the background has them ignore interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=press, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run(worker, FOREVER, limit_s=60)
    finally:
        ended.set()
        signal.signal(signal.SIGINT, before)
    assert run(worker, ADD_ONE).ok


CALLS_SYSTEM = "declare void @system(ptr)\n" + kernel("call void @system(ptr %data0)")
GAVE_UP = "the compiler gave up: .*bogus"
REFUSED = {
    "a mistake in the text": (kernel("%v = bogus"), "line 3: .*: %v = bogus"),
    "what is not defined": (CALLS_SYSTEM, "calls system, which"),
    "another name": (ADD_ONE.replace("@k", "@other"), "cannot be linked"),
    "wrong inline assembly": (kernel('call void asm sideeffect "bogus", ""()'), GAVE_UP),
    "wrong module assembly": ('module asm "bogus"\n' + ADD_ONE, GAVE_UP),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_compiled_is_refused(worker, case):
    text, message = REFUSED[case]
    done = run(worker, text)
    assert done.status == "refused", done
    assert re.search(message, done.message), done.message
    assert run(worker, ADD_ONE).ok


def test_an_object_with_an_unknown_symbol_is_refused(worker):
    compiler = LLVMCompiler()
    done = run(worker, compiler.machine.emit_object(compiler.optimized(CALLS_SYSTEM)))
    assert (done.status, "calls system" in done.message) == ("refused", True)


def test_right_inline_assembly_runs(worker):
    assert run(worker, kernel('call void asm sideeffect "nop", ""()')).ok


def test_threads_share_a_worker(worker):
    found = []

    def work(n):
        data = np.float32([n])
        found.append(
            np.frombuffer(run(worker, ADD_ONE, out(4, data.tobytes())).outputs[0], np.float32)[0]
        )

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(found) == [n + 1 for n in range(8)]


def test_a_worker_survives_the_loss_of_its_processes():
    worker = Worker()
    assert run(worker, ADD_ONE).ok
    os.kill(worker._child.pid, signal.SIGKILL)
    assert run(worker, ADD_ONE).status == "crashed"
    assert run(worker, ADD_ONE).ok
    worker._child.nursery.process.kill()
    worker._child.nursery.process.wait()
    time.sleep(0.1)
    run(worker, ADD_ONE)
    assert run(worker, ADD_ONE).ok


def test_nothing_is_left_when_the_parent_is_killed():
    code = (
        "from tests.lab.test_worker import *\n"
        "w = Worker(); run(w, ADD_ONE)\n"
        "print(w._child.pid, w._child.nursery.process.pid, flush=True)\n"
        "run(w, FOREVER, limit_s=100)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    time.sleep(0.3)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 5
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(alive(pid) for pid in pids)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().split(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_script_without_a_main_guard_runs_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "print('top')\nfrom tests.lab.test_worker import *\nprint(run(Worker(), ADD_ONE).status)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60,
        env=os.environ | {"PYTHONPATH": os.getcwd()},
    )  # fmt: skip
    assert done.stdout.split() == ["top", "ok"], done.stderr


def test_places_and_meanings():
    (a, b), size = plan([("a", 100), ("b", 4096)])
    assert (a.data % 64, (a.start + a.pages_bytes - a.end) < 64) == (0, True)
    assert (b.data, b.end) == (b.start, size)
    fault = Fault(11, 2, 0x10000 + 4096, 0, 0, 6)
    assert "stored to b at byte 4096" in explain(fault, [a, b], [0x1 << 40, 0x10000])
    unknown = fault._replace(error=1 << 63)
    assert "touched b" in explain(unknown, [a, b], [0x1 << 40, 0x10000])


def test_a_process_that_is_lost_is_replaced_once(worker, monkeypatch):
    # It goes away by itself, without a fault: no kernel can do that.
    assert run(worker, ADD_ONE).ok  # a process that lives, whatever was done to it before
    seen, once = [], worker._once

    def lose_the_first(*args):
        seen.append(args)
        return Outcome("lost", "its process ended") if len(seen) == 1 else once(*args)

    monkeypatch.setattr(worker, "_once", lose_the_first)
    assert run(worker, ADD_ONE).ok
    assert len(seen) == 2


def test_a_process_that_is_lost_again_is_a_crash(worker, monkeypatch):
    monkeypatch.setattr(worker, "_once", lambda *args: Outcome("lost", "its process ended"))
    assert run(worker, ADD_ONE).status == "crashed"


LISTING_CELL = """from tinygrad import Tensor
Tensor([1.0, 2.0, 3.0]).exp2().realize()"""


def test_a_listing_that_leaves_its_buffers_is_told(worker):
    from tinylab.lab.bench import job_of
    from tinylab.lab.cells import run_cell

    kernel = run_cell(LISTING_CELL, {}, device="PYTHON").record.kernels[-1]
    job = job_of(kernel, {0: bytes(12), 1: np.float32([1, 2, 3]).tobytes()})
    done = worker.run(job, budget_s=0.001)
    assert (done.status, done.message) == ("ok", "")
    assert np.frombuffer(done.outputs[0], np.float32).tolist() == [2.0, 4.0, 8.0]
    short = dataclasses.replace(job, buffers=[*job.buffers[:1], Slot("data1", 8, bytes(8))])
    done = worker.run(short)
    assert done.status == "crashed"
    assert done.message == "IndexError: index out of bounds on dimension 1"
    assert worker.run(job).ok
    wrong = worker.run(dataclasses.replace(job, code="no such line"))
    assert wrong.status == "refused"
    assert wrong.message


def test_a_run_longer_than_its_budget_is_one_sample(worker):
    done = worker.run(Job("k", ADD_ONE, out()), budget_s=1e-9)
    assert len(done.samples_ns) == 1


def test_workers_that_end_as_soon_as_they_begin_are_told(monkeypatch):
    def gone(self):
        raise worker_module.Closed("Broken pipe")

    monkeypatch.setattr(worker_module._Nursery, "fork", gone)
    with pytest.raises(worker_module.WorkerError, match="end as soon as they begin") as caught:
        run(Worker(), ADD_ONE)
    assert "run it again" in caught.value.help
