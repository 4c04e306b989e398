"""Checkpoints of PyTorch: what they hold, and that nothing of a damaged or hostile one is run."""

import argparse
import enum
import io
import os
import pickle
import random
import tarfile
import warnings
import zipfile
from collections import Counter, OrderedDict, defaultdict, deque

import numpy as np
import pytest

from tinylab import Tensor, dtypes, nn
from tinylab.errors import FileFormatError, OperandError
from tinylab.nn.state import load_state_dict, torch_load

torch = pytest.importorskip("torch")


def saved(value, new=True, protocol=2):
    file = io.BytesIO()
    torch.save(value, file, pickle_protocol=protocol, _use_new_zipfile_serialization=new)
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
    with pytest.warns(UserWarning, match="stands for .*mkdir"):
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


@pytest.mark.filterwarnings("ignore:the checkpoint holds")
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


def quietly(value, new=True, protocol=2):
    """What is read back, with no word about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        t = saved({"x": value}, new, protocol)
        return torch_load(t)["x"]


def tagged(t, **attributes):
    for name, value in attributes.items():
        setattr(t, name, value)
    return t


class Special(torch.Tensor):
    pass


class Colour(enum.Enum):
    RED = 1


class Config:
    class Inner:
        pass

    def __init__(self):
        self.weight = torch.ones(2)


class Table(dict):
    pass


def imaginary():
    return torch.tensor([1 + 2j, 3 - 4j]).conj().imag


DRESSED = {
    "attribute": (lambda: tagged(torch.arange(3.0), tag="x"), r"\['x'\] has lost 'tag'"),
    "parameter": (lambda: tagged(torch.nn.Parameter(torch.ones(2)), tag=1), "has lost 'tag'"),
    "subclass": (lambda: torch.ones(2).as_subclass(Special), r"is a Tensor and no \S*Special"),
    "buffer": (lambda: torch.nn.Buffer(torch.ones(2)), None),
    "negative": (imaginary, None),
    "both": (lambda: tagged(imaginary(), tag=1), "has lost 'tag'"),
    "hooked": (lambda: tagged(torch.ones(2), _private=1), None),
}


@pytest.mark.parametrize("new", [True, False], ids=["archive", "pickles"])
@pytest.mark.parametrize("name", DRESSED)
def test_a_tensor_with_something_about_it_is_a_tensor(name, new):
    make, said = DRESSED[name]
    value = make()
    if said is None:
        found = quietly(value, new)
    else:
        with pytest.warns(UserWarning, match=said):
            found = torch_load(saved({"x": value}, new))["x"]
    assert isinstance(found, Tensor)
    assert found.tolist() == value.tolist()


PLAIN = [
    {1, 2}, frozenset([1]), b"yy\xff", b"", bytearray(b"yy"), bytearray(), OrderedDict(a=1),
    Counter("aab"), deque([1, 2], 5), deque([3]), defaultdict(list, {"a": [1]}),
    defaultdict(set), defaultdict(int, a=2), defaultdict(str),
    1 + 2j, slice(1, None), range(3), {"a": {"b": (1, [2])}}, None, "x" * 100,
    np.float64(3), np.float16(2), np.bool_(True), np.int8(-1), np.complex64(1j), np.str_("abc"),
]  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("value", PLAIN, ids=lambda v: f"{type(v).__name__}")
def test_plain_values_are_read(value, protocol):
    for new in (True, False):
        found = quietly(value, new, protocol)
        assert type(found) is type(value)
        assert found == value
        if isinstance(value, (deque, defaultdict)):
            for name in ("maxlen", "default_factory"):
                assert getattr(found, name, None) == getattr(value, name, None)


ARRAYS = [
    np.arange(6, dtype=np.int16).reshape(2, 3), np.asfortranarray(np.ones((2, 3), np.float16)),
    np.zeros((0, 3)), np.array(2.5), np.array(["ab", "c"]), np.array([b"a", b"bcd"]),
    np.array([True, False]), np.array([{1}, None], dtype=object), np.arange(3, dtype=">i4"),
    np.array([1j]),
]  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("value", ARRAYS, ids=lambda v: str(v.dtype))
def test_arrays_of_numpy_are_read(value, protocol):
    found = quietly(value, protocol=protocol)
    assert found.shape == value.shape
    assert found.dtype.kind == value.dtype.kind
    assert found.tolist() == value.tolist()


def test_types_and_places_are_read():
    assert quietly(torch.float32) is dtypes.float32
    assert quietly(torch.device("cuda:1")) == "cuda:1"
    assert quietly(torch.Size([1, 2])) == (1, 2)
    assert quietly(np.dtype(">f8")) == np.dtype(">f8")
    assert quietly(torch.sparse_coo) == "torch.sparse_coo"


def test_containers_keep_their_tensors():
    value = defaultdict(list, {"a": [torch.arange(2)]})
    found = quietly({"d": value, "s": deque([torch.arange(3)]), "o": OrderedDict(t=torch.ones(1))})
    assert found["d"]["a"][0].tolist() == [0, 1]
    assert found["d"]["b"] == []
    assert found["s"][0].tolist() == [0, 1, 2]
    assert found["o"]["t"].tolist() == [1.0]


STRANGE = {
    "sparse": (lambda: torch.eye(2).to_sparse(), "a sparse tensor of PyTorch"),
    "rows": (lambda: torch.nested.nested_tensor([torch.ones(2)]), "a nested tensor of PyTorch"),
    "complex": (lambda: torch.tensor([1j]), "a complex tensor of PyTorch"),
    "meta": (lambda: torch.ones(2, device="meta"), "a tensor of PyTorch without values"),
    "object": (Config, r"\S*\.Config"),
    "inner": (Config.Inner, r"\S*\.Inner"),
    "class": (lambda: Config, r"\S*\.Config"),
    "enum": (lambda: Colour.RED, r"\S*\.Colour"),
    "names": (lambda: argparse.Namespace(a=1), "argparse.Namespace"),
    "function": (lambda: torch.relu, r"\S*relu"),
    "module": (lambda: torch.nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
    "table": (lambda: Table(a=torch.ones(1)), r"\S*\.Table"),
    "dates": (lambda: np.dtype("M8[s]"), "numpy's type M8"),
}


@pytest.mark.filterwarnings("ignore:Sparse", "ignore:The PyTorch API of nested")
@pytest.mark.parametrize("new", [True, False], ids=["archive", "pickles"])
@pytest.mark.parametrize("name", STRANGE)
def test_what_is_not_known_says_what_it_was_and_where(name, new):
    make, what = STRANGE[name]
    with pytest.warns(UserWarning, match=rf"\['a'\]\[1\] (is a Stranger that )?stands for {what}"):
        found = torch_load(saved({"a": [0, make()], "w": torch.ones(1)}, new))
    assert found["w"].tolist() == [1.0]
    shown = repr(found["a"][1])
    assert "object at" not in shown
    assert what.split("*")[-1].replace("\\", "") in shown


def test_a_stranger_keeps_what_it_was_made_of():
    t = saved({"o": Config(), "t": Table(a=torch.ones(1)), "s": torch.eye(2).to_sparse()})
    with pytest.warns(UserWarning, match="the checkpoint holds") as told:
        found = torch_load(t)
    assert told[0].filename == __file__
    assert len(told) == 1
    assert found["o"].state["weight"].tolist() == [1.0, 1.0]
    ((key, value),) = found["t"].items
    assert (key, value.tolist()) == ("a", [1.0])
    indices, values = found["s"].args[1][:2]
    assert indices.tolist() == [[0, 1], [0, 1]]
    assert values.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("turn", [lambda t: t, torch.conj, lambda t: -t.conj(), lambda t: t.T])
@pytest.mark.parametrize("new", [True, False], ids=["archive", "pickles"])
def test_a_complex_tensor_is_kept_as_its_parts(turn, new):
    value = turn(torch.tensor([[1 + 2j, 3 - 4j, 0.5j]]))
    with pytest.warns(UserWarning, match="a complex tensor"):
        found = torch_load(saved(value, new))
    assert found.args[0].tolist() == torch.view_as_real(value.resolve_conj()).tolist()


def test_weights_that_are_no_tensors_say_what_they_are():
    with pytest.warns(UserWarning, match="a sparse tensor"):
        found = torch_load(saved({"weight": torch.eye(2).to_sparse(), "bias": torch.ones(2)}))
    with pytest.raises(OperandError, match=r"'weight' .* stands for a sparse tensor of PyTorch"):
        load_state_dict(nn.Linear(2, 2), found)


def test_one_sentence_names_the_first_of_many():
    with pytest.warns(UserWarning, match=r"\['l'\]\[5\] .*, and 14 more$") as told:
        torch_load(saved({"l": [Config() for _ in range(20)]}))
    assert len(told) == 1


def test_what_cannot_be_filled_says_so():
    with pytest.warns(UserWarning, match=r"\['x'\] is left empty, for .* numpy's type M8"):
        torch_load(saved({"x": np.array([1], "M8[s]")}))
    with pytest.warns(UserWarning, match=r"\['x'\] has no default, which \S*Config made"):
        assert torch_load(saved({"x": defaultdict(Config, a=1)}))["x"] == {"a": 1}
    with pytest.warns(UserWarning, match=r"\['x'\] is a bare storage of 8 bytes"):
        torch_load(saved({"x": torch.ones(2).untyped_storage()}))


def test_the_oldest_kind_says_what_to_do():
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("sys_info"))
    with pytest.raises(FileFormatError, match=r"tar archive, .* before its version 0\.1\.10"):
        torch_load(Tensor(raw.getvalue()))


def reduced(function, *args):
    return pickle.dumps({"x": Hostile(function, *args)}, 2)


@pytest.mark.parametrize(
    "program",
    [
        reduced(list, range(10**9)),
        reduced(bytearray, 10**12),
        reduced(bytes, 10**12),
        reduced(np.ndarray, (10**9,)),
        reduced(deque, [], -1),
        reduced(int, "9" * 100),
        reduced(slice, [1]),
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}b.",
        b"\x80\x02ccollections\ndeque\n)R}X\x01\x00\x00\x00aK\x01sb.",
        b"\x80\x02}(X\x01\x00\x00\x00aK\x01sb.",
    ],
)
def test_a_value_that_no_checkpoint_has_is_refused(program):
    with pytest.raises(FileFormatError, match="damaged file"):
        torch_load(archive_with(program))


@pytest.mark.parametrize(
    "state",
    [
        (1, (3,), np.dtype("f8"), False, b"\0" * 16),
        (1, (-2,), np.dtype("f8"), False, b"\0" * 16),
        (1, (2,), np.dtype("O"), False, [1]),
        (1, (2,), np.dtype("O"), False, b"\0" * 16),
        (1, (2,), "f8", False, b"\0" * 16),
        (1, (2.0,), np.dtype("f8"), False, b"\0" * 16),
        (1, (2,)),
    ],
)
def test_an_array_with_other_values_than_its_shape_says_is_refused(state):
    class Made:
        def __reduce__(self):
            return np.zeros(0).__reduce__()[0], (np.ndarray, (0,), b"b"), state

    with pytest.raises(FileFormatError, match="damaged file"):
        torch_load(archive_with(pickle.dumps(Made(), 2)))
