"""The tensor language: `Tensor`, and the tensors that are alive."""

from tinylab.tensor.held import live
from tinylab.tensor.replaying import keep_order
from tinylab.tensor.tensor import Tensor, realize_all

__all__ = ["Tensor", "keep_order", "live", "realize_all"]
