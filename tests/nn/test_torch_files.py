"""Checkpoints of PyTorch: what they hold, and that nothing of a damaged or hostile one is run."""

import io
import os
import pickle
import random
import zipfile

import numpy as np
import pytest

from tinylab import Tensor, nn
from tinylab.errors import FileFormatError
from tinylab.nn.state import load_state_dict, torch_load

torch = pytest.importorskip("torch")


def saved(value, new=True):
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=new)
    return Tensor(file.getvalue())


TORCH = {
    "float": lambda: torch.tensor([[1.5, -2.0]]), "int": lambda: torch.arange(5),
    "half": lambda: torch.tensor([0.5, 1.0]).half(), "bf16": lambda: torch.tensor([0.5]).bfloat16(),
    "bool": lambda: torch.tensor([True, False]), "turned": lambda: torch.arange(6.0).view(2, 3).T,
    "gaps": lambda: torch.arange(20.0)[3:15:4], "window": lambda: torch.arange(20.0)[5:9],
    "repeated": lambda: torch.tensor([1.0, 2.0]).expand(3, 2), "none": lambda: torch.zeros(0, 3),
    "overlap": lambda: torch.arange(6.0).unfold(0, 3, 1), "one": lambda: torch.tensor(7),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "backward": lambda: torch.arange(6.0).view(2, 3).flip(1),
}  # fmt: skip


@pytest.mark.parametrize("new", [True, False], ids=["archive", "pickles"])
@pytest.mark.parametrize("name", TORCH)
def test_a_checkpoint_gives_its_tensors(name, new):
    value = TORCH[name]()
    found = torch_load(saved({"x": value, "step": 3, "nested": [{"y": value}]}, new))
    assert found["step"] == 3
    for t in (found["x"], found["nested"][0]["y"]):
        assert tuple(t.shape) == tuple(value.shape)
        assert t.float().tolist() == value.float().tolist()


def test_a_model_moves_over(tmp_path):
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    torch.save(theirs.state_dict(), tmp_path / "model.pt")
    ours = [nn.Linear(3, 4), nn.LayerNorm(4)]
    load_state_dict(ours, torch_load(tmp_path / "model.pt"))
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    np.testing.assert_allclose(
        Tensor(x).sequential(ours).numpy(), theirs(torch.tensor(x)).detach().numpy(), atol=1e-5
    )


class Hostile:
    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("new", [True, False], ids=["archive", "pickles"])
def test_nothing_of_a_file_is_run(tmp_path, new):
    flag = tmp_path / "was run"
    bad = [Hostile(os.mkdir, str(flag)), Hostile(eval, f"__import__('os').mkdir({str(flag)!r})")]
    found = torch_load(saved({"bad": bad, "x": torch.ones(1)}, new))
    assert found["x"].tolist() == [1.0]
    assert not flag.exists()


def test_a_pickle_cannot_change_what_reads_it():
    rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n"
    change = b"\x80\x02" + rebuild + b"}X\x04\x00\x00\x00callNsb."
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("archive/data.pkl", change)
    with pytest.raises(FileFormatError, match="changes a function"):
        torch_load(Tensor(raw.getvalue()))


def archive_with(program, storages=()):
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("a/data.pkl", program)
        for key, data in storages:
            archive.writestr(f"a/data/{key}", data)
    return Tensor(raw.getvalue())


class Rebuilt:
    """A tensor with numbers of our choice."""

    def __init__(self, *args):
        self.args = args

    def __reduce__(self):
        return torch._utils._rebuild_tensor_v2, self.args


class Stored:
    def __init__(self, key):
        self.key = key


class Writer(pickle.Pickler):
    def persistent_id(self, x):
        return ("storage", torch.FloatStorage, x.key, "cpu", 4) if isinstance(x, Stored) else None


@pytest.mark.parametrize(
    ("key", "offset", "size", "stride"),
    [
        ("0", 1, (4,), (1,)), ("0", 0, (5,), (1,)), ("0", 0, (2, 2), (2, 2)), ("0", -1, (1,), (1,)),
        ("0", 0, (2,), (-1,)), ("0", 0, (2,), (1, 1)), ("0", 0, (2**40,), (1,)),
        ("0", 0, ("x",), (1,)), ("7", 0, (1,), (1,)), ("0", 0, (2.0,), (1,)),
        ("0", 0, (2, 2, 2, 2, 2, 2, 2, 2, 2), (1,) + (0,) * 7 + (9,)),
    ],
)  # fmt: skip
def test_a_tensor_beyond_its_storage_is_an_error(key, offset, size, stride):
    program = io.BytesIO()
    Writer(program, 2).dump({"x": Rebuilt(Stored(key), offset, size, stride, False, {})})
    with pytest.raises(FileFormatError):
        torch_load(archive_with(program.getvalue(), [("0", bytes(16))]))


def test_damaged_checkpoints_are_errors_never_more():
    rng = random.Random(5)
    wholes = [
        bytes(saved({"x": torch.arange(6.0).view(2, 3).T, "s": "text"}, new).data())
        for new in (True, False)
    ]
    for i in range(400):
        raw = bytearray(wholes[i % 2])
        del raw[rng.choice([len(raw), rng.randrange(len(raw))]) :]
        for _ in range(rng.randrange(1, 5) if raw else 0):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        try:
            torch_load(Tensor(bytes(raw)))
        except FileFormatError:
            continue
