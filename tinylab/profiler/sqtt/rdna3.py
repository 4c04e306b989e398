"""Packets and instruction classes of RDNA3 (gfx11xx), layout 3."""

from __future__ import annotations

from tinylab.profiler.sqtt.packets import Table, packet

# fmt: off
PACKETS = (
    packet("EVENT",            "01100001", 24, "10:8", "23:11 event"),
    packet("EVENT_BIG",        "11100001", 32, "10:8", "31:11 event"),
    packet("TS_DELTA_S8_W3",   "-0100001", 72, "10:8"),
    packet("UTILCTR",          "-0110001", 48, "8:7", "47:9 ctr"),
    packet("TS_WAVE_STATE",    "-1010001", 24, "15:7", "23:16 coarse"),
    packet("SNAPSHOT",         "-1110001", 64, "9:7", "63:10 snap"),
    packet("TS_DELTA_OR_MARK", "-0000001", 48, "47:12", "8 pl,9 rt,47:12 delta", "mark"),
    packet("LAYOUT_HEADER",    "-0010001", 64, "",
           "12:7 layout,14:13 simd,17:15 group,31:28 sel_a,36:33 sel_b,59 flag4", "header"),
    packet("IMMEDIATE_MASK",   "---00100", 24, "7:5", "23:8 mask"),
    packet("WAVERDY",          "---10100", 24, "7:5", "23:8 mask"),
    packet("WAVEEND",          "---10101", 20, "7:5", "8 sa,10:9 simd,13:11 wgp,19:15 wave"),
    packet("WAVESTART",        "---01100", 32, "6:5",
           "7 sa,9:8 simd,12:10 wgp,17:13 wave,31:18 id7"),
    packet("TS_DELTA_S5_W2",   "---11100", 48, "6:5"),
    packet("WAVEALLOC",        "---00101", 20, "7:5", "19:8 payload"),
    packet("TS_DELTA_S5_W3",   "---00110", 52, "7:5"),
    packet("PERF",             "---10110", 28, "7:5", "27:8 arg"),
    packet("VMEMEXEC",         "----1111", 8, "5:4", "7:6 src"),
    packet("ALUEXEC",          "----1110", 8, "5:4", "7:6 src"),
    packet("IMMEDIATE",        "----1101", 12, "6:4", "11:7 wave"),
    packet("TS_DELTA_SHORT",   "----1000", 8, "7:4", bias=4),
    packet("REG",              "----1001", 64, "6:4",
           "9:7 slot,15:8 hi_byte,31:16 subop,63:32 val32"),
    packet("NOP",              "----0000", 4),
    packet("VALUINST",         "-----011", 12, "5:3", "6 flag,11:7 wave"),
    packet("INST",             "-----010", 20, "6:4", "3 flag1,7 flag2,12:8 wave,19:13 op"),
)

OPS = {
    0x00: "SALU", 0x01: "SMEM_RD", 0x03: "JUMP", 0x04: "JUMP_NO", 0x05: "CALL", 0x09: "MESSAGE",
    0x0B: "VALUT_4", 0x0D: "VALUB_2", 0x0E: "VALUB_4", 0x0F: "VALUB_16", 0x12: "VINTERP",
    0x13: "BARRIER", 0x1C: "FLAT_RD_2",
    **{0x1D + i: f"FLAT_WR_{3 + i}" for i in range(4)},
    0x21: "SGMEM_RD_1", 0x22: "SGMEM_RD_2",
    **{0x24 + i: f"SGMEM_WR_{2 + i}" for i in range(5)},
    0x29: "LDS_RD",
    **{0x2A + i: f"LDS_WR_{1 + i}" for i in range(5)},
    **{0x50 + i: f"OTHER_LDS_{1 + i}" for i in range(5)},
    **{0x55 + i: f"OTHER_FLAT_{2 + i}" for i in range(5)},
    **{0x5A + i: f"OTHER_VMEM_{1 + i}" for i in range(13)},
    0x72: "SALU_WR_EXEC", 0x73: "VALU1_WR_EXEC",
}
# fmt: on

RDNA3 = Table(
    "rdna3",
    3,
    PACKETS,
    OPS,
    "WAVESTART",
    "WAVEEND",
    ("sa", "wgp", "simd", "wave"),
    units_per_array=8,
)
