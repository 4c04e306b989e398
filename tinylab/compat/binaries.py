"""Tools that scripts call on what was compiled, and where things lie on this machine."""

from __future__ import annotations

import hashlib
import importlib
import pathlib
import sqlite3
import subprocess
import tempfile
from typing import Any

from tinylab.errors import DeviceError, FetchError
from tinylab.helpers import cache
from tinylab.helpers.arguments import explained_names

_FIRMWARE = pathlib.Path("/lib/firmware")
# Architectures of capstone, by the names of machines: names of its constants.
_MODES = {
    "x86_64": ("CS_ARCH_X86", "CS_MODE_64"),
    "amd64": ("CS_ARCH_X86", "CS_MODE_64"),
    "aarch64": ("CS_ARCH_ARM64", "CS_MODE_ARM"),
    "arm64": ("CS_ARCH_ARM64", "CS_MODE_ARM"),
}


def _listing(tool: str, lib: bytes, package: str) -> str:
    """What a disassembler prints of an object file.

    Raises: DeviceError where there is no such program, or it cannot read the file.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "object"
        path.write_bytes(lib)
        try:
            done = subprocess.run([tool, "-d", str(path)], capture_output=True, text=True)
        except OSError as e:
            raise DeviceError(
                f"{tool} cannot be run: {e.strerror}", help=f"install {package}"
            ) from e
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
        raise DeviceError(f"{tool} cannot read {len(lib)} bytes of a program: {said[0]}")
    return done.stdout


def cpu_objdump(lib: bytes, objdump_tool: str = "objdump") -> None:
    """Print the instructions of an object file for this machine.

    Raises: DeviceError where the tool is absent, or cannot read the file.
    """
    print(_listing(objdump_tool, lib, "binutils, or name another with objdump_tool="))


def amdgpu_disassemble(lib: bytes) -> None:
    """Print the instructions of a code object for AMD, as LLVM's own tool shows them.

    Raises: DeviceError where the tool is absent, or cannot read the file.
    """
    print(_listing("llvm-objdump", lib, "llvm"))


def capstone_flatdump(lib: bytes, arch: str) -> None:
    """Print the instructions of bare machine code.

    Raises: DeviceError where the capstone package is absent, or it lacks the architecture.
    """
    if arch not in _MODES:
        raise DeviceError(f"no machine is called {arch!r}", help=f"there are {', '.join(_MODES)}")
    try:
        capstone: Any = importlib.import_module("capstone")
    except ImportError as e:
        raise DeviceError("capstone is not installed", help="pip install capstone") from e
    for each in capstone.Cs(*(getattr(capstone, name) for name in _MODES[arch])).disasm(lib, 0):
        print(f"{each.address:#08x}: {each.mnemonic} {each.op_str}")


def db_connection() -> sqlite3.Connection:
    """The file of the cache, opened."""
    pathlib.Path(cache.CACHEDB).parent.mkdir(parents=True, exist_ok=True)
    return sqlite3.connect(cache.CACHEDB, timeout=60)


def fetch_fw(path: str, name: str, sha256: str) -> bytes:
    """The bytes of a device's firmware, out of this machine's own; nothing is downloaded.

    Raises: FetchError where it is absent, or another version.
    """
    file = _FIRMWARE / path / name
    try:
        data = file.read_bytes()
    except OSError as e:
        raise FetchError(
            f"the firmware {file} cannot be read: {e.strerror}",
            help="install linux-firmware; tinylab downloads none",
        ) from e
    got = hashlib.sha256(data).hexdigest()
    if got != sha256:
        raise FetchError(f"{file} has SHA-256 {got}, not {sha256}", help="it is another version")
    return data


explained_names(globals())
