"""Percentile and entropy choose of many values alone: few show no distribution."""

from __future__ import annotations

import numpy as np
import pytest
from tests.onnx_models import onnx_model

import intact
from intact.calib import LEAST_VALUES, Histogram, amax_of, range_of
from intact.calib.range_candidates import Candidates
from intact.spec import QuantSpec

SPEC = QuantSpec("int8")


def _exponential(count: int) -> Histogram:
    result = Histogram()
    result.collect(np.random.default_rng(0).exponential(size=count).astype(np.float32))
    return result


@pytest.mark.parametrize(("method", "count"), [("percentile", 150), ("entropy", 1000)])
def test_few_values_get_their_whole_range(method, count):
    few = Candidates("x", _exponential(count), SPEC, {"percentile": 99.0})
    assert few.by(method).ends[1] == few.by("max").ends[1] > amax_of(few.stats, SPEC, method, percentile=99.0)
    assert few.is_too_few(method)


@pytest.mark.parametrize(("method", "count"), [("percentile", 15), ("entropy", 1000)])
def test_both_ends_of_few_values_are_whole(method, count):
    spec, stats = QuantSpec("uint8", symmetric=False), Histogram()
    stats.collect(np.random.default_rng(0).standard_normal(count, np.float32))
    whole = range_of(stats, spec, method, percentile=90.0, least_values=LEAST_VALUES)
    assert whole == range_of(stats, spec, "max") != range_of(stats, spec, method, percentile=90.0)


@pytest.mark.parametrize("method", ["percentile", "entropy"])
def test_many_values_are_clipped_as_before(method):
    many = Candidates("x", _exponential(LEAST_VALUES), SPEC, {"percentile": 99.0})
    assert many.by(method).ends[1] == amax_of(many.stats, SPEC, method, percentile=99.0)
    assert many.by(method).ends[1] < many.by("max").ends[1] and not many.is_too_few(method)


@pytest.mark.parametrize("method", ["percentile", "entropy"])
def test_the_form_of_the_source_is_there_on_request(method):
    few = Candidates("x", _exponential(1000), SPEC, {"percentile": 99.0, "least_values": 0})
    assert few.by(method).ends[1] == amax_of(few.stats, SPEC, method, percentile=99.0)


def test_methods_that_need_no_distribution_choose_of_few_values():
    few = Candidates("x", _exponential(1000), SPEC)
    assert few.by("mse").ends[1] == amax_of(few.stats, SPEC, "mse") and not few.is_too_few("mse")


def test_quantize_says_which_tensors_had_too_few_values():
    from onnx import helper

    weight = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    model = onnx_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="fc")],
        {"x": ["n", 16]},
        {"y": ["n", 16]},
        {"w": weight},
    )
    x = np.random.default_rng(1).exponential(size=(64, 16)).astype(np.float32)
    plain, old = (
        intact.quantize(model, x, method="entropy", scale_bits=None, progress=False, **options)
        for options in ({}, {"least_values": 0})
    )
    assert plain.ranges["x"][1] == x.max() > old.ranges["x"][1]
    assert any("'entropy': 1 tensors have too few" in line for line in plain.warnings)
    assert not any("too few" in line for line in old.warnings)
