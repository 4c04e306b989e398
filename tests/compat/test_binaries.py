"""Tools that need something beside Python: what they do with it, what they say without."""

import hashlib
import sys
import types

import pytest

from tinylab.compat import binaries, module
from tinylab.errors import DeviceError, FetchError, OperandError
from tinylab.helpers import cache

helpers = module("tinygrad.helpers")


@pytest.fixture
def objdump(tmp_path):
    """A tool that prints what it was called with, the file's bytes among it."""
    path = tmp_path / "objdump"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nraw = open(sys.argv[2], 'rb').read()\n"
        "if raw == b'bad': sys.exit('file format not recognized')\n"
        "print(sys.argv[1], raw)\n"
    )
    path.chmod(0o755)
    return path


def test_an_object_file_is_listed_by_the_machine_s_tool(objdump, capsys, monkeypatch):
    helpers.cpu_objdump(b"code", objdump_tool=str(objdump))
    assert capsys.readouterr().out.strip() == "-d b'code'"
    (objdump.parent / "llvm-objdump").symlink_to(objdump)
    monkeypatch.setenv("PATH", str(objdump.parent))
    helpers.amdgpu_disassemble(b"code")
    assert capsys.readouterr().out.strip() == "-d b'code'"
    with pytest.raises(DeviceError, match="cannot read 3 bytes of a program: file format"):
        helpers.cpu_objdump(b"bad")


@pytest.mark.parametrize("tool", ["cpu_objdump", "amdgpu_disassemble"])
def test_a_tool_that_is_absent_is_named(tool, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match=r"objdump cannot be run: No such file.*\nhelp: install"):
        getattr(helpers, tool)(b"code")


def test_bare_code_is_listed_by_capstone(monkeypatch, capsys):
    line = types.SimpleNamespace(address=0, mnemonic="ret", op_str="lr")
    stand_in = types.SimpleNamespace(
        CS_ARCH_X86=3, CS_MODE_64=8,
        Cs=lambda arch, mode: types.SimpleNamespace(disasm=lambda code, at: [line] * len(code)),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "capstone", stand_in)
    helpers.capstone_flatdump(b"\xc3\xc3", "x86_64")
    assert capsys.readouterr().out == "0x000000: ret lr\n" * 2
    monkeypatch.setitem(sys.modules, "capstone", None)
    with pytest.raises(DeviceError, match=r"not installed\nhelp: pip install capstone"):
        helpers.capstone_flatdump(b"\xc3", "x86_64")
    with pytest.raises(DeviceError, match="no machine is called 'vax'"):
        helpers.capstone_flatdump(b"\xc3", "vax")


def test_the_cache_can_be_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "CACHEDB", str(tmp_path / "new" / "cache.db"))
    monkeypatch.setattr(cache, "CACHELEVEL", 2)
    cache.diskcache_put("table", "key", 3)
    connection = helpers.db_connection()
    assert connection.execute("select count(*) from cached").fetchone() == (1,)
    connection.close()


def test_firmware_is_this_machine_s_own(tmp_path, monkeypatch):
    monkeypatch.setattr(binaries, "_FIRMWARE", tmp_path)
    (tmp_path / "amdgpu").mkdir()
    (tmp_path / "amdgpu" / "a.bin").write_bytes(b"abc")
    right = hashlib.sha256(b"abc").hexdigest()
    assert helpers.fetch_fw("amdgpu", "a.bin", right) == b"abc"
    with pytest.raises(FetchError, match="has SHA-256"):
        helpers.fetch_fw("amdgpu", "a.bin", "0")
    with pytest.raises(FetchError, match=r"cannot be read: No such file.*\nhelp: install linux"):
        helpers.fetch_fw("amdgpu", "b.bin", right)


def test_wrong_arguments_are_told():
    with pytest.raises(OperandError, match="cpu_objdump: lib is bytes, not 5"):
        helpers.cpu_objdump(5)
    with pytest.raises(OperandError, match="fetch_fw needs name and sha256"):
        helpers.fetch_fw("amdgpu")
