"""LLVM IR for a CPU: opaque pointers, vectors where values have lanes, a uop for every line.

    define internal void @NAME_body(ptr noalias %data0, …, i64 %variable…, i64 %core_id)
    define void @NAME(ptr %bufs, ptr %vals, i64 %core_id)     what a program is called by

The second takes the buffer of slot s from place s of an array of pointers, whether or not the slots
before it are used, and its variables, sorted by name, from an array of 64-bit integers, so that
every kernel is called the same way. Each instruction has a debug location whose line is the uop's
index in the linear list + 1, in a file named like the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tinylab.dtype import AddrSpace, DType, dtypes
from tinylab.errors import RenderError
from tinylab.opcodes import GroupOp, Ops
from tinylab.renderer.base import (
    Line,
    Renderer,
    buffer_of,
    buffers,
    function_name,
    int_shape,
    loop_name,
    variable_name,
    variables,
)
from tinylab.renderer.llvm_alu import NATIVE, alu
from tinylab.renderer.llvm_convert import bitcast, cast
from tinylab.renderer.llvm_memory import (
    Access,
    Memory,
    address,
    cell_width,
    load,
    load_cells,
    place_of,
    store,
    store_cells,
)
from tinylab.renderer.llvm_module import Head, module
from tinylab.renderer.llvm_moves import move
from tinylab.renderer.llvm_types import (
    SUPPORTED,
    constant,
    cpu_features,
    memory_type,
    scalar_type,
    vector,
)
from tinylab.renderer.llvm_writer import Row, Value, Writer, named, scalar
from tinylab.target import Target
from tinylab.uop.infer import promote
from tinylab.uop.ops import UOp

_SILENT = frozenset({Ops.NOOP, Ops.SINK, Ops.GROUP, Ops.CONST, Ops.AFTER, Ops.BARRIER})


class LLVMRenderer(Renderer):
    """LLVM IR for the CPU that the target's arch names, this machine's by default."""

    device = "CPU"

    def __init__(self, target: Target | str | None = None) -> None:
        super().__init__(target)
        self.features = cpu_features(self.target.arch)
        self.code_for_op = NATIVE | {Ops.MULACC} if self.features.fused else NATIVE

    def vector_width(self, dtype: DType) -> int:
        """Lanes of a native register: 16 floats with AVX-512."""
        return self.features.vector_bytes // max(1, dtype.itemsize)

    def supported_dtypes(self) -> Collection[DType]:
        """All but fp8."""
        return SUPPORTED

    def render_lines(self, uops: Sequence[UOp]) -> list[Line]:
        """The module, a line at a time."""
        features = self.features
        w = Writer(features.fused, features.half_convert, features.round)
        _Body(w, uops).write()
        wide = features.vector_bytes == 64
        return module(w, Head(function_name(uops), buffers(uops), variables(uops), wide), len(uops))


class _Body:
    """The statements of one kernel, from its linear list."""

    def __init__(self, w: Writer, uops: Sequence[UOp]) -> None:
        self.w, self.uops = w, uops
        self.values: dict[UOp, Value] = {}
        self.memories: dict[UOp, Memory] = {}
        self.pointers: dict[UOp, str] = {}
        self.loops: list[tuple[UOp, str, str]] = []  # RANGE, its block, the block before it
        self.branches: list[str] = []  # the block behind each open IF
        self.accesses: dict[UOp, list[UOp]] = {}
        self.targets: set[UOp] = set()  # addresses that are loaded from or stored to
        self.loose: set[UOp] = set()
        self.products: set[UOp] = set()
        self.in_sums: set[UOp] = set()
        self._look_ahead()

    def _look_ahead(self) -> None:
        """What the text of a uop depends on but only later uops tell."""
        partial = _parts_of_sums(self.uops)
        for u in self.uops:
            if u.op in (Ops.LOAD, Ops.STORE):
                buffer = buffer_of(u.src[0])
                if buffer is None:
                    raise RenderError(f"{u.op} of something that is no buffer: {u.src[0].op}")
                self.accesses.setdefault(buffer, []).append(u.src[0])
                self.targets.add(_inner(u.src[0]))
                if len(u.src) > 2:
                    self.loose |= {u.src[0], _inner(u.src[0])}
            if u.op is Ops.ADD and u in partial:
                factors = {s for s in u.src if s.op is Ops.MUL and s in partial}
                self.products |= factors
                if factors:
                    self.in_sums.add(u)

    def write(self) -> None:
        """Every uop in order."""
        for u in self.uops:
            # Parameters and variables keep their names.
            if u.op is Ops.PARAM and u.arg.addrspace is AddrSpace.ALU:
                self.w.reserve(variable_name(u))
        for i, u in enumerate(self.uops):
            if u.op in _SILENT:
                continue
            self.w.index = i
            write = _WRITERS.get(u.op)
            if write is None and u.op in GroupOp.ALU:
                write = _Body.alu
            if write is None:
                raise RenderError(
                    f"LLVM code has no {u.op.name}", help="lower it to operations of the target"
                )
            write(self, u)
        self.w.index = None
        if self.loops or self.branches:
            raise RenderError(
                f"{len(self.loops)} loops and {len(self.branches)} branches stay open"
            )

    # *** values

    def value(self, u: UOp, dtype: DType | None = None) -> Value:
        """What an earlier uop computed, in a type."""
        while u.op is Ops.AFTER or (u.op is Ops.NOOP and u.src):
            u = u.src[0]
        if u.op is Ops.CONST:
            wanted = dtype or u.dtype
            return scalar(wanted, constant(u.arg, wanted))
        if u not in self.values and buffer_of(u) is not None:
            raise RenderError(f"{u.op} is memory, not a value", help="load it first")
        if u not in self.values:
            raise RenderError(f"{u.op} is used before its line, or has none")
        found = self.values[u]
        return found if dtype is None or found.dtype is dtype else cast(self.w, found, dtype)

    def alu(self, u: UOp) -> None:
        """Arithmetic: operands in one type, one instruction or more per row."""
        wanted = promote(u.src) if u.op in GroupOp.Comparison else u.dtype
        gate = u.src[:1] if u.op is Ops.WHERE else ()
        sources = [self.value(s, dtypes.bool) for s in gate]
        sources += [self.value(s, wanted) for s in u.src[len(gate) :]]
        self.values[u] = alu(self.w, u, sources, self._flags(u))

    def _flags(self, u: UOp) -> str:
        """What LLVM may assume: no wrap where bounds show it, one rounding for a*b + c."""
        if u.dtype.kind == "float":
            return self._float_flags(u)
        if not dtypes.is_int(u.dtype) or u.op not in (Ops.ADD, Ops.SUB, Ops.MUL):
            return ""
        (a, b), (c, d) = u.src[0].bounds, u.src[1].bounds
        if u.op is Ops.ADD:
            lo, hi = a + c, b + d
        elif u.op is Ops.SUB:
            lo, hi = a - d, b - c
        else:
            corners = (a * c, a * d, b * c, b * d)
            lo, hi = min(corners), max(corners)
        if lo < u.dtype.min or hi > u.dtype.max:
            return ""
        if u.dtype.kind == "uint":
            return "nuw"
        return "nuw nsw" if a >= 0 and c >= 0 and u.op is not Ops.SUB else "nsw"

    def _float_flags(self, u: UOp) -> str:
        if u.op not in (Ops.ADD, Ops.SUB, Ops.MUL):
            return ""
        flags = []
        if u.op is Ops.ADD and any(_is_accumulator(s) for s in u.src):
            flags.append("reassoc")
        if u in self.in_sums or u in self.products:
            flags.append("contract")
        return " ".join(flags)

    def cast(self, u: UOp) -> None:
        self.values[u] = cast(self.w, self.value(u.src[0]), u.dtype)

    def bitcast(self, u: UOp) -> None:
        self.values[u] = bitcast(self.w, self.value(u.src[0]), u.dtype, int_shape(u))

    def stack(self, u: UOp) -> None:
        """A new leading axis; of scalars: one row whose lanes are known."""
        if not u.src or any(buffer_of(s) is not None and s.op is not Ops.LOAD for s in u.src):
            return  # offsets, sizes and addresses are read where they are used
        inner = int_shape(u.src[0])
        items = [self.value(s, u.dtype) for s in u.src]
        if inner:
            rows = tuple(r for item in items for r in item.rows)
        else:
            rows = (Row(None, tuple(self.w.lane(i.rows[0], u.dtype, 1, 0) for i in items)),)
        self.values[u] = Value(u.dtype, (len(items), *inner), rows)

    def movement(self, u: UOp) -> None:
        """INDEX, SHRINK, RESHAPE, … of a value move its lanes; of memory they are an address."""
        buffer = buffer_of(u)
        if buffer is None:
            self.values[u] = move(self.w, u, self.value(u.src[0]))
            return
        memory = self.memories[buffer]
        if u.op is Ops.RESHAPE or memory.cells or u not in self.targets:
            return
        place = place_of(memory, u, self.value)
        self.pointers[u] = address(self.w, place, u in self.loose)

    def custom(self, u: UOp) -> None:
        """Text of the user's, with the operands filled in; what it gives is its result."""
        shape = int_shape(u)
        sources = [self.value(s) for s in u.src]
        width = shape[-1] if shape else 1
        columns = [self.w.broadcast(v, shape) for v in sources]
        names = self.w.row_names("custom", shape)
        for i, name in enumerate(names):
            operands = [
                self.w.whole(c[i], v.dtype, width) for c, v in zip(columns, sources, strict=True)
            ]
            text = str(u.arg).format(*operands)
            if u.dtype is dtypes.void:
                self.w.line(text)
            else:
                self.w.let(text, name)
        if u.dtype is not dtypes.void:
            self.values[u] = named([f"%{n}" for n in names], u.dtype, shape)

    # *** memory

    def param(self, u: UOp) -> None:
        """A buffer is one of the function's pointers, a variable one of its integers."""
        if u.arg.addrspace is AddrSpace.ALU:
            own = variable_name(u)
            name = f"%{own}"
            kind = scalar_type(u.dtype)
            if kind != "i64":
                name = self.w.let(f"trunc i64 {name} to {kind}", self.w.reserve(f"{own}.{kind}"))
            self.values[u] = scalar(u.dtype, name)
            return
        volatile = " volatile" if u.arg.volatile else ""
        shape = int_shape(u)
        self.memories[u] = Memory(u.dtype, shape, f"%data{u.arg.slot}", volatile=volatile)

    def buffer(self, u: UOp) -> None:
        """Registers: cells where every access is at a known place, else memory of the function."""
        shape, prefix = int_shape(u), "acc" if u.arg.addrspace is AddrSpace.REG else "local"
        width = cell_width(u, self.accesses.get(u, ())) if prefix == "acc" else None
        base = self.w.number(prefix)
        count = 1
        for size in shape:
            count *= size
        if width is None:
            typed = f"[{count} x {memory_type(u.dtype)}]"
            self.w.entry_line(f"%{base} = alloca {typed}, align 64")
            self.memories[u] = Memory(u.dtype, shape, f"%{base}")
            return
        typed = vector(scalar_type(u.dtype), width)
        cells = [base] if count == width else [f"{base}.{i}" for i in range(count // width)]
        for cell in cells:
            self.w.entry_line(f"%{cell} = alloca {typed}")
        names = tuple(f"%{c}" for c in cells)
        self.memories[u] = Memory(u.dtype, shape, f"%{base}", names, width)

    def _access(self, u: UOp, target: UOp) -> Access:
        buffer = buffer_of(target)
        assert buffer is not None, "looked at ahead"
        place = place_of(self.memories[buffer], target, self.value)
        place.pointer = self.pointers.get(_inner(target))
        gate = self.value(u.src[2], dtypes.bool) if len(u.src) > 2 else None
        return Access(place, int_shape(target), gate, target in self.loose)

    def load(self, u: UOp) -> None:
        target = u.src[0]
        buffer = buffer_of(target)
        assert buffer is not None, "looked at ahead"
        memory = self.memories[buffer]
        if memory.cells:
            found = load_cells(self.w, memory, u, int_shape(target))
            if len(u.src) > 2:
                raise RenderError("a load from registers has a gate")
        else:
            other = self.value(u.src[1], u.dtype) if len(u.src) > 1 else None
            found = load(self.w, u, self._access(u, target), other)
        self.values[u] = found

    def store(self, u: UOp) -> None:
        target = u.src[0]
        buffer = buffer_of(target)
        assert buffer is not None, "looked at ahead"
        memory, value = self.memories[buffer], self.value(u.src[1], buffer.dtype)
        if memory.cells:
            if len(u.src) > 2:
                raise RenderError("a store to registers has a gate")
            store_cells(self.w, memory, target, value, int_shape(target))
        else:
            store(self.w, self._access(u, target), value)

    # *** control

    def range(self, u: UOp) -> None:
        """The head of a loop; its test stands at the end, and before it where it may not run."""
        w = self.w
        name = w.reserve(loop_name(u))
        body, before = f"loop_{name}", w.block
        counted = u.src[0].op is not Ops.NOOP
        if counted and u.src[0].bounds[0] < 1:
            end = self._end_text(u)
            kind = scalar_type(u.dtype)
            some = w.let(f"icmp slt {kind} 0, {end}")
            w.line(f"br i1 {some}, label %{body}, label %end_{name}")
        else:
            w.line(f"br label %{body}")
        w.label(body)
        w.push()
        self.loops.append((u, name, before))
        if counted:
            kind = scalar_type(u.dtype)
            # The value of the next turn is written at END, under this name.
            w.let(f"phi {kind} [ 0, %{before} ], [ %{name}_next, %next_{name} ]", name)
            self.values[u] = scalar(u.dtype, f"%{name}")

    def _end_text(self, u: UOp) -> str:
        end = self.value(u.src[0], u.dtype)
        return self.w.lane(end.rows[0], u.dtype, 1, 0)

    def end(self, u: UOp) -> None:
        """Close the loops that the END names, innermost first."""
        ranges = [s for s in u.src[1:] if s.op is Ops.RANGE]
        for _ in ranges:
            if not self.loops or self.loops[-1][0] not in ranges:
                raise RenderError(
                    f"an END closes {[r.arg for r in ranges]}, not the innermost loop"
                )
            self._close(u)

    def _close(self, end: UOp) -> None:
        w = self.w
        loop, name, _ = self.loops.pop()
        go_on = None
        if loop.src[0].op is Ops.NOOP:
            test = self.value(next(s for s in end.src[1:] if s.op is not Ops.RANGE), dtypes.bool)
            go_on = w.lane(test.rows[0], dtypes.bool, 1, 0)
        w.line(f"br label %next_{name}")
        w.label(f"next_{name}")
        if go_on is None:
            kind = scalar_type(loop.dtype)
            following = w.let(f"add nuw nsw {kind} %{name}, 1", f"{name}_next")
            go_on = w.let(f"icmp slt {kind} {following}, {self._end_text(loop)}")
        w.line(f"br i1 {go_on}, label %loop_{name}, label %end_{name}")
        w.pop()
        w.label(f"end_{name}")

    def if_(self, u: UOp) -> None:
        """A guarded region."""
        w = self.w
        gate = self.value(u.src[0], dtypes.bool)
        inside, behind = w.number("if"), w.number("endif")
        test = w.lane(gate.rows[0], dtypes.bool, 1, 0)
        w.line(f"br i1 {test}, label %{inside}, label %{behind}")
        w.label(inside)
        w.push()
        self.branches.append(behind)

    def endif(self, u: UOp) -> None:
        if not self.branches:
            raise RenderError("an ENDIF has no IF")
        behind = self.branches.pop()
        self.w.line(f"br label %{behind}")
        self.w.pop()
        self.w.label(behind)


def _inner(target: UOp) -> UOp:
    """The address under AFTERs."""
    while target.op is Ops.AFTER:
        target = target.src[0]
    return target


def _parts_of_sums(uops: Sequence[UOp]) -> set[UOp]:
    """What goes into the running value of a reduction and nowhere else.

    How such sums are rounded is open: no other kernel has to get the same bits.
    """
    users: dict[UOp, list[UOp]] = {}
    for u in uops:
        for s in u.src:
            users.setdefault(s, []).append(u)
    found: set[UOp] = set()
    for u in reversed(uops):
        if u.dtype.kind != "float":
            continue
        if u.op is Ops.ADD and any(_is_accumulator(s) for s in u.src):
            found.add(u)
        elif u.op in (Ops.ADD, Ops.MUL) or u.op in _MOVE_LANES:
            above = users.get(u, [])
            if above and all(x in found and x.op is not Ops.MUL for x in above):
                found.add(u)
    return found


_MOVE_LANES = GroupOp.Movement | {Ops.INDEX, Ops.STACK}


def _is_accumulator(u: UOp) -> bool:
    """Whether a value is what a register held: the running value of a reduction."""
    if u.op is not Ops.LOAD:
        return False
    buffer = buffer_of(u.src[0])
    return buffer is not None and buffer.arg.addrspace is AddrSpace.REG


_WRITERS: dict[Ops, Callable[[_Body, UOp], None]] = {
    Ops.PARAM: _Body.param,
    Ops.BUFFER: _Body.buffer,
    Ops.LOAD: _Body.load,
    Ops.STORE: _Body.store,
    Ops.CAST: _Body.cast,
    Ops.BITCAST: _Body.bitcast,
    Ops.STACK: _Body.stack,
    Ops.CUSTOM: _Body.custom,
    Ops.CUSTOMI: _Body.custom,
    Ops.RANGE: _Body.range,
    Ops.END: _Body.end,
    Ops.IF: _Body.if_,
    Ops.ENDIF: _Body.endif,
    **dict.fromkeys((Ops.INDEX, *GroupOp.Movement), _Body.movement),
}
