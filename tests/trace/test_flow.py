"""Which kernels read what others wrote, by the bytes of their buffers."""

import random
from pathlib import Path

from tinylab.device.buffer import Buffer
from tinylab.dtype import dtypes
from tinylab.lab import report
from tinylab.lab.cells import run_cell
from tinylab.lab.desk import desk_of
from tinylab.trace import store
from tinylab.trace.flow import Flow

IMPORT = "from tinylab import Tensor\n"


def edges_of(code, device="NULL"):
    run = run_cell(IMPORT + code, {}, device=device)
    assert run.error is None
    return run.record, desk_of(run.record).kernels.edges()


def test_a_kernel_of_a_second_realize_follows_the_one_that_made_its_input():
    for device in ("NULL", "CPU"):
        _, found = edges_of(
            "x = Tensor.empty(8, 8)\ny = (x @ x).realize()\nz = (y * 2).realize()\n", device
        )
        assert found == [(0, 1)]


def test_unrelated_schedules_share_nothing():
    code = "a = (Tensor.empty(8) + 1).realize()\nb = (Tensor.empty(8) + 2).realize()\n"
    assert edges_of(code)[1] == []
    # Inner buffers of two schedules bear the same names.
    both = "x = Tensor.empty(8, 8)\nfor c in (1, 2): ((x + c).sum(0).contiguous() + c).realize()\n"
    assert edges_of(both)[1] == [(0, 1), (2, 3)]


def test_a_write_in_place_and_a_copy_are_followed():
    code = (
        "x = (Tensor.empty(8) + 1).realize()\nx.assign(x * 2).realize()\n"
        "y = (x + 3).realize()\n(y.to('PYTHON').contiguous() * 2).realize()\n"
    )
    assert edges_of(code, "CPU")[1] == [(0, 1), (1, 2), (2, 3)]


def test_edges_are_kept_in_a_file_and_drawn(tmp_path: Path):
    record, found = edges_of("x = Tensor.empty(8, 8)\ny = (x @ x).realize()\n(y * 2).realize()\n")
    report.save(record, tmp_path / "a.tlab")
    loaded = store.load(tmp_path / "a.tlab")
    assert desk_of(loaded).kernels.edges() == found
    assert report.picture(loaded) == report.picture(record)


def test_writers_are_those_of_each_byte():
    """Against a list with an entry per byte."""
    for seed in range(30):
        rng = random.Random(seed)
        base, flow, owner = Buffer("NULL", 40, dtypes.uint8), Flow(), [None] * 40
        for kernel in range(25):
            views = []
            for _ in range(3):
                start = rng.randrange(39)
                size = rng.randrange(1, 41 - start)
                views.append((start, size, base.view(size, dtypes.uint8, start)))
            read = flow.ran(kernel, [v for *_, v in views], ins=(1, 2), outs=(0,))
            expected = {o for a, n, _ in views[1:] for o in owner[a : a + n]} - {None}
            assert read == expected
            start, size, _ = views[0]
            owner[start : start + size] = [kernel] * size
            if rng.random() < 0.2:
                (a, n, to), (b, m, source) = views[1], views[2]
                flow.copied(to, source)
                came = set(owner[b : b + m]) - {None}
                if len(came) != 1:
                    break  # a byte may have several writers then
                owner[a : a + n] = [came.pop()] * n


def test_memory_that_is_gone_is_forgotten():
    flow = Flow()
    buffer = Buffer("NULL", 4, dtypes.uint8)
    flow.ran(0, [buffer], ins=(), outs=(0,))
    assert len(flow._written) == 1
    del buffer
    assert len(flow._written) == 0
