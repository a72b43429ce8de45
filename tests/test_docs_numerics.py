"""docs/numerics.md names a function and a test for every rule: both exist, and no function lacks a rule."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from intact import numerics

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "numerics.md").read_text(encoding="utf-8")
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py::[\w:]+)`", PAGE)))
NAMES = sorted(set(re.findall(r"`(intact(?:\.\w+)+)`", PAGE)))
RULES = re.findall(r"^\*\*(N\d+)\.", PAGE, flags=re.MULTILINE)


def test_the_page_is_read():
    assert len(TESTS) > 40
    assert len(NAMES) > 20


@pytest.mark.parametrize("named", TESTS)
def test_named_test_exists(named):
    path, *parts = named.split("::")
    scope = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    for part in parts:
        nodes = [n for n in scope if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name == part]
        assert nodes, f"{path} has no {part}"
        scope = nodes[0].body


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
    assert f"`intact.numerics.{name}`" in PAGE


def test_rules_are_numbered_without_gaps():
    assert [f"N{i}" for i in range(1, len(RULES) + 1)] == RULES


def test_every_rule_names_what_holds_it():
    for rule in re.split(r"^\*\*(?=N\d+\.)", PAGE, flags=re.MULTILINE)[1:]:
        assert "`tests/" in rule, rule.splitlines()[0]


TRANSCENDENTAL = {"exp", "exp2", "expm1", "log", "log2", "log10", "tanh", "power", "erf"}
ORDER_DEPENDENT = {"sum", "mean", "dot", "einsum", "inner", "vdot", "average", "cumsum", "prod", "add.reduce"}


@pytest.mark.parametrize("path", sorted((ROOT / "src/intact/numerics").rglob("*.py")), ids=lambda p: p.stem)
def test_normative_code_calls_nothing_whose_result_depends_on_the_machine(path):
    """NumPy's exp differs between CPUs, its float sums between shapes; sums of integers may be `x.sum()`."""
    calls = {ast.unparse(n) for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute)}
    assert not calls & {f"np.{name}" for name in TRANSCENDENTAL | ORDER_DEPENDENT}
