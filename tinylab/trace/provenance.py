"""Which line of the user's code, and which tensor method, a node or a kernel comes from.

While someone records, the tensor language notes each node it makes, with the frames of the user's
code. All else follows from the record when asked for: what a rule made descends from the node that
it rewrote, a node rebuilt with new sources from the node it was, a kernel from the store it became.

Sets of origins are integers, one bit for each distinct (frames, method).
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from typing import NamedTuple

from tinylab.opcodes import Ops
from tinylab.trace.record import PassRecord, Record, active
from tinylab.trace.replay import Replay
from tinylab.uop.ops import UOp


class Frame(NamedTuple):
    """One line of the user's code on the way to a tensor method."""

    filename: str
    line: int
    function: str


_OURS, _USERS, _HOST = range(3)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_HOSTS = ("IPython", "ipykernel", "tinylab_widgets", "_pytest", "nbclient", "marimo")
_HOST_PARTS = tuple(f"{os.sep}{name}{os.sep}" for name in _HOSTS)
_sort_of_file: dict[str, int] = {}


def note(uop: UOp, method: str) -> None:
    """Remember that a tensor method made this node, and from where it was called."""
    records = active()
    if not records:
        return
    frames = user_frames()
    for record in records:
        record.note(uop, frames, method)


def user_frames() -> tuple[Frame, ...]:
    """The frames of the user's code, innermost first; tinylab's own are left out.

    The walk ends where the program that runs the user's code begins (a notebook kernel, pytest).
    """
    found: list[Frame] = []
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        sort = _sort_of_file.get(code.co_filename)
        if sort is None:
            sort = _sort_of_file[code.co_filename] = _sort(code.co_filename)
        if sort == _USERS:
            found.append(Frame(code.co_filename, frame.f_lineno, code.co_name))
        elif sort == _HOST and found:
            break
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(found)


def _sort(filename: str) -> int:
    if filename.startswith(_PACKAGE) or filename.startswith("<string>"):
        return _OURS
    hosted = filename.startswith((_STDLIB, "<frozen")) and "-packages" not in filename
    return _HOST if hosted or any(part in filename for part in _HOST_PARTS) else _USERS


# What carries no line of its own: the same leaf stands in many places.
_LEAVES = frozenset({Ops.CONST, Ops.RANGE, Ops.PARAM, Ops.BUFFER, Ops.SPECIAL, Ops.NOOP})
# Where the work of another kernel begins.
_BORDERS = frozenset({Ops.AFTER, Ops.BUFFER, Ops.PARAM, Ops.CALL, Ops.FUNCTION, Ops.CONST})


class Lineage:
    """Origins of all nodes of a record; worked out pass by pass, when asked for."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.sites: list[tuple[tuple[Frame, ...], str]] = []
        self._bit_of: dict[tuple[tuple[Frame, ...], str], int] = {}
        self._of_pass: dict[int, dict[int, int]] = {}
        self._of_kernel: dict[int, int] = {}
        self._shared = self._noted()
        self._shared_done = False
        self._filename = record.cell.filename if record.cell else ""

    # *** questions

    def node_lines(self, pass_id: int, node: int) -> list[int]:
        """Cell lines that a node of a pass descends from."""
        return self.lines(self.of_pass(pass_id).get(node, 0))

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
        found = {
            frame.line
            for frames, _ in self._sites_in(bits)
            for frame in frames
            if frame.filename == self._filename
        }
        return sorted(found)

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

    def _noted(self) -> dict[int, int]:
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
        self._descend_shared()
        if pass_id not in self._of_pass:
            shown = self.record.passes[pass_id]
            if shown.kernel is not None:
                self._descend_kernel(shown.kernel)
        return self._of_pass[pass_id]

    def of_kernel(self, kernel: int) -> int:
        """Origins of what a kernel computes."""
        self._descend_shared()
        found = self._of_kernel.get(kernel)
        if found is None:
            found = self._of_kernel[kernel] = self._kernel_bits(kernel)
        return found

    def _kernel_bits(self, kernel: int) -> int:
        row = self.record.kernels[kernel]
        call = row.call_id
        if call is not None and self._shared.get(call):
            return self._shared[call]
        return 0 if row.ast_id is None else self._all_below(row.ast_id, self._shared)

    def _all_below(self, root: int, known: dict[int, int]) -> int:
        """Origins of a node and of what it is made of, up to other kernels' results."""
        nodes, bits = self.record.nodes, 0
        stack, seen = [root], {root}
        while stack:
            node = stack.pop()
            op = nodes.head(node).op
            if op not in _LEAVES:
                bits |= known.get(node, 0)
            if op in _BORDERS and node != root:
                continue
            below = [s for s in nodes.src(node) if s not in seen]
            seen.update(below)
            stack.extend(below)
        return bits

    def _descend_shared(self) -> None:
        """Passes over the tensor graph and the schedule: one family of nodes."""
        if self._shared_done:
            return
        self._shared_done = True
        shared = [p for p in self.record.passes if p.kernel is None]
        self._descend([p for p in shared if p.parent is None], self._shared, -1)
        self._descend_nested(shared)

    def _descend_kernel(self, kernel: int) -> None:
        """Passes of one kernel: its nodes have only origins that the kernel has.

        Kernels of equal form share their nodes, also with what other lines made.
        """
        bits = self.of_kernel(kernel)
        passes = [p for p in self.record.passes if p.kernel == kernel]
        self._descend([p for p in passes if p.parent is None], dict(self._shared), bits)
        self._descend_nested(passes)

    def _descend_nested(self, passes: list[PassRecord]) -> None:
        for inner in passes:
            if inner.parent is not None and inner.id not in self._of_pass:
                known = dict(self._of_pass.get(inner.parent, self._shared))
                self._descend([inner], known, -1)

    def _descend(self, passes: list[PassRecord], known: dict[int, int], within: int) -> None:
        """Follow nodes through passes in order; `known` grows by what they made."""
        last_root: int | None = None
        for each in passes:
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
                bits = 0
                if nodes.head(node).op not in _BORDERS:
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
            bits = met.get(old, 0)
            if nodes.head(new).op is Ops.CALL or nodes.head(new).op is Ops.AFTER:
                bits |= self._all_below(old, met)
            stack = [new]
            while stack:
                node = stack.pop()
                if node not in met:
                    met[node] = bits
                    stack.extend(nodes.src(node))

    def _align(self, old_root: int, new_root: int, known: dict[int, int]) -> None:
        """Where no rule says what became what: equal places with equal ops belong together."""
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
            if new not in known and old in known:
                known[new] = known[old]
            before, after = nodes.src(old), nodes.src(new)
            if len(before) == len(after):
                stack.extend(zip(before, after, strict=True))
