"""Losses: how far an answer is from the right one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tinylab.dtype import dtypes, least_upper_float
from tinylab.errors import OperandError, ShapeError
from tinylab.mixin.base import ReductionStr, same_size, shape_text
from tinylab.mixin.norm import NormMixin

if TYPE_CHECKING:
    from typing import Self

S = TypeVar("S", bound="NormMixin")


class LossMixin(NormMixin):
    """Losses with a reduction: "mean", "sum" or "none"."""

    __slots__ = ()

    def _do_reduction(self, reduction: ReductionStr) -> Self:
        if reduction == "none":
            return self
        if reduction not in ("mean", "sum"):
            raise OperandError(f"{reduction=} must be one of 'mean', 'sum', 'none'")
        return self.mean() if reduction == "mean" else self.sum()

    def binary_crossentropy(self, Y: Self, reduction: ReductionStr = "mean") -> Self:
        """-(Y log(self) + (1 - Y) log(1 - self)); logarithms are held above -100, as in PyTorch."""
        yes, no = self.log().maximum(-100), (1 - self).log().maximum(-100)
        return (Y * yes + (1 - Y) * no).neg()._do_reduction(reduction)

    def binary_crossentropy_logits(
        self, Y: Self, reduction: ReductionStr = "mean", pos_weight: Self | None = None
    ) -> Self:
        """`binary_crossentropy` of sigmoid(self), without loss for large values."""
        yes = Y if pos_weight is None else Y * pos_weight
        logits = self.cast(least_upper_float(self.dtype))
        losses = yes * logits.neg().softplus() + (1 - Y) * logits.softplus()
        return losses._do_reduction(reduction)

    def sparse_categorical_crossentropy(
        self,
        Y: Self,
        ignore_index: int = -1,
        label_smoothing: float = 0.0,
        reduction: ReductionStr = "mean",
    ) -> Self:
        """Cross entropy of logits with classes along the last axis.

        Targets equal to ignore_index do not count.

        (N, C), Y (N,) -> ()

        Raises: OperandError when label_smoothing is no fraction.
        """
        if not 0 <= label_smoothing <= 1:
            raise OperandError(f"{label_smoothing=} must be in [0, 1]")
        classes = self._sized_axis(-1, "sparse_categorical_crossentropy")
        logs = self.log_softmax()
        counted = Y.ne(ignore_index)
        hit = Y.cast(dtypes.int32).one_hot(self.shape[classes]).cast(dtypes.bool)
        picked = hit.where(logs, 0).sum(-1)
        losses = picked * (1 - label_smoothing) + logs.mean(-1) * label_smoothing
        losses = counted.where(losses.neg(), 0)
        if reduction == "mean":
            return losses.sum() / counted.cast(losses.dtype).sum()
        return losses._do_reduction(reduction)

    def cross_entropy(
        self, Y: Self, reduction: ReductionStr = "mean", label_smoothing: float = 0.0
    ) -> Self:
        """Cross entropy of logits with classes along axis 1; Y holds classes or probabilities.

        (N, C), Y (N,) of classes or (N, C) of probabilities -> ()

        Raises: OperandError when label_smoothing is no fraction; ShapeError when shapes do not fit.
        """
        if not 0 <= label_smoothing <= 1:
            raise OperandError(f"{label_smoothing=} must be in [0, 1]")
        axis = self._sized_axis(0 if self.ndim == 1 else 1, "cross_entropy")
        classes = self.shape[axis]
        if same_size(classes, 0):
            raise ShapeError(f"cross_entropy: no classes in logits {shape_text(self.shape)}")
        if Y.ndim == self.ndim and Y.shape == self.shape:
            target = Y
        elif Y.shape == (*self.shape[:axis], *self.shape[axis + 1 :]):
            hits = _classes_first(Y.cast(dtypes.int32), classes, axis)
            target = hits.cast(least_upper_float(self.dtype))
        else:
            raise ShapeError(
                f"cross_entropy: targets {shape_text(Y.shape)} do not fit logits "
                f"{shape_text(self.shape)}",
                help="give one class for each row, or a probability for each logit",
            )
        target = target * (1 - label_smoothing) + label_smoothing / classes
        losses = (self.log_softmax(axis) * target).sum(axis).neg()
        return losses._do_reduction(reduction)

    def nll_loss(
        self,
        Y: Self,
        weight: Self | None = None,
        ignore_index: int | None = None,
        reduction: ReductionStr = "mean",
    ) -> Self:
        """Minus the log-probability (self) of the right class along axis 1, weighted by class.

        (N, C), Y (N,) -> ()
        """
        axis = self._sized_axis(0 if self.ndim == 1 else 1, "nll_loss")
        classes = self.shape[axis]
        hit = _classes_first(Y.cast(dtypes.int32), classes, axis).cast(dtypes.bool)
        picked = hit.where(self, 0).sum(axis)
        if weight is None:
            counts = picked.const_like(1)
        else:
            shape = tuple(classes if i == axis else 1 for i in range(self.ndim))
            counts = hit.where(weight.reshape(shape), 0).sum(axis)
        if ignore_index is not None:
            counts = Y.eq(ignore_index).where(0, counts)
        losses = (picked * counts).neg()
        if reduction == "mean":
            return losses.sum() / counts.sum()
        return losses._do_reduction(reduction)


def _classes_first(classes: S, count: int, axis: int) -> S:
    """One-hot rows with the classes along an axis."""
    hot = classes.one_hot(count)
    order = list(range(hot.ndim - 1))
    order.insert(axis, hot.ndim - 1)
    return hot.permute(tuple(order))
