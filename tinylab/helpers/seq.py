"""Small functions on numbers and sequences; nothing here knows of tensors or nodes.

Sizes may be ints or symbolic expressions, so arithmetic is written with operators only.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeGuard, TypeVar

from tinylab.errors import ContractError, CreationError, OperandError, ShapeError
from tinylab.helpers.arguments import shown

Size: TypeAlias = Any  # an int, or an expression of sizes

T = TypeVar("T")
U = TypeVar("U")


# *** sequences


def prod(x: Iterable[T]) -> T | int:
    """The product: (2, 3) -> 6, () -> 1.

    Raises: OperandError for what has no product.
    """
    try:
        return functools.reduce(operator.mul, x, 1)
    except TypeError as error:
        raise OperandError(f"prod: there is no product of {shown(x)}") from error


def dedup(x: Iterable[T]) -> list[T]:
    """Each item once, in the order of first use: [2, 1, 2] -> [2, 1]."""
    return list(dict.fromkeys(x))


def flatten(l: Iterable[Iterable[T]]) -> list[T]:  # noqa: E741
    """One level of nesting less: [[1], [2, 3]] -> [1, 2, 3]."""
    return [item for sub in l for item in sub]


def fully_flatten(l: Any) -> list[Any]:  # noqa: E741
    """No nesting at all: [[1, [2]], 3] -> [1, 2, 3]; an array's items too."""
    if hasattr(l, "__len__") and hasattr(l, "__getitem__") and not isinstance(l, str):
        if hasattr(l, "shape") and l.shape == ():
            return [l[()]]
        return [item for sub in l for item in fully_flatten(sub)]
    return [l]


def argfix(*x: Any) -> tuple[Any, ...]:
    """Arguments given one by one or as one sequence: f(2, 3) and f((2, 3)) -> (2, 3)."""
    if not x or not isinstance(x[0], (tuple, list)):
        return x
    if len(x) != 1:
        raise ShapeError(f"bad arg {x}", help="give the sizes one by one, or as one tuple")
    return tuple(x[0])


def argsort(x: Sequence[Any]) -> Any:
    """The positions in sorted order, as the same kind of sequence: (3, 1, 2) -> (1, 2, 0)."""
    if not isinstance(x, (list, tuple)):
        raise OperandError(f"argsort: x is a list or a tuple, not {shown(x)}")
    try:
        return type(x)(sorted(range(len(x)), key=x.__getitem__))
    except TypeError as e:
        raise OperandError(f"argsort: the items of {shown(x)} have no order") from e


def all_same(items: Sequence[Any]) -> bool:
    """True if every item equals the first; true when empty."""
    return all(item == items[0] for item in items)


def all_int(t: Sequence[Any]) -> TypeGuard[tuple[int, ...]]:
    """True if no size is symbolic."""
    return all(isinstance(size, int) for size in t)


def partition(itr: Iterable[T], fxn: Callable[[T], bool]) -> tuple[list[T], list[T]]:
    """The items for which ``fxn`` holds, and the others."""
    yes: list[T] = []
    no: list[T] = []
    for item in itr:
        (yes if fxn(item) else no).append(item)
    return yes, no


def get_single_element(x: Iterable[T]) -> T:
    """The only item of a sequence."""
    items = list(x)
    if len(items) != 1:
        raise ContractError(f"one item expected, got {len(items)}")
    return items[0]


def unwrap(x: T | None) -> T:
    """The value of something that is known to be there."""
    if x is None:
        raise ContractError("a value expected, got None")
    return x


def merge_dicts(ds: Iterable[dict[T, U]]) -> dict[T, U]:
    """One dict of several; a key that has two values is an error."""
    merged: dict[T, U] = {}
    for d in ds:
        for key, value in d.items():
            if merged.setdefault(key, value) != value:
                raise ContractError(f"{key} is both {merged[key]} and {value}")
    return merged


def get_child(obj: Any, key: str) -> Any:
    """What a dotted path leads to: model, "layers.0.weight".

    Raises: OperandError where a part of the path leads nowhere.
    """
    found = obj
    for part in key.split("."):
        try:
            if part.isnumeric():
                found = found[int(part)]
            elif isinstance(found, dict):
                found = found[part]
            else:
                found = getattr(found, part)
        except (AttributeError, LookupError, TypeError) as e:
            raise OperandError(
                f"get_child: {key!r} leads nowhere: {shown(found)} has no {part!r}"
            ) from e
    return found


def get_shape(x: Any) -> tuple[int, ...]:
    """The shape of nested lists: [[1, 2], [3, 4]] -> (2, 2).

    Raises: CreationError if rows of one axis differ in length.
    """
    if not hasattr(x, "__len__") or isinstance(x, (str, bytes)) or getattr(x, "shape", None) == ():
        return ()
    shapes = [get_shape(item) for item in x]
    if not all_same(shapes):
        raise CreationError(f"inhomogeneous shape from {x}", help="give every row the same length")
    return (len(shapes), *(shapes[0] if shapes else ()))


def to_tuple(x: T | tuple[T, ...]) -> tuple[T, ...]:
    """A tuple as it is, anything else as a tuple of one."""
    return x if isinstance(x, tuple) else (x,)


def make_tuple(x: int | Sequence[int], cnt: int) -> tuple[int, ...]:
    """One int for all of ``cnt`` axes: 3, 2 -> (3, 3)."""
    return (x,) * cnt if isinstance(x, int) else tuple(x)


