"""The front end's bundle, kept once per notebook and shared by all widgets.

Each anywidget carries its own module; one that is 100 kB would be sent, evaluated and saved once
per output. So a widget carries a loader of under 1 kB, which fetches the bundle from here.
"""

import functools
import hashlib
import threading
from pathlib import Path

import anywidget
import traitlets

STATIC = Path(__file__).with_name("static")
_lock = threading.Lock()


@functools.cache
def static_text(name: str) -> str:
    """A file of the bundle."""
    return (STATIC / name).read_text("utf-8")


class Assets(anywidget.AnyWidget):
    """Holds the bundle; it draws nothing."""

    _esm = "export default { render() {} }"
    code = traitlets.Unicode().tag(sync=True)
    digest = traitlets.Unicode().tag(sync=True)

    _made: "Assets | None" = None

    @classmethod
    def shared(cls) -> "Assets":
        """The one of this kernel; made again if it was closed."""
        with _lock:
            if cls._made is None or cls._made.comm is None:
                code = static_text("debugger.js")
                digest = hashlib.sha256(code.encode()).hexdigest()[:16]
                cls._made = cls(code=code, digest=digest)
            return cls._made
