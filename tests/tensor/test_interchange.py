"""Values in and out: what shares memory, what copies, what is refused; each way and back."""

import gc
import gzip
import subprocess
import sys

import numpy as np
import pytest

from tinylab import Context, Tensor, dtypes
from tinylab.errors import ContractError, CreationError, DeviceError, DTypeError
from tinylab.tensor import dlpack

FLOATS = [[1.5, -2.0, 0.0], [3.0, 4.0, 5.0]]
PLAIN = [d for d in dtypes.all if d.fmt is not None and not dtypes.is_weak(d) and d.itemsize]


@pytest.fixture(autouse=True)
def cpu():
    with Context(DEV="CPU"):
        yield


# *** copies and views


def test_numpy_copies_and_data_shares():
    x = Tensor(FLOATS).realize()
    copied, shared = x.numpy(), x.data()
    shared[0, 0] = 9.0
    assert x.tolist()[0][0] == 9.0
    copied[0, 1] = 7.0
    assert x.tolist()[0][1] == -2.0
    assert (shared.shape, shared.format) == ((2, 3), "f")


def test_a_view_keeps_its_memory_alive():
    views = []
    for i in range(20):
        x = (Tensor.ones(1000) * i).realize()
        views.append(x.data())
        del x
    gc.collect()
    others = [(Tensor.ones(1000) * -1 - i).realize() for i in range(20)]  # where memory was free
    assert len(others) == 20
    assert [v[999] for v in views] == list(range(20))


def test_data_of_what_has_no_elements_or_no_single_size():
    assert Tensor.zeros(0, 3).data().nbytes == 0
    scalar = Tensor(3, dtype=dtypes.int).data()
    assert (scalar.shape, scalar[()]) == ((), 3)
    assert Tensor(1.5, dtype=dtypes.half).data().shape == ()
    with pytest.raises(ContractError, match="must have one element"):
        Tensor([1, 2]).item()


@pytest.mark.parametrize("dtype", PLAIN, ids=lambda d: d.name)
def test_every_type_goes_out_and_comes_back(dtype):
    x = Tensor([[0, 1, 1], [1, 0, 1]], dtype=dtype)
    array = x.numpy()
    assert array.dtype == np.dtype(dtype.fmt)
    back = Tensor(array)
    assert back.dtype is dtype
    assert back.tolist() == x.tolist() == array.tolist()


def test_asarray_shares_and_array_copies():
    x = Tensor(FLOATS).realize()
    shared, copied = np.asarray(x), np.array(x)
    shared[1, 2] = 50.0
    assert x.tolist()[1][2] == 50.0
    assert copied[1, 2] == 5.0
    assert np.asarray(x, dtype=np.int32).dtype == np.int32
    with pytest.raises(ValueError, match="cannot share"):
        x.__array__(np.float64, copy=False)
    assert np.asarray(Tensor([1.5], dtype=dtypes.bfloat16)).dtype == np.float32


# *** DLPack

BY_DLPACK = sorted(dlpack._CODES, key=lambda d: d.priority)


@pytest.mark.parametrize("dtype", [d for d in BY_DLPACK if d.fmt is not None], ids=lambda d: d.name)
def test_numpy_sees_the_same_memory_both_ways(dtype):
    x = Tensor([[0, 1, 1], [1, 0, 1]], dtype=dtype).realize()
    array = np.from_dlpack(x)
    assert array.tolist() == x.tolist()
    array[0, 0] = 1
    assert x.tolist()[0][0] == 1
    back = Tensor.from_dlpack(array)
    assert back.dtype is dtype
    array[0, 1] = 0
    assert back.tolist() == x.tolist() == array.tolist()


