"""The safetensors format: a header in JSON, then the tensors' bytes.

Source: Hugging Face, the safetensors format (length as u64, header, data).
"""

from __future__ import annotations

import json
import math
import os
import struct
from typing import Any

from tinylab.dtype import DType, dtypes
from tinylab.errors import FileFormatError
from tinylab.helpers.arguments import explained, shown
from tinylab.nn.files import Bytes, accept_filename
from tinylab.tensor import Tensor, realize_all

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
    "F8_E4M3FNUZ": dtypes.fp8e4m3fnuz,
    "F8_E5M2FNUZ": dtypes.fp8e5m2fnuz,
}
_METADATA = "__metadata__"
inverse_safe_dtypes: dict[DType, str] = {v: k for k, v in safe_dtypes.items()}


@accept_filename
def safe_load_metadata(t: Tensor) -> tuple[Tensor, int, dict[str, Any]]:
    """(the bytes of a file, where its data begins, its header).

    Raises: FileFormatError for a file that is not in the safetensors format.
    """
    begin, header = _header(Bytes(t))
    return t, begin, header


def _header(data: Bytes) -> tuple[int, dict[str, Any]]:
    if len(data) < 8:
        raise FileFormatError(f"no safetensors file: {len(data)} bytes are too few")
    (length,) = struct.unpack("<Q", data.view[:8])
    if 8 + length > len(data):
        raise FileFormatError(f"no safetensors file: a header of {length} bytes in {len(data)}")
    try:
        header = json.loads(bytes(data.view[8 : 8 + length]))
    except (ValueError, RecursionError) as e:
        raise FileFormatError(f"no safetensors file: its header is no JSON ({e})") from e
    if not isinstance(header, dict):
        raise FileFormatError(f"no safetensors file: its header is a {type(header).__name__}")
    return 8 + int(length), header


@accept_filename
def safe_load(fn: Tensor) -> dict[str, Tensor]:
    """The tensors of a safetensors file, by name.

    Raises: FileFormatError for a file that is damaged or has types that tinylab lacks.
    """
    data = Bytes(fn)
    begin, header = _header(data)
    return {
        name: _read_one(data, begin, name, info)
        for name, info in header.items()
        if name != _METADATA
    }


def _read_one(data: Bytes, begin: int, name: str, info: Any) -> Tensor:
    try:
        kind, shape, (first, last) = info["dtype"], info["shape"], info["data_offsets"]
        numbers = [*shape, first, last]
    except (KeyError, TypeError, ValueError) as e:
        raise FileFormatError(f"damaged file: the entry of {name!r} is {str(info)[:80]}") from e
    if len(shape) > 64 or not all(type(n) is int and n >= 0 for n in numbers):
        raise FileFormatError(f"damaged file: {name!r} of {shape} in bytes {first} to {last}")
    if math.prod(n or 1 for n in shape) * 8 >= 1 << 63:
        raise FileFormatError(
            f"damaged file: {name!r} of {shape} has sizes that no memory has places for"
        )
    if not isinstance(kind, str) or kind not in safe_dtypes:
        raise FileFormatError(f"{name!r} has type {kind}, which tinylab lacks")
    dtype = safe_dtypes[kind]
    if last - first != math.prod(shape) * dtype.itemsize:
        raise FileFormatError(
            f"damaged file: {name!r} of {kind} {tuple(shape)} in bytes {first} to {last}"
        )
    return data.tensor(begin + first, dtype, shape)


@explained
def safe_save(
    tensors: dict[str, Tensor], fn: str | os.PathLike[str], metadata: dict[str, Any] | None = None
) -> None:
    """Write tensors to a safetensors file, whole or not at all.

    metadata: strings by name; other readers take nothing else.

    Raises: FileFormatError for a weak type, and for names and metadata that are no strings.
    """
    for key, value in (metadata or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise FileFormatError(
                f"metadata holds strings by name, not {shown(value)} by {shown(key)}",
                help="write json.dumps(value), and read it with json.loads",
            )
    for name, t in tensors.items():
        if not isinstance(name, str) or not isinstance(t, Tensor):
            raise FileFormatError(
                f"a file holds tensors by name, not {shown(t)} by {shown(name)}",
                help="give a dict of strings and tensors, as get_state_dict makes one",
            )
    realize_all(list(tensors.values()))
    header: dict[str, Any] = {} if metadata is None else {_METADATA: metadata}
    parts, offset = [], 0
    for name, t in tensors.items():
        if t.dtype not in inverse_safe_dtypes:
            raise FileFormatError(
                f"{name!r} has type {t.dtype}, which a file cannot hold", help="cast it"
            )
        if name == _METADATA:
            raise FileFormatError(f"{_METADATA!r} is where a file keeps its metadata, no tensor")
        data = t._shared_bytes()
        header[name] = {
            "dtype": inverse_safe_dtypes[t.dtype],
            "shape": list(t.shape),
            "data_offsets": [offset, offset + data.nbytes],
        }
        parts.append(data)
        offset += data.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    temporary = f"{os.fspath(fn)}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.writelines(parts)
        os.replace(temporary, fn)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
