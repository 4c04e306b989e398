import pytest

from tests.trace.programs import X, pm_tidy
from tinylab.codegen.opt import Opt, OptOps
from tinylab.dtype import AddrSpace, dtypes
from tinylab.opcodes import AxisType, Ops
from tinylab.trace.facts import KIND_OF, head_facts, rule_facts
from tinylab.trace.nodes import Head
from tinylab.uop.args import CallInfo, KernelInfo, ParamArg, RangeArg, ReduceArg, StageArg
from tinylab.uop.ops import PatternMatcher, Rule


@pytest.mark.parametrize(
    ("op", "arg", "label", "text"),
    [
        (Ops.ADD, None, "ADD", ""),
        (Ops.CONST, 1.5, "CONST 1.5", "1.5"),
        (Ops.RANGE, RangeArg((3, AxisType.REDUCE)), "RANGE 3 REDUCE", "3, REDUCE"),
        (Ops.REDUCE, ReduceArg(Ops.MAX, 2), "REDUCE MAX", "MAX, count=2"),
        (Ops.CAST, dtypes.half, "CAST float16", "float16"),
        (Ops.PERMUTE, (1, 0), "PERMUTE 1,0", "(1, 0)"),
        (Ops.FLIP, (False, True), "FLIP 1", "(False, True)"),
        (Ops.PARAM, ParamArg(2, dtypes.int), "PARAM 2", "2"),
        (Ops.BUFFER, ParamArg(0, dtypes.int, device="CPU"), "BUFFER 0 CPU", "0, device=CPU"),
        (Ops.BUFFER, ParamArg(1, dtypes.int, addrspace=AddrSpace.REG), "BUFFER 1 REG",
         "1, addrspace=REG"),
        (Ops.PARAM, ParamArg(-1, dtypes.int, name="n"), "PARAM n", "-1, name=n"),
        (Ops.STAGE, StageArg("CPU", reason="too big"), "STAGE", "CPU, reason=too big"),
        (Ops.CALL, CallInfo(aux="asked for"), "CALL asked for", "aux=asked for"),
        (Ops.CALL, CallInfo(), "CALL", ""),
        (Ops.CUSTOM, "\x1b[34mf\x1b[0m(x)", "CUSTOM f(x)", "f(x)"),
        (Ops.PYLITERAL, ["\x1b[34mE_4\x1b[0m", 4], "PYLITERAL", "['E_4', 4]"),
        (Ops.BINARY, b"\0" * 12, "BINARY", "12 bytes"),
        (Ops.SINK, KernelInfo("\x1b[31mE_4\x1b[0m", applied_opts=(Opt(OptOps.UPCAST, 0, 4),)),
         "SINK E_4", "name=E_4, applied_opts=(UPCAST(axis=0, arg=4))"),
    ],
)  # fmt: skip
def test_heads_in_words(op, arg, label, text):
    facts = head_facts(Head(op, dtypes.float, arg, None))
    assert (facts.label, facts.arg) == (label, text)
    assert facts.dtype == "float32"


def test_long_arguments_are_cut():
    facts = head_facts(Head(Ops.SOURCE, dtypes.void, "x" * 10_000, None))
    assert len(facts.arg) == 400


def test_every_op_has_a_kind():
    assert {op.name for op in Ops if op not in KIND_OF} <= {
        "NOOP", "REWRITE_ERROR", "INS", "DETACH", "CUSTOM_FUNCTION"}  # fmt: skip


def double(x):
    """Twice the node."""
    return x * 2


def test_rules_in_words():
    row = pm_tidy.rules[0]
    facts = rule_facts(row)
    assert (facts.name, facts.law) == ("add_zero", "x + 0 -> x")
    assert facts.source.startswith('Rule("add_zero", "x + 0 -> x"')
    assert facts.file.endswith("programs.py")
    named = rule_facts(Rule("twice", "x + x -> x * 2", X + X, double))
    assert named.source == 'def double(x):\n    """Twice the node."""\n    return x * 2'
    assert named.file == __file__


def test_a_rule_without_a_source_is_shown_without_it():
    names = {}
    exec("f = lambda x: x", names)
    facts = rule_facts(PatternMatcher([(X + 0, names["f"])]).rules[0])
    assert facts.source == ""
