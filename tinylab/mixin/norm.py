"""Normalisation and attention: the pieces of network layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tinylab.dtype import dtypes, strong_dtype, sum_acc_dtype
from tinylab.errors import OperandError, ShapeError
from tinylab.mixin.random import RandomMixin

if TYPE_CHECKING:
    from typing import Self


class NormMixin(RandomMixin):
    """Layers without parameters of their own."""

    __slots__ = ()

    def sequential(self, ll: list[Callable[[Self], Self]]) -> Self:
        """The value through one function after the other."""
        x = self
        for layer in ll:
            x = layer(x)
        return x

    def layernorm(self, axis: int | tuple[int, ...] = -1, eps: float = 1e-05) -> Self:
        """Mean 0 and variance 1 along axes.

        Source: Ba, Kiros, Hinton, "Layer Normalization", 2016.
        """
        own = strong_dtype(self._as_float().dtype)
        x = self.cast(sum_acc_dtype(own))
        y = x - x.mean(axis, keepdim=True)
        scale = (y.square().mean(axis, keepdim=True) + eps).rsqrt()
        return (y * scale).cast(own)

    def batchnorm(
        self,
        weight: Self | None,
        bias: Self | None,
        mean: Self,
        invstd: Self,
        axis: int | tuple[int, ...] = 1,
    ) -> Self:
        """(self - mean) * invstd * weight + bias, each a value for every channel.

        Source: Ioffe, Szegedy, "Batch Normalization", 2015.
        """
        axes = self._axes(axis)
        shape = tuple(s if i in axes else 1 for i, s in enumerate(self.shape))
        x = self - mean.reshape(shape)
        if weight is not None:
            x = x * weight.reshape(shape)
        per_channel = invstd.reshape(shape) if len(invstd.shape) == len(axes) else invstd
        found = x * per_channel
        return found + bias.reshape(shape) if bias is not None else found

    def scaled_dot_product_attention(
        self,
        key: Self,
        value: Self,
        attn_mask: Self | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        enable_gqa: bool = False,
    ) -> Self:
        """softmax(self @ key.T / sqrt(width)) @ value, with a mask, dropout and shared heads.

        (…, L, E), (…, S, E), (…, S, V) -> (…, L, V)

        attn_mask: False where a key is not looked at; or what is added to the scores, -inf there.
        A row that looks at no key is 0, and has gradients of 0.

        Raises: OperandError when both a mask and is_causal are given.
        Source: Vaswani et al., "Attention Is All You Need", 2017.
        """
        if enable_gqa:
            if self.shape[-3] % key.shape[-3]:
                raise ShapeError(
                    f"attention: {self.shape[-3]} heads cannot share {key.shape[-3]} keys"
                )
            times = self.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
        own = self.dtype
        scores = self.matmul(key.transpose(-2, -1), dtype=sum_acc_dtype(strong_dtype(own)))
        scores = scores * (1 / math.sqrt(self.shape[-1]))
        if is_causal:
            if attn_mask is not None:
                raise OperandError("attention: cannot set attn_mask when is_causal is set")
            rows, columns = scores.shape[-2:]
            later = self._tri(rows, columns, 1)  # the first key is never among them
            found = later.where(-math.inf, scores).softmax(-1)
        elif attn_mask is None:
            found = scores.softmax(-1)
        elif attn_mask.dtype is dtypes.bool:
            found = attn_mask.where(scores, -math.inf)._softmax_of_some(-1)
        else:
            found = (scores + attn_mask)._softmax_of_some(-1)
        return found.cast(own).dropout(dropout_p) @ value
