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
import weakref
from collections.abc import Callable, Iterable, Sequence, Set
from typing import TYPE_CHECKING, Any, ClassVar

from tinylab.device import Buffer
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
from tinylab.tensor.waiting import memory_under, storage_looked_at
from tinylab.trace.provenance import Frame, user_frames
from tinylab.trace.record import active
from tinylab.uop.ops import UOp

if TYPE_CHECKING:
    from typing import Self


# Does writes, and gives what they became.
Compute = Callable[[Sequence[UOp]], Sequence[UOp]]


class Stream:
    """One device and thread: a key, a counter buffer, and how many numbers were drawn since."""

    def __init__(self, seed: int, device: str, which: bytes) -> None:
        self.device = device
        self.key, self.counter = _beginning(seed, device, which)
        self.drawn = 0
        # The captures that use this memory, or the followers of one: what lives as long.
        self.captured_by: weakref.WeakSet[Any] = weakref.WeakSet()
        self._drawn_by: list[tuple[Frame, ...]] = []

    def forget_draws(self) -> None:
        """Whoever draws next starts again."""
        self.drawn = 0
        self._drawn_by.clear()

    def restart(self, seed: int, which: bytes, compute: Compute) -> None:
        """Start again from a seed in the same memory, which captured functions read."""
        start = _beginning(seed, self.device, which)
        places = self.key, self.counter
        writes = [x.after(x.store(new)) for x, new in zip(places, start, strict=True)]
        self.key, self.counter = compute(writes)
        self.captured_by.update(open_captures())

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


def _beginning(seed: int, device: str, which: bytes) -> tuple[UOp, UOp]:
    """(a key, a counter), each a buffer of one word."""
    low = int.from_bytes(hashlib.sha256(which).digest()[-4:], "big")
    return _one_word((seed & 0xFFFFFFFF) << 32 | low, device), _one_word(0, device)


def _one_word(value: int, device: str) -> UOp:
    return buffer_uop(pack([value], dtypes.uint64), dtypes.uint64, (1,), device)


_IN_THREAD = " in thread "
_thread_numbers = itertools.count(1)


class _Own(threading.local):
    """What tells the streams of threads apart; those of the main thread have no suffix."""

    def __init__(self) -> None:
        main = threading.current_thread() is threading.main_thread()
        self.suffix = "" if main else f"{_IN_THREAD}{next(_thread_numbers)}"


_own = _Own()


class TensorRandom(TensorCreation):
    """Random tensors, reproducible by `manual_seed`."""

    __slots__ = ()

    _seed: ClassVar[int] = int(time.time() * 1000) & 0xFFFFFFFF
    # By device and thread, in the order in which they were drawn from since a seed was set.
    _streams: ClassVar[dict[str, Stream]] = {}
    # Those in memory that captured functions read, and that nobody has drawn from since.
    _due: ClassVar[dict[str, Stream]] = {}

    if TYPE_CHECKING:

        def realize(self, *lst: Self) -> Self:
            """Compute the values."""
            ...

    @classmethod
    def _computed(cls, uops: Sequence[UOp]) -> list[UOp]:
        """What values, of which there is one, look at when they are computed."""
        tensors = [cls._from_uop(u) for u in uops]
        tensors[0].realize(*tensors[1:])
        return [t.uop for t in tensors]

    @staticmethod
    @alone
    def manual_seed(seed: int = 0) -> None:
        """Start all random numbers from a seed: the same calls give the same numbers.

        They are tinygrad's for that seed, of which the low 32 bits count. Functions that TinyJit
        has captured start again too.

        Raises: OperandError for a seed that is no integer.
        """
        if not hasattr(seed, "__index__"):
            raise OperandError(f"manual_seed: a seed is an integer, not {seed!r}")
        TensorRandom._seed = operator.index(seed)
        streams = TensorRandom._streams
        for name, stream in streams.items():
            stream.forget_draws()
            if stream.captured_by or open_captures():
                TensorRandom._due[name] = stream
        streams.clear()

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
        stream = _stream(place, cls._computed)
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


def _stream(place: str, compute: Compute) -> Stream:
    """The stream of a device in this thread."""
    streams, name = TensorRandom._streams, place + _own.suffix
    if name not in streams:
        due = TensorRandom._due.pop(name, None)
        with Context(ALLOW_DEVICE_USAGE=1):  # the state outlives the function that draws first
            if due is not None and (due.captured_by or open_captures()):
                _restart(name, due, compute)
            else:
                streams[name] = Stream(TensorRandom._seed, place, _which(name))
    return streams[name]


def _restart(name: str, stream: Stream, compute: Compute) -> None:
    stream.restart(TensorRandom._seed, _which(name), compute)
    TensorRandom._streams[name] = stream


def _which(name: str) -> bytes:
    """What tells a stream from others; those of the main thread are numbered as they are used."""
    if _IN_THREAD in name:
        return name.encode()
    return sum(_IN_THREAD not in other for other in TensorRandom._streams).to_bytes(4, "big")


def restart_due(used: Set[Buffer], compute: Compute) -> None:
    """Let the streams start again that lie in some memory (bases), if a seed was set since."""
    for name, stream in list(TensorRandom._due.items()):
        if not used.isdisjoint(memory_under(stream.key)):
            _restart(name, stream, compute)
            del TensorRandom._due[name]


def _every_stream() -> list[Stream]:
    return [*TensorRandom._streams.values(), *TensorRandom._due.values()]


def random_state() -> set[UOp]:
    """The buffers that random numbers are drawn from."""
    return {buffer_below(u) for s in _every_stream() for u in (s.key, s.counter)}


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
        stream.captured_by.update(open_captures())
    # Where replays move a counter on it stays in that memory, or they and what is drawn elsewhere
    # would be the same numbers.
    return [(s, s.moved_on(not s.captured_by and s.has_readers(below))) for s in moved]


def note_captured(read: Set[Buffer], by: object) -> None:
    """A captured function reads some memory (bases), for as long as an object is there."""
    for stream in _every_stream():
        if not read.isdisjoint(memory_under(stream.key)):
            stream.captured_by.add(by)


def settle_counters(becomes: dict[UOp, UOp]) -> None:
    """Let the counters that were computed look at memory."""
    for stream in _every_stream():
        stream.counter = becomes.get(stream.counter, stream.counter)


def drawn_streams() -> list[Stream]:
    """The streams whose counters do not stand behind all draws."""
    return [s for s in TensorRandom._streams.values() if s.drawn]
