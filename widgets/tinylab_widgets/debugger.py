"""The debugger of a record as a widget."""

import json
from typing import Any

import traitlets

from tinylab.lab import report
from tinylab.lab.desk import desk_of
from tinylab.trace.record import Record
from tinylab_widgets.protocol import Answerer, Json, finite, packed
from tinylab_widgets.viewer import Viewer, Viewers, only_ours

_MOST_FIRST_BYTES = 250_000


class Debugger(Viewer):
    """Steps through the rewrites of a record, and runs its kernels with other opts.

    `overview` and `first` are what is shown before anything is asked; `selection` is where the
    views stand, {"pass", "k", "node", "kernel", "lines"}: read it, or set parts of it.
    """

    overview = traitlets.Any(None).tag(sync=True, from_json=only_ours("overview"))
    first = traitlets.Any(None).tag(sync=True, from_json=only_ours("first"))

    def __init__(self, record: Record, **kwargs: Any) -> None:
        self.record = record
        self._desk = desk_of(record)
        self._answerer = Answerer(self._desk, self.send)
        super().__init__(**kwargs)

    def show(self, pass_id: int | None = None, k: int | None = None, **selection: Any) -> None:
        """Move all views: to match k of a pass, to a node, a kernel, or lines of the cell."""
        super().show(**{"pass": pass_id}, k=k, **selection)

    def static(self) -> dict[str, str]:
        """Tables and a picture of the record."""
        return report.mimebundle(self.record)

    def _shown_first(self) -> Json:
        first = self._desk.first()
        if first is not None and len(json.dumps(first)) > _MOST_FIRST_BYTES:
            first = None  # asked for instead: the notebook's file need not hold it
        return {"overview": finite(packed(self._desk.overview())), "first": first}


_viewers = Viewers(Debugger)


def debugger_of(record: Record) -> Debugger:
    """The debugger of a record: one model, however often it is displayed."""
    return _viewers.of(record)
