"""A calibration method is added in one place: the recipe of `intact.calib.calibration_methods`, applied."""

from __future__ import annotations

import ast
import doctest
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from tests.onnx_models import onnx_model

import intact
from intact.calib import (
    METHODS,
    Calibration,
    Histogram,
    Method,
    amax_from_counts,
    calibration_methods,
    register_method,
)
from intact.calib.range_candidates import Candidates
from intact.errors import QuantValueError
from intact.spec import QuantSpec

PACKAGE = Path(intact.__file__).parent
ELSEWHERE = {
    "torch/calib/histogram.py",  # the old library's own list, which does not grow
    "ptq/modelopt_options.py",  # those that configurations of another tool name
}
NAMES = set(METHODS)


@pytest.fixture
def three_sigma() -> Iterator[str]:
    """The recipe's method, as its text says, registered."""
    assert calibration_methods.__doc__ is not None
    *recipe, last = doctest.DocTestParser().get_examples(calibration_methods.__doc__)
    assert last.source == 'del METHODS["three_sigma"]\n'
    scope: dict[str, object] = {}
    for example in recipe:
        if not example.want:
            exec(example.source, scope)
    yield "three_sigma"
    del METHODS["three_sigma"]


@pytest.fixture
def histogram() -> Histogram:
    result = Histogram()
    result.collect(
        np.append(np.random.default_rng(0).standard_normal(20_000), [30.0, -12.0]).astype(np.float32)
    )
    return result


def test_the_recipe_says_what_it_prints() -> None:
    before = tuple(METHODS)
    assert doctest.testmod(calibration_methods).failed == 0
    assert tuple(METHODS) == before


def test_a_new_method_chooses_ranges(three_sigma: str, histogram: Histogram) -> None:
    amax = float(intact.calib.amax_of(histogram, QuantSpec("int8"), three_sigma))
    assert amax == pytest.approx(3.0, rel=0.05)
    low, high = intact.calib.range_of(histogram, QuantSpec("uint8", symmetric=False), three_sigma)
    assert (float(low), float(high)) == (pytest.approx(-amax), pytest.approx(amax))
    bare = amax_from_counts(histogram.positive + histogram.negative, 1.0, 8, False, three_sigma)
    assert bare * float(histogram.bin_width) == pytest.approx(amax)
    by_name = Calibration({"x": histogram}).amax(QuantSpec("int8"), three_sigma)
    assert float(by_name["x"]) == amax


def test_auto_compares_a_new_method_with_the_others(three_sigma: str, histogram: Histogram) -> None:
    candidates = Candidates("tensor 'x'", histogram, QuantSpec("int8"))
    assert candidates.methods == tuple(METHODS) and three_sigma in METHODS
    assert candidates.by(three_sigma).method == three_sigma


def test_quantize_takes_a_new_method(three_sigma: str) -> None:
    w = np.random.default_rng(1).standard_normal((4, 3, 3, 3), np.float32)
    model = onnx_model(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="conv")],
        {"x": ["N", 3, 8, 8]},
        {"y": ["N", 4, 6, 6]},
        {"w": w},
    )
    x = np.random.default_rng(2).standard_normal((16, 3, 8, 8), np.float32)
    assert intact.quantize(model, x, method=three_sigma, progress=False).methods == {"x": three_sigma}
    assert three_sigma in intact.quantize(model, x, progress=False).errors


@pytest.mark.parametrize("name", ["mse", "auto"])
def test_names_are_taken_once(name: str) -> None:
    with pytest.raises(QuantValueError, match="method: got"):
        register_method(Method(name, None, None))


def test_no_other_file_lists_the_methods() -> None:
    """So that the commit that adds one touches this package's one file, its test and its line for users."""
    result = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
            texts = {part.value for part in parts if isinstance(part, ast.Constant)}
            if len(texts & NAMES) > 1:
                result.add(str(path.relative_to(PACKAGE)))
    assert result - ELSEWHERE == set()
