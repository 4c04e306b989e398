"""A listing as a Python function: a statement per instruction, lanes as flat lists.

Generated from instructions that were checked, never from text: names get a prefix, numbers come
from `repr`. A workgroup is one generator per item; BARRIER is a yield.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from tinylab.dtype import DType, dtypes
from tinylab.errors import CompileError
from tinylab.opcodes import GroupOp, Ops
from tinylab.runtime import python_numbers as numbers
from tinylab.runtime.python_listing import Instruction, Listing, Name, Operand, Places

# Operations that need no function: {0}, {1} are operands, each a name or a number.
_INLINE = {
    "ADD": "{0} + {1}",
    "SUB": "{0} - {1}",
    "MUL": "{0} * {1}",
    "NEG": "-{0}",
    "XOR": "{0} ^ {1}",
    "OR": "{0} | {1}",
    "AND": "{0} & {1}",
    "CMPLT": "{0} < {1}",
    "CMPNE": "{0} != {1}",
    "CMPEQ": "{0} == {1}",
    "WHERE": "{1} if {0} else {2}",
}
_KEEPS_RANGE = frozenset({"XOR", "OR", "AND", "WHERE", "MAX", "CMPLT", "CMPNE", "CMPEQ"})
_ALU_NAMES = frozenset(op.name for op in GroupOp.ALU)


@dataclass
class Symbol:
    """What a name stands for: a value, or a place in a buffer."""

    dtype: DType
    shape: tuple[int, ...]
    code: str  # the Python name or number
    buffer: str = ""  # of a place; the offset of its start is `code`
    steps: tuple[int, ...] = ()
    lanes: bool = False  # whether `code` is a list of offsets


@dataclass
class Memory:
    """A buffer as the code sees it."""

    name: str
    dtype: DType
    size: int
    kind: str  # global, local, register


Kernel = Callable[..., Generator[None, None, None] | None]


class Code:
    """The function of one kernel: `run(buffers, variables, grid, item, shared)`."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {"out_of_bounds": numbers.out_of_bounds}
        self.memories: dict[str, Memory] = {}
        self.symbols: dict[str, Symbol] = {}
        self.constants: dict[Any, str] = {}
        self.depth = 1
        self.temporaries = itertools.count()
        self.stored: set[str] = set()  # parameters that the kernel stores to
        self.has_barrier = _has_barrier(listing.body)
        self._parameters()
        self._block(listing.body)
        source = "\n".join(["def run(buffers, variables, grid, item, shared):", *self.lines])
        exec(compile(source, f"<PYTHON {listing.name}>", "exec"), self.scope)
        self.source = source
        self.run: Kernel = self.scope["run"]

    @property
    def shared(self) -> list[Memory]:
        """Arrays that a workgroup shares."""
        return [m for m in self.memories.values() if m.kind == "local"]

    # *** pieces

    def _emit(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def _keep(self, value: Any, key: Any = None) -> str:
        """A name for an object that the code refers to."""
        key = key if key is not None else value
        if key not in self.constants:
            name = f"c{len(self.constants)}"
            self.constants[key], self.scope[name] = name, value
        return self.constants[key]

    def _temporary(self) -> str:
        return f"t{next(self.temporaries)}"

    def _symbol(self, operand: Operand) -> Symbol:
        if isinstance(operand, Name):
            return self.symbols[operand.text]
        if isinstance(operand, Places):
            raise CompileError("places stand in INDEX of a value only")
        kind = {bool: dtypes.bool, int: dtypes.int64, float: dtypes.float64}
        dtype = operand.dtype or kind[type(operand.value)]
        return Symbol(dtype, (), self._literal(operand.value))

    def _literal(self, value: Any) -> str:
        if isinstance(value, float) and not math.isfinite(value):
            return self._keep(value, repr(value))
        return f"({value!r})"

    def _value(self, operand: Operand) -> Symbol:
        found = self._symbol(operand)
        if found.buffer:
            raise CompileError(f"{operand} is a place in memory, not a value")
        return found

    def _one(self, s: Symbol) -> str:
        """Code for a value of one lane, whatever its shape."""
        return f"{s.code}[0]" if s.shape else s.code

    def _stretched(self, s: Symbol, shape: tuple[int, ...]) -> str:
        """Code for the flat list of a shaped value, broadcast."""
        if s.shape == shape:
            return s.code
        padded = (1,) * (len(shape) - len(s.shape)) + s.shape
        steps = [0 if n == 1 else step for n, step in zip(padded, _strides(padded), strict=True)]
        order = _places([range(n) for n in shape], steps)
        return f"[{s.code}[i] for i in {self._keep(order)}]"

    def _rounder(self, dtype: DType) -> str:
        return self._keep(numbers.ROUND[dtype], ("round", dtype.name))

    def _wrapped(self, text: str, dtype: DType) -> str:
        """Code that holds a result to its type."""
        if dtype is dtypes.float64:
            return text
        if dtypes.is_int(dtype):
            mask = (1 << dtype.bits) - 1
            if dtype.kind == "uint":
                return f"({text}) & {mask}"
            half = 1 << (dtype.bits - 1)
            return f"(({text} + {half}) & {mask}) - {half}"
        return f"{self._rounder(dtype)}({text})"

    # *** instructions

    def _parameters(self) -> None:
        buffers = [p for p in self.listing.parameters if p.shape]
        values = [p for p in self.listing.parameters if not p.shape]
        for i, p in enumerate(buffers):
            size = math.prod(p.shape)
            self.memories[p.name] = Memory(f"m_{p.name}", p.dtype, size, "global")
            self._emit(f"m_{p.name} = buffers[{i}]")
            self._place(p)
        for i, p in enumerate(values):
            self._emit(f"v_{p.name} = variables[{i}]")
            self.symbols[p.name] = Symbol(p.dtype, (), f"v_{p.name}")

    def _place(self, p: Instruction) -> None:
        self.symbols[p.name] = Symbol(p.dtype, p.shape, "0", p.name, _strides(p.shape))

    def _block(self, body: Sequence[Instruction]) -> None:
        before = len(self.lines)
        for instruction in body:
            handler = _HANDLERS.get(instruction.op)
            if handler is None and instruction.op in _ALU_NAMES:
                handler = Code._alu
            if handler is None:
                raise CompileError(f"line {instruction.line}: PYTHON has no {instruction.op}")
            handler(self, instruction)
        if len(self.lines) == before:
            self._emit("pass")

    def _let(self, x: Instruction, text: str) -> None:
        self._emit(f"v_{x.name} = {text}")
        self.symbols[x.name] = Symbol(x.dtype, x.shape, f"v_{x.name}")

    def _alu(self, x: Instruction) -> None:
        sources = [self._value(a) for a in x.arguments]
        operand_type = sources[-1].dtype if x.dtype is dtypes.bool else x.dtype
        if not x.shape:
            self._let(x, self._expression(x, [s.code for s in sources], operand_type))
            return
        names, lists = [], []
        for i, s in enumerate(sources):
            if not s.shape:
                names.append(s.code)
                continue
            names.append(f"x{i}")
            lists.append((f"x{i}", self._stretched(s, x.shape)))
        text = self._expression(x, names, operand_type)
        if len(lists) == 1:
            self._let(x, f"[{text} for {lists[0][0]} in {lists[0][1]}]")
        elif lists:
            heads = ", ".join(n for n, _ in lists)
            tails = ", ".join(t for _, t in lists)
            self._let(x, f"[{text} for {heads} in zip({tails})]")
        else:
            self._let(x, f"[{text}] * {math.prod(x.shape)}")

    def _expression(self, x: Instruction, operands: list[str], operand_type: DType) -> str:
        if x.op in ("SHL", "SHR"):
            operands = [*operands, str(operand_type.bits)]
            function = self._keep(_shl if x.op == "SHL" else _shr)
            text = f"{function}({', '.join(operands)})"
        elif x.op == "TRUNC" and x.dtype.kind != "float":
            return operands[0]
        elif x.op in _INLINE:
            text = _INLINE[x.op].format(*operands)
        else:
            text = f"{self._keep(numbers.ALU[x.op], x.op)}({', '.join(operands)})"
        if x.op in _KEEPS_RANGE:
            return text
        return self._wrapped(text, x.dtype)

    def _cast(self, x: Instruction) -> None:
        s = self._value(x.arguments[0])
        function = self._keep(
            numbers.caster(s.dtype, x.dtype), ("cast", s.dtype.name, x.dtype.name)
        )
        self._let(
            x, f"{function}({s.code})" if not x.shape else f"[{function}(x) for x in {s.code}]"
        )

    def _bitcast(self, x: Instruction) -> None:
        s = self._value(x.arguments[0])
        function = self._keep(
            numbers.bitcaster(s.dtype, x.dtype), ("bits", s.dtype.name, x.dtype.name)
        )
        self._let(x, f"{function}([{s.code}])[0]" if not x.shape else f"{function}({s.code})")

    def _stack(self, x: Instruction) -> None:
        items = [self._value(a) for a in x.arguments]
        self._let(x, "[" + ", ".join(f"*{i.code}" if i.shape else i.code for i in items) + "]")

    def _special(self, x: Instruction) -> None:
        """An index by its name: gidx and idx count the grid, lidx the workgroup."""
        axis = int(x.name[-1])
        self._let(x, f"{'item' if x.name.startswith('l') else 'grid'}[{axis}]")

    def _definition(self, x: Instruction) -> None:
        size = math.prod(x.shape)
        kind = "register" if x.op == "REG" else "local"
        self.memories[x.name] = Memory(f"m_{x.name}", x.dtype, size, kind)
        if kind == "register":
            self._emit(f"m_{x.name} = [{self._literal(numbers.ROUND[x.dtype](0))}] * {size}")
        else:
            self._emit(f"m_{x.name} = shared[{len(self.shared) - 1}]")
        self._place(x)

    # *** places

    def _move(self, x: Instruction) -> None:
        """INDEX, SHRINK, RESHAPE, …: a place becomes another place, a value moves its lanes."""
        first = self._symbol(x.arguments[0])
        if not first.buffer:
            order = _moved(x, first.shape)
            if not first.shape:
                self._let(x, f"[{first.code}] * {len(order)}" if x.shape else first.code)
            elif x.shape:
                self._let(x, f"[{first.code}[i] for i in {self._keep(order)}]")
            else:
                self._let(x, f"{first.code}[{order[0]}]")
            return
        if x.op == "RESHAPE":
            self.symbols[x.name] = Symbol(
                x.dtype, x.shape, first.code, first.buffer, _strides(x.shape)
            )
        elif x.op == "SHRINK":
            start = self._start(first, x.arguments[1:])
            self._emit(f"v_{x.name} = {start}")
            self.symbols[x.name] = Symbol(
                x.dtype, x.shape, f"v_{x.name}", first.buffer, first.steps
            )
        else:
            self._index(x, first)

    def _start(self, first: Symbol, offsets: Sequence[Operand]) -> str:
        terms = [first.code] if first.code != "0" else []
        for offset, step in zip(offsets, first.steps, strict=False):
            code = self._value(offset).code
            terms.append(code if step == 1 else f"{code} * {step}")
        return " + ".join(terms) or "0"

    def _index(self, x: Instruction, first: Symbol) -> None:
        places = [self._value(a) for a in x.arguments[1:]]
        shaped = [p for p in places if p.shape]
        left = first.steps[len(places) :]
        if not shaped:
            self._emit(f"v_{x.name} = {self._start(first, x.arguments[1:])}")
            self.symbols[x.name] = Symbol(x.dtype, x.shape, f"v_{x.name}", first.buffer, left)
            return
        if left or len(shaped) > 1 or first.lanes:
            raise CompileError(f"line {x.line}: an index of several shapes")
        at = places.index(shaped[0])
        scalars = [a for i, a in enumerate(x.arguments[1:]) if i != at]
        steps = tuple(s for i, s in enumerate(first.steps) if i != at)
        start = self._start(Symbol(first.dtype, (), first.code, steps=steps), scalars)
        step = first.steps[at]
        self._emit(f"v_{x.name} = [{start} + i * {step} for i in {shaped[0].code}]")
        self.symbols[x.name] = Symbol(x.dtype, x.shape, f"v_{x.name}", first.buffer, (), lanes=True)

    def _offsets(self, place: Symbol) -> str:
        """The name of the offset of a place, or of the list of offsets of a shaped one."""
        if not place.shape or place.lanes:
            return place.code
        name, ahead = self._temporary(), self._ahead(place)
        self._emit(f"{name} = [{place.code} + i for i in {self._keep(ahead)}]")
        return name

    def _ahead(self, place: Symbol) -> tuple[int, ...]:
        """How far each element of a place lies behind its start."""
        return _places([range(n) for n in place.shape], place.steps)

    def _is_window(self, place: Symbol) -> bool:
        """Whether the elements lie side by side, so that they are one slice."""
        if not place.shape or place.lanes:
            return False
        return self._ahead(place) == tuple(range(math.prod(place.shape)))

    def _slice(self, what: str, memory: Memory, place: Symbol) -> str:
        """Code for the slice of a window, once its bounds are checked."""
        start, size = place.code, math.prod(place.shape)
        end = str(int(start) + size) if start.isdigit() else f"{start} + {size}"
        if not (start.isdigit() and int(end) <= memory.size):
            arguments = f"{memory.size}, {self.listing.name!r}"
            # The first place outside: the start, or what lies behind the end.
            index = f"{start} if {start} < 0 else max({start}, {memory.size})"
            self._emit(
                f"if not 0 <= {start} <= {memory.size - size}: "
                f"out_of_bounds({what!r}, {memory.name[2:]!r}, {index}, {arguments})"
            )
        return f"{memory.name}[{start}:{end}]"

    def _check(self, what: str, memory: Memory, index: str) -> str:
        arguments = f"{what!r}, {memory.name[2:]!r}, {index}, {memory.size}, {self.listing.name!r}"
        return f"if not 0 <= {index} < {memory.size}: out_of_bounds({arguments})"

    # *** load and store

    def _load(self, x: Instruction) -> None:
        place = self._symbol(x.arguments[0])
        memory = self.memories[place.buffer]
        rest = [self._value(a) for a in x.arguments[1:]]
        decode = numbers.decoder(memory.dtype) if memory.kind == "global" else None
        if len(rest) < 2 and self._is_window(place):
            self._load_window(x, memory, place, decode)
            return
        at = self._offsets(place)
        read = f"{memory.name}[{{}}]"
        if decode is not None:
            read = f"{self._keep(decode, ('decode', memory.dtype.name))}({read})"
        if not x.shape:
            self._load_scalar(x, memory, at, read, rest)
            return
        self.symbols[x.name] = Symbol(x.dtype, x.shape, f"v_{x.name}")
        gate = rest[1] if len(rest) > 1 else None
        if gate is None:
            self._emit(f"for i in {at}:")
            self._emit("    " + self._check("load", memory, "i"))
            self._emit(f"v_{x.name} = [{read.format('i')} for i in {at}]")
            return
        gates, others = (self._list(s, x.shape) for s in (gate, rest[0]))
        self._emit(f"v_{x.name} = []")
        self._emit(f"for i, gate, other in zip({at}, {gates}, {others}):")
        self._emit("    if gate:")
        self._emit("        " + self._check("load", memory, "i"))
        self._emit(f"        v_{x.name}.append({read.format('i')})")
        self._emit(f"    else: v_{x.name}.append(other)")

    def _load_window(self, x: Instruction, memory: Memory, place: Symbol, decode: Any) -> None:
        text = self._slice("load", memory, place)
        if decode is not None:
            text = f"list(map({self._keep(decode, ('decode', memory.dtype.name))}, {text}))"
        elif memory.kind == "global":
            text = f"{text}.tolist()"
        self._let(x, text)

    def _load_scalar(
        self, x: Instruction, memory: Memory, at: str, read: str, rest: list[Symbol]
    ) -> None:
        self.symbols[x.name] = Symbol(x.dtype, (), f"v_{x.name}")
        if len(rest) < 2:
            self._emit(self._check("load", memory, at))
            self._emit(f"v_{x.name} = {read.format(at)}")
            return
        self._emit(f"if {self._one(rest[1])}:")
        self._emit("    " + self._check("load", memory, at))
        self._emit(f"    v_{x.name} = {read.format(at)}")
        self._emit(f"else: v_{x.name} = {self._one(rest[0])}")

    def _list(self, s: Symbol, shape: tuple[int, ...]) -> str:
        """Code for the lanes of a value stretched to a shape, scalars repeated."""
        if s.shape:
            return self._stretched(s, shape)
        return f"[{s.code}] * {math.prod(shape)}"

    def _store(self, x: Instruction) -> None:
        place, value = self._symbol(x.arguments[0]), self._value(x.arguments[1])
        memory = self.memories[place.buffer]
        if memory.kind == "global":
            self.stored.add(place.buffer)
        gate = self._value(x.arguments[2]) if len(x.arguments) > 2 else None
        if gate is None and memory.kind != "global" and self._is_window(place):
            self._emit(f"{self._slice('store', memory, place)} = {self._list(value, place.shape)}")
            return
        at = self._offsets(place)
        encode = numbers.encoder(memory.dtype) if memory.kind == "global" else None
        write = (
            "{}" if encode is None else f"{self._keep(encode, ('encode', memory.dtype.name))}({{}})"
        )
        if not place.shape:
            guard = "    " if gate is not None else ""
            if gate is not None:
                self._emit(f"if {self._one(gate)}:")
            self._emit(guard + self._check("store", memory, at))
            self._emit(f"{guard}{memory.name}[{at}] = {write.format(self._one(value))}")
            return
        gates = "" if gate is None else self._list(gate, place.shape)
        values = self._list(value, place.shape)
        tail = f", {gates}" if gates else ""
        self._emit(f"for i, value{', gate' if gates else ''} in zip({at}, {values}{tail}):")
        indent = "    "
        if gates:
            self._emit("    if gate:")
            indent = "        "
        self._emit(indent + self._check("store", memory, "i"))
        self._emit(f"{indent}{memory.name}[i] = {write.format('value')}")

    # *** control

    def _range(self, x: Instruction) -> None:
        end = self._value(x.arguments[0]).code
        self.symbols[x.name] = Symbol(x.dtype, (), f"v_{x.name}")
        self._nested(f"for v_{x.name} in range({end}):", x)

    def _forever(self, x: Instruction) -> None:
        self._nested("while True:", x)

    def _repeat(self, x: Instruction) -> None:
        self._emit(f"if not {self._value(x.arguments[0]).code}: break")

    def _if(self, x: Instruction) -> None:
        self._nested(f"if {self._value(x.arguments[0]).code}:", x)

    def _nested(self, head: str, x: Instruction) -> None:
        self._emit(head)
        self.depth += 1
        self._block(x.body)
        self.depth -= 1

    def _barrier(self, x: Instruction) -> None:
        self._emit("yield")


_HANDLERS: dict[str, Callable[[Code, Instruction], None]] = {
    "CAST": Code._cast,
    "BITCAST": Code._bitcast,
    "STACK": Code._stack,
    "SPECIAL": Code._special,
    "REG": Code._definition,
    "LOCAL": Code._definition,
    "LOAD": Code._load,
    "STORE": Code._store,
    "RANGE": Code._range,
    "FOREVER": Code._forever,
    "REPEAT": Code._repeat,
    "IF": Code._if,
    "BARRIER": Code._barrier,
    **dict.fromkeys((Ops.INDEX.name, *(op.name for op in GroupOp.Movement)), Code._move),
}


def _has_barrier(body: Sequence[Instruction]) -> bool:
    return any(x.op == "BARRIER" or _has_barrier(x.body) for x in body)


def _shl(x: int, y: int, bits: int) -> int:
    return x << y if 0 <= y < bits else 0


def _shr(x: int, y: int, bits: int) -> int:
    return x >> y if 0 <= y < bits else 0


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _places(axes: Sequence[Sequence[int]], steps: Sequence[int]) -> tuple[int, ...]:
    return tuple(
        sum(i * s for i, s in zip(at, steps, strict=True)) for at in itertools.product(*axes)
    )


def _moved(x: Instruction, shape: tuple[int, ...]) -> tuple[int, ...]:
    """For each lane of the result of a movement, the lane of its source."""
    steps = _strides(shape)
    given = [a for a in x.arguments[1:] if not isinstance(a, Name)]
    if len(given) != len(x.arguments) - 1:
        raise CompileError(f"line {x.line}: lanes are taken at places that are not constant")
    numbers_ = [a.items if isinstance(a, Places) else (int(a.value),) for a in given]
    flat = [n[0] for n in numbers_]
    match x.op:
        case "RESHAPE":
            return tuple(range(math.prod(shape)))
        case "EXPAND":
            count = math.prod(shape)
            return tuple(range(count)) * (math.prod(x.shape) // max(1, count))
        case "PERMUTE":
            return _places([range(shape[a]) for a in flat], [steps[a] for a in flat])
        case "FLIP":
            axes = [range(n)[::-1] if f else range(n) for n, f in zip(shape, flat, strict=True)]
            return _places(axes, steps)
        case "SHRINK":
            return _places([range(o, o + n) for o, n in zip(flat, x.shape, strict=True)], steps)
        case "INDEX":
            axes_: list[Sequence[int]] = [*numbers_, *(range(n) for n in shape[len(numbers_) :])]
            return _places(axes_, steps)
    raise CompileError(f"line {x.line}: PYTHON has no {x.op} of lanes")
