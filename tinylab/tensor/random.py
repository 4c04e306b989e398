"""Uniform random numbers: threefry2x32 of a key and a counter that lives on the device.

Each draw takes the next counters. The counter is a buffer that moves on when values are computed,
so that the graph of a step is the same the next time; draws in between are told apart by offsets.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import operator
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from tinylab.dtype import DTypeLike, dtypes, to_dtype
from tinylab.engine.capture import open_captures
from tinylab.engine.locking import alone
from tinylab.engine.realize import to_store
from tinylab.errors import CreationError, DTypeError
from tinylab.helpers.context import Context
from tinylab.mixin.base import Sizes, as_shape, largest
from tinylab.mixin.random import check_sizes
from tinylab.opcodes import Ops
from tinylab.schedule.effects import buffer_below
from tinylab.tensor.core import canonical
from tinylab.tensor.creation import TensorCreation
from tinylab.tensor.data import buffer_uop, pack
from tinylab.tensor.held import live, mark_of
from tinylab.tensor.noting import made_of
from tinylab.trace.provenance import Frame, user_frames
from tinylab.trace.record import active
from tinylab.uop.ops import UOp

if TYPE_CHECKING:
    from typing import Self


class Stream:
    """One device and thread: a key, a counter buffer, and how many numbers were drawn since."""

    def __init__(self, seed: int, device: str, name: str) -> None:
        digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
        self.key = _one_word(int.from_bytes(digest[:8], "little"), device)
        self.counter = _one_word(0, device)
        self.drawn = 0
        # Whether replays move the counter on: then it stays in that memory, or they and what is
        # drawn elsewhere would be the same numbers.
        self.is_captured = False
        self._drawn_by: list[tuple[Frame, ...]] = []

    def take(self, blocks: int) -> UOp:
        """The first of so many counters."""
        first = self.counter if not self.drawn else self.counter + self.drawn
        self.drawn += blocks
        made_of(self.counter)
        if active():
            self._drawn_by.append(user_frames())
        return first

    def moved_on(self, apart: bool = False) -> UOp:
        """The counter behind all draws: a write to its buffer, or apart from it in a new one."""
        buffer = self.counter
        behind = buffer + self.drawn
        made = (
            [behind.contiguous()] if apart else [write := buffer.store(behind), buffer.after(write)]
        )
        self.counter = made[-1]
        for record in active():
            for frames in self._drawn_by:  # the write stands for all of them
                for node in (behind, *made):
                    record.note(node, frames, "rand")
        self.drawn = 0
        self._drawn_by.clear()
        return self.counter

    def has_readers(self, below: dict[UOp, None]) -> bool:
        """Whether values wait that may read the counter and are not among these nodes."""
        waiting = live.to_compute(lambda uop: to_store(uop) is None, [mark_of(self.counter)])
        return any(t.uop not in below for t in waiting)


def _one_word(value: int, device: str) -> UOp:
    return buffer_uop(pack([value], dtypes.uint64), dtypes.uint64, (1,), device)


_thread_numbers = itertools.count(1)


class _Own(threading.local):
    """What tells the streams of threads apart; those of the main thread have no suffix."""

    def __init__(self) -> None:
        main = threading.current_thread() is threading.main_thread()
        self.suffix = "" if main else f" in thread {next(_thread_numbers)}"


_own = _Own()


class TensorRandom(TensorCreation):
    """Random tensors, reproducible by `manual_seed`."""

    __slots__ = ()

    _seed: ClassVar[int] = int(time.time() * 1000) & 0xFFFFFFFF
    _streams: ClassVar[dict[str, Stream]] = {}

    @staticmethod
    def manual_seed(seed: int = 0) -> None:
        """Start all random numbers from a seed: the same calls give the same numbers."""
        TensorRandom._seed = operator.index(seed)
        TensorRandom._streams.clear()

    @classmethod
    @alone
    def _random_words(cls, num: int, device: Any) -> Self:
        """(num,) random uint32 on a device."""
        place = canonical(device)
        if isinstance(place, tuple):
            raise CreationError(
                f"rand only supports single device, got {device=}", help="shard what it gives"
            )
        streams, name = TensorRandom._streams, place + _own.suffix
        if name not in streams:
            with Context(ALLOW_DEVICE_USAGE=1):  # the state outlives the function that draws first
                streams[name] = Stream(TensorRandom._seed, place, name)
        stream = streams[name]
        first = cls._from_uop(stream.take((num + 1) // 2))
        if num == 0:
            return cls.const(0, dtypes.uint32)._broadcast_to((0,))
        return cls.random_bits(cls._from_uop(stream.key), first, num)

    @classmethod
    def rand(
        cls,
        *shape: Sizes,
        device: Any = None,
        dtype: DTypeLike | None = None,
        contiguous: bool = True,
    ) -> Self:
        """Uniform in [0, 1); contiguous=False works the numbers out again at each use.

        Raises: DTypeError for a type that is no concrete float; CreationError for a negative size.
        """
        own = to_dtype(dtype) if dtype is not None else dtypes.default_float
        if own.kind != "float" or dtypes.is_weak(own):
            raise DTypeError(
                f"rand only supports concrete float dtypes, got {own}",
                help="use randint for integers",
            )
        sizes = check_sizes(as_shape(shape))
        # Of symbolic sizes as many as there may be: the numbers do not depend on how many are used.
        most = tuple(map(largest, sizes))
        count = math.prod(most)
        words = cls._random_words(count * (2 if own is dtypes.float64 else 1), device)
        found = words._fraction(own).reshape(most)
        return (found.contiguous() if contiguous else found).shrink_to(sizes)


def random_state() -> set[UOp]:
    """The buffers that random numbers are drawn from."""
    streams = TensorRandom._streams.values()
    return {buffer_below(u) for s in streams for u in (s.key, s.counter)}


def counters_of(roots: Iterable[UOp]) -> list[tuple[Stream, UOp]]:
    """The counters that values about to be computed depend on, moved on behind their draws.

    A write in place may compute others that wait. What is captured must then move the counters
    itself: no replay sees how many numbers were drawn, and each would draw the same.

    Where others that wait read a counter too, what is to come goes to new memory: a write to the
    old would make them be computed now, however long that takes.
    """
    waiting = drawn_streams()
    if not waiting:
        return []
    below = UOp.sink(*roots).toposort(enter_calls=False)
    captured = bool(open_captures())
    every = captured and any(x.op is Ops.AFTER for x in below)
    moved = [s for s in waiting if every or s.counter in below]
    for stream in moved:
        stream.is_captured |= captured
    return [(s, s.moved_on(not s.is_captured and s.has_readers(below))) for s in moved]


def drawn_streams() -> list[Stream]:
    """The streams whose counters do not stand behind all draws."""
    return [s for s in TensorRandom._streams.values() if s.drawn]
