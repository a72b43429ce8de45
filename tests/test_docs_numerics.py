"""Every rule of docs/numerics.md has tests that hold it, and every normative function has a rule."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest
from tests.site import written_pages

from intact import numerics

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "numerics.md").read_text(encoding="utf-8")
RULES = list(written_pages.rule_titles())
FUNCTIONS, TESTS = written_pages.functions_by_rule(), written_pages.tests_by_rule()
IMPLEMENTED = {name.rpartition(".")[2] for names in FUNCTIONS.values() for name in names}
NAMES = sorted(set(re.findall(r"`(intact(?:\.\w+)+)`", PAGE)))


@pytest.mark.parametrize("named", NAMES)
def test_named_function_exists(named):
    if named.startswith("intact.torch"):
        pytest.importorskip("torch")
    module, _, name = named.rpartition(".")
    assert hasattr(importlib.import_module(module), name) or importlib.import_module(named)


@pytest.mark.parametrize(
    "name", sorted(set(numerics.__all__) - {"Affine", "Bounds", "REAL_DTYPES", "Residual"})
)
def test_every_public_function_has_a_rule(name):
    assert name in IMPLEMENTED


def test_rules_are_numbered_without_gaps():
    assert [f"N{i}" for i in range(1, len(RULES) + 1)] == RULES


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_a_test_that_holds_it(rule):
    assert TESTS[rule]


def test_no_test_holds_a_rule_that_is_not_there():
    assert set(TESTS) <= set(RULES)
    assert set(FUNCTIONS) <= set(RULES)


TRANSCENDENTAL = {"exp", "exp2", "expm1", "log", "log2", "log10", "tanh", "power", "erf"}
ORDER_DEPENDENT = {"sum", "mean", "dot", "einsum", "inner", "vdot", "average", "cumsum", "prod", "add.reduce"}


@pytest.mark.rule("N31")
@pytest.mark.parametrize("path", sorted((ROOT / "src/intact/numerics").rglob("*.py")), ids=lambda p: p.stem)
def test_normative_code_calls_nothing_whose_result_depends_on_the_machine(path):
    """NumPy's exp differs between CPUs, its float sums between shapes; sums of integers may be `x.sum()`."""
    calls = {ast.unparse(n) for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute)}
    assert not calls & {f"np.{name}" for name in TRANSCENDENTAL | ORDER_DEPENDENT}
