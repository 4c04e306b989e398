"""Kernels: the table, and one kernel's opts, axes, source and assembly, tied to nodes and lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tinylab.errors import LabError, TinylabError
from tinylab.lab.graph import Json
from tinylab.lab.work import simplified, useful_work
from tinylab.opcodes import Ops, axis_letters
from tinylab.target import GPUS
from tinylab.trace.lineage import Lineage
from tinylab.trace.parts import opt_text
from tinylab.trace.record import KernelRecord, Record

if TYPE_CHECKING:
    from tinylab.codegen.opt import Opt
    from tinylab.codegen.opt.kernel import Scheduler
    from tinylab.uop.ops import UOp

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_LOC = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")
_DEBUG_LOCATION = re.compile(r",? !dbg !\d+")
# Directives and labels that say nothing about what runs.
_NOISE = re.compile(r"\s*(\.[a-z_0-9]+\b.*|#.*|;.*|\.L(func|tmp)\w*:.*)?$")
_AN_OPT = 'such as {"op": "UPCAST", "axis": 0, "arg": 4}'
_LOCAL_OPS = ("LOCAL", "GROUP", "GROUPTOP", "NOLOCALS")


class Kernels:
    """The kernels of a record, in words."""

    def __init__(self, record: Record, lineage: Lineage) -> None:
        self.record = record
        self.lineage = lineage

    def get(self, kernel: Any) -> KernelRecord:
        """A kernel by id.

        Raises: LabError if there is none.
        """
        if type(kernel) is not int or not 0 <= kernel < len(self.record.kernels):
            count = len(self.record.kernels)
            raise LabError(f"there is no kernel {kernel}: the record has {count}")
        return self.record.kernels[kernel]

    def row(self, kernel: KernelRecord) -> Json:
        """A kernel's line of the table; times are medians over its runs in the cell."""
        if kernel.row is not None:
            return dict(kernel.row)
        ops, mem = estimates(kernel)
        work = useful_work(kernel)
        elapsed_ns = elapsed(kernel)
        return {
            "id": kernel.id,
            "name": function_name(kernel),
            "display": plain(kernel.name),
            "reason": kernel.reason,
            "opts": [opt_text(opt) for opt in applied_opts(kernel)],
            "device": kernel.device,
            "elapsed_us": None if elapsed_ns is None else elapsed_ns / 1000,
            "runs": len(kernel.runs_ns),
            "gflops": rate(work.flops or None, elapsed_ns) if work else None,
            "gops": rate(work.other or None, elapsed_ns) if work else None,
            "gbs": rate(mem, elapsed_ns),
            "lines": self.lineage.kernel_lines(kernel.id),
            "ops": ops,
            "mem_bytes": mem,
            "cached": kernel.cached,
            "method": self.methods(kernel),
            "error": kernel.error,
        }

    def methods(self, kernel: KernelRecord) -> list[str]:
        """The tensor methods that the kernel computes."""
        found = self.lineage.kernel_methods(kernel.id)
        return found or [str(m) for m in kernel.data.get("metadata") or ()]

    def detail(self, number: int, history: list[Json]) -> Json:
        """All that is known of one kernel."""
        kernel = self.get(number)
        if kernel.page is not None:
            return {**kernel.page(), "history": history}
        source = source_lines(kernel, self.lines_of(kernel))
        return {
            "id": kernel.id,
            "name": function_name(kernel),
            "reason": kernel.reason,
            "opts": [opt_json(opt) for opt in applied_opts(kernel)],
            "allowed": {"ops": allowed_ops(kernel)},
            "targets": list(GPUS),
            "axes": axes_or_none(kernel, applied_opts(kernel)),
            "source": source,
            "assembly": assembly_lines(kernel, source),
            "language": language(kernel),
            "history": history,
            "buffers": [_buffer_json(b) for b in kernel.data.get("buffers") or ()],
            "metadata": self.methods(kernel),
        }

    def source_text(self, number: int) -> list[str]:
        """The source alone, which is at hand; `detail` compiles anew to tell whence each line."""
        kernel = self.get(number)
        if kernel.page is not None:
            return [str(line["text"]) for line in kernel.page()["source"]]
        text = part(kernel, Ops.SOURCE)
        return [] if text is None else _shown_lines(str(text.arg))

    def edges(self) -> list[tuple[int, int]]:
        """Which kernel reads what another one wrote: (writer, reader), in running order.

        A schedule tells of its own kernels; of those of different ones their runs do.
        """
        nodes = self.record.nodes
        writer: dict[tuple[int, int], int] = {}  # (schedule, buffer) -> kernel
        found: dict[tuple[int, int], None] = {}
        for kernel in self.record.kernels:
            found |= dict.fromkeys((w, kernel.id) for w in sorted(kernel.reads) if w < kernel.id)
            if kernel.call_id is None:
                continue
            buffers = [(kernel.batch, b) for b in nodes.src(kernel.call_id)[1:]]
            for slot, buffer in enumerate(buffers):
                if slot not in kernel.outs and buffer in writer:
                    found[(writer[buffer], kernel.id)] = None
            for slot, buffer in enumerate(buffers):
                if slot in kernel.outs:
                    writer[buffer] = kernel.id
        return list(found)

    def lines_of(self, kernel: KernelRecord) -> Callable[[UOp], tuple[int, list[int]]]:
        """From a line of the program to its (node, cell lines)."""
        # Equal kernels are lowered once: what the others come from is known of the whole kernel.
        equal = {k.id for k in self.record.kernels if k.ast_id == kernel.ast_id}
        passes = [p.id for p in self.record.passes if p.kernel in equal and p.parent is None]
        is_lowered = any(p.kernel == kernel.id for p in self.record.passes)
        own = self.lineage.of_kernel(kernel.id)

        def find(uop: UOp) -> tuple[int, list[int]]:
            node = self.record.nodes.add(uop)
            for pass_id in reversed(passes):
                known = self.lineage.of_pass(pass_id)
                if node in known:
                    bits = known[node] if is_lowered else own
                    return node, self.lineage.lines(bits)
            return node, []

        return find


