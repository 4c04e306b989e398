"""Text of instructions, from a libLLVM if this machine has one that knows the processor.

Found by its file name, loaded in a child process, newest first; a library that ends its process or
decodes nothing gives way to the next. Without one the raw words are shown, and the name of the
package that would bring the text.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tinylab.profiler.code.sizes import Instruction

_PLACES = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/llvm-*/lib",
    "/usr/local/lib",
    "/opt/rocm*/llvm/lib",
    "/opt/homebrew/opt/llvm/lib",
    f"{Path.home()}/.rustup/toolchains/*/lib",
)
_LIBRARY = re.compile(r"libLLVM(?:\.so\.|-)(\d\d)\b.*$")
_SECONDS = 20.0
_NEEDS = {"gfx11": 15, "gfx12": 19, "gfx9": 22}  # oldest version that decodes the generation


@dataclass(frozen=True)
class Disassembly:
    """Text by address; ``tool`` says what made it, ``note`` what to install if nothing did."""

    text: dict[int, str]
    tool: str = ""
    note: str = ""


@functools.cache
def libraries() -> tuple[tuple[int, str], ...]:
    """(version, path) of the shared libLLVMs found here, newest first."""
    found: dict[int, str] = {}
    for place in _PLACES:
        _root, _, pattern = place.partition("*")
        folders = [Path(place)] if not pattern else Path("/").glob(place[1:])
        for folder in folders:
            for path in sorted(folder.glob("libLLVM*")) if folder.is_dir() else ():
                match = _LIBRARY.search(path.name)
                if match and _is_library(path):
                    found.setdefault(int(match[1]), str(path))
    return tuple(sorted(found.items(), reverse=True))


def _is_library(path: Path) -> bool:
    """Whether a file is machine code; some of that name are scripts for a linker."""
    try:
        with path.open("rb") as f:
            return f.read(4) in (b"\x7fELF", b"\xcf\xfa\xed\xfe")
    except OSError:
        return False


def disassemble(
    instructions: Sequence[Instruction], cpu: str, tools: Sequence[tuple[int, str]] | None = None
) -> Disassembly:
    """The text of instructions that follow each other.

    Args:
        instructions: what sizes.py found.
        cpu: as LLVM names it, such as "gfx1100".
        tools: (version, library) to try in order; those of this machine by default.
    """
    if not instructions:
        return Disassembly({})
    code = b"".join(i.raw for i in instructions)
    for version, library in libraries() if tools is None else tools:
        lines = _ask(library, cpu, instructions[0].pc, code)
        text = {pc: words for pc, _size, words in lines or () if words}
        if 2 * sum(i.pc in text for i in instructions) > len(instructions):
            return Disassembly(text, f"libLLVM {version}")
    return Disassembly({}, note=_advice(cpu))


def _ask(library: str, cpu: str, base: int, code: bytes) -> list[tuple[int, int, str]] | None:
    request = {"library": library, "cpu": cpu, "base": base, "text": code.hex()}
    command = [sys.executable, "-I", str(Path(__file__).with_name("child.py"))]
    try:
        done = subprocess.run(
            command, input=json.dumps(request), capture_output=True, text=True, timeout=_SECONDS
        )
    except (subprocess.TimeoutExpired, OSError):
        return None
    if done.returncode:
        return None
    try:
        lines: list[tuple[int, int, str]] = json.loads(done.stdout)["lines"]
    except (ValueError, KeyError):
        return None
    return lines


def _advice(cpu: str) -> str:
    number = cpu.removeprefix("gfx")
    generation = "gfx9" if number.startswith("9") else f"gfx{number[:2]}"
    needs = _NEEDS.get(generation, max(_NEEDS.values()))
    return (
        f"no disassembler for {cpu} here, raw encodings are shown: "
        f"install libllvm{needs} or newer (apt install libllvm{max(needs, 22)}, from apt.llvm.org)"
    )
