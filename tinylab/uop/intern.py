"""The table that makes nodes unique: the same five fields give the same object.

One look-up in a dictionary of weak references; only a miss takes the lock, so several threads may
build graphs at once.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from sys import is_finalizing
from typing import TYPE_CHECKING, Any

from tinylab.dtype import DType, dtypes
from tinylab.opcodes import Ops

if TYPE_CHECKING:
    from tinylab.uop.node import UOp

Key = tuple[Ops, DType, tuple["UOp", ...], Any, Any]


class _Entry(weakref.ref["UOp"]):
    """A weak reference that knows its place in the table, so that it can leave it."""

    __slots__ = ("key",)
    key: Key


cache: dict[Key, _Entry] = {}
_lock = threading.RLock()  # re-entrant: a finalizer run inside may make nodes
# Called with each new node while SPEC >= 2.
check_node: list[Callable[[UOp], None]] = []
# Gradient functions and other callables that a node refers to by number.
callables: dict[int, Callable[..., Any]] = {}
_callable_numbers: dict[int, int] = {}  # by id: what is in `callables` lives as long as the process


_node_type: type[UOp]


def set_node_type(node_type: type[UOp]) -> None:
    """Say what class nodes have; called once, by the module that defines it."""
    global _node_type
    _node_type = node_type


def callable_number(function: Callable[..., Any]) -> int:
    """The number of a callable: the same one has the same, so that equal calls are equal nodes."""
    with _lock:
        number = _callable_numbers.setdefault(id(function), len(callables))
        callables.setdefault(number, function)
    return number


def _forget(
    entry: _Entry, table: dict[Key, _Entry] = cache, at_exit: Callable[[], bool] = is_finalizing
) -> None:
    # By argument: at exit names go before the last node does, also those that keys compare with.
    if not at_exit() and table.get(entry.key) is entry:
        del table[entry.key]


def carry_metadata(old: UOp, new: UOp) -> UOp:
    """A node that takes another's place, made by the same tensor methods."""
    metadata = old.metadata
    if metadata is not None and new.metadata is None:
        new.metadata = metadata
    return new


def is_size(x: UOp) -> bool:
    """Whether a node is part of a shape, or a place: many values share it."""
    return x.dtype is dtypes.weakint or (x.op is Ops.STACK and not x.src)


# Storage, reading it, literals, loops and the bodies of kernels belong to no method.
_OF_NO_METHOD = frozenset(
    {Ops.BUFFER, Ops.PARAM, Ops.CONST, Ops.RANGE, Ops.INDEX, Ops.SINK, Ops.PROGRAM, Ops.LINEAR}
)


def hand_on_metadata(old: UOp, new: UOp) -> None:
    """All that was made for another node's place comes from the tensor methods that it came from.

    Nodes that have methods keep theirs, so each is visited once, whatever rules make.
    """
    metadata = old.metadata
    known, stack = {old, *old.src}, [new]
    while stack:
        x = stack.pop()
        if x in known or x.metadata is not None or x.op in _OF_NO_METHOD:
            continue
        known.add(x)
        if is_size(x):
            continue
        if x.op is Ops.AFTER:  # who reads what was stored is another method
            stack.extend(x.src[1:])  # the state before may be a chain of any length
        else:
            x.metadata = metadata
            stack.extend(x.src)


def make(op: Ops, dtype: DType, src: tuple[UOp, ...] = (), arg: Any = None, tag: Any = None) -> UOp:
    """The one node with these five fields."""
    key = (op, dtype, src, arg, tag)
    entry = cache.get(key)
    if entry is not None:
        node = entry()
        if node is not None:
            return node
    with _lock:
        entry = cache.get(key)
        node = None if entry is None else entry()
        if node is not None:
            return node
        node = object.__new__(_node_type)
        node.op, node.dtype, node.src, node.arg, node.tag = key
        entry = _Entry(node, _forget)
        entry.key = key
        cache[key] = entry
    for check in check_node:
        check(node)
    return node
