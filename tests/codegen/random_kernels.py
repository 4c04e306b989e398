"""Random kernel ASTs whose results are exact, to be compared bit for bit with the oracle.

`random_kernel(random.Random(seed))` is a kernel of 1 to 3 stores over up to 3 output axes: values
loaded at affine, padded, flipped, divided and looked-up places, cast, chosen, compared, reduced
once or twice, and used inside and outside of a reduce. Floats hold small whole numbers, so the
order of additions is free.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tests.codegen.kernels import param
from tinylab.codegen.opt import Opt, OptOps
from tinylab.dtype import AddrSpace, DType, dtypes
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.ops import KernelInfo, UOp, identity_element

SIZES = (1, 2, 2, 3, 4, 4, 4, 5, 6, 7, 8, 8, 9, 11, 12, 13, 16, 16, 17)
STEPS = 3000  # of the loops around any value
DTYPES = (
    *(dtypes.float32,) * 6, *(dtypes.int32,) * 4, *(dtypes.half, dtypes.uint8) * 2,
    *(dtypes.int64, dtypes.bool) * 2, dtypes.float64, dtypes.int8, dtypes.uint32, dtypes.int16,
)  # fmt: skip
UNSIGNED = (dtypes.uint8, dtypes.uint32)
# Whole numbers up to this are exact, sums and products of them too.
EXACT = {dtypes.float64: 1 << 53, dtypes.float32: 1 << 24, dtypes.half: 1 << 11}


class Value(NamedTuple):
    """A scalar expression and the largest magnitude that it may have."""

    uop: UOp
    most: int


class RandomKernel(NamedTuple):
    """A kernel, its twin that the oracle knows (without registers), its arrays and variables."""

    kernel: UOp
    plain: UOp
    arrays: list[npt.NDArray[Any]]
    variables: dict[str, int]


def size_of(rng: UOp) -> int:
    """The most steps that a loop may have."""
    return int(rng.vmax) + 1


class Maker:
    """One kernel in the making: its parameters, loops and the values made so far."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.params: list[UOp] = []
        self.read: list[UOp] = []
        self.limits: dict[UOp, tuple[int, int]] = {}
        self.arrays: list[npt.NDArray[Any]] = []
        self.reduce_ranges: list[UOp] = []
        self.pool: list[Value] = []
        self.variables: dict[str, int] = {}
        self.names: list[UOp] = []
        self.next_axis = 0

    def chance(self, share: float) -> bool:
        return self.r.random() < share

    # *** memory

    def array(self, size: int, dtype: DType, low: int, high: int) -> UOp:
        """A new parameter of whole numbers in [low, high]."""
        nr = np.random.default_rng(self.r.randrange(1 << 30))
        self.arrays.append(nr.integers(low, high + 1, size).astype(dtype.name))
        self.params.append(param(len(self.params), size, dtype))
        return self.params[-1]

    def source(self, size: int, dtype: DType, low: int, high: int) -> UOp:
        """A parameter to read: a new one, or one that is read elsewhere as well."""
        fit = [
            p for p in self.read
            if p.dtype is dtype and self.arrays[p.arg.slot].size >= size
            and low <= self.limits[p][0] <= self.limits[p][1] <= high
        ]  # fmt: skip
        if fit and self.chance(0.3):
            return self.r.choice(fit)
        self.read.append(self.array(size, dtype, low, high))
        self.limits[self.read[-1]] = low, high
        return self.read[-1]

    def variable(self, least: int = 0) -> UOp:
        """A number that is given at the launch."""
        known = [n for n in self.names if n.vmin >= least]
        if not known or self.chance(0.3):
            low = self.r.randint(least, 3)
            name = f"n{len(self.names)}"
            known = [UOp.variable(name, low, low + self.r.randint(1, 5), param=True)]
            self.names += known
            self.variables[name] = self.r.randint(*(int(n) for n in known[0].arg.vmin_vmax))
        return self.r.choice(known)

    # *** loops

    def range(self, kind: AxisType, room: int) -> UOp:
        """A new loop of at most so many steps."""
        self.next_axis += 1
        if self.chance(0.03) and room > 8:
            return UOp.range(self.variable(least=1), self.next_axis - 1, kind)
        size = self.r.choice([s for s in SIZES if s <= max(room, 1)])
        return UOp.range(size, self.next_axis - 1, kind)

    # *** places

    def place(self, scope: Sequence[UOp]) -> UOp:
        """An index of 0 or more: a sum of loops by strides, some taken apart or turned round."""
        chosen = [x for x in scope if self.chance(0.75)]
        self.r.shuffle(chosen)
        total, dense = UOp.const(0), 1
        for rng in chosen:
            x, n = self.step(rng, chosen)
            total = total + x * dense
            kind = self.r.random()
            dense = dense * n if kind < 0.75 else dense + self.r.randint(0, 2) if kind < 0.9 else 1
            if total.vmax > 4000:
                break
        if self.chance(0.2):
            total = total + self.r.randint(1, 5)
        if self.chance(0.06):
            total = total + self.variable()
        if self.chance(0.15) and total.vmax > 1:
            total = self.taken_apart(total)
        return total

    def step(self, rng: UOp, scope: Sequence[UOp]) -> tuple[UOp, int]:
        """A loop's step as part of an index, and how many places it takes."""
        size = size_of(rng)
        kind = self.r.random()
        if kind < 0.12:
            return rng * -1 + (size - 1), size
        if kind < 0.2:
            by = self.r.choice((2, 3, 4, 8))
            return (rng // by, -(-size // by)) if self.chance(0.5) else (rng % by, min(by, size))
        if kind < 0.28:
            other = self.r.choice(list(scope))
            by = self.r.choice((1, 1, 2))
            return rng + other * by, size + (size_of(other) - 1) * by
        return rng, size

    def taken_apart(self, x: UOp) -> UOp:
        """A flat index put together again in another order, as reshapes leave it."""
        n = x.vmax + 1
        by = self.r.choice([d for d in (2, 3, 4, 5, 8, 16) if d <= n] or [n])
        return self.r.choice([
            x % by * (-(-n // by)) + x // by, x // by, x % by, n - 1 - x, (x + by) % n,
            x // by % by,
        ])  # fmt: skip

    def index(self, place: UOp, dtype: DType, low: int, high: int) -> UOp:
        """The element of a new array at a place, or behind a mask around it."""
        if self.chance(0.25):
            before, after = self.r.randint(0, 3), self.r.randint(0, 3)
            size = max(1, place.vmax + 1 - before - after)
            inside = (place >= before) & (place < size + before)
            array = self.source(size, dtype, low, high)
            if self.chance(0.1):
                inside = inside & self.index(place % 16, dtypes.bool, 0, 1)
            return array.index((place - before).valid(inside))
        size = place.vmax + 1 + self.r.choice((0, 0, 0, 1, 3))
        return self.source(size, dtype, low, high).index(place)

    def looked_up(self, scope: Sequence[UOp], depth: int) -> UOp:
        """A place that a value decides."""
        rows = self.r.choice((1, 2, 3, 4, 5, 8, 16))
        kind = self.r.random()
        if kind < 0.35:
            at = (
                self.index(self.place(scope), dtypes.int32, 0, rows - 1).cast(dtypes.weakint) % rows
            )
        elif kind < 0.5:
            found = self.index(self.place(scope), dtypes.int32, -rows, rows - 1)
            at = (found < 0).where(found + rows, found).cast(dtypes.weakint)
            at = at.valid((at >= 0) & (at < rows))
        else:
            dtype = self.r.choice((dtypes.int32, dtypes.int32, dtypes.int64, dtypes.uint8))
            at = self.value(scope, depth - 1, dtype).uop.cast(dtypes.weakint) % rows
        return at

    # *** values

    def loaded(self, scope: Sequence[UOp], depth: int, dtype: DType) -> Value:
        """An element at an affine place, or at one that a value decides."""
        low, high = (0, 1) if dtype is dtypes.bool else (0 if dtype in UNSIGNED else -4, 4)
        if depth < 1 or self.chance(0.65):
            return Value(self.index(self.place(scope), dtype, low, high), high)
        at = self.looked_up(scope, depth)
        rows = at.get_idx().vmax + 1
        if rows <= 0 or rows > 64:
            rows = 64
            at = at.get_idx() % rows
        places = self.place(scope) if self.chance(0.4) else UOp.const(0)
        columns = places.vmax + 1
        by, on = (columns, 1) if self.chance(0.5) else (1, rows)
        full = at.get_idx() * by + places * on
        if at.get_idx() is not at:
            full = full.valid(at.get_valid())
        return Value(self.source(rows * columns, dtype, low, high).index(full), high)

    def leaf(self, scope: Sequence[UOp], depth: int, dtype: DType) -> Value:
        kind = self.r.random()
        if kind < 0.1:
            number = self.r.randint(0, 3)
            return Value(UOp.const(bool(number) if dtype is dtypes.bool else number, dtype), number)
        if kind < 0.2 and scope:
            rng = self.r.choice(list(scope))
            return self.cast(Value(rng.cast(dtypes.int32), rng.vmax), dtype)
        if kind < 0.24:
            name = self.variable()
            return self.cast(Value(name.cast(dtypes.int32), name.vmax), dtype)
        return self.loaded(scope, depth, dtype)

    def value(self, scope: Sequence[UOp], depth: int, dtype: DType) -> Value:
        """An expression over some loops."""
        found = self.fitted(self.expression(scope, depth, dtype), dtype)
        self.pool.append(found)
        return found

    def expression(self, scope: Sequence[UOp], depth: int, dtype: DType) -> Value:
        kind = self.r.random()
        if kind < 0.12 and self.pool:
            usable = [v for v in self.pool if all(x in scope for x in v.uop.ranges)]
            if usable:
                return self.cast(self.r.choice(usable), dtype)
        if depth <= 0:
            return self.leaf(scope, depth, dtype)
        if kind < 0.3:
            return self.leaf(scope, depth, dtype)
        if kind < 0.55:
            return self.reduced(scope, depth, dtype)
        if kind < 0.65:
            return self.cast(self.value(scope, depth - 1, self.r.choice(DTYPES)), dtype)
        if kind < 0.75:
            chosen = self.value(scope, depth - 1, dtypes.bool)
            x, y = (self.value(scope, depth - 1, dtype) for _ in range(2))
            return Value(chosen.uop.where(x.uop, y.uop), max(x.most, y.most))
        return self.computed(scope, depth, dtype)

    def computed(self, scope: Sequence[UOp], depth: int, dtype: DType) -> Value:
        """One operation on two values."""
        if dtype is dtypes.bool:
            common = self.r.choice(DTYPES)
            x, y = (self.value(scope, depth - 1, common).uop for _ in range(2))
            if common is dtypes.bool:
                return Value(self.r.choice([x & y, x | y, x ^ y, x.ne(y)]), 1)
            return Value(self.r.choice([x < y, x.eq(y), x.ne(y), (x < y) & (y < 3)]), 1)
        x, y = (self.value(scope, depth - 1, dtype) for _ in range(2))
        a, b = x.uop, y.uop
        choices = [
            Value(a + b, x.most + y.most), Value(a - b, x.most + y.most),
            Value(a * b, x.most * y.most), Value(a.maximum(b), max(x.most, y.most)),
        ]  # fmt: skip
        if dtypes.is_int(dtype):
            by = self.r.randint(1, 7)
            choices += [
                Value(a // by, x.most), Value(a % by, by), Value(a & b, 255), Value(a ^ b, 255),
                Value(a // b, x.most), Value(a % b, y.most), Value(a | b, 255),
                Value(a >> self.r.randint(0, 3), x.most),
            ]  # fmt: skip
        return self.r.choice(choices)

    def reduced(self, scope: Sequence[UOp], depth: int, dtype: DType) -> Value:
        """A value summed, multiplied or the largest of, over 1 or 2 loops, some of them shared."""
        room = STEPS // max(1, math.prod(size_of(x) for x in scope))
        loops: list[UOp] = []
        for _ in range(self.r.choice((1, 1, 1, 2))):
            shared = [
                x for x in self.reduce_ranges if x not in loops and (x in scope or x.vmax < room)
            ]
            if shared and self.chance(0.4):
                loops.append(self.r.choice(shared))
            elif room > 1:
                loops.append(self.range(AxisType.REDUCE, room))
                self.reduce_ranges.append(loops[-1])
            else:
                break
            room //= size_of(loops[-1])
        if not loops:
            return self.leaf(scope, depth, dtype)
        inner = list(dict.fromkeys([*scope, *loops]))
        count = math.prod(size_of(x) for x in loops)
        if self.chance(0.2):
            x = self.picked(inner, loops[0], depth, dtype)
        else:
            x = self.value(inner, depth - 1, dtype)
        op = self.r.choice((Ops.ADD, Ops.ADD, Ops.ADD, Ops.MAX, Ops.MUL))
        most = {Ops.ADD: x.most * count, Ops.MAX: x.most}.get(op)
        if most is None:
            most = min(max(x.most, 1) ** count, 1 << 62)
        if dtype in EXACT and most > EXACT[dtype]:
            op, most = Ops.MAX, x.most
        return Value(x.uop.reduce(*loops, arg=op), most)

    def picked(self, scope: Sequence[UOp], loop: UOp, depth: int, dtype: DType) -> Value:
        """A value where a loop has come to a place, 0 elsewhere: a lookup written as a sum."""
        outer = [x for x in scope if x is not loop]
        if self.chance(0.5):
            wanted = self.index(self.place(outer), dtypes.int32, -2, size_of(loop))
            chosen = loop.cast(dtypes.int32).eq(wanted)
        else:
            place = self.place(outer) - self.r.randint(0, 3)
            chosen = self.r.choice([loop.eq(place), loop < place, loop >= place, loop.ne(place)])
        x = self.loaded(scope, depth - 1, dtype)
        nothing = UOp.const(False if dtype is dtypes.bool else 0, dtype)
        return Value(chosen.where(x.uop, nothing), x.most)

    def cast(self, x: Value, dtype: DType) -> Value:
        return self.fitted(x, dtype) if x.uop.dtype is dtype else self.converted(x, dtype)

    def converted(self, x: Value, dtype: DType) -> Value:
        small = Value(x.uop, x.most)
        if dtype in EXACT and x.most > EXACT[dtype] // 4:
            small = self.made_small(x)
        if dtype in UNSIGNED:
            return Value(small.uop.cast(dtype), int(dtype.max))
        most = 1 if dtype is dtypes.bool else small.most
        return Value(small.uop.cast(dtype), most)

    def fitted(self, x: Value, dtype: DType) -> Value:
        """The value, brought back to small whole numbers where its next sum may round."""
        if dtype is dtypes.bool:
            return Value(x.uop, 1)
        if dtype in UNSIGNED:
            return Value(x.uop, int(dtype.max))
        if dtype in EXACT and x.most > EXACT[dtype] // 16:
            return self.made_small(x)
        return Value(x.uop, min(x.most, 1 << 62))

    def made_small(self, x: Value) -> Value:
        if dtypes.is_int(x.uop.dtype):
            return Value(x.uop % 7, 7)
        within = (x.uop < 9.0) & (x.uop > -9.0) if x.uop.dtype in EXACT else x.uop
        return Value(within.where(x.uop, UOp.const(3, x.uop.dtype)), 9)

    # *** stores

    def store(self, scope: Sequence[UOp], depth: int) -> UOp:
        """A value kept in an array of its own, each step at its own place."""
        dtype = self.r.choice(DTYPES)
        x = self.value(scope, depth, dtype)
        axes = list(scope)
        if self.chance(0.4):
            self.r.shuffle(axes)
        place, dense = UOp.const(0), self.r.choice((1, 1, 1, 1, 2, 3))
        for rng in reversed(axes):
            size = size_of(rng)
            step = rng * -1 + (size - 1) if self.chance(0.1) else rng
            place = place + step * dense
            dense = dense * size + (self.r.randint(1, 3) if self.chance(0.1) else 0)
        if self.chance(0.15):
            place = place + self.r.randint(1, 4)
        size = place.vmax + 1
        if self.chance(0.1):
            before, after = self.r.randint(0, 2), self.r.randint(0, 2)
            size = max(1, size - before - after)
            place = (place - before).valid((place >= before) & (place < size + before))
        array = self.array(size, dtype, 0, 1)
        target = array.index(place)
        found = x.uop
        if self.chance(0.08):
            found = self.fitted(
                Value(found + target if dtype is not dtypes.bool else found | target, 1), dtype
            ).uop
        return target.store(found).end(*scope) if scope else target.store(found)


def with_registers(sink: UOp, r: random.Random) -> UOp:
    """The kernel with some of its reduces written by hand: a register, a loop that adds to it."""
    reduces = [u for u in sink.toposort() if u.op is Ops.REDUCE]
    written = r.sample(reduces, min(len(reduces), r.randint(1, 2)))
    for slot, old in enumerate(written):
        red = next((u for u in sink.toposort() if u is old), None)
        if red is None:
            continue
        op, x, loops = red.arg[0], red.src[0], red.src[1:]
        acc = UOp.placeholder((1,), red.dtype, slot, AddrSpace.REG)
        nothing = UOp.const(identity_element(op, red.dtype), red.dtype)
        around = [u for u in x.ranges if u not in loops]
        acc = acc.after(acc.after(*around).index(0).store(nothing))
        added = acc.after(*loops).index(0).alu(op, x)
        sink = sink.substitute({red: acc.index(0).set(added, end=loops).index(0)})
    return sink


def random_kernel(r: random.Random, depth: int | None = None) -> RandomKernel:
    """A kernel with its arrays."""
    m = Maker(r)
    scope: list[UOp] = []
    for _ in range(r.choice((1, 1, 2, 2, 2, 3))):
        room = 512 // max(1, math.prod(size_of(x) for x in scope))
        kind = AxisType.LOOP if r.random() < 0.03 else AxisType.WEAK
        scope.append(m.range(kind, room))
    depth = r.randint(1, 4) if depth is None else depth
    effects = [m.store(scope, depth)]
    for _ in range(r.choice((0, 0, 0, 1, 2))):
        own = scope if m.chance(0.8) else [x for x in scope if m.chance(0.6)]
        effects.append(m.store(own, depth))
    plain = UOp.sink(*effects, arg=KernelInfo())
    kernel = with_registers(plain, r) if r.random() < 0.05 else plain
    return RandomKernel(kernel, plain, m.arrays, m.variables)


AMOUNTS = (0, 0, 2, 2, 2, 3, 4, 4, 5, 8, 16)
CUTS = tuple(OptOps[n] for n in ["UPCAST", "UNROLL", "LOCAL", "GROUP", "GROUPTOP", "THREAD"])


def random_opts(r: random.Random, most: int = 10) -> list[Opt]:
    """Opts to try one after the other; many are not legal."""
    found = []
    for _ in range(r.randint(1, most)):
        kind = r.random()
        if kind < 0.12:
            found.append(Opt(OptOps.PADTO, r.randint(0, 3), r.choice((3, 4, 8, 16))))
        elif kind < 0.18:
            found.append(Opt(OptOps.SWAP, r.randint(0, 2), r.randint(0, 2)))
        elif kind < 0.2:
            found.append(Opt(OptOps.NOLOCALS))
        else:
            op = r.choice(CUTS) if kind < 0.5 else r.choice(CUTS[:2])
            found.append(Opt(op, r.randint(0, 4), r.choice(AMOUNTS)))
    return found
