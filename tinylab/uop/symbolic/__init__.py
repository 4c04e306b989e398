"""Symbolic arithmetic: one set of rule tables, used by every stage.

symbolic_simple   laws of one operation, and constants
symbolic          those, one form for sums, division and remainder, comparisons
sym               those, and indices simplified where their mask holds
"""

from tinylab.uop.symbolic.compare import pm_compare
from tinylab.uop.symbolic.divmod import pm_divmod
from tinylab.uop.symbolic.identities import pm_identities
from tinylab.uop.symbolic.marks import pm_marks
from tinylab.uop.symbolic.masks import pm_masks
from tinylab.uop.symbolic.normal_form import pm_normal_form
from tinylab.uop.symbolic.ranges import (
    limits,
    pm_ranges,
    simplify_under,
    sym,
    symbolic,
    symbolic_simple,
)

__all__ = [
    "limits",
    "pm_compare",
    "pm_divmod",
    "pm_identities",
    "pm_marks",
    "pm_masks",
    "pm_normal_form",
    "pm_ranges",
    "simplify_under",
    "sym",
    "symbolic",
    "symbolic_simple",
]