class count:
    """Numbers that go on, 5, 6, ...; unlike itertools.count it can be pickled and read."""

    def __init__(self, start: int = 0, step: int = 1) -> None:
        self.n, self.step = start, step

    def __iter__(self) -> count:
        return self

    def __next__(self) -> int:
        self.n += self.step
        return self.n - self.step


# *** integers


def round_up(num: int, amt: int) -> int:
    """The next multiple: 5, 4 -> 8."""
    if amt == 0:
        raise OperandError(f"round_up: no number is a multiple of 0, as {num} is to be")
    return (num + amt - 1) // amt * amt


def round_down(num: int, amt: int) -> int:
    """The multiple before: 5, 4 -> 4."""
    if amt == 0:
        raise OperandError(f"round_down: no number is a multiple of 0, as {num} is to be")
    return num // amt * amt


def ceildiv(num: Size, amt: Size) -> Any:
    """The quotient, rounded up: 5, 4 -> 2; sizes may be symbolic."""
    if isinstance(amt, int) and amt == 0:
        raise OperandError(f"ceildiv: {shown(num)} cannot be divided by 0")
    return (num + amt - 1) // amt if not isinstance(num, int) else -(-num // amt)


def next_power2(x: int) -> int:
    """The least power of two that is no smaller: 5 -> 8, 8 -> 8, 0 -> 1."""
    return 1 if x == 0 else 1 << (x - 1).bit_length()


def cdiv(x: int, y: int) -> int:
    """C's quotient, toward zero: -5, 2 -> -2; by zero it is 0, as on every device."""
    if y == 0:
        return 0
    return abs(x) // abs(y) * (1 if x * y >= 0 else -1)


def cmod(x: int, y: int) -> int:
    """C's remainder, with the sign of x: -5, 2 -> -1; by zero it is 0, as on every device."""
    return 0 if y == 0 else x - cdiv(x, y) * y


def floordiv(x: int, y: int) -> int:
    """Python's quotient, toward minus infinity; by zero it is 0, as on every device."""
    return 0 if y == 0 else x // y


def floormod(x: int, y: int) -> int:
    """Python's remainder, with the sign of y; by zero it is 0, as on every device."""
    return 0 if y == 0 else x % y


def lo32(x: Size) -> Any:
    """The lower 32 bits."""
    return x & 0xFFFFFFFF


def hi32(x: Size) -> Any:
    """The bits above the lower 32."""
    return x >> 32


def data64(data: Size) -> tuple[Any, Any]:
    """(upper half, lower half) of 64 bits."""
    return hi32(data), lo32(data)


def data64_le(data: Size) -> tuple[Any, Any]:
    """(lower half, upper half) of 64 bits."""
    return lo32(data), hi32(data)


def getbits(value: int, start: int, end: int) -> int:
    """Bits start to end, both included: 0b1101, 1, 2 -> 0b10."""
    if not 0 <= start <= end:
        raise OperandError(
            f"getbits: bits {start} to {end} are none", help="the lower one is first"
        )
    return (value >> start) & ((1 << (end - start + 1)) - 1)


def i2u(bits: int, value: int) -> int:
    """The unsigned reading of a signed number: 8, -1 -> 255."""
    if bits < 0 or not -(1 << bits) <= value:
        raise OperandError(f"i2u: {bits} bits do not hold {value}")
    return value if value >= 0 else (1 << bits) + value


def polyN(x: Any, p: Sequence[float]) -> Any:
    """A polynomial, highest power first: [2, 3] -> 2 * x + 3."""
    try:
        return functools.reduce(lambda acc, c: acc * x + c, p, 0.0)
    except TypeError as e:
        raise OperandError(f"polyN: x is a number or a tensor, not {shown(x)}") from e


# *** shapes


def canonicalize_strides(shape: Sequence[T], strides: Sequence[T]) -> tuple[T, ...]:
    """Strides with 0 wherever the size is 1."""
    zero: Any = 0
    return tuple(zero if size == 1 else st for size, st in zip(shape, strides, strict=True))


def _is_size(x: Any) -> bool:
    """Whether it divides as integers do, symbolic ones too."""
    return hasattr(x, "__floordiv__") and not isinstance(x, float)


def strides_for_shape(shape: Sequence[T]) -> tuple[T, ...]:
    """Row-major strides: (2, 3, 4) -> (12, 4, 1)."""
    if not isinstance(shape, (list, tuple)) or not all(map(_is_size, shape)):
        raise OperandError(f"strides_for_shape: a shape is a tuple of sizes, not {shown(shape)}")
    strides: list[Any] = []
    step: Any = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * size
    return canonicalize_strides(shape, strides[::-1])


def flat_to_grouped(padding: Sequence[T]) -> tuple[tuple[T, T], ...]:
    """PyTorch's flat padding as a pair per axis: (1, 2, 3, 4) -> ((3, 4), (1, 2))."""
    return tuple((padding[i], padding[i + 1]) for i in range(len(padding) - 2, -1, -2))


def resolve_pool_pads(padding: int | Sequence[int], dims: int) -> Sequence[int]:
    """A window's padding in PyTorch's flat form: 1 -> [1, 1, 1, 1], (1, 2) -> [2, 2, 1, 1]."""
    if isinstance(padding, int):
        return [padding] * 2 * dims
    if len(padding) == 2 * dims:
        return list(padding)
    if len(padding) != dims:
        raise ShapeError(
            f"padding length is improper: {len(padding)} numbers for {dims} axes",
            help=f"give one number, {dims}, or {2 * dims}",
        )
    return [p for p in reversed(padding) for _ in range(2)]
