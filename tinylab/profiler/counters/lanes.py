"""What the lanes of a wave do to memory at once: transactions of global, conflicts of shared.

Each takes the byte addresses of the lanes, -1 for a lane whose gate is closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tinylab.opcodes import Ops
from tinylab.uop.ops import UOp

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Addresses = npt.NDArray[np.int64]

WORD = 4  # bytes of a bank


class Traffic(NamedTuple):
    """One access of a wave: pieces that memory moves, and the fewest that could hold its bytes."""

    transactions: int
    least: int
    bytes: int  # that are asked for, each once


def transactions(addresses: Addresses, size: int, piece: int) -> Traffic:
    """How many pieces of memory a wave touches, each lane `size` bytes from its address on.

    Several waves, one a row, are added up.

    32 lanes side by side of 4 bytes, pieces of 32 -> 4;  each 128 bytes apart -> 32
    """
    import numpy as np

    waves = np.sort(np.atleast_2d(addresses), axis=1)
    opened = waves >= 0
    more = np.arange((size - 1) // piece + 2)  # pieces that a lane may reach, from its first on
    reached = waves[:, :, None] // piece + more
    inside = opened[:, :, None] & (reached <= (waves[:, :, None] + size - 1) // piece)
    touched = np.sort(np.where(inside, reached, -1).reshape(len(waves), -1), axis=1)
    is_new = np.diff(touched, axis=1, prepend=-1) > 0
    # Each lane covers up to where the next one begins.
    gaps = np.minimum(np.diff(waves, axis=1), size)
    covered = (gaps * opened[:, :-1]).sum(axis=1) + size * opened[:, -1]
    least = -(-covered // piece)
    return Traffic(int(is_new.sum()), int(least.sum()), int(covered.sum()))


def conflicts(addresses: Addresses, size: int, banks: int) -> tuple[int, int]:
    """(turns that a wave's access to shared memory takes, turns without conflicts).

    Lanes of 8 or 16 bytes are served half a wave or a quarter at a time. In a turn each bank gives
    one word, to all lanes that want that one.
    """
    import numpy as np

    words = max(1, size // WORD)
    lanes = max(1, len(addresses) // words)
    turns = 0
    phases = [addresses[i : i + lanes] for i in range(0, len(addresses), lanes)]
    wanted = [p[p >= 0] for p in phases]
    for phase in wanted:
        touched = np.unique((phase[:, None] + np.arange(0, size, min(size, WORD))) // WORD)
        turns += int(np.bincount(touched % banks, minlength=1).max()) if len(touched) else 0
    return turns, sum(len(phase) > 0 for phase in wanted)


# *** values of index expressions, for many places at once


class Unknown(Exception):
    """An index that depends on what is loaded."""


def evaluate(u: UOp, values: dict[UOp, Any]) -> Any:
    """The value of an integer or boolean expression, with arrays for its ranges and indices.

    The last axis is that of the arrays; lanes of a shaped expression are the axes before it.

    Raises: Unknown if it depends on memory.
    """
    for node in u.toposort(lambda n: n not in values):
        if node not in values:
            values[node] = _value(node, [values.get(s) for s in node.src])
    return values[u]


def _value(u: UOp, src: list[Any]) -> Any:
    import numpy as np

    if u.op is Ops.CONST:
        return np.int64(u.arg) if not isinstance(u.arg, bool) else np.bool_(u.arg)
    if u.op is Ops.STACK:
        return np.stack(np.broadcast_arrays(*[np.atleast_1d(s) for s in src]))
    if u.op is Ops.RESHAPE:
        return np.reshape(src[0], (*(int(n) for n in u.shape), -1))
    function = _FUNCTIONS.get(u.op)
    if function is None:
        raise Unknown(u.op.name)
    return function(np, *src)


def _divided(np: Any, x: Any, y: Any) -> Any:
    """Rounded towards zero; by zero it is 0."""
    safe = np.where(y == 0, 1, y)
    quotient = np.sign(x) * np.sign(safe) * (np.abs(x) // np.abs(safe))
    return np.where(y == 0, 0, quotient)


_FUNCTIONS: dict[Ops, Any] = {
    Ops.ADD: lambda np, x, y: x + y,
    Ops.SUB: lambda np, x, y: x - y,
    Ops.MUL: lambda np, x, y: x * y,
    Ops.NEG: lambda np, x: -x,
    Ops.MULACC: lambda np, x, y, z: x * y + z,
    Ops.CDIV: _divided,
    Ops.CMOD: lambda np, x, y: np.where(y == 0, 0, x - y * _divided(np, x, y)),
    Ops.FLOORDIV: lambda np, x, y: x // y,
    Ops.FLOORMOD: lambda np, x, y: x % y,
    Ops.SHL: lambda np, x, y: x << y,
    Ops.SHR: lambda np, x, y: x >> y,
    Ops.AND: lambda np, x, y: x & y,
    Ops.OR: lambda np, x, y: x | y,
    Ops.XOR: lambda np, x, y: x ^ y,
    Ops.MAX: lambda np, x, y: np.maximum(x, y),
    Ops.CMPLT: lambda np, x, y: x < y,
    Ops.CMPNE: lambda np, x, y: x != y,
    Ops.CMPEQ: lambda np, x, y: x == y,
    Ops.WHERE: lambda np, c, x, y: np.where(c, x, y),
    Ops.CAST: lambda np, x: np.asarray(x).astype(np.int64),
}
