"""Functions between codes are tables."""

import numpy as np
import pytest

CURVES = {
    "Sigmoid": ("Sigmoid", {}), "HardSwish": ("HardSwish", {}), "LeakyRelu": ("LeakyRelu", {"alpha": 0.3}),
    "Tanh": ("Tanh", {}), "Elu": ("Elu", {}), "Selu": ("Selu", {}), "Softplus": ("Softplus", {}),
    "HardSigmoid": ("HardSigmoid", {}), "Gelu": ("Gelu", {}), "Gelu tanh": ("Gelu", {"approximate": "tanh"}),
    "Relu": ("Relu", {}), "Erf": ("Erf", {}), "Exp": ("Exp", {}), "Abs": ("Abs", {}), "Celu": ("Celu", {}),
    "Mish": ("Mish", {}), "Softsign": ("Softsign", {}), "ThresholdedRelu": ("ThresholdedRelu", {}),
}  # fmt: skip


@pytest.mark.rule("N45")
@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_functions_between_codes_are_tables(qdq, lower_graph, name, dtype):
    g, (op_type, attributes) = qdq(), CURVES[name]
    zero = 100 if dtype == "uint8" else -5
    x = g.pair(g.input("x", [4, 64]), 0.05, zero, dtype)
    y = g.quantize(g.node(op_type, x, **attributes), 0.03, zero, dtype)
    assert lower_graph(g, y).agree().kinds == ["quantize", "table"]


def test_silu_in_two_nodes_is_one_table(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", [4, 64]))
    y = g.quantize(g.node("Mul", x, g.node("Sigmoid", x)))
    assert lower_graph(g, y).agree().kinds == ["quantize", "table"]


@pytest.mark.parametrize("op_type", ["Mul", "Div", "Add", "Sub"])
def test_arithmetic_with_one_number_is_a_table(qdq, lower_graph, op_type):
    g = qdq()
    x = g.pair(g.input("x", [4, 64]))
    y = g.quantize(g.node(op_type, x, g.constant(np.float32(0.7123))), 0.0437)
    assert lower_graph(g, y).agree().kinds == ["quantize", "table"]
