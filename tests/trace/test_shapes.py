from tests.trace.programs import pm_tidy, variable
from tinylab import Context, Tensor
from tinylab.trace.record import Record, record
from tinylab.uop.ops import Ops, UOp, graph_rewrite


class Alive(Record):
    """A record that keeps the roots of its passes, to compare with."""

    def __init__(self):
        super().__init__()
        self.alive = []

    def begin_pass(self, name, place, root, *order):
        self.alive.append(root)
        return super().begin_pass(name, place, root, *order)


def test_shapes_are_those_of_the_nodes():
    rec = Alive().start()
    with Context(DEV="NULL"):
        x = Tensor.empty(4, 6)
        (x.permute(1, 0).reshape(2, 12).pad(((1, 0), (0, 0))).flip(1).sum(0) + 1).realize()
    rec.stop()
    seen = 0
    for root in rec.alive:
        for node in root.toposort():
            assert rec.nodes.shape(rec.nodes.add(node)) == node._shape
            seen += 1
    assert seen > 300


def test_a_symbolic_size_is_shown_as_an_expression():
    n = variable("n")
    with record() as rec:
        node = UOp.param(0, Tensor.empty(1).dtype, (n + 1, 4))
        graph_rewrite(node.sink(), pm_tidy, name="tidy")
        found = rec.nodes.shape(rec.nodes.add(node))
    assert found == ("(n+1)", 4)


def test_a_malformed_graph_is_shown_without_its_shape():
    with record() as rec:
        node = UOp(Ops.PERMUTE, Tensor.empty(1).dtype, (UOp(Ops.SINK),), (5, 7))
        assert rec.nodes.shape(rec.nodes.add(node)) is None
