"""Decompositions of matrices: values by kernels written in uops, gradients by formulas.

The formulas are made of tensor operations on the results, so gradients have gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tinylab.helpers.seq import prod
from tinylab.mixin.linalg import completed, power_of_two_below, unit_rows
from tinylab.tensor import matrix_kernels as kernels
from tinylab.tensor.data import empty_uop
from tinylab.tensor.ordering import TensorOrdering
from tinylab.uop.ops import UOp

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T", bound="TensorDecompositions")

# The gradients of the sources, of (the results, their gradients, the sources).
Backward = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Sequence[Any]]

# The distance from 1 to the next number, by the bytes of a type.
_EPSILON = {4: 2.0**-23, 8: 2.0**-52}


class TensorDecompositions(TensorOrdering):
    """What the linear algebra is made of; matrices are float32 or float64 and not empty."""

    __slots__ = ()

    def _qr_tall(self, width: int) -> tuple[Self, Self]:
        """(the first columns of Q, rows of R) of a matrix with as many rows as columns or more."""
        a = self._in_one_piece()
        q, r = _of_all(a, lambda x: x._qr_values(width))
        q, r = _with_gradient("qr", (q, r), (a,), _qr_gradient)
        return q, r

    def _svd_tall(self, width: int) -> tuple[Self, Self, Self]:
        """(U with this many columns, S, V) of a matrix with at least as many rows as columns."""
        a = self._in_one_piece()
        u, s, v = _of_all(a, lambda x: x._svd_values(width))
        u, s, v = _with_gradient("svd", (u, s, v), (a,), _svd_gradient)
        return u, s, v

    def _over_upper(self, upper: Self) -> Self:
        """Rows g -> rows x with upper @ x = g; what is below the diagonal is not looked at."""
        triangle, rows = upper._in_one_piece(), self._in_one_piece()
        n = triangle.shape[-1]
        (x,) = _of_all(triangle.cat(rows, dim=-2), lambda both: (both._solved(n),))
        return _with_gradient("solve", (x,), (triangle, rows), _solve_gradient)[0]

    # *** values

    def _qr_values(self, width: int) -> tuple[Self, Self]:
        scale = power_of_two_below(self.abs().max((-2, -1), keepdim=True))
        columns = (self / scale).transpose(-2, -1).contiguous()
        n, m = columns.shape[-2:]
        rooms = [columns._room(rows, m) for rows in (width, n, min(m, n))]
        q, r, _ = _call(kernels.reflected_triangle, rooms, columns)
        return q.transpose(-2, -1), r.transpose(-2, -1)[..., :width, :].triu() * scale

    def _svd_values(self, width: int) -> tuple[Self, Self, Self]:
        scale = power_of_two_below(self.abs().max((-2, -1), keepdim=True))
        columns = (self / scale).transpose(-2, -1).contiguous()
        n, m = columns.shape[-2:]
        near = _EPSILON[self.dtype.itemsize] * m**0.5
        turned = partial(kernels.orthogonal_columns, near=near)
        (both,) = _call(turned, [columns._room(n, m + n)], columns)
        lengths, units = unit_rows(both[..., :m])
        # The last sweep left them in order but for their last digits.
        s, order = lengths.sort(descending=True)
        pick = order.unsqueeze(-1)
        u = units.gather(-2, pick.expand(units.shape)).transpose(-2, -1)
        turns = both[..., m:]
        v = turns.gather(-2, pick.expand(turns.shape)).transpose(-2, -1)
        # What is NaN in one of them is NaN in all.
        return completed(*u._qr_values(width)), s * scale.squeeze(-1), v + (scale - scale)

    def _solved(self, n: int) -> Self:
        """The rows behind the first n, each solved with the triangle that those are."""
        upper, rows = self[..., :n, :].contiguous(), self[..., n:, :].contiguous()
        return _call(kernels.solved_rows, [rows._room(*rows.shape[-2:])], upper, rows)[0]

    # *** storage

    def _in_one_piece(self) -> Self:
        """This value; where devices hold parts of its matrices, all of it on each."""
        return self._whole() if self.uop.axis in (self.ndim - 2, self.ndim - 1) else self

    def _room(self, rows: int, columns: int) -> Self:
        """Storage for as many matrices of another size, and nothing in it."""
        shape = (*self.shape[:-2], rows, columns)
        return self._from_uop(empty_uop(shape, self.dtype, self.device, self.uop.axis))


def _of_all(a: T, make: Callable[[T], Sequence[T]]) -> list[T]:
    """What is made of matrices, which gets the largest number of them where that is symbolic."""
    batch, last = a.shape[:-2], a.shape[-1]
    found = make(a.detach()._padded_to(last, 0))
    return [t.shrink_to((*batch, *t.shape[len(batch) :])) for t in found]


def _call(kernel: Callable[..., UOp], into: Sequence[T], *of: T) -> list[T]:
    """Storage after a kernel of matrices that writes it; the kernel sees one axis of batches."""

    def of_batches(*arrays: UOp) -> UOp:
        return kernel(*(p.reshape((prod(p.shape[:-2]), *p.shape[-2:])) for p in arrays))

    found = UOp.custom_kernel(*(t.uop for t in (*into, *of)), fxn=of_batches)
    return [into[0]._from_uop(u) for u in found[: len(into)]]


# *** gradients


def _with_gradient(name: str, values: Sequence[T], sources: Sequence[T], back: Backward) -> list[T]:
    """The values with a gradient for the sources that they were made of.

    They are put side by side into one value: its gradient is whole, whichever of them are used.
    """
    batch = values[0].shape[:-2]  # the first one is a matrix
    shapes = [v.shape[len(batch) :] for v in values]
    flat = [v.reshape((*batch, prod(s))) for v, s in zip(values, shapes, strict=True)]
    packed = flat[0].cat(*flat[1:], dim=-1)

    def parts(u: UOp) -> list[T]:
        whole, found, begin = values[0]._from_uop(u), [], 0
        for shape in shapes:
            end = begin + prod(shape)
            found.append(whole[..., begin:end].reshape((*batch, *shape)))
            begin = end
        return found

    def gradient(g: UOp, call: UOp) -> tuple[UOp | None, ...]:
        given = [values[0]._from_uop(u) for u in call.src[2:]]
        return None, *(t.uop for t in back(parts(call.gettuple(0)), parts(g), given))

    arguments = (packed.uop, *(t.uop for t in sources))
    call = packed.uop.param_like(0).call(*arguments, grad_fxn=gradient, name=name)
    return parts(call.gettuple(0))


def _qr_gradient(results: Sequence[T], grads: Sequence[T], sources: Sequence[T]) -> list[T]:
    """With C = Qᵀ dA R⁻¹: dR = (C - Ω) R and dQ = Q Ω, Ω the skew matrix with C below its diagonal.

    The other columns of a complete Q turn with the first ones and no more; where they are left
    out, dQ has what dA R⁻¹ adds beside the first ones as well.

    Source: Walter, Lehmann, "Algorithmic differentiation of linear algebra functions", 2012.
    """
    (q, r), (gq, gr) = results, grads
    n = r.shape[-1]
    r, gr = r[..., :n, :], gr[..., :n, :]
    turned = q.transpose(-2, -1) @ gq
    skew = (turned - turned.transpose(-2, -1))[..., :n].tril(-1)
    upper = (gr @ r.transpose(-2, -1)).triu()
    core = skew + (upper + upper.transpose(-2, -1).tril(-1)).pad_to(skew.shape)
    toward = q @ core
    if q.shape[-1] < q.shape[-2]:
        toward = toward + (gq - q @ turned)
    return [toward._over_upper(r)]


def _svd_gradient(results: Sequence[T], grads: Sequence[T], sources: Sequence[T]) -> list[T]:
    """Where two singular values coincide their vectors are held as they are to each other.

    So what does not depend on the choice among such vectors has its gradient.

    Sources: Townsend, "Differentiating the singular value decomposition", 2016; Wan, Zhang,
    "Automatic differentiation for complex valued SVD", 2019.
    """
    (u, s, v), (gu, gs, gv) = results, grads
    n, width = s.shape[-1], u.shape[-1]
    left, right = u.transpose(-2, -1) @ gu, v.transpose(-2, -1) @ gv
    x, y = left - left.transpose(-2, -1), right - right.transpose(-2, -1)
    one, other = s.unsqueeze(-2), s.unsqueeze(-1)
    # (x one + other y) / (one² - other²) in two parts: only the first has no limit where they meet.
    near = s[..., :1].unsqueeze(-1) * (n * _EPSILON[s.dtype.itemsize])
    top = x[..., :n, :n]
    apart, together = _inverse(one - other, near), _inverse(one + other, near * 0)
    core = ((top + y) * apart + (top - y) * together) * 0.5
    core = core + s.eye(n, dtype=s.dtype) * gs.unsqueeze(-1)
    inner, outer = u[..., :n], u[..., n:]
    beside = outer @ x[..., n:, :n] if width == u.shape[-2] else gu - u @ left
    turned = inner @ core + beside * _inverse(one, near * 0)
    return [turned @ v.transpose(-2, -1)]


def _inverse(x: T, near: T) -> T:
    """1 / x; 0 where that is at most `near` away from 0."""
    none = x.abs() <= near
    return none.where(0, none.where(1, x).reciprocal())


def _solve_gradient(results: Sequence[T], grads: Sequence[T], sources: Sequence[T]) -> list[T]:
    """U x = g: that of g solves the transposed triangle, that of U is its product with x."""
    (x,), (gx,), (upper, _) = results, grads, sources
    mirrored = upper.transpose(-2, -1).flip((-2, -1))
    back = gx.flip(-1)._over_upper(mirrored).flip(-1)
    return [(back.transpose(-2, -1) @ x).triu().neg(), back]
