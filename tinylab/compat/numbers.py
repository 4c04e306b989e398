"""numpy's and PyTorch's names of element types, as scripts ask for them."""

from __future__ import annotations

from typing import Any

from tinylab.dtype import DType, dtypes
from tinylab.errors import DTypeError
from tinylab.helpers.arguments import explained


def is_numpy_ndarray(x: object) -> bool:
    """Whether x is a numpy array, without importing numpy."""
    return str(type(x)) == "<class 'numpy.ndarray'>"


@explained
def _to_np_dtype(dtype: DType) -> Any:
    """numpy's type; float32 where numpy has none."""
    import numpy as np

    return np.dtype(dtype.fmt).type if dtype.fmt is not None else np.float32


_TORCH = {
    "bool": dtypes.bool, "uint8": dtypes.uint8, "int8": dtypes.int8, "int16": dtypes.int16,
    "uint16": dtypes.uint16, "int32": dtypes.int32, "uint32": dtypes.uint32, "int64": dtypes.int64,
    "uint64": dtypes.uint64, "float16": dtypes.float16, "bfloat16": dtypes.bfloat16,
    "float32": dtypes.float32, "float64": dtypes.float64, "float8_e4m3fn": dtypes.fp8e4m3,
    "float8_e5m2": dtypes.fp8e5m2, "float8_e4m3fnuz": dtypes.fp8e4m3fnuz,
    "float8_e5m2fnuz": dtypes.fp8e5m2fnuz,
}  # fmt: skip


@explained
def _from_torch_dtype(torch_dtype: Any) -> DType:
    """The type of PyTorch's.

    Raises: DTypeError for complex and quantised ones.
    """
    name = str(torch_dtype).removeprefix("torch.")
    if name not in _TORCH:
        raise DTypeError(f"tinylab has no type like PyTorch's {name}")
    return _TORCH[name]


@explained
def _to_torch_dtype(dtype: DType) -> Any:
    """PyTorch's type.

    Raises: DTypeError where PyTorch has none.
    """
    import torch

    for name, own in _TORCH.items():
        if own is dtype:
            return getattr(torch, name)
    raise DTypeError(f"PyTorch has no type like {dtype}")
