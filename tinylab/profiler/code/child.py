"""Disassembles in a process of its own: an unknown processor's name ends the whole process.

Run as a file, with nothing of tinylab: a JSON request on stdin, a JSON answer on stdout.

    {"library": "libLLVM.so.19.1", "cpu": "gfx1100", "base": 5888, "text": "0080b4f4..."}
    {"version": 19, "lines": [[5888, 8, "s_load_b64 s[0:1], s[2:3], null"], ...]}
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any


def main() -> None:
    """Answers one request."""
    request = json.load(sys.stdin)
    library = ctypes.CDLL(request["library"])
    for part in ("TargetInfo", "TargetMC", "Disassembler"):
        getattr(library, f"LLVMInitializeAMDGPU{part}")()
    library.LLVMCreateDisasmCPUFeatures.restype = ctypes.c_void_p
    library.LLVMDisasmInstruction.restype = ctypes.c_size_t
    context = library.LLVMCreateDisasmCPUFeatures(
        b"amdgcn-amd-amdhsa", request["cpu"].encode(), b"", None, 0, None, None
    )
    if not context:
        sys.exit(f"{request['library']} does not know {request['cpu']}")
    text = bytes.fromhex(request["text"])
    lines = disassemble(library, ctypes.c_void_p(context), text, request["base"])
    json.dump({"version": version(library), "lines": lines}, sys.stdout)


def version(library: Any) -> int | None:
    """Major version of LLVM, where it can be asked."""
    if not hasattr(library, "LLVMGetVersion"):
        return None
    major = ctypes.c_uint()
    library.LLVMGetVersion(ctypes.byref(major), None, None)
    return major.value


def disassemble(library: Any, context: Any, text: bytes, base: int) -> list[tuple[int, int, str]]:
    """Address, size and text of each instruction; one word and no text where there is none."""
    buffer = ctypes.create_string_buffer(text, len(text))
    line = ctypes.create_string_buffer(512)
    start = ctypes.addressof(buffer)
    lines, at = [], 0
    while at < len(text):
        size = library.LLVMDisasmInstruction(
            context,
            ctypes.c_void_p(start + at),
            ctypes.c_uint64(len(text) - at),
            ctypes.c_uint64(base + at),
            line,
            ctypes.c_size_t(len(line)),
        )
        words = " ".join(line.value.decode("utf-8", "replace").split()) if size else ""
        lines.append((base + at, size or 4, words))
        at += size or 4
    return lines


if __name__ == "__main__":
    main()
