"""Distributions, from uniform random numbers."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

from tinylab.dtype import DType, DTypeLike, dtypes, to_dtype
from tinylab.errors import CreationError, DTypeError, OperandError, ShapeError
from tinylab.helpers.context import TRAINING
from tinylab.helpers.seq import prod
from tinylab.mixin.base import Sizes, as_shape, largest, shape_text
from tinylab.mixin.conv import ConvMixin

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

# Of one key: a counter is a pair of words, of which the high one is half of them further.
_MOST_WORDS = (1 << 32) - 1


class RandomMixin(ConvMixin):
    """Random values; the class gives `rand` and `_random_words`."""

    __slots__ = ()

    if TYPE_CHECKING:

        @classmethod
        def rand(
            cls, *shape: Sizes, device: Any = None, dtype: Any = None, contiguous: bool = True
        ) -> Self:
            """Uniform in [0, 1)."""
            ...

        @classmethod
        def _random_words(cls, num: int, device: Any) -> Self:
            """(num,) random uint32."""
            ...

        def _drawn_like(self, draw: Callable[..., Self], kwargs: dict[str, Any]) -> Self:
            """What a draw gives in this value's shape, where this value is."""
            ...

    @classmethod
    def random_bits(cls, key: Self, counter: Self, num: int) -> Self:
        """(num,) random uint32, from a key and a counter: (1,) uint64, or pairs, low word first.

        They make a key of their own, of which counter (i, i + n) gives word i and word i + n of 2n.

        Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.

        Raises: ShapeError for a key or a counter that is neither.
        """
        whole, first = _joined("key", key), _joined("counter", counter)
        place = cls._iota(num, dtypes.uint64)
        if num <= _MOST_WORDS:
            return cls._words_of(first.threefry(whole), place, -(-num // 2))
        # Each part has a key of its own, and all but the last are equally long.
        start = place // _MOST_WORDS * _MOST_WORDS
        last = num - 1 - (num - 1) % _MOST_WORDS
        full, rest = (cls.const(-(-n // 2), dtypes.uint64) for n in (_MOST_WORDS, num - last))
        half = (start < last).where(full, rest)
        return cls._words_of((first + start).threefry(whole), place - start, half)

    @classmethod
    def _words_of(cls, own: Self, place: Self, half: Any) -> Self:
        """The words at places below 2 * half, of a key for all or for each."""
        is_high = place >= half
        pair = is_high.where(place - half, place)
        block = ((pair + half).lshift(32) + pair).threefry(own._broadcast_to(place.shape))
        words: Self = is_high.where(block.rshift(32), block).cast(dtypes.uint32)
        return words

    @classmethod
    def _fractions(cls, count: int, dtype: DType, device: Any) -> Self:
        """(count,) floats in [0, 1): of as many bits as the type's mantissa has."""
        kept = dtypes.finfo(dtype)[1]
        words = cls._random_words(-(-count * dtype.itemsize // 4), device)
        if dtype.itemsize == 8:
            low, high = words.cast(dtypes.uint64).reshape((-1, 2)).split(1, 1)
            wide = (low + high.lshift(32)).reshape((count,)).rshift(64 - kept)
            return wide.cast(dtype) * 2.0**-kept
        # Several small numbers come of a word, the first from its low bits.
        width, each = 8 * dtype.itemsize, 4 // dtype.itemsize
        if each > 1:
            shifts = cls._iota(each, dtypes.uint32) * width
            words = words.reshape((-1, 1)).rshift(shifts).reshape((-1,)).shrink(((0, count),))
            words = words & (1 << width) - 1
        return (words.rshift(width - kept).cast(dtypes.float32) * 2.0**-kept).cast(dtype)

    def rand_like(self, **kwargs: Any) -> Self:
        """`rand` in this value's shape, type and place; each device draws its own part."""
        kwargs.setdefault("dtype", self.dtype)
        return self._drawn_like(self.rand, kwargs)

    def randn_like(self, dtype: DTypeLike | None = None, **kwargs: Any) -> Self:
        """`randn` in this value's shape, type and place; each device draws its own part."""
        own = dtype if dtype is not None else self.dtype
        return self._drawn_like(self.randn, {**kwargs, "dtype": own})

    @classmethod
    def randn(cls, *shape: Sizes, dtype: DTypeLike | None = None, **kwargs: Any) -> Self:
        """Normal with mean 0 and variance 1.

        Source: Box, Muller, "A note on the generation of random normal deviates", 1958.
        """
        own = to_dtype(dtype if dtype is not None else dtypes.default_float)
        kwargs.pop("contiguous", None)
        u = cls.rand(2, *as_shape(shape), dtype=dtypes.float32, **kwargs)
        radius = (u[1].neg() + 1).log().mul(-2).sqrt()
        return (u[0].mul(2 * math.pi).cos() * radius).cast(own)

    @classmethod
    def randint(
        cls, *shape: Sizes, low: int = 0, high: int = 10, dtype: Any = dtypes.int, **kwargs: Any
    ) -> Self:
        """Uniform whole numbers from low up to, not including, high.

        Of up to 2**23 numbers they are those that tinygrad draws, of one random float32 each. Of
        more, of which such a float does not reach all, they are worked out from 64 random bits, of
        more than 2**32 from 96: all are equally likely but for one part in 2**32.

        Raises: OperandError for bounds that are no integers, or further apart than 2**64;
        DTypeError for a float type.
        """
        if not isinstance(low, int) or not isinstance(high, int):
            raise OperandError(f"randint: {low=} and {high=} must be integers")
        sizes = check_sizes(as_shape(shape))
        most = tuple(map(largest, sizes))
        count = math.prod(most)
        if high <= low and count:
            raise OperandError(f"randint: nothing lies from {low=} up to, not including, {high=}")
        dtype = to_dtype(dtype)
        if dtype.kind == "float":
            raise DTypeError(f"randint needs an integer dtype, not {dtype}")
        size, device = high - low, kwargs.get("device")
        if size > 1 << 64:
            raise OperandError(f"randint: {low=} and {high=} are further apart than 2**64")
        if size <= 1 << dtypes.finfo(dtypes.float32)[1]:
            whole = (cls._fractions(count, dtypes.float32, device) * float(size)).cast(dtypes.int64)
        else:
            whole = cls._wide_fractions(count, size, device).cast(dtypes.int64)
        # All of it wraps at 64 bits.
        first = (low + (1 << 63)) % (1 << 64) - (1 << 63)
        return (whole + first).cast(dtype).reshape(most).contiguous().shrink_to(sizes)

    @classmethod
    def _wide_fractions(cls, count: int, size: int, device: Any) -> Self:
        """(count,) uint64 below size, which is at most 2**64: size times random bits, rounded down.

        The bits are words, the first the highest; products of two words are carried by hand.
        """
        each = 2 if size <= 1 << 32 else 3
        words = cls._random_words(each * count, device).cast(dtypes.uint64).reshape((each, count))
        if each == 2:
            return (words[0] * size + (words[1] * size).rshift(32)).rshift(32)
        top, end = size >> 32, size & 0xFFFFFFFF
        low = words[1] * end + (words[2] * end).rshift(32)
        carry = (words[2] * top + (low & 0xFFFFFFFF)).rshift(32)
        high = words[0] * end + low.rshift(32)
        carry = (words[1] * top + (high & 0xFFFFFFFF) + carry).rshift(32)
        return words[0] * top + high.rshift(32) + carry

    @classmethod
    def uniform(
        cls,
        *shape: Sizes,
        low: float = 0.0,
        high: float = 1.0,
        dtype: DTypeLike | None = None,
        **kwargs: Any,
    ) -> Self:
        """Uniform in [low, high); integers with an integer type."""
        own = to_dtype(dtype if dtype is not None else dtypes.default_float)
        if own.kind != "float":
            return cls.randint(*shape, low=int(low), high=int(high), dtype=own, **kwargs)
        drawn = cls.rand(*shape, dtype=_drawn_type(own), **kwargs)
        return (drawn * (high - low)).cast(own) + low

    @classmethod
    def normal(cls, *shape: Sizes, mean: float = 0.0, std: float = 1.0, **kwargs: Any) -> Self:
        """Normal with this mean and standard deviation."""
        return cls.randn(*shape, **kwargs) * std + mean

    @classmethod
    def scaled_uniform(cls, *shape: Sizes, **kwargs: Any) -> Self:
        """Uniform in [-1, 1), divided by the square root of the number of elements."""
        sizes = as_shape(shape)
        bound = max(float(prod(sizes)), 1.0) ** -0.5
        return cls.uniform(*sizes, low=-1.0, high=1.0, **kwargs).mul(bound)

    @classmethod
    def glorot_uniform(cls, *shape: Sizes, **kwargs: Any) -> Self:
        """Uniform, scaled by fan-in and fan-out.

        Source: Glorot, Bengio, "Understanding the difficulty of training deep networks", 2010.
        """
        sizes = _fan_sizes(shape)
        bound = math.sqrt(6 / max(sizes[0] + int(prod(sizes[1:])), 1))
        return cls.uniform(*sizes, low=-bound, high=bound, **kwargs)

    @classmethod
    def kaiming_uniform(cls, *shape: Sizes, a: float = 0.01, **kwargs: Any) -> Self:
        """Uniform, scaled by fan-in for leaky ReLUs of slope a.

        Source: He et al., "Delving Deep into Rectifiers", 2015.
        """
        sizes = _fan_sizes(shape)
        bound = math.sqrt(3.0) * _kaiming_std(sizes, a)
        return cls.uniform(*sizes, low=-bound, high=bound, **kwargs)

    @classmethod
    def kaiming_normal(cls, *shape: Sizes, a: float = 0.01, **kwargs: Any) -> Self:
        """Normal, scaled by fan-in for leaky ReLUs of slope a.

        Source: He et al., "Delving Deep into Rectifiers", 2015.
        """
        sizes = _fan_sizes(shape)
        return cls.normal(*sizes, mean=0.0, std=_kaiming_std(sizes, a), **kwargs)

    @classmethod
    def randperm(cls, n: int, device: Any = None, dtype: Any = dtypes.int, **kwargs: Any) -> Self:
        """The numbers 0 to n - 1 in random order.

        Raises: CreationError when n is negative.
        """
        check_sizes((n,))
        # Equal numbers, which keep their order, are rare for n far below 2 ** 12.
        drawn: Any = cls.rand(n, device=device, dtype=dtypes.float32, **kwargs)
        found: Self = drawn.argsort().cast(dtype)
        return found

    def multinomial(self, num_samples: int = 1, replacement: bool = False) -> Self:
        """Places drawn with probabilities proportional to the elements of each row.

        (N, C) -> (N, num_samples);  (C,) -> (num_samples,)

        Raises: ShapeError for other shapes, or more samples without replacement than elements.
        """
        if not 1 <= self.ndim <= 2 or num_samples <= 0:
            raise ShapeError(
                f"multinomial: shape {shape_text(self.shape)} must have 1 or 2 axes, "
                f"{num_samples=} above 0"
            )
        weight = self if self.ndim == 2 else self.unsqueeze(0)
        rows, classes = weight.shape
        if not replacement and num_samples > classes:
            raise ShapeError(
                f"multinomial: {num_samples=} of {classes} elements without replacement"
            )
        if replacement or num_samples == 1:
            cdf = weight.cast(dtypes.float32).cumsum(1)
            drawn: Any = self.rand(num_samples, rows, 1, dtype=dtypes.float32)
            draw = drawn.to(self.device) * cdf[:, -1:]
            below = cdf._count_at_most(draw.squeeze(2).permute((1, 0))).minimum(classes - 1)
            found = below.cast(dtypes.default_int)
        else:
            # The largest of log(u) / w belong to a draw without replacement.
            noise = weight.rand_like(dtype=dtypes.float32).log()
            keys: Any = weight.eq(0).where(-math.inf, noise / weight)
            found = keys.topk(num_samples, 1)[1].cast(dtypes.default_int)
        return found if self.ndim == 2 else found.squeeze(0)

    def dropout(self, p: float = 0.5) -> Self:
        """While TRAINING: elements set to 0 with probability p, the others scaled by 1 / (1 - p).

        Raises: OperandError when p is no probability.
        """
        if not 0 <= p <= 1:
            raise OperandError(f"dropout: {p=} is out of range [0, 1]")
        if not TRAINING.value or p == 0:
            return self
        if p == 1:
            return self.const_like(0)
        keep = self.rand_like(dtype=dtypes.default_float, contiguous=False)
        return (keep >= p).contiguous().where(self, 0) * (1 / (1 - p))


def _drawn_type(dtype: DType) -> DType:
    """What numbers of a type are worked out from: the default type, if it is not too small."""
    usual = dtypes.default_float
    return usual if usual.itemsize >= 4 or dtype.itemsize < 4 else dtypes.float32


def _joined(name: str, value: Any) -> Any:
    """(1,) uint64, of that or of a pair of words, the low one first."""
    if value.dtype is dtypes.uint64 and value.numel() == 1:
        return value.reshape((1,))
    if value.dtype is not dtypes.uint32 or value.shape != (2,):
        raise ShapeError(
            f"random_bits takes pairs of uint32, and the {name} is {value.dtype} "
            f"{shape_text(value.shape)}",
            help="or one uint64 each",
        )
    low, high = value.cast(dtypes.uint64).split(1)
    return low + high.lshift(32)


def check_sizes(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """The sizes, if they are sizes.

    Raises: CreationError for one that is negative or no integer.
    """
    sizes = tuple(s if _is_expression(s) else _whole(s) for s in shape)
    if any(s is None for s in sizes):
        raise CreationError(
            f"invalid input shape={shape_text(shape)}", help="sizes are integers, 0 or more"
        )
    return sizes


def _whole(size: Any) -> int | None:
    """A size as an int; None where it is none."""
    found = operator.index(size) if hasattr(size, "__index__") else -1
    return found if found >= 0 else None


def _is_expression(size: Any) -> bool:
    """Whether a size is symbolic: it has bounds, and is no tensor."""
    return hasattr(size, "vmin") and not hasattr(size, "uop")


def _fan_sizes(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """The sizes of a weight: the number of its outputs, then those of its inputs."""
    sizes = check_sizes(as_shape(shape))
    if not sizes:
        raise CreationError(
            "a weight has one size or more, not ()", help="the first is its fan-out"
        )
    return sizes


def _kaiming_std(sizes: tuple[Any, ...], a: float) -> float:
    return math.sqrt(2.0 / (1 + a**2)) / math.sqrt(max(int(prod(sizes[1:])), 1))
