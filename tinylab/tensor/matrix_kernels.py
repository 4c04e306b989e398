"""Decompositions as kernels written in uops: each works through a matrix in place, in order.

Matrices are transposed, so that what is turned, mirrored and summed lies side by side. A batch of
them is the outermost loop, which threads may share; all other loops are in order. Bounds depend on
the loops around them, and on what was found so far: a matrix that is done takes no more sweeps.
"""

from __future__ import annotations

from typing import NamedTuple

from tinylab.dtype import AddrSpace, dtypes
from tinylab.mixin.base import Size
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.ops import KernelInfo, UOp

# Sweeps over all pairs of columns after which a matrix is left as it is; 6 to 12 are usual.
MOST_SWEEPS = 40
# What is smaller in a matrix whose largest element is near 1 is not worth a mirror.
NOTHING = 2.0**-100


def _number(n: int) -> UOp:
    return UOp.const(n, dtypes.weakint)


def _magnitude(x: UOp) -> UOp:
    return (x < 0).where(x * -1.0, x)


def _loop(end: Size, axis: int) -> UOp:
    """A loop whose steps build on each other."""
    return UOp.range(end, axis, AxisType.LOOP)


def _sum(value: UOp, r: UOp) -> UOp:
    return value.reduce(r, arg=Ops.ADD)


def _register(slot: int, start: int, inside: UOp) -> UOp:
    """An integer in a register, set at each step of a loop."""
    return UOp.placeholder((1,), dtypes.int32, slot, AddrSpace.REG).after(inside)[0].set(start)


class _Turn(NamedTuple):
    """A rotation by sine s, s / (1 + cosine) half; turns: whether it is one; swaps: its order."""

    s: UOp
    half: UOp
    turns: UOp
    swaps: UOp

    def of(self, x: UOp, y: UOp) -> tuple[UOp, UOp]:
        """The two turned, the longer first. Small angles change them by little, so round little.

        Source: Rutishauser, "The Jacobi method for real symmetric matrices", 1966.
        """
        one, two = x - self.s * (y + self.half * x), y + self.s * (x - self.half * y)
        return self.swaps.where(two, one), self.swaps.where(one, two)


def _turn_to_right_angles(alpha: UOp, beta: UOp, gamma: UOp, near: float) -> _Turn:
    """For two columns with squares alpha, beta and product gamma; none where that is near 0."""
    turns = alpha.sqrt() * beta.sqrt() * near < _magnitude(gamma)
    zeta = (beta - alpha) / (turns.where(gamma, 1.0) * 2.0)
    t = (_magnitude(zeta) + (zeta * zeta + 1.0).sqrt()).reciprocal()
    t = turns.where((zeta < 0).where(t * -1.0, t), 0.0)
    c = (t * t + 1.0).sqrt().reciprocal()
    return _Turn(c * t, c * t / (c + 1.0), turns, alpha - t * gamma < beta + t * gamma)


def orthogonal_columns(out: UOp, a: UOp, near: float) -> UOp:
    """(b, n, m) columns -> (b, n, m + n): at right angles, the longest first; then the turns made.

    A V and V of each matrix A of m >= n rows, transposed. Two columns count as at right angles when
    the cosine between them is at most `near`. NaN turns nothing.

    Source: Hestenes, "Inversion of matrices by biorthogonalization and related results", 1958; the
    order: Nash, "A one-sided transformation method for the singular value decomposition", 1975.
    """
    batches, n, m = a.shape
    b, i, j = UOp.range(batches, 0), _loop(n, 1), _loop(m + n, 2)
    one = (j - m).eq(i).cast(out.dtype)
    start = (j < m).where(a[b, i, j.valid(j < m)], one)
    out = out.after(out[b, i, j].store(start).end(i, j))
    go_on = _register(0, 1, b)
    sweep = _loop(MOST_SWEEPS, 3)
    turned = _register(1, 0, sweep)
    p = _loop(go_on.after(sweep)[0].ne(0).where(_number(n - 1), _number(0)), 4)
    rest = _loop(p * -1 + (n - 1), 5)
    q = p + rest + 1
    both = out.after(sweep, p, rest)
    r = UOp.range(m, 6, AxisType.REDUCE)
    x, y = both[b, p, r], both[b, q, r]
    turn = _turn_to_right_angles(_sum(x * x, r), _sum(y * y, r), _sum(x * y, r), near)
    k = _loop(m + n, 7)
    x, y = turn.of(both.after(k)[b, p, k], both.after(k)[b, q, k])
    stored = UOp.group(both[b, p, k].store(x), both[b, q, k].store(y)).end(k)
    count = turned.after(rest)[0]
    pairs = UOp.group(stored, count.store(count + turn.turns.cast(dtypes.int32))).end(rest).end(p)
    again = go_on[0].store(turned.after(pairs)[0])
    return again.end(sweep).end(b).sink(arg=KernelInfo(name=f"svd_{m}_{n}"))


