"""Small files that ask for much memory: refused before it is taken."""

import contextlib
import gzip
import io
import json
import lzma
import pickle
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Iterator

import numpy as np
import pytest

from tinylab import Tensor
from tinylab.errors import FetchError, FileFormatError
from tinylab.helpers import unpack
from tinylab.helpers.cache import fetch
from tinylab.nn import datasets
from tinylab.nn.gguf import gguf_load
from tinylab.nn.state import safe_load, tar_extract, torch_load, zip_extract

MEGABYTE = 1 << 20


@contextlib.contextmanager
def at_most(most: int) -> Iterator[None]:
    """What is inside takes no more memory at once."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def bytes_of(raw: bytes) -> Tensor:
    return Tensor(np.frombuffer(raw, np.uint8).copy())


def refused(read, raw: bytes, says: str, most: int = 8 * MEGABYTE) -> None:
    t = bytes_of(raw)
    with at_most(most), pytest.raises(FileFormatError, match=says):
        read(t)


@pytest.fixture
def little_room(monkeypatch):
    """Limits that a test can reach in no time."""
    monkeypatch.setattr(unpack, "_MOST_FOR_ALL", MEGABYTE)
    monkeypatch.setattr(unpack, "_MOST_FOR_EACH", 10)


def zipped(members: dict[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", kind) as archive:
        for name, raw in members.items():
            archive.writestr(name, raw)
    return out.getvalue()


def tarred(*members: tarfile.TarInfo, raw: bytes = b"") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(raw))
    return out.getvalue()


def member(name: str, size: int = 0, **pax: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.pax_headers = size, pax
    return info


def test_a_zip_bomb_is_refused(little_room):
    refused(
        zip_extract, zipped({"a": bytes(20 * MEGABYTE)}), "'a' makes more than 1.00 MB", MEGABYTE
    )


def test_many_files_count_together(little_room):
    raw = zipped({str(i): bytes(MEGABYTE // 4) for i in range(8)})
    refused(zip_extract, raw, "'4' makes more than", 2 * MEGABYTE)


def test_a_size_that_a_zip_only_claims_takes_no_memory():
    raw = zipped({"a": b"abc" * 100})
    place = raw.rindex(b"PK\1\2") + 24
    refused(
        zip_extract, raw[:place] + struct.pack("<I", 0xFFFFFFF0) + raw[place + 4 :], "makes more"
    )


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_packed_tar_bomb_is_refused(pack, little_room):
    raw = pack(tarred(member("a", 20 * MEGABYTE), raw=bytes(20 * MEGABYTE)))
    refused(tar_extract, raw, "makes more than", 12 * MEGABYTE)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_tar_header_that_unpacks_without_end_is_refused(pack, little_room):
    raw = pack(tarred(member("a", 3, comment="x" * 20 * MEGABYTE), raw=b"abc"))
    refused(tar_extract, raw, "the archive makes more than", 12 * MEGABYTE)


def test_a_sparse_file_of_a_terabyte_is_refused():
    gap = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 40)}
    refused(tar_extract, tarred(member("a", 0, **gap)), "'a' makes more than")
    refused(tar_extract, gzip.compress(tarred(member("a", 0, **gap))), "'a' makes more than")


def test_what_is_packed_well_and_what_is_large_is_read():
    some = bytes(3 * MEGABYTE)
    assert zip_extract(bytes_of(zipped({"a": some})))["a"].shape == (3 * MEGABYTE,)
    packed = gzip.compress(tarred(member("a", len(some)), raw=some))
    assert tar_extract(bytes_of(packed))["a"].shape == (3 * MEGABYTE,)
    gap = {"GNU.sparse.map": "0,3", "GNU.sparse.size": "10"}
    found = tar_extract(bytes_of(tarred(member("a", 3, **gap), raw=b"abc")))
    assert found["a"].data().tobytes() == b"abc" + bytes(7)


def checkpoint(program: bytes, storage: bytes = b"") -> bytes:
    return zipped({"m/data.pkl": program, "m/data/0": storage}, zipfile.ZIP_STORED)


@pytest.mark.parametrize(
    "program",
    [
        b"\x80\x02]r\xff\xff\xff\x7f.",  # remember this as number 2**31 - 1
        b"\x80\x05\x96" + struct.pack("<Q", 1 << 36) + b"abc.",  # room for 64 GB
        b"\x80\x04\x8e" + struct.pack("<Q", 1 << 36) + b"abc.",
        b"\x80\x04\x95" + struct.pack("<Q", 1 << 36) + b"abc.",
        b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"abc.",
    ],
)
def test_a_pickle_gets_no_room_that_it_does_not_fill(program):
    t = bytes_of(checkpoint(program))
    with at_most(8 * MEGABYTE), contextlib.suppress(FileFormatError):
        torch_load(t)


def test_bytes_that_may_change_are_read():
    program = pickle.dumps({"a": bytearray(b"abc")}, protocol=5)
    assert torch_load(bytes_of(checkpoint(program))) == {"a": bytearray(b"abc")}


def test_a_packed_program_of_a_checkpoint_counts(little_room):
    raw = zipped({"m/data.pkl": b"\x80\x02" + b"N0" * 10 * MEGABYTE + b"N."})
    refused(torch_load, raw, "makes more than", 2 * MEGABYTE)


@pytest.mark.parametrize("kind", ["__builtin__\nset", "collections\ndeque", "__builtin__\ntuple"])
def test_a_list_that_is_copied_again_and_again_counts(little_room, kind):
    whole = b"](" + b"N" * 10_000 + b"eq\x00"
    copy = b"c" + kind.encode() + b"\nh\x00\x85R"
    raw = checkpoint(b"\x80\x02(" + whole + copy * 1000 + b"t.")
    refused(torch_load, raw, "makes more than", 4 * MEGABYTE)


def test_bytes_that_are_decoded_again_and_again_count(little_room):
    letters = b"X" + struct.pack("<I", 10_000) + b"a" * 10_000 + b"q\x00"
    copy = b"c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R"
    raw = checkpoint(b"\x80\x02(" + letters + copy * 1000 + b"t.")
    refused(torch_load, raw, "bytes makes more than", 4 * MEGABYTE)


def test_rows_that_overlap_count_together(little_room):
    one = (
        b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nByteStorage\n"
        b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuM\x00\x40tQK\x00(M\x00\x10K\x20t(K\x01K\x02tt\x52"
    )
    raw = checkpoint(b"\x80\x02(" + one * 40 + b"t.", bytes(0x4000))
    refused(torch_load, raw, "a tensor of .* makes more than", 4 * MEGABYTE)


def test_counts_that_a_header_only_claims_take_no_memory():
    many = 1 << 62
    refused(gguf_load, b"GGUF" + struct.pack("<IQQ", 3, many, 0), "damaged file")
    refused(gguf_load, b"GGUF" + struct.pack("<IQQ", 3, 0, many), "damaged file")
    text = struct.pack("<Q", 1) + b"x"
    for inner in (4, 8, 9):
        pair = text + struct.pack("<IIQ", 9, inner, many)
        refused(gguf_load, b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + pair, "damaged file")
    refused(gguf_load, b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, many), "damaged file")
    refused(safe_load, struct.pack("<Q", 1 << 63) + b"{}", "a header of")
    for shape in ([1] * 65, [1 << 40, 1 << 40], [0, -1]):
        info = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}}).encode()
        refused(safe_load, struct.pack("<Q", len(info)) + info + bytes(4), "damaged file")


@pytest.mark.usefixtures("little_room")
def test_gzip_files_that_swell(tmp_path):
    raw = gzip.compress(bytes(32 * MEGABYTE))
    with at_most(8 * MEGABYTE), pytest.raises(FileFormatError, match="makes more than"):
        unpack.gunzipped(raw, "x.gz")
    file = tmp_path / "x.gz"
    file.write_bytes(raw)
    with pytest.raises(FetchError, match="makes more than"):
        fetch(file.as_uri(), tmp_path / "x", gunzip=True)
    assert not (tmp_path / "x").exists()
    file.write_bytes(gzip.compress(b"abc")[:-9])
    with pytest.raises(FetchError, match="no whole gzip file"):
        fetch(file.as_uri(), tmp_path / "x", gunzip=True)
    file.write_bytes(gzip.compress(b"abc") + gzip.compress(b"de"))
    assert fetch(file.as_uri(), tmp_path / "x", gunzip=True).read_bytes() == b"abcde"


@pytest.mark.usefixtures("little_room")
def test_a_data_set_that_swells(tmp_path):
    file = tmp_path / "train-images-idx3-ubyte.gz"
    file.write_bytes(gzip.compress(bytes(32 * MEGABYTE)))
    with at_most(8 * MEGABYTE), pytest.raises(FileFormatError, match="makes more than"):
        datasets._idx(file, None)


@pytest.mark.usefixtures("little_room")
def test_an_archive_that_swells_leaves_no_files(tmp_path):
    file = tmp_path / "x.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        member = tarfile.TarInfo("zeros")
        member.size = 32 * MEGABYTE
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    with at_most(8 * MEGABYTE), pytest.raises(FetchError, match="makes more than"):
        fetch(file.as_uri(), tmp_path / "got", extract=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["got", "x.tar.gz"]
