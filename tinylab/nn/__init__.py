"""Layers of neural networks: objects that hold parameters and are called with a tensor."""

from __future__ import annotations

import math
import operator
from typing import Any

from tinylab.dtype import dtypes
from tinylab.errors import CreationError, OperandError, ShapeError
from tinylab.helpers.arguments import explained, explained_class
from tinylab.helpers.context import TRAINING
from tinylab.helpers.seq import make_tuple, prod
from tinylab.mixin.base import shape_text
from tinylab.nn import datasets, optim, state
from tinylab.tensor import Tensor

__all__ = [
    "BatchNorm",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "Embedding",
    "GroupNorm",
    "InstanceNorm",
    "LSTMCell",
    "LayerNorm",
    "LayerNorm2d",
    "Linear",
    "RMSNorm",
    "datasets",
    "optim",
    "state",
]


def _bound(inputs: int) -> float:
    """The largest first weight of a layer with so many inputs.

    Raises: CreationError where there is none.
    """
    if inputs < 1:
        raise CreationError(f"a layer needs one feature or more, not {inputs}")
    return 1 / math.sqrt(inputs)


def _bound_of_kernel(channels: int, kernel: tuple[int, ...]) -> float:
    """As `_bound`, for one filter of a convolution."""
    if channels < 1 or min(kernel, default=1) < 1:
        raise CreationError(
            f"a convolution needs channels and a kernel of 1 or more, not {channels} and {kernel}"
        )
    return _bound(channels * math.prod(kernel))


def _uniform(bound: float, *shape: int) -> Tensor:
    """A parameter with uniform values between -bound and bound, in storage of its own."""
    return Tensor.uniform(*shape, low=-bound, high=bound).clone()


def _must_fit(layer: Any, x: Tensor, axis: int, size: Any, least: int) -> None:
    """An axis of a layer's input must have the size that the layer was made for.

    Raises: ShapeError otherwise, or for fewer axes than the least.
    """
    name = type(layer).__name__
    if x.ndim < least:
        raise ShapeError(
            f"{name} needs an input with {'an axis' if least == 1 else f'{least} axes'} or more, "
            f"not shape {shape_text(x.shape)}"
        )
    found = x.shape[axis]
    if isinstance(found, int) and isinstance(size, int) and found != size:
        raise ShapeError(
            f"{name} was made for {size} features along axis {axis}, "
            f"not for the {found} of shape {shape_text(x.shape)}"
        )


