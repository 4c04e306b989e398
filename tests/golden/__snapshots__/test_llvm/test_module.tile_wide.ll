define internal void @tile_body(ptr noalias %data0, ptr noalias %data1, ptr noalias %data2, i64 %core_id) #0 !dbg !39 {
entry:
  %acc0.0 = alloca <8 x float>, !dbg !4
  %acc0.1 = alloca <8 x float>, !dbg !4
  br label %loop_Lidx0, !dbg !5
loop_Lidx0:
  %Lidx0 = phi i32 [ 0, %entry ], [ %Lidx0_next, %next_Lidx0 ], !dbg !5
  %alu0 = mul nuw nsw i32 %Lidx0, 16, !dbg !6
  store <8 x float> splat (float 0.0), ptr %acc0.0, !dbg !8
  store <8 x float> splat (float 0.0), ptr %acc0.1, !dbg !8
  br label %loop_Ridx1, !dbg !9
loop_Ridx1:
  %Ridx1 = phi i32 [ 0, %loop_Lidx0 ], [ %Ridx1_next, %next_Ridx1 ], !dbg !9
  %alu1 = add nuw nsw i32 %alu0, 0, !dbg !10
  %alu2 = add nuw nsw i32 %alu1, %Ridx1, !dbg !11
  %ptr0 = getelementptr inbounds float, ptr %data1, i32 %alu2, !dbg !12
  %val0 = load float, ptr %ptr0, align 4, !dbg !13
  %alu3 = add nuw nsw i32 %alu0, 8, !dbg !14
  %alu4 = add nuw nsw i32 %alu3, %Ridx1, !dbg !15
  %ptr1 = getelementptr inbounds float, ptr %data1, i32 %alu4, !dbg !16
  %val1 = load float, ptr %ptr1, align 4, !dbg !17
  %alu5 = mul nuw nsw i32 %Ridx1, 8, !dbg !20
  %ptr2 = getelementptr inbounds float, ptr %data2, i32 %alu5, !dbg !21
  %val2 = load <8 x float>, ptr %ptr2, align 4, !dbg !22
  %val3.0 = load <8 x float>, ptr %acc0.0, !dbg !24
  %val3.1 = load <8 x float>, ptr %acc0.1, !dbg !24
  %t0 = insertelement <8 x float> poison, float %val0, i64 0, !dbg !25
  %t1 = shufflevector <8 x float> %t0, <8 x float> poison, <8 x i32> zeroinitializer, !dbg !25
  %alu6.0 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t1, <8 x float> %val2, <8 x float> %val3.0), !dbg !25
  %t2 = insertelement <8 x float> poison, float %val1, i64 0, !dbg !25
  %t3 = shufflevector <8 x float> %t2, <8 x float> poison, <8 x i32> zeroinitializer, !dbg !25
  %alu6.1 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t3, <8 x float> %val2, <8 x float> %val3.1), !dbg !25
  store <8 x float> %alu6.0, ptr %acc0.0, !dbg !26
  store <8 x float> %alu6.1, ptr %acc0.1, !dbg !26
  br label %next_Ridx1, !dbg !27
next_Ridx1:
  %Ridx1_next = add nuw nsw i32 %Ridx1, 1, !dbg !27
  %t4 = icmp slt i32 %Ridx1_next, 8, !dbg !27
  br i1 %t4, label %loop_Ridx1, label %end_Ridx1, !dbg !27
end_Ridx1:
  %val4.0 = load <8 x float>, ptr %acc0.0, !dbg !29
  %val4.1 = load <8 x float>, ptr %acc0.1, !dbg !29
  %ptr3 = getelementptr inbounds float, ptr %data0, i32 %alu1, !dbg !31
  store <8 x float> %val4.0, ptr %ptr3, align 4, !dbg !32
  %ptr4 = getelementptr inbounds float, ptr %data0, i32 %alu3, !dbg !34
  store <8 x float> %val4.1, ptr %ptr4, align 4, !dbg !35
  br label %next_Lidx0, !dbg !37
next_Lidx0:
  %Lidx0_next = add nuw nsw i32 %Lidx0, 1, !dbg !37
  %t5 = icmp slt i32 %Lidx0_next, 4, !dbg !37
  br i1 %t5, label %loop_Lidx0, label %end_Lidx0, !dbg !37
end_Lidx0:
  ret void
}

define void @tile(ptr %bufs, ptr %vals, i64 %core_id) #1 {
  %bufs0 = getelementptr inbounds ptr, ptr %bufs, i64 0
  %data0 = load ptr, ptr %bufs0, align 8
  %bufs1 = getelementptr inbounds ptr, ptr %bufs, i64 1
  %data1 = load ptr, ptr %bufs1, align 8
  %bufs2 = getelementptr inbounds ptr, ptr %bufs, i64 2
  %data2 = load ptr, ptr %bufs2, align 8
  call void @tile_body(ptr %data0, ptr %data1, ptr %data2, i64 %core_id)
  ret void
}

attributes #0 = { noinline nounwind "prefer-vector-width"="512" }
attributes #1 = { nounwind }

!llvm.dbg.cu = !{!40}
!llvm.module.flags = !{!43, !44}
!4 = !DILocation(line: 4, column: 1, scope: !39)
!5 = !DILocation(line: 5, column: 1, scope: !39)
!6 = !DILocation(line: 6, column: 1, scope: !39)
!8 = !DILocation(line: 8, column: 1, scope: !39)
!9 = !DILocation(line: 9, column: 1, scope: !39)
!10 = !DILocation(line: 10, column: 1, scope: !39)
!11 = !DILocation(line: 11, column: 1, scope: !39)
!12 = !DILocation(line: 12, column: 1, scope: !39)
!13 = !DILocation(line: 13, column: 1, scope: !39)
!14 = !DILocation(line: 14, column: 1, scope: !39)
!15 = !DILocation(line: 15, column: 1, scope: !39)
!16 = !DILocation(line: 16, column: 1, scope: !39)
!17 = !DILocation(line: 17, column: 1, scope: !39)
!20 = !DILocation(line: 20, column: 1, scope: !39)
!21 = !DILocation(line: 21, column: 1, scope: !39)
!22 = !DILocation(line: 22, column: 1, scope: !39)
!24 = !DILocation(line: 24, column: 1, scope: !39)
!25 = !DILocation(line: 25, column: 1, scope: !39)
!26 = !DILocation(line: 26, column: 1, scope: !39)
!27 = !DILocation(line: 27, column: 1, scope: !39)
!29 = !DILocation(line: 29, column: 1, scope: !39)
!31 = !DILocation(line: 31, column: 1, scope: !39)
!32 = !DILocation(line: 32, column: 1, scope: !39)
!34 = !DILocation(line: 34, column: 1, scope: !39)
!35 = !DILocation(line: 35, column: 1, scope: !39)
!37 = !DILocation(line: 37, column: 1, scope: !39)
!39 = distinct !DISubprogram(name: "tile", file: !41, line: 1, type: !42, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !40)
!40 = distinct !DICompileUnit(language: DW_LANG_C99, file: !41, emissionKind: LineTablesOnly)
!41 = !DIFile(filename: "tile", directory: "")
!42 = !DISubroutineType(types: !{})
!43 = !{i32 2, !"Debug Info Version", i32 3}
!44 = !{i32 2, !"Dwarf Version", i32 4}
