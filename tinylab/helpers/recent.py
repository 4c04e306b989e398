"""A dict that keeps what was used last."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(OrderedDict[K, V]):
    """At most so many entries, or entries that weigh so much; the longest unused goes first.

    The one that was kept last stays, whatever it weighs. Who uses a value that went has it still.
    """

    def __init__(self, most: int, weigh: Callable[[V], int] | None = None) -> None:
        super().__init__()
        self.most = most
        self._weigh = weigh
        self._weights: dict[K, int] = {}  # what each weighed when it was kept
        self._total = 0

    def find(self, key: K) -> V | None:
        """The value of a key, which counts as use; None where there is none."""
        found = self.get(key)
        if found is not None:
            with contextlib.suppress(KeyError):  # it went, for what other threads kept meanwhile
                self.move_to_end(key)
        return found

    def keep(self, key: K, value: V) -> V:
        """Keep a value, and let go of what is too much."""
        self.pop(key, None)
        self._forget(key)
        self[key] = value
        if self._weigh is not None:
            self._weights[key] = weight = self._weigh(value)
            self._total += weight
        while len(self) > 1 and self.weight() > self.most:
            self._forget(self.popitem(last=False)[0])
        return value

    def clear(self) -> None:
        """Let go of everything."""
        super().clear()
        self._weights.clear()
        self._total = 0

    def weight(self) -> int:
        """What all entries weigh; without a measure each is 1."""
        return len(self) if self._weigh is None else self._total

    def _forget(self, key: K) -> None:
        self._total -= self._weights.pop(key, 0)
