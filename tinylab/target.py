"""What to compile for: the grammar of DEV, parts of an architecture, what a target can do.

[INTERFACE[:indices]+]DEVICE[:RENDERER[:arch]], several separated by ;

"CPU:LLVM:x86_64,znver2,avx2,-avx512f"  ->  Target(device="CPU", renderer="LLVM", arch="x86_64,...")
"PCI:0,1+AMD", "CPU;AMD:LLVM", ":LLVM"   any part may be empty
"""

from __future__ import annotations

import functools
import platform
from typing import Any, NamedTuple

from tinylab.errors import DeviceError
from tinylab.helpers.arguments import explained_class


@explained_class
class Target(NamedTuple):
    """One device of DEV; an empty field means: choose."""

    device: str = ""
    renderer: str = ""
    arch: str = ""
    interface: str = ""
    indices: str = ""

    @classmethod
    def parse(cls, text: str) -> Target:
        """The target that a text names: "cpu:llvm" -> Target(device="CPU", renderer="LLVM").

        Raises: DeviceError for a second + or a third colon.
        """
        if text.count("+") > 1:
            raise DeviceError(f"too many '+' in target string: {text}", help=_GRAMMAR)
        left, plus, right = text.strip().rpartition("+")
        interface, indices = left, ""
        if plus and ":" in left:
            interface, indices = left.rsplit(":", 1)
        parts = right.split(":")
        if len(parts) > 3:
            raise DeviceError(f"too many ':' in target string: {text}", help=_GRAMMAR)
        device, renderer, arch = parts + [""] * (3 - len(parts))
        return cls(device.upper(), renderer.upper(), arch, interface, indices)

    def __repr__(self) -> str:
        """The shortest text that parses to it."""
        tail = ":".join((self.device, self.renderer, self.arch)).rstrip(":")
        if not (self.interface or self.indices):
            return tail
        return f"{self.interface}{':' + self.indices if self.indices else ''}+{tail}"

    def __str__(self) -> str:
        return repr(self)

    def replacedefault(self, **defaults: str) -> Target:
        """The same with ``defaults`` in the fields that are empty."""
        return self._replace(**{k: v for k, v in defaults.items() if not getattr(self, k)})


_GRAMMAR = "write [INTERFACE[:indices]+]DEVICE[:RENDERER[:arch]], such as CPU:LLVM"


@functools.cache
def parse_targets(text: str) -> tuple[Target, ...]:
    """The targets of a DEV text, in order; none for an empty one."""
    return tuple(Target.parse(part) for part in str(text).split(";") if part.strip())


def target_for(targets: tuple[Target, ...], device: str, defaults: dict[str, str]) -> Target:
    """What is asked for ``device`` (the default device when it is empty).

    A target that names no device, such as ":LLVM", speaks of whichever is the default one.
    """
    if not device:
        found = targets[0] if targets else Target()
    else:
        named = [t for t in targets if t.device == device]
        unnamed = [t for t in targets[:1] if not t.device]
        found = (named or unnamed or [Target()])[0]._replace(device=device)
    return found.replacedefault(**defaults)


# *** CPU architectures


class CPUArch(NamedTuple):
    """A machine, a processor of it, and features added or, with "-", taken away."""

    machine: str
    cpu: str
    features: tuple[str, ...] = ()

    @classmethod
    def parse(cls, arch: str) -> CPUArch:
        """The parts of a text; "" is this machine: "x86_64,znver2,-fma" -> x86_64, znver2, (-fma).

        Raises: DeviceError if there is a machine but no processor.
        """
        if not arch:
            return cls(host_machine(), "native")
        machine, *rest = arch.split(",")
        if not rest:
            raise DeviceError(
                f"invalid arch string: {arch}",
                help=f"write machine,cpu[,features], such as {host_machine()},native",
            )
        return cls(machine, rest[0], tuple(rest[1:]))

    @property
    def llvm_features(self) -> str:
        """As LLVM wants them: "avx2,-fma" -> "+avx2,-fma"."""
        return ",".join(f if f[:1] in "+-" else f"+{f}" for f in self.features)

    @property
    def is_host(self) -> bool:
        """Whether its code can run here, going by the machine alone."""
        return self.machine == host_machine()


@functools.cache
def host_machine() -> str:
    """This machine's name as LLVM writes it: x86_64 or aarch64, mostly."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


@functools.cache
def cpu_flags() -> frozenset[str]:
    """The instruction sets that this machine's kernel reports; empty where it reports none."""
    try:
        with open("/proc/cpuinfo") as f:
            for line in f:
                if line.startswith(("flags", "Features")):
                    return frozenset(line.split(":", 1)[1].split())
    except OSError:
        pass
    return frozenset()


# Processors that have more than the least of their machine; others say so by a feature.
_WIDE_CPUS = {
    64: (
        "znver4",
        "znver5",
        "skylake-avx512",
        "cascadelake",
        "icelake",
        "sapphirerapids",
        "x86-64-v4",
    ),
    32: ("znver", "haswell", "broadwell", "skylake", "alderlake", "x86-64-v3"),
}


