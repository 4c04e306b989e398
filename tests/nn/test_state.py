"""State: files that come back as they went, and clear words for those that do not."""

from __future__ import annotations

import json
import pathlib
import struct

import numpy as np
import pytest

from tinylab import Tensor, dtypes, nn
from tinylab.errors import CreationError, OperandError, ShapeError
from tinylab.nn.state import (
    get_state_dict,
    load_state_dict,
    safe_dtypes,
    safe_load,
    safe_load_metadata,
    safe_save,
)


def test_round_trip(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "a.safetensors")
    tensors = {name: Tensor([[0, 1, 1]], dtype=dtype) for name, dtype in safe_dtypes.items()} | {
        "none": Tensor.zeros(0, 3),
        "one": Tensor(5, dtype=dtypes.int64),
        "lazy": Tensor.arange(4) * 2,
    }
    safe_save(tensors, path, {"note": "x"})
    loaded = safe_load(path)
    assert list(loaded) == list(tensors)
    for name, t in tensors.items():
        assert loaded[name].dtype is t.dtype
        assert loaded[name].tolist() == t.tolist()
    assert safe_load_metadata(path)[2]["__metadata__"] == {"note": "x"}
    assert not list(tmp_path.glob("*.tmp"))


def test_agrees_with_the_format(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "b.safetensors"
    safe_save({"w": Tensor([[1.5, 2.0]])}, str(path))
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    assert header == {"w": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}}
    assert length % 8 == 0
    assert raw[8 + length :] == struct.pack("<2f", 1.5, 2.0)


def test_damaged_files(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "c.safetensors"
    for raw in (b"", struct.pack("<Q", 99) + b"{}", struct.pack("<Q", 2) + b"{]"):
        path.write_bytes(raw)
        with pytest.raises(CreationError, match="no safetensors file"):
            safe_load(path)
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 8)
    with pytest.raises(CreationError, match="damaged file"):
        safe_load(path)
    header = json.dumps({"w": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 8)
    with pytest.raises(CreationError, match="type C64"):
        safe_load(path)


def test_load_into_a_model(tmp_path: pathlib.Path) -> None:
    a, b = nn.Linear(3, 2), nn.Linear(3, 2)
    path = str(tmp_path / "d.safetensors")
    safe_save(get_state_dict(a), path)
    load_state_dict(b, safe_load(path))
    assert np.array_equal(a.weight.numpy(), b.weight.numpy())
    x = Tensor.ones(1, 3)
    assert a(x).tolist() == b(x).tolist()


def test_what_does_not_fit() -> None:
    model = nn.Linear(3, 2)
    state = get_state_dict(model)
    with pytest.raises(ShapeError, match="shape mismatch for weight"):
        load_state_dict(model, {**state, "weight": Tensor.zeros(2, 2)})
    with pytest.raises(OperandError, match="'bias' is missing"):
        load_state_dict(model, {"weight": state["weight"], "bais": state["bias"]}, verbose=False)
    with pytest.warns(UserWarning, match="unused weights"):
        load_state_dict(model, {**state, "more": Tensor.zeros(1)})
    load_state_dict(model, {"weight": Tensor.zeros(2, 3)}, strict=False)
    assert model.weight.tolist() == [[0] * 3] * 2
