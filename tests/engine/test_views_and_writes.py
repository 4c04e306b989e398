"""Views of a tensor and later writes to it: a view keeps the value that it was built with.

All combinations of a few looks, one or two deep, realised before the write or not; the write to the
whole or a part, or reading itself; who is computed first; with and without JIT. numpy is the judge,
by value: a look is a copy there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from tinylab import Tensor, TinyJit, dtypes

Look = tuple[Callable[[Tensor], Tensor], Callable[[np.ndarray], np.ndarray]]


def _bits(name: str) -> Look:
    return (
        lambda t: t.bitcast(getattr(dtypes, name)),
        lambda x: np.ascontiguousarray(x).view(getattr(np, name)),
    )


# Of a (4, 4) of int32, and of what another look leaves of it: two axes, the last one even.
# fmt: off
LOOKS: dict[str, Look] = {
    "float32": _bits("float32"),
    "int16": _bits("int16"),
    "int64": _bits("int64"),
    "slice": (lambda t: t[1:3], lambda x: x[1:3]),
    "strided": (lambda t: t[::2], lambda x: x[::2]),
    "columns": (lambda t: t[:, 2:4], lambda x: x[:, 2:4]),
    "reshape": (lambda t: t.reshape(2, -1), lambda x: x.reshape(2, -1)),
    "permute": (lambda t: t.permute(1, 0), lambda x: x.T),
    "flip": (lambda t: t.flip(0), lambda x: x[::-1]),
}
# fmt: on


def _whole(t: Tensor) -> None:
    t.assign(Tensor(np.arange(100, 116, dtype=np.int32).reshape(4, 4)))


def _np_whole(x: np.ndarray) -> None:
    x[:] = np.arange(100, 116, dtype=np.int32).reshape(4, 4)


def _part(t: Tensor) -> None:
    t[1] = 7


def _np_part(x: np.ndarray) -> None:
    x[1] = 7


def _own(t: Tensor) -> None:
    t += t.T


def _np_own(x: np.ndarray) -> None:
    x[:] = x + x.T


WRITES = {"whole": (_whole, _np_whole), "part": (_part, _np_part), "reads itself": (_own, _np_own)}
CHAINS = [*((a,) for a in LOOKS), *itertools.permutations(LOOKS, 2)]
BITS = {"float32", "int16", "int64"}


def _looked(t: Tensor, chain: tuple[str, ...]) -> Tensor:
    for name in chain:
        t = LOOKS[name][0](t)
    return t


def _copy(x: np.ndarray, chain: tuple[str, ...]) -> np.ndarray:
    for name in chain:
        x = LOOKS[name][1](x)
    return x.copy()


def _same_bits(found: Tensor, want: np.ndarray) -> None:
    got = found.numpy()
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert got.tobytes() == want.tobytes(), f"{got} instead of {want}"


DATA = np.arange(1, 17, dtype=np.int32).reshape(4, 4)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("chain", CHAINS, ids="-".join)
def test_a_view_keeps_what_it_was_built_with(chain: tuple[str, ...], write: str):
    change, np_change = WRITES[write]
    new = DATA.copy()
    np_change(new)
    kept = _copy(DATA, chain)
    for stored, realised, view_first in itertools.product((True, False), repeat=3):
        t = Tensor(DATA.copy()).realize() if stored else Tensor(DATA.copy()) * 1
        view = _looked(t, chain)
        if realised:
            view.realize()
        change(t)
        for x in (view, t) if view_first else (t, view):
            x.realize()
        _same_bits(view, kept)
        _same_bits(t, new)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("chain", [c for c in CHAINS if BITS & {*c}], ids="-".join)
def test_a_view_keeps_what_it_was_built_with_in_a_captured_function(
    chain: tuple[str, ...], write: str
):
    change, np_change = WRITES[write]
    for realised in (True, False):
        state = Tensor(DATA.copy()).realize()
        new = DATA.copy()

        @TinyJit
        def step(
            x: Tensor, state: Tensor = state, realised: bool = realised
        ) -> tuple[Tensor, Tensor]:
            view = _looked(state, chain)
            if realised:
                view.realize()
            change(state)
            state.assign(state + x)
            return view, state

        seen = []
        for n in range(4):
            outside = _looked(state, chain)
            if realised:
                outside.realize()
            kept = _copy(new, chain)
            np_change(new)
            new += n
            found, after = step(Tensor(np.full((4, 4), n, np.int32)).realize())
            seen.append((outside, kept))
            seen.append((found, kept))
            seen.append((after, new.copy()))
            _same_bits(state, new)
        for got, want in seen:
            _same_bits(got, want)


def test_a_view_without_elements_waits_for_nothing():
    t = Tensor(DATA.copy()).realize()
    empty, more = t[:0] + 1, t.bitcast(dtypes.int64)[:, 2:4]
    t.assign(t + 1)
    assert t.tolist() == (DATA + 1).tolist()
    assert (empty.shape, empty.tolist(), more.tolist()) == ((0, 4), [], [[], [], [], []])
