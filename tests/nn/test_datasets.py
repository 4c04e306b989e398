import gzip
import io
import struct
import tarfile

import pytest

from tinylab.errors import FetchError, FileFormatError
from tinylab.nn.datasets import cifar, mnist


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DATASETS", str(tmp_path / "sets"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("tinylab.nn.datasets.cache_dir", str(tmp_path / "cache" / "tinylab"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sets").mkdir()
    return tmp_path / "sets"


def idx(*shape):
    count = 1
    for n in shape:
        count *= n
    head = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)
    return head + bytes(i % 256 for i in range(count))


NAMES = {"train-images-idx3-ubyte": (5, 28, 28), "train-labels-idx1-ubyte": (5,),
         "t10k-images-idx3-ubyte": (2, 28, 28), "t10k-labels-idx1-ubyte": (2,)}  # fmt: skip


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("where", ["", "MNIST/raw"])
def test_digits_come_from_files(folder, packed, where):
    place = folder / where
    place.mkdir(parents=True, exist_ok=True)
    for name, shape in NAMES.items():
        raw = idx(*shape)
        (place / (name + ".gz" * packed)).write_bytes(gzip.compress(raw) if packed else raw)
    images, labels, more, more_labels = mnist()
    assert [t.shape for t in (images, labels, more, more_labels)] == [
        (5, 1, 28, 28), (5,), (2, 1, 28, 28), (2,),
    ]  # fmt: skip
    assert images[0, 0, 1, :3].tolist() == [28, 29, 30]
    assert labels.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(FetchError):
        mnist(fashion=True)


def test_what_is_not_here_is_said(folder):
    for load in (mnist, cifar):
        with pytest.raises(FetchError, match="not on this machine") as caught:
            load()
        assert "DATASETS" in str(caught.value)


def test_a_damaged_file_is_an_error(folder):
    for name, shape in NAMES.items():
        (folder / name).write_bytes(idx(*shape)[:-1])
    with pytest.raises(FileFormatError, match="damaged"):
        mnist()
    (folder / "train-images-idx3-ubyte").write_bytes(b"\x1f\x8bnonsense")
    with pytest.raises(FileFormatError, match="no whole gzip file"):
        mnist()


def test_pictures_come_from_an_archive_or_a_folder(folder):
    batch = b"".join(bytes([label]) + bytes([label * 10] * 3072) for label in (3, 7))
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    (folder / "cifar-10-batches-bin").mkdir()
    with tarfile.open(folder / "packed", "w:gz") as archive:
        for name in names:
            (folder / "cifar-10-batches-bin" / name).write_bytes(batch)
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = len(batch)
            archive.addfile(info, io.BytesIO(batch))
    for _ in range(2):
        images, labels, more, more_labels = cifar()
        assert images.shape == (10, 3, 32, 32)
        assert more.shape == (2, 3, 32, 32)
        assert labels.tolist() == [3, 7] * 5
        assert more_labels.tolist() == [3, 7]
        assert images[1, 2, 31, 31].item() == 70
        (folder / "packed").rename(folder / "cifar-10-binary.tar.gz") if _ == 0 else None