# *** facts of one kernel


def plain(text: str) -> str:
    """A text without its colours."""
    return _ANSI.sub("", text)


def function_name(kernel: KernelRecord) -> str:
    """The name that the kernel's code bears."""
    info = kernel.program.arg if kernel.program is not None else None
    return str(getattr(info, "function_name", "") or plain(kernel.name))


def part(kernel: KernelRecord, op: Ops) -> UOp | None:
    """The SINK, LINEAR, SOURCE or BINARY of a kernel's program."""
    parts = kernel.program.src if kernel.program is not None else ()
    return next((p for p in parts if p.op is op), None)


def applied_opts(kernel: KernelRecord) -> list[Opt]:
    """The opts that the kernel was lowered with, in order."""
    sink = part(kernel, Ops.SINK)
    return list(getattr(sink.arg, "applied_opts", ())) if sink is not None else []


def estimates(kernel: KernelRecord) -> tuple[int | None, int | None]:
    """(arithmetic operations, bytes of distinct memory) of one run; None where unknown."""
    found = getattr(kernel.program.arg, "estimates", None) if kernel.program is not None else None
    if found is None:
        return None, None
    return _as_int(found.ops), _as_int(found.mem)


def _as_int(size: Any) -> int | None:
    try:
        return int(size)
    except (TypeError, ValueError):
        return None


def rate(amount: int | None, elapsed_ns: float | None) -> float | None:
    """Amount per nanosecond: operations to 10^9 a second, bytes to GB/s."""
    return amount / elapsed_ns if amount is not None and elapsed_ns else None


def elapsed(kernel: KernelRecord) -> float | None:
    """The middle of the kernel's times in ns; None where nothing was really run."""
    return kernel.median_ns


def language(kernel: KernelRecord) -> str:
    """What the source is written in."""
    target = getattr(kernel.program.arg, "target", None) if kernel.program is not None else None
    return str(getattr(target, "renderer", "") or "").lower() or "text"


# *** opts


