"""Which lines of the user's code, and which tensor methods, nodes and kernels come from.

It follows from the record when asked for: what a rule made descends from the node that it
rewrote, a node rebuilt with new sources from the node it was, a kernel from the store it became.
Sets of origins are integers, one bit for each distinct (frames, method).
"""

from __future__ import annotations

from collections.abc import Iterable

from tinylab.opcodes import GroupOp, Ops
from tinylab.trace.provenance import Frame
from tinylab.trace.record import PassRecord, Record
from tinylab.trace.replay import Replay

# What carries no line of its own: the same leaf stands in many places.
_LEAVES = frozenset({Ops.CONST, Ops.RANGE, Ops.PARAM, Ops.BUFFER, Ops.SPECIAL, Ops.NOOP})
# Where the work of another kernel begins.
_BORDERS = frozenset({Ops.AFTER, Ops.BUFFER, Ops.PARAM, Ops.CALL, Ops.FUNCTION, Ops.CONST})
# What wraps a value, and which source the value is: its lines are the value's.
_CARRIES = {Ops.STAGE: 0, Ops.LOAD: 0, Ops.STORE: 1, Ops.END: 0, Ops.AFTER: 1,
            Ops.CONTIGUOUS: 0, Ops.COPY: 0}  # fmt: skip
# How far below a rewritten node the nodes may lie that its rule took apart.
_PATTERN_DEPTH = 3
_MOST_GONE = 64


