"""benchmarks/outside_suites.py: counts are stored for every suite, and read from what the suites print."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


suites, node_tests = load("outside_suites"), load("onnx_node_tests")
PRINTED = {
    "node_tests": ("1884 node tests: 1112 passed\n  1112 passed\n", 1112, 1884),
    "toolkit": ("all                   235       7        0      200      40        2\n", 235, 242),
    "cookbook": ("125 recorded cases: 118 as recorded, 8 of them on the log's inputs\n", 118, 125),
    "samples": ("23 samples: 22 right, 1 wrong, 0 failed, 0 late\n", 22, 23),
    "graphs": ("1 failed, 188 passed, 1 skipped, 710 deselected in 14.84s\n", 188, 190),
    "polygraphy": ("40 failed, 289 passed, 3 skipped, 9 warnings in 60.00s\n", 289, 332),
    "model_connect": ("15 formats and types: 15 right\n", 15, 15),
    "onnxruntime": ("132 tests pass with onnxruntime: 131 of them pass through the door\n", 131, 132),
    "dynamo": ("10 passed in 1.00s\n10 tests: 10 passed, 0 skipped\n", 10, 10),
}


@pytest.mark.parametrize("name", suites.SUITES)
def test_counts_are_stored_and_read(name) -> None:
    printed, passed, of = PRINTED[name]
    assert suites.count(suites.SUITES[name], printed) == (passed, of)
    row = suites.read_counts()[name]
    assert row[1:3] == [suites.SUITES[name].title, suites.SUITES[name].source]
    assert 0 <= int(row[4]) <= int(row[3])


MATCHES = (
    "test_nonzero_example", "test_add_bcast", "test_castlike_FLOAT_to_BFLOAT16", "test_top_k", "test_if",
    "test_reduce_sum_keepdims_random", "test_hannwindow", "test_col2im",
    "test_nonmaxsuppression_identical_boxes",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_sample_of_onnx_s_node_tests_passes() -> None:
    from onnx.backend.test.loader import load_model_tests

    cases = {case.name: case for case in load_model_tests(kind="node")}
    outcomes = {name: node_tests.outcome(cases[name]) for name in MATCHES if name in cases}
    assert len(outcomes) > 6 and {name: o for name, o in outcomes.items() if o[0] != "passed"} == {}
