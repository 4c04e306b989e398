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
  %h = bitcast <8 x i16> %x to <8 x half>
  %r = fpext <8 x half> %h to <8 x float>
  ret <8 x float> %r
}

define internal <8 x i16> @float_to_half.v8(<8 x float> %x) alwaysinline {
  %h = fptrunc <8 x float> %x to <8 x half>
  %r = bitcast <8 x half> %h to <8 x i16>
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

attributes #0 = { noinline nounwind "prefer-vector-width"="512" }
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