@functools.cache
def vector_bytes(arch: str) -> int:
    """The width of a target's vector registers: 64 with AVX-512, 32 with AVX, else 16.

    "x86_64,x86-64" -> 16, "x86_64,x86-64,avx2" -> 32, "x86_64,znver4,-avx512f" -> 32
    """
    machine, cpu, features = CPUArch.parse(arch)
    if machine != "x86_64":
        return 16
    flags = set(cpu_flags()) if cpu == "native" else set()
    known = next((width for width, names in _WIDE_CPUS.items() if cpu.startswith(names)), 16)
    flags |= {"avx512f"} if known == 64 else set()
    flags |= {"avx2"} if known >= 32 else set()
    for feature in features:
        (flags.discard if feature.startswith("-") else flags.add)(feature.lstrip("+-"))
    if "avx512f" in flags:
        return 64
    return 32 if flags & {"avx", "avx2"} else 16


# *** what a target can do


class Caps(NamedTuple):
    """Limits of a kind of target; None is no limit. A renderer changes what differs."""

    has_local: bool = False
    has_threads: bool = False
    has_shared: bool = False
    supports_float4: bool = True
    global_max: tuple[int, ...] | None = None
    local_max: tuple[int, ...] | None = None
    shared_max: int = 0
    max_buffers: int = 0  # 0 is no limit


CAPS: dict[str, Caps] = {
    "CPU": Caps(has_threads=True),
    "PYTHON": Caps(
        has_local=True,
        has_shared=True,
        global_max=(0x8FFFFFFF,) * 3,
        local_max=(1024, 1024, 64),
        shared_max=32768,
    ),
}


def caps_of(device: str) -> Caps:
    """What a device's programs can use, going by its kind: "CPU:1" -> the CPU's."""
    return CAPS.get(device.split(":")[0], Caps())


def as_target(value: Any) -> Target:
    """A Target or its text as a Target."""
    return value if isinstance(value, Target) else Target.parse(str(value))


# *** what decides how many workgroups a GPU runs at a time, and what its memory likes


class GPULimits(NamedTuple):
    """One multiprocessor (NVIDIA) or compute unit (AMD), in the terms that occupancy is made of.

    waves: most that are resident at a time. units: SIMDs (partitions), over which they are spread.
    registers: 32-bit ones of each lane of a unit, which its waves share; register_unit: a wave gets
    so many at a time. transaction_bytes: the least that memory moves. banks: of shared memory.
    """

    wave: int  # lanes
    waves: int
    groups: int  # workgroups resident at a time
    registers: int
    register_unit: int
    most_registers: int  # of one lane
    shared_bytes: int
    group_shared_bytes: int  # most of one workgroup
    shared_unit: int
    reserved_shared: int  # of each workgroup, by the driver
    transaction_bytes: int
    banks: int
    units: int
    most_threads: int = 1024  # of a workgroup


def _nvidia(waves: int, groups: int, shared_kb: int, reserved: int, unit: int) -> GPULimits:
    """A multiprocessor: four parts of 16K registers, given to a warp 256 at a time: 8 a lane."""
    return GPULimits(
        32, waves, groups, 16384 // 32, 8, 255, shared_kb << 10, (shared_kb << 10) - reserved,
        unit, reserved, 32, 32, 4,
    )  # fmt: skip


def _amd(
    wave: int, units: int, unit_waves: int, registers: int, granule: int, most: int
) -> GPULimits:
    return GPULimits(
        wave, units * unit_waves, 32, registers, granule, most, 64 << 10, 64 << 10, 512, 0, 128, 32,
        units,
    )  # fmt: skip


# NVIDIA: warps, groups, shared memory and what is reserved of it as in the CUDA Core Compute
# Libraries (cudax, arch_traits) and the "Technical specifications per compute capability" of the
# CUDA C++ Programming Guide; units of allocation as in the occupancy calculator of the toolkit
# (cuda_occupancy.h). A warp's requests are served in sectors of 32 bytes, shared memory has 32
# banks of 4 bytes: CUDA C++ Best Practices Guide, "Device memory spaces".
# AMD: waves, registers and their granules as LLVM computes them (its test of occupancy levels,
# AMDGPU/occupancy-levels.ll), shared memory and its granules as in LLVM's "User Guide for AMDGPU
# Backend"; lines of 128 bytes and banks as in the RDNA 3 and CDNA 3 and 4 instruction set guides.
GPUS: dict[str, GPULimits] = {
    "sm_70": _nvidia(64, 32, 96, 0, 256),
    "sm_75": _nvidia(32, 16, 64, 0, 256),
    "sm_80": _nvidia(64, 32, 164, 1024, 128),
    "sm_86": _nvidia(48, 16, 100, 1024, 128),
    "sm_90": _nvidia(64, 32, 228, 1024, 128),
    "gfx942": _amd(64, 4, 8, 512, 8, 512),
    "gfx950": _amd(64, 4, 8, 512, 8, 512)._replace(
        shared_bytes=160 << 10, group_shared_bytes=160 << 10, shared_unit=1280, banks=64
    ),
    "gfx1100": _amd(32, 2, 16, 1536, 24, 256),
    "gfx1200": _amd(32, 2, 16, 1536, 24, 256),
}


def gpu_limits(name: str) -> GPULimits:
    """The limits of a GPU architecture.

    Raises: DeviceError for one that is not in the table.
    """
    found = GPUS.get(name)
    if found is None:
        raise DeviceError(f"no limits are known of {name}", help=f"known are {', '.join(GPUS)}")
    return found
