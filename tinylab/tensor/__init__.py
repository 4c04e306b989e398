"""The tensor language: `Tensor`, and the tensors that are alive."""

from tinylab.tensor.core import live
from tinylab.tensor.tensor import Tensor, realize_all

__all__ = ["Tensor", "live", "realize_all"]
