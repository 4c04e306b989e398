import pytest

from tinylab.errors import DeviceError
from tinylab.helpers import Context, text


@pytest.fixture(autouse=True)
def colours():
    with Context(NO_COLOR=0):
        yield


def test_colours_take_no_room():
    red = text.colored("abc", "red")
    assert red == "\x1b[31mabc\x1b[0m"
    assert text.colored("abc", "RED") == "\x1b[91mabc\x1b[0m"
    assert text.colored("abc", "red", background=True) == "\x1b[41mabc\x1b[0m"
    assert text.ansistrip(red) == "abc"
    assert text.ansilen(red) == 3
    assert text.ansipad(red, 5) == red + "  "
    assert text.colored("abc", None) == "abc"
    with Context(NO_COLOR=1):
        assert text.colored("abc", "red") == "abc"


def test_function_names():
    assert text.to_function_name("my kernel!") == "my20kernel21"
    assert text.to_function_name(text.colored("r_4", "blue")) == "r_4"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(20.0, "   20.00s "), (0.5, "  500.00ms"), (1e-3, " 1000.00us"), (2e-6, "    2.00us")],
)
def test_times(seconds, shown):
    assert text.time_to_str(seconds) == shown


def test_sizes_and_counts():
    assert text.size_to_str(12) == "12 B"
    assert text.size_to_str(4096) == "4.00 KB"
    assert text.size_to_str(3 << 30) == "3.00 GB"
    assert text.pluralize("kernel", 1) == "1 kernel"
    assert text.pluralize("kernel", 2) == "2 kernels"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("(a+b)", "a+b"), ("(a)+(b)", "(a)+(b)"), ("((a)+(b))", "(a)+(b)"), ("a", "a"), ("()", "")],
)
def test_strip_parens(given, wanted):
    assert text.strip_parens(given) == wanted


def test_word_wrap_counts_what_is_seen():
    assert text.word_wrap("abcdef", 3) == "abc\ndef"
    wrapped = text.word_wrap(text.colored("abcdef", "red"), 3)
    assert text.ansistrip(wrapped) == "abc\ndef"
    assert text.word_wrap("ab\ncdef", 3) == "ab\ncde\nf"


def test_select_by_name_answers_with_the_nearest():
    names = ["CLANG", "LLVM"]
    assert text.select_by_name(names, str, "", "no") == names
    assert text.select_by_name(names, str, "LLVM", "no") == ["LLVM"]
    with pytest.raises(DeviceError, match=r"no renderer, did you mean: CLANG"):
        text.select_by_name(names, str, "CLAG", "no renderer")
    with pytest.raises(DeviceError, match=r"no renderer$"):
        text.select_by_name(names, str, "XYZ", "no renderer")