def test_a_write_reaches_the_other_library():
    array = np.zeros((2, 3), np.float32)
    x = Tensor.from_dlpack(array)
    x += 1
    x[0, 0] = 5
    x.realize()
    assert array.tolist() == [[5, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a, lambda a: a.T, lambda a: a.transpose(2, 0, 1), lambda a: a[1], lambda a: a[:0],
        lambda a: a[..., 0], lambda a: a[:, ::2], lambda a: a[::-1], lambda a: a[1:, 1:, 1:],
        lambda a: a.reshape(-1)[3:17], lambda a: a[:1, :1, :1], lambda a: a[0, 0, 0],
    ],
)  # fmt: skip
def test_arrays_of_every_layout(view):
    array = view(np.arange(24, dtype=np.int64).reshape(2, 3, 4))
    if not isinstance(array, np.ndarray):
        array = np.array(array)
    found = Tensor.from_dlpack(array)
    assert found.shape == array.shape
    assert found.tolist() == array.tolist()


def test_pytorch_sees_the_same_memory_both_ways():
    torch = pytest.importorskip("torch")
    x = Tensor(FLOATS).realize()
    theirs = torch.from_dlpack(x)
    theirs[1, 1] = -7
    assert x.tolist()[1][1] == -7
    half = torch.tensor([1.5, 2.0], dtype=torch.bfloat16)
    ours = Tensor.from_dlpack(half)
    half[0] = 3.0
    assert ours.dtype is dtypes.bfloat16
    assert ours.float().tolist() == [3.0, 2.0]
    assert torch.from_dlpack(ours).tolist() == [3.0, 2.0]
    turned = Tensor.from_dlpack(torch.arange(6.0).view(2, 3).T)
    assert turned.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    with pytest.raises(DTypeError):
        Tensor.from_dlpack(torch.zeros(2, dtype=torch.complex64))


def test_memory_is_given_up_when_both_are_done():
    before = len(dlpack._given)
    x = Tensor(FLOATS).realize()
    array = np.from_dlpack(x)
    capsule = x.__dlpack__()
    assert len(dlpack._given) == before + 2
    del capsule
    dlpack.give_up_unwanted()
    assert len(dlpack._given) == before + 1
    x = None
    gc.collect()
    assert array.tolist() == FLOATS
    del array
    gc.collect()
    assert len(dlpack._given) == before
    owner = np.arange(5.0)
    seen = Tensor.from_dlpack(owner)
    count = sys.getrefcount(owner)
    del seen
    gc.collect()
    assert sys.getrefcount(owner) < count


def test_what_cannot_be_shared_is_refused():
    with pytest.raises(CreationError, match="does not speak DLPack"):
        Tensor.from_dlpack([1, 2])
    used = Tensor([1.0]).__dlpack__()
    Tensor.from_dlpack(used)
    with pytest.raises(CreationError):
        Tensor.from_dlpack(used)
    with pytest.raises(BufferError):
        Tensor([1.0]).__dlpack__(dl_device=(2, 0))

    class Elsewhere:
        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(DeviceError, match="move it to the CPU"):
        Tensor.from_dlpack(Elsewhere())
    with Context(DEV="PYTHON"):
        x = Tensor([1.0, 2.0]).realize()
        assert np.from_dlpack(x).tolist() == [1.0, 2.0]


def test_a_copy_is_one_when_it_is_asked_for():
    x = Tensor(FLOATS).realize()
    copied = np.from_dlpack(x, copy=True)
    copied[0, 0] = 99
    assert x.tolist() == FLOATS


# *** memory, files, addresses


def test_a_tensor_over_an_address():
    array = np.arange(6, dtype=np.int32)
    x = Tensor.from_blob(array.ctypes.data, (2, 3), dtype=dtypes.int32)
    array[0] = 10
    assert x.tolist() == [[10, 1, 2], [3, 4, 5]]
    assert x.device == "CPU"
    with pytest.raises(CreationError):
        Tensor.from_blob(array.ctypes.data + 1, (2,), dtype=dtypes.int32)
    with pytest.raises(CreationError):
        Tensor.from_blob(0, (2,))
    with pytest.raises(DeviceError):
        Tensor.from_blob(array.ctypes.data, (2,), device="PYTHON")


