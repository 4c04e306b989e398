"""Names of the foreign engine that are made of parts here."""

import pathlib

import numpy as np
import pytest

from tinylab import Context, Device, Tensor, Variable, compat, record
from tinylab.compat.events import profile_of

jit = compat.module("tinygrad.engine.jit")
A = np.arange(4, dtype=np.float32)


def test_a_launch_of_many_kernels_made_of_a_list():
    x = Tensor(A).realize()
    y = ((x + 1).contiguous() * 2).contiguous()
    linear = compat.take("tinygrad.engine.realize", "compile_linear")(y.schedule_linear())
    graph = jit.graph_class(Device["CPU"])(linear)
    assert isinstance(graph, jit.MultiGraphRunner)
    assert isinstance(graph, jit.GraphRunner)
    assert graph((), {}, wait=True) > 0
    assert y.tolist() == [2, 4, 6, 8]
    assert graph.supports_uop([Device["CPU"]], linear.src[0])
    assert not graph.supports_uop(["PYTHON"], linear.src[0])


def test_a_launch_takes_values_of_variables():
    x = Tensor(A).realize()
    y = x[: Variable("n", 1, 4).bind(3)].sum()
    linear, values = y.linear_with_vars()
    graph = jit.MultiGraphRunner(linear)
    graph((), values)
    assert y.item() == 3


def test_a_launch_of_one_device_is_not_for_two():
    x = Tensor(A).realize()
    both = (x + 1).to("CPU:1").contiguous() + 1
    linear = both.schedule_linear()
    with pytest.raises(jit.GraphException, match="one launch for each device"):
        jit.GraphRunner(linear)
    jit.MultiGraphRunner(linear)((), {})
    assert both.tolist() == [2, 3, 4, 5]


def test_the_schedule_cache_can_be_emptied():
    cache = compat.take("tinygrad.schedule", "schedule_cache")
    cache.clear()
    (Tensor(A).realize() + 7).realize()
    assert len(cache) == 1
    sink = (Tensor(A).realize() + 8).uop.sink()
    linear, values = compat.take("tinygrad.schedule", "create_linear_with_vars")(sink)
    assert (len(linear.src), values) == (1, {})
    assert len(cache) == 2


def test_a_traced_function_knows_what_it_is():
    traced = compat.take("tinygrad.function", "_function")
    double = compat.take("tinygrad.function", "function")(lambda x: x * 2, precompile=True)
    assert isinstance(double, traced)
    assert (double.precompile, double.precompile_backward, double.grad_fxn) == (True, False, None)
    assert double(Tensor(A)).tolist() == [0, 2, 4, 6]


def test_a_record_in_the_words_of_the_foreign_profile():
    take = compat.take
    with Context(SCACHE=0), record() as rec:
        (Tensor(A).realize() + 9).to("PYTHON").realize()
    found = profile_of(rec)
    devices = [
        e.device for e in found if isinstance(e, take("tinygrad.device", "ProfileDeviceEvent"))
    ]
    assert set(devices) == {"CPU", "PYTHON"}
    programs = [e for e in found if isinstance(e, take("tinygrad.device", "ProfileProgramEvent"))]
    assert [p.device for p in programs] == ["CPU"]
    assert programs[0].lib
    ranges = [e for e in found if isinstance(e, take("tinygrad.helpers", "ProfileRangeEvent"))]
    assert len(ranges) == 2
    assert all(r.en >= r.st for r in ranges)


def test_tables_of_rules_that_scripts_apply():
    ops = compat.module("tinygrad.uop.ops")
    a = Variable("a", 0, 10)
    assert ops.graph_rewrite((a + 3).rtag(5).sink(), ops.remove_all_tags) is (a + 3).sink()
    values = {}
    assert ops.graph_rewrite(a.bind(3) + 1, ops.pm_unbind, ctx=values) is a + 1
    assert values == {a: 3}
    assert ops.do_unbind(values, a.bind(4)) is a
    assert values == {a: 4}
    assert ops.range_start[ops.Ops.REDUCE] == 1
    assert isinstance(a, ops.UOp)
    assert type(ops.UOp) is ops.UOpMetaClass
    assert isinstance(ops.Ops.ADD, compat.take("tinygrad.uop", "FastEnum"))


def test_conditions_are_simplified_by_the_name_that_scripts_use():
    ops = compat.module("tinygrad.uop.ops")
    simplify = compat.take("tinygrad.uop.symbolic", "simplify_valid")
    i = ops.UOp.range(10, 0)
    assert simplify((i < 3) & (i < 5)) is (i < 3)
    assert simplify((i < 3) & (i * -1 < 0)) is None


def test_calls_of_a_group_are_one_event():
    group = compat.take("tinygrad.uop.ops", "rewrite_group")
    key = compat.take("tinygrad.helpers", "TracingKey")

    @group()
    def one(x):
        return x + 1

    with record() as rec:
        assert one(1) == 2
        assert group(name="two")(one)(2) == 3
        assert group(name=lambda x: key(f"of {x}"))(one)(3) == 4
    names = [e.name for e in rec.events if e.kind == "mark"]
    assert {"one", "two", "of 3"} <= set(names)
    assert names.count("one") == 3


def test_where_a_call_stands():
    file, line = compat.take("tinygrad.uop.ops", "get_location")()
    assert file == __file__
    assert "get_location" in pathlib.Path(file).read_text().splitlines()[line - 1]
