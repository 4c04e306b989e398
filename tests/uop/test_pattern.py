"""UPat and PatternMatcher: every feature, in the compiled and in the plain form alike."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tinylab.dtype import dtypes
from tinylab.helpers.context import Context
from tinylab.uop.ops import GroupOp, Ops, PatternMatcher, Rule, UOp, UPat

x, y, z = (UOp.variable(n, 0, 9) for n in "xyz")
i = UOp.variable("i", 0, 9, dtypes.int32)
f = UOp.variable("f", 0.0, 1.0, dtypes.float32)
b = UOp.variable("b", False, True, dtypes.bool)


def found(pattern: UPat, node: UOp) -> list[dict[str, UOp]]:
    """Every binding with which a rule of the pattern is called, compiled and plain alike."""
    calls: list[list[dict[str, UOp]]] = []
    for compiled in (True, False):
        heard: list[dict[str, UOp]] = []
        matcher = PatternMatcher(
            [(pattern, lambda _heard=heard, **names: _heard.append(names))], compiled
        )
        assert matcher.rewrite(node) is None
        calls.append(heard)
    assert calls[0] == calls[1], "compiled and plain matching differ"
    assert calls[1] == pattern.match(node, {}) or not calls[1]
    return calls[0]


def matches(pattern: UPat, node: UOp) -> bool:
    return bool(found(pattern, node))


# *** op, dtype, arg, tag


def test_op_one_or_several() -> None:
    assert matches(UPat(Ops.ADD), x + y)
    assert not matches(UPat(Ops.MUL), x + y)
    assert matches(UPat((Ops.ADD, Ops.MUL)), x + y)
    assert matches(UPat({Ops.ADD, Ops.MUL}), x * y)
    assert matches(UPat(GroupOp.ALU), x * y)


@pytest.mark.parametrize("op", ["ADD", 3, [Ops.ADD], ("ADD",)])
def test_op_of_another_type(op: Any) -> None:
    with pytest.raises(AssertionError, match="op must be Ops or tuple of Ops"):
        UPat(op)


def test_the_top_of_a_rule_needs_an_op() -> None:
    with pytest.raises(AssertionError):
        PatternMatcher([(UPat.var("x"), lambda x: None)])


def test_dtype_exactly() -> None:
    assert matches(UPat(Ops.ADD, dtypes.int32), i + 1)
    assert not matches(UPat(Ops.ADD, dtypes.int64), i + 1)
    assert matches(UPat(Ops.ADD, (dtypes.int64, dtypes.int32)), i + 1)
    assert matches(UPat(Ops.ADD, {dtypes.int32}), i + 1)


@pytest.mark.parametrize(
    ("arg", "value", "same"),
    [
        (0, 0, True),
        (0, 0.0, True),
        (0, False, True),
        (1, True, True),
        (1, 1.0, True),
        (1, 2, False),
    ],
)
def test_arg_in_pythons_sense(arg: Any, value: Any, same: bool) -> None:
    assert matches(UPat(Ops.CONST, arg=arg), UOp.const(value)) is same


def test_tag() -> None:
    node = (x + y).rtag("mark")
    assert matches(UPat(Ops.ADD, tag="mark"), node)
    assert not matches(UPat(Ops.ADD, tag="other"), node)
    assert matches(UPat(Ops.ADD, tag={"mark", "other"}), node)
    assert matches(UPat(Ops.ADD), node)
    assert not matches(UPat(Ops.ADD, tag="mark"), x + y)


# *** sources


def test_src_in_order() -> None:
    pattern = UPat(Ops.ADD, src=(UPat.var("a"), UPat.cvar("c")))
    assert found(pattern, x + 3) == [{"a": x, "c": UOp.const(3)}]
    assert not matches(pattern, UOp(Ops.ADD, src=(UOp.const(3), x)))
    assert not matches(UPat(Ops.WHERE, src=(UPat(), UPat())), b.where(x, y))


def test_src_in_any_order() -> None:
    pattern = UPat(Ops.ADD, src=[UPat.var("a"), UPat.cvar("c")])
    assert found(pattern, UOp(Ops.ADD, src=(UOp.const(3), x))) == [{"a": x, "c": UOp.const(3)}]
    assert len(found(UPat(Ops.ADD, src=[UPat.var("a"), UPat.var("c")]), x + y)) in (1, 2)


def test_three_sources_in_any_order() -> None:
    pattern = UPat(Ops.WHERE, src=[UPat(Ops.CONST), UPat(Ops.ADD), UPat.var("a", dtypes.bool)])
    for src in itertools.permutations((UOp.const(3), x + y)):
        assert found(pattern, UOp(Ops.WHERE, src=(b, *src))) == [{"a": b}]


def test_one_pattern_for_each_source() -> None:
    pattern = UPat(Ops.STACK, src=UPat(Ops.CONST))
    assert matches(pattern, UOp.stack(UOp.const(1), UOp.const(2), UOp.const(3)))
    assert not matches(pattern, UOp.stack(UOp.const(1), x))


def test_early_reject_of_a_repeated_pattern() -> None:
    """Some source must have the op, so nothing matches where there are none."""
    assert not matches(UPat(Ops.STACK, src=UPat(Ops.CONST)), UOp(Ops.STACK, dtypes.void, ()))
    assert matches(
        UPat(Ops.STACK, src=UPat(Ops.CONST), custom_early_reject=set()),
        UOp(Ops.STACK, dtypes.void, ()),
    )


def test_no_sources() -> None:
    assert matches(UPat(Ops.CONST, src=()), UOp.const(1))
    assert not matches(UPat(Ops.ADD, src=()), x + y)


def test_more_sources_may_follow() -> None:
    pattern = UPat(Ops.STACK, src=(UPat(Ops.CONST, name="first"),), allow_any_len=True)
    one, two = UOp.const(1), UOp.const(2)
    assert found(pattern, UOp.stack(one, x, two)) == [{"first": one}]
    assert not matches(pattern, UOp.stack(x, one))


def test_custom_early_reject() -> None:
    pattern = UPat(Ops.ADD, src=(UPat(Ops.MUL), UPat()), custom_early_reject={Ops.WHERE})
    assert not matches(pattern, x * y + z)
    assert matches(pattern, x * y + b.where(x, y))


# *** names


def test_one_name_twice_is_one_node() -> None:
    pattern = UPat(Ops.ADD, src=(UPat.var("a"), UPat.var("a")))
    assert matches(pattern, x + x)
    assert not matches(pattern, x + y)


def test_one_name_at_two_depths() -> None:
    pattern = UPat(Ops.ADD, src=(UPat(Ops.MUL, src=(UPat.var("a"), UPat.cvar("c"))), UPat.var("a")))
    assert found(pattern, x * 3 + x) == [{"a": x, "c": UOp.const(3)}]
    assert not matches(pattern, x * 3 + y)


def test_ctx_is_no_name() -> None:
    with pytest.raises(AssertionError, match="UPat can't be named ctx"):
        UPat(Ops.ADD, name="ctx")


def test_named() -> None:
    assert found(UPat(Ops.ADD).named("u"), x + y) == [{"u": x + y}]


# *** alternatives


def test_any_in_order() -> None:
    pattern = UPat.any(UPat(Ops.MUL, name="m"), UPat(Ops.ADD, name="a"))
    assert found(pattern, x + y) == [{"a": x + y}]
    assert found(pattern, x * y) == [{"m": x * y}]
    assert not matches(pattern, x // y)


def test_any_as_a_source() -> None:
    pattern = UPat(Ops.NEG, src=(UPat.any(UPat(Ops.ADD), UPat(Ops.MUL)),))
    assert matches(pattern, UOp(Ops.NEG, src=(x + y,)))
    assert not matches(pattern, UOp(Ops.NEG, src=(x,)))


def test_or_casted() -> None:
    pattern = UPat(Ops.NEG, src=(UPat(Ops.ADD, name="a").or_casted(),))
    for inner in (i + 1, (i + 1).cast(dtypes.float32)):
        assert found(pattern, UOp(Ops.NEG, src=(inner,))) == [{"a": i + 1}]
    named = UPat(Ops.NEG, src=(UPat(Ops.ADD).or_casted("whole"),))
    cast = (i + 1).cast(dtypes.float32)
    assert found(named, UOp(Ops.NEG, src=(cast,))) == [{"whole": cast}]
    assert found(named, UOp(Ops.NEG, src=(i + 1,))) == [{"whole": i + 1}]


def test_or_after() -> None:
    buffer = UOp.new_buffer("NULL", 4, dtypes.float32)
    after = buffer.after(UOp.const(1).sink())
    pattern = UPat(Ops.INDEX, src=(UPat(Ops.BUFFER, name="buf").or_after(),), allow_any_len=True)
    assert found(pattern, buffer.index(UOp.const(0)))[0]["buf"] is buffer
    assert found(pattern, UOp(Ops.INDEX, src=(after, UOp.const(0))))[0]["buf"] is buffer


# *** operators

A, C = UPat.var("a"), UPat.cvar("c")


@pytest.mark.parametrize(
    ("pattern", "node"),
    [
        (A + C, x + 3),
        (A * C, x * 3),
        (A - 1, x - 1),
        (-A, -x),
        (A // C, x // 3),
        (A % C, x % 3),
        (A < C, x < 3),
        (A > C, x > 3),
        (A >= C, x >= 3),
        (A <= C, x <= 3),
        (A.ne(C), x.ne(3)),
        (A.eq(C), x.eq(3)),
        (A & C, i & 3),
        (A | C, i | 3),
        (A ^ C, i ^ 3),
        (~A, ~i),
        (A << C, i << 3),
        (A >> C, i >> 3),
        (A / UPat.var("d"), f / f),
        (A.maximum(C), x.maximum(3)),
        (UPat.var("a", dtypes.bool).where(UPat.var("p"), UPat.var("q")), b.where(x, y)),
        (A.cast(), i.cast(dtypes.float32)),
        (A.cast(dtypes.float32), i.cast(dtypes.float32)),
        (A.f(Ops.NEG), UOp(Ops.NEG, src=(x,))),
        (A.alu(Ops.CDIV, C), x.alu(Ops.CDIV, UOp.const(3))),
        (A.reciprocal(), f.reciprocal()),
    ],
)
def test_operators_build_patterns(pattern: UPat, node: UOp) -> None:
    assert matches(pattern, node)


def test_commutative_operators_match_either_order() -> None:
    for pattern in (A + C, C + A, 3 + A, A + 3):
        assert matches(pattern, x + 3)
        assert matches(pattern, UOp(Ops.ADD, src=(UOp.const(3), x)))
    assert not matches(A // C, UOp(Ops.FLOORDIV, src=(UOp.const(3), x)))


def test_a_python_number_is_a_constant_of_any_dtype() -> None:
    for dtype in (dtypes.int8, dtypes.float32, dtypes.weakint):
        v = UOp.variable("v", 0, 9, dtype) if dtype is not dtypes.float32 else f
        assert matches(A + 1, v + UOp.const(1, dtype))


def test_operators_ask_for_the_dtype_of_the_last_operand() -> None:
    typed = A + UPat.var("t", dtypes.int32)
    assert matches(typed, i + i)
    assert not matches(typed, x + x)


# *** rules


def test_result_of_none_declines_and_the_next_rule_is_tried() -> None:
    matcher = PatternMatcher(
        [(UPat(Ops.ADD), lambda: None), (UPat(Ops.ADD, name="u"), lambda u: u.src[0])]
    )
    assert matcher.rewrite(x + y) is x


def test_a_declined_match_tries_the_other_order() -> None:
    matcher = PatternMatcher(
        [(UPat(Ops.ADD, src=[UPat.var("a"), UPat.var("c")]), lambda a, c: a if a is y else None)]
    )
    assert matcher.rewrite(x + y) is y


def test_the_node_itself_is_no_result() -> None:
    matcher = PatternMatcher([(UPat(Ops.ADD, name="u"), lambda u: u)])
    assert matcher.rewrite(x + y) is None


def test_ctx_only_where_it_is_a_parameter() -> None:
    matcher = PatternMatcher([(UPat(Ops.ADD, name="u"), lambda ctx, u: ctx[u])])
    assert matcher.rewrite(x + y, {x + y: z}) is z
    without = PatternMatcher([(UPat(Ops.ADD, name="u"), lambda u: z)])
    assert without.rewrite(x + y, "anything") is z


@pytest.mark.parametrize("compiled", [True, False])
def test_extra_and_missing_names(compiled: bool) -> None:
    extra = PatternMatcher([(UPat(Ops.ADD, name="u"), lambda: None)], compiled)
    missing = PatternMatcher([(UPat(Ops.ADD), lambda u: None)], compiled)
    for matcher in (extra, missing):
        with pytest.raises(TypeError):
            matcher.rewrite(x + y)


def test_any_object_may_be_a_result_by_hand() -> None:
    assert PatternMatcher([(UPat(Ops.ADD), lambda: "text")]).rewrite(x + y) == "text"


def test_tables_add_and_the_sum_is_kept() -> None:
    first = PatternMatcher([(UPat(Ops.ADD), lambda: "first")])
    second = PatternMatcher([(UPat(Ops.ADD), lambda: "second"), (UPat(Ops.MUL), lambda: "mul")])
    both = first + second
    assert both.rewrite(x + y) == "first"
    assert both.rewrite(x * y) == "mul"
    assert first + second is both
    assert len(both.patterns) == 3


def never(a: UOp) -> bool:
    return False


def test_when_gets_the_names_it_takes() -> None:
    pattern = UPat(Ops.ADD, src=(UPat.var("a"), UPat.var("c")))
    asked: list[UOp] = []

    def ask(a: UOp) -> bool:
        asked.append(a)
        return a is x

    rule = Rule("pick", "a + c -> c", pattern, lambda a, c: c, when=ask)
    for compiled in (True, False):
        matcher = PatternMatcher([rule], compiled)
        assert matcher.rewrite(x + y) is y
        assert matcher.rewrite(z + y) is None
    assert asked == [x, z, x, z]


def test_a_rule_knows_its_place_and_law() -> None:
    rule = Rule("pick", "a + c -> a", UPat(Ops.ADD, src=(A, C)), lambda a, c: a, when=never)
    assert rule.place[0] == __file__
    assert (rule.name, rule.law, rule.when) == ("pick", "a + c -> a", never)
    assert rule.ops == {Ops.ADD}


def test_rows_of_a_table_say_where_they_stand() -> None:
    from tinylab.uop.symbolic import pm_identities, pm_masks

    for table, file in ((pm_identities, "identities.py"), (pm_masks, "masks.py")):
        assert {rule.place[0].rsplit("/", 1)[1] for rule in table.rules} == {file}
        assert len({rule.place[1] for rule in table.rules}) == len(table.rules)


def test_patterns_are_walked_over_where_compiling_them_is_switched_off() -> None:
    rule = Rule("zero", "x + 0 -> x", UPat.var("x") + 0, lambda x: x)
    with Context(UPAT_COMPILE=0):
        x = UOp.variable("x", 0, 9)
        assert PatternMatcher([rule]).rewrite(x + 0) is x
        assert PatternMatcher([rule]).rewrite(x + 1) is None
    assert rule._match is None


def test_rules_without_a_name_are_named_by_their_place() -> None:
    def drop(u: UOp) -> UOp:
        return u.src[0]

    (unnamed, named) = PatternMatcher(
        [(UPat(Ops.ADD, name="u"), lambda u: u.src[0]), (UPat(Ops.ADD, name="u"), drop)]
    ).rules
    assert unnamed.name == f"test_pattern.py:{unnamed.place[1]}"
    assert unnamed.place[0] == __file__
    assert named.name == "drop"
