"""Pow by constants: products, roots, quotients and exponentials."""

import numpy as np
import pytest
from tests.engine.conftest import add_input_x, spread_floats

from intact.engine.lower import lower

POWERS = [1, 2, 3, 4, 5, 7, 12, -1, -2, -3, 0.5, 1.5, 1 / 3, -0.75, 2.2]


@pytest.mark.rule("N55")
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_powers(qdq, lower_graph, power, dtype):
    if dtype == "int64" and power % 1:
        power = int(np.ceil(power)) or 6
    g = qdq()
    x = spread_floats(1.0)
    x = x[(np.abs(x) > 0.01) & (np.abs(x) < 4)]
    x = np.abs(x) if power % 1 else x
    y = g.node("Pow", add_input_x(g, x), g.constant(np.array(power, dtype)))
    lowered = lower_graph(g, y).exact()
    assert "onnx" not in lowered.kinds
    np.testing.assert_allclose(lowered.values[y], lowered.expected[y], rtol=4e-6)


def test_powers_of_what_has_none(qdq, lower_graph):
    """A zero and what is below it, infinities, and what is no number."""
    g = qdq()
    x = np.float32([0, -1, np.inf, np.nan])
    y = [g.node("Pow", add_input_x(g, x), g.constant(np.float32(1.5)))]
    y.append(g.node("Pow", "x", g.constant(np.float32(-0.5))))
    y.append(g.node("Pow", "x", g.constant(np.float32(-3))))
    y.append(g.node("Pow", "x", g.constant(np.float32(3))))
    lowered = lower_graph(g, *y).exact()
    for name in y:
        np.testing.assert_array_equal(lowered.values[name], lowered.expected[name])


@pytest.mark.parametrize("power", [0, 65, np.inf, np.nan])
def test_powers_that_no_step_has(qdq, power):
    g = qdq()
    y = g.node("Pow", add_input_x(g, spread_floats()), g.constant(np.float32(power)))
    (step,) = lower(g.proto(y)).steps
    assert step.kind == "onnx" and "its exponent is" in step.reason


@pytest.mark.parametrize(
    ("op_type", "exponent", "kind"),
    [
        ("Sqrt", None, "function"), ("Log", None, "function"), ("Pow", 0.5, "function"), ("Pow", 2, "binary"),
        ("Pow", -1, "binary"),
    ],
)  # fmt: skip
def test_roots_logarithms_and_powers(qdq, lower_graph, op_type, exponent, kind):
    g = qdq()
    exponents = [] if exponent is None else [g.constant(np.float32(exponent))]
    lowered = lower_graph(g, g.node(op_type, g.node("Exp", g.input("x", [3, 50])), *exponents)).agree(1e-6)
    assert lowered.kinds == ["function", kind]
