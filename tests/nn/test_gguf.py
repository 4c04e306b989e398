"""gguf files: the header, every type of block against ggml's own reader, damaged files."""

import random
import struct

import numpy as np
import pytest

from tinylab import Tensor, dtypes
from tinylab.errors import FileFormatError
from tinylab.nn.gguf import PLAIN, ggml_data_to_tensor, gguf_load
from tinylab.nn.quantised import BLOCKS


def blocks(kind, count, seed=0):
    """Random blocks whose scales are ordinary numbers."""
    raw = np.random.default_rng(seed).integers(0, 256, (count, BLOCKS[kind].size), dtype=np.uint8)
    halves = {2: [0], 3: [0, 2], 6: [0], 7: [0, 2], 8: [0], 9: [0, 2], 10: [80, 82], 11: [108],
              12: [0, 2], 13: [0, 2], 14: [208], 18: [0], 20: [0], 21: [0], 22: [0], 23: [0],
              16: [0], 17: [0], 19: [0], 34: [52], 35: [64]}  # fmt: skip
    for at in halves.get(kind, []):
        raw[:, at : at + 2] = np.array([0.5, -1.25, 0.003][:count], np.float16)[:, None].view(
            np.uint8
        )
    if kind == 15:
        raw[:, :4] = np.array([0.5, -1.25, 3.0][:count], np.float32)[:, None].view(np.uint8)
    if kind == 29:  # half of it in each of the high bits of four words
        bits = np.array([0.5, -1.25, 0.003][:count], np.float16).view(np.uint16)
        for word in range(4):
            raw[:, 49 + 2 * word] &= 15
            raw[:, 49 + 2 * word] |= (bits >> 4 * word & 15).astype(np.uint8) << 4
    if kind == 40:
        raw[:2, :4] = [[0, 0x7F, 1, 0x7E], [0x38, 0x08, 0xB8, 0x07]]
    if kind == 39:
        raw[:, 0] = [0, 1, 130][:count]
    return raw


@pytest.mark.parametrize("kind", BLOCKS, ids=lambda k: BLOCKS[k].name)
def test_blocks_are_what_ggml_reads(kind):
    quants = pytest.importorskip("gguf.quants")
    from gguf.constants import GGMLQuantizationType

    raw = blocks(kind, 3)
    found = ggml_data_to_tensor(Tensor(raw.reshape(-1)), 3 * BLOCKS[kind].elements, kind)
    assert found.dtype is dtypes.float32
    try:
        wanted = quants.dequantize(raw, GGMLQuantizationType(kind))
    except NotImplementedError:
        wanted = by_hand(kind, raw)
    np.testing.assert_allclose(found.numpy().reshape(wanted.shape), wanted, rtol=1e-6)


def test_no_type_that_ggml_reads_is_missing():
    quants = pytest.importorskip("gguf.quants")
    from gguf.constants import GGML_QUANT_SIZES

    for kind in quants._type_traits:
        if kind not in PLAIN:
            assert (BLOCKS[kind].elements, BLOCKS[kind].size) == GGML_QUANT_SIZES[kind]


def by_hand(kind, raw):
    """Types that are only stored between operations, or new, have no reader there."""
    if kind == 41:
        signs = np.unpackbits(raw[:, 2:], axis=1, bitorder="little") * 2.0 - 1
        return signs * raw[:, :2].copy().view(np.float16).astype(np.float32)
    if kind == 9:
        return raw[:, 4:].view(np.int8) * raw[:, :2].copy().view(np.float16).astype(np.float32)
    assert kind == 15
    return raw[:, 4:260].view(np.int8) * raw[:, :4].copy().view(np.float32)


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def file_of(tensors, pairs=(), align=32, version=3):
    """A gguf file of (name, sizes, type, bytes), written byte by byte."""
    info = data = b""
    for name, sizes, kind, raw in tensors:
        data += b"\0" * (-len(data) % align)
        info += text(name) + struct.pack("<I", len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes)
        info += struct.pack("<IQ", kind, len(data))
        data += raw
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs)) + b"".join(pairs) + info
    return head + b"\0" * (-len(head) % align) + data


