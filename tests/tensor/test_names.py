"""Every name of the language is there, with the parameters and defaults that scripts rely on."""

from __future__ import annotations

import inspect
import pathlib

import pytest

from tests.tensor import rows_elementwise, rows_reduce, rows_shapes
from tests.tensor.signatures import listed, parameters
from tinylab import Tensor

NAMES = dict(listed(pathlib.Path(__file__).with_name("names.txt")))
# What has no row in the tables, and the file that tests it.
ELSEWHERE = {
    "test_hashing.py": "hash keccak",
    "test_sentences.py": "decode_hevc_frame",
    "../engine/test_linear.py": "as_param call callify linear_with_vars schedule_linear",
    "../engine/test_custom_kernel.py": "custom_kernel",
    "../schedule/test_shard.py": "shard shard_ shard_like",
    "test_interchange.py": "from_blob from_url",
    "test_tensor.py": "__bool__ __len__ bfloat16 bitcast bool cast clone const const_like data "
    "device double dtype element_size float half int is_floating_point item long nbytes ndim numel "
    "numpy realize shape short size to to_ tolist uop ufix alu max_numel max_shape",
    "test_writing.py": "__iadd__ __setitem__ assign replace empty empty_like full full_like "
    "invalids ones ones_like zeros zeros_like",
    "test_random.py": "dropout glorot_uniform kaiming_normal kaiming_uniform manual_seed "
    "multinomial normal rand rand_like randint randn randn_like random_bits randperm "
    "scaled_uniform uniform threefry",
    "test_gradient.py": "backward detach grad gradient is_param is_param_",
    "test_decompositions.py": "qr svd",
    "test_linalg.py": "max_unpool2d image_conv2d image_dot rearrange",
    "test_elementwise.py": "isfinite isinf isnan",
    "test_custom_kernel.py": "custom_kernel",
}


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
