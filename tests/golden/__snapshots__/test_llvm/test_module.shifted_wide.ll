define internal void @shifted_body(ptr noalias %data0, ptr noalias %data1, i64 %n, i64 %core_id) #0 !dbg !13 {
entry:
  %n.i32 = trunc i64 %n to i32, !dbg !3
  %t0 = insertelement <8 x i32> poison, i32 %n.i32, i64 0, !dbg !5
  %t1 = shufflevector <8 x i32> %t0, <8 x i32> poison, <8 x i32> zeroinitializer, !dbg !5
  %alu0 = add nuw nsw <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %t1, !dbg !5
  %cmp0 = icmp slt <8 x i32> %alu0, splat (i32 8), !dbg !6
  %ptr0 = getelementptr float, ptr %data1, i32 %n.i32, !dbg !7
  %val0 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %ptr0, <8 x i1> %cmp0, <8 x float> splat (float 0.0)), !dbg !8
  %cmp1 = icmp ne i32 %n.i32, 0, !dbg !9
  br i1 %cmp1, label %then0, label %join0, !dbg !11
then0:
  store <8 x float> %val0, ptr %data0, align 4, !dbg !11
  br label %join0, !dbg !11
join0:
  ret void
}

define void @shifted(ptr %bufs, ptr %vals, i64 %core_id) #1 {
  %bufs0 = getelementptr inbounds ptr, ptr %bufs, i64 0
  %data0 = load ptr, ptr %bufs0, align 8
  %bufs1 = getelementptr inbounds ptr, ptr %bufs, i64 1
  %data1 = load ptr, ptr %bufs1, align 8
  %vals0 = getelementptr inbounds i64, ptr %vals, i64 0
  %var0 = load i64, ptr %vals0, align 8
  call void @shifted_body(ptr %data0, ptr %data1, i64 %var0, i64 %core_id)
  ret void
}

attributes #0 = { noinline nounwind "prefer-vector-width"="512" }
attributes #1 = { nounwind }

!llvm.dbg.cu = !{!14}
!llvm.module.flags = !{!17, !18}
!3 = !DILocation(line: 3, column: 1, scope: !13)
!5 = !DILocation(line: 5, column: 1, scope: !13)
!6 = !DILocation(line: 6, column: 1, scope: !13)
!7 = !DILocation(line: 7, column: 1, scope: !13)
!8 = !DILocation(line: 8, column: 1, scope: !13)
!9 = !DILocation(line: 9, column: 1, scope: !13)
!11 = !DILocation(line: 11, column: 1, scope: !13)
!13 = distinct !DISubprogram(name: "shifted", file: !15, line: 1, type: !16, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !14)
!14 = distinct !DICompileUnit(language: DW_LANG_C99, file: !15, emissionKind: LineTablesOnly)
!15 = !DIFile(filename: "shifted", directory: "")
!16 = !DISubroutineType(types: !{})
!17 = !{i32 2, !"Debug Info Version", i32 3}
!18 = !{i32 2, !"Dwarf Version", i32 4}
