"""The viewer of captures as a widget: thread traces and counters."""

from typing import Any

import traitlets

from tinylab.profiler import page
from tinylab.profiler.capture import Capture, Captures
from tinylab.profiler.desk import desk_of
from tinylab_widgets.protocol import Answerer, Json, finite
from tinylab_widgets.viewer import Viewer, Viewers, only_ours


class CaptureViewer(Viewer):
    """Thread traces as lanes with their program beside, and counters by place.

    `overview` is what is shown before anything is asked; `selection` is where the views stand,
    {"tab", "stream", "second", "view", "instruction", "span", "stretch", "readouts", "counter"}:
    read it, or set parts of it with `show`.
    """

    _bundle = "profile.js"
    kind = traitlets.Unicode("capture").tag(sync=True)
    overview = traitlets.Any(None).tag(sync=True, from_json=only_ours("overview"))

    def __init__(self, captures: Capture | Captures, **kwargs: Any) -> None:
        self.captures = captures
        self.desk = desk_of(captures)
        self._answerer = Answerer(self.desk, self.send, slow=())
        super().__init__(**kwargs)

    def static(self) -> dict[str, str]:
        """Tables and a picture of the capture."""
        return page.mimebundle(self.captures)

    def _shown_first(self) -> Json:
        return {"overview": finite(self.desk.overview())}


_viewers = Viewers(CaptureViewer)


def viewer_of(captures: Capture | Captures) -> CaptureViewer:
    """The viewer of a capture, or of several: one model, however often it is displayed."""
    return _viewers.of(captures)
