"""Packets and instruction classes of RDNA4 (gfx12xx), layout 4: what differs from RDNA3."""

from __future__ import annotations

from tinylab.profiler.sqtt import rdna3
from tinylab.profiler.sqtt.packets import Table, packet

# fmt: off
_CHANGED = {p.name: p for p in (
    packet("TS_DELTA_OR_MARK", "-0000001", 64, "63:12", "7 rt,8 pl,9 tl,63:12 delta", "mark"),
    packet("WAVEEND",          "---10101", 20, "7:5", "8 sa,10:9 simd,14:11 wgp,19:15 wave"),
    packet("WAVESTART",        "---01100", 32, "6:5",
           "7 sa,9:8 simd,13:10 wgp,19:15 wave,31:20 id7"),
    packet("TS_DELTA_S5_W2",   "---11100", 40, "6:5"),
    packet("WAVEALLOC",        "---00101", 24, "7:5", "23:8 payload"),
    packet("TS_DELTA_S5_W3",   "---00110", 56, "9:7"),
    packet("PERF",             "---10110", 32, "9:7", "31:10 arg"),
    packet("INST",             "-----010", 20, "5:3", "6 w64h,11:7 wave,19:12 op"),
)}
PACKETS = tuple(_CHANGED.get(p.name, p) for p in rdna3.PACKETS)

OPS = {
    0x00: "SALU", 0x01: "SMEM", 0x02: "SMEM_WR", 0x03: "JUMP", 0x04: "JUMP_NO", 0x05: "CALL",
    0x07: "SALU_NO_EXEC", 0x09: "MESSAGE", 0x0A: "VALU_1", 0x0B: "VALUT_4", 0x0C: "VALUB_1",
    0x0D: "VALUB_2", 0x0E: "VALUB_4", 0x0F: "VALUB_16", 0x12: "VINTERP", 0x13: "BARRIER_WAIT",
    0x1C: "FLAT_RD_2",
    **{0x1D + i: f"FLAT_WR_{3 + i}" for i in range(4)},
    0x21: "VMEM_RD_1", 0x22: "VMEM_RD_2",
    **{0x23 + i: f"VMEM_WR_{1 + i}" for i in range(6)},
    0x29: "LDS_RD",
    **{0x2A + i: f"LDS_WR_{1 + i}" for i in range(5)},
    0x2F: "BUF_RD_1", 0x30: "BUF_RD_2",
    **{0x31 + i: f"BUF_WR_{1 + i}" for i in range(6)},
    **{0x50 + i: f"OTHER_LDS_{1 + i}" for i in range(5)},
    **{0x55 + i: f"OTHER_FLAT_{2 + i}" for i in range(5)},
    0x6E: "LDS_DIR_LOAD", 0x6F: "LDS_PARAM_LOAD", 0x72: "SALU_WR_EXEC", 0x73: "VALU1_WR_EXEC",
    0x74: "VALU_WR_EXEC_2", 0x77: "OTHER_LDS_6", 0x78: "OTHER_LDS_10", 0x7A: "BARRIER_SIGNAL",
    0x87: "DYN_VGPR", 0x8A: "BARRIER_JOIN", 0x8C: "WMMA_8", 0x8D: "WMMA_16", 0x8E: "WMMA_32",
    0x8F: "WMMA_64", 0x92: "VALU_DPFP", 0x98: "SALU_FLOAT_3", 0x99: "VALU_SCL_TRANS",
    0x9B: "SALU_2", 0x9C: "SALU_5",
    **{0xBC + i: f"OTHER_VMEM_{1 + i}" for i in range(34)},
}
# fmt: on

RDNA4 = Table(
    "rdna4",
    4,
    PACKETS,
    OPS,
    "WAVESTART",
    "WAVEEND",
    ("sa", "wgp", "simd", "wave"),
    units_per_array=16,
)
