"""A file as a device: windows of it are read when they move, and written when they are assigned."""

import os
import pathlib
import struct

import numpy as np
import pytest

from tinylab import Context, GlobalCounters, Tensor, TinyJit, dtypes
from tinylab.errors import AssignError, BufferError, CreationError, DeviceError, JitError
from tinylab.tensor import disk


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "bytes.bin"
    path.write_bytes(bytes(range(64)))
    return path


def test_a_path_becomes_a_tensor_on_its_file(file):
    x = Tensor(file)
    assert (x.shape, x.dtype, x.device) == ((64,), dtypes.uint8, f"DISK:{file}")
    assert Tensor(file, dtype=dtypes.int32).shape == (16,)
    assert x[4:8].device == x.device
    assert x.to(None).device != x.device


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x, lambda x: x[3:9], lambda x: x[60:], lambda x: x.reshape(8, 8)[2],
        lambda x: x.reshape(8, 8)[:, 2], lambda x: x.reshape(8, 8).T, lambda x: x.flip(0),
        lambda x: x.reshape(4, 4, 4)[1:3], lambda x: x.reshape(4, 4, 4)[1, 1:3], lambda x: x + 1,
        lambda x: x[3:11].bitcast(dtypes.uint16), lambda x: x.bitcast(dtypes.float32)[2:4],
        lambda x: x[5:5], lambda x: x.reshape(8, 8)[1:3].bitcast(dtypes.uint32), lambda x: x[7],
        lambda x: (x[:8].cast(dtypes.int32) * x[8:16]).sum(),
    ],
)  # fmt: skip
def test_a_view_of_a_file_is_the_view_of_its_bytes(file, view):
    right = view(Tensor(list(range(64)), dtype=dtypes.uint8))
    found = view(Tensor(file))
    assert found.shape == right.shape
    for values in (found, found.to("CPU"), found.to("PYTHON")):
        assert bytes(values._bytes()) == bytes(right._bytes())


def test_assigned_windows_are_written(tmp_path):
    path = tmp_path / "new.bin"
    x = Tensor.empty(4, device=f"disk:{path}", dtype=dtypes.float32)
    x.assign(Tensor([1.0, 2.0, 3.0, 4.0])).realize()
    assert struct.unpack("<4f", path.read_bytes()) == (1, 2, 3, 4)
    x[1:3].assign([7.0, 8.0])
    assert x.tolist() == [1.0, 7.0, 8.0, 4.0]
    with pytest.raises(AssignError, match="in one piece"):
        x.flip(0).assign([1.0, 2.0, 3.0, 4.0])
    with pytest.raises(AssignError, match="dtype mismatch"):
        x.assign(Tensor([1, 2, 3, 4]))
    x[2:] = Tensor([True, False])  # an index takes any type, as in memory
    assert x.tolist() == [1.0, 7.0, 1.0, 0.0]


@pytest.fixture
def numbers(tmp_path):
    t = Tensor.empty(8, device=f"disk:{tmp_path / 'numbers'}", dtype=dtypes.int32)
    return t.assign(Tensor(list(range(8)), dtype=dtypes.int32))


def test_what_was_built_before_a_write_keeps_the_old_bytes(numbers):
    moved, view, bits = numbers.to("CPU"), numbers[:3], numbers.bitcast(dtypes.uint8)[4:6]
    pending, beside = (numbers[1:3] * 2).to("CPU"), numbers[4:6]
    by_itself = Tensor(pathlib.Path(numbers.device[5:]), dtype=dtypes.int32)
    other = by_itself[:4].to("CPU") + 1
    numbers[1:3] = Tensor([50, 60], dtype=dtypes.int32)
    assert numbers.tolist() == [0, 50, 60, 3, 4, 5, 6, 7] == by_itself.tolist()
    assert (moved.tolist(), view.tolist(), bits.tolist()) == (list(range(8)), [0, 1, 2], [1, 0])
    assert (pending.tolist(), other.tolist()) == ([2, 4], [1, 2, 3, 4])
    beside.assign([7, 8])
    view.assign([-1, -2, -3])
    bits[0:1] = 9
    assert (view.tolist(), bits.tolist(), view.device) == ([-1, -2, -3], [9, 0], numbers.device)
    assert numbers.tolist() == [0, 50, 60, 3, 7, 8, 6, 7]


