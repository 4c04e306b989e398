"""Every setting, in one table; ``Context`` changes some of them for a while.

A setting starts with its default, or with the environment's value of the same name:

    DEBUG=2 python script.py              # for a process
    with Context(DEBUG=2, NOOPT=1): ...   # for a block, or as a decorator

A pass never reads the environment; it reads a setting here or is handed what it needs.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import importlib
import os
import warnings
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from tinylab.errors import SettingError
from tinylab.helpers.arguments import explained, explained_class
from tinylab.helpers.near import closest

if TYPE_CHECKING:
    from tinylab.target import Target

T = TypeVar("T", int, str)


# Shared with other programs, which give it any text: set, and not empty, is on.
_ANY_TEXT = frozenset({"NO_COLOR"})


def _convert(key: str, text: str, default: Any) -> Any:
    if key in _ANY_TEXT:
        return type(default)(text not in ("", "0"))
    try:
        return type(default)(text)
    except ValueError:
        wanted = type(default).__name__
        raise SettingError(f"{key}={text} is not {wanted}", help=f"write {key}={default}") from None


@functools.cache
def _environment(key: str) -> str | None:
    return os.environ.get(key)


@explained
def getenv(key: str, default: Any = 0) -> Any:
    """The environment's value of ``key`` in the type of ``default``; read once per process.

    A default of None, or of a type that no text says, takes the text as it is.

    Raises: SettingError for a text that is not of that type.
    """
    text = _environment(key)
    if text is None or isinstance(default, (str, NoneType)):
        return default if text is None else text
    return _convert(key, text, default) if isinstance(default, (int, float)) else text


@explained_class
class ContextVar(Generic[T]):
    """A setting: compares, counts and tests as its value.

    DEBUG = ContextVar("DEBUG", 0, "what to print");  DEBUG >= 2  ->  False
    """

    def __init__(
        self,
        key: str,
        default_value: T,
        help: str = "",
        lacks: str = "",
        idle: str = "",
        met: tuple[T, ...] = (),
    ) -> None:
        """The setting called `key`.

        lacks: what tinylab lacks for it; then a value other than the default is refused.
        idle: why it does nothing, though results are right without it; then a value other than the
        default is told once in a warning, unless it is among those that are met anyway.
        """
        if key in SETTINGS:
            raise SettingError(f"attempt to recreate ContextVar {key}")
        self.key, self.help, self.lacks = key, help, lacks
        self.default: T = default_value
        self.idle, self._met = idle, (default_value, *met)
        self._everywhere: T = self.checked(getenv(key, default_value))
        # What a Context has set in this thread; the empty tuple where none has.
        self._here: contextvars.ContextVar[tuple[T] | tuple[()]]
        self._here = contextvars.ContextVar(key, default=())
        SETTINGS[key] = self

    @property
    def value(self) -> T:
        """The value in this thread: what the innermost Context says, else that of the process."""
        here = self._here.get()
        return here[0] if here else self._everywhere

    @value.setter
    def value(self, new: T) -> None:
        if self._here.get():
            self._here.set((self.checked(new),))
        else:
            self._everywhere = self.checked(new)

    @property
    def everywhere(self) -> T:
        """The value of the process: the environment's, or one that was assigned."""
        return self._everywhere

    def checked(self, new: Any) -> T:
        """A value that this setting can have, out of another setting too.

        Raises: SettingError for one of another type, and where it would do nothing.
        """
        new = _plain(new)
        if self.lacks and new != self.default:
            raise SettingError(
                f"{self.key}={new} is not supported: {self.lacks}",
                help=f"leave it at {self.default}",
            )
        for kind, what, asked in _VALUES:
            if isinstance(self.default, kind) and (
                isinstance(new, type) or not hasattr(new, asked)
            ):
                raise SettingError(f"{self.key} is {what}, not {new!r}", help=self.help or None)
        if self.idle and new not in self._met:
            self._met = (*self._met, new)  # told once
            warnings.warn(f"{self.key}={new} has no effect: {self.idle}", stacklevel=4)
        return cast("T", new)

    def enter(self, new: T) -> contextvars.Token[Any]:
        """Another value for this thread, until `leave` gets the token back."""
        return self._here.set((self.checked(new),))

    def leave(self, token: contextvars.Token[Any]) -> None:
        """The value that was there before `enter`."""
        self._here.reset(token)

    def __repr__(self) -> str:
        return f"{self.key}={self.value!r}"

    def __str__(self) -> str:
        return str(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    __index__ = __int__

    __hash__ = None  # type: ignore[assignment]  # it compares as a value that changes

    def __eq__(self, other: object) -> bool:
        return bool(self.value == _plain(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self.value >= _plain(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self.value > _plain(other))

    def __le__(self, other: Any) -> bool:
        return bool(self.value <= _plain(other))

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < _plain(other))

    def tolist(self, owner: Any = None) -> list[Any]:
        """A comma list's items: "half,long" -> ["half", "long"]; with an owner, its attributes."""
        names = [name for name in str(self.value).split(",") if name]
        return names if owner is None else [getattr(owner, name) for name in names]


# What values of a setting are, and what such a value has.
_VALUES = (
    (str, "a string", "isprintable"),
    (int, "an int", "__index__"),
    (float, "a number", "__float__"),
)


def _plain(x: Any) -> Any:
    return x.value if isinstance(x, ContextVar) else x


SETTINGS: dict[str, ContextVar[Any]] = {}


@functools.cache
def _grammar() -> Any:
    """The grammar of DEV, by name: it stands a row above, and `import tinylab` does not need it."""
    return importlib.import_module("tinylab.target")


class DevSetting(ContextVar[str]):
    """DEV: which device, renderer and architecture to use; ``tinylab.target`` holds its grammar."""

    @property
    def targets(self) -> tuple[Target, ...]:
        """The value's targets in order; the first one names the default device."""
        return cast("tuple[Target, ...]", _grammar().parse_targets(self.value))

    def target(self, device: str = "", **defaults: str) -> Target:
        """What is asked for a device, with ``defaults`` in the places that are left empty."""
        return cast("Target", _grammar().target_for(self.targets, device, defaults))

    @property
    def device(self) -> str:
        """The default device's name, or "" to choose one."""
        return self.target().device

    @property
    def renderer(self) -> str:
        """The default device's renderer, or "" for its first."""
        return self.target().renderer

    @property
    def arch(self) -> str:
        """The default device's architecture, or "" for what is there."""
        return self.target().arch

    @property
    def interface(self) -> str:
        """The default device's interface, or "" for the first that opens."""
        return self.target().interface


@explained_class
class Context(contextlib.ContextDecorator):
    """Settings changed for a block or, as a decorator, a call: ``with Context(DEBUG=2): ...``.

    Only the thread that enters it sees the change.
    """

    def __init__(self, **changes: Any) -> None:
        for name in changes:
            if name not in SETTINGS:
                near = closest(name, SETTINGS)
                help_ = f"did you mean {near}?" if near else None
                raise SettingError(f"no setting is called {name}", help_)
        self._changes = changes
        self._entered: list[dict[str, contextvars.Token[Any]]] = []

    def _recreate_cm(self) -> Context:
        return Context(**self._changes)  # a decorated function may run in several threads

    def __enter__(self) -> None:
        changes = {name: SETTINGS[name].checked(v) for name, v in self._changes.items()}
        self._entered.append({name: SETTINGS[name].enter(v) for name, v in changes.items()})

    def __exit__(self, *exc: object) -> None:
        for name, token in self._entered.pop().items():
            SETTINGS[name].leave(token)


def _cpu_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# *** what to run on, what to show
DEV = DevSetting("DEV", "", "[INTERFACE[:indices]+]DEVICE[:RENDERER[:arch]]; several with ;")
DEBUG = ContextVar("DEBUG", 0, "1 schedules, 2 kernels, 3 opts, 4 source, 5 graph, 7 assembly")
VIZ = ContextVar(
    "VIZ", 0, "record the process to a file, and say on exit how to look at it; negative only saves"
)
PROFILE = ContextVar("PROFILE", abs(VIZ.value), "save a profile of the process on exit")
TRACEMETA = ContextVar("TRACEMETA", 1, "keep the Tensor method beside each node")
TRACK_MATCH_STATS = ContextVar(
    "TRACK_MATCH_STATS",
    2 if VIZ else 0,
    "of the process, on exit: 1 prints statistics of rules, 2 saves all matches, 3 both",
)
NO_COLOR = ContextVar("NO_COLOR", 0, "no colours in printed text")

# *** checks
SPEC = ContextVar("SPEC", 1, "check 1 graphs between stages, 2 every node, 3 shapes, 4 text")
CHECK_OOB = ContextVar(
    "CHECK_OOB",
    0,
    "prove index bounds with z3",
    lacks="bounds are proved in tinylab's tests; DEV=PYTHON checks each access as it runs",
)
VALIDATE_WITH_CPU = ContextVar("VALIDATE_WITH_CPU", 0, "run each kernel on the CPU too and compare")
DISALLOW_BROADCAST = ContextVar(
    "DISALLOW_BROADCAST", 0, "1 refuses nodes whose sources differ in shape"
)
ALLOW_DEVICE_USAGE = ContextVar("ALLOW_DEVICE_USAGE", 1, "0 forbids opening devices")
NULL_ALLOW_COPYOUT = ContextVar("NULL_ALLOW_COPYOUT", 0, "NULL answers a read with zeros")
REWRITE_STACK_LIMIT = ContextVar("REWRITE_STACK_LIMIT", 250000, "pending nodes at which to stop")
DEBUG_RANGEIFY = ContextVar("DEBUG_RANGEIFY", 0, "print how ranges were assigned")
CAPTURE_PROCESS_REPLAY = ContextVar("CAPTURE_PROCESS_REPLAY", 0, "keep what a replay needs")

# *** numbers
DEFAULT_FLOAT = ContextVar("DEFAULT_FLOAT", "float32", "dtype of a float without one")
DEFAULT_INT = ContextVar("DEFAULT_INT", "int32", "dtype of an int without one")
SUM_DTYPE = ContextVar("SUM_DTYPE", "float32", "least dtype in which floats are summed")
EMULATED_DTYPES = ContextVar("EMULATED_DTYPES", "", "comma list of dtypes to treat as unsupported")
TRANSCENDENTAL = ContextVar(
    "TRANSCENDENTAL", 1, "2 = own sin, exp2, log2 even where there are native ones"
)
_NO_IMAGES = "there are no image buffers"
FLOAT16 = ContextVar("FLOAT16", 0, "image data in half", lacks=_NO_IMAGES)
_NO_TENSOR_CORES = "no device that is there has tensor cores"
ALLOW_TF32 = ContextVar(
    "ALLOW_TF32", 0, "tensor cores may round float32 inputs", idle=_NO_TENSOR_CORES
)
TRAINING = ContextVar("TRAINING", 0, "1 while training: dropout, batchnorm, Optimizer.step")

# *** scheduling
FUSE_ARANGE = ContextVar("FUSE_ARANGE", 1, "0 stores what only depends on positions")
FUSE_CONV_BW = ContextVar(
    "FUSE_CONV_BW", 1, "0 stores what a sum over padding sums, as a convolution's gradient does"
)
DONT_REALIZE_EXPAND = ContextVar(
    "DONT_REALIZE_EXPAND", 0, "1 works a value out again rather than storing it to be repeated"
)
SPLIT_REDUCEOP = ContextVar("SPLIT_REDUCEOP", 1, "split a big reduce in two")
REDUCEOP_SPLIT_THRESHOLD = ContextVar("REDUCEOP_SPLIT_THRESHOLD", 32768, "how much bigger")
REDUCEOP_SPLIT_SIZE = ContextVar("REDUCEOP_SPLIT_SIZE", 22, "log2 of the most partial results")
PCONTIG = ContextVar("PCONTIG", 0, "partial materialization: 1, 2, 3 ever more fusing")
FUSE_OPTIM = ContextVar("FUSE_OPTIM", 0, "optimizer state in one flat buffer")
MAX_KERNEL_BUFFERS = ContextVar(
    "MAX_KERNEL_BUFFERS", 0, "buffers of a kernel; 0 = the device's limit"
)
MAX_BUFFER_SIZE = ContextVar("MAX_BUFFER_SIZE", 0, "most elements of a buffer; 0 = no limit")
NO_MEMORY_PLANNER = ContextVar("NO_MEMORY_PLANNER", 0, "no shared arenas for temporaries")
LRU = ContextVar("LRU", 1, "keep freed memory for the next buffer of its size")
RING = ContextVar("RING", 1, "ring allreduce: 1 when big, 2 always")
RING_ALLREDUCE_THRESHOLD = ContextVar("RING_ALLREDUCE_THRESHOLD", 256000, "from how many elements")
ALL2ALL = ContextVar("ALL2ALL", 0, "all-to-all allreduce: 1 when big, 2 always")
ALLREDUCE_CAST = ContextVar("ALLREDUCE_CAST", 1, "reduce half before a cast to float")
IMAGE = ContextVar("IMAGE", 0, "dot and conv through image buffers", lacks=_NO_IMAGES)
WINO = ContextVar("WINO", 0, "Winograd for convolutions with kernels of 3")
OPENPILOT_HACKS = ContextVar(
    "OPENPILOT_HACKS", 0, "rewrites for one known model", lacks="no model is treated in its own way"
)

# *** code generation
NOOPT = ContextVar("NOOPT", 0, "no heuristics: axes stay as written")
NOLOCALS = ContextVar("NOLOCALS", 0, "no workgroups")
_NO_SEARCH = "kernels are not searched yet; their opts come from heuristics, or from a bench"
BEAM = ContextVar("BEAM", 0, "candidates that search keeps; 0 is off", idle=_NO_SEARCH)
# Permissions for targets that have tensor cores; OptOps.TC says so too.
USE_TC = ContextVar(
    "TC", 1, "tensor cores: 0 off, 1 on, 2 their shape only", idle=_NO_TENSOR_CORES, met=(0,)
)
TC_SELECT = ContextVar(
    "TC_SELECT", -1, "which tensor core; -1 any that fits", idle=_NO_TENSOR_CORES
)
TC_OPT = ContextVar(
    "TC_OPT", 0, "1 several reduces and casts, 2 padding too", idle=_NO_TENSOR_CORES
)
USE_ATOMICS = ContextVar(
    "USE_ATOMICS", 0, "rows that were read get their gradients added one by one, where they lie"
)
TUPLE_ORDER = ContextVar(
    "TUPLE_ORDER",
    1,
    "order lines by content: equal kernels, equal text",
    lacks="equal kernels are one node here and always have one text",
)
DISABLE_FAST_IDIV = ContextVar(
    "DISABLE_FAST_IDIV", 1, "0 = constant division by multiply and shift"
)
NUM_CPU_THREADS = ContextVar("NUM_CPU_THREADS", _cpu_count(), "most threads of a CPU kernel")
MV = ContextVar("MV", 1, "matrix times vector in its own way, on targets with workgroups")
MV_BLOCKSIZE = ContextVar("MV_BLOCKSIZE", 4, "its workgroup rows")
MV_THREADS_PER_ROW = ContextVar("MV_THREADS_PER_ROW", 8, "its threads per row")
MV_ROWS_PER_THREAD = ContextVar("MV_ROWS_PER_THREAD", 4, "its rows per thread")

# *** search
IGNORE_BEAM_CACHE = ContextVar(
    "IGNORE_BEAM_CACHE", 0, "search again what was searched before", idle=_NO_SEARCH
)
IGNORE_JIT_FIRST_BEAM = ContextVar(
    "IGNORE_JIT_FIRST_BEAM",
    0,
    "no search in the first call of a captured function",
    idle=_NO_SEARCH,
)
BEAM_DEBUG = ContextVar("BEAM_DEBUG", 0, "print each candidate", idle=_NO_SEARCH)
BEAM_UOPS_MAX = ContextVar("BEAM_UOPS_MAX", 3000, "most uops of a candidate", idle=_NO_SEARCH)
BEAM_UPCAST_MAX = ContextVar("BEAM_UPCAST_MAX", 256, "most lanes of a candidate", idle=_NO_SEARCH)
BEAM_LOCAL_MAX = ContextVar(
    "BEAM_LOCAL_MAX", 1024, "largest workgroup of a candidate", idle=_NO_SEARCH
)
BEAM_TIMEOUT_SEC = ContextVar(
    "BEAM_TIMEOUT_SEC", 10, "seconds a candidate may take to compile", idle=_NO_SEARCH
)
BEAM_MIN_PROGRESS = ContextVar(
    "BEAM_MIN_PROGRESS", "0.01", "microseconds of gain worth a round", idle=_NO_SEARCH
)
BEAM_PADTO = ContextVar("BEAM_PADTO", 0, "let search pad axes", idle=_NO_SEARCH)
BEAM_STRICT_MODE = ContextVar(
    "BEAM_STRICT_MODE", 0, "a candidate that fails is an error", idle=_NO_SEARCH
)
JITBEAM = ContextVar("JITBEAM", 0, "BEAM inside a captured function; 0 = BEAM", idle=_NO_SEARCH)

# *** capture and replay
JIT = ContextVar("JIT", 1, "0 off, 1 on, 2 without graphs")
UNSAFE_ALLOW_JIT_BUFFER = ContextVar(
    "UNSAFE_ALLOW_JIT_BUFFER", 0, "values may be read inside a capture; replays do not see them"
)
JIT_BATCH_SIZE = ContextVar("JIT_BATCH_SIZE", 32, "kernels of the first graph; doubles from there")
CAPTURING = ContextVar("CAPTURING", 1, "0 = captures do not record")
GRAPH_ONE_KERNEL = ContextVar(
    "GRAPH_ONE_KERNEL",
    0,
    "a launch of many for one kernel too",
    idle="a captured kernel that is alone is launched so anyway",
)

# *** caches
SCACHE = ContextVar("SCACHE", 1, "keep schedules")
CCACHE = ContextVar("CCACHE", 1, "keep compiled programs on disk")
CACHELEVEL = ContextVar("CACHELEVEL", 2, "0 = no disk cache at all")
ASSERT_COMPILE = ContextVar("ASSERT_COMPILE", 0, "1 = a program that must be compiled is an error")
PARALLEL = ContextVar(
    "PARALLEL",
    0 if VIZ else _cpu_count(),
    "processes that compile candidates of a search",
    idle=_NO_SEARCH,
    met=(0, 1),
)

# *** the rest
UPAT_COMPILE = ContextVar("UPAT_COMPILE", 1, "0 = patterns are walked over, not compiled")
CONST_LR = ContextVar("CONST_LR", 0, "an optimizer's rate is a constant of its kernels")
DEBUG_GC = ContextVar(
    "DEBUG_GC", 0, "print what the collector frees", idle="nothing here waits for the collector"
)
HCQ_VISIBLE_DEVICES = ContextVar(
    "HCQ_VISIBLE_DEVICES", "", "GPUs by number", idle="no device that is there is a GPU of its own"
)
