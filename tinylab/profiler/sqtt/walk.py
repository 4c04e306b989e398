"""Which instruction an event belongs to: a program counter for each wave slot is walked along.

Packets carry a slot and a class, no address. A wave starts at the kernel's first instruction; each
of its events is the instruction at the counter, which then steps by that instruction's size or
goes where a taken branch goes. Where events and program disagree the walk ends: what was mapped
before stays, packets are shown without addresses from there on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinylab.profiler.code.sizes import BRANCH, CALL, END, INDIRECT, SILENT, Instruction
from tinylab.profiler.sqtt.events import (
    FINISH,
    FOREIGN,
    NOT_TAKEN,
    SET,
    SLOTS,
    START,
    STEP_PLAIN,
    TAKEN,
    Events,
)
from tinylab.profiler.sqtt.native import Array, function

# Why a walk ends; the compiled walk knows these numbers.
CLOSED, OUTSIDE, UNMET, NO_BRANCH, NO_END = range(1, 6)
REASONS = {
    CLOSED: "wave slot {slot} has an instruction and no open wave",
    OUTSIDE: "wave slot {slot} is at address {pc}, where the program has no instruction",
    UNMET: "wave slot {slot} passes the branch at {pc} with an event that is none",
    NO_BRANCH: "wave slot {slot} branches at {pc}, which is no branch",
    NO_END: "wave slot {slot} ends at {pc}, which is no end of the program",
}


class Program:
    """The instructions of a code object, ready to be walked."""

    def __init__(self, instructions: Sequence[Instruction], entry: int | None = None) -> None:
        self.instructions = tuple(instructions)
        self.base = instructions[0].pc if instructions else 0
        last = instructions[-1] if instructions else None
        self.length = (last.pc + last.size - self.base) // 4 if last else 0
        self.entry = self.base if entry is None else entry
        self.sizes = np.zeros(self.length, np.uint8)
        self.flags = np.zeros(self.length, np.uint8)
        self.targets = np.full(self.length, -1, np.int64)
        self.number = np.full(self.length, -1, np.int64)
        self.addresses = np.array([i.pc for i in instructions] or [-1], np.int64)
        self.ends = np.array([bool(i.flags & END) for i in instructions] or [False])
        for number, i in enumerate(instructions):
            at = (i.pc - self.base) // 4
            self.sizes[at], self.flags[at], self.targets[at] = i.size, i.flags, i.target
            self.number[at] = number

    def at(self, pc: int) -> int | None:
        """Which instruction begins at an address."""
        offset = pc - self.base
        if offset % 4 or not 0 <= offset < 4 * self.length:
            return None
        number = int(self.number[offset // 4])
        return number if number >= 0 else None

    def numbers(self, pcs: Array) -> Array:
        """Instruction numbers of many program counters; -1 where a counter is -1."""
        if not self.length:
            return np.full(len(pcs), -1, np.int64)
        inside = pcs >= 0
        return np.where(inside, self.number[np.where(inside, (pcs - self.base) // 4, 0)], -1)


@dataclass(frozen=True)
class WalkEnd:
    """Where and why a walk ended before its events did."""

    row: int
    reason: int
    slot: int
    pc: int

    def __str__(self) -> str:
        """As a sentence with the slot and the address."""
        return REASONS[self.reason].format(slot=self.slot, pc=self.pc)


def no_waves() -> Array:
    """Counters of slots that hold no wave."""
    return np.full(256, -1, np.int64)


def walk(events: Events, program: Program, pcs: Array) -> tuple[Array, WalkEnd | None]:
    """Program counters of events, -1 where there is none; ``pcs`` by slot moves along."""
    out = np.full(len(events), -1, np.int64)
    why = np.zeros(1, np.int64)
    columns = [np.ascontiguousarray(c) for c in (events.action, events.slot, events.arg)]
    done = function("walk", 12)(
        len(events),
        *(c.ctypes.data for c in columns),
        pcs.ctypes.data,
        program.base,
        program.length,
        program.sizes.ctypes.data,
        program.flags.ctypes.data,
        program.targets.ctypes.data,
        out.ctypes.data,
        why.ctypes.data,
    )
    if done == len(events):
        return out, None
    slot = int(events.slot[done])
    return out, WalkEnd(done, int(why[0]), slot, _stuck_at(program, events, done, int(pcs[slot])))


def walk_reference(
    events: Events, program: Program, pcs: Array
) -> tuple[list[int], WalkEnd | None]:
    """The same in plain Python: the judge of the compiled walk."""
    out = [-1] * len(events)
    for row in range(len(events)):
        slot, action = int(events.slot[row]), int(events.action[row])
        if action in (START, SET):
            pcs[slot] = events.arg[row]
        elif action != FOREIGN:
            pc = int(pcs[slot])
            number, pc = _seek(program, pc, action)
            reason = _disagreement(program, number, action, pc)
            if reason:
                return out, WalkEnd(row, reason, slot, pc)
            assert number is not None, "a disagreement would have been found"
            out[row] = pc
            pcs[slot] = _following(program.instructions[number], action)
    return out, None


def _seek(program: Program, pc: int, action: int) -> tuple[int | None, int]:
    """The instruction that an event belongs to: silent ones before it are passed over."""
    number = program.at(pc)
    while number is not None and action != STEP_PLAIN:
        instruction = program.instructions[number]
        if not instruction.flags & SILENT:
            break
        pc += instruction.size
        number = program.at(pc)
    return number, pc


def _disagreement(program: Program, number: int | None, action: int, pc: int) -> int:
    if pc < 0:
        return CLOSED
    if number is None:
        return OUTSIDE
    flags = program.instructions[number].flags
    if action == TAKEN:
        return 0 if flags & (BRANCH | CALL | INDIRECT) else NO_BRANCH
    if action == NOT_TAKEN:
        return 0 if flags & BRANCH else NO_BRANCH
    if action == FINISH:
        return 0 if flags & END else NO_END
    return UNMET if flags & BRANCH else 0


def _following(instruction: Instruction, action: int) -> int:
    if action == FINISH:
        return -1
    return instruction.target if action == TAKEN else instruction.pc + instruction.size


def _stuck_at(program: Program, events: Events, row: int, pc: int) -> int:
    return _seek(program, pc, int(events.action[row]))[1]


assert SLOTS <= 256, "a slot is a byte"
