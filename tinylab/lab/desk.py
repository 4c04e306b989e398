"""Where a front end asks: one desk per record, one method per question, answers in plain data.

`asks` names what may be asked; see `tinylab_widgets.messages` for the form of each answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tinylab.errors import LabError
from tinylab.helpers.near import closest
from tinylab.lab.bench import Bench
from tinylab.lab.counters import Counting
from tinylab.lab.graph import Json, Nodes
from tinylab.lab.kernels import Kernels, axes, opts_from_json
from tinylab.lab.overview import overview
from tinylab.lab.steps import Steps
from tinylab.trace import events
from tinylab.trace.lineage import Lineage
from tinylab.trace.record import Record

Push = Callable[[Json], None]
# Answered after a while: run these on a thread, so that other questions are answered meanwhile.
SLOW_ASKS = frozenset({"run", "count"})


class Desk:
    """All that can be asked about one record."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.lineage = Lineage(record)
        self.nodes = Nodes(record.nodes)
        self.steps = Steps(record, self.nodes, self.lineage)
        self.kernels = Kernels(record, self.lineage)
        self.bench = Bench(record, self.kernels)
        self.counting = Counting(self.bench, self.kernels)
        self._lock = threading.RLock()
        self._asks: dict[str, Callable[[Json, Push | None], Any]] = {
            "overview": lambda args, push: self.overview(),
            "first": lambda args, push: self.first(),
            "step": lambda args, push: self.steps.step(args["pass"], args["k"], args.get("from")),
            "text": lambda args, push: self.steps.text(
                args["pass"], args["k"], args.get("after", 0)
            ),
            "search": lambda args, push: self.steps.search(args["query"], args.get("pass")),
            "lines": lambda args, push: self.of_lines(args["lines"], args.get("pass")),
            "node": lambda args, push: self.node(args["pass"], args["node"]),
            "kernel": lambda args, push: self.kernel(args["kernel"]),
            "actions": lambda args, push: self.actions(args["kernel"], args["opts"]),
            "run": lambda args, push: self.run(
                args["kernel"], args["opts"], push, args.get("limit")
            ),
            "count": lambda args, push: self.count(
                args["kernel"],
                args.get("opts"),
                push,
                args.get("limit"),
                args.get("target"),
                args.get("caches"),
            ),
            "row": lambda args, push: {"row": self.bench.row(args["kernel"], args["row"])},
            "stop": lambda args, push: self.bench.stop(args["kernel"]),
            "more": lambda args, push: self.more(args),
        }

    @property
    def asks(self) -> list[str]:
        """The names of all questions."""
        return sorted(self._asks)

    def answer(self, ask: str, args: Json | None = None, push: Push | None = None) -> Any:
        """The answer to one question.

        Raises: LabError for a question that there is not, or for arguments that do not fit it.
        """
        found = self._asks.get(ask)
        if found is None:
            near = closest(ask, self.asks)
            raise LabError(
                f"nobody answers {ask!r}", help=f"did you mean {near}?" if near else None
            )
        _check_arguments(ask, args)
        try:
            if ask in SLOW_ASKS or ask == "stop":
                return found(args or {}, push)
            # A cell may be recording meanwhile: what a viewer works out is no part of it.
            with self._lock, events.quietly():
                return found(args or {}, push)
        except KeyError as missing:
            raise LabError(f"{ask} needs {missing}") from missing

    # *** questions that need more than one part

    def overview(self) -> Json:
        """Stages, passes and kernels in one page."""
        return overview(self.record, self.kernels, self.steps)

    def first(self) -> Json | None:
        """The graph shown first: of the first pass that did something, before its first match."""
        passes = self.record.passes
        if not passes:
            return None
        failed = self.record.failed_pass
        if failed is not None:
            return self.steps.step(failed.id, failed.count)
        shown = next((p for p in passes if p.count), passes[0])
        return self.steps.step(shown.id, 0)

    def of_lines(self, lines: list[int], pass_id: int | None = None) -> Json:
        """Kernels and nodes that come from any of these cell lines; nodes per pass.

        Of the passes of kernels a front end wants those where it stands: with `pass_id` only the
        kernel of that pass is looked into.
        """
        kernels = self.lineage.kernels_of_lines(lines)
        wanted = set(kernels)
        if pass_id is not None:
            own = self.steps.info(pass_id).kernel
            wanted = {k for k in kernels if k == own}
        nodes = {
            p.id: found
            for p in self.record.passes
            if (p.kernel is None or p.kernel in wanted)
            and (found := self.lineage.nodes_of_lines(lines, p.id))
        }
        return {"kernels": kernels, "nodes": nodes}

    def node(self, pass_id: int, node: int) -> Json:
        """One node, the cell lines it comes from and the kernels that compute them.

        A node of a kernel's pass is computed in that kernel, whatever else its lines are.
        """
        if not 0 <= node < len(self.record.nodes):
            raise LabError(f"there is no node {node}: the record has {len(self.record.nodes)}")
        row = self.nodes.row(node, self.lineage, pass_id)
        bits = self.lineage.of_pass(pass_id).get(node, 0)
        own = self.steps.info(pass_id).kernel
        if own is None:
            kernels = [k.id for k in self.record.kernels if self.lineage.of_kernel(k.id) & bits]
        else:
            kernels = [own]
        return {
            "node": row,
            "lines": row["lines"],
            "kernels": kernels,
            "methods": self.lineage.methods(bits),
            "calls": [[list(f) for f in frames] for frames in self.lineage.frames(bits)[:20]],
            "text": self.nodes.line(node, {}),
        }

    def kernel(self, kernel: int) -> Json:
        """One kernel: opts, axes, source, assembly and what was tried."""
        return self.kernels.detail(kernel, self.bench.history(kernel))

    def actions(self, kernel: int, opts: list[Json]) -> Json:
        """The axes after these opts, or why one of them cannot be applied; runs nothing."""
        found, problem = axes(self.kernels.get(kernel), opts_from_json(opts))
        return {"axes": found, "problems": problem}

    def run(
        self,
        kernel: int,
        opts: list[Json],
        push: Push | None = None,
        limit_s: float | None = None,
    ) -> Json:
        """Recompile a kernel with these opts, run, check and time it; adds a row to its history.

        `own` is the row of the unedited kernel, which is timed in turns with it.

        One run may take `limit_s`; not given, what suits the kernel.
        """
        row = self.bench.run(kernel, opts, _progress(kernel, push), limit_s)
        return {"row": row, "own": self.bench.history(kernel)[0]}

    def count(
        self,
        kernel: int,
        opts: list[Json] | None = None,
        push: Push | None = None,
        limit_s: float | None = None,
        target: str | None = None,
        caches: list[Json] | None = None,
    ) -> Json:
        """Counters of a kernel with these opts, a roofline, advice; runs the kernel apart.

        One run may take `limit_s`; not given, what suits the kernel. With a `target`, a GPU such as
        "sm_80", nothing is run: figures are estimated. `caches` are the levels of the cache model.
        """
        say = _progress(kernel, push)
        return self.counting.count(kernel, opts, say, limit_s, target, caches)

    def more(self, args: Json) -> Json:
        """The next page of a long answer; `kind` says of which, `after` how many are known."""
        kind, after = args["kind"], int(args.get("after", 0))
        if kind == "nodes":
            return self.steps.more_nodes(args["pass"], args["k"], after, args.get("from"))
        if kind == "text":
            return self.steps.text(args["pass"], args["k"], after)
        raise LabError(f"there is no more of {kind!r}", help="nodes and text come in pages")


