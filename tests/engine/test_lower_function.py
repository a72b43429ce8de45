"""Functions of floats that one kernel or several steps compute, in floats and beside codes."""

import numpy as np
import pytest
from tests.engine.conftest import add_input_x, assert_same_bits, spread_floats

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.graph import ops

ARCS = ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh")

KERNELS = {variant.step: (record, variant) for record, variant in ops.VARIANTS if variant.step}

CASES = {
    **{step: (record.__name__, variant.attributes) for step, (record, variant) in KERNELS.items()},
    **{op_type: (op_type, {}) for op_type in ("Tan", "Celu", "Selu", "ThresholdedRelu")},
    "Celu(0.3)": ("Celu", {"alpha": 0.3}),
    "Elu(2)": ("Elu", {"alpha": 2.0}),
    "Elu(-1)": ("Elu", {"alpha": -1.0}),
    "Selu(1, 2)": ("Selu", {"alpha": 1.0, "gamma": 2.0}),
    "ThresholdedRelu(0.25)": ("ThresholdedRelu", {"alpha": 0.25}),
}


def within(op_type, x):
    """x, brought to where an arc is defined."""
    if op_type in ("Acos", "Asin", "Atanh"):
        return np.clip(x / 4, -0.99, 0.99)
    if op_type in ("Log", "Sqrt"):
        return np.abs(x) + np.float32(1e-3)
    return 1 + np.abs(x) if op_type == "Acosh" else x


@pytest.mark.rule("N55")
@pytest.mark.parametrize("case", list(CASES))
def test_in_floats(qdq, lower_graph, case):
    g = qdq(24)
    op_type, attributes = CASES[case]
    x = add_input_x(g, within(op_type, spread_floats(0.4) if op_type == "Tan" else spread_floats()))
    lowered = lower_graph(g, g.node(op_type, x, **attributes)).agree(3e-6 if op_type == "Tan" else 1e-6)
    assert "onnx" not in lowered.kinds


@pytest.mark.parametrize("function", KERNELS)
def test_one_kernel_has_it(qdq, function):
    """Every function of the book with a step, against its record's definition in float64."""
    g, (record, variant) = qdq(24), KERNELS[function]
    x = within(record.__name__, spread_floats())
    plan = lower(g.proto(g.node(record.__name__, add_input_x(g, x), **variant.attributes)))
    assert [(step.kind, step.function) for step in plan.steps] == [("function", function)]
    ((name, y),) = Engine(plan, threads=1).run({"x": x}).items()
    assert_same_bits(y, evaluate(plan, {"x": x})[name])
    curve = record(**variant.attributes).curve
    if curve is not None:
        np.testing.assert_allclose(y, curve(x.astype(np.float64)), rtol=1e-6, atol=1e-6)


def test_mish_as_exporters_write_it(qdq, lower_graph):
    g = qdq()
    x = add_input_x(g, spread_floats())
    lowered = lower_graph(g, g.node("Mul", x, g.node("Tanh", g.node("Softplus", x)))).agree(1e-6)
    assert "onnx" not in lowered.kinds


@pytest.mark.parametrize("case", list(CASES))
def test_between_pairs(qdq, lower_graph, case):
    """Tables where there are some; else codes are read and written on the way."""
    g = qdq(24)
    op_type, attributes = CASES[case]
    if op_type in ("Acosh", "Log", "Sqrt"):
        pytest.skip("codes of a symmetric grid leave its range")
    y = g.node(op_type, g.pair(g.input("x", ["n", 5, 7]), 0.007 if op_type in ARCS else 0.02), **attributes)
    lowered = lower_graph(g, g.quantize(y, 0.02), sizes={"n": 3}).agree()
    assert "onnx" not in lowered.kinds


@pytest.mark.parametrize(
    "op_type", ["Neg", "Reciprocal", "LeakyRelu", "HardSigmoid", "ThresholdedRelu", "Sign", "Pow"]
)
@pytest.mark.parametrize("sizes", [(), (1,), (2, 3)], ids=str)
def test_numbers_add_no_axis(qdq, lower_graph, op_type, sizes):
    """A number that a step needs had one axis, and a tensor without axes was refused behind it."""
    g = qdq()
    x = add_input_x(g, np.full(sizes, 0.75, np.float32))
    operands = [g.constant(np.float32(-1))] if op_type == "Pow" else []
    options = {"HardSigmoid": {"alpha": 0.3}, "ThresholdedRelu": {"alpha": 0.5}}.get(op_type, {})
    lowered = lower_graph(g, g.node(op_type, x, *operands, **options)).agree()
    assert "onnx" not in lowered.kinds


@pytest.mark.parametrize("alpha, beta", [(0.2, 0.5), (1 / 6, 0.5), (-0.7, 0.1)])
def test_hard_sigmoids_of_any_slope(qdq, lower_graph, alpha, beta):
    g = qdq()
    lowered = lower_graph(
        g, g.node("HardSigmoid", g.input("x", ["n", 50]), alpha=alpha, beta=beta), sizes={"n": 3}
    )
    assert "onnx" not in lowered.agree(1e-6).kinds
