"""tinylab: a tensor program as an open machine. Public names, loaded on first use, and no more."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinylab.device import Device as Device
    from tinylab.dtype import dtypes as dtypes
    from tinylab.engine.jit import TinyJit as TinyJit
    from tinylab.helpers.cache import fetch as fetch
    from tinylab.helpers.context import Context as Context, getenv as getenv
    from tinylab.helpers.measure import GlobalCounters as GlobalCounters
    from tinylab.profiler.listen import profile as profile
    from tinylab.tensor import Tensor as Tensor
    from tinylab.trace.events import profile_marker as profile_marker
    from tinylab.trace.record import record as record
    from tinylab.trace.store import load as load
    from tinylab.traced import function as function
    from tinylab.uop.ops import UOp as UOp
    from tinylab.uop.sizes import Variable as Variable

__version__ = "0.1.0"

# Where each public name lives.
_HOME = {
    "Context": "tinylab.helpers.context",
    "Device": "tinylab.device",
    "GlobalCounters": "tinylab.helpers.measure",
    "Tensor": "tinylab.tensor",
    "TinyJit": "tinylab.engine.jit",
    "UOp": "tinylab.uop.ops",
    "Variable": "tinylab.uop.sizes",
    "dtypes": "tinylab.dtype",
    "fetch": "tinylab.helpers.cache",
    "function": "tinylab.traced",
    "getenv": "tinylab.helpers.context",
    "load": "tinylab.trace.store",
    "profile": "tinylab.profiler.listen",
    "profile_marker": "tinylab.trace.events",
    "record": "tinylab.trace.record",
}
_MODULES = ("nn",)

__all__ = [*_HOME, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"tinylab.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'tinylab' has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext tinylab` calls: the magics, by name so that nothing else needs them."""
    importlib.import_module("tinylab_widgets.magics").load_ipython_extension(shell)


def unload_ipython_extension(shell: Any) -> None:
    """What `%unload_ext tinylab` calls."""
    importlib.import_module("tinylab_widgets.magics").unload_ipython_extension(shell)
