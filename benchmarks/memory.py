"""The most memory this process has had; the standard library alone, so any interpreter runs it."""

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_mb() -> float:
    """The peak of this process in MB.

    On Linux not getrusage's: that begins with what the process which started this one had.
    """
    if _STATUS.exists():
        lines = _STATUS.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1 << 20 if sys.platform == "darwin" else 1024)
