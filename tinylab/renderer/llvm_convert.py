"""Conversions between element types, each rounded once, none through a runtime helper of LLVM's.

A JIT has no `__truncdfhf2`, `__extendhfsf2` and their like: what LLVM would turn into a call is
written out here as small functions of the module (`@float_to_half.v8`), inlined where they are
used. Half types are their 16 bits in registers.
"""

from __future__ import annotations

from collections.abc import Callable

from tinylab.dtype import DType, dtypes
from tinylab.renderer.llvm_types import SMALL_FLOATS, scalar_type, suffix, vector
from tinylab.renderer.llvm_writer import Value, Writer, named

_WIDE = (dtypes.float32, dtypes.float64)


def cast(w: Writer, value: Value, dtype: DType, kind: str = "cast") -> Value:
    """The value in another type: integers wrap, floats round once, float to integer saturates."""
    if value.dtype is dtype:
        return value
    return w.rowwise(
        dtype,
        value.shape,
        [value],
        kind,
        lambda name, lanes, x: cast_row(w, x, value.dtype, dtype, lanes, name),
    )


def cast_row(w: Writer, x: str, old: DType, new: DType, lanes: int, name: str | None = None) -> str:
    """One row converted."""
    if old is new:
        return x
    if old in SMALL_FLOATS:
        return _from_small(w, x, old, new, lanes, name)
    if new in SMALL_FLOATS:
        return _to_small(w, x, old, new, lanes, name)
    source, target = vector(scalar_type(old), lanes), vector(scalar_type(new), lanes)
    if new is dtypes.bool:
        test = "fcmp une" if old.kind == "float" else "icmp ne"
        return w.let(f"{test} {source} {x}, {_zero(old, lanes)}", name)
    if old.kind == "float" and dtypes.is_int(new):
        sign = "u" if new.kind == "uint" else "s"
        ending = f"{suffix(scalar_type(new), lanes)}.{suffix(scalar_type(old), lanes)}"
        return w.let(f"call {target} @llvm.fpto{sign}i.sat.{ending}({source} {x})", name)
    return w.let(f"{_instruction(old, new)} {source} {x} to {target}", name)


def _instruction(old: DType, new: DType) -> str:
    """The plain instruction for a conversion that is one."""
    if old.kind == "float":
        return "fpext" if new is dtypes.float64 else "fptrunc"
    if new.kind == "float":
        return "sitofp" if old.kind == "sint" else "uitofp"
    if old.bits > new.bits:
        return "trunc"
    if old.bits == new.bits:
        return "bitcast"
    return "sext" if old.kind == "sint" else "zext"


def _zero(dtype: DType, lanes: int) -> str:
    if lanes > 1:
        return "zeroinitializer"
    return "0.0" if dtype in _WIDE else "0"


def _from_small(w: Writer, x: str, old: DType, new: DType, lanes: int, name: str | None) -> str:
    """From float16 or bfloat16: to float32 first, which is exact."""
    if new is dtypes.float32:
        helper = "half_to_float" if old is dtypes.float16 else "bfloat_to_float"
        return _call(w, helper, x, "i16", "float", lanes, name)
    wide = _from_small(w, x, old, dtypes.float32, lanes, None)
    return cast_row(w, wide, dtypes.float32, new, lanes, name)


def _to_small(w: Writer, x: str, old: DType, new: DType, lanes: int, name: str | None) -> str:
    """To float16 or bfloat16, rounded once: what is not exact in float32 is rounded to odd there.

    Rounding to odd keeps whether anything was cut off in the last bit, so that the second rounding
    decides as if it saw the whole value.
    Source: Boldo, Melquiond, "When double rounding is odd", 2005.
    """
    if old is dtypes.float64:
        x = _call(w, "double_to_float_odd", x, "double", "float", lanes)
    elif old.itemsize == 8 and new is dtypes.bfloat16:
        helper = "long_to_double_odd" if old.kind == "sint" else "ulong_to_double_odd"
        x = _call(w, helper, x, "i64", "double", lanes)
        x = _call(w, "double_to_float_odd", x, "double", "float", lanes)
    elif old.itemsize == 4 and old.kind != "float" and new is dtypes.bfloat16:
        x = cast_row(w, x, old, dtypes.float64, lanes)
        x = _call(w, "double_to_float_odd", x, "double", "float", lanes)
    elif old is not dtypes.float32:
        # float16 holds no integer beyond 65504, so what float32 rounds is out of range anyway.
        x = cast_row(w, x, old, dtypes.float32, lanes)
    helper = "float_to_half" if new is dtypes.float16 else "float_to_bfloat"
    return _call(w, helper, x, "float", "i16", lanes, name)


# *** the small functions


