"""Functions of floats that one kernel or several steps compute, in floats and beside codes."""

import numpy as np
import pytest
from onnx import helper

from intact.engine.lower import lower

ARCS = ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh")
KERNELS = {
    **{name: name.lower() for name in ARCS},
    "Sin": "sin",
    "Cos": "cos",
    "Mish": "mish",
    "Softplus": "softplus",
    "Softsign": "softsign",
}
CASES = {
    **{op_type: (op_type, {}) for op_type in (*KERNELS, "Tan", "Celu", "Selu", "ThresholdedRelu", "Elu")},
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
    return 1 + np.abs(x) if op_type == "Acosh" else x


def given(g, x):
    g.feeds = lambda sizes=None: {"x": x}
    return g.input("x", x.shape, helper.np_dtype_to_tensor_dtype(x.dtype))


def floats(spread=3.0):
    return np.concatenate(
        [np.random.default_rng(0).standard_normal(2000) * spread, [0, -0.0, 1e-30, 80, -80]]
    ).astype(np.float32)


@pytest.mark.parametrize("case", list(CASES))
def test_in_floats(qdq, lowered, case):
    g = qdq(22)
    op_type, said = CASES[case]
    x = given(g, within(op_type, floats(0.4) if op_type == "Tan" else floats()))
    found = lowered(g, g.node(op_type, x, **said)).agree(3e-6 if op_type == "Tan" else 1e-6)
    assert "onnx" not in found.kinds


@pytest.mark.parametrize("op_type", KERNELS)
def test_one_kernel_has_it(qdq, lowered, op_type):
    g = qdq(22)
    found = lowered(g, g.node(op_type, given(g, floats())))
    assert [step.function for step in found.plan.steps] == [KERNELS[op_type]]


def test_mish_as_exporters_write_it(qdq, lowered):
    g = qdq()
    x = given(g, floats())
    found = lowered(g, g.node("Mul", x, g.node("Tanh", g.node("Softplus", x)))).agree(1e-6)
    assert "onnx" not in found.kinds


@pytest.mark.parametrize("case", list(CASES))
def test_between_pairs(qdq, lowered, case):
    """Tables where there are some; else codes are read and written on the way."""
    g = qdq(22)
    op_type, said = CASES[case]
    if op_type == "Acosh":
        pytest.skip("codes of a symmetric grid leave its range")
    y = g.node(op_type, g.pair(g.input("x", ["n", 5, 7]), 0.007 if op_type in ARCS else 0.02), **said)
    found = lowered(g, g.quantize(y, 0.02), sizes={"n": 3}).agree()
    assert "onnx" not in found.kinds


POWERS = [1, 2, 3, 4, 5, 7, 12, -1, -2, -3, 0.5, 1.5, 1 / 3, -0.75, 2.2]


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_powers(qdq, lowered, power, dtype):
    if dtype == "int64" and power % 1:
        power = int(np.ceil(power)) or 6
    g = qdq()
    x = floats(1.0)
    x = x[(np.abs(x) > 0.01) & (np.abs(x) < 4)]
    x = np.abs(x) if power % 1 else x
    y = g.node("Pow", given(g, x), g.constant(np.array(power, dtype)))
    found = lowered(g, y).exact()
    assert "onnx" not in found.kinds
    np.testing.assert_allclose(found.values[y], found.expected[y], rtol=4e-6)


def test_powers_of_what_has_none(qdq, lowered):
    """A zero and what is below it, infinities, and what is no number."""
    g = qdq()
    x = np.float32([0, -1, np.inf, np.nan])
    y = [g.node("Pow", given(g, x), g.constant(np.float32(1.5)))]
    y.append(g.node("Pow", "x", g.constant(np.float32(-0.5))))
    y.append(g.node("Pow", "x", g.constant(np.float32(-3))))
    y.append(g.node("Pow", "x", g.constant(np.float32(3))))
    found = lowered(g, *y).exact()
    for name in y:
        np.testing.assert_array_equal(found.values[name], found.expected[name])


@pytest.mark.parametrize("power", [0, 65, np.inf, np.nan])
def test_powers_that_no_step_has(qdq, power):
    g = qdq()
    y = g.node("Pow", given(g, floats()), g.constant(np.float32(power)))
    (step,) = lower(g.proto(y)).steps
    assert step.kind == "onnx" and "its exponent is" in step.reason


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
def test_signs(qdq, lowered, dtype):
    g = qdq()
    x = np.array([-3, 0, 5, 1, -1]).astype(dtype)
    found = lowered(g, g.node("Sign", given(g, x)))
    assert "onnx" not in found.exact().kinds
    ((name, want),) = found.expected.items()
    np.testing.assert_array_equal(found.values[name], want, strict=True)


@pytest.mark.parametrize(
    "op_type", ["Neg", "Reciprocal", "LeakyRelu", "HardSigmoid", "ThresholdedRelu", "Sign", "Pow"]
)
@pytest.mark.parametrize("sizes", [(), (1,), (2, 3)], ids=str)
def test_numbers_add_no_axis(qdq, lowered, op_type, sizes):
    """A number that a step needs had one axis, and a tensor without axes was refused behind it."""
    g = qdq()
    x = given(g, np.full(sizes, 0.75, np.float32))
    others = [g.constant(np.float32(-1))] if op_type == "Pow" else []
    options = {"HardSigmoid": {"alpha": 0.3}, "ThresholdedRelu": {"alpha": 0.5}}.get(op_type, {})
    found = lowered(g, g.node(op_type, x, *others, **options)).agree()
    assert "onnx" not in found.kinds
