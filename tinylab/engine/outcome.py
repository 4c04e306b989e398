"""What a computation was to give, and what of it lies in memory: all, or what there was time for.

A run may end early: an error, a Ctrl-C. What is in memory then is taken over as after a run that
ends well. A write in place is never done twice: what it replaced is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tinylab.device import Buffer, MultiBuffer, Owner
from tinylab.engine.buffers import input_of, memory_of
from tinylab.engine.progress import Progress
from tinylab.opcodes import GroupOp, Ops
from tinylab.schedule import Callified, result_view
from tinylab.schedule.effects import is_write
from tinylab.schedule.keep_old_values import StateReads, reads_of_states
from tinylab.schedule.order_kernels import Steps
from tinylab.uop.ops import UOp


class Run:
    """One computation of several values.

    progress: how far its steps came. is_past: whether tensors look at the new content of buffers
    already, some of them; before, the node of a buffer is its old content.
    """

    def __init__(self) -> None:
        self.targets: list[UOp] = []
        self.roots: list[UOp] = []  # the targets as they are stored
        self.progress = Progress()
        self.called: Callified | None = None
        self.line = ""  # of the user's program
        self.is_past = False
        self._shown: dict[UOp, UOp] = {}
        self._strong: dict[UOp, UOp] = {}
        self._places: dict[UOp, UOp] = {}

    def computes(
        self,
        targets: list[UOp],
        roots: list[UOp],
        shown: dict[UOp, UOp],
        strong: dict[UOp, UOp],
    ) -> None:
        """Say what is to be computed.

        shown: values that a root stores already. strong: values by weak ones.
        """
        self.targets, self.roots, self._shown, self._strong = targets, roots, shown, strong

    def becomes(self) -> dict[UOp, UOp]:
        """Views of memory, by node, for what is there."""
        plan = self.progress.plan
        if plan is None or self.called is None:
            return {}
        found: dict[UOp, UOp] = {}
        for n, view in enumerate(plan.schedule.outputs):
            if self.is_there(n):
                found[self.targets[n]] = found[self.roots[n]] = self._seen(view, self.roots[n])
            elif self.is_written(n):  # and not copied, as it will be overwritten
                found[self.targets[n]] = result_view(self.targets[n])
        found.update({t: found[root] for t, root in self._shown.items() if root in found})
        found.update({t: found[s].cast(t.dtype) for t, s in self._strong.items() if s in found})
        return found

    def is_there(self, n: int) -> bool:
        """Whether a target has been computed, and is kept."""
        steps = self._steps(n)
        if not steps.own:
            return steps.end <= self.progress.done
        return all(map(self.progress.is_over, steps.own))

    def is_written(self, n: int) -> bool:
        """Whether a target is a write in place that is done."""
        return is_write(self.targets[n]) and all(map(self.progress.is_over, self._steps(n).writes))

    def _steps(self, n: int) -> Steps:
        assert self.progress.plan is not None, "a run that has a plan"
        return self.progress.plan.schedule.steps[n]

    def _seen(self, view: UOp, root: UOp) -> UOp:
        assert self.called is not None, "a run that has begun"
        inputs, own, place = self.called.inputs, self.progress.own, storage_below(view)
        if place not in self._places:
            self._places[place] = _memory_node(place, inputs, own)
            owner = Owner(method_of(root), self.line)
            for part in _parts(place):
                node = input_of(part, inputs) if part.op is Ops.PARAM else part
                memory = own[part] if part in own else memory_of(node)
                memory.owner = memory.owner or owner
        found = _along(view, self._places[place])
        values = self.called.var_vals
        bound = {v: _bound(v, values) for v in _variables(view)}
        return found.substitute(bound, walk=True) if bound else found

    # *** a run that ended early

    def has_overwritten(self, error: BaseException) -> bool:
        """Whether memory that was there before may hold something else now."""
        self.progress.land(error)
        return bool(self.begun())

    def begun(self, also: Collection[int] = ()) -> list[UOp]:
        """The writes in place that have begun, or will have once some steps ran."""
        if self.progress.plan is None:
            return []
        has_begun = self.progress.has_begun
        return [
            t
            for n, t in enumerate(self.targets)
            if is_write(t) and any(s in also or has_begun(s) for s in self._steps(n).writes)
        ]

    def torn(self) -> list[int]:
        """The steps after which nothing is torn, in order.

        Torn is a write that has begun, and what reads something that is overwritten already.
        """
        if self.progress.plan is None:
            return []
        left: list[int] = []
        while True:
            begun = set(self.begun(left))
            reads = reads_among(self.targets, begun)
            wanted: list[int] = []
            for n, t in enumerate(self.targets):
                torn = reads.replaced.get(t) if self.is_written(n) else t in begun or reads.old[t]
                if torn and not self.is_there(n):
                    wanted += self._steps(n).own
            grown = self.progress.left_for([*left, *wanted])
            if len(grown) == len(left):
                return left
            left = grown


def reads_among(values: Iterable[UOp], begun: set[UOp], known: Collection[UOp] = ()) -> StateReads:
    """What values read that some writes replace; what is known is not looked into."""
    order = UOp.sink(*values).toposort(lambda x: x not in known, enter_calls=False)
    writes = [x for x in order if is_write(x)]
    return reads_of_states(order, list(begun), waiting=[w for w in writes if w not in begun])


def _variables(view: UOp) -> list[UOp]:
    """The kernel's side of the variables in the sizes of a view."""
    if all(isinstance(s, int) for s in view.shape):
        return []
    return [u for u in view.toposort() if u.op is Ops.PARAM and u.is_variable]


