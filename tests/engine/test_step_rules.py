"""The rules of kinds of steps: every name in them means something, and lists are those of `numerics`."""

from __future__ import annotations

import ast
from dataclasses import fields

import numpy as np
import pytest

from intact import numerics
from intact.engine import Plan, Tensor
from intact.engine.engine import Engine
from intact.engine.files.limits import check_limits
from intact.engine.steps import KINDS, Reshape, Step, TopK, Transpose
from intact.engine.steps.base.rules import PLAN_WORDS, SIZE_WORDS, WORDS, StepRule, rules_of
from intact.engine.steps.base.sizes import Sizes
from intact.engine.steps.base.wiring import Writes, fields_of_kind
from intact.errors import IntactError, QuantValueError
from intact.kernels import _native

WITH_RULES = {name: kind for name, kind in KINDS.items() if kind.rules}


def names_of(rule: StepRule) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(rule.text, mode="eval")) if isinstance(node, ast.Name)}


def calls_of(rule: StepRule) -> set[str]:
    calls = [node.func for node in ast.walk(ast.parse(rule.text, mode="eval")) if isinstance(node, ast.Call)]
    return {call.id for call in calls if isinstance(call, ast.Name)}


@pytest.mark.parametrize("kind", WITH_RULES.values(), ids=list(WITH_RULES))
def test_rules_name_fields_terms_and_words(kind: type[Step]) -> None:
    rules = rules_of(kind)
    names = {entry.name for entry in fields(kind)} | set(rules.terms)
    of_plans, of_sizes = WORDS.keys() | PLAN_WORDS.keys(), WORDS.keys() | SIZE_WORDS.keys()
    assert not names & (of_plans | of_sizes), "a word hides a field"
    for rule in (*rules.checks, *rules.fits, *rules.sizes, *rules.terms.values()):
        words = calls_of(rule)
        assert words <= of_plans | of_sizes and names_of(rule) - words <= names
    assert all(calls_of(rule) <= of_plans for rule in rules.checks)
    assert all(calls_of(rule) <= of_sizes for rule in (*rules.fits, *rules.sizes))


@pytest.mark.parametrize("kind", WITH_RULES.values(), ids=list(WITH_RULES))
def test_rules_say_the_sizes_of_all_outputs_or_of_none(kind: type[Step]) -> None:
    subjects = [rule.subject for rule in rules_of(kind).sizes]
    outputs = [entry.name for entry in fields_of_kind(kind) if isinstance(entry.role, Writes)]
    assert subjects in ([], outputs)


@pytest.mark.parametrize("name", WITH_RULES)
def test_native_code_was_built_with_these_rules(name: str) -> None:
    texts = [vars(record).get("rules", "") for record in reversed(WITH_RULES[name].__mro__)]
    assert _native.step_rules(name).split() == " ".join(texts).split(), "run `make dev`: the library is old"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("arg_max", numerics.ORDER_DTYPES),
        ("cum_sum", numerics.CUM_SUM_DTYPES),
        ("cached_attention", tuple(numerics.CACHE_DTYPES)),
        ("fold", tuple(numerics.FOLD_DTYPES)),
        ("grid_sample", numerics.PADDINGS),
        ("reduce", tuple(numerics.REDUCTIONS)),
        ("top_k", ("codes", *numerics.ORDER_DTYPES)),
    ],
)
def test_lists_of_words_are_those_of_their_meaning(kind: str, words: tuple[str, ...]) -> None:
    assert ", ".join(map(repr, words)) in KINDS[kind].rules


def sizes_of(**shapes: tuple[int, ...]) -> Sizes:
    tensors = {name: Tensor(name, "float32", shape) for name, shape in shapes.items()}
    sizes = Sizes(tensors, lambda name: ())
    sizes.shapes.update(shapes)
    return sizes


def test_sizes_follow_from_rules_and_else_from_the_first_input() -> None:
    sizes = sizes_of(x=(2, 3, 5), y=(5, 2, 3))
    assert Transpose("turn", (), "x", "y", (2, 0, 1)).output_shapes(sizes) == ((5, 2, 3),)
    assert TopK("top", (), "x", "y", "i", 1, 2).output_shapes(sizes) == ((2, 2, 5), (2, 2, 5))
    assert Reshape("shape", (), "x", "y").output_shapes(sizes) == ((5, 2, 3),)


def test_sizes_that_do_not_fit_are_refused_with_their_tensor() -> None:
    with pytest.raises(QuantValueError, match=r"tensor 'x': got shape \(2, 3\), .*k 4, want k elements"):
        TopK("top", (), "x", "y", "i", 1, 4).output_shapes(sizes_of(x=(2, 3)))


def test_a_refusal_says_what_the_parts_of_a_condition_are() -> None:
    tensors = {name: Tensor(name, "float32", (2, 3)) for name in "xy"}
    plan = Plan((Transpose("turn", (), "x", "y", (1, 1)),), tensors, {}, ("x",), ("y",))
    with pytest.raises(Exception, match=r"are_axes\(perm, rank\(x\)\) False, want a permutation"):
        check_limits(plan, {})


@pytest.mark.parametrize(
    ("step", "want"),
    [
        (TopK("step", (), "x", "y", "i", 2, 1), "top_k.*an axis of x"),
        (TopK("step", (), "x", "y", "i", 0, -1), "top_k.*0 elements or more"),
        (TopK("step", (), "x", "y", "j", 0, 1), "top_k.*int64"),
        (Transpose("step", (), "x", "y", (0, 0)), "transpose.*a permutation"),
        (Transpose("step", (), "x", "y", (0,)), "transpose.*an entry for each axis"),
        (Transpose("step", (), "x", "i", (0, 1)), "transpose.*one dtype"),
    ],
)
def test_native_code_holds_plans_to_the_same_rules(step: Step, want: str) -> None:
    dtypes = {"x": "float32", "y": "float32", "i": "int64", "j": "int32"}
    tensors = {name: Tensor(name, dtype, ("n", 4)) for name, dtype in dtypes.items()}
    with pytest.raises(IntactError, match=want):
        Engine(Plan((step,), tensors, {}, ("x",), (step.y,)), threads=1)(np.zeros((3, 4), np.float32))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_every_backend_refuses_sizes_that_do_not_fit(backend: str) -> None:
    types = {"x": ("float32", "n"), "y": ("float32", "k"), "i": ("int64", "k")}
    tensors = {name: Tensor(name, dtype, (rows, 4)) for name, (dtype, rows) in types.items()}
    plan = Plan((TopK("top", (), "x", "y", "i", 0, 3),), tensors, {}, ("x",), ("y",))
    engine = Engine(plan, threads=1, backend=backend)
    assert engine(np.zeros((5, 4), np.float32)).shape == (3, 4)
    with pytest.raises(QuantValueError, match=r"step 'top': tensor 'x': got shape \(2, 4\).*want k elements"):
        engine(np.zeros((2, 4), np.float32))
