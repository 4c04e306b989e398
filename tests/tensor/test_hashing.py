"""Digests against hashlib, around the borders of blocks."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tinylab import Tensor

RNG = np.random.default_rng(0)
SIZES = [0, 135, 136, 300]


def data(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


@pytest.mark.parametrize("size", SIZES)
def test_sha3_256(size: int):
    row = data(size)
    want = hashlib.sha3_256(row.tobytes()).digest()
    assert bytes(Tensor(row).keccak().numpy()) == want


@pytest.mark.parametrize("name", ["sha3_224", "sha3_512"])
def test_other_lengths(name: str):
    rows = data(3, 150)
    got = Tensor(rows).keccak(name).numpy()
    assert [bytes(r) for r in got] == [hashlib.new(name, r.tobytes()).digest() for r in rows]


def test_shake():
    row = data(400)
    assert bytes(Tensor(row).keccak("shake_128").numpy()) == hashlib.shake_128(row).digest(16)


def test_a_block_of_ones_own():
    row = data(50)
    assert bytes(Tensor(row).keccak((136, 0x06)).numpy()) == hashlib.sha3_256(row).digest()


def tree(raw: bytes) -> bytes:
    while True:
        chunks = [raw[i : i + 4096].ljust(4096, b"\0") for i in range(0, max(len(raw), 1), 4096)]
        raw = b"".join(hashlib.shake_128(c).digest(16) for c in chunks)
        if len(chunks) == 1:
            return raw


@pytest.mark.parametrize("count", [0, 10, 1500])
def test_hash_is_a_tree_of_shake128(count: int):
    values = RNG.standard_normal(count).astype(np.float32)
    assert bytes(Tensor(values).hash().numpy()) == tree(values.tobytes())


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_no_bytes_have_a_digest_too(shape: tuple[int, ...]):
    found = Tensor.zeros(*shape, dtype="uint8").keccak().numpy()
    assert found.shape == (*shape[:-1], 32)
    assert all(bytes(row) == hashlib.sha3_256(b"").digest() for row in found.reshape(-1, 32))


def test_what_is_refused():
    with pytest.raises(TypeError, match="keccak works on rows of bytes"):
        Tensor(3, dtype="uint8").keccak()
    with pytest.raises(TypeError, match="keccak works on uint8, not"):
        Tensor([1.0]).keccak()
    with pytest.raises(TypeError, match="no hash is called 'md5'"):
        Tensor(data(3)).keccak("md5")
