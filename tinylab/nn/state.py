"""Parameters by name, and the files that hold them; what scripts import from here."""

from __future__ import annotations

import warnings
from typing import Any

from tinylab.errors import DeviceError, OperandError, ShapeError
from tinylab.helpers.arguments import explained
from tinylab.helpers.near import closest
from tinylab.nn.files import (
    TensorIO as TensorIO,
    accept_filename as accept_filename,
    tar_extract as tar_extract,
    zip_extract as zip_extract,
)
from tinylab.nn.gguf import gguf_load as gguf_load
from tinylab.nn.safetensors import (
    inverse_safe_dtypes as inverse_safe_dtypes,
    safe_dtypes as safe_dtypes,
    safe_load as safe_load,
    safe_load_metadata as safe_load_metadata,
    safe_save as safe_save,
)
from tinylab.nn.strangers import Stranger
from tinylab.nn.torch_files import torch_load as torch_load
from tinylab.tensor import Tensor, realize_all

CHUNK_SIZE = 1 << 20  # of a file in a network's file system, in bytes


@explained
def get_state_dict(obj: Any, prefix: str = "", tensor_type: type = Tensor) -> dict[str, Tensor]:
    """The tensors of an object, of its attributes, and of lists and dicts among them, by path.

    model with conv.weight and layers[0].bias -> {"conv.weight": …, "layers.0.bias": …}

    What leads back to an object that it is inside of, such as a layer's model, is left out.
    """
    return _tensors_of(obj, prefix, tensor_type, ())


def _tensors_of(
    obj: Any, prefix: str, tensor_type: type, inside: tuple[int, ...]
) -> dict[str, Tensor]:
    """`get_state_dict`; inside: the ids of the objects that this one was found in."""
    if isinstance(obj, tensor_type):
        return {prefix.strip("."): obj}  # type: ignore[dict-item]
    if id(obj) in inside:
        return {}
    inside = (*inside, id(obj))
    if hasattr(obj, "_asdict"):
        obj = obj._asdict()
    if isinstance(obj, (list, tuple)):
        items: list[tuple[Any, Any]] = list(enumerate(obj))
    elif isinstance(obj, dict):
        items = list(obj.items())
    else:
        items = list(getattr(obj, "__dict__", {}).items())
    found: dict[str, Tensor] = {}
    for name, value in items:
        if isinstance(value, tensor_type) or not isinstance(value, Tensor):
            found.update(_tensors_of(value, f"{prefix}{name}.", tensor_type, inside))
    return found


@explained
def get_parameters(obj: Any) -> list[Tensor]:
    """The tensors of an object, as `get_state_dict` finds them."""
    return list(get_state_dict(obj).values())


@explained
def load_state_dict(
    model: Any,
    state_dict: dict[str, Tensor],
    strict: bool = True,
    verbose: bool = True,
    consume: bool = False,
    realize: bool = True,
) -> list[Tensor]:
    """Put named tensors into a model's; returns those that were loaded.

    strict: every tensor of the model must be there. consume: take them out of the dict.

    Raises: OperandError for a missing name; ShapeError for another shape.
    """
    own = get_state_dict(model)
    unused = [name for name in state_dict if name not in own]
    if verbose and unused:
        warnings.warn(f"unused weights in state_dict: {sorted(unused)[:8]}", stacklevel=3)
    loaded = []
    for name, t in own.items():
        if name not in state_dict:
            if strict:
                near = closest(name, state_dict)
                hint = f"did you mean {near}?" if near else "pass strict=False to leave it as it is"
                raise OperandError(f"{name!r} is missing in the state_dict", help=hint)
            continue
        new = state_dict[name]
        if not isinstance(new, Tensor):
            raise _no_tensor(name, new)
        if t.shape != new.shape:
            raise ShapeError(
                f"shape mismatch for {name}: model has {t.shape}, file has {new.shape}"
            )
        t.replace(new.to(t.device).cast(t.dtype).clone())
        loaded.append(t)
        if consume:
            del state_dict[name]
    if realize:
        realize_all(loaded)
    return loaded


def _no_tensor(name: str, found: Any) -> OperandError:
    if isinstance(found, Stranger):
        return OperandError(
            f"{name!r} of the state_dict stands for {found.what}, not for a tensor",
            help="save what it holds in PyTorch, as with .to_dense(), or make it of its .args",
        )
    return OperandError(
        f"{name!r} of the state_dict is a {type(found).__name__}, not a tensor",
        help=f"make it one: Tensor(state_dict[{name!r}])",
    )


@explained
def fs_load(t: Tensor, size: int) -> Tensor:
    """Bytes from a file system of the network, by their hash.

    Raises: DeviceError: tinylab has no such device.
    """
    raise DeviceError(
        f"fs_load of {size} bytes needs the network's file system TINYFS, which tinylab lacks",
        help="keep files on disk: Tensor(pathlib.Path(...)), safe_load, safe_save",
    )


@explained
def fs_store(t: Tensor) -> Tensor:
    """Bytes into a file system of the network.

    Raises: DeviceError: tinylab has no such device.
    """
    raise DeviceError(
        f"fs_store of {t.shape} needs the network's file system TINYFS, which tinylab lacks",
        help="keep files on disk: safe_save, or x.to('disk:/a/file').realize()",
    )
