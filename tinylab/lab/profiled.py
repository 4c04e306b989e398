"""What `%%tinygrad --profile counters` adds: counters of the kernels that took longest."""

from __future__ import annotations

from typing import Any

from tinylab.helpers.progress import tqdm
from tinylab.lab.desk import desk_of
from tinylab.profiler.collected import Profile

MOST_KERNELS = 16


def count_kernels(profile: Profile, most: int = MOST_KERNELS) -> dict[int, dict[str, Any]]:
    """Counters of the kernels that took longest, kept in `profile.counted` by record number.

    Each runs once more, built to count itself, in a process apart. One that cannot be counted has
    a "message" that says why; kernels that the record did not see lowered are left out.
    """
    if profile.record is None:
        return {}
    desk = desk_of(profile.record)
    numbers = [k.number for k in profile.kernels.values() if k.number is not None]
    chosen = list(dict.fromkeys(numbers))[:most]
    few = len(chosen) < 2
    for number in tqdm(chosen, desc="counting", unit=" kernels", disable=few, leave=False):
        profile.counted[number] = desk.answer("count", {"kernel": number})
    return profile.counted