def _call(
    w: Writer, helper: str, x: str, old: str, new: str, lanes: int, name: str | None = None
) -> str:
    function = f"@{helper}.{'s' if lanes == 1 else f'v{lanes}'}"
    source, target = vector(old, lanes), vector(new, lanes)
    if function not in w.helpers:
        head = f"define internal {target} {function}({source} %x) alwaysinline {{"
        body = [f"  {line}" for line in _BODIES[helper](lanes, w.half_convert)]
        w.helpers[function] = [head, *body, f"  ret {target} %r", "}"]
    return w.let(f"call {target} {function}({source} {x})", name)


def _types(lanes: int) -> tuple[str, str, str, Callable[[int | str], str]]:
    """(float, i32, i1) of these lanes, and a literal in each lane of i32."""

    def each(literal: int | str) -> str:
        return str(literal) if lanes == 1 else f"splat (i32 {literal})"

    return vector("float", lanes), vector("i32", lanes), vector("i1", lanes), each


def _float_constant(literal: str, lanes: int) -> str:
    return literal if lanes == 1 else f"splat (float {literal})"


def _half_to_float(lanes: int, native: bool) -> list[str]:
    f, i, b, c = _types(lanes)
    h = vector("i16", lanes)
    if native:
        half = vector("half", lanes)
        return [f"%h = bitcast {h} %x to {half}", f"%r = fpext {half} %h to {f}"]
    # The exponent is moved by a multiplication, which also makes subnormal halves normal.
    scale = _float_constant("0x46F0000000000000", lanes)  # 2**112
    return [
        f"%bits = zext {h} %x to {i}",
        f"%magnitude = and {i} %bits, {c(0x7FFF)}",
        f"%shifted = shl {i} %magnitude, {c(13)}",
        f"%small = bitcast {i} %shifted to {f}",
        f"%scaled = fmul {f} %small, {scale}",
        f"%finite = bitcast {f} %scaled to {i}",
        f"%infinite = or {i} %shifted, {c(0x7F800000)}",
        f"%is_finite = icmp ult {i} %magnitude, {c(0x7C00)}",
        f"%value = select {b} %is_finite, {i} %finite, {i} %infinite",
        f"%sign = and {i} %bits, {c(0x8000)}",
        f"%top = shl {i} %sign, {c(16)}",
        f"%whole = or {i} %value, %top",
        f"%r = bitcast {i} %whole to {f}",
    ]


def _float_to_half(lanes: int, native: bool) -> list[str]:
    f, i, b, c = _types(lanes)
    h = vector("i16", lanes)
    if native:
        half = vector("half", lanes)
        return [f"%h = fptrunc {f} %x to {half}", f"%r = bitcast {half} %h to {h}"]
    # Below 2**-14 the spacing is 2**-24, which is that of floats from 0.5 on: an addition rounds.
    return [
        f"%bits = bitcast {f} %x to {i}",
        f"%magnitude = and {i} %bits, {c(0x7FFFFFFF)}",
        f"%size = bitcast {i} %magnitude to {f}",
        f"%added = fadd {f} %size, {_float_constant('0.5', lanes)}",
        f"%added_bits = bitcast {f} %added to {i}",
        f"%subnormal = sub {i} %added_bits, {c(0x3F000000)}",
        f"%tail = lshr {i} %magnitude, {c(13)}",
        f"%odd = and {i} %tail, {c(1)}",
        f"%up = add {i} %magnitude, {c(0xFFF)}",
        f"%rounded = add {i} %up, %odd",
        f"%moved = sub {i} %rounded, {c(0x38000000)}",
        f"%normal = lshr {i} %moved, {c(13)}",
        f"%is_subnormal = icmp ult {i} %magnitude, {c(0x38800000)}",
        f"%finite = select {b} %is_subnormal, {i} %subnormal, {i} %normal",
        f"%too_large = icmp uge {i} %magnitude, {c(0x477FF000)}",
        f"%bounded = select {b} %too_large, {i} {c(0x7C00)}, {i} %finite",
        f"%is_nan = icmp ugt {i} %magnitude, {c(0x7F800000)}",
        f"%value = select {b} %is_nan, {i} {c(0x7E00)}, {i} %bounded",
        f"%top = lshr {i} %bits, {c(16)}",
        f"%sign = and {i} %top, {c(0x8000)}",
        f"%whole = or {i} %value, %sign",
        f"%r = trunc {i} %whole to {h}",
    ]


def _bfloat_to_float(lanes: int, native: bool) -> list[str]:
    f, i, _, c = _types(lanes)
    return [
        f"%bits = zext {vector('i16', lanes)} %x to {i}",
        f"%top = shl {i} %bits, {c(16)}",
        f"%r = bitcast {i} %top to {f}",
    ]


