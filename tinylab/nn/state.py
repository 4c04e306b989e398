"""Parameters by name, and files of them in the safetensors format."""

from __future__ import annotations

import json
import math
import os
import pathlib
import struct
import warnings
from collections import OrderedDict
from typing import Any

from tinylab.dtype import DType, dtypes
from tinylab.errors import CreationError, OperandError, ShapeError
from tinylab.helpers.text import closest
from tinylab.tensor import Tensor, realize_all
from tinylab.tensor.data import buffer_uop

safe_dtypes: dict[str, DType] = {
    "BOOL": dtypes.bool,
    "I8": dtypes.int8,
    "U8": dtypes.uint8,
    "I16": dtypes.int16,
    "U16": dtypes.uint16,
    "I32": dtypes.int32,
    "U32": dtypes.uint32,
    "I64": dtypes.int64,
    "U64": dtypes.uint64,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "F32": dtypes.float32,
    "F64": dtypes.float64,
    "F8_E4M3": dtypes.fp8e4m3,
    "F8_E5M2": dtypes.fp8e5m2,
}
inverse_safe_dtypes: dict[DType, str] = {v: k for k, v in safe_dtypes.items()}


def get_state_dict(obj: Any, prefix: str = "", tensor_type: type = Tensor) -> dict[str, Tensor]:
    """The tensors of an object, of its attributes, and of lists and dicts among them, by path.

    model with conv.weight and layers[0].bias -> {"conv.weight": …, "layers.0.bias": …}
    """
    if isinstance(obj, tensor_type):
        return {prefix.strip("."): obj}  # type: ignore[dict-item]
    if hasattr(obj, "_asdict"):
        return get_state_dict(obj._asdict(), prefix, tensor_type)
    if isinstance(obj, OrderedDict):
        return get_state_dict(dict(obj), prefix, tensor_type)
    if isinstance(obj, (list, tuple)):
        items: list[tuple[Any, Any]] = list(enumerate(obj))
    elif isinstance(obj, dict):
        items = list(obj.items())
    else:
        items = list(getattr(obj, "__dict__", {}).items())
    found: dict[str, Tensor] = {}
    for name, value in items:
        if isinstance(value, tensor_type) or not isinstance(value, Tensor):
            found.update(get_state_dict(value, f"{prefix}{name}.", tensor_type))
    return found


def get_parameters(obj: Any) -> list[Tensor]:
    """The tensors of an object, as `get_state_dict` finds them."""
    return list(get_state_dict(obj).values())


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
        warnings.warn(f"unused weights in state_dict: {sorted(unused)[:8]}", stacklevel=2)
    loaded = []
    for name, t in own.items():
        if name not in state_dict:
            if strict:
                near = closest(name, state_dict)
                hint = f"did you mean {near}?" if near else "pass strict=False to leave it as it is"
                raise OperandError(f"{name!r} is missing in the state_dict", help=hint)
            continue
        new = state_dict[name]
        if t.shape != new.shape:
            raise ShapeError(
                f"shape mismatch for {name}: model has {t.shape}, file has {new.shape}"
            )
        t.replace(new.cast(t.dtype).to(t.device).clone())
        loaded.append(t)
        if consume:
            del state_dict[name]
    if realize:
        realize_all(loaded)
    return loaded


# *** safetensors


def safe_load_metadata(t: Any) -> tuple[bytes, int, dict[str, Any]]:
    """(the bytes of a file, where its data begins, its header).

    Raises: CreationError for a file that is not in the safetensors format.
    """
    raw = _raw(t)
    if len(raw) < 8:
        raise CreationError(f"no safetensors file: {len(raw)} bytes are too few")
    (length,) = struct.unpack("<Q", raw[:8])
    if 8 + length > len(raw):
        raise CreationError(f"no safetensors file: a header of {length} bytes in {len(raw)}")
    try:
        header = json.loads(bytes(raw[8 : 8 + length]))
    except ValueError as e:
        raise CreationError(f"no safetensors file: its header is no JSON ({e})") from e
    return raw, 8 + int(length), header


def _raw(source: Any) -> bytes:
    if isinstance(source, Tensor):
        return bytes(source.data())
    return pathlib.Path(source).read_bytes()


def safe_load(fn: Any) -> dict[str, Tensor]:
    """The tensors of a safetensors file, by name.

    Raises: CreationError for a file that is damaged or has types that tinylab lacks.
    """
    raw, begin, header = safe_load_metadata(fn)
    found = {}
    for name, info in header.items():
        if name != "__metadata__":
            found[name] = _read_one(name, info, memoryview(raw)[begin:])
    return found


def _read_one(name: str, info: dict[str, Any], body: memoryview) -> Tensor:
    kind, shape, (first, last) = info["dtype"], tuple(info["shape"]), info["data_offsets"]
    if kind not in safe_dtypes:
        raise CreationError(f"{name!r} has type {kind}, which tinylab lacks")
    dtype = safe_dtypes[kind]
    if not 0 <= first <= last <= len(body) or last - first != math.prod(shape) * dtype.itemsize:
        raise CreationError(f"damaged file: {name!r} of {kind} {shape} in bytes {first} to {last}")
    device = Tensor(0.0).device
    return Tensor(buffer_uop(bytes(body[first:last]), dtype, shape, str(device)))


def safe_save(tensors: dict[str, Tensor], fn: str, metadata: dict[str, Any] | None = None) -> None:
    """Write tensors to a safetensors file, whole or not at all.

    Raises: CreationError for a weak type.
    """
    realize_all(list(tensors.values()))
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    parts, offset = [], 0
    for name, t in tensors.items():
        if t.dtype not in inverse_safe_dtypes:
            raise CreationError(
                f"{name!r} has type {t.dtype}, which a file cannot hold", help="cast it"
            )
        data = bytes(t.contiguous()._bytes())
        header[name] = {
            "dtype": inverse_safe_dtypes[t.dtype],
            "shape": list(t.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        parts.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    temporary = f"{os.fspath(fn)}.{os.getpid()}.tmp"
    with open(temporary, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(parts)
    os.replace(temporary, fn)
