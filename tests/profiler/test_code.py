"""Code objects: sections read with suspicion, sizes of instructions, text from a child process."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tests.profiler.captures import every_capture, recorded
from tinylab.errors import CaptureError
from tinylab.profiler.capture import read_capture
from tinylab.profiler.code.disassemble import disassemble, libraries
from tinylab.profiler.code.elf import read_code_object
from tinylab.profiler.code.sizes import (
    BRANCH,
    END,
    GENERATIONS,
    SILENT,
    decode_instructions,
    generation_of,
)
from tinylab.profiler.demo import KERNEL, TEXT, code_object

HAS_LLVM = bool([v for v, _ in libraries() if v >= 15])
needs_llvm = pytest.mark.skipif(not HAS_LLVM, reason="no libLLVM 15 or newer on this machine")


def kernel() -> list[object]:
    text = read_code_object(code_object()).text
    return list(decode_instructions(text.data, text.address, generation_of("gfx1100")))


def test_sizes_of_the_demonstration_kernel() -> None:
    found = decode_instructions(
        read_code_object(code_object()).text.data, TEXT, generation_of("gfx1100")
    )
    assert [i.size for i in found] == [4 * len(line.words) for line in KERNEL]
    branch = next(i for i in found if i.flags & BRANCH)
    assert branch.target == found[5].pc
    assert found[-1].flags & END  # padding behind the end is left out
    assert found[10].flags & SILENT


@pytest.mark.parametrize(
    ("target", "words", "size"),
    [
        ("gfx1100", (0x4A0202FF, 0x80), 8),  # v_add_nc_u32 with a literal
        ("gfx1100", (0xCA100080, 0x01000080), 8),  # v_dual_mov_b32
        ("gfx1100", (0xF0000001, 0, 0), 12),  # an image with scattered addresses
        ("gfx1201", (0xEE05007C, 0, 0), 12),  # global_load_b32
        ("gfx1201", (0xF4004080, 0xF8000000), 8),  # s_load
        ("gfx950", (0x7E0002FA, 0), 8),  # v_mov_b32 with lane controls
        ("gfx950", (0xDC508000, 0), 8),  # global_load_dword
        ("gfx950", (0xD3AC0000, 0, 0, 0), 16),  # scaled matrix product
        ("gfx942", (0xBF8C0000,), 4),  # s_waitcnt
        ("gfx1100", (0xBE8000FF, 5), 8),  # s_mov_b32 with a literal
        ("gfx1100", (0xB9800000, 7), 8),  # s_setreg_imm32_b32
    ],
)
def test_sizes_by_hand(target: str, words: tuple[int, ...], size: int) -> None:
    text = b"".join(w.to_bytes(4, "little") for w in words)
    assert decode_instructions(text, 0, generation_of(target))[0].size == size


@given(st.binary(max_size=400), st.sampled_from(sorted(GENERATIONS)))
def test_any_bytes_decode_to_their_end_or_the_first_unknown(text: bytes, name: str) -> None:
    found = decode_instructions(text, 0x1000, GENERATIONS[name])
    at = 0x1000
    for i in found:
        assert i.pc == at
        assert len(i.raw) == i.size
        at += i.size
    assert at <= 0x1000 + len(text)


def test_chips_that_nobody_knows_are_refused() -> None:
    with pytest.raises(CaptureError, match="gfx1030"):
        generation_of("gfx1030")


@given(st.data())
def test_a_damaged_code_object_is_refused_or_read(data: st.DataObject) -> None:
    image = bytearray(code_object())
    for _ in range(data.draw(st.integers(1, 6))):
        where = data.draw(st.one_of(st.integers(0, 63), st.integers(0x1060, len(image) - 1)))
        image[where] = data.draw(st.integers(0, 255))
    length = data.draw(st.integers(0, len(image)))
    try:
        found = read_code_object(bytes(image[:length]))
        assert sum(len(s.data) for s in found.sections) <= len(found.sections) * length
        decode_instructions(found.text.data, found.text.address, GENERATIONS["gfx11"])
    except CaptureError:
        pass


@needs_llvm
def test_text_comes_from_a_child_process() -> None:
    found = decode_instructions(
        read_code_object(code_object()).text.data, TEXT, generation_of("gfx1100")
    )
    text = disassemble(found, "gfx1100")
    assert text.tool.startswith("libLLVM")
    assert [text.text[i.pc] for i in found] == [line.text for line in KERNEL]


@needs_llvm
def test_a_library_that_ends_its_process_gives_way() -> None:
    found = decode_instructions(
        read_code_object(code_object()).text.data, TEXT, generation_of("gfx1100")
    )
    unknown = disassemble(found, "gfx9999")
    assert unknown.text == {}
    assert "libllvm" in unknown.note


def test_without_a_disassembler_words_are_shown_and_the_package_is_named() -> None:
    found = decode_instructions(
        read_code_object(code_object()).text.data, TEXT, generation_of("gfx1100")
    )
    for tools in ((), ((99, "/no/such/libLLVM.so.99"),)):
        text = disassemble(found, "gfx950", tools)
        assert text.text == {}
        assert "install libllvm22" in text.note
    assert found[0].hex == "f4040001 f8000000"


@recorded
@every_capture
def test_sizes_equal_the_disassembler(folder: object) -> None:
    capture = read_capture(folder)  # type: ignore[arg-type]
    for info in capture.programs:
        loaded = capture.program(info.number)
        text = loaded.disassembly
        if not text.text:
            pytest.skip(text.note)
        assert set(text.text) == {i.pc for i in loaded.code.instructions}