def _float_to_bfloat(lanes: int, native: bool) -> list[str]:
    # Not by the CPU's instruction either: that one takes subnormals for zero.
    f, i, b, c = _types(lanes)
    return [
        f"%bits = bitcast {f} %x to {i}",
        f"%top = lshr {i} %bits, {c(16)}",
        f"%odd = and {i} %top, {c(1)}",
        f"%up = add {i} %bits, {c(0x7FFF)}",
        f"%rounded = add {i} %up, %odd",
        f"%number = lshr {i} %rounded, {c(16)}",
        f"%nan = or {i} %top, {c(0x40)}",
        f"%is_nan = fcmp uno {f} %x, %x",
        f"%value = select {b} %is_nan, {i} %nan, {i} %number",
        f"%r = trunc {i} %value to {vector('i16', lanes)}",
    ]


def _double_to_float_odd(lanes: int, native: bool) -> list[str]:
    f, i, b, c = _types(lanes)
    d, ending = vector("double", lanes), suffix("double", lanes)
    return [
        f"%near = fptrunc {d} %x to {f}",
        f"%back = fpext {f} %near to {d}",
        f"%inexact = fcmp one {d} %back, %x",
        f"%size_back = call {d} @llvm.fabs.{ending}({d} %back)",
        f"%size = call {d} @llvm.fabs.{ending}({d} %x)",
        f"%over = fcmp ogt {d} %size_back, %size",
        f"%step = zext {b} %over to {i}",
        f"%bits = bitcast {f} %near to {i}",
        f"%cut = sub {i} %bits, %step",
        f"%odd = or {i} %cut, {c(1)}",
        f"%chosen = select {b} %inexact, {i} %odd, {i} %bits",
        f"%r = bitcast {i} %chosen to {f}",
    ]


def _long_to_double_odd(signed: bool) -> Callable[[int, bool], list[str]]:
    def body(lanes: int, native: bool) -> list[str]:
        q, b, d = (vector(t, lanes) for t in ("i64", "i1", "double"))

        def c(value: int) -> str:
            return str(value) if lanes == 1 else f"splat (i64 {value})"

        low, high = (-(1 << 53), 1 << 54) if signed else (0, 1 << 53)
        return [
            f"%tail = and {q} %x, {c(0x7FF)}",
            f"%cut = icmp ne {q} %tail, {c(0)}",
            f"%sticky = select {b} %cut, {q} {c(0x800)}, {q} {c(0)}",
            f"%even = and {q} %x, {c(-0x800)}",
            f"%odd = or {q} %even, %sticky",
            f"%moved = sub {q} %x, {c(low)}",
            f"%exact = icmp ule {q} %moved, {c(high)}",
            f"%chosen = select {b} %exact, {q} %x, {q} %odd",
            f"%r = {'sitofp' if signed else 'uitofp'} {q} %chosen to {d}",
        ]

    return body


_BODIES: dict[str, Callable[[int, bool], list[str]]] = {
    "half_to_float": _half_to_float,
    "float_to_half": _float_to_half,
    "bfloat_to_float": _bfloat_to_float,
    "float_to_bfloat": _float_to_bfloat,
    "double_to_float_odd": _double_to_float_odd,
    "long_to_double_odd": _long_to_double_odd(True),
    "ulong_to_double_odd": _long_to_double_odd(False),
}


def bitcast(w: Writer, value: Value, dtype: DType, shape: tuple[int, ...]) -> Value:
    """The same bits as another type; the last axis is rescaled when item sizes differ."""
    if value.dtype is dtype:
        return value
    old, new = value.width, shape[-1] if shape else 1
    found = []
    for name, row in zip(w.row_names("cast", shape), value.rows, strict=True):
        x = w.whole(row, value.dtype, old)
        found.append(_bitcast_row(w, x, (value.dtype, old), (dtype, new), name))
    return named(found, dtype, shape)


def _bitcast_row(
    w: Writer, x: str, source: tuple[DType, int], target: tuple[DType, int], name: str
) -> str:
    (old, old_lanes), (new, new_lanes) = source, target
    if old is dtypes.bool:
        x = w.let(f"zext {vector('i1', old_lanes)} {x} to {vector('i8', old_lanes)}")
    before = vector("i8" if old is dtypes.bool else scalar_type(old), old_lanes)
    after = vector("i8" if new is dtypes.bool else scalar_type(new), new_lanes)
    if new is dtypes.bool:
        x = w.let(f"bitcast {before} {x} to {after}")
        return w.let(f"icmp ne {after} {x}, {_zero(dtypes.uint8, new_lanes)}", name)
    return w.let(f"bitcast {before} {x} to {after}", name)
