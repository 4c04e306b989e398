define internal void @halves_body(ptr noalias %data0, ptr noalias %data1, i64 %core_id) #0 !dbg !10 {
entry:
  %val0 = load <8 x i16>, ptr %data1, align 2, !dbg !4
  %t0 = call <8 x float> @half_to_float.v8(<8 x i16> %val0), !dbg !5
  %t1 = fmul <8 x float> %t0, splat (float 2.0), !dbg !5
  %alu0 = call <8 x i16> @float_to_half.v8(<8 x float> %t1), !dbg !5
  %t2 = call <8 x float> @half_to_float.v8(<8 x i16> %alu0), !dbg !6
  %cast0 = call <8 x i16> @float_to_bfloat.v8(<8 x float> %t2), !dbg !6
  store <8 x i16> %cast0, ptr %data0, align 2, !dbg !8
  ret void
}

define void @halves(ptr %bufs, ptr %vals, i64 %core_id) #1 {
  %bufs0 = getelementptr inbounds ptr, ptr %bufs, i64 0
  %data0 = load ptr, ptr %bufs0, align 8
  %bufs1 = getelementptr inbounds ptr, ptr %bufs, i64 1
  %data1 = load ptr, ptr %bufs1, align 8
  call void @halves_body(ptr %data0, ptr %data1, i64 %core_id)
  ret void
}

define internal <8 x float> @half_to_float.v8(<8 x i16> %x) alwaysinline {
  %bits = zext <8 x i16> %x to <8 x i32>
  %magnitude = and <8 x i32> %bits, splat (i32 32767)
  %shifted = shl <8 x i32> %magnitude, splat (i32 13)
  %small = bitcast <8 x i32> %shifted to <8 x float>
  %scaled = fmul <8 x float> %small, splat (float 0x46F0000000000000)
  %finite = bitcast <8 x float> %scaled to <8 x i32>
  %infinite = or <8 x i32> %shifted, splat (i32 2139095040)
  %is_finite = icmp ult <8 x i32> %magnitude, splat (i32 31744)
  %value = select <8 x i1> %is_finite, <8 x i32> %finite, <8 x i32> %infinite
  %sign = and <8 x i32> %bits, splat (i32 32768)
  %top = shl <8 x i32> %sign, splat (i32 16)
  %whole = or <8 x i32> %value, %top
  %r = bitcast <8 x i32> %whole to <8 x float>
  ret <8 x float> %r
}

define internal <8 x i16> @float_to_half.v8(<8 x float> %x) alwaysinline {
  %bits = bitcast <8 x float> %x to <8 x i32>
  %magnitude = and <8 x i32> %bits, splat (i32 2147483647)
  %size = bitcast <8 x i32> %magnitude to <8 x float>
  %added = fadd <8 x float> %size, splat (float 0.5)
  %added_bits = bitcast <8 x float> %added to <8 x i32>
  %subnormal = sub <8 x i32> %added_bits, splat (i32 1056964608)
  %tail = lshr <8 x i32> %magnitude, splat (i32 13)
  %odd = and <8 x i32> %tail, splat (i32 1)
  %up = add <8 x i32> %magnitude, splat (i32 4095)
  %rounded = add <8 x i32> %up, %odd
  %moved = sub <8 x i32> %rounded, splat (i32 939524096)
  %normal = lshr <8 x i32> %moved, splat (i32 13)
  %is_subnormal = icmp ult <8 x i32> %magnitude, splat (i32 947912704)
  %finite = select <8 x i1> %is_subnormal, <8 x i32> %subnormal, <8 x i32> %normal
  %too_large = icmp uge <8 x i32> %magnitude, splat (i32 1199566848)
  %bounded = select <8 x i1> %too_large, <8 x i32> splat (i32 31744), <8 x i32> %finite
  %is_nan = icmp ugt <8 x i32> %magnitude, splat (i32 2139095040)
  %value = select <8 x i1> %is_nan, <8 x i32> splat (i32 32256), <8 x i32> %bounded
  %top = lshr <8 x i32> %bits, splat (i32 16)
  %sign = and <8 x i32> %top, splat (i32 32768)
  %whole = or <8 x i32> %value, %sign
  %r = trunc <8 x i32> %whole to <8 x i16>
  ret <8 x i16> %r
}

define internal <8 x i16> @float_to_bfloat.v8(<8 x float> %x) alwaysinline {
  %bits = bitcast <8 x float> %x to <8 x i32>
  %top = lshr <8 x i32> %bits, splat (i32 16)
  %odd = and <8 x i32> %top, splat (i32 1)
  %up = add <8 x i32> %bits, splat (i32 32767)
  %rounded = add <8 x i32> %up, %odd
  %number = lshr <8 x i32> %rounded, splat (i32 16)
  %nan = or <8 x i32> %top, splat (i32 64)
  %is_nan = fcmp uno <8 x float> %x, %x
  %value = select <8 x i1> %is_nan, <8 x i32> %nan, <8 x i32> %number
  %r = trunc <8 x i32> %value to <8 x i16>
  ret <8 x i16> %r
}

attributes #0 = { noinline nounwind }
attributes #1 = { nounwind }

!llvm.dbg.cu = !{!11}
!llvm.module.flags = !{!14, !15}
!4 = !DILocation(line: 4, column: 1, scope: !10)
!5 = !DILocation(line: 5, column: 1, scope: !10)
!6 = !DILocation(line: 6, column: 1, scope: !10)
!8 = !DILocation(line: 8, column: 1, scope: !10)
!10 = distinct !DISubprogram(name: "halves", file: !12, line: 1, type: !13, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !11)
!11 = distinct !DICompileUnit(language: DW_LANG_C99, file: !12, emissionKind: LineTablesOnly)
!12 = !DIFile(filename: "halves", directory: "")
!13 = !DISubroutineType(types: !{})
!14 = !{i32 2, !"Debug Info Version", i32 3}
!15 = !{i32 2, !"Dwarf Version", i32 4}
