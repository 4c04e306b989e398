define internal void @dot_body(ptr noalias %data0, ptr noalias %data1, ptr noalias %data2, i64 %core_id) #0 !dbg !23 {
entry:
  %acc0 = alloca <16 x float>, !dbg !4
  store <16 x float> splat (float 0.0), ptr %acc0, !dbg !5
  br label %loop_Ridx0, !dbg !6
loop_Ridx0:
  %Ridx0 = phi i32 [ 0, %entry ], [ %Ridx0_next, %next_Ridx0 ], !dbg !6
  %alu0 = mul nuw nsw i32 %Ridx0, 16, !dbg !7
  %ptr0 = getelementptr inbounds float, ptr %data1, i32 %alu0, !dbg !8
  %val0 = load <16 x float>, ptr %ptr0, align 4, !dbg !9
  %ptr1 = getelementptr inbounds float, ptr %data2, i32 %alu0, !dbg !10
  %val1 = load <16 x float>, ptr %ptr1, align 4, !dbg !11
  %alu1 = fmul contract <16 x float> %val0, %val1, !dbg !12
  %val2 = load <16 x float>, ptr %acc0, !dbg !14
  %alu2 = fadd reassoc contract <16 x float> %val2, %alu1, !dbg !15
  store <16 x float> %alu2, ptr %acc0, !dbg !16
  br label %next_Ridx0, !dbg !17
next_Ridx0:
  %Ridx0_next = add nuw nsw i32 %Ridx0, 1, !dbg !17
  %t0 = icmp slt i32 %Ridx0_next, 4, !dbg !17
  br i1 %t0, label %loop_Ridx0, label %end_Ridx0, !dbg !17
end_Ridx0:
  %val3 = load <16 x float>, ptr %acc0, !dbg !19
  store <16 x float> %val3, ptr %data0, align 4, !dbg !21
  ret void
}

define void @dot(ptr %bufs, ptr %vals, i64 %core_id) #1 {
  %bufs0 = getelementptr inbounds ptr, ptr %bufs, i64 0
  %data0 = load ptr, ptr %bufs0, align 8
  %bufs1 = getelementptr inbounds ptr, ptr %bufs, i64 1
  %data1 = load ptr, ptr %bufs1, align 8
  %bufs2 = getelementptr inbounds ptr, ptr %bufs, i64 2
  %data2 = load ptr, ptr %bufs2, align 8
  call void @dot_body(ptr %data0, ptr %data1, ptr %data2, i64 %core_id)
  ret void
}

attributes #0 = { noinline nounwind "prefer-vector-width"="512" }
attributes #1 = { nounwind }

!llvm.dbg.cu = !{!24}
!llvm.module.flags = !{!27, !28}
!4 = !DILocation(line: 4, column: 1, scope: !23)
!5 = !DILocation(line: 5, column: 1, scope: !23)
!6 = !DILocation(line: 6, column: 1, scope: !23)
!7 = !DILocation(line: 7, column: 1, scope: !23)
!8 = !DILocation(line: 8, column: 1, scope: !23)
!9 = !DILocation(line: 9, column: 1, scope: !23)
!10 = !DILocation(line: 10, column: 1, scope: !23)
!11 = !DILocation(line: 11, column: 1, scope: !23)
!12 = !DILocation(line: 12, column: 1, scope: !23)
!14 = !DILocation(line: 14, column: 1, scope: !23)
!15 = !DILocation(line: 15, column: 1, scope: !23)
!16 = !DILocation(line: 16, column: 1, scope: !23)
!17 = !DILocation(line: 17, column: 1, scope: !23)
!19 = !DILocation(line: 19, column: 1, scope: !23)
!21 = !DILocation(line: 21, column: 1, scope: !23)
!23 = distinct !DISubprogram(name: "dot", file: !25, line: 1, type: !26, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !24)
!24 = distinct !DICompileUnit(language: DW_LANG_C99, file: !25, emissionKind: LineTablesOnly)
!25 = !DIFile(filename: "dot", directory: "")
!26 = !DISubroutineType(types: !{})
!27 = !{i32 2, !"Debug Info Version", i32 3}
!28 = !{i32 2, !"Dwarf Version", i32 4}