def _progress(kernel: int, push: Push | None) -> Callable[[str], None]:
    """Says what a slow question is at."""

    def say(message: str) -> None:
        if push is not None:
            push({"event": "progress", "kernel": kernel, "message": message})

    return say


_OPTIONAL = ("pass", "from", "limit", "target")
_KINDS: dict[str, tuple[type, str]] = {
    **dict.fromkeys(("pass", "k", "node", "row", "kernel", "after"), (int, "a whole number")),
    "query": (str, "a text"),
    "target": (str, 'the name of a GPU, such as "sm_80"'),
    "from": (dict, 'a place, such as {"pass": 4, "k": 11}'),
}


def _check_arguments(ask: str, args: Any) -> None:
    """Whether the arguments of a question are of the kinds that they should be.

    Raises: LabError, which names the first that is not.
    """
    if args is not None and not isinstance(args, dict):
        raise LabError(f"the arguments of {ask} are {args!r}, not a dict")
    for name, value in (args or {}).items():
        kind, words = _KINDS.get(name, (object, ""))
        is_none = value is None and name in _OPTIONAL
        if not (isinstance(value, kind) or is_none) or (kind is int and isinstance(value, bool)):
            raise LabError(f"{name} is {value!r}, not {words}", help=f"it is an argument of {ask}")
    lines = (args or {}).get("lines", [])
    if not (isinstance(lines, list) and all(type(line) is int for line in lines)):
        raise LabError(f"lines are {lines!r}, not a list of line numbers")


_desks_lock = threading.Lock()


def desk_of(record: Record) -> Desk:
    """The desk of a record; made once, so that all views of it share what was worked out."""
    with _desks_lock:
        if record.desk is None:
            record.desk = Desk(record)
        found: Desk = record.desk
        return found


def answer(record: Record, ask: str, args: Json | None = None, push: Push | None = None) -> Any:
    """The answer to one question about a record, as plain data.

    Raises: LabError where there is none.
    """
    return desk_of(record).answer(ask, args, push)
