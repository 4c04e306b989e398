import zlib

import pytest
from hypothesis import given, strategies as st

from tinylab.errors import TraceError
from tinylab.trace import packing
from tinylab.trace.packing import pack, unpack

numbers = st.integers(0, 2**32 - 1)


@given(st.lists(numbers) | st.lists(numbers, min_size=64, max_size=300))
def test_what_was_packed_comes_back(values):
    assert unpack(pack(values)).tolist() == values


def test_regular_lists_are_short():
    assert len(pack(range(10_000))) < 10_000


@pytest.mark.parametrize(
    "blob",
    [b"\x07abcd", b"\0abc", b"\1no zlib", b"\1" + zlib.compress(b"abc" * 100)[:-9] + b"?" * 9],
)
def test_a_damaged_list_is_refused(blob):
    with pytest.raises(TraceError):
        unpack(blob)


def test_a_blob_that_swells_is_refused(monkeypatch):
    monkeypatch.setattr(packing, "_MOST_BYTES", 1000)
    with pytest.raises(TraceError, match="more than 1000 bytes"):
        unpack(b"\1" + zlib.compress(bytes(5000)))
