"""Small kernels by hand, in the CPU's one signature."""

HEAD = """define void @k(ptr %bufs, ptr %vals, i64 %core_id) {
  %data0 = load ptr, ptr %bufs, align 8
"""


def kernel(*body: str) -> str:
    """A kernel of one buffer, %data0."""
    return HEAD + "\n".join(f"  {line}" for line in body) + "\n  ret void\n}\n"


def store_at(offset: int, kind: str = "i32", value: str = "7") -> str:
    """Stores at a byte offset."""
    return kernel(
        f"%at = getelementptr i8, ptr %data0, i64 {offset}",
        f"store {kind} {value}, ptr %at, align 1",
    )


def load_at(offset: int) -> str:
    """Loads from a byte offset."""
    return kernel(
        f"%at = getelementptr i8, ptr %data0, i64 {offset}",
        "%v = load volatile i32, ptr %at, align 1",
    )


ADD_ONE = kernel(
    "%v = load float, ptr %data0", "%w = fadd float %v, 1.0", "store float %w, ptr %data0"
)

# Counts, per part, how often it ran.
COUNT = kernel(
    "%at = getelementptr i64, ptr %data0, i64 %core_id",
    "%v = load i64, ptr %at",
    "%w = add i64 %v, 1",
    "store i64 %w, ptr %at",
)

# data0[0] = vals[1]
VALUE = kernel(
    "%at = getelementptr i64, ptr %vals, i64 1",
    "%v = load i64, ptr %at",
    "store i64 %v, ptr %data0",
)

# With vectors and a debug location per line.
DEBUG_LINES = """
define void @k(ptr %bufs, ptr %vals, i64 %core_id) !dbg !5 {
  %data0 = load ptr, ptr %bufs, !dbg !6
  %v = load <16 x float>, ptr %data0, align 64, !dbg !7
  %w = fmul <16 x float> %v, %v, !dbg !8
  store <16 x float> %w, ptr %data0, align 64, !dbg !8
  ret void, !dbg !6
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!1, !2}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !3, emissionKind: LineTablesOnly)
!1 = !{i32 2, !"Debug Info Version", i32 3}
!2 = !{i32 2, !"Dwarf Version", i32 4}
!3 = !DIFile(filename: "k", directory: "")
!4 = !DISubroutineType(types: !{})
!5 = distinct !DISubprogram(name: "k", file: !3, line: 1, type: !4, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !0)
!6 = !DILocation(line: 11, column: 1, scope: !5)
!7 = !DILocation(line: 12, column: 1, scope: !5)
!8 = !DILocation(line: 13, column: 1, scope: !5)
"""  # noqa: E501
