from tinylab.lab.cells import run_cell
from tinylab.trace.lineage import Lineage


def lineage_of(source, device="NULL"):
    run = run_cell(source, {}, device=device)
    assert run.error is None, run.error
    return run.record, Lineage(run.record)


TWO_KERNELS = """\
from tinygrad import Tensor
a = Tensor.empty(16, 32)
b = Tensor.empty(32, 8)
c = a @ b
d = c.relu()
e = d.sum()
f = e.exp()
f.realize()
"""


def test_kernels_have_the_lines_that_they_compute():
    rec, lineage = lineage_of(TWO_KERNELS)
    methods = [lineage.kernel_methods(k.id) for k in rec.kernels]
    by_method = {
        method: set(lineage.kernel_lines(kernel.id))
        for kernel, found in zip(rec.kernels, methods, strict=True)
        for method in found
    }
    assert by_method["matmul"] >= {4}
    assert by_method["sum"] >= {6}
    assert 6 not in by_method["matmul"] or len(rec.kernels) == 1
    assert {4, 5, 6, 7} <= {line for lines in by_method.values() for line in lines}


def test_lines_have_the_kernels_that_compute_them():
    rec, lineage = lineage_of(TWO_KERNELS)
    for kernel in rec.kernels:
        for line in lineage.kernel_lines(kernel.id):
            assert kernel.id in lineage.kernels_of_lines([line])
    assert lineage.kernels_of_lines([1]) == []


def test_equal_kernels_keep_their_own_lines():
    source = (
        "from tinygrad import Tensor\n"
        "a, b = Tensor.empty(8), Tensor.empty(8)\n"
        "c = a.exp2()\n"
        "d = b.exp2()\n"
        "Tensor.realize(c, d)\n"
    )
    rec, lineage = lineage_of(source)
    lines = [lineage.kernel_lines(k.id) for k in rec.kernels]
    assert sorted(lines) == [[3], [4]]


def test_all_frames_of_the_users_code_count():
    source = (
        "from tinygrad import Tensor\n"
        "def layer(x):\n"
        "    return x.exp2()\n"
        "y = layer(Tensor.empty(8))\n"
        "y.realize()\n"
    )
    _, lineage = lineage_of(source)
    assert set(lineage.kernel_lines(0)) >= {3, 4}
    frames = lineage.frames(lineage.of_kernel(0))
    assert [f.function for f in frames[0][:2]] == ["layer", "<module>"]


def test_nodes_of_a_kernels_passes_come_from_its_lines():
    rec, lineage = lineage_of(TWO_KERNELS)
    for shown in rec.passes:
        if shown.kernel is None:
            continue
        of_kernel = lineage.of_kernel(shown.kernel)
        assert all(bits & ~of_kernel == 0 for bits in lineage.of_pass(shown.id).values())
    last = [p for p in rec.passes if p.kernel == 0][-1]
    nodes = rec.nodes.walk(last.root_after)
    alu = [n for n in nodes if rec.nodes.head(n).op.name in ("MULACC", "MUL")]
    assert any(lineage.node_lines(last.id, n) for n in alu)


def test_a_line_marks_its_nodes_in_the_tensor_graph():
    rec, lineage = lineage_of(TWO_KERNELS)
    first = rec.passes[0]
    nodes = lineage.nodes_of_lines([6], first.id)
    assert "REDUCE" in {rec.nodes.head(n).op.name for n in nodes}
    assert set(nodes).isdisjoint(lineage.nodes_of_lines([4], first.id))


def test_a_record_without_notes_has_no_lines():
    _, lineage = lineage_of("1 + 1")
    assert lineage.kernels_of_lines([1]) == []
    assert lineage.mask([1]) == 0


def lines_and_runs(source):
    rec, lineage = lineage_of(source, device="CPU")
    return [(lineage.kernel_lines(k.id), len(k.runs_ns)) for k in rec.kernels]


def test_an_equal_program_on_another_line_is_of_that_line_too():
    found = lines_and_runs(
        "from tinygrad import Tensor\n"
        "w, x = Tensor.empty(8, 8), Tensor.empty(4, 8)\n"
        "h = (x @ w).relu().realize()\n"
        "h = (h @ w).relu().realize()\n"
        "h = (h @ w).relu().realize()\n"
    )
    assert found == [([3, 4, 5], 3)]


def test_an_equal_write_on_another_line_is_of_that_line_too():
    found = lines_and_runs(
        "from tinygrad import Tensor\n"
        "x = Tensor.ones(4).contiguous().realize()\n"
        "x += 1\n"
        "x.realize()\n"
        "x += 1\n"
        "x.realize()\n"
    )
    assert found[1:] == [([3, 5], 2)]


def test_lines_of_equal_programs_stay_with_their_place():
    once = (
        "from tinygrad import Tensor\n"
        "x = Tensor.empty(4, 4)\n"
        "total = x.sum(1)\n"
        "Tensor.realize((total.exp2() @ x), total.sin())\n"
    )
    found = lines_and_runs(once)
    twice = lines_and_runs(once + "\n".join(once.splitlines()[2:]) + "\n")
    assert len(found) > 1
    assert twice == [(sorted([*rows, *(n + 2 for n in rows)]), 2) for rows, _ in found]


def test_the_counter_of_random_numbers_is_of_all_lines_that_drew():
    rec, lineage = lineage_of(
        "from tinygrad import Tensor\n"
        "a = Tensor.rand(8, 8)\n"
        "b = Tensor.rand(8, 8)\n"
        "c = (a @ b).realize()\n"
    )
    counters = [k for k in rec.kernels if k.reason == "a write in place"]
    assert [lineage.kernel_lines(k.id) for k in counters] == [[2, 3]]
    assert [lineage.kernel_methods(k.id) for k in counters] == [["rand"]]


def test_a_constants_kernel_is_of_the_line_that_wants_it():
    source = "from tinygrad import Tensor\nb = Tensor(3) + 4\nb.item()\n"
    assert lines_and_runs(source) == [([3], 1)]


WRITES = """\
from tinygrad import Tensor
a = Tensor.full((8,), 2.0).contiguous().realize()
a[2:4] = 3
a.realize()
a.assign(0).realize()
a += 1
a.realize()
a[a > 0] = 5
a.realize()
"""


def test_kernels_of_writes_have_their_lines():
    rec, lineage = lineage_of(WRITES, device="CPU")
    lines = [set(lineage.kernel_lines(k.id)) for k in rec.kernels]
    assert all(lines)
    assert [found & {2, 3, 5, 6, 8} for found in lines[:4]] == [{2}, {3}, {5}, {6}]
    assert set.union(*lines[4:]) == {8}
