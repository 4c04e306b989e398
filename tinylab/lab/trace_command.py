"""`tinylab trace FILE`: passes, matches, graphs and kernels of a saved record, as text.

tinylab trace cell.tlab                  how it ended, its passes and kernels
tinylab trace cell.tlab -p split         the matches of one pass, by name or number
tinylab trace cell.tlab -p 7 -k 3        the graph after match 3, and the rule that made it
tinylab trace cell.tlab --search reduce  where an op, a rule or a label stands
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tinylab.errors import LabError
from tinylab.helpers.near import closest
from tinylab.lab.search import wrappers

if TYPE_CHECKING:
    from tinylab.lab.desk import Desk
    from tinylab.lab.graph import Json
    from tinylab.profiler.report import Section

_MOST_NAMED = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("file", help="a .tlab file")
    add("-a", "--all", action="store_true", help="passes that changed nothing too")
    add("-p", "--pass", dest="shown", metavar="PASS", help="matches of a pass: its name or number")
    add("-k", "--match", metavar="K", help="with -p: the graph after match K; 0 or last do too")
    add("-d", "--diff", action="store_true", help="with -k: only the lines that differ")
    add("--kernel", type=int, metavar="N", help="opts, source and buffers of one kernel")
    add("--search", metavar="WORD", help="where an op, a rule or a label has this word")
    add("-n", "--limit", type=int, metavar="N", help="at most N rows of a table")
    add("--json", action="store_true", help="a JSON object a row instead of tables")


def run(args: argparse.Namespace) -> int:
    """Print what is asked for; the exit status is 0.

    Raises: TraceError for what cannot be read, LabError for a pass or a kernel that there is not.
    """
    from tinylab.lab.desk import Desk
    from tinylab.profiler.saved import is_alone
    from tinylab.profiler.terminal import show
    from tinylab.trace import store

    record = store.load(args.file)
    if is_alone(record):
        raise LabError(
            f"{args.file} holds a profile, and no record of rewrites",
            help=f"tinylab profile {args.file} shows it; tinylab.profile(record=True) records too",
        )
    desk = Desk(record)
    try:
        for section in _sections(desk, args):
            show(section, as_json=args.json, limit=args.limit)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read along has seen enough; Python must not complain about that as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _sections(desk: Desk, args: argparse.Namespace) -> Iterator[Section]:
    if args.search is not None:
        number = None if args.shown is None else _pass_id(desk, args.shown)
        yield _hits(desk, args.search, number)
    elif args.kernel is not None:
        yield from _kernel(desk, args.kernel)
    elif args.shown is not None:
        number = _pass_id(desk, args.shown)
        if args.match is None:
            yield _matches(desk, number)
        else:
            yield from _graph(desk, number, _match(desk, number, args.match), args.diff)
    elif args.match is not None or args.diff:
        raise LabError("a match is of a pass", help="name it: -p PASS -k K")
    else:
        yield from _overview(desk, args.all)


def _pass_id(desk: Desk, wanted: str) -> int:
    """The number of the pass that is meant.

    Raises: LabError for a name that no pass has, or several.
    """
    passes = desk.record.passes
    if wanted.isdecimal():
        return desk.steps.info(int(wanted)).id
    outer = wrappers(desk.record)
    named = [p for p in passes if p.name == wanted and p.id not in outer]
    if not named:
        near = closest(wanted, {p.name for p in passes})
        raise LabError(
            f"no pass is called {wanted!r}", help=f"did you mean {near}?" if near else None
        )
    if len(named) > 1:
        active = [p for p in named if p.count or p.changed] or named
        if len(active) == 1:
            return active[0].id
        listed = ", ".join(f"{p.id} ({_stage(desk, p.id)})" for p in active[:_MOST_NAMED])
        more = f" and {len(active) - _MOST_NAMED} more" if len(active) > _MOST_NAMED else ""
        raise LabError(
            f"{len(active)} passes are called {wanted}", help=f"give a number: {listed}{more}"
        )
    return named[0].id


def _stage(desk: Desk, number: int) -> str:
    from tinylab.lab.kernels import function_name

    shown = desk.record.passes[number]
    if shown.kernel is None:
        return shown.stage
    return function_name(desk.record.kernels[shown.kernel])


def _match(desk: Desk, number: int, wanted: str) -> int:
    count = desk.steps.info(number).count
    k = {"first": min(1, count), "last": count}.get(wanted)
    if k is None and wanted.isdecimal():
        k = int(wanted)
    if k is None or k > count:
        raise LabError(f"pass {number} has no match {wanted}: it has {count}")
    return k


def _overview(desk: Desk, every: bool) -> Iterator[Section]:
    from tinylab.lab.report import summary
    from tinylab.profiler.report import Section

    page = desk.overview()
    columns = ("pass", "stage", "name", "matches", "nodes", "us", "direction")
    idle = 0
    rows = []
    for stage in page["stages"]:
        for each in stage["passes"]:
            if not (every or each["matches"] or each["changed"] or each["failed"]):
                idle += 1
                continue
            rows.append(_pass_row(stage["name"], each))
    rows.sort(key=lambda row: int(row["pass"]))
    notes = [f"{idle} passes changed nothing: -a lists them too"] if idle else []
    yield Section(summary(page), rows, columns, [*notes, *_failure(page["error"])])
    yield Section("kernels", [_kernel_row(k) for k in page["kernels"]])


def _pass_row(stage: str, info: Json) -> Json:
    name = f"{info['name']} (failed)" if info["failed"] else info["name"]
    return {
        "pass": info["id"],
        "stage": stage,
        "name": "  " + name if info["parent"] is not None else name,
        "matches": info["matches"],
        "nodes": info["nodes"],
        "us": round(info["elapsed_us"], 1),
        "direction": info["direction"],
    }


def _failure(error: Json | None) -> list[str]:
    if error is None or error["pass_id"] is None:
        return []
    rule = f" by the rule {error['rule']}" if error["rule"] else ""
    where = f"in pass {error['pass_id']} after match {error['match']}"
    return [f"{error['type']} was raised{rule} {where}: -p {error['pass_id']} -k last shows it"]


def _kernel_row(kernel: Json) -> Json:
    def rounded(value: float | None) -> float | None:
        return None if value is None else float(f"{value:.4g}")

    return {
        "kernel": kernel["id"],
        "name": kernel["name"],
        "us": rounded(kernel["elapsed_us"]),
        "runs": kernel["runs"],
        "GFLOP/s": rounded(kernel["gflops"]),
        "GB/s": rounded(kernel["gbs"]),
        "lines": ",".join(map(str, kernel["lines"])),
        "opts": " ".join(kernel["opts"]) or "none",
        "reason": kernel["error"] or kernel["reason"],
    }


def _matches(desk: Desk, number: int) -> Section:
    from tinylab.profiler.report import Section

    shown = desk.steps.info(number)
    replay = desk.steps.replay(number)
    rows = (
        {
            "match": k,
            "rule": desk.steps.rule(replay.rules[k - 1]).name,
            "us": round(replay.elapsed_ns[k - 1] / 1000, 1),
            "before": desk.nodes.line(replay.before[k - 1], {}),
            "after": desk.nodes.line(replay.after[k - 1], {}),
        }
        for k in range(1, replay.count + 1)
    )
    title = f"pass {number}, {shown.name} ({_stage(desk, number)}): {replay.count} matches"
    failed = desk.steps.failure(number)
    columns = ("match", "rule", "us", "before", "after")
    return Section(title, rows, columns, _raised(desk, failed))


def _raised(desk: Desk, failed: Json | None) -> list[str]:
    """What ended a pass early, and on which node."""
    if failed is None:
        return []
    if failed["rule"] is None:
        return [failed["message"]]
    rule, node = failed["rule"], failed["node"]
    place = f"{rule['file']}:{rule['line']}"
    tried = f"tried on {desk.nodes.line(node, {})}" if node is not None else ""
    return [f"the rule {rule['name']} ({place}) raised {failed['message']}", tried]


def _graph(desk: Desk, number: int, k: int, only_difference: bool) -> Iterator[Section]:
    from tinylab.profiler.report import Section

    step = desk.steps.step(number, k)
    shown = desk.steps.info(number)
    title = (
        f"pass {number}, {shown.name} ({_stage(desk, number)}), after match {k} of {shown.count}"
    )
    rule = step["rule"]
    notes = []
    if rule is not None:
        law = f": {rule['law']}" if rule["law"] else ""
        notes.append(f"match {k}, {rule['name']}{law} ({rule['file']}:{rule['line']})")
    if step["failed"] is not None:
        notes += _raised(desk, step["failed"])
    rows: Iterator[Json] = iter(desk.steps.text(number, k)["diff"])
    if not only_difference:
        rows = _lines(desk, number, k)
    yield Section(title, (_marked(line) for line in rows), ("mark", "graph"), notes)


def _lines(desk: Desk, number: int, k: int) -> Iterator[Json]:
    after, more = 0, True
    while more:
        page = desk.steps.text(number, k, after)
        yield from page["lines"]
        after, more = after + len(page["lines"]), page["more"]


def _marked(line: Json) -> Json:
    return {"mark": line["mark"], "graph": line["text"]}


def _hits(desk: Desk, query: str, number: int | None) -> Section:
    from tinylab.profiler.report import Section

    found: dict[str, Any] = desk.steps.search(query, number)
    rows = [
        {
            "pass": hit["pass"],
            "stage": _stage(desk, hit["pass"]),
            "name": desk.record.passes[hit["pass"]].name,
            "match": hit["k"],
            "label": hit["label"],
            "passes": hit.get("passes"),
            "matches": hit.get("matches"),
        }
        for hit in found["hits"]
    ]
    notes = ["there are more: search in one pass with -p"] if found["more"] else []
    return Section(f"{query!r} stands in", rows, notes=notes)


def _kernel(desk: Desk, number: int) -> Iterator[Section]:
    from tinylab.profiler.report import Section

    kernel = desk.kernel(number)
    opts = [f"{o['op']}({o['axis']}, {o['arg']})" for o in kernel["opts"]]
    notes = [f"reason: {kernel['reason']}", f"opts: {' '.join(opts) or 'none'}"]
    yield Section(f"kernel {number}, {kernel['name']}: buffers", kernel["buffers"], notes=notes)
    source = [{"line": i, "source": row["text"]} for i, row in enumerate(kernel["source"], 1)]
    yield Section(f"source ({kernel['language']})", source, ("line", "source"))
