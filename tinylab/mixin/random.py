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
    from typing import Self


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

    @classmethod
    def random_bits(cls, key: Self, counter: Self, num: int) -> Self:
        """(num,) random uint32, from a key and a first counter, both uint64.

        Two words come from each counter: the low half, then the high one. Key and counter as pairs
        of uint32, low word first, make a key of their own, of which counter (i, i + n) gives word i
        and word i + n of 2n.

        Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
        """
        if key.dtype is dtypes.uint32:
            return cls._paired_bits(key, counter, num)
        place = cls._iota(num, dtypes.uint64)
        block = (counter.reshape(1) + place.rshift(1)).threefry(
            key.reshape(1)._broadcast_to((num,))
        )
        return block.rshift(place.bitwise_and(1) * 32).cast(dtypes.uint32)

    @classmethod
    def _paired_bits(cls, key: Self, counter: Self, num: int) -> Self:
        for name, pair in (("key", key), ("counter", counter)):
            if pair.shape != (2,) or pair.dtype is not dtypes.uint32:
                raise ShapeError(
                    f"random_bits takes pairs of uint32, and the {name} is {pair.dtype} "
                    f"{shape_text(pair.shape)}",
                    help="or one uint64 each",
                )
        own = counter._joined().threefry(key._joined())
        half = -(-num // 2)
        place = cls._iota(half, dtypes.uint64)
        block = ((place + half).lshift(32) + place).threefry(own._broadcast_to((half,)))
        words = block.cast(dtypes.uint32).cat(block.rshift(32).cast(dtypes.uint32))
        return words.shrink(((0, num),))

    def _joined(self) -> Self:
        """(2,) words -> (1,) number, low word first."""
        low, high = self.cast(dtypes.uint64).split(1)
        return low + high.lshift(32)

    def _fraction(self, dtype: DType) -> Self:
        """Random words as floats in [0, 1): as many bits as the type holds exactly."""
        if dtype is dtypes.float64:
            high, low = self.reshape((-1, 2)).split(1, 1)
            wide = (high.cast(dtypes.uint64) << 21) ^ (low.cast(dtypes.uint64) >> 11)
            return wide.reshape(-1).cast(dtype) * 2.0**-53
        bits = dtypes.finfo(dtype)[1] + 1
        small = dtype.itemsize < 4
        found = self.rshift(32 - bits).cast(dtypes.float32) * 2.0**-bits
        return found.cast(dtype) if small else found

    def rand_like(self, **kwargs: Any) -> Self:
        """`rand` in this value's shape, type and device."""
        kwargs.setdefault("dtype", self.dtype)
        if kwargs.get("device") is not None:
            return self.rand(*self.shape, **kwargs)
        return self._spread(self.rand(*self.shape, **{**kwargs, "device": self._one_device()}))

    def _one_device(self) -> Any:
        """Where random numbers for this value are drawn."""
        return self.device[0] if isinstance(self.device, tuple) else self.device

    def _spread(self, x: Self) -> Self:
        """Random numbers where this value is: on several devices as it is."""
        found: Self = x.shard_like(self) if isinstance(self.device, tuple) else x  # type: ignore[attr-defined]
        return found

    def randn_like(self, dtype: DTypeLike | None = None, **kwargs: Any) -> Self:
        """`randn` in this value's shape, type and device."""
        own = dtype if dtype is not None else self.dtype
        if kwargs.get("device") is not None:
            return self.randn(*self.shape, dtype=own, **kwargs)
        return self._spread(
            self.randn(*self.shape, dtype=own, **{**kwargs, "device": self._one_device()})
        )

    @classmethod
    def randn(cls, *shape: Sizes, dtype: DTypeLike | None = None, **kwargs: Any) -> Self:
        """Normal with mean 0 and variance 1.

        Source: Box, Muller, "A note on the generation of random normal deviates", 1958.
        """
        own = to_dtype(dtype if dtype is not None else dtypes.default_float)
        wide = own if own.itemsize >= 4 else dtypes.float32
        kwargs.pop("contiguous", None)
        u = cls.rand(2, *as_shape(shape), dtype=wide, **kwargs)
        radius = (u[0].neg() + 1).log().mul(-2).sqrt()
        return (radius * u[1].mul(2 * math.pi).cos()).cast(own)

    @classmethod
    def randint(
        cls, *shape: Sizes, low: int = 0, high: int = 10, dtype: Any = dtypes.int, **kwargs: Any
    ) -> Self:
        """Uniform whole numbers from low up to, not including, high.

        Raises: OperandError for bounds that are no integers; DTypeError for a float type.
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
        words = cls._random_words(count, kwargs.get("device"))
        # The high half of a 64-bit product: as good as even for ranges far below 2 ** 32.
        scaled = (words.cast(dtypes.uint64) * (high - low)).rshift(32).cast(dtypes.int64) + low
        return scaled.cast(dtype).reshape(most).contiguous().shrink_to(sizes)

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
        return cls.rand(*shape, dtype=own, **kwargs) * (high - low) + low

    @classmethod
    def normal(cls, *shape: Sizes, mean: float = 0.0, std: float = 1.0, **kwargs: Any) -> Self:
        """Normal with this mean and standard deviation."""
        return cls.randn(*shape, **kwargs) * std + mean

    @classmethod
    def scaled_uniform(cls, *shape: Sizes, **kwargs: Any) -> Self:
        """Uniform in [-1, 1), divided by the square root of the number of elements."""
        sizes = as_shape(shape)
        bound = float(prod(sizes)) ** -0.5
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
        # Sorting by 31 random bits; equal ones, which keep their order, are rare for n << 2**15.
        words = cls._random_words(n, device).rshift(1).cast(dtypes.int32)
        sort: Any = words
        return sort.argsort().cast(dtype)  # type: ignore[no-any-return]

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
            draw = self.rand(num_samples, rows, 1, device=self.device) * cdf[:, -1:]
            below = cdf._count_at_most(draw.squeeze(2).permute((1, 0))).minimum(classes - 1)
            found = below.cast(dtypes.default_int)
        else:
            # The largest of log(u) / w belong to a draw without replacement.
            noise = (self.rand(rows, classes, device=self.device).neg() + 1).log()
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
        keep = self._spread(
            self.rand(
                *self.shape,
                device=self._one_device(),
                dtype=dtypes.default_float,
                contiguous=False,
            )
        )
        return (keep >= p).contiguous().where(self, 0) * (1 / (1 - p))


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
