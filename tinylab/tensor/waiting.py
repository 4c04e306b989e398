"""The tensors whose values wait, by the memory that their graphs look at."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tinylab.device import Buffer
from tinylab.engine.buffers import memories_of, memory_given
from tinylab.engine.captured import storage_below
from tinylab.engine.realize import to_store
from tinylab.opcodes import Ops
from tinylab.schedule.effects import buffer_below
from tinylab.uop.ops import UOp

_Refs = dict[int, "weakref.ref[Any]"]
_Table = dict[int, _Refs]


class Storage(NamedTuple):
    """The BUFFER nodes that an expression looks at, and those that it writes to."""

    all: frozenset[UOp]
    targets: frozenset[UOp]


_storage: weakref.WeakKeyDictionary[UOp, Storage] = weakref.WeakKeyDictionary()


def _look(uop: UOp) -> Storage:
    order = [x for x in uop.toposort(enter_calls=False) if not x.is_bound_var]
    buffers = frozenset(x for x in order if x.op is Ops.BUFFER and not x.is_variable)
    return Storage(buffers, buffers & {buffer_below(x) for x in order if x.op is Ops.AFTER})


def storage_looked_at(uop: UOp) -> Storage:
    """What an expression looks at, kept while it is there; no BUFFER, which would keep itself."""
    found = _storage.get(uop)
    if found is None:
        found = _storage[uop] = _look(uop)
    return found


def is_stored(uop: UOp) -> bool:
    """Whether a value is a view of memory."""
    return to_store(uop) is None


def memory_under(uop: UOp) -> list[Buffer]:
    """The memory (bases) that a stored value lies in."""
    below = uop if uop.op is Ops.BUFFER else storage_below(uop)
    if isinstance(below._buffer, Buffer):  # most often, and each result of a replay is asked
        return [below._buffer.base]
    if below.op is not Ops.BUFFER or below.is_variable:
        return []
    return [m.base for m in memories_of(below)]


class Waiting:
    """Tensors, by identity and weakly, under the memory (bases) that they read and write.

    They are filed when someone asks. Memory is told apart by its id: what is found may have gone
    elsewhere meanwhile, so whoever asks looks again.
    """

    def __init__(self) -> None:
        self._unfiled: _Refs = {}
        self._readers: _Table = {}
        self._writers: _Table = {}
        # Those that look at a node that has no memory yet: filed again when it gets some.
        self._nowhere: _Table = {}
        self._filed: dict[int, list[tuple[_Table, int]]] = {}
        memory_given.append(self._placed)

    def note(self, key: int, ref: weakref.ref[Any]) -> None:
        """A tensor waits, or looks at something else now."""
        self._unfiled[key] = ref

    def drop(self, key: int) -> None:
        """A tensor is gone, or its value is in memory."""
        self._unfiled.pop(key, None)
        for table, place in self._filed.pop(key, ()):
            there = table.get(place)
            if there is not None:
                there.pop(key, None)
                if not there:
                    table.pop(place, None)

    def unfiled(self) -> Iterator[tuple[int, Any]]:
        """(identity, tensor) of those that are not filed: whoever asks files them, or drops."""
        for key in list(self._unfiled):  # tensors come and go at any time
            ref = self._unfiled.get(key)
            tensor = None if ref is None else ref()
            if tensor is not None:
                yield key, tensor

    def file(self, key: int, storage: Storage) -> None:
        """File a tensor under what it looks at."""
        ref = self._unfiled[key]
        try:
            self._file(key, ref, storage)
        except BaseException:  # a Ctrl-C: it is filed next time
            self._unfiled[key] = ref
            raise

    def _file(self, key: int, ref: weakref.ref[Any], storage: Storage) -> None:
        self.drop(key)
        places = self._filed[key] = []
        for node in storage.all:
            if node._buffer is None:
                places.append((self._nowhere, id(node)))
                continue
            found = [id(m.base) for m in memories_of(node)]
            places += [(self._readers, m) for m in found]
            if node in storage.targets:
                places += [(self._writers, m) for m in found]
        for table, place in places:
            table.setdefault(place, {})[key] = ref

    def touching(self, written: Iterable[Buffer], used: Iterable[Buffer]) -> dict[int, Any]:
        """The filed tensors that look at memory out of written, or write to some out of used."""
        found = [self._readers.get(id(m)) for m in written]
        if self._writers:
            found += [self._writers.get(id(m)) for m in used]
        refs = [pair for there in found if there for pair in list(there.items())]
        return {key: tensor for key, ref in refs if (tensor := ref()) is not None}

    def _placed(self, node: UOp) -> None:
        """A BUFFER node has memory from now on."""
        for key, ref in list(self._nowhere.get(id(node), {}).items()):
            self.note(key, ref)


StorageOf = Callable[[UOp], Storage]
