"""The timeline of a profile as a widget."""

import itertools
from typing import Any

import traitlets

from tinylab.profiler.collected import Profile
from tinylab.profiler.merged import Comparison
from tinylab.profiler.still import mimebundle
from tinylab.profiler.timeline_desk import TimelineDesk
from tinylab_widgets.debugger import debugger_of
from tinylab_widgets.protocol import Answerer, Json, finite
from tinylab_widgets.viewer import Viewer, Viewers, only_ours

_reveals = itertools.count(1)
# Sums of millions of events take a while: windows are answered meanwhile.
_SLOW = frozenset({"select", "search", "top", "compare"})


class TimelineView(Viewer):
    """Lanes of a profile over time, with statistics, search and the longest kernels.

    `overview` is what is shown before anything is asked; `selection` is what is chosen,
    {"event", "stretch"}: read it, or set parts of it with `show`.
    """

    _bundle = "profile.js"
    kind = traitlets.Unicode("timeline").tag(sync=True)
    overview = traitlets.Any(None).tag(sync=True, from_json=only_ours("overview"))

    def __init__(self, shown: Profile | Comparison, **kwargs: Any) -> None:
        self.shown = shown
        self.desk = TimelineDesk(shown, self.show_kernel)
        self._answerer = Answerer(self.desk, self.send, _SLOW)
        super().__init__(**kwargs)

    @property
    def profile(self) -> Profile:
        """What is drawn; of two runs, both in one."""
        return self.desk.profile

    def show_kernel(self, kernel: int, tab: str = "kernels") -> int:
        """Take the debugger of the record to a kernel; the number of this request."""
        record = self.profile.record
        assert record is not None, "the desk asks for kernels of a record only"
        passes = [p for p in record.passes if p.kernel == kernel and (p.count or p.changed)]
        number = next(_reveals)
        debugger_of(record).show(
            pass_id=passes[0].id if passes else None,
            k=0 if passes else None,
            kernel=kernel,
            reveal={"tab": tab, "number": number},
        )
        return number

    def static(self) -> dict[str, str]:
        """A picture of the lanes, and the top kernels."""
        return mimebundle(self.shown)

    def _shown_first(self) -> Json:
        return {"overview": finite(self.desk.overview())}


_viewers = Viewers(TimelineView)


def timeline_of(shown: Profile | Comparison) -> TimelineView:
    """The timeline of a profile: one model, however often it is displayed."""
    return _viewers.of(shown)
