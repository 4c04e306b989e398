"""Stand-ins for what a file holds and tinylab has no counterpart for, and the words for them."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from tinylab.errors import FileFormatError
from tinylab.helpers.text import without_controls

_MOST_SAID = 6


class Known:
    """A function that a pickle may call; it takes no state, so a pickle cannot change it.

    kind: the Python class that it makes, None where it makes no such thing.
    """

    __slots__ = ("call", "kind", "what")

    def __init__(self, what: str, call: Callable[..., Any], kind: type | None = None) -> None:
        self.what, self.call, self.kind = what, call, kind

    def __call__(self, *args: Any) -> Any:
        """What the function gives."""
        return self.call(*args)

    def __repr__(self) -> str:
        return f"<stand-in for {self.what}>"

    def __setstate__(self, state: Any) -> None:
        raise FileFormatError("damaged file: it changes a function")


class StrangerKind(type):
    """A class of stand-ins, for one foreign class."""

    what: str

    def __repr__(cls) -> str:
        return f"<stand-in for {cls.what}>"


class Stranger(metaclass=StrangerKind):
    """What stands for an object of a class that is not known: inert.

    what: the class' name. args: what it was made with. state: its attributes, None without any.
    items: what was put into it, pairs where it had keys.
    """

    what = "an unknown class"
    args: tuple[Any, ...]
    state: Any
    items: list[Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Stranger:
        """One of a class, or what calling an instance would make: a pickle may ask for both."""
        kind = cls if isinstance(cls, type) else type(cls)
        made = object.__new__(kind)
        made.args = (*args, *kwargs.items())
        made.state, made.items = None, []
        return made

    def __call__(self, *args: Any) -> Stranger:
        """Another stand-in: nothing is called."""
        return type(self)(*self.args, *args)

    def __repr__(self) -> str:
        return f"<Stranger for {self.what}>"

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        """Keep an item."""
        self.items.append((key, value))

    def append(self, item: Any) -> None:
        """Keep an item."""
        self.items.append(item)

    def extend(self, items: Any) -> None:
        """Keep items."""
        self.items.extend(items)

    def add(self, item: Any) -> None:
        """Keep an item."""
        self.items.append(item)


def stranger_kind(what: str) -> StrangerKind:
    """The stand-ins for what is called so."""
    return StrangerKind("Stranger", (Stranger,), {"what": without_controls(what)[:120]})


# *** what is said of them


class Place:
    """Where something lies in what was loaded: ['model']['weight']."""

    __slots__ = ("above", "step")

    def __init__(self, above: Place | None = None, step: str = "") -> None:
        self.above, self.step = above, step

    def __str__(self) -> str:
        steps, place = [], self
        while place.above is not None:
            steps.append(place.step)
            place = place.above
        return "".join(reversed(steps)) or "the whole"

    def at(self, key: Any) -> Place:
        """The place of an item."""
        text = repr(key)
        return Place(self, f"[{text if len(text) <= 40 else text[:37] + '...'}]")


class Notes:
    """What differs from what was saved, said once, with where it lies."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[Any, str]] = {}

    def add(self, value: Any, text: str) -> None:
        """Note something about a value: "has lost its attribute 'tag'"."""
        known = self._of.get(id(value))
        self._of[id(value)] = (value, f"{known[1]} and {text}" if known else text)

    def about(self, value: Any) -> str | None:
        """What is to be said about a value."""
        if isinstance(value, Stranger):
            return f"is a Stranger that stands for {value.what}"
        if isinstance(value, (StrangerKind, Known)):
            return f"stands for {value.what}"
        known = self._of.get(id(value))
        return None if known is None else known[1]

    def warn(self, found: Any, what: str, stacklevel: int) -> None:
        """Say what differs, in one warning."""
        said = [f"{place} {text}" for place, text in self._differing(found)]
        if said:
            more = f", and {len(said) - _MOST_SAID} more" if len(said) > _MOST_SAID else ""
            text = f"{what} holds what tinylab has no counterpart for: "
            text += "; ".join(said[:_MOST_SAID]) + more
            warnings.warn(text, stacklevel=stacklevel + 1)

    def _differing(self, found: Any) -> Iterator[tuple[Place, str]]:
        left, seen = [(Place(), found)], set()
        while left:
            place, value = left.pop()
            if id(value) in seen:
                continue
            text = self.about(value)
            if text is not None:
                seen.add(id(value))
                yield place, text
            elif isinstance(value, (dict, list, tuple, set, frozenset, deque)):
                seen.add(id(value))
                items = value.items() if isinstance(value, dict) else enumerate(value)
                left.extend(reversed([(place.at(key), item) for key, item in items]))
