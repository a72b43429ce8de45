"""Convolutions and products, lowered: the same codes as ONNX Runtime gives for the file."""

import numpy as np
import pytest

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.graph import Session


def last(graph, real, scale=0.1, zero=0, dtype="int8"):
    """`real` as codes, which the graph puts out."""
    return graph.quantize(real, scale, zero, dtype)


@pytest.mark.parametrize("group", [1, 2, 6], ids=lambda g: f"groups{g}")
@pytest.mark.parametrize(
    ("zero", "dtype"), [(0, "int8"), (-7, "int8"), (130, "uint8")], ids=["symmetric", "asymmetric", "uint8"]
)
def test_conv_with_bias_becomes_one_step(qdq, lower_graph, group, zero, dtype):
    g = qdq()
    x = g.pair(g.input("x", [2, 6, 9, 7]), 0.05, zero, dtype)
    y = last(g, g.conv(x, 6, 12, group=group, strides=[2, 1]), 0.2, zero, dtype)
    lowered = lower_graph(g, y).agree()
    assert lowered.kinds == ["quantize", "conv"]
    assert lowered.step("conv").strides == (2, 1) and lowered.step("conv").groups == group


@pytest.mark.rule("N44")
def test_conv_batchnorm_residual_and_relu_are_one_step_with_bounds(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", [1, 4, 6, 6]))
    y = g.node("Conv", x, g.weight(4, 4, 3, 3), pads=[1] * 4)
    positive = g.constant(np.array([0.5, 1.5, 2.0, 0.7], np.float32))
    gamma = g.constant(np.array([1.0, -0.5, 2.0, 0.1], np.float32))
    y = g.node("BatchNormalization", y, gamma, g.floats(4), g.floats(4), positive)
    y = last(g, g.node("Relu", g.node("Add", y, x)))
    lowered = lower_graph(g, y).agree()
    assert lowered.kinds == ["quantize", "conv"]
    step = lowered.step("conv")
    assert (step.epilogue.low, step.epilogue.high) == (0, 127)
    assert lowered.plan.tensors[step.y].codes.low == 0
    assert (lowered.plan.constants[step.epilogue.gain] < 0).any(), "a negative gamma stays negative"


def test_clip_gives_both_bounds(qdq, lower_graph):
    g = qdq()
    y = g.conv(g.pair(g.input("x", [1, 3, 5, 5])), 3, 8)
    y = g.node("Clip", y, g.constant(np.float32(0)), g.constant(np.float32(6)))
    step = lower_graph(g, last(g, y, 0.1)).agree().step("conv")
    assert (step.epilogue.low, step.epilogue.high) == (0, 60)


def test_conv_in_front_of_reals_writes_reals(qdq, lower_graph):
    g = qdq()
    y = g.node("Relu", g.conv(g.pair(g.input("x", [1, 3, 5, 5])), 3, 8))
    lowered = lower_graph(g, y).agree()
    assert lowered.kinds == ["quantize", "conv"]
    assert lowered.plan.tensors[y].dtype == "float32" and lowered.step("conv").epilogue.low == 0.0


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_auto_pad_is_resolved(qdq, lower_graph, mode):
    g = qdq()
    x = g.pair(g.input("x", [1, 3, 8, 7]))
    y = g.node("Conv", x, g.weight(4, 3, 3, 2), auto_pad=mode, strides=[2, 2])
    assert lower_graph(g, last(g, y)).agree().kinds == ["quantize", "conv"]


def test_padding_in_front_of_a_convolution_becomes_its_own(qdq, lower_graph):
    g = qdq()
    x = g.node("Pad", g.pair(g.input("x", [1, 3, 6, 6]), 0.05, 9), g.ints(0, 0, 1, 2, 0, 0, 0, 3))
    y = last(g, g.node("Conv", x, g.weight(4, 3, 3, 3)))
    lowered = lower_graph(g, y).agree()
    assert lowered.kinds == ["quantize", "conv"]
    assert lowered.step("conv").pads == (1, 2, 0, 3)


@pytest.mark.rule("N46")
@pytest.mark.parametrize("group", [1, 2], ids=lambda g: f"groups{g}")
def test_conv_transpose(qdq, lower_graph, group):
    g = qdq()
    x = g.pair(g.input("x", [1, 4, 5, 6]), 0.05, -3)
    w = g.weight(4, 6 // group, 3, 2, axis=1 if group == 1 else None)
    y = g.node(
        "ConvTranspose", x, w, g.floats(6), group=group, strides=[2, 3], pads=[1, 0, 0, 1],
        output_padding=[1, 2], dilations=[1, 2],
    )  # fmt: skip
    assert lower_graph(g, last(g, y)).agree().kinds == ["quantize", "conv_transpose"]


def test_neighbours_over_sequences_stay_images(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", ["n", 4, 9]), 0.05, -3)
    inner = g.pair(g.node("Conv", x, g.weight(6, 4, 3), g.floats(6), pads=[1, 1]), 0.2, 5)
    y = g.node("Conv", inner, g.weight(5, 6, 3), g.floats(5), pads=[1, 1], strides=[2])
    lowered = lower_graph(g, last(g, y), sizes={"n": 2}).agree()
    assert lowered.kinds == ["quantize", "reshape", "conv", "conv", "reshape"]


@pytest.mark.parametrize("group", [1, 2, 4], ids=["dense", "groups", "depthwise"])
def test_conv_transpose_of_sequences(qdq, lower_graph, group):
    g = qdq()
    x = g.pair(g.input("x", ["n", 4, 5]), 0.05, -3)
    w = g.weight(4, 6 // group if group < 4 else 2, 3, axis=1 if group == 1 else None)
    outputs = 6 if group < 4 else 8
    y = g.node(
        "ConvTranspose", x, w, g.floats(outputs), group=group, strides=[3], pads=[1, 0], output_padding=[2]
    )
    lowered = lower_graph(g, last(g, y), sizes={"n": 2}).agree()
    assert lowered.kinds == ["quantize", "reshape", "conv_transpose", "reshape"]


@pytest.mark.parametrize("function", ["Sigmoid", "HardSwish", "Relu"])
@pytest.mark.parametrize("outputs", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("kernel", [[2, 2], [1, 2], [4, 4]], ids=str)
@pytest.mark.parametrize("codes", [True, False], ids=["codes", "float_steps"])
def test_conv_transpose_whose_phases_are_alike(qdq, lower_graph, function, outputs, kernel, codes):
    """Along a row they are channels of one convolution; a row that no tap reaches is the bias alone."""
    g = qdq()
    x = g.pair(g.input("x", [2, 4, 5, 18]), 0.05, -3)
    y = g.node("ConvTranspose", x, g.weight(4, outputs, *kernel, axis=1), g.floats(outputs), strides=[2, 2])
    y = g.node(function, y)
    lowered = lower_graph(g, last(g, y, 0.02) if codes else y)
    assert (lowered.agree() if codes else lowered.agree(1e-6)).kinds == ["quantize", "conv_transpose"]


@pytest.mark.parametrize("transposed", [0, 1], ids=["KxN", "NxK"])
def test_gemm_with_factors(qdq, lower_graph, transposed):
    g = qdq()
    shape = (5, 16) if transposed else (16, 5)
    w = g.weight(*shape, axis=1 - transposed)
    x = g.pair(g.input("x", ["batch", 16]))
    y = last(g, g.node("Gemm", x, w, g.floats(5), transB=transposed, alpha=0.5, beta=2.0))
    assert lower_graph(g, y, sizes={"batch": 3}).agree().kinds == ["quantize", "linear"]


def test_matmul_bias_and_gelu_are_one_step(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", ["batch", 7, 16]))
    y = g.node("Add", g.node("MatMul", x, g.weight(16, 5, axis=1)), g.floats(5))
    half = g.node("Div", y, g.constant(np.float32(2**0.5)))
    gate = g.node("Add", g.node("Erf", half), g.constant(np.float32(1)))
    y = g.node("Mul", g.node("Mul", y, gate), g.constant(np.float32(0.5)))
    lowered = lower_graph(g, last(g, y), sizes={"batch": 2}).agree()
    assert lowered.kinds == ["quantize", "linear"]
    assert lowered.step("linear").epilogue.activation == "gelu"


@pytest.mark.rule("N48")
@pytest.mark.parametrize("op_type", ["LeakyRelu", "PRelu", "PRelu of one"])
@pytest.mark.parametrize("group", [1, 2, 4], ids=["dense", "groups", "depthwise"])
@pytest.mark.parametrize("residual", [True, False], ids=["residual", "plain"])
@pytest.mark.parametrize("codes", [True, False], ids=["codes", "float_steps"])
def test_slopes_behind_a_layer(qdq, lower_graph, op_type, group, residual, codes):
    g = qdq()
    x = g.pair(g.input("x", [2, 4, 5, 6]), 0.05, 3)
    y = g.conv(x, 4, 4, group=group)
    y = g.node("Add", y, x) if residual else y
    if op_type == "LeakyRelu":
        y = g.node("LeakyRelu", y, alpha=0.3)
    else:
        slope = np.float32([[[0.1]], [[-0.5]], [[2]], [[0]]]) if op_type == "PRelu" else np.float32([0.25])
        y = g.node("PRelu", y, g.constant(slope))
    lowered = lower_graph(g, last(g, y, 0.2, -20) if codes else y).agree()
    assert lowered.kinds == ["quantize", "conv"]
    assert lowered.step("conv").epilogue.slope


def test_slopes_behind_a_product_and_a_sequence(qdq, lower_graph):
    g = qdq()
    w = g.weight(16, 5, axis=1)
    y = g.node("Add", g.node("MatMul", g.pair(g.input("x", [2, 7, 16])), w), g.floats(5))
    y = g.node("PRelu", y, g.constant(np.float32([0.1, 0.2, -1, 0, 3])))
    z = g.node("Conv", g.pair(g.input("z", [2, 4, 11])), g.weight(4, 4, 3), g.floats(4))
    z = g.node("PRelu", z, g.constant(np.float32([[0.1], [0.2], [0.3], [0.4]])))
    lowered = lower_graph(g, last(g, y), last(g, z)).agree()
    assert sorted(lowered.kinds) == ["conv", "linear", "quantize", "quantize", "reshape", "reshape"]


def test_slopes_along_another_axis_are_no_part_of_the_layer(qdq, lower_graph):
    g = qdq()
    y = g.conv(g.pair(g.input("x", [1, 4, 5, 4])), 4, 4)
    y = g.node("PRelu", y, g.constant(np.float32([0.1, 0.2, 0.3, 0.4])))
    assert lower_graph(g, last(g, y)).agree().kinds == ["quantize", "conv", "binary"]


@pytest.mark.rule("N44")
@pytest.mark.parametrize("shape", [(6,), (1, 1, 6), (1,)], ids=str)
def test_factors_behind_an_activation_are_part_of_the_layer(qdq, lower_graph, shape):
    g = qdq()
    x = g.pair(g.input("x", ["batch", 7, 16]))
    y = g.node("Gelu", g.node("Add", g.node("MatMul", x, g.weight(16, 6, axis=1)), g.floats(6)))
    lowered = lower_graph(
        g, g.quantize(g.node("Mul", y, g.floats(*shape)), 0.02, 5), sizes={"batch": 2}
    ).agree()
    assert lowered.kinds == ["quantize", "linear"]
    assert lowered.step("linear").epilogue.factors
    assert len(lowered.step("linear").nodes) == 4


def test_factors_behind_the_activation_of_images(qdq, lower_graph):
    g = qdq()
    y = g.node("Sigmoid", g.conv(g.pair(g.input("x", [1, 3, 5, 6])), 3, 4))
    y = last(g, g.node("Mul", g.floats(4, 1, 1), y))
    assert lower_graph(g, y).agree().kinds == ["quantize", "conv"]


def test_factors_behind_codes_multiply_what_was_rounded(qdq, lower_graph):
    """Found by fuzzing: the grid of a Tanh ends at 0, and what it cut off came back."""
    g = qdq()
    x = g.pair(g.input("x", ["batch", 7, 16]))
    y = g.node("Tanh", g.node("MatMul", x, g.weight(16, 6, axis=1)))
    y = g.node("Mul", g.pair(y, 0.004, 250, "uint8"), g.floats(6))
    lowered = lower_graph(g, y, sizes={"batch": 2}).exact()
    assert lowered.kinds == ["quantize", "linear", "binary"]
    np.testing.assert_allclose(lowered.values[y], lowered.expected[y], rtol=1e-6)


@pytest.mark.rule("N44")
@pytest.mark.parametrize("op_type", ["Relu", "HardSwish", "Sigmoid"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1, 1), (4, 1, 1)], ids=str)
@pytest.mark.parametrize("group", [1, 2, 4], ids=["dense", "groups", "depthwise"])
@pytest.mark.parametrize("codes", [True, False], ids=["codes", "float_steps"])
def test_factors_and_offsets_behind_a_function_are_part_of_the_layer(
    qdq, lower_graph, op_type, shape, group, codes
):
    g = qdq()
    y = g.node(op_type, g.conv(g.pair(g.input("x", [2, 4, 5, 6])), 4, 4, group=group))
    y = g.node("Add", g.floats(*shape), g.node("Mul", y, g.floats(*shape)))
    lowered = lower_graph(g, last(g, y, 0.02) if codes else y)
    lowered = lowered.agree() if codes else lowered.agree(1e-6)
    assert lowered.kinds == ["quantize", "conv"]
    assert lowered.step("conv").epilogue.factors and lowered.step("conv").epilogue.offsets


def test_a_factor_behind_an_offset_is_no_part_of_the_layer(qdq, lower_graph):
    g = qdq()
    y = g.node("HardSwish", g.conv(g.pair(g.input("x", [1, 4, 5, 6])), 4, 4))
    y = g.node("Mul", g.node("Add", y, g.floats(1)), g.floats(1))
    assert lower_graph(g, last(g, y, 0.02)).agree().kinds == ["quantize", "conv", "binary"]


def test_a_factor_of_more_axes_is_no_part_of_the_layer(qdq, lower_graph):
    g = qdq()
    y = g.node("Gelu", g.node("MatMul", g.pair(g.input("x", ["batch", 16])), g.weight(16, 6, axis=1)))
    y = last(g, g.node("Mul", y, g.floats(1, 1, 6)), 0.02)
    assert lower_graph(g, y, sizes={"batch": 2}).agree().kinds == ["quantize", "linear", "binary"]


@pytest.mark.parametrize("why", ["read twice", "along another axis"])
def test_factors_that_are_no_part_of_the_layer(qdq, lower_graph, why):
    g = qdq()
    x = g.pair(g.input("x", [1, 4, 5, 6]))
    y = g.node("Sigmoid", g.conv(x, 4, 4))
    factors = g.floats(4, 5, 1) if why == "along another axis" else g.floats(4, 1, 1)
    outputs = [g.quantize(g.node("Mul", y, factors), 0.02)] + [y] * (why == "read twice")
    assert lower_graph(g, *outputs).agree().kinds == ["quantize", "conv", "binary"]


@pytest.mark.rule("N44")
def test_attention_takes_its_scale_into_the_multiplier(qdq, lower_graph):
    g = qdq()
    a, b = (g.pair(g.input(n, ["batch", 2, "seq", 8])) for n in "ab")
    scores = g.node("MatMul", a, g.node("Transpose", b, perm=[0, 1, 3, 2]))
    weights = g.node("Softmax", g.node("Div", scores, g.constant(np.float32(8**0.5))), axis=-1)
    y = g.node("MatMul", g.pair(weights, 1 / 127), b)
    # At this scale no sum lies midway between two codes, where float sums in another order decide.
    lowered = lower_graph(g, last(g, y, 0.09), sizes={"batch": 2, "seq": 9}).agree()
    assert lowered.kinds == ["quantize", "quantize", "transpose", "matmul", "softmax", "matmul"]
    assert lowered.plan.tensors[lowered.step("softmax").y].codes.low == 0


def test_int32_bias_in_the_scale_of_the_sums_is_part_of_them(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", [1, 8]), 0.05)
    w = g.dequantize(g.constant(g.rng.integers(-128, 128, (8, 4)).astype(np.int8)), 0.01)
    stored = g.constant(np.array([1000, -2000, 3, 0], np.int32))
    scale = g.constant(np.float32(np.float64(np.float32(0.05)) * np.float64(np.float32(0.01))))
    bias = g.node("DequantizeLinear", stored, scale)
    step = lower_graph(g, last(g, g.node("Gemm", x, w, bias))).agree().step("linear")
    assert step.epilogue.integer_bias and not step.epilogue.bias


def test_uint8_and_int4_weights_run_as_int8(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", [3, 8]))
    y = g.node("MatMul", x, g.weight(8, 4, axis=1, dtype="uint8", zero=128))
    assert lower_graph(g, last(g, y)).agree().kinds == ["quantize", "linear"]


def test_a_scale_for_each_summed_index_stays_in_float(qdq, lower_graph):
    g = qdq()
    y = g.node("MatMul", g.pair(g.input("x", [3, 8])), g.weight(8, 4, axis=0))
    lowered = lower_graph(g, y).agree()
    assert lowered.kinds[-1] == "float_linear" and "which is summed over" in lowered.plan.layers[-1].reason


def test_sums_that_could_leave_int32_stay_in_float(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", [1, 70000]), 0.05, -128)
    w = g.dequantize(g.constant(np.full((70000, 1), 127, np.int8)), 1e-4)
    lowered = lower_graph(g, g.node("MatMul", x, w))
    assert lowered.kinds[-1] == "float_linear" and "beyond int32" in lowered.plan.layers[-1].reason
    np.testing.assert_allclose(lowered.values["matmul3"], lowered.expected["matmul3"], rtol=1e-4)


def test_a_weight_behind_a_transpose_is_read_through_it(qdq, lower_graph):
    g = qdq()
    w = g.node("Transpose", g.weight(5, 16, axis=0), perm=[1, 0])
    y = g.node("MatMul", g.pair(g.input("x", [2, 16])), w)
    assert lower_graph(g, last(g, y)).agree().kinds == ["quantize", "linear"]


@pytest.mark.parametrize("readers", ["codes", "float_steps", "both"])
def test_a_tensor_is_written_as_its_readers_want_it(qdq, lower_graph, readers):
    g = qdq()
    y = g.conv(g.pair(g.input("x", [1, 3, 4, 4])), 3, 4)
    outputs = {"codes": [last(g, y)], "float_steps": [y], "both": [y, last(g, y, 0.2)]}[readers]
    lowered = lower_graph(g, *outputs).agree()
    assert lowered.kinds == ["quantize", "conv"] + ["quantize"] * (readers == "both")


@pytest.mark.parametrize("constant", [True, False], ids=["constant mask", "mask of the input"])
def test_a_mask_behind_the_scores_goes_into_softmax(qdq, lower_graph, constant):
    g = qdq()
    a, b = (g.pair(g.input(n, [2, 3, 5, 8])) for n in "ab")
    scores = g.node("MatMul", a, g.node("Transpose", b, perm=[0, 1, 3, 2]))
    scores = g.node("Mul", scores, g.constant(np.float32(0.3)))
    mask = g.constant(np.float32([[[[0, 0, -10, 0, -3]]]])) if constant else g.input("mask", [2, 1, 1, 5])
    lowered = lower_graph(g, g.quantize(g.node("Softmax", g.node("Add", scores, mask)), 1 / 127)).agree()
    assert lowered.kinds[-2:] == ["matmul", "softmax"] and "binary" not in lowered.kinds
    assert lowered.step("softmax").mask


def test_a_factor_for_each_column_of_a_product_is_its_own_step(qdq, lower_graph):
    g = qdq()
    a, b = g.pair(g.input("a", [2, 5, 8])), g.pair(g.input("b", [2, 8, 4]))
    y = g.node("Mul", g.node("MatMul", a, b), g.floats(4))
    assert lower_graph(g, g.quantize(y, 0.1)).agree().kinds[-2:] == ["matmul", "binary"]


@pytest.mark.parametrize("residual", [True, False], ids=["residual", "plain"])
def test_convolutions_of_sequences_are_those_of_images_of_height_1(qdq, lower_graph, residual):
    g = qdq()
    x = g.pair(g.input("x", ["n", 4, 11]), 0.05, -9)
    w = g.weight(4, 2, 3)
    y = g.node("Conv", x, w, g.floats(4), group=2, pads=[2, 0], strides=[1], dilations=[1])
    y = g.node("Add", y, x) if residual else y
    lowered = lower_graph(g, last(g, g.node("Relu", y)), sizes={"n": 2}).agree()
    assert lowered.kinds.count("conv") == 1 and "onnx" not in lowered.kinds


def test_a_residual_is_taken_in_whatever_the_size_of_the_image(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.node("Relu", g.conv(g.pair(g.input("x", ["n", 4, "h", "w"])), 4, 8, strides=[2, 2])))
    y = g.node("Relu", g.node("Add", g.conv(x, 8, 8), x))
    short = g.pair(g.node("Conv", x, g.weight(8, 8, 1, 1), strides=[2, 2]))
    y = g.node("Add", g.conv(g.pair(y), 8, 8, strides=[2, 2]), short)
    lowered = lower_graph(g, last(g, y), sizes={"n": 2, "h": 11, "w": 8}).agree()
    assert lowered.kinds == ["quantize", "conv", "conv", "conv", "conv"]


@pytest.mark.parametrize("group", [1, 4], ids=["conv", "depthwise"])
@pytest.mark.parametrize("codes", [True, False], ids=["codes", "float_steps"])
def test_a_channel_without_weights_multiplies_by_nothing(qdq, lower_graph, group, codes):
    """Its scale is 1 by convention; multiplied out, all channels took a slow form, 15 times as long."""
    g = qdq()
    x = g.pair(g.input("x", [2, 4, 6, 6]))
    weight = g.rng.integers(-127, 128, (4, 4 // group, 3, 3)).astype(np.int8)
    weight[1] = 0
    scales = np.array([0.002, 1, 0.003, 0.002], np.float32)
    w = g.node(
        "DequantizeLinear", g.constant(weight), g.constant(scales), g.constant(np.zeros(4, np.int8)), axis=0
    )
    y = g.node("Conv", x, w, g.constant(np.array([0.1, 0.7, -2, 0], np.float32)), pads=[1] * 4, group=group)
    lowered = lower_graph(g, last(g, y, 0.01) if codes else y).agree()
    multiplier = lowered.plan.constants[lowered.step("conv").epilogue.multiplier]
    assert multiplier[1] == 0 and multiplier[[0, 2, 3]].all()


def test_a_channel_of_int32_bias_alone_keeps_its_multiplier(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", [1, 2, 4, 4]), 0.05)
    w = g.node("DequantizeLinear", g.constant(np.zeros((2, 2, 1, 1), np.int8)), g.constant(np.float32(0.02)))
    bias = g.node(
        "DequantizeLinear", g.constant(np.int32([300, 0])), g.constant(np.float32(0.05) * np.float32(0.02))
    )
    lowered = lower_graph(g, last(g, g.node("Conv", x, w, bias), 0.01)).agree()
    multiplier = lowered.plan.constants[lowered.step("conv").epilogue.multiplier]
    assert multiplier[0] > 0 and multiplier[1] == 0


@pytest.mark.parametrize("codes", [False, True])
def test_a_gemm_of_beta_0_does_not_read_what_it_adds(qdq, codes):
    g = qdq()
    x = g.input("x", [4, 16])
    weight = g.weight(8, 16) if codes else g.floats(8, 16)
    bias = g.constant(np.array([np.nan, np.inf, 1, 2, 3, 4, 5, 6], np.float32))
    data = g.proto(
        g.node("Gemm", g.pair(x) if codes else x, weight, bias, transB=1, beta=0.0)
    ).SerializeToString()
    plan = lower(data)
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16)
    (want,) = Session(data).run({"x": x}).values()
    (got,) = Engine(plan, threads=1).run({"x": x}).values()
    assert not any(step.kind == "onnx" for step in plan.steps) and np.isfinite(want).all()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_a_factor_that_widens_the_channels_is_its_own_step(qdq, lower_graph):
    g = qdq()
    y = g.node("Mul", g.conv(g.pair(g.input("x", [1, 3, 4, 4])), 3, 1), g.floats(4, 1, 1))
    assert lower_graph(g, g.quantize(y)).agree().kinds == ["quantize", "conv", "binary"]
