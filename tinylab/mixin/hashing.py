"""Hashing: the Keccak sponge on 64-bit lanes, many messages at once.

Source: NIST, "SHA-3 Standard", FIPS 202, 2015; and SP 800-185 for the tree's idea.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from tinylab.dtype import dtypes
from tinylab.errors import DTypeError, OperandError
from tinylab.mixin.image import ImageMixin

if TYPE_CHECKING:
    from typing import Self

_ROUNDS = 24
# A chunk of the tree that `hash` builds, and the digest of one chunk, in bytes.
_CHUNK, _DIGEST = 4096, 16


class Sponge(NamedTuple):
    """Bytes of a block, bytes of the digest, and the bits that end a message."""

    rate: int
    digest: int
    suffix: int


SPONGES = {
    "sha3_224": Sponge(144, 28, 0x06),
    "sha3_256": Sponge(136, 32, 0x06),
    "sha3_384": Sponge(104, 48, 0x06),
    "sha3_512": Sponge(72, 64, 0x06),
    "shake_128": Sponge(168, 16, 0x1F),
    "shake_256": Sponge(136, 32, 0x1F),
}


def _rotations() -> list[int]:
    """How far each lane (x, y), at x + 5y, is rotated."""
    found = [0] * 25
    x, y = 1, 0
    for t in range(24):
        found[x + 5 * y] = (t + 1) * (t + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    return found


def _sources() -> list[int]:
    """The lane that moves to each place: (x, y) goes to (y, 2x + 3y)."""
    found = [0] * 25
    for x in range(5):
        for y in range(5):
            found[y + 5 * ((2 * x + 3 * y) % 5)] = x + 5 * y
    return found


def _round_constants() -> list[int]:
    """One constant a round, from the shift register of the standard."""
    constants, register = [], 1
    for _ in range(_ROUNDS):
        value = 0
        for j in range(7):
            if register & 1:
                value |= 1 << (2**j - 1)
            register = register << 1 ^ (0x171 if register & 0x80 else 0)
        constants.append(value)
    return constants


ROTATIONS, SOURCES, ROUND_CONSTANTS = _rotations(), _sources(), _round_constants()


class HashingMixin(ImageMixin):
    """Digests of bytes."""

    __slots__ = ()

    def keccak(self, cfg: str | tuple[int, int] = "sha3_256") -> Self:
        """The digest of each row of bytes: (…, n) uint8 -> (…, digest bytes) uint8.

        cfg: sha3_224 to sha3_512, shake_128, shake_256, or (bytes of a block, bits that end a
        message) for a digest of (200 - block) / 2 bytes.

        Raises: DTypeError for anything but uint8, OperandError for an unknown cfg or no axis.
        """
        if self.dtype is not dtypes.uint8:
            raise DTypeError(f"keccak works on uint8, not {self.dtype}", help="bitcast it first")
        if self.ndim == 0:
            raise OperandError("keccak works on rows of bytes", help="reshape it to (1,)")
        sponge = _sponge(cfg)
        lead, size = self.shape[:-1], self.shape[-1]
        message = self.reshape(math.prod(lead), size)
        blocks = size // sponge.rate + 1
        padded = message.pad(((0, 0), (0, blocks * sponge.rate - size)))
        tail = _iota_row(self, blocks * sponge.rate)
        last = blocks * sponge.rate - 1
        ends = tail.eq(size).where(sponge.suffix, 0).cast(dtypes.uint8)
        stops = tail.eq(last).where(0x80, 0).cast(dtypes.uint8)
        lanes = (padded ^ ends ^ stops).bitcast(dtypes.uint64)
        words = sponge.rate // 8
        tables = _tables(self)
        stored: Any = _kept(lanes.reshape(-1, blocks, words).permute(1, 0, 2))
        state: Any = self.const(0, dtypes.uint64)._broadcast_to((message.shape[0], 25))
        for n in range(blocks):
            block = _kept(stored[n]).pad(((0, 0), (0, 25 - words)))
            state = _permuted(_kept(state ^ block), tables)
        digest: Self = state.contiguous().bitcast(dtypes.uint8)[:, : sponge.digest]
        found: Self = digest.reshape(*lead, sponge.digest)
        return found

    def hash(self) -> Self:
        """A digest of 16 bytes of all the bytes of this value.

        A tree: chunks of 4096 bytes (zeros behind the last one) are digested with SHAKE128, their
        digests together are bytes again, until one is left.
        """
        data = self.contiguous().flatten().bitcast(dtypes.uint8)
        while True:
            count = max(1, -(-data.shape[0] // _CHUNK))  # no bytes are a chunk of zeros
            data = data.pad(((0, count * _CHUNK - data.shape[0]),)).reshape(count, _CHUNK)
            data = data.keccak("shake_128").flatten()
            if count == 1:
                return data


def _sponge(cfg: str | tuple[int, int]) -> Sponge:
    if isinstance(cfg, tuple):
        rate, suffix = cfg
        if not (0 < rate < 200 and rate % 8 == 0):
            raise OperandError(f"a block of {rate} bytes is no multiple of 8 below 200")
        return Sponge(rate, (200 - rate) // 2, suffix)
    if cfg not in SPONGES:
        raise OperandError(f"no hash is called {cfg!r}", help="there are " + ", ".join(SPONGES))
    return SPONGES[cfg]


def _iota_row(like: HashingMixin, size: int) -> HashingMixin:
    return like._iota(size, dtypes.int32)


def _row(like: HashingMixin, values: list[int]) -> HashingMixin:
    """(1, n) uint64 constants, stored: every round is the same kernel on another row."""
    places = like._iota(len(values), dtypes.int32)
    found = like.const(0, dtypes.uint64)._broadcast_to((len(values),))
    for n, value in enumerate(values):
        if value:
            found = places.eq(n).where(like.const(value, dtypes.uint64), found)
    return _kept(like._stored_beside(found.reshape(1, -1)))


def _kept(x: HashingMixin) -> HashingMixin:
    """The value in memory, computed now where that can be: every round is then the same program."""
    stored = x.contiguous()
    realize = getattr(stored, "realize", None)
    return stored if realize is None else realize()


def _turned(x: HashingMixin, by: int) -> HashingMixin:
    """The last axis moved round: place n holds what stood at n + by."""
    by %= x.shape[-1]
    return x[..., by:].cat(x[..., :by], dim=-1)


class Tables(NamedTuple):
    """Constants of the permutation in memory: for each round, and for each lane."""

    rounds: tuple[HashingMixin, ...]
    left: HashingMixin
    right: HashingMixin
    sources: HashingMixin


def _tables(like: HashingMixin) -> Tables:
    sources = _kept(_row(like, SOURCES).cast(dtypes.int32).reshape(-1))
    return Tables(
        tuple(_row(like, [constant] + [0] * 24) for constant in ROUND_CONSTANTS),
        _row(like, [ROTATIONS[s] for s in SOURCES]),
        _row(like, [64 - ROTATIONS[s] for s in SOURCES]),
        sources,
    )


def _permuted(state: HashingMixin, tables: Tables) -> HashingMixin:
    """24 rounds of Keccak-f[1600] on rows of 25 lanes."""
    for constants in tables.rounds:
        state = _round(state, constants, tables)
    return state


def _round(state: HashingMixin, constants: HashingMixin, tables: Tables) -> HashingMixin:
    """Theta, rho with pi, chi with iota."""
    rows = [state[:, 5 * y : 5 * y + 5] for y in range(5)]
    columns = rows[0] ^ rows[1] ^ rows[2] ^ rows[3] ^ rows[4]
    after = _turned(columns, 1)
    mixed = (_turned(columns, 4) ^ (after.lshift(1) | after.rshift(63))).contiguous()
    theta = (state.reshape(-1, 5, 5) ^ mixed.reshape(-1, 1, 5)).reshape(-1, 25).contiguous()
    moved = theta[:, tables.sources]
    b = (moved.lshift(tables.left) | moved.rshift(tables.right)).contiguous().reshape(-1, 5, 5)
    chi = b ^ (_turned(b, 1).bitwise_not() & _turned(b, 2))
    return _kept(chi.reshape(-1, 25) ^ constants)
