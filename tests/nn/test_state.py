"""State dicts, and files of them: safetensors, PyTorch's, archives; damaged ones, hostile ones."""

import io
import json
import os
import pathlib
import struct
import tarfile
import zipfile

import numpy as np
import pytest

from tinylab import Tensor, dtypes, nn
from tinylab.errors import DeviceError, FileFormatError, OperandError, ShapeError
from tinylab.nn.state import (
    TensorIO,
    fs_load,
    fs_store,
    get_parameters,
    get_state_dict,
    inverse_safe_dtypes,
    load_state_dict,
    safe_load,
    safe_load_metadata,
    safe_save,
    tar_extract,
    torch_load,
    zip_extract,
)

# *** names


class Net:
    def __init__(self):
        self.layers = [nn.Linear(3, 4), Tensor.relu, nn.Linear(4, 2, bias=False)]
        self.named = {"a": nn.LayerNorm(2)}


NAMES = ["layers.0.weight", "layers.0.bias", "layers.2.weight", "named.a.weight", "named.a.bias"]


def test_tensors_are_named_by_their_path():
    assert list(get_state_dict(Net())) == NAMES
    assert len(get_parameters(Net())) == 5


def test_a_state_goes_from_one_model_into_another():
    one, other = Net(), Net()
    load_state_dict(other, get_state_dict(one), verbose=False)
    for a, b in zip(get_parameters(one), get_parameters(other), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert a.uop is not b.uop


def test_what_does_not_fit_is_said():
    state = get_state_dict(Net())
    short = {k: v for k, v in state.items() if k != "layers.0.bias"}
    with pytest.raises(OperandError, match=r"layers\.0\.bias"):
        load_state_dict(Net(), short)
    load_state_dict(Net(), short, strict=False)
    with pytest.raises(OperandError, match=r"is a ndarray, not a tensor") as caught:
        load_state_dict(Net(), {**state, "layers.0.bias": np.zeros(4)})
    assert "Tensor(state_dict['layers.0.bias'])" in str(caught.value)
    with pytest.raises(ShapeError, match="shape mismatch"):
        load_state_dict(Net(), {**state, "layers.0.bias": Tensor.zeros(5)})
    with pytest.warns(UserWarning, match="unused"):
        load_state_dict(Net(), {**state, "more": Tensor.zeros(5)})


# *** safetensors

VALUES = {
    dtypes.bool: [True, False, True], dtypes.uint8: [0, 7, 255], dtypes.int8: [-128, 0, 127],
    dtypes.int16: [-5, 0, 5], dtypes.uint16: [0, 1, 65535], dtypes.int32: [-5, 0, 5],
    dtypes.uint32: [0, 1, 2**32 - 1], dtypes.int64: [-(2**60), 0, 5],
    dtypes.uint64: [0, 1, 2**64 - 1], dtypes.float16: [0.5, -2.0, 6e-8],
    dtypes.bfloat16: [0.5, -2.0, 1e30], dtypes.float32: [0.5, float("inf"), 1e-40],
    dtypes.float64: [0.5, -1e300, 5e-324], dtypes.fp8e4m3: [0.5, -448.0, 1.0],
    dtypes.fp8e5m2: [0.5, -57344.0, 1.0],
    dtypes.fp8e4m3fnuz: [0.5, -240.0, 1.0], dtypes.fp8e5m2fnuz: [0.5, -57344.0, 1.0],
}  # fmt: skip


def test_every_type_comes_back_bit_by_bit(tmp_path):
    assert set(VALUES) == set(inverse_safe_dtypes)
    saved = {d.name: Tensor(v, dtype=d) for d, v in VALUES.items()}
    saved["none"], saved["one"] = Tensor.zeros(0, 3), Tensor(7, dtype=dtypes.int32)
    saved["turned"] = Tensor([[1, 2, 3], [4, 5, 6]]).T
    path = tmp_path / "all.safetensors"
    safe_save(saved, str(path), {"made by": "a test"})
    found = safe_load(path)
    assert list(found) == list(saved)
    for name, t in saved.items():
        assert (found[name].shape, found[name].dtype) == (t.shape, t.dtype)
        assert bytes(found[name]._bytes()) == bytes(t.contiguous()._bytes()), name
    assert safe_load_metadata(path)[2]["__metadata__"] == {"made by": "a test"}
    assert os.listdir(tmp_path) == ["all.safetensors"]


def test_the_safetensors_package_reads_what_is_written_and_writes_what_is_read(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    safe_save({"x": Tensor([[1.5, 2.0]]), "n": Tensor([1, 2])}, tmp_path / "ours")
    theirs = package.load_file(tmp_path / "ours")
    assert theirs["x"].tolist() == [[1.5, 2.0]]
    package.save_file({"y": np.arange(6, dtype=np.int16).reshape(2, 3)}, tmp_path / "theirs")
    assert safe_load(str(tmp_path / "theirs"))["y"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_file_is_read_when_its_tensors_are(tmp_path):
    safe_save({"x": Tensor([1.0, 2.0])}, tmp_path / "x")
    found = safe_load(tmp_path / "x")["x"]
    safe_save({"x": Tensor([3.0, 4.0])}, tmp_path / "x")  # another file of the same name
    assert (found + 1).tolist() == [2.0, 3.0]


def test_tensors_may_begin_at_any_byte(tmp_path):
    parts = {"odd": ("U8", [3], bytes([1, 2, 255])), "f": ("F32", [2], struct.pack("<2f", 1.5, -2)),
             "one": ("I64", [], struct.pack("<q", -5)), "h": ("F16", [1], struct.pack("<e", 0.5)),
             "none": ("F32", [0, 4], b"")}  # fmt: skip
    entries, body = {}, b""
    for name, (kind, shape, data) in parts.items():
        entries[name] = {"dtype": kind, "shape": shape,
                         "data_offsets": [len(body), len(body) + len(data)]}  # fmt: skip
        body += data
    for spaces in range(8):
        raw = header(json.dumps(entries).encode() + b" " * spaces, body)
        (tmp_path / "x").write_bytes(raw)
        for found in (safe_load(tmp_path / "x"), safe_load(Tensor(raw))):
            assert found["odd"].tolist() == [1, 2, 255]
            assert (found["f"] * 2).tolist() == [3.0, -4.0]
            assert found["one"].item() == -5
            assert found["h"].item() == 0.5
            assert found["none"].shape == (0, 4)


def header(entries, body=b""):
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + body


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"\1\2\3", "too few"),
        (struct.pack("<Q", 2**60) + b"{}", "a header of"),
        (header(b"{nonsense"), "no JSON"),
        (header(b"\xff\xfe"), "no JSON"),
        (header([1, 2]), "is a list"),
        (header({"x": 5}), "entry of 'x'"),
        (header({"x": {"dtype": "F32", "shape": [1]}}), "entry of 'x'"),
        (header({"x": {"dtype": "F7", "shape": [1], "data_offsets": [0, 4]}}), "F7"),
        (
            header({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, bytes(4)),
            "damaged",
        ),
        (
            header({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, bytes(4)),
            "damaged",
        ),
        (header({"x": {"dtype": "F32", "shape": [-1], "data_offsets": [0, -4]}}), "damaged"),
        (header({"x": {"dtype": ["F32"], "shape": [0], "data_offsets": [0, 0]}}), "has type"),
        (header({"x": {"dtype": {}, "shape": [0], "data_offsets": [0, 0]}}), "has type"),
        (header({"x": {"dtype": "F32", "shape": [0, 2**70], "data_offsets": [0, 0]}}), "damaged"),
        (
            header({"x": {"dtype": "F32", "shape": [2**40, 0, 2**40], "data_offsets": [0, 0]}}),
            "damaged",
        ),
        (header({"x": {"dtype": "U8", "shape": [True], "data_offsets": [0, 1]}}, b"x"), "damaged"),
        (header({"x": {"dtype": "U8", "shape": [1.0], "data_offsets": [0, 1]}}, b"x"), "damaged"),
        (header({"x": {"dtype": "U8", "shape": "1", "data_offsets": [0, 1]}}, b"x"), "damaged"),
    ],
)
def test_a_wrong_safetensors_file_is_an_error_in_words(raw, says):
    with pytest.raises(FileFormatError, match=says):
        safe_load(Tensor(raw))


def test_a_file_is_named_by_either_word(tmp_path):
    path = str(tmp_path / "a.safetensors")
    safe_save({"a": Tensor([1.0, 2.0])}, path)
    for word in ("t", "fn"):
        assert safe_load(**{word: path})["a"].tolist() == [1.0, 2.0]
        assert safe_load_metadata(**{word: path})[2]["a"]["shape"] == [2]
    with pytest.raises(OperandError, match="safe_load_metadata takes no keyword 'path'"):
        safe_load_metadata(path=path)


def test_files_that_are_missing_or_empty_are_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        safe_load(tmp_path / "none")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(FileFormatError, match="too few"):
        safe_load(tmp_path / "empty")


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "x"
    safe_save({"x": Tensor([1.0])}, path)
    with pytest.raises(TypeError):
        safe_save({"x": Tensor([2.0])}, path, {"not": object()})
    assert safe_load(path)["x"].tolist() == [1.0]
    assert os.listdir(tmp_path) == ["x"]


# *** archives, files


def test_archives_give_their_files(tmp_path):
    files = {"a.txt": b"some text", "deep/b.bin": bytes(range(256)), "none": b""}
    for packing in ("", ":gz", ":xz"):
        path = tmp_path / f"x{packing[1:]}.tar"
        with tarfile.open(path, "w" + packing) as archive:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        found = tar_extract(path)
        assert {k: bytes(v.data()) for k, v in found.items()} == files
    for packing in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raw = io.BytesIO()
        with zipfile.ZipFile(raw, "w", packing) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        found = zip_extract(Tensor(raw.getvalue()))
        assert {k: bytes(v.data()) for k, v in found.items()} == files


@pytest.mark.parametrize("read", [tar_extract, zip_extract, torch_load])
@pytest.mark.parametrize("raw", [b"x", b"PK\3\4" + bytes(40), bytes(1024), b"\x80\x02."])
def test_what_is_no_archive_is_an_error(read, raw):
    if read is tar_extract and raw == bytes(1024):
        assert read(Tensor(raw)) == {}  # the mark of an archive's end
        return
    with pytest.raises(FileFormatError):
        read(Tensor(raw))


FILES = {"a.txt": b"hello", "../../etc/name": b"outside", "/from/the/root": b"x" * 700}


def _tar(mode: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in FILES.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def _zip(kind: int) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", kind) as archive:
        for name, data in FILES.items():
            archive.writestr(name, data)
    return made.getvalue()


ARCHIVES = {
    "tar": (tar_extract, lambda: _tar("w")),
    "tar.gz": (tar_extract, lambda: _tar("w:gz")),
    "tar.bz2": (tar_extract, lambda: _tar("w:bz2")),
    "tar.xz": (tar_extract, lambda: _tar("w:xz")),
    "zip": (zip_extract, lambda: _zip(zipfile.ZIP_STORED)),
    "zip deflated": (zip_extract, lambda: _zip(zipfile.ZIP_DEFLATED)),
    "zip lzma": (zip_extract, lambda: _zip(zipfile.ZIP_LZMA)),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_names_that_lead_elsewhere_are_names_only(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    read, make = ARCHIVES[kind]
    found = {name: bytes(t.tolist()) for name, t in read(Tensor(make())).items()}
    assert found == FILES
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ARCHIVES)
def test_damaged_archives_are_errors_never_more(kind):
    """Cut, changed anywhere, or with sizes of 0x80 and 0xff in their headers."""
    read, make = ARCHIVES[kind]
    whole, rng = make(), np.random.default_rng(0)
    refused = 0
    for n in range(60):
        raw = bytearray(whole)
        if n % 3 == 0:
            raw = raw[: rng.integers(len(raw))]
        elif n % 3 == 1:
            for place in rng.integers(len(raw), size=4):
                raw[place] = rng.integers(256)
        else:
            for place in rng.integers(min(len(raw), 160), size=4):
                raw[place if n % 2 else -1 - place] = rng.choice([0x80, 0xFF, 0])
        try:
            for t in read(Tensor(bytes(raw))).values():
                t.tolist()
        except FileFormatError:
            refused += 1
    assert refused > 10


def test_a_tensor_is_read_as_a_file(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(bytes(range(50)))
    file = TensorIO(Tensor(path))
    assert file.read(3) == b"\0\1\2"
    assert file.seek(-2, os.SEEK_END) == 48
    assert file.read() == bytes([48, 49])
    assert file.read(5) == b""
    assert file.seek(10) == file.tell() == 10
    room = bytearray(4)
    assert file.readinto(room) == 4
    assert room == bytes([10, 11, 12, 13])
    assert io.BufferedReader(TensorIO(Tensor(b"a\nb\n"))).readlines() == [b"a\n", b"b\n"]
    with pytest.raises(io.UnsupportedOperation):
        file.write(b"x")
    with pytest.raises(FileFormatError, match="uint8"):
        TensorIO(Tensor([1.0]))


def test_the_network_s_file_system_is_absent_and_says_so():
    for call in (lambda: fs_load(Tensor(bytes(16)), 5), lambda: fs_store(Tensor(b"abc"))):
        with pytest.raises(DeviceError, match="TINYFS"):
            call()


def test_names_of_files_may_be_text_or_paths(tmp_path):
    safe_save({"x": Tensor([1.0])}, tmp_path / "x")
    for name in (str(tmp_path / "x"), tmp_path / "x", Tensor(pathlib.Path(tmp_path / "x"))):
        assert safe_load(name)["x"].tolist() == [1.0]


@pytest.mark.parametrize("metadata", [{"epoch": 3}, {1: "x"}, {"config": {"width": "4"}}])
def test_metadata_is_strings_as_other_readers_want_it(tmp_path, metadata):
    with pytest.raises(FileFormatError, match="metadata holds strings by name, not"):
        safe_save({"a": Tensor([1.0])}, str(tmp_path / "a"), metadata)
    assert not list(tmp_path.iterdir())


def test_no_tensor_takes_the_place_of_the_metadata(tmp_path):
    with pytest.raises(FileFormatError, match="keeps its metadata"):
        safe_save({"__metadata__": Tensor([1.0])}, str(tmp_path / "a"))


class Node:
    """A part of a model that knows what it is in."""

    def __init__(self, **parts: object) -> None:
        self.__dict__.update(parts)


def test_a_model_that_refers_to_itself_has_each_tensor_once() -> None:
    layer = Node(bias=Tensor([2.0]))
    model = Node(weight=Tensor([1.0]), layers=[layer, layer])
    vars(model)["me"] = model
    vars(layer)["parent"] = {"model": model}
    found = nn.state.get_state_dict(model)
    assert list(found) == ["weight", "layers.0.bias", "layers.1.bias"]
    endless: list[object] = [Tensor([3.0])]
    endless.append(endless)
    assert list(nn.state.get_state_dict(endless)) == ["0"]
