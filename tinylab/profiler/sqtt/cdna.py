"""Packets and instruction classes of CDNA (gfx9xx with dies), tokens of whole 16-bit words.

By AMD's headers bit 4 of every token but MISC and TIMESTAMP is a time step of four cycles. The
usual tables leave it out, and so do the recorded reference figures; EXACT counts it.
"""

from __future__ import annotations

from dataclasses import replace

from tinylab.profiler.sqtt.packets import Advance, Bits, PacketType, Table, packet

# fmt: off
_PLACE = "5 sh,9:6 cu,13:10 wave,15:14 simd"
_EVENT = "5 sh,8:6 stage,15:10 event_type"
PACKETS = (
    packet("STREAM_HEADER", "-0010001", 64, "",
           "6:0 magic,15:13 version,19:16 simd_mask,31:24 stream", "header"),
    packet("MISC",          "----0000", 16, "11:4", "12 sh,15:13 misc_type", scale=4),
    packet("TIMESTAMP",     "----0001", 64, "", "15:4 reserved,63:16 timestamp", "timestamp"),
    packet("REG",           "----0010", 64, "",
           "6:5 pipe,8:7 me,9 dropped_prev,12:10 reg_type,14 priv,15 op,31:16 addr,63:32 data"),
    packet("WAVE_START",    "----0011", 32, "",
           f"{_PLACE},20:16 dispatcher,21 no_alloc_or_grouped,28:22 count,31:29 tg_id"),
    packet("WAVE_ALLOC",    "----0100", 16, "", _PLACE),
    packet("REG_CSPRIV",    "----0101", 48, "", "6:5 pipe,8:7 me,15:9 addr,47:16 data"),
    packet("WAVE_END",      "----0110", 16, "", _PLACE),
    packet("EVENT",         "----0111", 16, "", _EVENT),
    packet("EVENT_CS",      "----1000", 16, "", _EVENT),
    packet("EVENT_GFX1",    "----1001", 16, "", _EVENT),
    packet("INST",          "----1010", 16, "", "8:5 wave,10:9 simd,15:11 op"),
    packet("INST_PC",       "----1011", 64, "", "8:5 wave,10:9 simd,15 trap_error,63:16 pc"),
    packet("INST_USERDATA", "----1100", 48, "", f"{_PLACE},47:16 data"),
    packet("ISSUE",         "----1101", 32, "",
           "6:5 simd," + ",".join(f"{9 + 2 * i}:{8 + 2 * i} inst{i}" for i in range(10))),
    packet("PERF",          "----1110", 64, "",
           "5 sh,9:6 cu,11:10 bank,24:12 cntr0,37:25 cntr1,50:38 cntr2,63:51 cntr3"),
    packet("REG_CS",        "----1111", 48, "", "6:5 pipe,8:7 me,15:9 addr,47:16 data"),
)

OPS = dict(enumerate((
    "SMEM_RD", "SALU_32", "VMEM_RD", "VMEM_WR", "FLAT_WR", "VALU_32", "LDS", "PC", "EXPREQ_GDS",
    "EXPREQ_GFX", "EXPGNT_PAR_COL", "EXPGNT_POS_GDS", "JUMP", "NEXT", "FLAT_RD", "OTHER_MSG",
    "SMEM_WR", "SALU_64", "VALU_64", "SMEM_RD_REPLAY", "SMEM_WR_REPLAY", "VMEM_RD_REPLAY",
    "VMEM_WR_REPLAY", "FLAT_RD_REPLAY", "FLAT_WR_REPLAY", "FATAL_HALT",
))) | {0x1C: "VALU_MAI"}
# fmt: on

CDNA = Table(
    "cdna",
    "cdna",
    PACKETS,
    OPS,
    "WAVE_START",
    "WAVE_END",
    ("sh", "cu", "simd", "wave"),
    units_per_array=16,
)


def _stepping(p: PacketType) -> PacketType:
    if p.special or p.time:
        return p
    return replace(p, time=Advance(Bits(4, 4), scale=4))


EXACT = replace(CDNA, packets=tuple(map(_stepping, PACKETS)))
