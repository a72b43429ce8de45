"""No test hangs on the clock: none reads it, none sleeps, and what is waited for has ten minutes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import hypothesis
from tests.source_trees import tree_of

TESTS = Path(__file__).parent
CLOCKS = {"perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time", "sleep", "timeit"}
GUARD = 600
"""Seconds after which something hangs, on the busiest of machines."""


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    """File, name and node of every call in a test or conftest."""
    for path in sorted(TESTS.rglob("*.py")):
        if not path.name.startswith(("test_", "conftest")):
            continue  # the fuzzers, which run for as long as they are told
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                yield f"{path.relative_to(TESTS)}:{node.lineno}", name, node


def test_no_test_reads_the_clock() -> None:
    assert [where for where, name, _ in calls() if name in CLOCKS] == []


def test_what_is_waited_for_has_time() -> None:
    waits = [(where, keyword) for where, _, node in calls() for keyword in node.keywords]
    limits = {where: keyword.value for where, keyword in waits if keyword.arg == "timeout"}
    assert [w for w, n in limits.items() if isinstance(n, ast.Constant) and n.value < GUARD] == []


def test_examples_have_no_deadline() -> None:
    assert hypothesis.settings().deadline is None
