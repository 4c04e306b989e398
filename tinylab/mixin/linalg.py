"""Products of matrices, Einstein sums, and decompositions."""

from __future__ import annotations

import math
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
from tinylab.mixin.numbers import refuse_array
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

        Raises: ShapeError when the axes differ in size; OperandError for an array.
        """
        refuse_array(w)
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
        refuse_array(x)
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

    def qr(self, mode: str = "reduced") -> tuple[Self, Self]:
        """(Q, R): orthogonal columns and an upper triangle whose product is self.

        (…, m, n) -> (…, m, k), (…, k, n) with k = min(m, n); mode="complete" gives all of the
        basis, (…, m, m), (…, m, n). Signs are LAPACK's. NaN and infinities give NaN.

        Gradients need independent columns (the first m of them where n > m): they are infinite or
        NaN for others. Where m > n the last columns of a complete Q are a basis of what the first
        ones do not reach; gradients through them hold for what does not depend on which basis that
        is.

        Raises: OperandError for another mode; ShapeError for fewer than two axes, and where one of
        the last two is symbolic.
        """
        if mode not in ("reduced", "complete"):
            raise OperandError(f"qr: mode must be 'reduced' or 'complete', not {mode!r}")
        a = self._matrices("qr")
        rows, columns = a.shape[-2:]
        least = min(rows, columns)
        width = rows if mode == "complete" else least
        if same_size(a.numel(), 0):
            wide = self._as_float()
            return _identity(a, rows)[..., :width].cast(wide.dtype), wide[..., :width, :]
        q, r = a[..., :least]._qr_tall(width)
        if columns > rows:
            r = r.cat(q.transpose(-2, -1) @ a[..., rows:], dim=-1)
        dtype = self._as_float().dtype
        return q.cast(dtype), r.cast(dtype)

    def svd(self, full_matrices: bool = True) -> tuple[Self, Self, Self]:
        """(U, S, V): orthogonal matrices and singular values; self is U @ diag(S) @ V.

        (…, m, n) -> (…, m, m), (…, k), (…, n, n) with k = min(m, n) values, the largest first;
        without full_matrices (…, m, k), (…, k), (…, k, n). NaN and infinities give NaN.

        Gradients through U and V, which are unique to signs where singular values are distinct, are
        those of a result that does not depend on signs, nor on the choice of vectors where values
        coincide or of the columns that fill U or V up. For results that do depend on it there is no
        derivative, and what is given is finite: that of vectors which keep their places.

        Raises: ShapeError for fewer than two axes, and where one of the last two is symbolic.
        """
        a, dtype = self._matrices("svd"), self._as_float().dtype
        rows, columns = a.shape[-2:]
        least, most = min(rows, columns), max(rows, columns)
        width = most if full_matrices else least
        tall = a if rows >= columns else a.transpose(-2, -1)
        if same_size(a.numel(), 0):
            u, s = _identity(tall, most)[..., :width], tall.sum(-2)
            v = _identity(tall, least)
        else:
            u, s, v = tall._svd_tall(width)
        u, s, v = u.cast(dtype), s.cast(dtype), v.cast(dtype)
        if rows >= columns:
            return u, s, v.transpose(-2, -1)
        return v, s, u.transpose(-2, -1)

    def _matrices(self, name: str) -> Self:
        """This value as matrices of at least float32."""
        if self.ndim < 2:
            raise ShapeError(
                f"{name}: expected two or more dimensions, got {shape_text(self.shape)}"
            )
        if not all(isinstance(s, int) for s in self.shape[-2:]):
            raise ShapeError(
                f"{name}: the last two sizes must be numbers, got {shape_text(self.shape)}",
                help="only the axes before them may have a symbolic size",
            )
        a = self._as_float()
        return a if a.dtype.itemsize >= 4 else a.cast(dtypes.float32)

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


# *** parts of decompositions


def _identity(like: Any, size: int) -> Any:
    """As many identity matrices."""
    return like.eye(size, dtype=like.dtype)._broadcast_to((*like.shape[:-2], size, size))


def power_of_two_below(size: Any) -> Any:
    """A factor near a magnitude, by which nothing is rounded; 1 for 0, NaN for what is not finite.

    Squares of the largest element neither overflow nor vanish where that is near 1.
    """
    known = size.isfinite() & size.ne(0)
    lowest, highest = (-126, 127) if size.dtype.itemsize == 4 else (-1022, 1023)
    exponent = known.where(size, 1).log2().floor().clip(lowest, highest)
    return size.isfinite().where(exponent.exp2(), math.nan)


def unit_rows(a: Any) -> tuple[Any, Any]:
    """(the lengths of rows, the rows over their lengths); 0 stays, and small ones keep digits."""
    largest = a.abs().max(-1, keepdim=True)
    scale = power_of_two_below(largest)
    a = a / scale
    length = a.square().sum(-1, keepdim=True).sqrt()
    return (length * scale).squeeze(-1), a / length.eq(0).where(1, length)


def completed(q: Any, r: Any) -> Any:
    """Orthogonal unit columns from Q and R of such ones: those, others where there were zeros."""
    k = r.shape[-1]
    signs = (r[..., :k, :].diagonal(dim1=-2, dim2=-1) < 0).where(-1.0, 1.0).unsqueeze(-2)
    return q * signs.pad_to((*signs.shape[:-1], q.shape[-1]), value=1.0)