def opt_json(opt: Opt) -> Json:
    """An opt as plain data."""
    arg = list(opt.arg) if isinstance(opt.arg, tuple) else opt.arg
    return {"op": opt.op.name, "axis": opt.axis, "arg": arg}


def opts_from_json(rows: Sequence[Json]) -> list[Opt]:
    """Opts from plain data.

    Raises: LabError for a name that no opt has, or for what is no opt.
    """
    from tinylab.codegen.opt import Opt, OptOps

    if not isinstance(rows, (list, tuple)):
        raise LabError(f"opts are a list, not {rows!r}", help=_AN_OPT)
    found = []
    for row in rows:
        if not isinstance(row, Mapping):
            raise LabError(f"{row!r} is no opt", help=_AN_OPT)
        name = str(row.get("op", "")).upper()
        if name not in OptOps.__members__:
            known = ", ".join(OptOps.__members__)
            raise LabError(f"no opt is called {name or 'nothing'}", help=f"there are {known}")
        axis, arg = row.get("axis"), row.get("arg")
        amount = [_whole(f"amount of {name}", a) for a in arg] if isinstance(arg, list) else None
        found.append(
            Opt(
                OptOps[name],
                _whole(f"axis of {name}", axis),
                tuple(a for a in amount if a is not None)
                if amount is not None
                else _whole(f"amount of {name}", arg),
            )
        )
    return found


def _whole(what: str, value: Any) -> int | None:
    """A whole number that was typed; an empty field is None.

    Raises: LabError for anything else.
    """
    if value is None or value == "":
        return None
    if type(value) is int:
        return value
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]+\s*", value):
        return int(value)
    raise LabError(f"the {what} is {value!r}, not a whole number")


def allowed_ops(kernel: KernelRecord) -> list[str]:
    """The opts that make sense on the kernel's target."""
    from tinylab.codegen.opt import OptOps

    renderer = _renderer_or_none(kernel)
    if kernel.ast is None or renderer is None:
        return []
    refused = set() if renderer.has_local else set(_LOCAL_OPS)
    refused |= set() if renderer.has_threads else {"THREAD"}
    refused |= set() if renderer.tensor_cores else {"TC"}
    return [name for name in OptOps.__members__ if name not in refused]


def scheduler(kernel: KernelRecord) -> Scheduler:
    """The kernel before any opt, ready to be tuned.

    Raises: LabError for a kernel that was not lowered in this process, DeviceError for one of a
    device that does not open.
    """
    from tinylab.codegen import grid_axes
    from tinylab.codegen.opt.kernel import Scheduler
    from tinylab.device import Device

    if kernel.ast is None:
        raise LabError(
            f"kernel {function_name(kernel)} was not lowered here: its graph is only a picture",
            help="run the cell again to change its opts",
        )
    ren = Device[kernel.device or None].renderer
    # Opts count the axes that are there when they are applied: ranges may have been merged.
    return Scheduler(grid_axes(simplified(kernel.ast), ren), ren)


def axes(kernel: KernelRecord, opts: Sequence[Opt]) -> tuple[list[Json], Json | None]:
    """The axes after these opts, and the first opt that is refused, if one is."""
    tuned = scheduler(kernel)
    problem = None
    for index, opt in enumerate(opts):
        try:
            tuned.apply_opt(opt)
        except TinylabError as error:
            problem = {"index": index, "message": sentence(error, opt)}
            break
    return axes_of(tuned), problem


def axes_or_none(kernel: KernelRecord, opts: Sequence[Opt]) -> list[Json]:
    """The axes, or none for a kernel that cannot be tuned here."""
    return axes(kernel, opts)[0] if _renderer_or_none(kernel) and kernel.ast is not None else []


def axes_of(tuned: Scheduler) -> list[Json]:
    """The axes of a kernel under tuning, in the order in which opts count them."""
    return [
        {"name": name, "letter": axis_letters[kind], "size": _size(size), "kind": kind.name}
        for name, kind, size in zip(
            tuned.shape_str(), tuned.axis_types, tuned.full_shape, strict=True
        )
    ]


