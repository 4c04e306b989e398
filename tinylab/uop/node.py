"""UOp: an immutable, interned node of every graph. Equal means identical.

Creation is the hot path of the whole compiler: one look-up in a table of weak references, nothing
checked unless `SPEC` asks for it. What follows from a node (shape, bounds, open ranges, device) is
worked out when asked for, without recursion, and kept beside the node.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from tinylab.dtype import AddrSpace, DType, as_const
from tinylab.errors import ContractError, ShapeError
from tinylab.helpers.arguments import PYTHON_ERRORS, explained_error, explained_methods
from tinylab.opcodes import GroupOp, Ops
from tinylab.uop.algebra import AlgebraMethods
from tinylab.uop.args import RangeArg
from tinylab.uop.bounds import bounds_of
from tinylab.uop.infer import Shape, infer_dtype, infer_shape
from tinylab.uop.intern import Key, cache, make, set_node_type
from tinylab.uop.parts import PartMethods
from tinylab.uop.sharding import ShardMethods, axis_of
from tinylab.uop.travel import reduced

if TYPE_CHECKING:
    from tinylab.device import Buffer, MultiBuffer

T = TypeVar("T")


class _UOpType(type):
    """Makes UOp(…) return the interned node."""

    @property
    def ucache(cls) -> dict[Key, Any]:
        return cache

    def __call__(
        cls,
        op: Ops,
        dtype: DType | None = None,
        src: tuple[UOp, ...] = (),
        arg: Any = None,
        tag: Any = None,
        metadata: tuple[Any, ...] | None = None,
        _buffer: Buffer | None = None,
    ) -> UOp:
        try:
            if dtype is None:
                dtype = infer_dtype(op, src, arg)
            # Equal arguments of another class would make a second node.
            if op is Ops.CONST:
                arg = as_const(arg, dtype)
            elif op is Ops.RANGE and arg.__class__ is tuple:
                arg = RangeArg(arg)
            elif op.__class__ is not Ops:
                raise TypeError(op)
            node = make(op, dtype, src, arg, tag)
        except PYTHON_ERRORS as error:
            given = (cls, op, dtype, src, arg, tag)
            raise explained_error(_UOpType.__call__, "UOp", given, {}, error) or error from None
        if metadata is not None:
            node.metadata = metadata
        if _buffer is not None:
            node._buffer = _buffer
        return node


# What Python says of a call that does not fit.
_UOpType.__call__.__qualname__ = "UOp"


class UOp(PartMethods, AlgebraMethods, ShardMethods, metaclass=_UOpType):
    """A node: (op, dtype, src, arg, tag). The same five fields give the same object.

    Metadata and storage are kept beside the node and are no part of what it is.
    """

    __slots__ = (
        "__weakref__",
        "_axis_slot",
        "_bounds",
        "_buffer_slot",
        "_device",
        "_key",
        "_mask",
        "_metadata",
        "_ranges",
        "_shape_slot",
        "_under_after",
        "arg",
        "dtype",
        "op",
        "src",
        "tag",
    )
    op: Ops
    dtype: DType
    src: tuple[UOp, ...]
    arg: Any
    tag: Any
    _mask: int
    _shape_slot: Shape | None
    _bounds: tuple[Any, Any]
    _ranges: dict[UOp, None]
    _device: str | tuple[str, ...] | None
    _axis_slot: int | None
    _key: bytes
    _under_after: UOp
    _LAZY: ClassVar[dict[str, Callable[[UOp], Any]]] = {}

    if TYPE_CHECKING:  # what the metaclass takes

        def __init__(
            self,
            op: Ops,
            dtype: DType | None = None,
            src: tuple[UOp, ...] = (),
            arg: Any = None,
            tag: Any = None,
            metadata: tuple[Any, ...] | None = None,
            _buffer: Buffer | None = None,
        ) -> None: ...

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced(self)

    def __copy__(self) -> UOp:
        return self

    def __deepcopy__(self, memo: object) -> UOp:
        return self

    # *** kept beside the node

    @property
    def metadata(self) -> tuple[Any, ...] | None:
        """The tensor methods that this node was made by, outermost last."""
        return getattr(self, "_metadata", None)

    @metadata.setter
    def metadata(self, value: tuple[Any, ...] | None) -> None:
        self._metadata = value

    @property
    def _buffer(self) -> Any:
        return getattr(self, "_buffer_slot", None)

    @_buffer.setter
    def _buffer(self, value: Any) -> None:
        self._buffer_slot = value

    def _fill(self, slot: str) -> None:
        """Fill a slot here and below, sources first, without recursion."""
        compute = self._LAZY[slot]
        stack = [self]
        while stack:
            node = stack[-1]
            count = len(stack)
            for s in node.src:
                if not hasattr(s, slot):
                    stack.append(s)
            if len(stack) == count:
                stack.pop()
                if not hasattr(node, slot):
                    setattr(node, slot, compute(node))

    @property
    def _shape(self) -> Shape | None:
        try:
            return self._shape_slot
        except AttributeError:
            self._fill("_shape_slot")
            return self._shape_slot

    @property
    def shape(self) -> Shape:
        """The sizes of the value, ints or expressions.

        Raises: ShapeError where the node is no value.
        """
        found = self._shape
        if found is None:
            raise ShapeError(f"shape requested, but {self.op} doesn't have a shape")
        return found

    @property
    def bounds(self) -> tuple[Any, Any]:
        """(vmin, vmax): inclusive bounds of the value; the dtype's limits where unknown."""
        try:
            return self._bounds
        except AttributeError:
            self._fill("_bounds")
            return self._bounds

    @property
    def vmin(self) -> Any:
        """The smallest value it can have."""
        return self.bounds[0]

    @property
    def vmax(self) -> Any:
        """The largest value it can have."""
        return self.bounds[1]

    @property
    def ranges(self) -> dict[UOp, None]:
        """The RANGEs that are open at this node: used below it and not ended."""
        try:
            found = self._ranges
        except AttributeError:
            self._fill("_ranges")
            found = self._ranges
        # A RANGE does not hold itself: a node in a cycle would outlive its last user.
        return {**found, self: None} if self.op is Ops.RANGE else found

    @property
    def device(self) -> str | tuple[str, ...] | None:
        """Where the value is; None for values that are everywhere (constants, expressions)."""
        try:
            return self._device
        except AttributeError:
            self._fill("_device")
            return self._device

    @property
    def axis(self) -> int | None:
        """The axis that is cut into shards, one on each device; None where there is none.

        Raises: ShardError where elements would have to move from shard to shard.
        """
        if not isinstance(self.device, tuple):
            return None
        try:
            return self._axis_slot
        except AttributeError:
            self._fill("_axis_slot")
            return self._axis_slot

    @property
    def key(self) -> bytes:
        """SHA-256 over op, dtype, arg as text and the sources' keys; the tag is left out.

        The same in every process.
        """
        try:
            return self._key
        except AttributeError:
            self._fill("_key")
            return self._key

    # *** walking

    def toposort(
        self, gate: Callable[[UOp], bool] | None = None, enter_calls: bool = True
    ) -> dict[UOp, None]:
        """Every node below, sources first, self last.

        gate returning False leaves a node and its sources out; enter_calls=False skips the bodies
        of CALL and FUNCTION.
        """
        # A None on the stack says that the node under it is done: 2 times faster than pairs of
        # node and flag.
        done: dict[UOp, None] = {}
        seen: set[UOp] = set()
        stack: list[UOp | None] = [self]
        while stack:
            node = stack.pop()
            if node is None:
                done[stack.pop()] = None  # type: ignore[index]
                continue
            if node in seen:
                continue
            seen.add(node)
            if gate is not None and not gate(node):
                continue
            src = node.src
            if not src:
                done[node] = None
                continue
            if not enter_calls and node.op in _CALLS:
                src = src[1:]
            stack += (node, None, *src[::-1])
        return done

    def topovisit(self, visitor: Callable[[UOp], T], cache: dict[UOp, T]) -> T:
        """visitor(node) for each node below, sources first; cache holds the results."""
        for node in self.toposort(lambda n: n not in cache):
            cache[node] = visitor(node)
        return cache[self]

    @property
    def backward_slice(self) -> dict[UOp, None]:
        """Every node below, without self."""
        found = self.toposort()
        del found[self]
        return found

    @property
    def backward_slice_with_self(self) -> dict[UOp, None]:
        """Every node below, and self."""
        return self.toposort()

    def op_in_backward_slice_with_self(self, *ops: Ops) -> bool:
        """Whether any node below has one of the ops."""
        return any(node.op in ops for node in self.toposort())

    # *** changing

    def replace(self, **fields: Any) -> UOp:
        """The node with some fields changed: op, dtype, src, arg, tag.

        The dtype is worked out again where the sources' types changed and none is given.

        Raises: ContractError for any other keyword.
        """
        unused = fields.keys() - {"op", "dtype", "src", "arg", "tag"}
        if unused:
            raise ContractError(f"unused kwargs in replace: {sorted(unused)}")
        src = fields.get("src", self.src)
        op, arg = fields.get("op", self.op), fields.get("arg", self.arg)
        dtype = fields.get("dtype")
        if dtype is None:
            dtype = self.dtype
            if src is not self.src and not _same_types(src, self.src):
                dtype = infer_dtype(op, src, arg) if op not in _STATED else dtype
        return make(op, dtype, src, arg, fields.get("tag", self.tag))

    def rtag(self, tag: Any = True) -> UOp:
        """The node with another tag."""
        return make(self.op, self.dtype, self.src, self.arg, tag)

    # *** what lies underneath

    @property
    def base(self) -> UOp:
        """The node below all movement and DETACH."""
        node = self
        while node.op in GroupOp.Movement or node.op is Ops.DETACH:
            node = node.src[0]
        return node

    @property
    def without_after(self) -> UOp:
        """The value below all AFTERs; kept, for a chain of writes may be long."""
        node, chain = self, []
        while node.op is Ops.AFTER:
            known = getattr(node, "_under_after", None)
            if known is not None:
                node = known
                break
            chain.append(node)
            node = node.src[0]
        for each in chain:
            each._under_after = node
        return node

    @property
    def buf_uop(self) -> UOp:
        """The BUFFER, PARAM, MSELECT or MSTACK that this value is stored in.

        Raises: ContractError where there is none.
        """
        node = self
        while node.op in _THROUGH_STORAGE:
            node = node.src[0]
        if node.op not in (Ops.BUFFER, Ops.PARAM, Ops.MSELECT, Ops.MSTACK):
            raise ContractError(f"must be BUFFER, but {node.op} holds no storage")
        return node

    @property
    def buffer(self) -> Buffer | MultiBuffer:
        """The storage of this value, made if there is none yet; of a part in one piece, a view.

        Raises: ContractError where it has none; ScheduleError for a view with gaps.
        """
        # By name: memory belongs to the engine, which stands far above.
        found: Buffer | MultiBuffer = importlib.import_module(_ENGINE).buffer_of(self)
        return found

    def has_buffer_identity(self, after_ok: bool = False) -> bool:
        """Whether this is a whole buffer, perhaps reshaped."""
        node = self
        while node.op in (Ops.RESHAPE, Ops.UNSHARD) or (after_ok and node.op is Ops.AFTER):
            node = node.src[0]
        return node.op in (Ops.BUFFER, Ops.PARAM)

    @property
    def realized(self) -> Any:
        """The allocated storage of a BUFFER, on one device or several; or None."""
        if self.op is Ops.UNSHARD:
            return self.unsharded_base.realized
        if self.op is Ops.BUFFER and self._buffer is not None and self._buffer.is_allocated():
            return self._buffer
        return None

    @property
    def is_realized(self) -> bool:
        """Whether the values lie in memory."""
        return self.unsharded_base.realized is not None

    @property
    def addrspace(self) -> AddrSpace | None:
        """Where the storage below this address is; None where there is none."""
        node = self
        while node.op in _THROUGH_STORAGE or node.op in (Ops.INDEX, Ops.SHRINK):
            node = node.src[0]
        return node.arg.addrspace if node.op in GroupOp.Defines else None

    # *** for people

    def __repr__(self) -> str:
        from tinylab.uop.printer import node_repr

        return node_repr(self)

    def render(self, simplify: bool = True, pm: Any = None) -> str:
        """The expression as text: (i+3), (i*4+2), (x if (c) else y)."""
        from tinylab.uop.printer import render_expression

        return render_expression(self.simplify() if simplify else self)

    def pyrender(self) -> str:
        """Python text that assigns `ast` and rebuilds the node."""
        from tinylab.uop.printer import render_python

        return render_python(self)

    def simplify(self, tracked: bool = False) -> UOp:
        """Symbolic rules to their fixed point; it is recorded whether `tracked` or not."""
        from tinylab.uop.rewrite import graph_rewrite
        from tinylab.uop.symbolic import symbolic

        return graph_rewrite(self, symbolic, name="simplify")