def _scaled_channels(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """(N, C, …) times a weight and plus a bias for each channel, where there are any."""
    if weight is None or bias is None:
        return y
    shape = (1, -1, *(1 for _ in y.shape[2:]))
    return y * weight.reshape(shape) + bias.reshape(shape)


@explained_class
class BatchNorm:
    """Mean 0 and variance 1 for each channel over the batch, then a learned scale and shift.

    While TRAINING the batch's own statistics are used, and remembered with weight momentum.

    (N, C, …) -> (N, C, …)

    Raises: ShapeError for another number of channels.
    Source: Ioffe, Szegedy, "Batch Normalization", 2015.
    """

    def __init__(
        self,
        sz: int,
        eps: float = 1e-5,
        affine: bool = True,
        track_running_stats: bool = True,
        momentum: float = 0.1,
    ) -> None:
        self.num_features = sz
        self.eps, self.track_running_stats, self.momentum = eps, track_running_stats, momentum
        self.weight: Tensor | None = Tensor.ones(sz) if affine else None
        self.bias: Tensor | None = Tensor.zeros(sz) if affine else None
        self.num_batches_tracked = Tensor.zeros(dtype=dtypes.int64).is_param_(False)
        if track_running_stats:
            self.running_mean = Tensor.zeros(sz).is_param_(False)
            self.running_var = Tensor.ones(sz).is_param_(False)

    def calc_stats(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(mean, variance) of each channel: the batch's while TRAINING, else those remembered."""
        if self.track_running_stats and not TRAINING.value:
            return self.running_mean, self.running_var
        axes = [i for i in range(x.ndim) if i != 1]
        mean = x.mean(axes)
        centred = x - mean.detach().reshape([1, -1, *[1] * (x.ndim - 2)])
        return mean, centred.square().mean(axes)

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise the channels."""
        _must_fit(self, x, 1, self.num_features, 2)
        mean, var = self.calc_stats(x)
        if self.track_running_stats and TRAINING.value:
            self._remember(x, mean.detach(), var.detach())
        return x.batchnorm(self.weight, self.bias, mean, (var + self.eps).rsqrt())

    def _remember(self, x: Tensor, mean: Tensor, var: Tensor) -> None:
        count = x.numel() // x.shape[1]
        unbiased = var * (count / max(count - 1, 1))
        keep = 1 - self.momentum
        self.running_mean.assign(self.running_mean * keep + mean * self.momentum)
        self.running_var.assign(self.running_var * keep + unbiased * self.momentum)
        self.num_batches_tracked += 1


BatchNorm2d = BatchNorm3d = BatchNorm


@explained_class
class Conv2d:
    """A convolution with learned filters; the kernel's size decides the number of spatial axes.

    (N, in_channels, H, W) -> (N, out_channels, H', W')

    Raises: OperandError for padding "same" with a stride.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: Any = 1,
        padding: int | tuple[int, ...] | str = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        self.kernel_size = make_tuple(kernel_size, 2)
        self.stride, self.dilation, self.groups = stride, dilation, groups
        self.padding = _padding(padding, self.kernel_size, stride, dilation)
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise OperandError(f"{groups=} must divide {in_channels=} and {out_channels=}")
        bound = _bound_of_kernel(in_channels // groups, self.kernel_size)
        self.weight = _uniform(bound, out_channels, in_channels // groups, *self.kernel_size)
        self.bias: Tensor | None = _uniform(bound, out_channels) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        """Convolve with the filters."""
        return x.conv2d(
            self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding
        )


def _padding(padding: Any, kernel: tuple[int, ...], stride: Any, dilation: Any) -> Any:
    """Padding as numbers; "same" keeps the size, "valid" pads nothing."""
    if not isinstance(padding, str):
        return padding
    if padding.lower() == "valid":
        return 0
    if padding.lower() != "same":
        raise OperandError(f"invalid padding {padding!r}", help='use a number, "same" or "valid"')
    if any(s != 1 for s in make_tuple(stride, len(kernel))):
        raise OperandError(f"padding='same' is not supported for strided convolutions, {stride=}")
    holes = make_tuple(dilation, len(kernel))
    total = [d * (k - 1) for d, k in zip(holes, kernel, strict=True)]
    return tuple(p for t in reversed(total) for p in (t // 2, t - t // 2))


@explained
def Conv1d(
    in_channels: int,
    out_channels: int,
    kernel_size: int,
    stride: Any = 1,
    padding: int | str = 0,
    dilation: Any = 1,
    groups: int = 1,
    bias: bool = True,
) -> Conv2d:
    """A convolution along one axis.

    (N, in_channels, L) -> (N, out_channels, L')
    """
    return Conv2d(
        in_channels, out_channels, (kernel_size,), stride, padding, dilation, groups, bias
    )


@explained_class
class ConvTranspose2d(Conv2d):
    """A transposed convolution: the gradient of a convolution, as a layer.

    (N, in_channels, H, W) -> (N, out_channels, H', W')
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias
        )
        bound = _bound_of_kernel(out_channels // groups, self.kernel_size)
        self.weight = _uniform(bound, in_channels, out_channels // groups, *self.kernel_size)
        self.output_padding = output_padding

    def __call__(self, x: Tensor) -> Tensor:
        """Convolve, transposed, with the filters."""
        return x.conv_transpose2d(
            self.weight,
            self.bias,
            self.groups,
            self.stride,
            self.dilation,
            self.padding,
            self.output_padding,
        )


@explained
def ConvTranspose1d(
    in_channels: int,
    out_channels: int,
    kernel_size: int,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    bias: bool = True,
) -> ConvTranspose2d:
    """A transposed convolution along one axis.

    (N, in_channels, L) -> (N, out_channels, L')
    """
    return ConvTranspose2d(
        in_channels,
        out_channels,
        (kernel_size,),
        stride,
        padding,
        output_padding,
        dilation,
        groups,
        bias,
    )


@explained_class
class Linear:
    """x @ weight.T + bias.

    (…, in_features) -> (…, out_features)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        bound = _bound(in_features)
        self.weight = _uniform(bound, out_features, in_features)
        self.bias: Tensor | None = _uniform(bound, out_features) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply with the weight and add the bias."""
        return x.linear(self.weight.transpose(), self.bias)


@explained_class
class GroupNorm:
    """Mean 0 and variance 1 over each group of channels, then a learned scale and shift.

    (N, C, …) -> (N, C, …)

    Raises: ShapeError for another number of channels.
    Source: Wu, He, "Group Normalization", 2018.
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True
    ) -> None:
        if num_groups < 1 or num_channels % num_groups:
            raise OperandError(f"{num_groups=} must divide {num_channels=}")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight: Tensor | None = Tensor.ones(num_channels) if affine else None
        self.bias: Tensor | None = Tensor.zeros(num_channels) if affine else None

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise the groups of channels."""
        _must_fit(self, x, 1, self.num_channels, 2)
        size = prod((self.num_channels // self.num_groups, *x.shape[2:]))
        grouped = x.reshape(x.shape[0], self.num_groups, size)
        y = grouped.layernorm(eps=self.eps).reshape(x.shape)
        return _scaled_channels(y, self.weight, self.bias)


@explained_class
class InstanceNorm:
    """Mean 0 and variance 1 over each channel of each example, then a learned scale and shift.

    (N, C, …) -> (N, C, …)

    Raises: ShapeError for another number of channels.
    Source: Ulyanov, Vedaldi, Lempitsky, "Instance Normalization", 2016.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = True) -> None:
        self.num_features, self.eps = num_features, eps
        self.weight: Tensor | None = Tensor.ones(num_features) if affine else None
        self.bias: Tensor | None = Tensor.zeros(num_features) if affine else None

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise the channels of each example."""
        _must_fit(self, x, 1, self.num_features, 2)
        flat = x.reshape(x.shape[0], self.num_features, prod(x.shape[2:]))
        y = flat.layernorm(eps=self.eps).reshape(x.shape)
        return _scaled_channels(y, self.weight, self.bias)


@explained_class
class LayerNorm:
    """Mean 0 and variance 1 over the last axes, then a learned scale and shift.

    Raises: OperandError when the last axes have other sizes.
    Source: Ba, Kiros, Hinton, "Layer Normalization", 2016.
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
    ) -> None:
        self.normalized_shape = tuple(map(operator.index, make_tuple(normalized_shape, 1)))
        self.axis = tuple(-1 - i for i in range(len(self.normalized_shape)))
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight: Tensor | None = None
        self.bias: Tensor | None = None
        if elementwise_affine:
            self.weight = Tensor.ones(*self.normalized_shape)
            self.bias = Tensor.zeros(*self.normalized_shape)

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise the last axes."""
        if x.shape[-len(self.normalized_shape) :] != self.normalized_shape:
            raise OperandError(
                f"last dimensions of {shape_text(x.shape)} must match {self.normalized_shape}",
                help="LayerNorm is made with the sizes of the last axes",
            )
        y = x.layernorm(eps=self.eps, axis=self.axis)
        return y if self.weight is None or self.bias is None else y * self.weight + self.bias


@explained_class
class LayerNorm2d(LayerNorm):
    """`LayerNorm` over the channels of a plane.

    (N, C, H, W) -> (N, C, H, W)

    Raises: ShapeError for another number of channels or of axes.
    """

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise the channels."""
        if x.ndim != 4:
            raise ShapeError(
                f"LayerNorm2d needs an input with 4 axes, (N, C, H, W), not {shape_text(x.shape)}"
            )
        _must_fit(self, x, 1, self.normalized_shape[0], 4)
        return super().__call__(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


@explained_class
class RMSNorm:
    """Root mean square 1 over the last axis, then a learned scale.

    Raises: ShapeError where that axis has another size than the scale.
    Source: Zhang, Sennrich, "Root Mean Square Layer Normalization", 2019.
    """

    def __init__(self, dim: int, eps: float = 1e-6, elementwise_affine: bool = True) -> None:
        self.eps = eps
        self.weight: Tensor | None = Tensor.ones(dim) if elementwise_affine else None

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        if self.weight is not None:
            _must_fit(self, x, -1, self.weight.shape[0], 1)
        wide = x.float()
        y = (wide * (wide.square().mean(-1, keepdim=True) + self.eps).rsqrt()).cast(x.dtype)
        return y if self.weight is None else y * self.weight


@explained_class
class Embedding:
    """A learned row for each number.

    (…) of integers -> (…, embed_size)
    """

    def __init__(self, vocab_size: int, embed_size: int) -> None:
        self.vocab_sz, self.embed_sz = vocab_size, embed_size
        self.weight = Tensor.glorot_uniform(vocab_size, embed_size).clone()

    def __call__(self, idx: Tensor) -> Tensor:
        """Pick the rows."""
        if idx.dtype.kind not in ("sint", "uint"):
            raise OperandError(
                f"Expected integer dtype for index in embedding, got {idx.dtype}",
                help="cast the index to an integer type",
            )
        return self.weight[idx]


@explained_class
class LSTMCell:
    """One step of a long short-term memory.

    (N, input_size), state of two (N, hidden_size) -> two (N, hidden_size)

    Raises: ShapeError for other sizes.
    Source: Hochreiter, Schmidhuber, "Long Short-Term Memory", 1997.
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        bound = _bound(hidden_size)
        self.weight_ih = _uniform(bound, hidden_size * 4, input_size)
        self.weight_hh = _uniform(bound, hidden_size * 4, hidden_size)
        self.bias_ih: Tensor | None = Tensor.zeros(hidden_size * 4) if bias else None
        self.bias_hh: Tensor | None = Tensor.zeros(hidden_size * 4) if bias else None

    def __call__(self, x: Tensor, hc: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Take one step: (hidden state, cell state)."""
        _must_fit(self, x, 1, self.weight_ih.shape[1], 2)
        if isinstance(hc, Tensor) or (hc is not None and len(hc) != 2):
            raise OperandError("LSTMCell: the state is two tensors, (hidden state, cell state)")
        for held in hc or ():
            _must_fit(self, held, 1, self.weight_hh.shape[1], 2)
        if hc is None:
            zero = Tensor.zeros(x.shape[0], self.weight_hh.shape[1], dtype=x.dtype, device=x.device)
            hc = (zero, zero)
        gates = x.linear(self.weight_ih.T, self.bias_ih) + hc[0].linear(
            self.weight_hh.T, self.bias_hh
        )
        i, f, g, o = gates.chunk(4, dim=1)
        c = f.sigmoid() * hc[1] + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return h.contiguous(), c.contiguous()