class Lineage:
    """Origins of all nodes of a record; worked out pass by pass, when asked for."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.sites: list[tuple[tuple[Frame, ...], str]] = []
        self._bit_of: dict[tuple[tuple[Frame, ...], str], int] = {}
        self._of_pass: dict[int, dict[int, int]] = {}
        self._lines_of: dict[int, tuple[int, ...]] = {}  # a set of origins -> its cell lines
        self._of_kernel: dict[int, int] = {}
        self._calls: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        self._noted = self._read_notes()
        self._of_batch: dict[int, dict[int, int]] = {}
        self._filename = record.cell.filename if record.cell else ""

    # *** questions

    def node_lines(self, pass_id: int, node: int) -> tuple[int, ...]:
        """Cell lines that a node of a pass descends from."""
        return self._lines(self.of_pass(pass_id).get(node, 0))

    def kernel_lines(self, kernel: int) -> list[int]:
        """Cell lines that a kernel computes."""
        return self.lines(self.of_kernel(kernel))

    def kernel_methods(self, kernel: int) -> list[str]:
        """Tensor methods that a kernel computes, in the order in which they were called."""
        return self.methods(self.of_kernel(kernel))

    def nodes_of_lines(self, lines: Iterable[int], pass_id: int) -> list[int]:
        """Nodes of a pass that descend from any of these cell lines."""
        mask = self.mask(lines)
        return [node for node, bits in self.of_pass(pass_id).items() if bits & mask]

    def kernels_of_lines(self, lines: Iterable[int]) -> list[int]:
        """Kernels that compute any of these cell lines."""
        mask = self.mask(lines)
        return [k.id for k in self.record.kernels if self.of_kernel(k.id) & mask]

    def lines(self, bits: int) -> list[int]:
        """The cell lines of a set of origins; any frame of an origin counts."""
        return [*self._lines(bits)]

    def _lines(self, bits: int) -> tuple[int, ...]:
        found = self._lines_of.get(bits)
        if found is None:
            lines = {
                frame.line
                for frames, _ in self._sites_in(bits)
                for frame in frames
                if frame.filename == self._filename
            }
            found = self._lines_of[bits] = tuple(sorted(lines))
        return found

    def methods(self, bits: int) -> list[str]:
        """The tensor methods of a set of origins."""
        return list(dict.fromkeys(method for _, method in self._sites_in(bits)))

    def frames(self, bits: int) -> list[tuple[Frame, ...]]:
        """The calls of a set of origins, frame by frame, innermost first."""
        return list(dict.fromkeys(frames for frames, _ in self._sites_in(bits)))

    def mask(self, lines: Iterable[int]) -> int:
        """The set of origins that pass through any of these cell lines."""
        wanted, mask = set(lines), 0
        for number, (frames, _) in enumerate(self.sites):
            if any(f.filename == self._filename and f.line in wanted for f in frames):
                mask |= 1 << number
        return mask

    def _sites_in(self, bits: int) -> list[tuple[tuple[Frame, ...], str]]:
        return [site for number, site in enumerate(self.sites) if bits >> number & 1]

    # *** origins

    def _read_notes(self) -> dict[int, int]:
        known: dict[int, int] = {}
        for node, sites in self.record.notes.items():
            for site in sites:
                if site not in self._bit_of:
                    self._bit_of[site] = 1 << len(self.sites)
                    self.sites.append(site)
                known[node] = known.get(node, 0) | self._bit_of[site]
        return known

    def of_pass(self, pass_id: int) -> dict[int, int]:
        """Origins of every node that a pass met or made."""
        if pass_id not in self._of_pass:
            shown = self.record.passes[pass_id]
            if shown.kernel is None:
                self._batch(shown.batch)
            else:
                self._descend_kernel(shown.kernel)
        return self._of_pass[pass_id]

    def of_kernel(self, kernel: int) -> int:
        """Origins of what a kernel computes."""
        found = self._of_kernel.get(kernel)
        if found is None:
            found = self._of_kernel[kernel] = self._kernel_bits(kernel)
        return found

    def _kernel_bits(self, kernel: int) -> int:
        row = self.record.kernels[kernel]
        known = self._batch(row.batch)
        if row.call_id is not None and known.get(row.call_id):
            return known[row.call_id]
        return 0 if row.ast_id is None else self._all_below(row.ast_id, known)

    def _all_below(self, root: int, known: dict[int, int]) -> int:
        """Origins of a node and of what it is made of, up to other kernels' results."""
        nodes, bits = self.record.nodes, 0
        stack, seen = [root], {root}
        while stack:
            node = stack.pop()
            op, dtype, *_ = nodes.head(node)
            if node != root and (op in _BORDERS or str(dtype).endswith("weakint")):
                continue
            if op not in _LEAVES:
                bits |= known.get(node, 0)
            below = [s for s in nodes.src(node) if s not in seen]
            seen.update(below)
            stack.extend(below)
        return bits

    def _batch(self, batch: int) -> dict[int, int]:
        """Origins of the nodes of one realize, from tensor graph to schedule.

        Each has a table of its own: inputs are numbered anew, so that equal nodes of two batches
        may mean different things.
        """
        known = self._of_batch.get(batch)
        if known is None:
            known = self._of_batch[batch] = {}
            self._calls.clear()
            passes = [p for p in self.record.passes if p.batch == batch and p.kernel is None]
            self._descend([p for p in passes if p.parent is None], known, -1)
            self._descend_nested(passes, known)
        return known

    def _descend_kernel(self, kernel: int) -> None:
        """Passes of one kernel: its nodes have only origins that the kernel has.

        Kernels of equal form share their nodes, also with what other lines made.
        """
        bits = self.of_kernel(kernel)
        known = self._batch(self.record.kernels[kernel].batch)
        passes = [p for p in self.record.passes if p.kernel == kernel]
        self._descend([p for p in passes if p.parent is None], dict(known), bits)
        self._descend_nested(passes, known)

    def _descend_nested(self, passes: list[PassRecord], known: dict[int, int]) -> None:
        for inner in passes:
            if inner.parent is not None and inner.id not in self._of_pass:
                outer = self._of_pass.get(inner.parent, known)
                self._descend([inner], dict(outer), -1)

    def _descend(self, passes: list[PassRecord], known: dict[int, int], within: int) -> None:
        """Follow nodes through passes in order; `known` grows by what they made."""
        last_root: int | None = None
        met: dict[int, int] = {}
        for each in passes:
            if each.root_before == each.root_after == last_root and not each.count:
                self._of_pass[each.id] = met  # it did nothing, as a third of all passes
                continue
            if last_root is not None:
                self._align(last_root, each.root_before, known)
            met = self._meet(each.root_before, known, within)
            if each.count:
                self._follow_matches(each, met)
            if each.root_after is not None:
                self._align(each.root_before, each.root_after, met)
                met = {**met, **self._meet(each.root_after, met, within)}
                last_root = each.root_after
            for node, bits in met.items():
                known.setdefault(node, bits)
            self._of_pass[each.id] = met

    def _meet(self, root: int, known: dict[int, int], within: int) -> dict[int, int]:
        """Origins of all nodes under a root; an unknown one has those of its sources."""
        nodes = self.record.nodes
        met: dict[int, int] = {}
        for node in nodes.walk(root):
            bits = known.get(node)
            if bits is None:
                bits = self._noted.get(node)
            if bits is None:
                bits = 0
                if nodes.head(node).op is Ops.CALL:
                    bits = self._call_bits(node)
                elif nodes.head(node).op not in _BORDERS:
                    for s in nodes.src(node):
                        bits |= met.get(s, 0)
            met[node] = bits & within
        return met

    def _follow_matches(self, shown: PassRecord, met: dict[int, int]) -> None:
        nodes = self.record.nodes
        for old, new, replaced in Replay(nodes, shown).descents():
            if not replaced:
                met[new] = met.get(new, 0) | met.get(old, 0)
                continue
            if nodes.head(new).op is Ops.AFTER:
                self._follow_calls(old, new, met)
            self._follow_match(old, new, met)

    def _follow_match(self, old: int, new: int, met: dict[int, int]) -> None:
        """Origins of what one match made.

        A new node stands for the node of its op that the match took away (a REDUCE pulled through
        an INDEX is that REDUCE still); what wraps a value has the value's origins; the rest
        descends from the node that was rewritten and from all that went with it.
        """
        made, kept = self._made(new, met)
        if not made:
            return
        gone = self._gone(old, kept | {new})
        nodes = self.record.nodes
        by_op: dict[Ops, int] = {}
        every = moved = 0
        for node in gone:
            op, bits = nodes.head(node).op, met.get(node, 0)
            every |= bits if not self._is_stored(node) else 0
            by_op[op] = by_op.get(op, 0) | bits
            moved |= bits if op in GroupOp.Movement and not self._is_stored(node) else 0
        for node in made:
            op, src = nodes.head(node).op, nodes.src(node)
            bits = by_op.get(op, 0)
            if op in GroupOp.Movement:
                met[node] = moved
                continue
            if op is Ops.INDEX:  # where a value is read: the lines that moved it
                met[node] = bits | moved or (every if nodes.head(src[0]).op in _LEAVES else 0)
                continue
            carried = _CARRIES.get(op)
            if carried is not None and carried < len(src):
                bits = met.get(src[carried], 0)
            met[node] = bits or every

    def _is_stored(self, node: int) -> bool:
        """Whether a node only gives storage its shape: that line made the value, and is past."""
        nodes = self.record.nodes
        if nodes.head(node).op is not Ops.RESHAPE:
            return False
        return nodes.head(nodes.src(node)[0]).op in _LEAVES

    def _made(self, new: int, met: dict[int, int]) -> tuple[list[int], set[int]]:
        """Nodes under a result that were not met before, sources first; and those they rest on."""
        nodes = self.record.nodes
        made: list[int] = []
        kept: set[int] = set()
        stack, seen = [new], set()
        while stack:
            node = stack.pop()
            if node < 0:
                made.append(~node)
            elif node in met:
                kept.add(node)
            elif node not in seen:
                seen.add(node)
                stack.append(~node)
                stack.extend(nodes.src(node))
        return made, kept

    def _gone(self, old: int, kept: set[int]) -> list[int]:
        """The node that was rewritten, and those just under it that its result does without."""
        nodes = self.record.nodes
        gone = [old]
        layer = [old]
        for _ in range(_PATTERN_DEPTH):
            layer = [s for node in layer for s in nodes.src(node) if s not in kept]
            gone.extend(layer)
            if len(gone) > _MOST_GONE:
                break
        return gone

    def _follow_calls(self, old: int, new: int, met: dict[int, int]) -> None:
        """Stores that became kernels: a CALL computes all that it stores, its body node by node."""
        nodes = self.record.nodes
        for effect, call in zip(nodes.src(old), nodes.src(new), strict=False):
            if effect == call or nodes.head(call).op is not Ops.CALL:
                continue
            met[call] = met.get(call, 0) | self._all_below(effect, met)
            self._calls.setdefault(self._call_key(call), []).append((call, met[call]))
            body = nodes.src(call)[0]
            for statement in nodes.src(body):
                self._align(effect, statement, met, shared=True)

    def _call_key(self, call: int) -> tuple[int, ...]:
        """A kernel and the memory it works on, whatever was done to that memory before."""
        nodes = self.record.nodes
        key = []
        for place in nodes.src(call):
            while nodes.head(place).op in (Ops.AFTER, Ops.RESHAPE):
                place = nodes.src(place)[0]
            key.append(place)
        return tuple(key)

    def _call_bits(self, call: int) -> int:
        """Origins of a CALL whose arguments were replaced: those of the same kernel before."""
        known = self._calls.get(self._call_key(call), [])
        return known[-1][1] if known else 0

    def _align(
        self, old_root: int, new_root: int, known: dict[int, int], shared: bool = False
    ) -> None:
        """Where no rule says what became what: equal places with equal ops belong together.

        `shared` nodes may come from several places, and have the origins of all.
        """
        nodes = self.record.nodes
        stack, seen = [(old_root, new_root)], set()
        while stack:
            pair = stack.pop()
            old, new = pair
            if old == new or pair in seen:
                continue
            seen.add(pair)
            if nodes.head(old).op is not nodes.head(new).op:
                continue
            if old in known and (shared or new not in known):
                known[new] = known.get(new, 0) | known[old]
            before, after = nodes.src(old), nodes.src(new)
            if len(before) == len(after):
                stack.extend(zip(before, after, strict=True))
