"""A notebook's report as one HTML file that opens anywhere, offline.

It holds the cells with their outputs, and under each recorded cell its kernels, the picture and
the sources; where the front end's bundle is installed it is embedded, with the answers to what it
asks.
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from tinylab.helpers.text import ansistrip, pluralize
from tinylab.lab.notebook import RanNotebook
from tinylab.lab.player import player
from tinylab.trace.record import Record

_WIDGET = "application/vnd.jupyter.widget-view+json"
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881}
body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem}
pre,code{font:12.5px/1.45 ui-monospace,monospace}
pre{overflow:auto;margin:.4rem 0;padding:.5rem .8rem;white-space:pre}
.code{background:var(--soft);border-left:3px solid #5b8dd6;border-radius:4px}
.out{padding:0 .8rem}.error{border-left:3px solid #d65b5b}
.facts{color:#6b7b8c}section{margin:1.2rem 0}img{max-width:100%}
table{border-collapse:collapse;font-size:13px}th,td{border-bottom:1px solid var(--line)}
details{margin:.3rem 0}summary{cursor:pointer}
"""
_KEY = re.compile(r"&lt;kbd&gt;([^<>]{1,20}?)&lt;/kbd&gt;")


def write_page(ran: RanNotebook, target: Path) -> None:
    """Write the report of an executed notebook."""
    target.write_text(page(ran), encoding="utf-8")


def page(ran: RanNotebook) -> str:
    """The report as text."""
    cells = list(ran.notebook.cells)
    record_of = {
        cell: number
        for cell, number in match_records(cells, ran.records).items()
        if ran.records[number].passes or ran.records[number].kernels
    }
    body = [_cell(cell, record_of.get(i)) for i, cell in enumerate(cells)]
    title = escape(_title(cells) or ran.path.stem)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>"
        f"{_facts(ran)}{''.join(body)}{player(ran.records)}</body></html>\n"
    )


def match_records(cells: Iterable[Any], records: Iterable[Record]) -> dict[int, int]:
    """Which record belongs to which cell: {index of the cell: index of the record}.

    Records come in the order in which cells ran, and know the text that ran.
    """
    waiting = list(enumerate(records))
    found: dict[int, int] = {}
    for index, cell in enumerate(cells):
        if cell.cell_type != "code":
            continue
        for place, (number, record) in enumerate(waiting):
            text = record.cell.text.strip() if record.cell else ""
            if text and text in cell.source:
                found[index] = number
                del waiting[: place + 1]
                break
    return found


def _title(cells: Iterable[Any]) -> str:
    for cell in cells:
        if cell.cell_type == "markdown":
            for line in cell.source.splitlines():
                if line.startswith("#"):
                    return str(line.lstrip("# ").strip())
    return ""


def _facts(ran: RanNotebook) -> str:
    kernels = sum(len(record.kernels) for record in ran.records)
    passes = sum(len(record.passes) for record in ran.records)
    words = [
        escape(ran.path.name),
        f"run in {ran.elapsed_s:.1f} s",
        pluralize("recorded cell", len(ran.records)),
        f"{pluralize('kernel', kernels)}, {passes} passes",
    ]
    failed = f'<p class="error out"><b>failed:</b> {escape(ran.error)}</p>' if ran.error else ""
    return f'<p class="facts">{" · ".join(words)}</p>{failed}'


def _cell(cell: Any, record: int | None) -> str:
    if cell.cell_type == "markdown":
        return f"<section>{_markdown(cell.source)}</section>"
    if cell.cell_type != "code" or not cell.source.strip():
        return ""
    place = f'<div class="tinylab-record" data-record="{record}"></div>'
    mount = place if record is not None else ""
    outputs = "".join(map(_output, _still(_joined_streams(cell))))
    return (
        f'<section><pre class="code">{escape(cell.source)}</pre>'
        f'<div class="out">{outputs}{mount}</div></section>'
    )


def _still(outputs: Iterable[Any]) -> Iterator[Any]:
    """What can be read without a kernel: a live view goes where its static form follows it."""
    for output, following in itertools.pairwise([*outputs, None]):
        page = _joined(following.get("data", {}).get("text/html", "")) if following else ""
        if _WIDGET not in output.get("data", {}) or "tinylab-static" not in page:
            yield output


def _joined_streams(cell: Any) -> Iterator[Any]:
    """A cell's outputs; what was printed in pieces, one after another, is one text."""
    for kind, group in itertools.groupby(cell.get("outputs", ()), lambda o: o.output_type):
        if kind != "stream":
            yield from group
            continue
        pieces = list(group)
        yield type(pieces[0])({**pieces[0], "text": "".join(o.text for o in pieces)})


def _markdown(source: str) -> str:
    """Markdown as HTML; as it is where no renderer is installed."""
    try:
        import mistune
    except ImportError:
        return f"<pre>{escape(source)}</pre>"
    render: Any = mistune.create_markdown(escape=True, plugins=["table"])
    # Keys are the one kind of markup that notebooks here use in text; the rest stays escaped.
    return _KEY.sub(r"<kbd>\1</kbd>", str(render(source)))


def _output(output: Any) -> str:
    if output.output_type == "stream":
        return f"<pre>{escape(ansistrip(_last_of_lines(output.text)))}</pre>"
    if output.output_type == "error":
        traceback = ansistrip("\n".join(output.traceback)) or f"{output.ename}: {output.evalue}"
        return f'<pre class="error">{escape(traceback)}</pre>'
    return _display(output.data)


def _last_of_lines(text: str) -> str:
    """What a terminal would be left with: progress lines that overwrite themselves end once."""
    return "\n".join(line.rsplit("\r", 1)[-1] for line in text.rstrip("\r").split("\n"))


def _display(data: Mapping[str, Any]) -> str:
    for kind in _IMAGES:
        if kind in data:
            return f'<img alt="" src="data:{kind};base64,{"".join(str(data[kind]).split())}">'
    if "image/svg+xml" in data:
        svg = base64.b64encode(_joined(data["image/svg+xml"]).encode()).decode()
        return f'<img alt="" src="data:image/svg+xml;base64,{svg}">'
    if "text/html" in data:
        return _joined(data["text/html"])
    if "text/markdown" in data:
        return _markdown(_joined(data["text/markdown"]))
    if "text/plain" in data:
        return f"<pre>{escape(ansistrip(_joined(data['text/plain'])))}</pre>"
    return ""


def _joined(text: Any) -> str:
    return text if isinstance(text, str) else "".join(text)