def _bound(var: UOp, var_vals: dict[str, int]) -> UOp:
    return var.replace(op=Ops.BUFFER).bind(var_vals[var.arg.name])


def method_of(root: UOp) -> str:
    """The tensor method that a value comes from."""
    for x in (root, *root.src[:1]):
        if x.metadata:
            return str(x.metadata[-1].name)
    return root.op.name.lower()


def _parts(place: UOp) -> list[UOp]:
    return [storage_below(p) for p in place.src] if place.op is Ops.MSTACK else [place]


def _memory_node(place: UOp, inputs: tuple[UOp, ...], own: dict[UOp, Buffer]) -> UOp:
    """The BUFFER node of what a schedule computed into, or wrote to."""
    if place.op is Ops.PARAM:
        return input_of(place, inputs)
    if place.op is not Ops.MSTACK:  # a body may give back memory that it holds itself
        return UOp.from_buffer(own[place]) if place in own else place
    parts = [storage_below(p) for p in place.src]
    if all(p.op is Ops.PARAM for p in parts):
        whole: UOp = inputs[parts[0].arg.slot].src[0]
        if [inputs[p.arg.slot] for p in parts] == list(whole.parts_on_devices):
            return _along(place.src[0], whole)
    memory = [memory_of(inputs[p.arg.slot]) if p.op is Ops.PARAM else own[p] for p in parts]
    size, dtype = memory[0].size, memory[0].dtype
    node = UOp.from_buffer(MultiBuffer(tuple(b.device for b in memory), size, dtype, memory))
    return _along(place.src[0], node)


def storage_below(view: UOp) -> UOp:
    """The buffer below the movements of a view."""
    while view.op in GroupOp.Movement or view.op in (Ops.BITCAST, Ops.UNSHARD):
        view = view.src[0]
    return view


def _along(view: UOp, found: UOp) -> UOp:
    """A node seen through the movements of a view."""
    chain = []
    while view.op in GroupOp.Movement or view.op in (Ops.BITCAST, Ops.UNSHARD):
        chain.append(view)
        view = view.src[0]
    for step in reversed(chain):
        found = step.replace(src=(found, *step.src[1:]))
    return found
