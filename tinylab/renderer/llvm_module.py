"""The text around a kernel's statements: its function, the wrapper, debug metadata."""

from __future__ import annotations

from typing import NamedTuple

from tinylab.renderer.base import variable_name
from tinylab.renderer.llvm_writer import Line, Writer
from tinylab.uop.ops import UOp


class Head(NamedTuple):
    """What a kernel is called, and with what."""

    name: str
    buffers: list[UOp]
    variables: list[UOp]
    wide: bool  # whether 512-bit vectors are wanted


def module(w: Writer, head: Head, uops: int) -> list[Line]:
    """All lines of the module."""
    lines: list[Line] = [*_function(w, head, uops), ("", None), *_wrapper(head)]
    for body in w.helpers.values():
        lines += [("", None), *((text, None) for text in body)]
    lines += [("", None), *((text, None) for text in _metadata(w, head, uops))]
    return lines


def _function(w: Writer, head: Head, uops: int) -> list[Line]:
    pointers = [f"ptr noalias %data{u.arg.slot}" for u in head.buffers]
    values = [f"i64 %{variable_name(u)}" for u in head.variables if u.arg.name != "core_id"]
    arguments = ", ".join([*pointers, *values, "i64 %core_id"])
    return [
        (f"define internal void @{head.name}_body({arguments}) #0 !dbg !{uops + 1} {{", None),
        ("entry:", None),
        *w.entry,
        *w.lines,
        ("  ret void", None),
        ("}", None),
    ]


def _wrapper(head: Head) -> list[Line]:
    """The function with one signature for every kernel."""
    texts = [f"define void @{head.name}(ptr %bufs, ptr %vals, i64 %core_id) #1 {{"]
    arguments = []
    for slot in (u.arg.slot for u in head.buffers):
        texts.append(f"  %bufs{slot} = getelementptr inbounds ptr, ptr %bufs, i64 {slot}")
        texts.append(f"  %data{slot} = load ptr, ptr %bufs{slot}, align 8")
        arguments.append(f"ptr %data{slot}")
    for i, u in enumerate(head.variables):
        if u.arg.name == "core_id":
            continue
        texts.append(f"  %vals{i} = getelementptr inbounds i64, ptr %vals, i64 {i}")
        texts.append(f"  %var{i} = load i64, ptr %vals{i}, align 8")
        arguments.append(f"i64 %var{i}")
    arguments.append("i64 %core_id")
    texts += [f"  call void @{head.name}_body({', '.join(arguments)})", "  ret void", "}"]
    return [(text, None) for text in texts]


def _metadata(w: Writer, head: Head, uops: int) -> list[str]:
    """Attributes, and a location per uop: number n is line n, the file and function come behind."""
    wide = ' "prefer-vector-width"="512"' if head.wide else ""
    used = sorted({i for _, i in (*w.entry, *w.lines) if i is not None})
    scope, unit, file, kind, version, dwarf = range(uops + 1, uops + 7)
    return [
        f"attributes #0 = {{ noinline nounwind{wide} }}",
        "attributes #1 = { nounwind }",
        "",
        f"!llvm.dbg.cu = !{{!{unit}}}",
        f"!llvm.module.flags = !{{!{version}, !{dwarf}}}",
        *(f"!{i + 1} = !DILocation(line: {i + 1}, column: 1, scope: !{scope})" for i in used),
        f'!{scope} = distinct !DISubprogram(name: "{head.name}", file: !{file}, line: 1, '
        f"type: !{kind}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !{unit})",
        f"!{unit} = distinct !DICompileUnit(language: DW_LANG_C99, file: !{file}, "
        "emissionKind: LineTablesOnly)",
        f'!{file} = !DIFile(filename: "{head.name}", directory: "")',
        f"!{kind} = !DISubroutineType(types: !{{}})",
        f'!{version} = !{{i32 2, !"Debug Info Version", i32 3}}',
        f'!{dwarf} = !{{i32 2, !"Dwarf Version", i32 4}}',
    ]