def test_windows_are_set_as_they_are_assigned(numbers):
    numbers[1:3] = numbers[0:2]
    assert numbers.tolist() == [0, 0, 1, 3, 4, 5, 6, 7]
    numbers[1:3] += 10
    numbers[7] = 9
    numbers[3:3] = 1
    view = numbers.reshape(2, 4)
    view[1, 1:3] = 4
    assert numbers.tolist() == [0, 10, 11, 3, 4, 4, 4, 9] == view.flatten().tolist()
    bits = numbers.bitcast(dtypes.uint8)
    bits[0:1] = 5
    assert (numbers.tolist()[0], bits.tolist()[0]) == (5, 5)
    with pytest.raises(AssignError, match="in one piece"):
        numbers[::2] = 1
    with pytest.raises(AssignError, match="that a tensor picks"):
        numbers[[0, 2]] = 1


def test_a_file_is_not_written_by_a_replay(numbers):
    @TinyJit
    def step(x):
        numbers[:2] = x
        return x + 1

    step(Tensor([1, 2], dtype=dtypes.int32).realize())
    with pytest.raises(JitError, match="a file cannot be written inside a captured function"):
        step(Tensor([3, 4], dtype=dtypes.int32).realize())
    assert numbers.tolist()[:2] == [1, 2]


def test_a_tensor_moves_into_a_file(tmp_path):
    path = tmp_path / "out.bin"
    x = (Tensor([1, 2, 3]) * 2).cast(dtypes.int16).to(f"disk:{path}").realize()
    assert struct.unpack("<3h", path.read_bytes()) == (2, 4, 6)
    assert x.to("CPU").tolist() == [2, 4, 6]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Tensor.zeros(3),
        lambda: Tensor.ones(3) * 2,
        lambda: Tensor.full((3,), 2.0).contiguous(),
        lambda: Tensor.arange(10) * 2,
        lambda: Tensor.eye(3),
        lambda: Tensor([1.0, 2.0]).cat(Tensor.zeros(2)),
    ],
)
def test_what_is_worked_out_of_nothing_moves_into_a_file(tmp_path, make):
    moved = make().to(f"DISK:{tmp_path}/file").realize()
    expected = make().numpy()
    found = np.fromfile(tmp_path / "file", expected.dtype)
    assert found.tolist() == expected.reshape(-1).tolist()
    assert (moved.to(None) + 1).tolist() == (expected + 1).tolist()


def test_a_file_that_may_only_be_read_is_read(file):
    file.chmod(0o400)
    assert Tensor(file)[1:3].tolist() == [1, 2]
    if os.getuid() != 0:
        with pytest.raises(DeviceError, match="only be read"):
            Tensor(file).assign(Tensor(bytes(64)))


def test_what_is_wrong_is_said(tmp_path, file):
    with pytest.raises(FileNotFoundError):
        Tensor(tmp_path / "none")
    file.write_bytes(bytes(3))
    with pytest.raises(CreationError, match="no whole number"):
        Tensor(file, dtype=dtypes.int32)
    with pytest.raises(DeviceError, match="cannot open"):
        Tensor.empty(4, device=f"disk:{tmp_path}/no/folder").assign([1.0] * 4)
    with pytest.raises(DeviceError, match="needs a path"):
        Tensor.empty(4, device="disk").assign([1.0] * 4)
    (tmp_path / "empty").write_bytes(b"")
    assert Tensor(pathlib.Path(tmp_path / "empty")).shape == (0,)


