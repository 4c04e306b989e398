"""Products of matrices, Einstein sums, and decompositions."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tinylab.dtype import (
    DTypeLike,
    dtypes,
    least_upper_dtype,
    strong_dtype,
    sum_acc_dtype,
    to_dtype,
)
from tinylab.errors import OperandError, ShapeError
from tinylab.helpers.seq import argfix
from tinylab.mixin.base import same_size, shape_text, size_text
from tinylab.mixin.indexing import IndexingMixin
from tinylab.opcodes import Ops

if TYPE_CHECKING:
    from typing import Self

S = TypeVar("S", bound="LinalgMixin")


class LinalgMixin(IndexingMixin):
    """Linear algebra over the last two axes; the axes before are batches and broadcast."""

    __slots__ = ()

    def dot(self, w: Self, dtype: DTypeLike | None = None) -> Self:
        """The product over self's last axis and w's last but one (or only) axis.

        (2, 3).dot((3, 4)) -> (2, 4);  (5, 2, 3).dot((3,)) -> (5, 2)

        Sums are kept in at least float32 and rounded once.

        Raises: ShapeError when the axes differ in size.
        """
        inner = -min(w.ndim, 2)
        if self.ndim == 0 or w.ndim == 0 or not same_size(self.shape[-1], w.shape[inner]):
            raise ShapeError(
                f"cannot dot {shape_text(self.shape)} and {shape_text(w.shape)}",
                help="the last size of the first must be the last but one of the second",
            )
        if w.ndim == 1:
            return _contract(self, w, dtype)
        # (…, M, 1, K) against (…, 1, N, K)
        right = w.transpose(-1, -2)
        if self.ndim == 1:
            return _contract(self, right, dtype)
        return _contract(self.unsqueeze(-2), right.unsqueeze(-3), dtype)

    def matmul(self, x: Self, reverse: bool = False, dtype: DTypeLike | None = None) -> Self:
        """self @ x; x @ self with reverse."""
        return x.dot(self, dtype) if reverse else self.dot(x, dtype)

    def __matmul__(self, x: Self) -> Self:
        return self.matmul(x)

    def __rmatmul__(self, x: Self) -> Self:
        return self.matmul(x, True)

    def linear(
        self, weight: Self, bias: Self | None = None, dtype: DTypeLike | None = None
    ) -> Self:
        """self @ weight + bias; a weight with one axis scales instead."""
        if dtype is not None:
            given = to_dtype(dtype)
            return self.cast(given).linear(weight.cast(given), bias and bias.cast(given))
        x = self.mul(weight) if weight.ndim == 1 else self.dot(weight)
        return x if bias is None else x.add(bias)

    # *** Einstein sums

    @classmethod
    def einsum(
        cls, formula: str, *operands: Self | Sequence[Self], dtype: DTypeLike | None = None
    ) -> Self:
        """A sum of products, named by letters.

        einsum("ij,jk->ik", a, b) is a @ b; einsum("ii->i", a) the diagonal

        Raises: OperandError when the formula does not fit the operands.
        """
        values: list[Self] = list(argfix(*operands))
        inputs, output = _parse_formula(formula, [v.ndim for v in values])
        prepared = [_diagonals(v, letters) for v, letters in zip(values, inputs, strict=True)]
        names = sorted({c for _, letters in prepared for c in letters})
        sizes = _letter_sizes(formula, prepared)
        missing = [c for c in output if c not in sizes]
        if missing:
            raise OperandError(
                f"einsum: output letter {missing[0]!r} is in no input of {formula!r}"
            )
        spread = [_spread(v, letters, names) for v, letters in prepared]
        product = spread[0]
        for v in spread[1:]:
            product = product * v
        product = product._broadcast_to(tuple(sizes[c] for c in names))
        gone = [i for i, c in enumerate(names) if c not in output]
        found = (product.sum(gone, dtype=dtype) if gone else product).cast(dtype or product.dtype)
        left = [c for c in names if c in output]
        ordered: Self = found.permute(tuple(left.index(c) for c in output))
        return ordered

    # *** decompositions

    def qr(self) -> tuple[Self, Self]:
        """(Q, R): orthogonal columns and an upper triangle whose product is self.

        Raises: ShapeError for fewer than two axes.
        Source: Householder, "Unitary triangularization of a nonsymmetric matrix", 1958.
        """
        if self.ndim < 2:
            raise ShapeError(f"qr: expected two or more dimensions, got {shape_text(self.shape)}")
        return _triangle(self._as_float(), self.shape[-2])

    def svd(self, full_matrices: bool = True) -> tuple[Self, Self, Self]:
        """(U, S, V): orthogonal matrices and singular values; self is U @ diag(S) @ V.

        Raises: ShapeError for fewer than two axes.
        Source: Hestenes, "Inversion of matrices by biorthogonalization and related results", 1958.
        """
        if self.ndim < 2:
            raise ShapeError(f"svd: expected two or more dimensions, got {shape_text(self.shape)}")
        rows, columns = self.shape[-2:]
        tall = self if rows >= columns else self.transpose(-2, -1)
        a = tall._as_float()
        # Squares of the largest element neither overflow nor vanish where it is 1.
        scale = a.abs().max((-2, -1), keepdim=True).detach()
        scale = (scale.eq(0) | scale.isfinite().logical_not()).where(1, scale)
        u, s, v = _one_sided_jacobi(a / scale)
        u, s = _complete(u, u.shape[-2 if full_matrices else -1]), s * scale.squeeze(-1)
        if rows >= columns:
            return u, s, v.transpose(-2, -1)
        return v, s, u.transpose(-2, -1)

    def newton_schulz(self, steps: int, params: tuple[int, ...], eps: float = 1e-07) -> Self:
        """The nearest orthogonal matrix, by steps of an odd polynomial.

        Raises: ShapeError for fewer than two axes.
        Source: Bernstein, Newhouse, "Old Optimizer, New Norm: An Anthology", 2024.
        """
        if self.ndim < 2:
            raise ShapeError(
                f"newton_schulz: expected two or more dimensions, got {shape_text(self.shape)}"
            )
        g = self / (self.square().sum((-2, -1), keepdim=True).sqrt() + eps)
        wide = self.shape[-2] > self.shape[-1]
        g = g.transpose(-2, -1) if wide else g
        for _ in range(steps):
            gram = g @ g.transpose(-2, -1)
            total, power = g * params[0], g
            for p in params[1:]:
                power = gram @ power
                total = total + power * p
            g = total
        return g.transpose(-2, -1) if wide else g


def _contract(a: S, b: S, dtype: DTypeLike | None) -> S:
    """The sum over the last axis of a product that broadcasts, in a wide type, rounded once."""
    own = (
        to_dtype(dtype) if dtype is not None else strong_dtype(least_upper_dtype(a.dtype, b.dtype))
    )
    # Products of small floats are exact in float32, of small integers in their sum's type.
    wide = own if dtype is not None and own.itemsize >= 4 else sum_acc_dtype(own)
    product = a.cast(own).cast(wide).mul(b.cast(own).cast(wide))
    found = product._reduce(Ops.ADD, -1, False)
    return found.cast(own) if own.kind != "bool" else found.cast(dtypes.bool)


def _parse_formula(formula: str, ndims: list[int]) -> tuple[list[str], str]:
    """The letters of each input and of the output; an ellipsis becomes unused letters."""
    text = formula.replace(" ", "")
    left, arrow, right = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ndims):
        raise OperandError(f"einsum: {formula!r} names {len(inputs)} operands, not {len(ndims)}")
    free = [c for c in string.ascii_letters if c not in text]
    hidden = [
        n - len(i.replace("...", "")) if "..." in i else 0
        for i, n in zip(inputs, ndims, strict=True)
    ]
    widest = max(hidden, default=0)
    dots = "".join(free[: max(widest, 0)])
    full = [i.replace("...", dots[widest - h :]) for i, h in zip(inputs, hidden, strict=True)]
    for letters, n in zip(full, ndims, strict=True):
        if len(letters) != n or (not letters.isalpha() and n):
            raise OperandError(f"einsum: {letters!r} in {formula!r} does not fit {n} axes")
    if not arrow:
        joined = "".join(full)
        once = sorted(c for c in set(joined) if joined.count(c) == 1 and c not in dots)
        return full, dots + "".join(once)
    return full, right.replace("...", dots)


def _diagonals(value: Any, letters: str) -> tuple[Any, str]:
    """A letter that occurs twice takes the diagonal of its axes."""
    for c in dict.fromkeys(letters):
        while letters.count(c) > 1:
            first, second = letters.index(c), letters.rindex(c)
            if value.shape[first] != value.shape[second]:
                raise OperandError(
                    f"einsum: letter {c!r} has sizes {size_text(value.shape[first])}, "
                    f"{size_text(value.shape[second])}"
                )
            value = value.diagonal(dim1=first, dim2=second)
            letters = "".join(x for i, x in enumerate(letters) if i not in (first, second)) + c
    return value, letters


def _letter_sizes(formula: str, prepared: Sequence[tuple[Any, str]]) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    for value, letters in prepared:
        for c, n in zip(letters, value.shape, strict=True):
            known = sizes.setdefault(c, n)
            if known == 1:
                sizes[c] = n
            elif not same_size(n, 1) and not same_size(n, known):
                raise OperandError(f"einsum: letter {c!r} of {formula!r} has sizes {known} and {n}")
    return sizes


def _spread(value: Any, letters: str, names: Sequence[str]) -> Any:
    """The axes in the order of all letters, size 1 where a letter is absent."""
    order = sorted(range(len(letters)), key=lambda i: names.index(letters[i]))
    value = value.permute(tuple(order))
    sizes = iter(value.shape)
    return value.reshape(tuple(next(sizes) if c in letters else 1 for c in names))


def _triangle(r: Any, width: int) -> tuple[Any, Any]:
    """(the first columns of Q, R): reflections that clear r below the diagonal, and their product.

    The reflections are multiplied from the last to the first, so no more of Q is made than asked.
    """
    rows, columns = r.shape[-2:]
    mirrors = []
    for i in range(min(rows, columns)):
        mirrors.append(_mirror(r, i))
        r = _reflected(r, mirrors[-1])
    q = r.eye(rows, width, dtype=r.dtype)._broadcast_to((*r.shape[:-2], rows, width))
    for v in reversed(mirrors):
        q = _reflected(q, v)
    return q, r


def _mirror(r: Any, i: int) -> Any:
    """The unit normal, as a column, of the mirror that clears column i of r below the diagonal."""
    place = r._iota(r.shape[-2], dtypes.int32)
    column = (place >= i).where(r[..., i], 0)
    head = column[..., i : i + 1]
    norm = column.square().sum(-1, keepdim=True).sqrt()
    target = (head < 0).where(norm, norm.neg())
    v = column - place.eq(i).where(target, 0)
    length = v.square().sum(-1, keepdim=True)
    return (v / length.eq(0).where(1, length).sqrt()).contiguous().unsqueeze(-1)


def _reflected(m: Any, v: Any) -> Any:
    """The columns of m seen in a mirror."""
    return (m - v @ (v.transpose(-2, -1) @ m) * 2).contiguous()


def _one_sided_jacobi(a: Any) -> tuple[Any, Any, Any]:
    """(U, S, V) of a tall matrix: pairs of columns are turned until all are at right angles.

    Columns stand in a ring and move on by one after each round, so every round is the same kernels;
    those of V stand below those of the matrix and are turned with them.
    """
    rows, n = a.shape[-2:]
    v = a.eye(n, dtype=a.dtype)._broadcast_to((*a.shape[:-2], n, n))
    if n > 1:
        ring = n + n % 2  # a column of zeros stays as it is
        both = a.cat(v, dim=-2).pad_to((*a.shape[:-2], rows + n, ring)).contiguous()
        for _ in range((2 * n.bit_length() + 1) * (ring - 1)):
            both = _turn(both, rows)
        a, v = both[..., :rows, :n], both[..., rows:, :n]
    s = a.square().sum(-2).sqrt()
    s, order = s.sort(descending=True)
    pick = order.unsqueeze(-2)
    a = a.gather(-1, pick.expand(a.shape))
    v = v.gather(-1, pick.expand(v.shape))
    u = a / s.eq(0).where(1, s).unsqueeze(-2)
    return u, s, v


def _turn(both: Any, rows: int) -> Any:
    """Pairs of columns, first with last, turned so that the products of their first rows are 0."""
    half = both.shape[-1] // 2
    p, q = both[..., :half], both[..., half:].flip(-1)
    x, y = p[..., :rows, :], q[..., :rows, :]
    alpha, beta, gamma = (z.sum(-2, keepdim=True) for z in (x.square(), y.square(), x * y))
    still = gamma.eq(0)
    zeta = (beta - alpha) / still.where(1, gamma * 2)
    t = (zeta < 0).where(-1.0, 1.0) / (zeta.abs() + (zeta.square() + 1).sqrt())
    t = still.where(0, t).contiguous()
    c = (t.square() + 1).sqrt().reciprocal()
    s = c * t
    p, q = p * c - q * s, p * s + q * c
    # All but the first move on: the last one comes to stand beside the first.
    return p[..., :1].cat(q[..., :1], p[..., 1:], q[..., 1:].flip(-1), dim=-1).contiguous()


def _complete(u: Any, width: int) -> Any:
    """Orthogonal unit columns: those of u, others where it has zeros, and more up to a width."""
    q, r = _triangle(u, width)
    k = u.shape[-1]
    flips = (r[..., :k, :].diagonal(dim1=-2, dim2=-1) < 0).where(-1.0, 1.0).unsqueeze(-2)
    return (q[..., :k] * flips).cat(q[..., k:], dim=-1) if width > k else q * flips
