"""Convolution with kernels of 3 by Winograd's minimal filtering: fewer products, more sums.

Four outputs of an axis come from six inputs and six products, F(4, 3), where the plain way takes
twelve; over two axes 36 products stand for 144.

    y = A^T ((G g) * (B^T d))

Source: A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015
(arXiv:1509.09308), the matrices of F(4x4, 3x3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tinylab.opcodes import Ops

if TYPE_CHECKING:
    from tinylab.mixin.conv import ConvMixin

X = TypeVar("X", bound="ConvMixin")
Matrix = tuple[tuple[float, ...], ...]

OUT, TILE, KERNEL = 4, 6, 3
INPUT: Matrix = (  # B^T
    (4, 0, -5, 0, 1, 0),
    (0, -4, -4, 1, 1, 0),
    (0, 4, -4, -1, 1, 0),
    (0, -2, -1, 2, 1, 0),
    (0, 2, -1, -2, 1, 0),
    (0, 4, 0, -5, 0, 1),
)
FILTER: Matrix = (  # G
    (1 / 4, 0, 0),
    (-1 / 6, -1 / 6, -1 / 6),
    (-1 / 6, 1 / 6, -1 / 6),
    (1 / 24, 1 / 12, 1 / 6),
    (1 / 24, -1 / 12, 1 / 6),
    (0, 0, 1),
)
OUTPUT: Matrix = (  # A^T
    (1, 1, 1, 1, 1, 0),
    (0, 1, -1, 2, -2, 0),
    (0, 1, 1, 4, 4, 0),
    (0, 1, -1, 8, -8, 1),
)


def fits(
    shape: Sequence[Any], kernel: Sequence[Any], stride: Sequence[int], dilation: Sequence[int]
) -> bool:
    """Whether a convolution over an input of this shape can be done so: kernels of 3, no gaps."""
    plain = all(n == 1 for n in (*stride, *dilation))
    return plain and all(k == KERNEL for k in kernel) and all(isinstance(n, int) for n in shape)


def convolve(x: X, weight: X) -> X:
    """Each window times each filter, summed: the middle of `conv2d`, after padding and casts.

    (N, groups * C, H, W), weight (groups, Cout, C, 3, 3) -> (N, groups * Cout, H - 2, W - 2)
    """
    groups, outs, channels = weight.shape[:3]
    count = weight.ndim - 3
    batch, sizes = x.shape[0], [n - KERNEL + 1 for n in x.shape[2:]]
    tiles = [-(-n // OUT) for n in sizes]
    missing = [(0, t * OUT - n) for t, n in zip(tiles, sizes, strict=True)]
    d = x._zero_pad([(0, 0), (0, 0), *missing])._windows(
        (TILE,) * count, (OUT,) * count, (1,) * count
    )
    # As so many matrix products: (6 * 6, groups, Cout, C) @ (6 * 6, groups, C, N * tiles).
    inner = range(2 + count, 2 + 2 * count)
    d = _on_last(d, INPUT, count).permute((*inner, 1, 0, *range(2, 2 + count))).contiguous()
    d = d.reshape((TILE**count, groups, 1, channels, batch * math.prod(tiles)))
    g = _on_last(weight, FILTER, count).permute((*range(3, 3 + count), 0, 1, 2)).contiguous()
    y = d.mul(g.reshape((TILE**count, groups, outs, channels, 1)))._reduce(Ops.ADD, (3,), False)
    y = y.contiguous().reshape((*(TILE,) * count, groups * outs, batch, *tiles))
    y = y.permute((count + 1, count, *range(count + 2, y.ndim), *range(count)))
    y = _on_last(y, OUTPUT, count)
    pairs = [axis for i in range(count) for axis in (2 + i, 2 + count + i)]
    y = y.permute((0, 1, *pairs)).reshape((batch, groups * outs, *(t * OUT for t in tiles)))
    return y.shrink((None, None, *((0, n) for n in sizes)))


def _on_last(x: X, matrix: Matrix, count: int) -> X:
    """The matrix times each of the last axes."""
    for axis in range(x.ndim - count, x.ndim):
        parts = [
            x.shrink(tuple((i, i + 1) if a == axis else None for a in range(x.ndim)))
            for i in range(x.shape[axis])
        ]
        first, *rest = [_combined(parts, row) for row in matrix]
        x = first.cat(*rest, dim=axis)
    return x


def _combined(parts: Sequence[X], row: Sequence[float]) -> X:
    terms = [part if c == 1 else part * c for part, c in zip(parts, row, strict=True) if c]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
