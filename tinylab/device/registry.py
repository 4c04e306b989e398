"""The devices of this process, by name; opened and loaded when first asked for."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import pathlib
import pkgutil
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tinylab.errors import ContractError, DeviceError, ForbiddenDeviceError, UnknownDeviceError
from tinylab.helpers.context import ALLOW_DEVICE_USAGE, DEBUG, DEV
from tinylab.helpers.near import closest

if TYPE_CHECKING:
    from tinylab.device.program import Compiled

# Tried in this order where DEV names none.
ALL_DEVICES = ["METAL", "AMD", "NV", "CUDA", "QCOM", "CL", "CPU", "DSP", "WEBGPU"]
_HARMLESS = ("DISK", "TINYFS", "NPY", "PYTHON", "NULL")
# What is behind the colon of these is a place; of all others a number, and 0 is not written.
_PLACES = ("DISK", "TINYFS")
_NUMBER = re.compile("[1-9][0-9]*")


class _Device:
    """The devices that are open, by canonical name: Device["cpu:0"] is Device["CPU"]."""

    def __init__(self) -> None:
        self._open: dict[str, Compiled[Any]] = {}
        self._lock = threading.RLock()

    def canonicalize(self, device: str | None) -> str:
        """A device's one spelling: "cpu:0" -> "CPU", "cpu:1" -> "CPU:1", None -> the default."""
        if device is not None and not isinstance(device, str):
            raise UnknownDeviceError(
                f"a device is called by a string, not {device!r}",
                help=f"there are {', '.join(self.known())}",
            )
        return self.DEFAULT if device is None else _canonical(device)

    def __getitem__(self, name: str | None) -> Compiled[Any]:
        """The device of that name, opened on first use.

        Raises: UnknownDeviceError, with the nearest right name, if there is none.
        """
        if isinstance(name, str) and ALLOW_DEVICE_USAGE.value:
            known = self._open.get(name)  # each piece of memory asks, by the one spelling
            if known is not None:
                return known
        device = self.canonicalize(name)
        if not ALLOW_DEVICE_USAGE and device.split(":")[0] not in _HARMLESS:
            raise ForbiddenDeviceError(f"usage of device {device} disallowed")
        found = self._open.get(device)
        return found if found is not None else self._open_device(device)

    def opened(self, device: str) -> Compiled[Any]:
        """A device that is open, by its one spelling, whether it may be used or not; else as [].

        Raises: UnknownDeviceError, ForbiddenDeviceError as [] does.
        """
        found = self._open.get(device) if isinstance(device, str) else None
        return self[device] if found is None else found

    def _open_device(self, device: str) -> Compiled[Any]:
        with self._lock:
            if device not in self._open:
                make: Callable[[str], Compiled[Any]] = self.get_class(device)
                self._open[device] = make(device)
                if DEBUG >= 1:
                    print(f"opened device {device} from pid:{os.getpid()}")
            return self._open[device]

    def get_class(self, device: str) -> type[Compiled[Any]]:
        """The class behind a name, loaded but not opened."""
        kind = self.kind(self.canonicalize(device))
        module = importlib.import_module(f"tinylab.runtime.ops_{kind.lower()}")
        wanted = f"{kind.lower()}device"
        found: type[Compiled[Any]] = next(v for k, v in vars(module).items() if k.lower() == wanted)
        return found

    def kind(self, device: str) -> str:
        """What comes before the number of a name in canonical spelling: "CPU:1" -> "CPU".

        Raises: UnknownDeviceError, with the nearest right name, if there is no such device.
        """
        kind, _, number = device.partition(":")
        if kind not in self.known():
            near = closest(kind, self.known())
            raise UnknownDeviceError(
                f"no device is called {kind}",
                help=f"did you mean {near}?" if near else f"there are {', '.join(self.known())}",
            )
        if number and kind not in _PLACES and not _NUMBER.fullmatch(number):
            raise UnknownDeviceError(
                f"no device is called {device}: behind the colon stands a number",
                help=f"there are {kind}, {kind}:1 and so on",
            )
        return kind

    @functools.cache  # noqa: B019 (one registry, one list)
    def known(self) -> tuple[str, ...]:
        """Every device that this installation has code for, whether it opens here or not."""
        folder = str(pathlib.Path(__file__).parents[1] / "runtime")
        names = [m.name for m in pkgutil.iter_modules([folder]) if m.name.startswith("ops_")]
        return tuple(sorted(name.removeprefix("ops_").upper() for name in names))

    @property
    def DEFAULT(self) -> str:
        """DEV's device, or the first that opens."""
        return _chosen(DEV.device) if DEV.device else self._first_that_opens

    @DEFAULT.setter
    def DEFAULT(self, value: object) -> None:
        raise AttributeError(f"setting Device.DEFAULT is deprecated, use DEV.value = {value!r}")

    @functools.cached_property
    def _first_that_opens(self) -> str:
        refuse_old_settings(os.environ)
        first = next(self.get_available_devices(), None)
        if first is None:
            raise DeviceError("no usable devices", help="DEV=PYTHON runs anywhere, slowly")
        return first

    @property
    def default(self) -> Compiled[Any]:
        """The default device, opened."""
        return self[self.DEFAULT]

    def get_available_devices(self) -> Iterator[str]:
        """The names of the devices that open on this machine."""
        for name in ALL_DEVICES:
            if name in self.known():
                with contextlib.suppress(Exception):
                    yield self[name].device

    def synchronize_all(self) -> None:
        """Waits for all that was started on any open device."""
        for device in list(self._open.values()):
            device.synchronize()


