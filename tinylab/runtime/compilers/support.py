"""Functions that LLVM calls unasked and a JIT does not have: conversions to and from half.

Where a processor has no instruction for it, LLVM turns ``fptrunc double to half`` into a call of
``__truncdfhf2``, which lives in a compiler's runtime library. These are written in IR with integer
operations alone, so that they compile for any processor and call nothing in turn.

Source: Giesen, "float->half variants", 2012; rounding to odd before a second rounding:
Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008.
"""

SUPPORT_IR = """
define i32 @tinylab_half_bits(i32 %bits) {
  %sign = and i32 %bits, -2147483648
  %x = xor i32 %bits, %sign
  %nan = icmp ugt i32 %x, 2139095040
  %special = select i1 %nan, i32 32256, i32 31744
  %big = icmp uge i32 %x, 1199570944
  %small = icmp ult i32 %x, 947912704
  %xf = bitcast i32 %x to float
  %magic = bitcast i32 1056964608 to float
  %sum = fadd float %xf, %magic
  %sum.bits = bitcast float %sum to i32
  %subnormal = sub i32 %sum.bits, 1056964608
  %shifted = lshr i32 %x, 13
  %odd = and i32 %shifted, 1
  %rebased = add i32 %x, -939520001
  %rounded = add i32 %rebased, %odd
  %normal = lshr i32 %rounded, 13
  %finite = select i1 %small, i32 %subnormal, i32 %normal
  %value = select i1 %big, i32 %special, i32 %finite
  %sign16 = lshr i32 %sign, 16
  %all = or i32 %value, %sign16
  ret i32 %all
}

define i32 @tinylab_bfloat_bits(i32 %x) {
  %magnitude = and i32 %x, 2147483647
  %nan = icmp ugt i32 %magnitude, 2139095040
  %top = lshr i32 %x, 16
  %quiet = or i32 %top, 64
  %odd = and i32 %top, 1
  %bias = add i32 %odd, 32767
  %sum = add i32 %x, %bias
  %rounded = lshr i32 %sum, 16
  %value = select i1 %nan, i32 %quiet, i32 %rounded
  ret i32 %value
}

define i32 @tinylab_round_to_odd(double %d) {
  %f = fptrunc double %d to float
  %bits = bitcast float %f to i32
  %back = fpext float %f to double
  %same = fcmp ueq double %back, %d
  %last = and i32 %bits, 1
  %is.odd = icmp ne i32 %last, 0
  %keep = or i1 %same, %is.odd
  %d.bits = bitcast double %d to i64
  %back.bits = bitcast double %back to i64
  %d.size = and i64 %d.bits, 9223372036854775807
  %back.size = and i64 %back.bits, 9223372036854775807
  %below = icmp ult i64 %back.size, %d.size
  %step = select i1 %below, i32 1, i32 -1
  %other = add i32 %bits, %step
  %value = select i1 %keep, i32 %bits, i32 %other
  ret i32 %value
}

define half @__truncsfhf2(float %x) {
  %bits = bitcast float %x to i32
  %h = call i32 @tinylab_half_bits(i32 %bits)
  %h16 = trunc i32 %h to i16
  %half = bitcast i16 %h16 to half
  ret half %half
}

define half @__truncdfhf2(double %x) {
  %bits = call i32 @tinylab_round_to_odd(double %x)
  %h = call i32 @tinylab_half_bits(i32 %bits)
  %h16 = trunc i32 %h to i16
  %half = bitcast i16 %h16 to half
  ret half %half
}

define bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %b = call i32 @tinylab_bfloat_bits(i32 %bits)
  %b16 = trunc i32 %b to i16
  %value = bitcast i16 %b16 to bfloat
  ret bfloat %value
}

define bfloat @__truncdfbf2(double %x) {
  %bits = call i32 @tinylab_round_to_odd(double %x)
  %b = call i32 @tinylab_bfloat_bits(i32 %bits)
  %b16 = trunc i32 %b to i16
  %value = bitcast i16 %b16 to bfloat
  ret bfloat %value
}

define float @__extendhfsf2(half %x) {
  %h16 = bitcast half %x to i16
  %h = zext i16 %h16 to i32
  %magnitude = and i32 %h, 32767
  %wide = shl i32 %magnitude, 13
  %exponent = and i32 %wide, 260046848
  %normal = add i32 %wide, 939524096
  %infinite = add i32 %normal, 939524096
  %sub = add i32 %normal, 8388608
  %sub.float = bitcast i32 %sub to float
  %least = bitcast i32 947912704 to float
  %sub.value = fsub float %sub.float, %least
  %sub.bits = bitcast float %sub.value to i32
  %is.infinite = icmp eq i32 %exponent, 260046848
  %is.sub = icmp eq i32 %exponent, 0
  %finite = select i1 %is.sub, i32 %sub.bits, i32 %normal
  %value = select i1 %is.infinite, i32 %infinite, i32 %finite
  %sign = and i32 %h, 32768
  %sign32 = shl i32 %sign, 16
  %bits = or i32 %value, %sign32
  %float = bitcast i32 %bits to float
  ret float %float
}
"""

SUPPORT_NAMES = ("__truncsfhf2", "__truncdfhf2", "__truncsfbf2", "__truncdfbf2", "__extendhfsf2")

_UNARY = "ceil cos exp exp2 floor log log10 log2 nearbyint rint round roundeven sin sqrt tan trunc"
_BINARY = "fmax fmaximum fmin fminimum fmod ldexp pow remainder"

# What a kernel may call: pure functions of libc and libm that no time limit or sandbox need mind.
LIBC_NAMES = frozenset(
    [
        f"{name}{suffix}"
        for name in (*_UNARY.split(), *_BINARY.split(), "fma")
        for suffix in ("", "f")
    ]
    + ["memcpy", "memmove", "memset", "bzero"]
)
