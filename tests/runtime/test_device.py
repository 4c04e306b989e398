import os
import subprocess
import sys

import pytest

from tinylab import Tensor
from tinylab.device import Device, canonicalize_device, enumerate_devices_str
from tinylab.device.registry import refuse_old_settings
from tinylab.errors import DeviceError, UnknownDeviceError
from tinylab.helpers import Context


@pytest.mark.parametrize(
    ("given", "name"), [("cpu", "CPU"), ("CPU:0", "CPU"), ("cpu:1", "CPU:1"), ("null", "NULL")]
)
def test_one_spelling_per_device(given, name):
    assert Device.canonicalize(given) == name
    assert Device[given] is Device[name]
    assert Device[given].device == name


def test_the_default_follows_dev():
    with Context(DEV=""):
        assert Device.DEFAULT == Device.canonicalize(None) == "CPU"
    with Context(DEV="NULL"):
        assert Device.DEFAULT == "NULL"
        assert Device.default is Device["null"]
    with pytest.raises(AttributeError, match=r"setting Device.DEFAULT is deprecated"):
        Device.DEFAULT = "CPU"


@pytest.mark.parametrize(
    ("wrong", "near"), [("CPUU", "CPU"), ("NUL", "NULL"), ("PYTHN", "PYTHON"), ("cpuu:1", "CPU")]
)
def test_an_unknown_name_is_answered_with_the_nearest(wrong, near):
    with pytest.raises(UnknownDeviceError, match=f"did you mean {near}"):
        Device[wrong]


@pytest.mark.parametrize("wrong", ["CPU:x", "CPU:-1", "cpu:01", "CPU:1:2", "NULL: 1"])
def test_behind_the_colon_stands_a_number(wrong):
    with pytest.raises(UnknownDeviceError, match=r"no device is called .*: behind the colon"):
        Tensor([1.0]).to(wrong)


def test_scripts_catch_an_unknown_device():
    with pytest.raises(ModuleNotFoundError, match="no device is called FOO"):
        Device["FOO"]


def test_use_may_be_forbidden():
    with Context(ALLOW_DEVICE_USAGE=0):
        with pytest.raises(AssertionError, match="usage of device CPU disallowed"):
            Device["CPU"]
        assert Device["PYTHON"].device == "PYTHON"


def test_several_devices():
    assert canonicalize_device(("cpu:0", "cpu:1")) == ("CPU", "CPU:1")
    assert canonicalize_device(("cpu",)) == "CPU"
    assert any(line.startswith("CPU") for line in enumerate_devices_str())
    assert "CPU" in list(Device.get_available_devices())


def test_the_toolchain_follows_dev():
    host = Device["CPU"].arch
    assert host.endswith(",native")
    with Context(DEV="CPU:LLVM:x86_64,x86-64"):
        assert str(Device["CPU"].target) == "CPU:LLVM:x86_64,x86-64"
        assert Device["CPU"].compiler.cpu == "x86-64"
        assert Device["CPU"].renderer.target.arch == "x86_64,x86-64"
    assert Device["CPU"].arch == host


@pytest.mark.parametrize(
    ("dev", "what"),
    [
        ("CPU:LLVN", "CPU has no renderer LLVN, did you mean: LLVM"),
        ("CPU:XYZ", "CPU has no renderer XYZ\nhelp: CPU has .*LLVM"),
        ("NULL:LLVMM", "NULL has no renderer LLVMM, did you mean: LLVM"),
    ],
)
def test_a_wrong_renderer_is_answered_with_the_nearest(dev, what):
    device = dev.split(":")[0]
    with Context(DEV=dev), pytest.raises(DeviceError, match=what):
        Device[device].renderer  # noqa: B018


@pytest.mark.parametrize("dev", ["XX+CPU", "XX:0,1+CPU", ":0+CPU"])
def test_an_interface_that_is_none_is_told(dev):
    with (
        Context(DEV=dev),
        pytest.raises(DeviceError, match=r"CPU has no interface (XX|0)\nhelp: .*DEV=CPU"),
    ):
        Device["CPU"].renderer  # noqa: B018


@pytest.mark.parametrize(
    ("name", "value", "new"),
    [
        ("CPU", "1", "CPU"),
        ("CPU_LLVM", "1", "CPU:LLVM"),
        ("CPU_CC", "clang", "CPU:CLANG"),
        ("AMD_IFACE", "PCI", r"PCI\+AMD"),
        ("EMULATE", "AMD_RDNA4", "PYTHON::gfx1201"),
    ],
)
def test_what_chose_a_device_before_dev_says_what_replaces_it(name, value, new):
    message = rf"^{name}={value} is deprecated, use DEV={new} instead$"
    with pytest.raises(AssertionError, match=message):
        refuse_old_settings({"HOME": "/", name: value})


def test_an_older_variable_beside_dev_is_told():
    env = {**os.environ, "DEV": "CPU", "CPU_CC": "clang"}
    code = "from tinylab import Device; Device.DEFAULT"
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert "CPU_CC=clang is deprecated, use DEV=CPU:CLANG instead" in found.stderr


def test_other_variables_are_nobodys_business():
    others = {"CPU": "0", "CPU_COUNT": "1", "CUDA_LAUNCH_BLOCKING": "1", "EMULATE": ""}
    refuse_old_settings(others)
    # The same with one that is refused: what was passed over did not end the search.
    with pytest.raises(AssertionError, match="is deprecated"):
        refuse_old_settings({**others, "CPU": "1"})