@functools.cache
def _canonical(device: str) -> str:
    kind, _, index = device.partition(":")
    return kind.upper() + (f":{index}" if index and index != "0" else "")


@functools.cache
def _chosen(device: str) -> str:
    """What DEV names; the older variables for a part of it would be overlooked in silence."""
    name = _canonical(device)
    prefix = f"{name.partition(':')[0]}_"
    refuse_old_settings({k: v for k, v in os.environ.items() if k.startswith(prefix)})
    return name


# What chose a device before DEV did: CPU=1, CPU_LLVM=1, CPU_CC=clang, AMD_IFACE=PCI, EMULATE=AMD.
_RENDERERS = "LLVM|CLANG|CLANGJIT|X86|LVP|PTX|NAK|NVRTC|NVCC|HIP|HIPCC|IR3|CL"
_OLD = re.compile(rf"({'|'.join([*ALL_DEVICES, 'PYTHON', 'NULL'])})(?:_({_RENDERERS}|CC|IFACE))?")
_EMULATED = {
    "AMD": "gfx1100",
    "AMD_RDNA4": "gfx1201",
    "AMD_MFMA": "gfx950",
    "AMD_CDNA4": "gfx950",
    "CUDA": "sm_80",
    "CUDA_SM75": "sm_75",
    "CUDA_SM89": "sm_89",
}


def refuse_old_settings(environ: Mapping[str, str]) -> None:
    """Variables that chose a device before DEV did are no longer read, and say what replaces them.

    Raises: ContractError, an AssertionError, for the first of them.
    """
    for name, value in environ.items():
        new = _instead_of(name, value)
        if new is not None:
            raise ContractError(f"{name}={value} is deprecated, use DEV={new} instead")


def _instead_of(name: str, value: str) -> str | None:
    if name == "EMULATE" and value in _EMULATED:
        return f"PYTHON::{_EMULATED[value]}"
    found = _OLD.fullmatch(name)
    if found is None or value in ("", "0"):
        return None
    device, part = found.groups()
    if part == "IFACE":
        return f"{value}+{device}"
    if part == "CC":
        return f"{device}:{value.upper()}"
    if value != "1":
        return None
    return device if part is None else f"{device}:{part}"


Device = _Device()


def canonicalize_device(device: str | tuple[str, ...] | list[str] | None) -> str | tuple[str, ...]:
    """One name, or a tuple of them, in canonical spelling; a tuple of one is one name."""
    if not isinstance(device, (tuple, list)):
        return Device.canonicalize(device)
    names = tuple(Device.canonicalize(d) for d in device)
    return names[0] if len(names) == 1 else names


def enumerate_devices_str() -> Iterator[str]:
    """A line per known device: whether it opens here, and its default target."""
    for name in Device.known():
        try:
            yield f"{name:8s} {Device[name].target}"
        except Exception as e:
            yield f"{name:8s} not here: {e}"