def test_a_file_by_its_address(tmp_path, monkeypatch):
    monkeypatch.setattr("tinylab.helpers.cache.cache_dir", str(tmp_path))
    (tmp_path / "x.bin").write_bytes(b"abc")
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"packed"))
    assert bytes(Tensor.from_url((tmp_path / "x.bin").as_uri()).data()) == b"abc"
    assert bytes(Tensor.from_url((tmp_path / "x.gz").as_uri(), gunzip=True).data()) == b"packed"


def test_arrays_in_every_order_and_byte_order():
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for array in (
        base.T,
        base[:, ::-2],
        base.astype(">f4"),
        np.asfortranarray(base),
        base[0, 0, 0],
    ):
        assert Tensor(array).tolist() == array.tolist()
    with pytest.raises(CreationError, match="complex"):
        Tensor(np.zeros(2, complex))


def test_what_may_only_be_read_is_copied() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    x = Tensor.from_dlpack(array)
    x.assign(x + 1).realize()
    assert (x.tolist(), array.tolist()) == ([1, 2, 3], [0, 1, 2])


def test_backward_and_with_gaps_it_is_copied() -> None:
    array = np.arange(12.0).reshape(3, 4)
    for part in (array[::-1], array[:, ::2], array[1:, ::-3], array[:0]):
        assert Tensor.from_dlpack(part).tolist() == part.tolist()
    turned = Tensor.from_dlpack(array.T)
    array[0, 1] = 50
    assert turned[1, 0].item() == 50


def test_the_takers_error_is_not_lost() -> None:
    x = Tensor([1.5], dtype=dtypes.bfloat16)
    with pytest.raises(RuntimeError, match="dtype"):
        np.from_dlpack(x)
    before = len(dlpack._given)
    dlpack.give_up_unwanted()
    assert len(dlpack._given) == before - 1


def test_types_that_numpy_lacks_come_from_torch() -> None:
    torch = pytest.importorskip("torch")
    source = torch.arange(6).view(2, 3).T.to(torch.bfloat16)
    x = Tensor(source)
    assert (x.dtype, x.tolist()) == (dtypes.bfloat16, source.tolist())
    source[0, 0] = 9
    assert x[0, 0].item() == 0


ENDINGS = {
    "an array that outlives its tensor": "array = np.from_dlpack(Tensor([1.0, 2.0]).realize())",
    "a tensor that outlives its array": "x = Tensor.from_dlpack(np.arange(3.0))",
    "a capsule that nobody takes": "capsule = Tensor([1.0]).__dlpack__(max_version=(1, 0))",
    "a module's attribute": "np.kept = np.from_dlpack(Tensor([1.0]) + 1); np.shared = np.kept[:]",
    "a view of the memory": "view = Tensor([1.0, 2.0]).data(); array = np.asarray(view)",
    "a circle": "array = np.from_dlpack(Tensor([1.0])); ring = [array]; ring.append(ring)",
    "both ways": "x = Tensor.from_dlpack(np.from_dlpack(Tensor.from_dlpack(np.arange(3.0))))",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_interpreter_ends_quietly(ending: str) -> None:
    """Whatever is still held when the process ends, nothing is printed and nothing crashes."""
    code = f"import numpy as np; from tinylab import Tensor; {ENDINGS[ending]}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_shared_memory_outlives_the_tensor() -> None:
    x = Tensor(FLOATS).realize()
    array, view = np.from_dlpack(x), x.data()
    del x
    gc.collect()
    others = [Tensor([9.0] * len(FLOATS)).realize() for _ in range(20)]
    assert (array.tolist(), view.tolist(), len(others)) == (FLOATS, FLOATS, 20)


def test_data_shares_and_numpy_copies() -> None:
    x = Tensor([1.0, 2.0]).realize()
    copied, shared = x.numpy(), x.data()
    shared[0] = 5.0
    copied[1] = 7.0
    assert x.tolist() == [5.0, 2.0]
