"""A short run of `python -m tests.profiler.fuzz_profiles`."""

from __future__ import annotations

import pytest

from tests.profiler.fuzz_profiles import run


@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_profiles_are_read_or_refused(seed: int) -> None:
    seen = run(150, seed)
    assert min(seen.values()) > 10
