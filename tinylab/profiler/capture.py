"""A capture: a folder with capture.json, counter and trace blobs, code objects.

Nothing in it is trusted: names of files stay in the folder, lengths are held against the files,
and blobs are mapped, not read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from tinylab.errors import CaptureError
from tinylab.helpers.arguments import explained
from tinylab.profiler.checked import Checked, read_json
from tinylab.profiler.code.disassemble import Disassembly, disassemble
from tinylab.profiler.code.elf import CodeObject, read_code_object
from tinylab.profiler.code.sizes import decode_instructions, generation_of
from tinylab.profiler.counters.pmc import Readout, ScheduleEntry, read_schedule
from tinylab.profiler.regular import map_file, open_file
from tinylab.profiler.sqtt.trace import NO_PROGRAM, Trace
from tinylab.profiler.sqtt.walk import Program

_CODE_LIMIT = 256 << 20
T = TypeVar("T")


@dataclass(frozen=True)
class ProgramInfo:
    """A code object that was loaded."""

    number: int
    name: str
    load_base: int
    file: str


@dataclass(frozen=True)
class RangeInfo:
    """Something that ran on a queue: a kernel or a copy, in device nanoseconds."""

    kind: str
    name: str
    queue: str
    start_ns: int
    end_ns: int
    exec_tag: int | None
    program: int | None

    @property
    def duration_ns(self) -> int:
        """How long it took."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class StreamInfo:
    """A trace stream of one shader engine in one dispatch."""

    exec_tag: int
    program: int
    engine: int
    xcc: int
    itrace: bool
    file: str
    family: str | None = None  # packet table to use, instead of what the header says


@dataclass(frozen=True)
class CountersInfo:
    """Counters read after one dispatch."""

    exec_tag: int
    program: int
    file: str
    used_bytes: int
    schedule: tuple[ScheduleEntry, ...]


@dataclass(eq=False, repr=False)
class Capture:
    """All events of a capture; blobs are opened on demand."""

    folder: Path
    name: str
    target: str
    programs: tuple[ProgramInfo, ...] = ()
    ranges: tuple[RangeInfo, ...] = ()
    streams: tuple[StreamInfo, ...] = ()
    counters: tuple[CountersInfo, ...] = ()
    offsets_ns: dict[str, float] = field(default_factory=dict)  # queue -> host minus device time

    @property
    def title(self) -> str:
        """What it holds: "gemm on gfx1100: 6 thread traces, 1 counter read-out"."""
        counts = (
            (len(self.streams), "thread trace"),
            (len(self.counters), "counter read-out"),
        )
        words = [f"{n} {word}{'' if n == 1 else 's'}" for n, word in counts if n]
        target = f" on {self.target}" if self.target else ""
        return f"{self.name}{target}: {', '.join(words) or 'nothing was captured'}"

    def __repr__(self) -> str:
        return f"<capture {self.title}>"

    @cached_property
    def _programs(self) -> dict[int, LoadedProgram]:
        return {}

    def blob(self, file: str) -> memoryview:
        """A file of the capture, mapped.

        Raises: CaptureError if it cannot be read.
        """
        return map_file(self.folder / file)

    def program(self, number: int) -> LoadedProgram:
        """A code object with its instructions.

        Raises: CaptureError if there is no such program or its file makes no sense.
        """
        if number not in self._programs:
            info = next((p for p in self.programs if p.number == number), None)
            if info is None:
                raise CaptureError(f"the capture has no program {number}")
            data = self.blob(info.file)
            if len(data) > _CODE_LIMIT:
                raise CaptureError(f"{info.file} has {len(data)} bytes: no code object")
            self._programs[number] = LoadedProgram(info, self.target, bytes(data))
        return self._programs[number]

    def trace(self, stream: StreamInfo, exact_time: bool = False) -> Trace:
        """A stream, not yet read; without program counters if its program cannot be read."""
        code, load_base, no_program = None, 0, ""
        try:
            program = self.program(stream.program)
            code, load_base = program.code, program.info.load_base
        except CaptureError as error:
            no_program = error.message  # what there is to see without addresses is shown
        return Trace(
            self.blob(stream.file),
            code,
            load_base,
            family=stream.family,
            exact_time=exact_time,
            itrace=stream.itrace,
            no_program=no_program or NO_PROGRAM,
        )

    def readout(self, counters: CountersInfo) -> Readout:
        """Counter values of one dispatch."""
        return Readout.from_blob(self.blob(counters.file), counters.schedule, counters.used_bytes)

    def kernel(self, exec_tag: int) -> RangeInfo | None:
        """The time range of a dispatch."""
        found = (r for r in self.ranges if r.kind == "kernel" and r.exec_tag == exec_tag)
        return next(found, None)

    def run_number(self, program: int, exec_tag: int) -> int:
        """Which run of its program a dispatch is, from 1."""
        tags = {s.exec_tag for s in self.streams if s.program == program}
        tags |= {c.exec_tag for c in self.counters if c.program == program}
        tags |= {r.exec_tag for r in self.ranges if r.program == program and r.exec_tag is not None}
        return sorted(tags | {exec_tag}).index(exec_tag) + 1


def names_apart(names: Sequence[str]) -> list[str]:
    """Names with a number behind each of those that are the same.

    gemm plus gemm  ->  "gemm (1)", "plus", "gemm (2)"
    """
    counts = dict.fromkeys(names, 0)
    found = []
    for name in names:
        counts[name] += 1
        found.append(f"{name} ({counts[name]})" if names.count(name) > 1 else name)
    return found


