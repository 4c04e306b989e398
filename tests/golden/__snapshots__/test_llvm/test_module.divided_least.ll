define internal void @divided_body(ptr noalias %data0, ptr noalias %data1, ptr noalias %data2, i64 %core_id) #0 !dbg !15 {
entry:
  %val0 = load <4 x i32>, ptr %data2, align 4, !dbg !5
  %ptr0 = getelementptr inbounds i32, ptr %data1, <4 x i32> %val0, !dbg !7
  %val1 = call <4 x i32> @llvm.masked.gather.v4i32.v4p0(<4 x ptr> align 4 %ptr0, <4 x i1> splat (i1 true), <4 x i32> poison), !dbg !7
  %val2 = load <4 x i32>, ptr %data1, align 4, !dbg !9
  %t0 = icmp eq <4 x i32> %val1, zeroinitializer, !dbg !10
  %t1 = select <4 x i1> %t0, <4 x i32> splat (i32 1), <4 x i32> %val1, !dbg !10
  %t2 = icmp eq <4 x i32> %val2, splat (i32 -2147483648), !dbg !10
  %t3 = icmp eq <4 x i32> %val1, splat (i32 -1), !dbg !10
  %t4 = and <4 x i1> %t2, %t3, !dbg !10
  %t5 = select <4 x i1> %t4, <4 x i32> splat (i32 1), <4 x i32> %t1, !dbg !10
  %t6 = sdiv <4 x i32> %val2, %t5, !dbg !10
  %alu0 = select <4 x i1> %t0, <4 x i32> zeroinitializer, <4 x i32> %t6, !dbg !10
  %alu1 = srem <4 x i32> %alu0, splat (i32 10), !dbg !11
  store <4 x i32> %alu1, ptr %data0, align 4, !dbg !13
  ret void
}

define void @divided(ptr %bufs, ptr %vals, i64 %core_id) #1 {
  %bufs0 = getelementptr inbounds ptr, ptr %bufs, i64 0
  %data0 = load ptr, ptr %bufs0, align 8
  %bufs1 = getelementptr inbounds ptr, ptr %bufs, i64 1
  %data1 = load ptr, ptr %bufs1, align 8
  %bufs2 = getelementptr inbounds ptr, ptr %bufs, i64 2
  %data2 = load ptr, ptr %bufs2, align 8
  call void @divided_body(ptr %data0, ptr %data1, ptr %data2, i64 %core_id)
  ret void
}

attributes #0 = { noinline nounwind }
attributes #1 = { nounwind }

!llvm.dbg.cu = !{!16}
!llvm.module.flags = !{!19, !20}
!5 = !DILocation(line: 5, column: 1, scope: !15)
!7 = !DILocation(line: 7, column: 1, scope: !15)
!9 = !DILocation(line: 9, column: 1, scope: !15)
!10 = !DILocation(line: 10, column: 1, scope: !15)
!11 = !DILocation(line: 11, column: 1, scope: !15)
!13 = !DILocation(line: 13, column: 1, scope: !15)
!15 = distinct !DISubprogram(name: "divided", file: !17, line: 1, type: !18, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !16)
!16 = distinct !DICompileUnit(language: DW_LANG_C99, file: !17, emissionKind: LineTablesOnly)
!17 = !DIFile(filename: "divided", directory: "")
!18 = !DISubroutineType(types: !{})
!19 = !{i32 2, !"Debug Info Version", i32 3}
!20 = !{i32 2, !"Dwarf Version", i32 4}
