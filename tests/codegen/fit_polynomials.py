"""Fits the polynomials of codegen/transcendental.py, double_powers.py and of mixin/approximations.

Minimax by the exchange of Remez, in mpmath. Run it by hand after changing a degree or an interval;
it prints coefficients, highest power first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp

mp.mp.dps = 60


def remez(
    f: Callable[[Any], Any], weight: Callable[[Any], Any], lo: Any, hi: Any, degree: int
) -> list[Any]:
    """Coefficients, lowest first, of the polynomial with the least weighted error."""
    count = degree + 2
    points = [
        (lo + hi) / 2 + (hi - lo) / 2 * mp.cos(mp.pi * (count - 1 - i) / (count - 1))
        for i in range(count)
    ]
    found: list[Any] = []
    for _ in range(12):
        rows = mp.matrix(count, count)
        right = mp.matrix(count, 1)
        for i, x in enumerate(points):
            for j in range(degree + 1):
                rows[i, j] = x**j
            rows[i, degree + 1] = (-1) ** i / weight(x)
            right[i] = f(x)
        solved = mp.lu_solve(rows, right)
        found = [solved[i] for i in range(degree + 1)]

        def error(x: Any, c: list[Any] = found) -> Any:
            return (mp.polyval(c[::-1], x) - f(x)) * weight(x)

        grid = [lo + (hi - lo) * mp.mpf(i) / 1000 for i in range(1001)]
        values = [error(x) for x in grid]
        peaks = [
            i
            for i in range(1001)
            if (i == 0 or abs(values[i]) >= abs(values[i - 1]) or values[i] * values[i - 1] < 0)
            and (i == 1000 or abs(values[i]) >= abs(values[i + 1]) or values[i] * values[i + 1] < 0)
        ]
        kept: list[int] = []
        for i in peaks:
            if kept and values[i] * values[kept[-1]] > 0:
                if abs(values[i]) > abs(values[kept[-1]]):
                    kept[-1] = i
            else:
                kept.append(i)
        if len(kept) < count:
            break
        while len(kept) > count:
            kept.pop(0 if abs(values[kept[0]]) < abs(values[kept[-1]]) else -1)
        points = [grid[i] for i in kept]
    return found


def show(name: str, f: Any, weight: Any, lo: Any, hi: Any, degree: int) -> None:
    c = remez(f, weight, mp.mpf(lo), mp.mpf(hi), degree)
    grid = [mp.mpf(lo) + (mp.mpf(hi) - mp.mpf(lo)) * i / 777 for i in range(778)]
    worst = max(abs((mp.polyval(c[::-1], x) - f(x)) * weight(x)) for x in grid)
    print(f"{name}: degree {degree}, error {mp.nstr(worst, 3)}")
    print("   ", ", ".join(repr(float(x)) for x in reversed(c)))


def _log_rest(z: mp.mpf) -> mp.mpf:
    """(3 atanh(s) / s - 3 - z) / z**2 of z = s*s."""
    if z <= 1e-12:
        return mp.mpf(3) / 5
    return (mp.atanh(mp.sqrt(z)) * 3 / mp.sqrt(z) - 3 - z) / z**2


def _atan(z: mp.mpf) -> mp.mpf:
    """atan(x) / x of z = x*x."""
    return mp.atan(mp.sqrt(z)) / mp.sqrt(z) if z > 1e-20 else 1 - z / 3


def main() -> None:
    one = lambda x: mp.mpf(1)  # noqa: E731
    ln2 = mp.log(2)
    for name, degree in (("f32", 5), ("f64", 10)):
        # 2**r = 1 + r * p(r)
        f = lambda r: (mp.power(2, r) - 1) / r if r else ln2  # noqa: E731
        show(f"exp2 {name}", f, lambda r: abs(r) + mp.mpf(10) ** -9, -0.5, 0.5, degree)
        g = lambda r: (mp.e**r - 1 - r) / r**2 if abs(r) > 1e-12 else mp.mpf(1) / 2  # noqa: E731
        show(f"exp {name}", g, lambda r: r**2 + mp.mpf(10) ** -9, -ln2 / 2, ln2 / 2, degree - 1)
    lo, hi = mp.sqrt(0.5) - 1, mp.sqrt(2) - 1
    f = lambda x: mp.log(1 + x, 2) / x if abs(x) > 1e-20 else 1 / ln2  # noqa: E731
    show("log2 f32", f, lambda x: 1 / f(x), lo, hi, 9)
    # log2((1 + s) / (1 - s)) = s * p(s*s)
    g = lambda z: mp.log((1 + mp.sqrt(z)) / (1 - mp.sqrt(z)), 2) / mp.sqrt(z) if z else 2 / ln2  # noqa: E731
    show("log2 f64", g, one, 0, 0.02944, 8)
    # 3/2 log((1 + s) / (1 - s)) / s = 3 + z + z*z*p(z) with z = s*s
    show("pow f64", _log_rest, lambda z: z**2 + mp.mpf(10) ** -12, 0, 0.02944, 6)
    # atan(x) = x p(x*x), p(0) = 1
    show("atan f32", _atan, lambda z: 1 / _atan(z), 0, 0.1837, 6)
    # erf(x) = x + x p(x*x); log(erfc(t)) = t p(t) - t*t, and erfc itself to 4e-5 for gradients
    f = lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1 if z > 1e-20 else 2 / mp.sqrt(mp.pi) - 1  # noqa: E731
    show("erf f32", f, lambda z: 1 / (f(z) + 1), 0, 0.81, 5)
    g = lambda t: mp.log(mp.erfc(t)) / t + t  # noqa: E731
    show("erfc f32", g, lambda t: t * (mp.erfc(t) / mp.erf(t) + 1e-4), 0.9, 6, 7)
    edge = (mp.pi / 4) ** 2
    for name, sins, coss in (("f32", 2, 2), ("f64", 6, 6)):
        f = lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z if z > 1e-18 else -mp.mpf(1) / 6  # noqa: E731
        show(f"sin {name}", f, lambda z: z + mp.mpf(10) ** -9, 0, edge, sins)
        g = lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2 if z > 1e-14 else mp.mpf(1) / 24  # noqa: E731
        show(f"cos {name}", g, lambda z: z**2 + mp.mpf(10) ** -9, 0, edge, coss)


if __name__ == "__main__":
    main()
