import asyncio
import linecache
import traceback

import pytest

from tinylab import Tensor, nn
from tinylab.errors import UnknownDeviceError
from tinylab.lab import cells
from tinylab.lab.cells import needs_await, run_cell, run_cell_async
from tinylab.lab.desk import desk_of
from tinylab.trace import store
from tinylab.trace.record import active


def test_the_last_expression_is_the_value():
    run = run_cell("x = 2\nx + 1", {})
    assert (run.has_value, run.value, run.error) == (True, 3, None)


@pytest.mark.parametrize("cell", ["", "# nothing", "x = 1", "3;"])
def test_a_cell_without_a_last_expression_has_no_value(cell):
    run = run_cell(cell, {})
    assert (run.has_value, run.error) == (False, None)


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("__import__('tinygrad').Tensor", Tensor),
        ("import importlib\nimportlib.import_module('tinygrad.nn').Linear", nn.Linear),
    ],
)
def test_the_last_expression_names_the_same_modules(cell, value):
    assert run_cell(cell, {}).value is value


def test_an_import_beyond_the_top_fails_where_it_runs():
    cell = "import importlib\ndef never(): importlib.import_module('...x', 'tinygrad')\n3"
    assert run_cell(cell, {}).value == 3
    assert isinstance(run_cell(cell + "\nnever()", {}).error, ImportError)


def test_names_live_in_the_namespace():
    names = {"a": 1}
    run_cell("b = a + 1\ndef f(): return b", names)
    assert names["b"] == names["f"]() == 2


def test_a_cell_is_recorded_and_named():
    names = {}
    run = run_cell("from tinygrad import Tensor\nTensor.empty(8).exp2().realize();", names,
                   device="NULL", name="rec")  # fmt: skip
    assert names["rec"] is run.record
    assert run.record.name == "rec"
    assert run.record.device == "NULL"
    assert len(run.record.kernels) == 1


def test_an_error_is_kept_with_what_was_recorded_up_to_it():
    names = {}
    source = "from tinygrad import Tensor\nTensor.empty(8).exp2().realize()\n1 / 0\nx = 1"
    run = run_cell(source, names, device="NULL", name="rec")
    assert isinstance(run.error, ZeroDivisionError)
    assert len(names["rec"].kernels) == 1
    assert "x" not in names
    page = desk_of(run.record).overview()
    assert page["status"] == "error"
    assert page["error"]["type"] == "ZeroDivisionError"
    assert active() == []


def test_a_traceback_shows_the_cells_lines():
    run = run_cell("def f():\n    return 1 / 0\nf()", {})
    text = "".join(traceback.format_exception(run.error))
    assert "return 1 / 0" in text
    assert "line 3" in text
    assert linecache.getline(run.record.cell.filename, 1) == "def f():\n"


def test_an_interrupt_is_kept_too():
    run = run_cell("raise KeyboardInterrupt", {})
    assert isinstance(run.error, KeyboardInterrupt)
    assert desk_of(run.record).overview()["status"] == "interrupted"


def test_a_syntax_error_runs_nothing():
    names = {}
    run = run_cell("x = 1\nx +", names, name="rec")
    assert isinstance(run.error, SyntaxError)
    assert "x" not in names
    assert names["rec"].passes == []
    assert desk_of(run.record).overview()["error"]["type"] == "SyntaxError"


def test_an_unknown_device_is_answered_before_the_cell_runs():
    names = {}
    run = run_cell("x = 1", names, device="NUL")
    assert isinstance(run.error, UnknownDeviceError)
    assert "did you mean NULL?" in run.error.help
    assert "x" not in names


def test_noopt_holds_for_the_cell_alone():
    from tinylab.helpers.context import NOOPT

    before = NOOPT.value
    source = "from tinygrad import Tensor\nTensor.empty(64, 64).sum(1).realize()"
    plain, tuned = (
        run_cell(source, {}, device="NULL", noopt=True),
        run_cell(source, {}, device="NULL"),
    )
    opts = [desk_of(run.record).overview()["kernels"][0]["opts"] for run in (plain, tuned)]
    assert opts[0] == []
    assert opts[1] != []
    assert NOOPT.value == before


def test_without_alias_the_foreign_module_is_meant():
    run = run_cell("import tinygrad_that_is_not_there", {}, alias=False)
    assert isinstance(run.error, ModuleNotFoundError)


def test_a_cell_run_twice_shows_as_much():
    source = "from tinygrad import Tensor\n(Tensor.empty(8, 8) @ Tensor.empty(8, 8)).realize()"
    runs = [run_cell(source, {}, device="NULL") for _ in range(3)]
    pages = [desk_of(run.record).overview() for run in runs]
    shown = [
        [(s["name"], [(p["name"], p["matches"]) for p in s["passes"]]) for s in page["stages"]]
        for page in pages
    ]
    assert shown[0] == shown[1] == shown[2]
    assert [k["lines"] for k in pages[0]["kernels"]] == [k["lines"] for k in pages[2]["kernels"]]


def test_an_empty_cell_says_why_there_is_nothing():
    run = run_cell("from tinygrad import Tensor\nx = Tensor.empty(4) + 1", {}, device="NULL")
    page = desk_of(run.record).overview()
    assert (page["stages"], page["kernels"]) == ([], [])
    assert "lazy" in page["hint"]
    assert desk_of(run.record).first() is None


def test_records_can_be_kept_for_a_report(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "_kept", None)
    cells.keep_records()
    run_cell("from tinygrad import Tensor\nTensor.empty(8).exp2().realize()", {}, device="NULL")
    run_cell("1 / 0", {})
    cells.save_records(str(tmp_path))
    first, second = (store.load(p) for p in sorted(tmp_path.iterdir()))
    assert len(first.kernels) == 1
    assert first.kernels[0].page()["source"]
    assert second.error_facts()["type"] == "ZeroDivisionError"


AWAITING = """\
import asyncio
from tinygrad import Tensor
await asyncio.sleep(0)
x = (Tensor.empty(8) + 1).realize()
async def later():
    await asyncio.sleep(0)
    return 7
await later()
"""


def test_a_cell_may_await_at_its_top_level():
    names = {}
    run = run_cell(AWAITING, names, device="NULL", name="rec")
    assert (run.error, run.value, run.has_value) == (None, 7, True)
    assert len(run.record.kernels) == 1
    assert run.record.passes


def test_a_cell_that_awaits_runs_in_the_loop_that_is_there():
    async def both():
        loop = asyncio.get_running_loop()
        names = {"loops": []}
        source = "import asyncio\nloops.append(asyncio.get_running_loop())\nawait asyncio.sleep(0)"
        run = await run_cell_async(source + "\n1 / 0", names)
        return loop, names["loops"], run

    loop, loops, run = asyncio.run(both())
    assert loops == [loop]
    assert isinstance(run.error, ZeroDivisionError)


@pytest.mark.parametrize(
    ("source", "waits"),
    [
        ("await f()", True),
        ("async with f() as x:\n    pass", True),
        ("xs = [x async for x in f()]", True),
        ("async def f():\n    await g()", False),
        ("text = 'await'", False),
        ("await = 1", False),
    ],
)
def test_whether_code_waits(source, waits):
    assert needs_await(source) == waits
