"""Kernel ASTs as the scheduler makes them, small enough for PYTHON, and a way to run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinylab.codegen import do_to_program
from tinylab.codegen.opt import KernelOptError, Opt
from tinylab.codegen.opt.kernel import Scheduler
from tinylab.device import Device, TinyELF
from tinylab.dtype import AddrSpace, DType, dtypes
from tinylab.opcodes import AxisType, Ops
from tinylab.uop.ops import KernelInfo, UOp

Array = npt.NDArray[Any]
F32 = dtypes.float32
REDUCE = AxisType.REDUCE


def param(slot: int, size: int, dtype: DType = F32) -> UOp:
    return UOp.placeholder((size,), dtype, slot)


def sink(*effects: UOp, opts: Sequence[Any] | None = None) -> UOp:
    info = KernelInfo(opts_to_apply=None if opts is None else tuple(opts))
    return UOp.sink(*effects, arg=info)


def matmul(m: int = 6, n: int = 8, k: int = 4, dtype: DType = F32) -> UOp:
    i, j, r = UOp.range(m, 0), UOp.range(n, 1), UOp.range(k, 2, REDUCE)
    a, b, c = param(1, m * k, dtype), param(2, k * n, dtype), param(0, m * n, dtype)
    total = (a.index(i * k + r) * b.index(r * n + j)).reduce(r, arg=Ops.ADD)
    return sink(c.index(i * n + j).store(total).end(i, j))


def row_reduce(op: Ops = Ops.ADD, m: int = 6, n: int = 16, dtype: DType = F32) -> UOp:
    i, r = UOp.range(m, 0), UOp.range(n, 1, REDUCE)
    x = param(1, m * n, dtype).index(i * n + r)
    return sink(param(0, m, dtype).index(i).store(x.reduce(r, arg=op)).end(i))


def column_sum(m: int = 6, n: int = 8) -> UOp:
    j, r = UOp.range(n, 0), UOp.range(m, 1, REDUCE)
    return sink(param(0, n).index(j).store(param(1, m * n).index(r * n + j).reduce(r)).end(j))


def total(m: int = 4, n: int = 8) -> UOp:
    r, s = UOp.range(m, 0, REDUCE), UOp.range(n, 1, REDUCE)
    return sink(param(0, 1).index(0).store(param(1, m * n).index(r * n + s).reduce(r, s)))


def elementwise(m: int = 6, n: int = 8) -> UOp:
    i, j = UOp.range(m, 0), UOp.range(n, 1)
    a, b = param(1, m * n), param(2, n)
    x = a.index(i * n + j) * 2.0 + b.index(j)
    return sink(param(0, m * n).index(i * n + j).store((x < 1.0).where(x, x * x)).end(i, j))


def transpose(m: int = 6, n: int = 8) -> UOp:
    i, j = UOp.range(m, 0), UOp.range(n, 1)
    return sink(param(0, m * n).index(i * n + j).store(param(1, m * n).index(j * m + i)).end(i, j))


def flip(n: int = 12) -> UOp:
    i = UOp.range(n, 0)
    return sink(param(0, n).index(i).store(param(1, n).index(i * -1 + (n - 1))).end(i))


def pad(n: int = 10, before: int = 3, after: int = 3) -> UOp:
    i = UOp.range(n + before + after, 0)
    inside = (i >= before) & (i < n + before)
    found = param(1, n).index((i - before).valid(inside))
    return sink(param(0, n + before + after).index(i).store(found + 1.0).end(i))


def reshaped(m: int = 6, n: int = 8) -> UOp:
    """A flat copy with its index taken apart and put together in another order."""
    r = UOp.range(m * n, 0)
    found = param(1, m * n).index(r % n * m + r // n)
    return sink(param(0, m * n).index(r).store(found).end(r))


def convolution(channels: int = 3, size: int = 6, kernel: int = 3) -> UOp:
    """A padded convolution: (c, s, s) with (o, c, k, k) weights to (o, s, s)."""
    out = 4
    o, y, x = UOp.range(out, 0), UOp.range(size, 1), UOp.range(size, 2)
    c, v, u = (UOp.range(n, 3 + i, REDUCE) for i, n in enumerate((channels, kernel, kernel)))
    row, column = y + v - kernel // 2, x + u - kernel // 2
    inside = (row >= 0) & (row < size) & (column >= 0) & (column < size)
    image = param(1, channels * size * size)
    pixel = image.index((c * size * size + row * size + column).valid(inside))
    weights = param(2, out * channels * kernel * kernel)
    weight = weights.index(((o * channels + c) * kernel + v) * kernel + u)
    summed = (pixel * weight).reduce(c, v, u)
    return sink(
        param(0, out * size * size).index((o * size + y) * size + x).store(summed).end(o, y, x)
    )


def pool(size: int = 8) -> UOp:
    y, x = UOp.range(size // 2, 0), UOp.range(size // 2, 1)
    v, u = UOp.range(2, 2, REDUCE), UOp.range(2, 3, REDUCE)
    found = param(1, size * size).index((y * 2 + v) * size + x * 2 + u).reduce(v, u, arg=Ops.MAX)
    return sink(param(0, size * size // 4).index(y * (size // 2) + x).store(found).end(y, x))


def softmax(m: int = 4, n: int = 8) -> UOp:
    """All of it in one kernel: three loops over a row, two of them reduces."""
    i, j = UOp.range(m, 0), UOp.range(n, 1)
    r, s = UOp.range(n, 2, REDUCE), UOp.range(n, 3, REDUCE)
    x = param(1, m * n)
    most = x.index(i * n + r).reduce(r, arg=Ops.MAX)

    def exp(place: UOp) -> UOp:
        return ((x.index(place) - most) * 1.4426950408889634).exp2()

    share = exp(i * n + j) * exp(i * n + s).reduce(s).reciprocal()
    return sink(param(0, m * n).index(i * n + j).store(share).end(i, j))


def variance(m: int = 4, n: int = 8) -> UOp:
    """A reduce that needs another one over the same range."""
    i, r = UOp.range(m, 0), UOp.range(n, 1, REDUCE)
    x = param(1, m * n).index(i * n + r)
    off = x - x.reduce(r) * (1.0 / n)
    return sink(param(0, m).index(i).store((off * off).reduce(r)).end(i))


def two_sums(m: int = 4, n: int = 8) -> UOp:
    """Two reduces over one range that do not need each other."""
    i, r = UOp.range(m, 0), UOp.range(n, 1, REDUCE)
    x = param(1, m * n).index(i * n + r)
    return sink(param(0, m).index(i).store(x.reduce(r) + (x * x).reduce(r)).end(i))


def gather(n: int = 5, rows: int = 7, columns: int = 4) -> UOp:
    """Rows picked by a sum over a comparison."""
    i, j, r = UOp.range(n, 0), UOp.range(columns, 1), UOp.range(rows, 2, REDUCE)
    wanted = param(2, n, dtypes.int32).index(i)
    found = (
        r.cast(dtypes.int32).eq(wanted).where(param(1, rows * columns).index(r * columns + j), 0.0)
    )
    return sink(param(0, n * columns).index(i * columns + j).store(found.reduce(r)).end(i, j))


def looked_up(m: int = 4, n: int = 4, k: int = 3, rows: int = 5) -> UOp:
    """Elements of a table at places that memory holds, times the sum of a row."""
    i, j, r = UOp.range(m, 0), UOp.range(n, 1), UOp.range(k, 2, REDUCE)
    place = param(2, m * n, dtypes.int32).index(i * n + j).cast(dtypes.weakint) % rows
    weight = param(3, m * k).index(i * k + r).reduce(r)
    return sink(
        param(0, m * n).index(i * n + j).store(param(1, rows).index(place) * weight).end(i, j)
    )


def looked_up_by_sum(n: int = 16, rows: int = 5) -> UOp:
    """A sum over a comparison whose term is itself looked up at a place that depends on the row."""
    i, r = UOp.range(n, 0), UOp.range(rows, 1, REDUCE)
    wanted = param(1, n, dtypes.int32).index(i)
    place = param(2, rows, dtypes.int32).index(r.valid(r < rows - 1))
    x = param(3, 4 * rows).index(place.cast(dtypes.weakint) % 4 * rows + r)
    found = r.cast(dtypes.int32).eq(wanted).where(x, 0.0).reduce(r)
    return sink(param(0, n).index(i).store(found).end(i))


def picked_over_product(n: int = 6, rows: int = 5) -> UOp:
    """A sum that picks, with a product over the same range inside."""
    i, r = UOp.range(n, 0), UOp.range(rows, 1, REDUCE)
    wanted = param(1, n, dtypes.int32).index(i)
    product = param(2, rows).index(r).reduce(r, arg=Ops.MUL)
    x = param(3, n * rows).index(i * rows + r) * product
    found = r.cast(dtypes.int32).eq(wanted).where(x, 0.0).reduce(r)
    return sink(param(0, n).index(i).store(found).end(i))


def shifted(n: int = 4, by: int = 2) -> UOp:
    """Only one step of a tile stores anything."""
    i = UOp.range(n, 0)
    place = (i * 2 - by).valid((i >= by // 2) & (i < by // 2 + 1))
    return sink(param(0, 1).index(place).store(param(1, n).index(i)).end(i))


def arange(n: int = 9) -> UOp:
    """Counted by a sum over a comparison."""
    i, r = UOp.range(n, 0), UOp.range(n, 1, REDUCE)
    steps = (r < i + 1).where(UOp.const(2, dtypes.int32), UOp.const(0, dtypes.int32)).reduce(r)
    return sink(param(0, n, dtypes.int32).index(i).store(steps + 1).end(i))


def sums_of_sums(m: int = 4, n: int = 5, k: int = 6) -> UOp:
    """A reduce over two ranges with a reduce over one of them inside."""
    i, r, s = UOp.range(m, 0), UOp.range(n, 1, REDUCE), UOp.range(k, 2, REDUCE)
    x = param(1, m * n * k).index((i * n + r) * k + s)
    total = (x * x.reduce(s)).reduce(r, s)
    return sink(param(0, m).index(i).store(total).end(i))


def integers(n: int = 24) -> UOp:
    """Division and remainder of every sign."""
    i = UOp.range(n, 0)
    x, y = param(1, n, dtypes.int32).index(i), param(2, n, dtypes.int32).index(i)
    found = (x // 3) * 5 + x % 4 + x // y + x % y + (x >> 2)
    return sink(param(0, n, dtypes.int32).index(i).store(found).end(i))


def halves(n: int = 24) -> UOp:
    i = UOp.range(n, 0)
    x = param(1, n, dtypes.float16).index(i)
    return sink(param(0, n, dtypes.float16).index(i).store(x * x + 1.0).end(i))


def accumulated(n: int = 12) -> UOp:
    """A register written by hand."""
    r = UOp.range(n, 0, REDUCE)
    acc = UOp.placeholder((1,), F32, 0, AddrSpace.REG)
    acc = acc.after(acc.index(0).store(0.0))
    acc = acc.index(0).set(acc.after(r).index(0) + param(1, n).index(r), end=r)
    return sink(param(0, 1).index(0).store(acc.index(0)))


def in_place(n: int = 16) -> UOp:
    i = UOp.range(n, 0)
    a = param(0, n)
    return sink(a.index(i).store(a.index(i) * 2.0 + 1.0).end(i))


def added_beside_sum(m: int = 4, n: int = 8) -> UOp:
    """What is changed in place beside a sum is changed once, however the sum is spread."""
    i, j, r = UOp.range(m, 0), UOp.range(m, 1), UOp.range(n, 2, REDUCE)
    a, b, x = param(0, m * m), param(1, m * m), param(2, m * n)
    place = i * m + j
    total = x.index(i * n + r).reduce(r)
    return sink(
        a.index(place).store(a.index(place) + 1.0).end(i, j),
        b.index(place).store(b.index(place) + total).end(i, j),
    )


def two_stores(n: int = 16) -> UOp:
    i = UOp.range(n, 0)
    x = param(2, n).index(i)
    return sink(
        param(0, n).index(i).store(x + 1.0).end(i), param(1, n).index(i).store(x * 3.0).end(i)
    )


KERNELS: dict[str, Callable[[], UOp]] = {
    "matmul": matmul,
    "row_sum": row_reduce,
    "row_max": lambda: row_reduce(Ops.MAX),
    "row_product": lambda: row_reduce(Ops.MUL, 3, 6),
    "column_sum": column_sum,
    "total": total,
    "elementwise": elementwise,
    "transpose": transpose,
    "flip": flip,
    "pad": pad,
    "reshaped": reshaped,
    "convolution": convolution,
    "pool": pool,
    "softmax": softmax,
    "variance": variance,
    "two_sums": two_sums,
    "gather": gather,
    "looked_up": looked_up,
    "looked_up_by_sum": looked_up_by_sum,
    "picked_over_product": picked_over_product,
    "shifted": shifted,
    "sums_of_sums": sums_of_sums,
    "added_beside_sum": added_beside_sum,
    "arange": arange,
    "integers": integers,
    "halves": halves,
    "accumulated": accumulated,
    "in_place": in_place,
    "two_stores": two_stores,
    "matmul_f64": lambda: matmul(4, 4, 8, dtypes.float64),
    "matmul_i32": lambda: matmul(4, 4, 8, dtypes.int32),
}


def buffers_of(kernel: UOp) -> list[UOp]:
    """The kernel's parameters by slot."""
    found = {
        u.arg.slot: u
        for u in kernel.toposort()
        if u.op is Ops.PARAM and u.arg.addrspace is AddrSpace.GLOBAL
    }
    return [found[slot] for slot in sorted(found)]