def reflected_triangle(q: UOp, r: UOp, mirrors: UOp, a: UOp) -> UOp:
    """(b, n, m) columns -> columns (b, n, m) of R, and as many (b, w, m) of Q as there is room for.

    mirrors: room for the (b, min(m, n), m) normals. Below its diagonal R is not cleaned. A column
    that is 0 below the diagonal is not mirrored, as in LAPACK.

    Source: Householder, "Unitary triangularization of a nonsymmetric matrix", 1958.
    """
    batches, n, m = a.shape
    steps = mirrors.shape[1]
    b, i, j = UOp.range(batches, 0), _loop(n, 1), _loop(m, 2)
    r = r.after(r[b, i, j].store(a[b, i, j]).end(i, j))
    step = _loop(steps, 3)
    normals = mirrors.after(_normal(mirrors, r.after(step), b, step))
    column = _loop(step * -1 + n, 6)
    triangle = _mirrored(normals, r.after(column), b, step, step + column).end(column).end(step)
    c, d = _loop(q.shape[1], 9), _loop(m, 10)
    q = q.after(triangle)
    q = q.after(q[b, c, d].store(c.eq(d).cast(q.dtype)).end(c, d))
    last, row = _loop(steps, 11), _loop(q.shape[1], 12)
    normals = mirrors.after(triangle).after(last)
    back = _mirrored(normals, q.after(row), b, last * -1 + (steps - 1), row, 13).end(row).end(last)
    return back.end(b).sink(arg=KernelInfo(name=f"qr_{m}_{n}"))


def _normal(mirrors: UOp, r: UOp, b: UOp, step: UOp) -> UOp:
    """The store of the unit normal of the mirror that clears a column below the diagonal."""
    m = r.shape[-1]
    below = UOp.range(step * -1 + (m - 1), 4, AxisType.REDUCE)
    head, other = r[b, step, step], r[b, step, step + below + 1]
    most = _magnitude(other).reduce(below, arg=Ops.MAX)
    bare = most < NOTHING
    # Squares are taken of numbers around 1.
    size = bare.where(1.0, most.alu(Ops.MAX, _magnitude(head))).reciprocal()
    head, other = head * size, other * size
    rest = _sum(other * other, below)
    norm = (head * head + rest).sqrt()
    first = head + (head < 0).where(norm * -1.0, norm)
    length = bare.where(1.0, first * first + rest).sqrt()
    scale = bare.where(0.0, length.reciprocal())
    i = _loop(m, 5)
    at = i.eq(step).where(first, r.after(i)[b, step, i] * size)
    return mirrors[b, step, i].store((i < step).where(0.0, at * scale)).end(i)


def _mirrored(normals: UOp, x: UOp, b: UOp, step: UOp, row: UOp, axis: int = 7) -> UOp:
    """The store of a row of x seen in a mirror, whose normal is 0 before place `step`."""
    m = x.shape[-1]
    r = UOp.range(step * -1 + m, axis, AxisType.REDUCE)
    twice = _sum(normals[b, step, step + r] * x[b, row, step + r], r) * 2.0
    k = _loop(step * -1 + m, axis + 1)
    there = x.after(k)[b, row, step + k]
    return x[b, row, step + k].store(there - twice * normals[b, step, step + k]).end(k)


def solved_rows(out: UOp, upper: UOp, rows: UOp) -> UOp:
    """(b, n, n) upper triangles U, (b, k, n) rows g -> rows x with U x = g."""
    batches, count, n = rows.shape
    b, row = UOp.range(batches, 0), UOp.range(count, 1)
    k = _loop(n, 2)
    out = out.after(out[b, row, k].store(rows[b, row, k]).end(k))
    step = _loop(n, 3)
    found = out.after(step)
    i = step * -1 + (n - 1)
    known = UOp.range(step, 4, AxisType.REDUCE)
    j = i + known + 1  # what the steps before this one have found
    done = _sum(upper[b, i, j] * found[b, row, j], known)
    stored = found[b, row, i].store((found[b, row, i] - done) / upper[b, i, i])
    return stored.end(step).end(row).end(b).sink(arg=KernelInfo(name=f"solve_{n}"))
