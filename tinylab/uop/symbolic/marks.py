"""What only gradients look at is the value itself: DETACH and its like go away."""

from __future__ import annotations

from tinylab.opcodes import Ops
from tinylab.uop.matcher import PatternMatcher, Rule
from tinylab.uop.pattern import UPat

_MARKS = (Ops.DETACH, Ops.CONTIGUOUS_BACKWARD)

# fmt: off
pm_marks = PatternMatcher([
    Rule("mark_vanishes", "detach(x) -> x", UPat(_MARKS, src=(UPat(name="x"),)), lambda x: x),
])
# fmt: on