def random_arrays(kernel: UOp, seed: int = 0) -> list[Array]:
    """Values for the kernel's parameters; integers of both signs and 0, fit to index with."""
    rng = np.random.default_rng(seed)
    found = []
    for p in buffers_of(kernel):
        size, name = int(p.src[0].arg), p.dtype.name
        if dtypes.is_float(p.dtype):
            found.append(rng.uniform(-2, 2, size).astype(name))
        else:
            found.append(rng.integers(-7, 8, size).astype(name))
    return found


def run(
    kernel: UOp,
    arrays: Sequence[Array],
    device: str = "CPU",
    variables: Mapping[str, int] | None = None,
) -> list[Array]:
    """The arrays after the kernel ran on a device."""
    values = dict(variables or {})
    dev: Any = Device[device]
    program = do_to_program(kernel, dev.renderer, dev.compiler)
    info = program.arg
    elf = TinyELF(program.src[3].arg, info.function_name, dev.renderer.target, ())
    memory = []
    for array in arrays:
        opaque = dev.allocator.alloc(max(1, array.nbytes))
        dev.allocator._copyin(opaque, memoryview(bytearray(array.tobytes())))
        memory.append(opaque)
    dev.runtime(elf)(
        *memory,
        global_size=info.launch_dims(values)[0],
        local_size=info.launch_dims(values)[1],
        vals=info.vals(values),
    )
    found = []
    for array, opaque in zip(arrays, memory, strict=True):
        raw = bytearray(array.nbytes)
        dev.allocator._copyout(memoryview(raw), opaque)
        found.append(np.frombuffer(raw, array.dtype).copy())
    return found


def those_that_apply(k: Scheduler, tries: Sequence[Opt]) -> tuple[Opt, ...]:
    """The opts, of some that are tried one after the other, that a kernel takes."""
    for opt in tries:
        try:
            k.apply_opt(opt)
        except KernelOptError:
            continue
    return tuple(k.applied_opts)
