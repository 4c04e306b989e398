"""The debugger of a record as a widget."""

import json
import threading
import weakref
from typing import Any

import anywidget
import traitlets

from tinylab.lab import report
from tinylab.lab.desk import desk_of
from tinylab.trace.record import Record
from tinylab_widgets.assets import Assets, static_text
from tinylab_widgets.protocol import Answerer, Json, finite, packed

_MOST_FIRST_BYTES = 250_000
_lock = threading.Lock()
_of_record: "weakref.WeakValueDictionary[int, Debugger]" = weakref.WeakValueDictionary()


def _ours(name: str) -> Any:
    """A trait that only Python sets: what a front end says of it is not taken over."""
    return lambda value, widget: getattr(widget, name)


class Debugger(anywidget.AnyWidget):
    """Steps through the rewrites of a record, and runs its kernels with other opts.

    `overview` and `first` are what is shown before anything is asked; `selection` is where the
    views stand, {"pass", "k", "node", "kernel", "lines"}: read it, or set parts of it.
    """

    _esm = static_text("loader.js")
    _assets = anywidget.WidgetTrait().tag(sync=True)
    overview = traitlets.Any(None).tag(sync=True, from_json=_ours("overview"))
    first = traitlets.Any(None).tag(sync=True, from_json=_ours("first"))
    selection = traitlets.Dict().tag(sync=True)

    def __init__(self, record: Record, **kwargs: Any) -> None:
        self.record = record
        self._desk = desk_of(record)
        self._answerer = Answerer(self._desk, self.send)
        super().__init__(_assets=Assets.shared(), **self._shown_first(), **kwargs)
        self.on_msg(self._hear)

    def show(self, pass_id: int | None = None, k: int | None = None, **selection: Any) -> None:
        """Move all views: to match k of a pass, to a node, a kernel, or lines of the cell."""
        wanted = {"pass": pass_id, "k": k, **selection}
        new = {name: value for name, value in wanted.items() if value is not None}
        self.selection = {**self.selection, **new}

    def close(self) -> None:
        """Close the widget and the layout that ipywidgets makes for it: neither is saved then."""
        layout = self.layout
        super().close()
        if layout is not None:
            layout.close()

    def _shown_first(self) -> Json:
        first = self._desk.first()
        if first is not None and len(json.dumps(first)) > _MOST_FIRST_BYTES:
            first = None  # asked for instead: the notebook's file need not hold it
        return {"overview": finite(packed(self._desk.overview())), "first": first}

    def _hear(self, _widget: Any, message: Json, _buffers: Any) -> None:
        ask = message.get("ask")
        if ask == "release":
            self.overview, self.first = None, None
        elif ask == "refill":
            for name, value in self._shown_first().items():
                setattr(self, name, value)
        else:
            self._answerer.hear(message)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**data, **report.mimebundle(self.record)}, metadata


def debugger_of(record: Record) -> Debugger:
    """The debugger of a record: one model, however often it is displayed."""
    with _lock:
        found = _of_record.get(id(record))
        if found is None or found.comm is None or found.record is not record:
            found = _of_record[id(record)] = Debugger(record)
        return found
