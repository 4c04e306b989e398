"""Small helpers that scripts import and that nothing here needs: byte order, errors, waiting."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, TypeVar

from tinylab.errors import DeviceError
from tinylab.helpers.arguments import explained_names

T = TypeVar("T")
U = TypeVar("U")

START_TIME = time.perf_counter()
CHUNK_SIZE = 1 << 20


def to_be32(val: int) -> Any:
    """The four bytes of a number in the other order: 0x01020304 -> 0x04030201."""
    low = (val & 0xFF) << 24 | (val & 0xFF00) << 8
    return low | (val >> 8) & 0xFF00 | (val >> 24) & 0xFF


def to_be64(val: int) -> Any:
    """The eight bytes of a number in the other order."""
    return to_be32(val & 0xFFFFFFFF) << 32 | to_be32((val >> 32) & 0xFFFFFFFF)


def system(cmd: str, **kwargs: Any) -> str:
    """What a command line prints, without blanks around it.

    Raises: CalledProcessError when it ends with another status than 0.
    """
    answer: bytes = subprocess.check_output(cmd, shell=True, **kwargs)
    return answer.decode().strip()


def lines(fn: str | pathlib.Path) -> list[str]:
    """The lines of a text file."""
    return pathlib.Path(fn).read_text().splitlines()


def fromimport(mod: str, frm: str) -> Any:
    """A name of a module, by both names: "os", "path"."""
    return getattr(importlib.import_module(mod), frm)


def is_image_shape(shape: Sequence[Any]) -> bool:
    """Whether a shape is that of an image: three axes, the last of four channels."""
    return len(shape) == 3 and shape[2] == 4


def panic(e: type[Exception] | None = None, *arg: object) -> None:
    """Raise an error, as an expression."""
    if e is None:
        raise RuntimeError("PANIC!")
    raise e(*arg)


def suppress_finalizing(func: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose errors are dropped while Python shuts down."""

    @functools.wraps(func)
    def quiet(*args: Any, **kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except (RuntimeError, AttributeError, TypeError, ImportError):
            if not sys.is_finalizing():
                raise
            return None

    return quiet


def select_first_inited(
    candidates: Sequence[Callable[..., T]],
    err_msg: str,
    cache: dict[Any, Any] | None = None,
    *args: Any,
) -> T:
    """What the first constructor that works makes; remembered in cache, failures too.

    Raises: the error of a single constructor; an ExceptionGroup of several.
    """
    errors: list[Exception] = []
    for make in candidates:
        if cache is not None and make in cache:
            if isinstance(cache[make], Exception):
                errors.append(cache[make])
                continue
            return cache[make]  # type: ignore[no-any-return]
        try:
            found = make(*args)
        except Exception as e:
            errors.append(e)
            found = e  # type: ignore[assignment]
        if cache is not None:
            cache[make] = found
        if not isinstance(found, Exception):
            return found
    if len(errors) == 1:
        raise errors[0]
    if not errors:
        raise DeviceError(f"{err_msg}: there are no candidates")
    raise ExceptionGroup(f"{err_msg} is available", errors)


def wait_cond(
    cb: Callable[..., T], *args: Any, value: Any = True, timeout_ms: int = 10000, msg: str = ""
) -> T:
    """Ask until the answer is the wanted value.

    Raises: TimeoutError after timeout_ms.
    """
    end = time.monotonic() + timeout_ms / 1e3
    while True:
        found = cb(*args)
        if found == value:
            return found
        if time.monotonic() > end:
            raise TimeoutError(
                f"{msg}. Timed out after {timeout_ms} ms, condition not met: {found} != {value}"
            )
        with contextlib.suppress(InterruptedError):
            time.sleep(0)


def get_stacktrace(frm: FrameType | None, max_frames: int = 30) -> tuple[tuple[str, int, str], ...]:
    """(file, line, function) of a frame and its callers, the nearest first."""
    found: list[tuple[str, int, str]] = []
    while frm is not None and len(found) < max_frames:
        found.append((frm.f_code.co_filename, frm.f_lineno, frm.f_code.co_name))
        frm = frm.f_back
    return tuple(found)


def to_char_p_p(options: Sequence[bytes], to_type: Any = ctypes.c_char) -> Any:
    """Byte strings as C's array of pointers to them; the array keeps them."""
    pointer = ctypes.POINTER(to_type)
    texts = [ctypes.create_string_buffer(o) for o in options]
    found = (pointer * len(texts))(*[ctypes.cast(t, pointer) for t in texts])
    found.kept = texts
    return found


explained_names(globals())