@dataclass(eq=False, repr=False)
class Captures:
    """Several captures, to be looked at together."""

    captures: tuple[Capture, ...]

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.captures)) or "<no captures>"


@dataclass
class LoadedProgram:
    """A code object with its instructions, and their text if this machine can tell it."""

    info: ProgramInfo
    target: str
    data: bytes

    @cached_property
    def object(self) -> CodeObject:
        """Its sections."""
        return read_code_object(self.data)

    @cached_property
    def code(self) -> Program:
        """Its instructions; none if the generation of the chip is not known.

        Raises: CaptureError with the file's name and why it makes no sense.
        """
        try:
            text = self.object.text
        except CaptureError as error:
            raise CaptureError(f"cannot read {self.info.file}: {error.message}") from None
        try:
            generation = generation_of(self.target)
        except CaptureError:
            return Program(())
        return Program(decode_instructions(text.data, text.address, generation))

    @cached_property
    def disassembly(self) -> Disassembly:
        """Text of its instructions, asked of a child process on first use."""
        return disassemble(self.code.instructions, self.target)

    def line(self, number: int) -> str:
        """An instruction as text, or its encoding and words where there is no text."""
        instruction = self.code.instructions[number]
        text = self.disassembly.text.get(instruction.pc)
        return text or f"{instruction.encoding.lower()} {instruction.hex}"


@explained
def read_captures(*paths: str | Path) -> Captures:
    """Several captures, to compare their counters and traces.

    Raises: CaptureError if one of them cannot be read.
    """
    return Captures(tuple(read_capture(path) for path in paths))


@explained
def read_capture(path: str | Path, family: str | None = None) -> Capture:
    """The capture in a folder, the one that a capture.json describes, or a bare .sqtt stream.

    Args:
        path: the folder or file.
        family: packet table of a bare stream, instead of what its header says.

    Raises: CaptureError that says which value makes no sense.
    """
    path = Path(path)
    if path.suffix == ".sqtt" and path.is_file():
        bare = StreamInfo(1, 0, 0, 0, True, path.name, family)
        return Capture(path.parent, path.stem, "", streams=(bare,))
    file = path / "capture.json" if path.is_dir() else path
    if not file.exists():
        near = sorted(p.parent.name for p in path.glob("*/capture.json")) if path.is_dir() else []
        help = f"there are captures in {', '.join(near[:8])}" if near else None
        raise CaptureError(f"there is no {file.name} in {file.parent}", help=help)
    _refuse_others(file)
    found = read_json(file)
    if "traceEvents" in found:
        raise CaptureError(f"{file.name} is a trace of Chrome's, not a capture", help=_PROFILE)
    clock = found.inner("clock")
    return Capture(
        folder=file.parent,
        name=found.text("capture", file.parent.name),
        target=found.text("target", ""),
        programs=_each(found, "programs", _program),
        ranges=_each(found, "ranges", _range),
        streams=_each(found, "sqtt", _stream),
        counters=_each(found, "pmc", _counters),
        offsets_ns={q.text("queue"): q.number("cpu_offset_ns") for q in clock.each("queues")},
    )


_PROFILE = "tinylab.profiler.load_profile and `tinylab view` open it as a timeline"
_CAPTURE = "a capture is a folder with a capture.json, or a .sqtt file"


def _refuse_others(file: Path) -> None:
    """Raises: CaptureError for a file that is a profile, a part of a capture, or neither."""
    with open_file(file) as opened:
        head = opened.read(4096).lstrip()
    if file.suffix == ".json":
        # Told by its beginning: a trace may be longer than any capture.json.
        is_trace = head[:1] == b"[" or b'"traceEvents"' in head
        if file.name != "capture.json" and is_trace:
            raise CaptureError(f"{file.name} is a trace of Chrome's, not a capture", help=_PROFILE)
        return
    if file.suffix in (".tlab", ".gz", ".pftrace"):
        raise CaptureError(f"{file.name} is a profile, not a capture", help=_PROFILE)
    if file.with_name("capture.json").exists():
        raise CaptureError(
            f"{file.name} is a part of a capture", help=f"open the capture, {file.parent}"
        )
    raise CaptureError(f"{file.name} is no capture", help=_CAPTURE)


def _each(found: Checked, key: str, read: Callable[[Checked], T]) -> tuple[T, ...]:
    return tuple(map(read, found.each(key)))


def _program(p: Checked) -> ProgramInfo:
    return ProgramInfo(
        p.whole("program"), p.text("name", ""), p.whole("load_base", default=0), p.file("file")
    )


def _range(r: Checked) -> RangeInfo:
    return RangeInfo(
        r.text("kind"),
        r.text("name", ""),
        r.text("queue", ""),
        r.whole("start_ns"),
        r.whole("end_ns"),
        r.whole("exec_tag") if "exec_tag" in r else None,
        r.whole("program") if "program" in r else None,
    )


def _stream(s: Checked) -> StreamInfo:
    return StreamInfo(
        s.whole("exec_tag", default=1),
        s.whole("program", default=0),
        s.whole("se", default=0),
        s.whole("xcc", default=0),
        s.flag("itrace"),
        s.file("file"),
    )


def _counters(c: Checked) -> CountersInfo:
    return CountersInfo(
        c.whole("exec_tag", default=1),
        c.whole("program", default=0),
        c.file("file"),
        c.whole("used_bytes", default=0),
        read_schedule(c),
    )
