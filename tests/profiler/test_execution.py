"""Queues without loops are queues; walks agree; stalls and occupancy by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from tinylab.profiler.capture import read_capture
from tinylab.profiler.code.sizes import Instruction
from tinylab.profiler.demo import FOLDER
from tinylab.profiler.sqtt.encode import InstSpec, WaveSpec, encode
from tinylab.profiler.sqtt.events import concatenate
from tinylab.profiler.sqtt.execution import match, match_reference
from tinylab.profiler.sqtt.packets import cycles_of, unit_of
from tinylab.profiler.sqtt.trace import Trace
from tinylab.profiler.sqtt.walk import Program, no_waves, walk, walk_reference
from tinylab.profiler.sqtt.waves import occupancy


@given(st.lists(st.booleans(), max_size=60))
def test_matching_is_a_queue(kinds: list[bool]) -> None:
    issued = [i for i, kind in enumerate(kinds) if kind]
    executed = [i for i, kind in enumerate(kinds) if not kind]
    found = match(np.array(issued, np.int64), np.array(executed, np.int64))
    assert found.tolist() == match_reference(issued, executed)


def test_units_and_cycles_by_name() -> None:
    names = ("SGMEM_RD_2", "OTHER_LDS_1", "JUMP", "VALUB_16", "SMEM", "VALU_DPFP", "0x7f")
    assert [unit_of(n) for n in names] == ["VMEM", "LDS_ALT", None, "VALU", "SALU", "VALU", None]
    assert [cycles_of(n) for n in names] == [2, 1, 1, 16, 1, 1, 1]


@given(st.data())
def test_walks_agree_on_any_program_and_events(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.sampled_from((4, 8, 12)), min_size=1, max_size=8))
    flags = [data.draw(st.sampled_from((0, 0, 1, 2, 4, 8, 16))) for _ in sizes]
    starts = np.cumsum([256, *sizes])
    targets = [int(data.draw(st.sampled_from([*starts[:-1].tolist(), 0, 1 << 50]))) for _ in sizes]
    program = Program(
        [
            Instruction(int(pc), size, "SOPP", flag, target, bytes(size))
            for pc, size, flag, target in zip(starts, sizes, flags, targets, strict=False)
        ]
    )
    events = _random_events(data)
    fast, plain = no_waves(), no_waves()
    found, end = walk(events, program, fast)
    wanted, wanted_end = walk_reference(events, program, plain)
    assert found.tolist()[: end.row if end else None] == wanted[: end.row if end else None]
    assert end == wanted_end
    assert fast.tolist() == plain.tolist()


def _random_events(data: st.DataObject) -> object:
    specs = [WaveSpec(0, None, slot=s) for s in range(3)]
    events = Trace(encode("rdna3", specs + [InstSpec(5, "SALU", 1)] * 40)).index().part(0).events  # type: ignore[list-item]
    n = len(events)
    draw = lambda values: [data.draw(st.sampled_from(values)) for _ in range(n)]  # noqa: E731
    events.action[:] = draw((0, 1, 1, 1, 2, 3, 4, 5, 6, 7))
    events.slot[:] = draw((0, 1, 2))
    events.arg[:] = draw((256, 256, 260, 264, -1, 1 << 40))
    return events


def test_a_program_of_nothing_maps_nothing() -> None:
    trace = Trace(encode("rdna3", [WaveSpec(0, 9), InstSpec(4, "SALU")]), Program(())).index()
    assert trace.mapped == 0
    assert not trace.faults


def test_disagreement_ends_mapping_and_says_where() -> None:
    code = read_capture(FOLDER).program(0).code
    specs = [WaveSpec(0, 90), InstSpec(4, "SMEM_RD"), InstSpec(9, "JUMP"), InstSpec(10, "SALU")]
    trace = Trace(encode("rdna3", specs), code).index()  # type: ignore[arg-type]
    assert trace.mapped == 1
    assert "branches at 4104, which is no branch" in str(trace.faults[0])
    assert trace.faults[0].clock == 9
    assert not trace.faults[0].fatal


def test_latency_and_stall_by_hand() -> None:
    ops = [(10, "SALU"), (11, "VALUB_4"), (15, "VALUINST"), (40, "IMMEDIATE")]
    specs = [WaveSpec(0, 50), *(InstSpec(t, op) for t, op in ops)]
    trace = Trace(encode("rdna3", specs)).index()  # type: ignore[arg-type]
    table, kind = trace.table, trace.table.kind
    rows = {
        name: trace.tally.by_class.row(number)
        for name, number in (
            ("SALU", table.op_code["SALU"]),
            ("VALUB_4", table.op_code["VALUB_4"]),
            ("VALUINST", 256 + kind["VALUINST"]),
            ("IMMEDIATE", 256 + kind["IMMEDIATE"]),
        )
    }
    assert [rows[op]["total"] for _t, op in ops] == [1, 4, 25, 10]
    assert [rows[op]["stall"] for _t, op in ops] == [0, 0, 0, 24]


def test_occupancy_is_a_step_function() -> None:
    specs = [WaveSpec(10, 20), WaveSpec(15, 30, slot=1), WaveSpec(20, 40)]
    times, counts = occupancy(Trace(encode("rdna3", specs)).index().waves())  # type: ignore[arg-type]
    assert times.tolist() == [10, 15, 20, 30, 40]
    assert counts.tolist() == [1, 2, 2, 1, 0]


def test_nothing_is_nothing() -> None:
    trace = Trace(b"")
    assert trace.done
    assert trace.index().waves().start.tolist() == []
    assert len(concatenate(trace.table, [])) == 0
