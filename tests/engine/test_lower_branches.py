"""Branches that an input selects are lowered as the main graph is: older forms and dynamic ranges."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import intact
from intact.engine.plan import DYNAMIC
from intact.engine.steps import FallbackSubgraph

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
net (int64[n] tokens, bool[1] use_cache) => (float[n, 24] y) {
    y = If (use_cache) <
        then_branch = cached () => (a) {
            rows = Gather (table, tokens)
            x = DequantizeLinear (rows, table_scale, table_zero)
            q, s, z = DynamicQuantizeLinear (x)
            sums = MatMulInteger (q, w, z)
            reals = Cast <to = 1> (sums)
            scale = Mul (s, w_scale)
            a = Mul (reals, scale)
        },
        else_branch = plain () => (b) {
            rows = Gather (table, tokens)
            x = DequantizeLinear (rows, table_scale, table_zero)
            negative = Neg (x)
            q, s, z = DynamicQuantizeLinear (negative)
            sums = MatMulInteger (q, w, z)
            reals = Cast <to = 1> (sums)
            scale = Mul (s, w_scale)
            b = Mul (reals, scale)
        }
    >
}"""


@pytest.fixture
def model() -> onnx.ModelProto:
    result = parser.parse_model(MODEL)
    rng = np.random.default_rng(0)
    constants = {
        "table": rng.integers(-128, 128, (40, 16)).astype(np.int8), "table_scale": np.float32(0.02),
        "table_zero": np.int8(3), "w": rng.integers(-128, 128, (16, 24)).astype(np.int8),
        "w_scale": np.float32(0.01),
    }  # fmt: skip
    for name, array in constants.items():
        result.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    onnx.checker.check_model(result, full_check=True)
    return result


@pytest.mark.parametrize("use_cache", [True, False])
def test_operators_of_a_branch_are_brought_to_one_form(model: onnx.ModelProto, use_cache: bool) -> None:
    engine = intact.compile(model, threads=1)
    inputs = {"tokens": np.arange(0, 40, 3), "use_cache": np.array([use_cache])}
    plan = engine.plan_for({name: array.shape for name, array in inputs.items()}, inputs)
    assert not any(isinstance(step, FallbackSubgraph) for step in plan.steps)
    got = engine.run(inputs)["y"]
    np.testing.assert_array_equal(got, intact.run_reference(model, inputs)["y"])
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    x = (arrays["table"][inputs["tokens"]] - 3.0) * 0.02 * (1 if use_cache else -1)
    np.testing.assert_allclose(got, x @ (arrays["w"] * 0.01), atol=0.02)


def test_no_warning_says_that_branches_stay_with_onnx_runtime(model: onnx.ModelProto) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine = intact.compile(model, threads=1)
    assert DYNAMIC not in engine.plan.notes


def test_an_output_that_is_constant_has_a_reason() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[2] x, bool c) => (float[2] y, float[n] z) {
        y, z = If (c) <
            then_branch = first () => (a, p) { a = Neg (x)  p = Constant <value = float[1] {3.0}> () },
            else_branch = second () => (b, q) { b = Relu (x)  q = Identity (x) }
        >
    }"""
    engine = intact.compile(parser.parse_model(text), threads=1)
    inputs = {"x": np.float32([1, -2]), "c": np.array(True)}
    plan = engine.plan_for({name: array.shape for name, array in inputs.items()}, inputs)
    reasons = [step.reason for step in plan.steps if isinstance(step, FallbackSubgraph)]
    assert reasons == ["an output that is constant"]
    got = engine.run(inputs)
    np.testing.assert_array_equal(got["y"], [-1, 2])
    np.testing.assert_array_equal(got["z"], [3])