def test_a_tensor_that_is_larger_than_its_file_is_not_read_and_the_file_stays(tmp_path):
    path = tmp_path / "short"
    path.write_bytes(bytes(range(8)))
    longer = Tensor.empty(100, dtype=dtypes.uint8, device=f"DISK:{path}")
    with pytest.raises(DeviceError, match=r"short has 8 bytes, and 100 are to be read") as e:
        longer.to(None).realize()
    assert "the tensor takes 100 bytes" in str(e.value)
    assert path.stat().st_size == 8
    assert longer[2:6].to(None).tolist() == [2, 3, 4, 5]
    with pytest.raises(DeviceError, match="cannot open"):
        Tensor.empty(4, dtype=dtypes.uint8, device=f"DISK:{tmp_path / 'none'}").to(None).realize()
    assert not (tmp_path / "none").exists()


def test_a_file_grows_when_it_is_written_to(tmp_path):
    path = tmp_path / "grows"
    path.write_bytes(bytes(range(4)))
    t = Tensor.empty(8, dtype=dtypes.uint8, device=f"DISK:{path}")
    t[6:7].assign(Tensor([9], dtype=dtypes.uint8))
    assert path.read_bytes() == bytes([0, 1, 2, 3, 0, 0, 9, 0])
    assert t.to(None).tolist() == [0, 1, 2, 3, 0, 0, 9, 0]


def test_a_file_that_may_only_be_read_does_not_grow(tmp_path, monkeypatch):
    path = tmp_path / "sealed"
    path.write_bytes(b"abcd")
    monkeypatch.setattr(os, "access", lambda name, mode: mode != os.W_OK)
    longer = Tensor.empty(8, dtype=dtypes.uint8, device=f"DISK:{path}")
    with pytest.raises(DeviceError, match="may only be read"):
        longer.assign(Tensor.zeros(8, dtype=dtypes.uint8))
    assert path.read_bytes() == b"abcd"


def test_a_limit_of_buffers_is_about_memory_not_about_files(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(struct.pack("1000f", *range(1000)))
    with Context(MAX_BUFFER_SIZE=100):
        x = Tensor(path).bitcast("float32")
        assert x[10:20].to("CPU").tolist() == list(range(10, 20))
        with pytest.raises(BufferError, match="buffer of size 1000 is too large"):
            x.to("CPU").realize()


def test_a_file_that_is_cut_while_it_is_mapped(tmp_path):
    """Its lost pages would end the process; written to, it grows again."""
    file = tmp_path / "x.bin"
    file.write_bytes(bytes(range(256)) * 400)
    x = Tensor(file)
    assert x[:2].tolist() == [0, 1]
    file.open("wb").truncate(0)
    with pytest.raises(DeviceError, match="has 0 bytes, and"):
        x[50_000:50_002].to("CPU").tolist()
    file.write_bytes(b"\7" * 60_000)
    assert x[50_000:50_002].to("CPU").tolist() == [7, 7]
    with pytest.raises(DeviceError, match="has 60000 bytes, and"):
        x[70_000:70_002].to("CPU").tolist()


@pytest.mark.parametrize("most", [256, 2])
def test_boxes_of_a_file_are_copied_row_by_row(tmp_path, monkeypatch, most):
    monkeypatch.setattr(disk, "_MOST_ROWS", most)
    array = np.arange(6 * 5 * 4, dtype=np.int16).reshape(6, 5, 4)
    array.tofile(tmp_path / "box")
    box = Tensor(tmp_path / "box", dtype="int16").reshape(6, 5, 4)
    for index in (
        np.s_[1:3],
        np.s_[2, 1:3],
        np.s_[1:3, :2],
        np.s_[:, 1:2, 1:3],
        np.s_[3:, :, 3],
        np.s_[2:2, :2],
    ):
        np.testing.assert_array_equal(box[index].to("CPU").numpy(), array[index])
        np.testing.assert_array_equal(box.flip(0)[index].to("CPU").numpy(), array[::-1][index])


def test_a_box_of_a_file_larger_than_memory(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(64 << 30)
    large, used = Tensor(path), GlobalCounters.mem_used
    assert large[5:9].to("CPU").tolist() == [0] * 4
    assert large.reshape(64, 1 << 30)[4:6, :2].to("CPU").tolist() == [[0, 0]] * 2
    assert GlobalCounters.mem_used - used < 1 << 20  # the file is looked at where it lies
