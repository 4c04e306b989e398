"""Uniform random numbers: threefry2x32 of a key and a counter that lives on the device.

They are those that tinygrad gives for the same seed: a key is the seed and, in its low word, which
of the devices drawn from it is; the counter is the number of words drawn before. It is a buffer
that moves on when values are computed, so that the graph of a step is the same the next time; draws
in between are told apart by offsets.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import operator
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from tinylab.dtype import DTypeLike, dtypes, to_dtype
from tinylab.engine.capture import open_captures
from tinylab.engine.locking import alone
from tinylab.engine.realize import to_store
from tinylab.errors import CreationError, DTypeError, OperandError
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
from tinylab.tensor.waiting import storage_looked_at
from tinylab.trace.provenance import Frame, user_frames
from tinylab.trace.record import active
from tinylab.uop.ops import UOp

if TYPE_CHECKING:
    from typing import Self


class Stream:
    """One device and thread: a key, a counter buffer, and how many numbers were drawn since."""

    def __init__(self, seed: int, device: str, which: bytes) -> None:
        low = int.from_bytes(hashlib.sha256(which).digest()[-4:], "big")
        self.key = _one_word((seed & 0xFFFFFFFF) << 32 | low, device)
        self.counter = _one_word(0, device)
        self.drawn = 0
        # Whether replays move the counter on: then it stays in that memory, or they and what is
        # drawn elsewhere would be the same numbers.
        self.is_captured = False
        self._drawn_by: list[tuple[Frame, ...]] = []

    def take(self, words: int) -> UOp:
        """The counter of a draw of so many words."""
        first = self.counter if not self.drawn else self.counter + self.drawn
        self.drawn += words
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
        # Together: no signal's handler runs in between.
        self.counter, self.drawn = made[-1], 0
        for record in active():
            for frames in self._drawn_by:  # the write stands for all of them
                for node in (behind, *made):
                    record.note(node, frames, "rand")
        self._drawn_by.clear()
        return self.counter

    def state(self) -> Callable[[], None]:
        """What takes the stream back to where it is now, if it was only about to move on."""
        counter, drawn, drawn_by = self.counter, self.drawn, list(self._drawn_by)

        def take_back() -> None:
            if self.counter is not counter and to_store(self.counter) is not None:
                self.counter, self.drawn, self._drawn_by = counter, drawn, drawn_by

        return take_back

    def has_readers(self, below: dict[UOp, None]) -> bool:
        """Whether values wait that read the counter and are not among these nodes."""
        waiting = live.to_compute(lambda uop: to_store(uop) is None, [mark_of(self.counter)])
        buffer = buffer_below(self.counter)
        return any(t.uop not in below and buffer in storage_looked_at(t.uop).all for t in waiting)


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
    @alone
    def manual_seed(seed: int = 0) -> None:
        """Start all random numbers from a seed: the same calls give the same numbers.

        They are tinygrad's for that seed, of which the low 32 bits count. A function that TinyJit
        has captured goes on with the numbers that it began with.

        Raises: OperandError for a seed that is no integer.
        """
        if not hasattr(seed, "__index__"):
            raise OperandError(f"manual_seed: a seed is an integer, not {seed!r}")
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
        if num >= 1 << 64:
            raise CreationError(f"{num} random words are more than any memory holds")
        stream = _stream(place)
        first = cls._from_uop(stream.take(num))
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
        found = cls._fractions(math.prod(most), own, device).reshape(most)
        return (found.contiguous() if contiguous else found).shrink_to(sizes)

    def _drawn_like(self, draw: Callable[..., Self], kwargs: dict[str, Any]) -> Self:
        """What a draw gives in this tensor's shape, where this tensor is or `device` says.

        On several devices each draws its own part by numbers of its own; equal copies, one does.
        """
        places = self.device
        if kwargs.get("device") is not None or not isinstance(places, tuple):
            return draw(*self.shape, **{"device": places, **kwargs})
        kwargs = {k: v for k, v in kwargs.items() if k != "device"}
        if self.uop.axis is None:
            one = draw(*self.shape, device=places[0], **kwargs).uop
            return self._from_uop(one.shard(places))
        parts = [draw(*self.uop.shard_shape, device=d, **kwargs).uop for d in places]
        stacked = UOp(Ops.MSTACK, parts[0].dtype, tuple(parts))
        return self._from_uop(stacked.unshard(self.uop.axis))


def _stream(place: str) -> Stream:
    """The stream of a device in this thread.

    Those of the main thread are numbered as they come to be drawn from.
    """
    streams, name = TensorRandom._streams, place + _own.suffix
    if name not in streams:
        number = sum(" in thread " not in other for other in streams)
        which = name.encode() if _own.suffix else number.to_bytes(4, "big")
        with Context(ALLOW_DEVICE_USAGE=1):  # the state outlives the function that draws first
            streams[name] = Stream(TensorRandom._seed, place, which)
    return streams[name]


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


def settle_counters(becomes: dict[UOp, UOp]) -> None:
    """Let the counters that were computed look at memory."""
    for stream in TensorRandom._streams.values():
        stream.counter = becomes.get(stream.counter, stream.counter)


def drawn_streams() -> list[Stream]:
    """The streams whose counters do not stand behind all draws."""
    return [s for s in TensorRandom._streams.values() if s.drawn]
