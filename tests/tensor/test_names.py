"""Every name of the language is there, with the parameters and defaults that scripts rely on."""

from __future__ import annotations

import inspect
import pathlib
import re

import pytest

from tests.tensor import rows_elementwise, rows_reduce, rows_shapes
from tests.tensor.signatures import listed, parameters
from tinylab import Tensor

NAMES = dict(listed(pathlib.Path(__file__).with_name("names.txt")))
# What has no row in the tables, and the file that tests it.
ELSEWHERE = {
    "tensor/test_hashing.py": "hash keccak",
    "tensor/test_sentences.py": "decode_hevc_frame full",
    "engine/test_linear.py": "as_param call callify linear_with_vars schedule_linear",
    "engine/test_custom_kernel.py": "custom_kernel",
    "engine/test_devices.py": "shard shard_ shard_like empty_like",
    "tensor/test_interchange.py": "from_blob from_url",
    "tensor/test_tensor.py": "__len__ bfloat16 bitcast bool cast clone const const_like data "
    "device double dtype element_size float half int is_floating_point item long nbytes ndim numel "
    "numpy realize shape short size to to_ tolist uop ufix alu max_numel max_shape full_like "
    "is_param",
    "tensor/test_elementwise.py": "__bool__ isfinite isinf isnan",
    "tensor/test_writing.py": "__iadd__ __setitem__ assign ones zeros",
    "tensor/rows_dtypes.py": "invalids ones_like zeros_like",
    "engine/test_jit_state.py": "replace",
    "engine/test_memory.py": "empty",
    "tensor/test_random.py": "dropout glorot_uniform kaiming_normal kaiming_uniform manual_seed "
    "multinomial normal rand rand_like randint randn randn_like random_bits randperm "
    "scaled_uniform uniform threefry",
    "test_gradient.py": "backward detach grad gradient is_param_",
    "tensor/test_decompositions.py": "qr svd",
    "tensor/test_linalg.py": "max_unpool2d image_conv2d image_dot rearrange",
}
# How what is no call of a method stands in a test.
SPELLED = {"__iadd__": " += ", "__setitem__": "] = ", "__len__": "len(", "__bool__": "bool("}


@pytest.mark.parametrize("name", NAMES)
def test_name(name: str) -> None:
    expected = NAMES[name]
    if expected is None:
        assert hasattr(Tensor([1.0]), name)
        return
    raw = inspect.getattr_static(Tensor, name)
    function = raw.__func__ if isinstance(raw, (classmethod, staticmethod)) else raw
    assert parameters(function) == expected


def test_every_method_is_tested() -> None:
    rows = [*rows_elementwise.ROWS, *rows_shapes.ROWS, *rows_reduce.ROWS]
    tested = {row.method for row in rows} | {
        n for names in ELSEWHERE.values() for n in names.split()
    }
    operators = {"__getitem__", "__matmul__"}
    assert sorted(NAMES.keys() - tested - operators) == []


@pytest.mark.parametrize("file", ELSEWHERE)
def test_what_is_tested_elsewhere_is_there(file: str) -> None:
    text = (pathlib.Path(__file__).parents[1] / file).read_text()
    spelled = [SPELLED.get(n, rf'[."]{n}\b') for n in ELSEWHERE[file].split()]
    spelled = [re.escape(s) if s in SPELLED.values() else s for s in spelled]
    assert [s for s in spelled if not re.search(s, text)] == []
