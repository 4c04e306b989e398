"""How a notebook shows a tensor: few values as a grid with colours, many as a picture.

Colours lie over the page's own background, so both themes of JupyterLab show through: orange for
positive, blue for negative, the stronger the larger.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

from tinylab.errors import TinylabError
from tinylab.tensor.facts import HIGH, LOW, NAN, NEGATIVE, POSITIVE, Facts, facts_of, short, words
from tinylab.tensor.looked import Looked
from tinylab.tensor.picture import picture

if TYPE_CHECKING:
    from tinylab.tensor.tensor import Tensor

Array = Any  # numpy is loaded when something is shown, not before

MOST_CELLS, MOST_COLUMNS = 400, 24


def html_of(x: Tensor) -> str:
    """The tensor as HTML; what is not computed yet is only described."""
    look = Looked(x)
    head = f"<b>Tensor</b> {html.escape(look.shape)} {x.dtype.name} on {html.escape(str(x.device))}"
    if look.bound:
        head += f" where {html.escape(look.where)}"
    count = look.numel
    if count is None:
        return _frame(head, "", "a size is a variable without a value: .bind() gives it one")
    if count == 0:
        return _frame(head, "", "no elements")
    if count > MOST_CELLS and look.constant is not None:
        return _frame(head, "", f"{short(look.constant)} everywhere: a constant")
    try:
        values = look.values()
    except TinylabError as error:  # NULL keeps no values, a capture gives none
        return _frame(head, "", html.escape(str(error)))
    if values is None:
        return _frame(head, "", "not computed yet: ask .realize(), .tolist() or .numpy()")
    facts = facts_of(values)
    body = _grids(values, facts) if _is_small(values) else picture(values, facts)
    return _frame(head, body, words(facts, values))


def _is_small(values: Array) -> bool:
    columns = values.shape[-1] if values.ndim else 1
    return values.size <= MOST_CELLS and columns <= MOST_COLUMNS


# *** few values


def _grids(values: Array, facts: Facts) -> str:
    """A table, or one for each place on the leading axes."""
    import numpy as np

    if values.ndim <= 2:
        return _table(np.atleast_2d(values), facts, "")
    tables = [
        _table(values[place], facts, str([*place, "…"]).replace("'", ""))
        for place in np.ndindex(values.shape[:-2])
    ]
    return f'<div style="display:flex;flex-wrap:wrap;gap:12px">{"".join(tables)}</div>'


def _table(values: Array, facts: Facts, title: str) -> str:
    rows = "".join(f"<tr>{''.join(_cell(v, facts) for v in row)}</tr>" for row in values.tolist())
    caption = f'<caption style="text-align:left;opacity:.75">{title}</caption>' if title else ""
    style = "border-collapse:collapse;margin:0;font-variant-numeric:tabular-nums"
    return f'<table style="{style}">{caption}<tbody>{rows}</tbody></table>'


def _cell(value: Any, facts: Facts) -> str:
    red, green, blue, alpha = _color(float(value), facts)
    style = f"padding:1px 6px;text-align:right;background:rgba({red},{green},{blue},{alpha:.2f})"
    return f'<td style="{style}" title="{value!r}">{short(value)}</td>'


def _color(value: float, facts: Facts) -> tuple[int, int, int, float]:
    """The colour of a value in a grid; light enough for text on it."""
    if math.isnan(value):
        return (*NAN, 0.4)
    beyond, scale = abs(value) > facts.limit, facts.scale
    color = (HIGH if beyond else POSITIVE) if value > 0 else LOW if beyond else NEGATIVE
    strength = min(abs(value) / scale, 1.0) if scale else float(beyond)
    return (*color, 0.45 * math.sqrt(strength))


def _frame(head: str, body: str, words: str) -> str:
    style = "font-family:var(--jp-code-font-family,monospace);font-size:12px;line-height:1.5"
    return (
        f'<div class="tlab-tensor" style="{style}"><div>{head}</div>{body}'
        f'<div style="opacity:.85">{words}</div></div>'
    )
