"""The tensor language: `Tensor`, and the tensors that are alive."""

from tinylab.tensor.core import live
from tinylab.tensor.replaying import compute_waiting
from tinylab.tensor.tensor import Tensor, realize_all

__all__ = ["Tensor", "compute_waiting", "live", "realize_all"]
