"""Whether LLVM knows a processor, and whether this machine runs its code.

LLVM ends the process for some names, and the processor for instructions that it lacks, so both are
tried in another process, once for each architecture. Those of this machine are not: "native", and
the least of its kind.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

from tinylab.errors import DeviceError
from tinylab.helpers.near import closest
from tinylab.target import CPUArch, host_machine

_TRIAL = Path(__file__).with_name("trial.py")
_SECONDS = 60
_LEAST = {"generic", "x86-64"}


@functools.cache
def check_known(arch: CPUArch) -> None:
    """Refuse a processor or a feature that LLVM does not know.

    Raises: DeviceError with the nearest name.
    """
    if arch.cpu in {"native", *_LEAST} and not arch.features:
        return
    if arch.cpu == "native":
        arch = arch._replace(cpu="generic")  # of which only the features are in question
    done = _try(arch, "compile")
    unknown = re.search(r"'(\S+)' is not a recognized (processor|feature)", done.stderr)
    if done.returncode == 0 and unknown is None:
        return
    names, features = _names(arch)
    wrong, kind = (arch.cpu, "processor") if unknown is None else unknown.groups()
    wrong = wrong.lstrip("+-")
    known = names if kind == "processor" else features
    near = closest(wrong, known - {wrong})
    raise DeviceError(
        f"LLVM has no {kind} {wrong!r} of {arch.machine} with 64 bits",
        help=f"did you mean {near}?" if near else f"it has {', '.join(sorted(known)[:12])}, …",
    )


@functools.cache
def check_runs(arch: CPUArch) -> None:
    """Refuse code that this machine cannot run.

    Raises: DeviceError for another machine, or for instructions that the processor lacks.
    """
    written = ",".join((arch.machine, arch.cpu, *arch.features))
    only = f"DEV=NULL:LLVM:{written} compiles for it and runs nothing"
    if not arch.is_host:
        raise DeviceError(f"CPU runs code of {host_machine()}, not of {written}", help=only)
    if arch.cpu in {"native", *_LEAST} and not arch.features:
        return
    if arch.cpu != "native" and _try(arch, "run").returncode != 0:
        raise DeviceError(f"this processor does not run the code of {written}", help=only)


def _try(arch: CPUArch, what: str) -> subprocess.CompletedProcess[str]:
    triple = f"{arch.machine}-unknown-linux-gnu"
    command = [sys.executable, str(_TRIAL), triple, arch.cpu, arch.llvm_features, what]
    around = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=_SECONDS, env=around, check=False
    )


def _names(arch: CPUArch) -> tuple[set[str], set[str]]:
    """The processors and the features that LLVM has for a machine."""
    listed = _try(arch._replace(features=()), "list").stderr
    processors, _, features = listed.partition("Available features")
    found = [re.findall(r"^  (\S+) +- ", part, re.MULTILINE) for part in (processors, features)]
    return set(found[0]), set(found[1])
