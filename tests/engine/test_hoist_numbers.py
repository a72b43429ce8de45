"""Arithmetic with one number behind a Transpose is computed in front of it, with the same bits."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.onnx_models import onnx_model

import intact
from intact.engine.lower import lower

SIZES = (2, 3, 4, 5)


def transpose_and_scale(
    op_type: str, number: np.ndarray, *, number_first: bool = False, twice: bool = False
) -> onnx.ModelProto:
    """Return ``Sigmoid(op(Transpose(Tanh(x)), number))``; twice: the Transpose is an output, too."""
    inputs = ["number", "t"] if number_first else ["t", "number"]
    nodes = [
        helper.make_node("Tanh", ["x"], ["n"], "tanh"),
        helper.make_node("Transpose", ["n"], ["t"], "turn", perm=[0, 2, 1, 3]),
        helper.make_node(op_type, inputs, ["s"], "scale"),
        helper.make_node("Sigmoid", ["s"], ["y"], "last"),
    ]
    turned = [2, 4, 3, 5]
    outputs = {"y": turned, **({"t": turned} if twice else {})}
    return onnx_model(nodes, {"x": list(SIZES)}, outputs, {"number": number})


def kinds(model: onnx.ModelProto) -> list[str]:
    return [step.kind for step in lower(model).steps]


@pytest.mark.parametrize("number_first", [False, True])
@pytest.mark.parametrize("op_type", ["Mul", "Add", "Sub", "Div"])
def test_it_computes_first(op_type: str, number_first: bool) -> None:
    model = transpose_and_scale(op_type, np.array([0.3], np.float32), number_first=number_first)
    steps = kinds(model)
    assert steps.index("binary") < steps.index("transpose")
    x = np.random.default_rng(0).standard_normal(SIZES).astype(np.float32)
    turned = np.tanh(x).transpose(0, 2, 1, 3)
    operation = {"Mul": np.multiply, "Add": np.add, "Sub": np.subtract, "Div": np.divide}[op_type]
    number = np.float32(0.3)
    scaled = operation(number, turned) if number_first else operation(turned, number)
    got = intact.compile(model, threads=2).run({"x": x})["y"]
    np.testing.assert_allclose(got, 1 / (1 + np.exp(-scaled)), rtol=1e-5)
    np.testing.assert_array_equal(got, intact.run_reference(model, {"x": x})["y"])


@pytest.mark.parametrize(
    ("number", "twice"),
    [
        (np.float32([0.3]), True),
        (np.arange(5, dtype=np.float32), False),
        (np.full((1,) * 5, 0.3, np.float32), False),
    ],
    ids=["the Transpose is read elsewhere", "a number for each column", "an axis more"],
)
def test_the_transpose_stays_in_front(number: np.ndarray, twice: bool) -> None:
    model = transpose_and_scale("Mul", number, twice=twice)
    if number.ndim > 4:
        model.graph.output[0].type.tensor_type.shape.dim.insert(
            0, onnx.TensorShapeProto.Dimension(dim_value=1)
        )
    steps = kinds(model)
    assert steps.index("transpose") < steps.index("binary")
    x = np.random.default_rng(0).standard_normal(SIZES).astype(np.float32)
    got, want = intact.compile(model, threads=1).run({"x": x}), intact.run_reference(model, {"x": x})
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array)
