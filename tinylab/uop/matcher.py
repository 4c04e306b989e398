"""Rule and PatternMatcher: tables of named rewrites.

A rule is a row: name, law, pattern, result and, if need be, a condition. Rows are tried in order;
the first result that is neither None nor the node itself counts.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tinylab.errors import ContractError
from tinylab.helpers.context import UPAT_COMPILE
from tinylab.opcodes import Ops
from tinylab.uop.compiled import Matcher, compile_rule, interpret_rule
from tinylab.uop.pattern import Place, UPat, place_of_caller
from tinylab.uop.travel import arrived, sent

if TYPE_CHECKING:
    from tinylab.uop.node import UOp


class Rule:
    """A named rewrite: where `pattern` matches and `when` holds, `result` says what replaces it.

    result gets the bound nodes as keyword arguments, and `ctx` if it has that parameter; when gets
    those it names; a result of None declines. law is the rule in one line, for people.
    """

    __slots__ = ("_match", "law", "name", "pattern", "place", "result", "takes_ctx", "when")

    def __init__(
        self,
        name: str,
        law: str,
        pattern: UPat,
        result: Callable[..., Any],
        when: Callable[..., Any] | None = None,
    ) -> None:
        if pattern.op is None and not pattern.alternatives:
            raise ContractError(f"rule {name!r} has no op at the top of its pattern")
        self.name, self.law, self.pattern = name, law, pattern
        self.result, self.when = result, when
        self.takes_ctx = "ctx" in inspect.signature(result).parameters
        self.place: Place = place_of_caller()
        self._match: Matcher | None = None

    @property
    def match(self) -> Matcher:
        """The compiled rule, made on first use."""
        if self._match is None:
            self._match = compile_rule(self.pattern, self.result, self.when, self.takes_ctx)
        return self._match

    def interpreted(self) -> Matcher:
        """The rule by walking over the pattern."""
        return interpret_rule(self.pattern, self.result, self.when, self.takes_ctx)

    @property
    def ops(self) -> frozenset[Ops]:
        """The ops at the top of the pattern."""
        return _top_ops(self.pattern)

    def __reduce__(self) -> tuple[Any, ...]:
        functions = sent(self.result), sent(self.when)
        return _arrived_rule, (self.name, self.law, self.pattern, *functions, self.place)

    def __repr__(self) -> str:
        return f"Rule({self.name!r}, {self.law!r})"


def _arrived_rule(name: str, law: str, pattern: UPat, result: Any, when: Any, place: Place) -> Rule:
    rule = Rule(name, law, pattern, arrived(result), arrived(when))
    rule.place = place
    return rule


def _top_ops(pattern: UPat) -> frozenset[Ops]:
    if pattern.op is not None:
        return pattern.op
    found = frozenset(Ops) if not pattern.alternatives else frozenset()
    for alternative in pattern.alternatives:
        found |= _top_ops(alternative)
    return found


def _as_rule(row: Any) -> Rule:
    """A bare (pattern, function) pair as a rule named after its function, or after its place."""
    if isinstance(row, Rule):
        return row
    pattern, function = row
    rule = Rule(getattr(function, "__name__", type(function).__name__), "", pattern, function)
    code = getattr(function, "__code__", None)
    if code is not None:
        rule.place = (code.co_filename, code.co_firstlineno)
    if rule.name == "<lambda>":
        file, line = rule.place
        rule.name = f"{os.path.basename(file)}:{line}"
    return rule


_Row = tuple[int, Rule]  # (mask of ops that some source must have, rule)


class PatternMatcher:
    """A table of rules, grouped by the op at the top and tried in order.

    Rows are Rules, or bare (UPat, function) pairs. Tables add: the left one's rules come first.
    """

    def __init__(
        self, patterns: Sequence[Rule | tuple[UPat, Callable[..., Any]]], compiled: bool = True
    ) -> None:
        self.rules: tuple[Rule, ...] = tuple(_as_rule(row) for row in patterns)
        self.compiled = compiled
        self._sums: dict[PatternMatcher, PatternMatcher] = {}
        self._by_op: dict[Ops, list[tuple[int, Matcher, Rule]]] = {}
        # The rows that are left of an op's after the early reject, by the ops of the sources.
        self._by_sources: dict[tuple[Ops, int], list[tuple[Matcher, Rule]]] = {}

    @property
    def patterns(self) -> list[tuple[UPat, Callable[..., Any]]]:
        """The rows as bare pairs."""
        return [(rule.pattern, rule.result) for rule in self.rules]

    def __reduce__(self) -> tuple[Any, ...]:
        return PatternMatcher, (self.rules, self.compiled)

    def __add__(self, more: PatternMatcher) -> PatternMatcher:
        found = self._sums.get(more)
        if found is None:
            found = self._sums[more] = PatternMatcher((*self.rules, *more.rules), self.compiled)
        return found

    def _rows(self, op: Ops) -> list[tuple[int, Matcher, Rule]]:
        rows = [
            (
                _mask(rule.pattern.early_reject),
                rule.match if self.compiled and UPAT_COMPILE else rule.interpreted(),
                rule,
            )
            for rule in self.rules
            if op in rule.ops
        ]
        self._by_op[op] = rows
        return rows

    def may_match(self, op: Ops) -> bool:
        """Whether any rule has this op at its top."""
        rows = self._by_op.get(op)
        return bool(self._rows(op) if rows is None else rows)

    def find(self, uop: UOp, ctx: Any = None) -> tuple[UOp, Rule] | None:
        """The first result and the rule that gave it, or None."""
        try:
            below = uop._mask
        except AttributeError:
            below = 0
            for s in uop.src:
                below |= 1 << s.op
            uop._mask = below
        # Graphs have few combinations of ops: kept lists of rows are 1.2 times faster than a test
        # of every row's mask.
        rows = self._by_sources.get((uop.op, below))
        if rows is None:
            rows = self._reject(uop.op, below)
        for match, rule in rows:
            result = match(uop, ctx)
            if result is not None:
                return result, rule
        return None

    def _reject(self, op: Ops, below: int) -> list[tuple[Matcher, Rule]]:
        rows = self._by_op.get(op)
        if rows is None:
            rows = self._rows(op)
        left = [(match, rule) for needed, match, rule in rows if not needed & ~below]
        self._by_sources[op, below] = left
        return left

    def rewrite(self, uop: UOp, ctx: Any = None) -> Any:
        """The first result that is neither None nor the node itself, else None."""
        found = self.find(uop, ctx)
        return None if found is None else found[0]


def _mask(ops: Iterable[Ops]) -> int:
    found = 0
    for op in ops:
        found |= 1 << op
    return found
