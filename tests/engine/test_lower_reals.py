"""Float steps and stretches: native where `numerics` has a function, ONNX Runtime elsewhere."""

import numpy as np
import pytest


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("second", ["codes", "real", "vector"])
def test_arithmetic_of_two_tensors(qdq, lowered, op_type, second):
    g = qdq()
    a = g.pair(g.input("a", [2, 5, 8]))
    b = g.constant(np.float32(g.rng.uniform(0.5, 2, 8))) if second == "vector" else g.input("b", [2, 1, 8])
    b = g.pair(b, 0.03) if second == "codes" else b
    found = lowered(g, g.node(op_type, a, b))
    assert found.kinds[-1] == "binary" and "onnx" not in found.kinds
    got, want = found.values[op_type.lower() + str(len(g.nodes) - 1)], next(iter(found.expected.values()))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "op_type", ["Erf", "Exp", "Gelu", "HardSwish", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu"]
)
def test_functions_of_reals(qdq, lowered, op_type):
    g = qdq()
    y = g.node(op_type, g.input("x", [3, 50]))
    assert lowered(g, y).agree(1e-6).kinds == ["function"]


def test_softmax_takes_the_mask_before_it(qdq, lowered):
    g = qdq()
    scores = g.node("Add", g.input("x", ["batch", 2, 5, 5]), g.input("mask", ["batch", 1, 1, 5]))
    found = lowered(g, g.quantize(g.node("Softmax", scores), 1 / 127), sizes={"batch": 2}).agree()
    assert found.kinds == ["softmax"]
    assert found.step("softmax").mask == "mask"


@pytest.mark.parametrize("axis", [1, -1])
def test_softmax_over_an_axis(qdq, lowered, axis):
    g = qdq()
    y = g.node("Softmax", g.pair(g.input("x", [2, 7, 5])), axis=axis)
    assert lowered(g, y).agree().kinds == ["quantize", "softmax"]


def test_layer_norm_takes_the_residual_before_it(qdq, lowered):
    g = qdq()
    a, b = g.input("a", [2, 5, 16]), g.pair(g.input("b", [2, 5, 16]))
    y = g.node("LayerNormalization", g.node("Add", a, b), g.reals(16), g.reals(16), axis=-1)
    found = lowered(g, g.quantize(y)).agree()
    assert found.kinds == ["quantize", "layer_norm"]
    assert found.step("layer_norm").residual


@pytest.mark.parametrize("square", ["Pow", "Mul"])
@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
def test_a_layer_norm_in_pieces_is_one(qdq, lowered, square, affine):
    g = qdq()
    x = g.input("x", [2, 5, 16])
    d = g.node("Sub", x, g.node("ReduceMean", x, g.ints(-1)))
    power = g.node("Pow", d, g.constant(np.float32(2))) if square == "Pow" else g.node("Mul", d, d)
    spread = g.node("Add", g.node("ReduceMean", power, g.ints(2)), g.constant(np.float32(1e-5)))
    y = g.node("Div", d, g.node("Sqrt", spread))
    if affine:
        y = g.node("Add", g.node("Mul", y, g.reals(16)), g.reals(16))
    assert lowered(g, y).agree(1e-5).kinds == ["layer_norm"]


def test_what_has_no_kernel_runs_in_one_stretch(qdq, lowered):
    g = qdq()
    x = g.pair(g.input("x", [1, 3, 6, 6]))
    y = g.conv(x, 3, 4)
    y = g.node("Cos", g.node("Sin", y))
    side = g.node("Ceil", g.input("z", [1, 4, 6, 6]))
    y = g.conv(g.pair(g.node("Add", y, side), 0.01), 4, 4)
    found = lowered(g, g.quantize(y)).agree()
    assert found.kinds.count("onnx") == 1
    reason = found.step("onnx").reason
    assert "Sin: no kernel for Sin" in reason and "Cos" in reason
    assert any("ONNX Runtime" in note for note in found.plan.notes)


def test_stretches_on_both_sides_of_a_layer_are_two(qdq, lowered):
    g = qdq()
    y = g.conv(g.pair(g.node("Sin", g.input("x", [1, 3, 4, 4])), 0.01), 3, 4)
    assert lowered(g, g.node("Sin", y)).agree().kinds == ["onnx", "quantize", "conv", "onnx"]


def test_a_stretch_holds_the_constants_that_it_reads(qdq, lowered):
    g = qdq()
    table = g.dequantize(g.constant(g.rng.integers(-128, 128, (10, 8)).astype(np.int8)))
    from onnx import TensorProto

    rows = g.node("Gather", table, g.input("ids", ["batch", 5], TensorProto.INT64))
    g.feeds = lambda sizes=None: {"ids": np.array([[0, 3, 9, 9, 1]])}
    y = g.node("MatMul", g.pair(rows), g.weight(8, 4, axis=1))
    found = lowered(g, g.quantize(y)).agree()
    assert found.kinds == ["onnx", "quantize", "linear"]


def test_branches_run_in_a_stretch(qdq, lowered):
    from onnx import TensorProto, helper

    g = qdq()
    x = g.pair(g.input("x", [2, 4]))
    flag = g.node("Greater", g.node("ReduceSum", x, keepdims=0), g.constant(np.float32(0)))
    out = helper.make_tensor_value_info("branch", TensorProto.FLOAT, [2, 4])
    then = helper.make_graph([helper.make_node("Sin", [x], ["branch"])], "then", [], [out])
    other = helper.make_graph([helper.make_node("Cos", [x], ["branch"])], "else", [], [out])
    y = g.node("If", flag, then_branch=then, else_branch=other)
    found = lowered(g, y).agree()
    assert found.kinds == ["quantize", "dequantize", "onnx"]


@pytest.mark.parametrize("dtype", ["int16", "uint16"])
def test_codes_of_16_bits_run_in_a_stretch(qdq, lowered, dtype):
    g = qdq()
    x = g.pair(g.input("x", [2, 8]), 0.001, 0 if dtype == "int16" else 30000, dtype)
    found = lowered(g, g.node("MatMul", x, g.weight(8, 4, axis=1))).agree()
    assert found.kinds == ["onnx"]
    assert "int8 or uint8" in found.step("onnx").reason
