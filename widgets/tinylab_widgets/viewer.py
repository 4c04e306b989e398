"""What all widgets share: loader, bundle, selection, a form for readers without a kernel."""

import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import anywidget
import traitlets

from tinylab_widgets.assets import Assets, static_text
from tinylab_widgets.protocol import Answerer, Json

Shown = TypeVar("Shown")
SomeViewer = TypeVar("SomeViewer", bound="Viewer")


def only_ours(name: str) -> Any:
    """For a trait that only Python sets: what a front end says of it is not taken over."""
    return lambda value, widget: getattr(widget, name)


class Viewer(anywidget.AnyWidget):
    """A view of something that lives in the kernel: the front end asks, `_answerer` answers.

    `selection` is where the views stand and what is chosen in them: read it, or set parts of it
    with `show`. What is shown before anything is asked is in the traits that `_shown_first` gives;
    they are let go when no view is left, and filled again for the next.
    """

    _esm = static_text("loader.js")
    _bundle = "debugger.js"
    _assets = anywidget.WidgetTrait().tag(sync=True)
    selection = traitlets.Dict().tag(sync=True)
    _answerer: Answerer

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(_assets=Assets.shared(self._bundle), **self._shown_first(), **kwargs)
        self.on_msg(self._hear)

    def show(self, **selection: Any) -> None:
        """Move all views: each part of the selection that is given, the others stay."""
        new = {name: value for name, value in selection.items() if value is not None}
        self.selection = {**self.selection, **new}

    def close(self) -> None:
        """Close the widget and the layout that ipywidgets makes for it: neither is saved then."""
        layout = self.layout
        super().close()
        if layout is not None:
            layout.close()

    def static(self) -> dict[str, str]:
        """The form for readers without a kernel: text and HTML by media type."""
        raise NotImplementedError

    def _shown_first(self) -> Json:
        """What views show before they ask, by trait."""
        raise NotImplementedError

    def _hear(self, _widget: Any, message: Json, _buffers: Any) -> None:
        ask = message.get("ask")
        if ask == "release":
            for name in self._shown_first():
                setattr(self, name, None)
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
        return {**data, **self.static()}, metadata


class Viewers(Generic[Shown, SomeViewer]):
    """The viewers of one kind: one model for each thing shown, however often it is displayed.

    A viewer holds what it shows, so no other thing gets that number while the viewer is here.
    """

    def __init__(self, make: Callable[[Shown], SomeViewer]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._by_id: weakref.WeakValueDictionary[int, SomeViewer] = weakref.WeakValueDictionary()

    def of(self, shown: Shown) -> SomeViewer:
        """The viewer of a thing; another if the one it had was closed."""
        with self._lock:
            found = self._by_id.get(id(shown))
            if found is None or found.comm is None:
                found = self._by_id[id(shown)] = self._make(shown)
            return found
