"""Settings of every test: graphs are checked at stage boundaries, caches are the tests' own."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile

import pytest
from hypothesis import HealthCheck, settings

# Before tinylab is imported: it reads its settings once. Worker processes of a run share nothing.
os.environ.setdefault("NO_COLOR", "1")
_CACHE = tempfile.TemporaryDirectory(prefix="tinylab-tests-")
os.environ["CACHEDB"] = os.path.join(_CACHE.name, "cache.db")

# Tests start hundreds of processes: each would compile anew whatever it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell that starts a run in the background lets it ignore Ctrl-C, which tests send themselves.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A worker keeps millions of objects in caches: looking through them all took a tenth of a run.
gc.set_threshold(20_000, 20, 20)


settings.register_profile(
    "default",
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    print_blob=True,
)
settings.register_profile("long", parent=settings.get_profile("default"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a run on several processes notebooks and browsers come first, short tests last.

    A process that has done its list takes work from the end of another's.
    """
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not _takes_seconds(item))


def _takes_seconds(item: pytest.Item) -> bool:
    return item.path.suffix == ".ipynb" or item.get_closest_marker("browser") is not None