ALIGNED = text("general.alignment") + struct.pack("<II", 4, 64)


def test_every_kind_of_value(tmp_path):
    pairs = [ALIGNED]
    values = {"u8": (0, "B", 200), "i8": (1, "b", -5), "u16": (2, "H", 60000), "i16": (3, "h", -9),
              "i32": (5, "i", -7), "f": (6, "f", 0.5), "yes": (7, "?", True),
              "u64": (10, "Q", 2**60), "i64": (11, "q", -1), "d": (12, "d", 1e300)}  # fmt: skip
    for name, (kind, fmt, value) in values.items():
        pairs.append(text(name) + struct.pack(f"<I{fmt}", kind, value))
    pairs.append(text("words") + struct.pack("<IIQ", 9, 8, 2) + text("ä") + text(""))
    pairs.append(text("deep") + struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ2B", 0, 2, 3, 4))
    path = tmp_path / "kinds.gguf"
    path.write_bytes(file_of([("x", (3, 2), 0, struct.pack("<6f", *range(6)))], pairs, 64))
    found, tensors = gguf_load(path)
    for name, (_, _, value) in values.items():
        assert found[name] == value
        assert type(found[name]) is type(value)
    assert found["words"] == ["ä", ""]
    assert found["deep"] == [[3, 4]]
    assert tensors["x"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_plain_types_lie_where_they_say():
    rows = [(PLAIN[k].name, (4,), k, bytes(range(4 * PLAIN[k].itemsize))) for k in PLAIN]
    _, found = gguf_load(Tensor(file_of(rows)))
    for name, _, kind, raw in rows:
        assert found[name].dtype is PLAIN[kind]
        assert bytes(found[name].data().cast("B")) == raw


def test_a_quantised_tensor_keeps_its_shape_and_may_be_empty():
    raw = blocks(8, 2).tobytes()
    _, found = gguf_load(Tensor(file_of([("q", (32, 2), 8, raw), ("none", (0,), 8, b"")])))
    assert found["q"].shape == (2, 32)
    assert found["none"].shape == (0,)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"GGML" + bytes(40), "no gguf file"),
        (b"GGUF", "damaged file"),
        (file_of([], version=1), "version 1"),
        (file_of([("q", (33,), 8, bytes(36))]), "no whole blocks"),
        (file_of([("q", (32,), 99, bytes(36))]), "not supported"),
        (file_of([("q", (32,), 4, bytes(18))]), r"type .4. \(Q4_2\) of .q. is not supported"),
        (file_of([("q", (32, 2**40), 8, bytes(36))]), "damaged file"),
        (file_of([("q", (2**63, 2), 0, bytes(36))]), "damaged file"),
        (file_of([], [text("general.alignment") + struct.pack("<II", 4, 0)]), "alignment"),
        (file_of([], [text("x") + struct.pack("<IIQ", 9, 8, 2**62)]), "damaged file"),
        (file_of([], [text("x") + struct.pack("<I", 77)]), "type 77"),
    ],
)
def test_what_is_wrong_is_said(raw, says):
    with pytest.raises(FileFormatError, match=says):
        gguf_load(Tensor(raw))


def test_damaged_bytes_are_errors_never_more():
    rng = random.Random(3)
    whole = file_of(
        [("q8", (32, 2), 8, blocks(8, 2).tobytes()), ("f", (3,), 0, bytes(12))],
        [ALIGNED, text("list") + struct.pack("<IIQ", 9, 6, 3) + bytes(12)],
        64,
    )
    for _ in range(300):
        raw = bytearray(whole[: rng.choice([len(whole), rng.randrange(len(whole))])] or b"G")
        for _ in range(rng.randrange(1, 6)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        try:
            _, found = gguf_load(Tensor(bytes(raw)))
        except FileFormatError:
            continue
        assert all(isinstance(t, Tensor) for t in found.values())
