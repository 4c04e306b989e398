"""Progress bars, in a terminal and in the output of a notebook's cell."""

import sys
import types

import pytest

from tinylab.helpers.progress import tqdm, trange


def test_progress_is_drawn_and_counts(capsys):
    assert list(tqdm([1, 2, 3], desc="read")) == [1, 2, 3]
    drawn = capsys.readouterr().err
    assert "read: " in drawn
    assert "3/3" in drawn
    assert drawn.endswith("\n")
    assert list(trange(3, disable=True)) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_a_bar_moves_by_hand_and_takes_notes(capsys):
    with tqdm(total=10, unit="B", unit_scale=True, rate=10**9) as bar:
        bar.update(4)
        bar.set_description("half")
        bar.write("a note")
        bar.update(1)
    text = capsys.readouterr().err
    assert "a note\n" in text
    assert "half: " in text
    assert "5.00/10.00" in text


def test_where_a_bar_stands():
    assert [(b.i, b.n, b.t) for b in [tqdm(range(3), disable=True)] for _ in b] == [
        (0, 0, 3), (1, 1, 3), (2, 2, 3)
    ]  # fmt: skip
    bar = tqdm(iter([]), disable=True)
    bar.update(3)
    assert (bar.i, bar.n, bar.t) == (1, 3, 0)


def test_a_note_needs_no_bar(capsys):
    tqdm.write("a note")
    assert capsys.readouterr().err.endswith("a note\n")


@pytest.mark.parametrize("terminal", [False, True])
def test_a_bar_may_be_for_terminals_alone(capsys, monkeypatch, terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert list(tqdm([1, 2], disable=None)) == [1, 2]
    assert ("2/2" in capsys.readouterr().err) is terminal


def test_a_bar_is_closed_by_hand(capsys):
    bar = tqdm(total=2)
    bar.update(1)
    bar.close()
    assert capsys.readouterr().err.endswith("\n")


def test_how_much_there_is_may_be_unknown(capsys):
    assert sum(tqdm(iter([1, 2]))) == 3
    assert "2it [" in capsys.readouterr().err


class Page:
    """What IPython gives: displays that are drawn again."""

    def __init__(self):
        self.shown = []

    def display(self, bundle, raw, display_id):
        self.shown.append(bundle)
        return types.SimpleNamespace(update=lambda bundle, raw: self.shown.append(bundle))


def in_a_notebook(monkeypatch):
    page = Page()
    fake = types.ModuleType("IPython")
    fake.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    fake.display = types.ModuleType("IPython.display")
    fake.display.display = page.display
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", fake.display)
    return page


def test_in_a_notebook_one_output_is_drawn_again(monkeypatch, capsys):
    page = in_a_notebook(monkeypatch)
    for _ in trange(1000, desc="<steps>"):
        pass
    assert capsys.readouterr().err == ""
    assert 2 <= len(page.shown) <= 5
    last = page.shown[-1]
    assert "1000/1000" in last["text/plain"]
    assert "width:100.0%" in last["text/html"]
    assert "&lt;steps&gt;" in last["text/html"]
    tqdm(total=2).write("a note")
    assert capsys.readouterr().out == "a note\n"


def test_a_bar_that_is_not_left_is_gone_at_the_end(monkeypatch, capsys):
    assert list(tqdm([1, 2], desc="read", leave=False)) == [1, 2]
    assert capsys.readouterr().err.endswith("\r\033[K")
    page = in_a_notebook(monkeypatch)
    assert list(tqdm([1, 2], desc="read", leave=False)) == [1, 2]
    assert len(page.shown) > 1
    assert page.shown[-1] == {"text/plain": ""}


def test_a_loop_that_is_left_early_closes_the_bar_where_it_was(monkeypatch, capsys):
    for i in trange(10):
        if i == 4:
            break
    text = capsys.readouterr().err
    assert " 40%" in text
    assert "4/10" in text
    assert text.endswith("\n")
    page = in_a_notebook(monkeypatch)
    for i in trange(10):
        if i == 4:
            break
    assert "4/10" in page.shown[-1]["text/plain"]
    assert "width:40.0%" in page.shown[-1]["text/html"]
    assert "warn-color" in page.shown[-1]["text/html"]
    for _ in trange(10):
        pass
    assert "success-color" in page.shown[-1]["text/html"]


def failing():
    yield 1
    raise ValueError("no more")


def test_an_iterable_that_fails_closes_the_bar(capsys):
    with pytest.raises(ValueError, match="no more"):
        list(tqdm(failing(), total=4))
    text = capsys.readouterr().err
    assert "1/4" in text
    assert text.endswith("\n")
