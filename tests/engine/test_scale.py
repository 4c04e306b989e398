"""Programs that grow: kernels and nodes grow with them, and no faster."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinylab import Tensor
from tinylab.engine.realize import to_store
from tinylab.opcodes import Ops
from tinylab.tensor import live
from tinylab.tensor.held import mark_of
from tinylab.uop.ops import UOp


def leaf(*shape: int) -> Tensor:
    return Tensor.empty(*(shape or (4,)))


def stacked(n: int) -> list[Tensor]:
    return [leaf().stack(*(leaf() for _ in range(n - 1)))]


def joined(n: int) -> list[Tensor]:
    return [leaf().cat(*(leaf() for _ in range(n - 1)))]


def summed(n: int) -> list[Tensor]:
    total = leaf()
    for _ in range(n - 1):
        total = total + leaf()
    return [total]


def shared(n: int) -> list[Tensor]:
    """2 ** n paths through n steps."""
    x, w = leaf(), leaf()
    for _ in range(n):
        x = x * w + x * (1 - w)
    return [x.pad((1, 0)).sum()]


def long_chain(n: int) -> list[Tensor]:
    x = leaf()
    for i in range(n):
        x = (x + i).maximum(x * 3)
    return [x]


def layers(n: int) -> list[Tensor]:
    x = leaf(8, 8)
    for _ in range(n):
        x = (x @ leaf(8, 8)).relu()
    return [x]


def written(n: int) -> list[Tensor]:
    x = leaf(n, 4)
    for i in range(n):
        x[i] = leaf()
    return [x]


def written_in_place(n: int) -> list[Tensor]:
    x = leaf()
    for _ in range(n):
        x += 1
    return [x]


def many_buffers(n: int) -> list[Tensor]:
    found = [leaf() for _ in range(n)]
    for i in range(n):
        found[i] += found[(i + 1) % n]
    return found


def read_often(n: int) -> list[Tensor]:
    """One reduction with many readers."""
    total = leaf(8, 8).sum(1)
    return [total * i for i in range(1, n + 1)]


PROGRAMS: dict[str, Callable[[int], list[Tensor]]] = {
    f.__name__: f
    for f in (
        stacked, joined, summed, shared, long_chain, layers, written, written_in_place,
        many_buffers, read_often,
    )
}  # fmt: skip


def measured(program: Callable[[int], list[Tensor]], n: int) -> tuple[int, int]:
    """(kernels, nodes of all kernels together) of the schedule."""
    tensors = program(n)
    linear = tensors[0].schedule_linear(*tensors[1:])
    bodies = {call.src[0] for call in linear.src}
    return len(linear.src), len(UOp.sink(*bodies).toposort())


@pytest.mark.parametrize("name", PROGRAMS)
def test_twice_the_program_is_at_most_twice_the_work(name: str) -> None:
    kernels, nodes = measured(PROGRAMS[name], 30)
    more_kernels, more_nodes = measured(PROGRAMS[name], 60)
    assert more_kernels <= 2 * kernels + 2
    assert more_nodes <= 2 * nodes + 40


@pytest.mark.parametrize(
    ("name", "n", "kernels"),
    [
        ("stacked", 1500, 110),
        ("summed", 1500, 60),
        ("shared", 60, 1),
        ("long_chain", 2000, 50),
        ("layers", 60, 60),
        ("written_in_place", 1000, 1000),
    ],
)
def test_large_programs_have_few_kernels(name: str, n: int, kernels: int) -> None:
    tensors = PROGRAMS[name](n)
    linear = tensors[0].schedule_linear(*tensors[1:])
    assert 1 <= len(linear.src) <= kernels
    assert all(len(call.src) - 1 <= 31 for call in linear.src if call.src[0].op is Ops.SINK)


def test_values_of_many_parts() -> None:
    parts = [Tensor([[float(i), 1.0]]) for i in range(400)]
    found = parts[0].stack(*parts[1:])
    np.testing.assert_array_equal(found[:, 0, 0].numpy(), np.arange(400))
    assert found.sum().item() == 400 * 399 / 2 + 400


def test_tensors_that_lie_in_memory_cost_nothing_when_another_is_computed():
    many = [Tensor([float(n)]).realize() for n in range(50)]

    marks = [1 << n for n in range(512)]

    def waiting() -> set[int]:
        return {id(t) for t in live.to_compute(lambda uop: to_store(uop) is None, marks)}

    assert not {id(t) for t in many} & waiting()
    many[3] += 1
    many[4][:] = 7.0
    view = many[5].reshape(1, 1)
    view.assign(Tensor([[9.0]]))
    pending = many[6] * 2
    assert {id(t) for t in (*many[3:6], view, pending)} <= waiting()
    pending.realize()
    assert id(pending) not in waiting()
    assert [many[n].item() for n in (3, 4, 5)] == [4.0, 7.0, 9.0]
    assert pending.item() == 12.0


def test_tensors_computed_one_by_one_do_not_look_at_all_others():
    count, looked = 400, []
    pending = [Tensor([float(n)]) + 1 for n in range(count)]
    shared = Tensor([5.0]) * 3
    behind = shared + pending[0]

    def in_memory(uop: UOp) -> bool:
        looked.append(uop)
        return to_store(uop) is None

    live.to_compute(in_memory, [1])  # each is filed once
    looked.clear()
    for t in pending:
        assert any(t is x for x in live.to_compute(in_memory, [mark_of(t.uop)]))
    assert len(looked) < count * count / 8
    assert {id(t) for t in live.to_compute(in_memory, [mark_of(shared.uop)])} >= {
        id(shared),
        id(behind),
    }
    shared.realize()
    assert behind.uop.src[0] is shared.uop
    assert behind.item() == 16.0


def test_what_a_tensor_became_is_filed_anew():
    x, y = Tensor([1.0]) + 1, Tensor([2.0]) * 2
    x.contiguous().realize()
    later = y + 1
    x.replace(later)
    later.realize()
    assert to_store(x.uop) is None
    assert x.item() == 5.0
