import os
import pathlib
import re
import subprocess
import sys
import warnings

import pytest

from tinylab.helpers import DEBUG, DEV, EMULATED_DTYPES, Context, ContextVar, context, getenv
from tinylab.helpers.context import SETTINGS

# The names and defaults that scripts rely on; environment variables may not be set here.
DEFAULTS = {
    "ALL2ALL": 0, "ALLOW_DEVICE_USAGE": 1, "ALLOW_TF32": 0, "ALLREDUCE_CAST": 1, "BEAM": 0,
    "CACHELEVEL": 2, "CAPTURE_PROCESS_REPLAY": 0, "CAPTURING": 1, "CCACHE": 1, "CHECK_OOB": 0,
    "DEBUG": 0, "DEBUG_RANGEIFY": 0, "DEFAULT_FLOAT": "float32", "DEFAULT_INT": "int32",
    "DISABLE_FAST_IDIV": 1, "DISALLOW_BROADCAST": 0, "EMULATED_DTYPES": "", "FLOAT16": 0,
    "FUSE_OPTIM": 0, "IGNORE_BEAM_CACHE": 0, "IMAGE": 0, "JIT": 1, "JIT_BATCH_SIZE": 32, "LRU": 1,
    "MAX_BUFFER_SIZE": 0, "MAX_KERNEL_BUFFERS": 0, "NOLOCALS": 0, "NOOPT": 0, "NO_COLOR": 0,
    "NO_MEMORY_PLANNER": 0, "NULL_ALLOW_COPYOUT": 0, "OPENPILOT_HACKS": 0, "PCONTIG": 0,
    "PROFILE": 0, "REWRITE_STACK_LIMIT": 250000, "RING": 1, "SCACHE": 1, "SPEC": 1,
    "SPLIT_REDUCEOP": 1, "TC": 1, "TC_OPT": 0, "TC_SELECT": -1, "TRACEMETA": 1,
    "TRACK_MATCH_STATS": 0, "TRAINING": 0, "TRANSCENDENTAL": 1, "TUPLE_ORDER": 1, "USE_ATOMICS": 0,
    "VALIDATE_WITH_CPU": 0, "VIZ": 0, "WINO": 0,
}  # fmt: skip


def fresh(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k not in SETTINGS} | env
    return subprocess.run([sys.executable, "-c", code], env=clean, capture_output=True, text=True)


def test_defaults():
    assert {name: SETTINGS[name].default for name in DEFAULTS} == DEFAULTS
    assert all(setting.help for setting in SETTINGS.values())


def test_the_environment_sets_the_start_value():
    code = "import tinylab.helpers as h; print(h.DEBUG, h.PROFILE, h.TRACK_MATCH_STATS)"
    assert fresh(code, VIZ="-1", DEBUG="3").stdout.split() == ["3", "1", "2"]


def test_a_value_of_the_wrong_type_is_named():
    done = fresh("import tinylab.helpers", DEBUG="abc")
    assert done.returncode != 0
    assert "DEBUG=abc is not int" in done.stderr


REFUSED = {name: s for name, s in SETTINGS.items() if s.lacks}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_setting_that_would_do_nothing_is_refused(name):
    setting = REFUSED[name]
    other = setting.default + 1
    with pytest.raises(RuntimeError, match=f"{name}={other} is not supported: ."):
        Context(**{name: other}).__enter__()
    with pytest.raises(ValueError, match="is not supported"):
        setting.value = other
    with Context(**{name: setting.default}):
        assert setting == setting.default
    done = fresh("import tinylab.helpers", **{name: str(other)})
    assert f"{name}={other} is not supported" in done.stderr


IDLE = {name: s for name, s in SETTINGS.items() if s.idle}


@pytest.mark.parametrize("name", sorted(IDLE))
def test_a_setting_without_effect_says_so_once(name, monkeypatch):
    setting = IDLE[name]
    monkeypatch.setattr(setting, "_met", (setting.default,))
    other = setting.default + ("1" if isinstance(setting.default, str) else 1)
    told = pytest.warns(UserWarning, match=f"^{name}={other} has no effect: .")
    with told, Context(**{name: other}):
        assert setting == other
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Context(**{name: other}), Context(**{name: setting.default}):
            assert setting == setting.default


def test_the_environments_too():
    done = fresh("import tinylab.helpers", BEAM="2", TC="0", PARALLEL="1")
    assert "BEAM=2 has no effect: kernels are not searched yet" in done.stderr
    assert done.stderr.count("has no effect") == 1


def test_every_setting_is_read_or_says_why_not():
    own = pathlib.Path(context.__file__)
    files = set(own.parents[1].rglob("*.py")) - {own, own.with_name("__init__.py")}
    texts = [p.read_text() for p in files]
    words = set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", " ".join(texts)))
    names = {id(value): name for name, value in vars(context).items()}
    told = {key for key, s in SETTINGS.items() if s.lacks or s.idle}
    assert {key for key, s in SETTINGS.items() if names[id(s)] not in words} <= told


def test_context_nests_and_gives_back():
    before = DEBUG.value
    with Context(DEBUG=5):
        assert DEBUG == 5
        with Context(DEBUG=6, NOOPT=1):
            assert DEBUG >= 6 > 5
        assert DEBUG == 5
    assert before == DEBUG


def test_context_gives_back_after_an_error_and_as_a_decorator():
    @Context(DEBUG=7)
    def inside():
        return DEBUG.value

    before = DEBUG.value
    assert (inside(), inside(), DEBUG.value) == (7, 7, before)
    with pytest.raises(ZeroDivisionError), Context(DEBUG=4):
        raise ZeroDivisionError
    assert before == DEBUG


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(KeyError, match="did you mean DEBUG"):
        Context(DEBGU=1)


def test_a_setting_exists_once():
    with pytest.raises(RuntimeError, match="attempt to recreate ContextVar DEBUG"):
        ContextVar("DEBUG", 0)


def test_a_setting_counts_as_its_value():
    with Context(DEBUG=3):
        assert DEBUG
        assert DEBUG > 2
        assert DEBUG < 4
        assert DEBUG <= 3
        assert DEBUG != 2
        assert list(range(DEBUG)) == [0, 1, 2]
        assert f"{DEBUG}" == "3"


def test_tolist():
    with Context(EMULATED_DTYPES="half,long"):
        assert EMULATED_DTYPES.tolist() == ["half", "long"]
        assert EMULATED_DTYPES.tolist(type("T", (), {"half": 1, "long": 2})) == [1, 2]
    assert EMULATED_DTYPES.tolist() == []


def test_getenv_converts_to_the_default(monkeypatch):
    monkeypatch.setenv("TINYLAB_TEST_A", "12")
    assert getenv("TINYLAB_TEST_A") == 12
    assert getenv("TINYLAB_TEST_A", "x") == "12"
    assert getenv("TINYLAB_TEST_NONE", 5) == 5
    monkeypatch.setenv("TINYLAB_TEST_A", "13")
    assert getenv("TINYLAB_TEST_A") == 12  # read once


def test_dev_is_taken_apart():
    with Context(DEV="PCI+AMD:LLVM:gfx942;CPU:LLVM"):
        assert (DEV.device, DEV.renderer, DEV.arch, DEV.interface) == (
            "AMD",
            "LLVM",
            "gfx942",
            "PCI",
        )
        assert str(DEV.target("CPU", arch="x")) == "CPU:LLVM:x"
        with Context(DEV="null"):
            assert DEV.device == "NULL"
    assert str(DEV.target("CPU")) == "CPU" or DEV.value
