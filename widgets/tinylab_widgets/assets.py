"""The front end's bundles, each kept once per notebook and shared by all widgets that use it.

Each anywidget carries its own module; one that is 100 kB would be sent, evaluated and saved once
per output. So a widget carries a loader of under 1 kB, which fetches the bundle from here.
"""

import functools
import hashlib
import threading
from pathlib import Path
from typing import ClassVar

import anywidget
import traitlets

STATIC = Path(__file__).with_name("static")
_lock = threading.Lock()


@functools.cache
def static_text(name: str) -> str:
    """A file of the bundle."""
    return (STATIC / name).read_text("utf-8")


class Assets(anywidget.AnyWidget):
    """Holds a bundle; it draws nothing."""

    _esm = "export default { render() {} }"
    code = traitlets.Unicode().tag(sync=True)
    digest = traitlets.Unicode().tag(sync=True)

    _made: ClassVar[dict[str, "Assets"]] = {}

    @classmethod
    def shared(cls, name: str) -> "Assets":
        """The one of this kernel that holds a bundle; made again if it was closed."""
        with _lock:
            found = cls._made.get(name)
            if found is None or found.comm is None:
                code = static_text(name)
                digest = hashlib.sha256(code.encode()).hexdigest()[:16]
                found = cls._made[name] = cls(code=code, digest=digest)
            return found
