"""Where recorded captures are, and streams made up for tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st

from tinylab.profiler.sqtt.encode import ExecSpec, InstSpec, MarkSpec, RegSpec, Spec, WaveSpec

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data" / "amd"
FOLDERS = sorted(p.parent for p in RECORDED.glob("*/*/golden.json"))
recorded = pytest.mark.skipif(not FOLDERS, reason=f"no recorded captures in {RECORDED}")
every_capture = pytest.mark.parametrize(
    "folder", FOLDERS, ids=["/".join(p.parts[-2:]) for p in FOLDERS]
)
FAMILIES = ("rdna3", "rdna4", "cdna")

_UNITS = ("SALU", "VALU", "VALU_SALU", "LDS", "LDS_ALT", "VMEM", "VMEM_ALT")
_OPS = {
    "rdna3": ("VALUINST", "IMMEDIATE", "SALU", "SMEM_RD", "LDS_WR_2", "VALUT_4", "OTHER_LDS_1"),
    "rdna4": ("VALUINST", "IMMEDIATE", "SALU_2", "VMEM_RD_1", "WMMA_16", "OTHER_VMEM_34"),
    "cdna": ("IMMEDIATE", "SALU_32", "VALU_64", "FLAT_RD", "NEXT", "VALU_MAI"),
}


@st.composite
def specs(draw: st.DrawFn, family: str) -> list[Spec]:
    """Waves that never share a slot at one time, and what goes on beside them."""
    unit = 4 if family == "cdna" else 1
    times = st.integers(0, 1 << 20).map(lambda t: unit * t)
    out: list[Spec] = []
    used: set[tuple[int, int, int, int]] = set()
    for _ in range(draw(st.integers(0, 8))):
        place = tuple(draw(st.integers(0, n)) for n in ((1, 7, 3, 9)))
        if place in used:
            continue
        used.add(place)
        start = draw(times)
        end = start + unit * draw(st.integers(0, 1 << 12))
        threads = draw(st.integers(1, 32))
        out.append(WaveSpec(start, end, place[3], place[2], place[1], place[0], threads))
    for _ in range(draw(st.integers(0, 30))):
        op = draw(st.sampled_from(_OPS[family]))
        simd = draw(st.integers(0, 3)) if family == "cdna" else 0
        out.append(InstSpec(draw(times), op, draw(st.integers(0, 9)), simd))
    for _ in range(draw(st.integers(0, 10))):
        if family != "cdna":
            out.append(ExecSpec(draw(times), draw(st.sampled_from(_UNITS))))
        out.append(RegSpec(draw(times), 0x2E00 + draw(st.integers(0, 127)), draw(_WORD)))
    if family != "cdna":
        out += [MarkSpec(draw(times), draw(_WORD)) for _ in range(draw(st.integers(0, 4)))]
    return out


_WORD = st.integers(0, (1 << 32) - 1)