def _size(size: Any) -> str:
    return str(size) if isinstance(size, int) else str(size.render())


def sentence(error: BaseException, opt: Opt | None = None) -> str:
    """What went wrong, with the opt that is to blame and the help, in one paragraph."""
    message = getattr(error, "message", "") or str(error) or type(error).__name__
    hint = getattr(error, "help", None)
    return "".join(
        [f"{opt_text(opt)}: " if opt is not None else "", message, f"; {hint}" if hint else ""]
    )


def _renderer_or_none(kernel: KernelRecord) -> Any:
    """The renderer of the kernel's device; None where that device does not open.

    What was recorded of the kernel must be shown all the same, so no reason is good enough to fail.
    """
    from tinylab.device import Device

    try:
        return Device[kernel.device or None].renderer
    except Exception:
        return None


# *** text


def source_lines(
    kernel: KernelRecord, find: Callable[[UOp], tuple[int, list[int]]] | None = None
) -> list[Json]:
    """The source, each line with the node it renders and the cell lines it comes from.

    `uop` is the line's place in the LINEAR, which debug locations in the assembly refer to.
    """
    text, linear = part(kernel, Ops.SOURCE), part(kernel, Ops.LINEAR)
    if text is None:
        return []
    tied = _tied_lines(kernel, linear) if linear is not None else None
    if tied is None or linear is None:
        tied = [(line, None) for line in str(text.arg).splitlines()]
    rows = []
    for line, index in tied:
        if _is_metadata(line):
            continue
        node: int | None = None
        lines: list[int] = []
        if find is not None and linear is not None and index is not None:
            node, lines = find(linear.src[index])
        text_alone = _without_location(line)
        rows.append({"text": text_alone, "node": node, "lines": lines, "uop": index})
    return rows


def _is_metadata(line: str) -> bool:
    """What debug locations refer to; the rows say it better."""
    return line.startswith("!")


def _without_location(line: str) -> str:
    return _DEBUG_LOCATION.sub("", line)


def _shown_lines(source: str) -> list[str]:
    return [_without_location(line) for line in source.splitlines() if not _is_metadata(line)]


def _tied_lines(kernel: KernelRecord, linear: UOp) -> list[tuple[str, int | None]] | None:
    """(text, index into the LINEAR) for each line, if the renderer can say."""
    render_lines = getattr(_renderer_or_none(kernel), "render_lines", None)
    if render_lines is None:
        return None
    found: list[tuple[str, int | None]] = []
    for text, index in render_lines(linear.src):
        found.extend((line, index) for line in str(text).split("\n"))
    return found


def assembly_lines(kernel: KernelRecord, source: list[Json]) -> list[Json]:
    """The assembly without directives, each line with the source line it was made from."""
    from tinylab.device import Device

    text = part(kernel, Ops.SOURCE)
    if text is None:
        return []
    try:
        assembly = Device[kernel.device or None].compiler.assembly(str(text.arg))
    except Exception:  # whatever the device or its compiler lacks, the rest can be shown
        return []
    return tie_assembly(assembly, source)


def tie_assembly(assembly: str, source: list[Json]) -> list[Json]:
    """Assembly lines with the index of their source line, found by debug locations.

    A location's line is the place in the LINEAR plus one; 0 is what the compiler added.
    """
    line_of: dict[int, int] = {}
    for number, row in enumerate(source):
        if row["uop"] is not None:
            line_of.setdefault(row["uop"], number)
    rows: list[Json] = []
    now: int | None = None
    for text in assembly.splitlines():
        loc = _LOC.match(text)
        if loc:
            now = line_of.get(int(loc.group(1)) - 1)
        elif not _NOISE.fullmatch(text):
            is_label = text.rstrip().endswith(":")
            rows.append({"text": text.expandtabs(8), "source_line": None if is_label else now})
    return rows


def _buffer_json(buffer: Any) -> Json:
    slot, size, dtype = buffer[:3]
    return {"slot": slot, "size": size, "dtype": str(getattr(dtype, "name", dtype))}
