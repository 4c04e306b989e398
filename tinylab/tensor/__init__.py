"""The tensor language: `Tensor`, and the tensors that are alive."""

from tinylab.tensor.held import live
from tinylab.tensor.realizing import realize_all
from tinylab.tensor.replaying import keep_order
from tinylab.tensor.tensor import Tensor

__all__ = ["Tensor", "keep_order", "live", "realize_all"]
