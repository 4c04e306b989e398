"""Older spellings that scripts still use: they work, and say what is written now."""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tinylab.helpers.context import TRAINING, Context
from tinylab.tensor.scheduling import TensorScheduling

_NO_GRAD = "leave it out: gradients are worked out only when backward() or gradient() is called"


def deprecated(old: str, new: str, frames: int = 3) -> None:
    """A warning at the user's line, so many frames up."""
    advice = new if new is _NO_GRAD else f"use {new}"
    warnings.warn(f"{old} is deprecated, {advice}", DeprecationWarning, stacklevel=frames)


class OlderSwitches(type):
    """What was set on the class itself: Tensor.training, Tensor.no_grad."""

    @property
    def training(cls) -> bool:
        """Whether optimizers may step and dropout drops."""
        deprecated("Tensor.training", "Context(TRAINING=1)")
        return bool(TRAINING.value)

    @training.setter
    def training(cls, value: bool) -> None:
        deprecated("Tensor.training", "Context(TRAINING=1)")
        TRAINING.value = int(value)

    @property
    def no_grad(cls) -> bool:
        """False: no tensor keeps anything for a gradient that nobody asks for."""
        deprecated("Tensor.no_grad", _NO_GRAD)
        return False

    @no_grad.setter
    def no_grad(cls, value: bool) -> None:
        deprecated("Tensor.no_grad", _NO_GRAD)


class OlderSpellings(TensorScheduling):
    """Methods and attributes under the names they had."""

    if TYPE_CHECKING:

        def is_param_(self, is_param: bool = True) -> Any:
            """Of `Tensor`."""

    __slots__ = ()

    @staticmethod
    def train(mode: bool = True) -> Context:
        """Training switched on inside a with block: Context(TRAINING=1)."""
        deprecated("Tensor.train()", "Context(TRAINING=1)", frames=4)
        return Context(TRAINING=1 if mode else 0)

    @staticmethod
    def test(mode: bool = True) -> Context:
        """Training switched off inside a with block: Context(TRAINING=0)."""
        deprecated("Tensor.test()", "Context(TRAINING=0)", frames=4)
        return Context(TRAINING=0 if mode else 1)

    @staticmethod
    def inference_mode(mode: Any = True) -> contextlib.AbstractContextManager[None]:
        """A with block, or a decorator, that changes nothing."""
        deprecated("Tensor.inference_mode()", _NO_GRAD, frames=4)
        return _nothing()

    @property
    def requires_grad(self) -> Any:
        """Whether the tensor was marked by `is_param_`."""
        deprecated("requires_grad", "is_param")
        return self.is_param

    @requires_grad.setter
    def requires_grad(self, value: Any) -> None:
        deprecated("requires_grad", "is_param_()")
        self.is_param_(value is True)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """As `is_param_`."""
        deprecated("requires_grad_()", "is_param_()")
        return self.is_param_(bool(requires_grad))


# Whatever makes a tensor took requires_grad, as Tensor(...) does.
# fmt: off
CREATION = (
    "arange", "empty", "empty_like", "eye", "from_blob", "from_url", "full", "full_like",
    "glorot_uniform", "invalids", "kaiming_normal", "kaiming_uniform", "linspace", "normal",
    "ones", "ones_like", "rand", "rand_like", "randint", "randn", "randn_like", "randperm",
    "scaled_uniform", "uniform", "zeros", "zeros_like",
)
# fmt: on


def take_requires_grad(cls: type) -> None:
    """All that makes a tensor takes requires_grad, which marks it as a parameter or as none."""
    for name in CREATION:
        raw = inspect.getattr_static(cls, name)
        inner = getattr(raw, "__func__", raw)
        setattr(cls, name, _marking(inner) if inner is raw else type(raw)(_marking(inner)))


def _marking(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        if "requires_grad" not in kwargs:
            return function(*args, **kwargs)
        marked = kwargs.pop("requires_grad")
        deprecated("requires_grad", "is_param_()", frames=5)
        found = function(*args, **kwargs)
        if marked is not None:
            found.is_param_(bool(marked))
        return found

    return method


@contextlib.contextmanager
def _nothing() -> Iterator[None]:
    yield
