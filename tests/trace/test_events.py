import threading

import pytest

from tinylab import Context, Tensor, TinyJit
from tinylab.device import Buffer
from tinylab.dtype import dtypes
from tinylab.trace import events


class Heard:
    def __init__(self):
        self.opened_events, self.closed_events = [], []

    def opened(self, event):
        self.opened_events.append(event)

    def closed(self, event):
        self.closed_events.append(event)


@pytest.fixture
def heard():
    listener = Heard()
    events.attach(listener)
    yield listener
    events.detach(listener)


def test_a_quiet_program_keeps_nothing():
    assert not events.listening()
    with events.span("kernel", "k", ast=object()) as s:
        s.data["program"] = object()
        s.data.update(cached=True)
    events.point("run", "k")
    assert dict(s.data) == {}


def test_a_span_is_heard_when_it_opens_and_when_it_closes(heard):
    with events.span("kernel", "k", index=3) as s:
        assert heard.opened_events == [s]
        assert heard.closed_events == []
        s.data["cached"] = True
    assert heard.closed_events == [s]
    assert s.data == {"index": 3, "cached": True}
    assert 0 < s.start_ns <= s.end_ns


def test_spans_know_the_span_around_them(heard):
    with events.span("schedule", "a") as a, events.span("kernel", "b") as b:
        events.point("compile", "c")
        assert events.open_spans() == (a, b)
    assert (a.parent, b.parent) == (None, a)
    assert heard.closed_events[0].parent is b
    assert events.open_spans() == ()


def test_an_error_ends_a_span_and_passes_through(heard):
    with pytest.raises(ValueError, match="no"), events.span("kernel", "k") as s:
        raise ValueError("no")
    assert isinstance(s.error, ValueError)
    assert events.open_spans() == ()


def test_threads_have_spans_of_their_own(heard):
    seen = []
    with events.span("realize", "main"):
        thread = threading.Thread(target=lambda: seen.append(events.open_spans()))
        thread.start()
        thread.join()
    assert seen == [()]


def test_nothing_is_heard_of_a_quiet_thread(heard):
    with events.quietly():
        assert not events.listening()
        with events.span("kernel", "k"):
            events.point("run", "k")
    assert heard.opened_events == heard.closed_events == []
    assert events.listening()


def test_a_listener_that_left_hears_no_more(heard):
    with events.span("kernel", "k"):
        events.detach(heard)
    assert heard.closed_events == []


def test_memory_is_heard_when_it_is_taken_and_given_back(heard):
    buffer = Buffer("CPU", 1000, dtypes.uint8).allocate()
    buffer.deallocate()
    taken, given = (e for e in heard.closed_events if e.data.get("bytes") == 1000)
    assert (taken.kind, given.kind) == ("allocate", "free")
    assert taken.name == given.name == "CPU"
    assert taken.data["used"] - given.data["used"] == 1000


def test_each_thing_that_happens_is_heard(heard):
    x = Tensor([1.0, 2.0, 5.0]).realize()
    with Context(SCACHE=0, CCACHE=0, CACHELEVEL=0):
        (x * 1.375 + 0.625).to("PYTHON").realize()
    kinds = {e.kind for e in heard.closed_events}
    assert {"realize", "schedule", "kernel", "run", "copy", "allocate"} <= kinds


def test_with_nobody_listening_nothing_is_made(monkeypatch):
    made = []
    monkeypatch.setattr(events.Event, "__init__", lambda self, *args: made.append(args))
    step = TinyJit(lambda x: (x + 1).contiguous().sum().realize())
    with Context(SCACHE=0):
        for value in range(4):
            step(Tensor([1.0, float(value)]).realize()).item()
        Tensor([1.0, 2.0]).to("CPU:1").realize()
    assert made == []
