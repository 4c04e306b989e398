import pytest

from tests.runtime.kernels import ADD_ONE
from tinylab.device import Buffer, Device, TinyELF
from tinylab.dtype import dtypes
from tinylab.helpers import Context, GlobalCounters


def test_everything_but_a_read():
    buf = Buffer("NULL", 1 << 50, dtypes.float32).allocate()
    buf.view(4, dtypes.float32, 16).allocate()
    small = Buffer("NULL", 4, dtypes.float32, initial_value=bytes(16))
    with pytest.raises(RuntimeError, match="no copyout on NULL"):
        small.numpy()
    with Context(NULL_ALLOW_COPYOUT=1):
        assert small.numpy().tolist() == [0, 0, 0, 0]
    assert GlobalCounters.mem_used_per_device["NULL"] >= 1 << 52
    buf.deallocate()


def test_a_kernel_is_called_and_nothing_happens():
    prg = Device["NULL"].runtime(TinyELF(b"", "k"))
    buf = Buffer("NULL", 4, dtypes.float32).allocate()
    assert prg(buf._buf) is None
    assert prg(buf._buf, global_size=(2, 1, 1), vals=(3,), wait=True) > 0


def test_text_by_default_and_code_on_request():
    with Context(DEV="NULL"):
        assert Device["NULL"].compiler.compile_cached(ADD_ONE) == ADD_ONE.encode()
        assert "ret" in Device["NULL"].compiler.assembly(ADD_ONE)
    with Context(DEV="NULL:LLVM:x86_64,x86-64"):
        assert Device["NULL"].compiler.compile(ADD_ONE)[:4] == b"\x7fELF"
        assert Device["NULL"].compiler.cpu == "x86-64"
