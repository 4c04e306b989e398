"""The tensors that someone holds: which may contain a value, which lie in some memory."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tinylab.device import Buffer
from tinylab.engine.locking import engine_lock
from tinylab.tensor.waiting import StorageOf, Waiting
from tinylab.uop.ops import UOp

# The marks of a tensor of which it is not known what it was made from.
ANYTHING = -1
_MARKS = 512


def mark_of(uop: UOp) -> int:
    """Two of 512 bits.

    A tensor has the marks of all tensors it was made from, so that most of those that do not
    contain a value are told apart without a look at their graphs.
    """
    place = id(uop) >> 4
    return 1 << place % _MARKS | 1 << (place >> 9) % _MARKS


def _bits(marks: int) -> Iterator[int]:
    """The numbers of the bits that are set, lowest first."""
    while marks:
        low = marks & -marks
        yield low.bit_length() - 1
        marks ^= low


class _Pending(NamedTuple):
    """A tensor that is to be computed, with the marks it had when it was filed."""

    key: int
    ref: weakref.ref[Any]
    marks: int


class Heard(NamedTuple):
    """What a thread did to tensors while somebody listened, by identity, each with its first node.

    wrote: those that it gave another value. replaced: those that became another tensor. parts: for
    each write the tensors that it reached, each with steps of looking at what was written.
    """

    thread: int
    wrote: dict[int, tuple[weakref.ref[Any], UOp]]
    replaced: dict[int, tuple[weakref.ref[Any], UOp]]
    parts: list[list[tuple[weakref.ref[Any], Any]]]


class _Ref(weakref.ref[Any]):
    """To a tensor, with its identity, which it can no longer be asked for when it goes.

    One callback for all: a function for each tensor costs as much again, and the collector looks at
    every one.
    """

    __slots__ = ("key",)
    key: int


class Live:
    """The tensors that someone holds, by identity and weakly.

    Those whose values do not lie in memory are filed under their marks, each once, so that a
    computation looks at the few that may contain what it computed; those whose values do, under
    the memory, when someone asks for the first time. Whoever holds the engine's lock files and
    finds; tensors come and go at any time.
    """

    def __init__(self) -> None:
        self._refs: dict[int, _Ref] = {}
        self._new: dict[int, weakref.ref[Any]] = {}  # not filed yet, or with another value now
        self._filed: dict[int, _Pending] = {}
        # By bit; last those with so many bits set that they may contain anything.
        self._by_bit: list[dict[int, _Pending]] = [{} for _ in range(_MARKS + 1)]
        self._stored: dict[int, weakref.ref[Any]] = {}  # in memory, not filed yet
        self._memory: dict[int, tuple[int, ...]] = {}  # under which memory a tensor is filed
        self._by_memory: dict[int, dict[int, weakref.ref[Any]]] = {}
        self._waiting = Waiting()
        self._listening: list[Heard] = []
        self._gone = self._forget()

    def _forget(self) -> Callable[[_Ref], None]:
        refs, unfiled, drop = self._refs, self._new, self._drop
        at_exit = sys.is_finalizing  # then the names of modules are gone

        def gone(ref: _Ref) -> None:
            key = ref.key
            if refs.get(key) is ref and not at_exit():
                unfiled.pop(key, None)
                drop(key)
                refs.pop(key, None)

        return gone

    def add(self, tensor: Any) -> None:
        """Hold a tensor in mind."""
        key = id(tensor)
        known = self._refs.get(key)
        # One that has gone may still be there: a Ctrl-C in the midst of `gone` ends it.
        if known is None or known() is not tensor:
            self._drop(key)
            known = _Ref(tensor, self._gone)
            known.key = key
            self._refs[key] = known
        self._new[key] = known

    def changed(self, tensor: Any) -> None:
        """A tensor that may be held has another value now, which may not lie in memory."""
        found = self._refs.get(id(tensor))
        if found is not None:
            self._new[id(tensor)] = found

    def looks_elsewhere(self, tensor: Any) -> None:
        """A tensor that may be held looks at memory now for a part of what it was made of."""
        found = self._refs.get(id(tensor))
        if found is not None:
            self._waiting.note(id(tensor), found)

    def wrote(self, tensor: Any, old: UOp) -> None:
        """The program gave a tensor another value: whoever listens hears of it."""
        for heard in self._listening:
            if heard.thread == threading.get_ident():
                heard.wrote.setdefault(id(tensor), (weakref.ref(tensor), old))

    def wrote_parts(self, parts: Iterable[tuple[Any, Any]]) -> None:
        """A write reached parts of tensors: whoever listens hears of it."""
        if self._listening:
            found = [(weakref.ref(t), steps) for t, steps in parts if t is not None]
            for heard in self._listening:
                if heard.thread == threading.get_ident():
                    heard.parts.append(found)

    def replaced(self, tensor: Any, old: UOp) -> None:
        """The program let a tensor become another one: whoever listens hears of it."""
        for heard in self._listening:
            if heard.thread == threading.get_ident():
                heard.replaced.setdefault(id(tensor), (weakref.ref(tensor), old))

    @contextmanager
    def listening(self) -> Iterator[Heard]:
        """What this thread does to tensors inside the block."""
        heard = Heard(threading.get_ident(), {}, {}, [])
        with engine_lock:
            self._listening = [*self._listening, heard]
        try:
            yield heard
        finally:
            with engine_lock:
                self._listening = [h for h in self._listening if h is not heard]

    def known(self) -> dict[int, weakref.ref[Any]]:
        """All tensors that are held now, by identity."""
        return dict(self._refs)

    def to_compute(self, in_memory: Callable[[UOp], bool], marks: Iterable[int]) -> list[Any]:
        """The tensors that have all bits of one of the marks and whose values are not in memory."""
        self._file_new(in_memory)
        found: dict[int, Any] = {}
        for mark in marks:
            fewest = min((self._by_bit[n] for n in _bits(mark)), key=len)
            for entry in list(fewest.values()) + list(self._by_bit[_MARKS].values()):
                if entry.marks & mark != mark or (tensor := entry.ref()) is None:
                    continue
                if in_memory(tensor.uop):
                    self._is_stored(entry.key)
                else:
                    found[entry.key] = tensor
        return list(found.values())

    def all_to_compute(self, in_memory: Callable[[UOp], bool]) -> list[Any]:
        """All tensors whose values are not in memory."""
        self._file_new(in_memory)
        found = []
        for entry in list(self._filed.values()):
            tensor = entry.ref()
            if tensor is not None and in_memory(tensor.uop):
                self._is_stored(entry.key)
            elif tensor is not None:
                found.append(tensor)
        return found

    def to_compute_at(
        self,
        in_memory: Callable[[UOp], bool],
        storage_of: StorageOf,
        written: Iterable[Buffer],
        used: Iterable[Buffer],
    ) -> list[Any]:
        """The tensors to compute that may look at memory out of written, or write to some of used.

        The work depends on what is found, and on what is new, not on how many tensors are held.
        """
        self._file_new(in_memory)
        for key, tensor in self._waiting.unfiled():
            if in_memory(tensor.uop):
                self._is_stored(key)
            else:
                self._waiting.file(key, storage_of(tensor.uop))
        return list(self._waiting.touching(written, used).values())

    def lying_in(
        self,
        in_memory: Callable[[UOp], bool],
        memory: Collection[object],
        memory_of: Callable[[UOp], Iterable[object]],
    ) -> list[Any]:
        """The tensors whose values lie in some of the memory."""
        if not memory:
            return []
        self._file_new(in_memory)
        for key in list(self._stored):  # tensors come and go at any time, here too
            ref = self._stored.pop(key, None)  # it is filed nowhere else
            tensor = None if ref is None else ref()
            if ref is not None and tensor is not None:
                self._memory[key] = tuple(map(id, memory_of(tensor.uop)))
                for place in self._memory[key]:
                    self._by_memory.setdefault(place, {})[key] = ref
        found: dict[int, Any] = {}
        for m in memory:
            for ref in list(self._by_memory.get(id(m), {}).values()):
                if (tensor := ref()) is not None:
                    found[id(tensor)] = tensor
        return list(found.values())

    def _file_new(self, in_memory: Callable[[UOp], bool]) -> None:
        for key in list(self._new):
            ref = self._new.pop(key, None)
            tensor = None if ref is None else ref()
            if ref is None or tensor is None:
                continue
            try:
                self._file(key, ref, tensor, in_memory)
            except BaseException:  # a Ctrl-C: it is filed next time
                self._new.setdefault(key, ref)
                raise

    def _file(self, key: int, ref: Any, tensor: Any, in_memory: Callable[[UOp], bool]) -> None:
        self._drop(key)
        if in_memory(tensor.uop):
            self._stored[key] = ref
            return
        entry = self._filed[key] = _Pending(key, ref, tensor._marks)
        self._waiting.note(key, ref)
        for n in self._places(entry.marks):
            self._by_bit[n][key] = entry

    def _is_stored(self, key: int) -> None:
        """What was to be computed lies in memory."""
        ref = self._refs.get(key)
        self._drop(key)
        if ref is not None:
            self._stored[key] = ref

    def _drop(self, key: int) -> None:
        self._waiting.drop(key)
        self._stored.pop(key, None)
        entry = self._filed.pop(key, None)
        if entry is not None:
            for n in self._places(entry.marks):
                self._by_bit[n].pop(key, None)
        for place in self._memory.pop(key, ()):
            there = self._by_memory.get(place)
            if there is not None:
                there.pop(key, None)
                if not there:
                    self._by_memory.pop(place, None)

    def _places(self, marks: int) -> Iterable[int]:
        """Where a tensor with these marks is filed."""
        if marks == ANYTHING or marks.bit_count() > _MARKS // 2:
            return (_MARKS,)
        return _bits(marks)

    def __iter__(self) -> Iterator[Any]:
        return (t for ref in list(self._refs.values()) if (t := ref()) is not None)

    def __len__(self) -> int:
        return len(self._refs)

    def __contains__(self, tensor: object) -> bool:
        return id(tensor) in self._refs


live = Live()