_ENGINE = "tinylab.engine.buffers"
# The dtype of these is stated, never worked out.
_STATED = {Ops.CUSTOM, Ops.CUSTOMI, Ops.INS, Ops.CONST, Ops.NOOP, Ops.BUFFER, Ops.PARAM}
_CALLS = frozenset({Ops.CALL, Ops.FUNCTION})
_THROUGH_STORAGE = {Ops.RESHAPE, Ops.CONTIGUOUS, Ops.DETACH, Ops.UNSHARD, Ops.AFTER, Ops.BITCAST}


def _same_types(a: Iterable[UOp], b: Iterable[UOp]) -> bool:
    return [s.dtype for s in a] == [s.dtype for s in b]


def _ranges_of(node: UOp) -> dict[UOp, None]:
    op, src = node.op, node.src
    if op in (Ops.END, Ops.REDUCE, Ops.STAGE, Ops.UNSHARD):
        ended = dict.fromkeys(r for s in src[1:] for r in s.ranges if r in src[1:])
        return {r: None for r in _merge([s.ranges for s in src]) if r not in ended}
    if op in (Ops.CALL, Ops.FUNCTION):
        src = src[1:]
    return _merge([s.ranges for s in src])


_NO_RANGES: dict[UOp, None] = {}


def _merge(found: list[dict[UOp, None]]) -> dict[UOp, None]:
    some = [f for f in found if f]
    if not some:
        return _NO_RANGES
    first = some[0]
    if len(some) == 1 or all(f is first for f in some):
        return first
    merged = dict(first)
    for f in some[1:]:
        merged.update(f)
    return merged if len(merged) > len(first) else first


def _device_of(node: UOp) -> str | tuple[str, ...] | None:
    if node.op in GroupOp.Defines:
        device: str | tuple[str, ...] | None = node.arg.device
        return device
    if node.op is Ops.COPY:
        return node.arg  # type: ignore[no-any-return]
    if node.op is Ops.ALLREDUCE:
        return node.arg[1]  # type: ignore[no-any-return]
    if node.op is Ops.MSTACK:
        return tuple(str(s.device) for s in node.src)
    if node.op is Ops.MSELECT:
        several = node.src[0].device
        return several[node.arg] if isinstance(several, tuple) else several
    if node.op is Ops.STAGE and node.arg.device is not None:
        return node.arg.device  # type: ignore[no-any-return]
    if node.op is Ops.GETTUPLE and node.src[0].op is Ops.FUNCTION:
        return node.src[0].src[0].src[node.arg].device  # type: ignore[no-any-return]
    for s in node.src:
        found = s.device
        if found is not None:
            return found
    return None


def _key_of(node: UOp) -> bytes:
    text = repr((node.op.name, node.dtype.name, node.arg)).encode()
    return hashlib.sha256(text + b"".join(s.key for s in node.src)).digest()


explained_methods(UOp)
set_node_type(UOp)
UOp._LAZY.update(
    _axis_slot=axis_of,
    _bounds=bounds_of,
    _device=_device_of,
    _key=_key_of,
    _ranges=_ranges_of,
    _shape_slot=infer_shape,
)

Variable = UOp


def new_dtype(node: UOp) -> DType:
    """The dtype that follows from the sources, or the stated one."""
    return node.dtype if node.op in _STATED else infer_dtype(node.op, node.src, node.arg)
