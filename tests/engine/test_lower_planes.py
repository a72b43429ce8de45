"""Pools, additions, tables and what only moves data, lowered: the codes that ONNX Runtime gives."""

import numpy as np
import pytest

POOLS = {
    "average": ("AveragePool", {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    "counting padding": ("AveragePool", {"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 1}),
    "ceil": ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    "global": ("GlobalAveragePool", {}),
    "max": ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 0, 0]}),
    "max ceil": ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    "global max": ("GlobalMaxPool", {}),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools(qdq, lowered, name):
    g, (op_type, attributes) = qdq(), POOLS[name]
    x = g.pair(g.input("x", [2, 3, 7, 7]), 0.05, 3)
    y = g.quantize(g.node(op_type, x, **attributes), 0.05 if "Max" in op_type else 0.0437, 3)
    assert lowered(g, y).agree().kinds == ["quantize", "pool"]


@pytest.mark.parametrize("keep", [1, 0], ids=["kept axes", "dropped axes"])
def test_mean_over_the_planes_is_a_pool(qdq, lowered, keep):
    g = qdq()
    x = g.pair(g.input("x", ["batch", 3, 4, 4]))
    y = g.quantize(g.node("ReduceMean", x, g.ints(2, 3), keepdims=keep), 0.02)
    found = lowered(g, y, sizes={"batch": 2}).agree()
    assert found.kinds == ["quantize", "pool"] + ["reshape"] * (1 - keep)


def test_the_mean_of_what_is_never_negative_is_not_either(qdq, lowered):
    g = qdq()
    x = g.pair(g.node("Relu", g.conv(g.pair(g.input("x", [1, 3, 4, 4])), 3, 4)))
    found = lowered(g, g.quantize(g.node("GlobalAveragePool", x))).agree()
    step = found.step("pool")
    assert found.plan.tensors[step.y].codes.offset == 0


def test_add_of_codes_with_relu(qdq, lowered):
    g = qdq()
    a, b = g.pair(g.input("a", [2, 3, 4, 4]), 0.05, 4), g.pair(g.input("b", [2, 3, 4, 4]), 0.03)
    found = lowered(g, g.quantize(g.node("Relu", g.node("Add", a, b)), 0.07, -10)).agree()
    assert found.kinds == ["quantize", "quantize", "add"]
    assert found.step("add").low == -10


def test_add_broadcasts(qdq, lowered):
    g = qdq()
    a, b = g.pair(g.input("a", [2, 3, 4, 4])), g.pair(g.input("b", [2, 3, 1, 1]))
    assert lowered(g, g.quantize(g.node("Add", a, b))).agree().kinds[-1] == "add"


CURVES = {
    "Sigmoid": ("Sigmoid", {}), "HardSwish": ("HardSwish", {}), "LeakyRelu": ("LeakyRelu", {"alpha": 0.3}),
    "Tanh": ("Tanh", {}), "Elu": ("Elu", {}), "Selu": ("Selu", {}), "Softplus": ("Softplus", {}),
    "HardSigmoid": ("HardSigmoid", {}), "Gelu": ("Gelu", {}), "Gelu tanh": ("Gelu", {"approximate": "tanh"}),
    "Relu": ("Relu", {}), "Erf": ("Erf", {}), "Exp": ("Exp", {}), "Abs": ("Abs", {}), "Celu": ("Celu", {}),
    "Mish": ("Mish", {}), "Softsign": ("Softsign", {}), "ThresholdedRelu": ("ThresholdedRelu", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_functions_between_codes_are_tables(qdq, lowered, name, dtype):
    g, (op_type, attributes) = qdq(), CURVES[name]
    zero = 100 if dtype == "uint8" else -5
    x = g.pair(g.input("x", [4, 64]), 0.05, zero, dtype)
    y = g.quantize(g.node(op_type, x, **attributes), 0.03, zero, dtype)
    assert lowered(g, y).agree().kinds == ["quantize", "table"]


def test_silu_in_two_nodes_is_one_table(qdq, lowered):
    g = qdq()
    x = g.pair(g.input("x", [4, 64]))
    y = g.quantize(g.node("Mul", x, g.node("Sigmoid", x)))
    assert lowered(g, y).agree().kinds == ["quantize", "table"]


@pytest.mark.parametrize("op_type", ["Mul", "Div", "Add", "Sub"])
def test_arithmetic_with_one_number_is_a_table(qdq, lowered, op_type):
    g = qdq()
    x = g.pair(g.input("x", [4, 64]))
    y = g.quantize(g.node(op_type, x, g.constant(np.float32(0.7123))), 0.0437)
    assert lowered(g, y).agree().kinds == ["quantize", "table"]


def test_a_factor_that_the_scales_share_leaves_the_codes(qdq, lowered):
    g = qdq()
    x = g.pair(g.input("x", [4, 64]), 0.05)
    y = g.quantize(g.node("Mul", x, g.constant(np.float32(0.5))), 0.025)
    found = lowered(g, y).agree()
    assert found.kinds == ["quantize", "reinterpret"]
    assert found.plan.tensors[y].codes.scale == np.float32(0.025)


def test_a_pair_whose_halves_differ_reads_the_codes_anew(qdq, lowered):
    g = qdq()
    x = g.dequantize(g.quantize(g.input("x", [1, 3, 4, 4]), 0.05, 3), 0.04, -2)
    assert lowered(g, g.quantize(g.conv(x, 3, 4), 0.1)).agree().kinds == ["quantize", "reinterpret", "conv"]


MOVES = {
    "Transpose": ("Transpose", [], {"perm": [0, 2, 3, 1]}),
    "Reshape": ("Reshape", [(2, -1, 4)], {}),
    "Flatten": ("Flatten", [], {}),
    "Unsqueeze": ("Unsqueeze", [(1,)], {}),
    "Slice": ("Slice", [(1, -1), (6, -8), (2, 3), (2, -1)], {}),
    "Pad": ("Pad", [(0, 1, 0, 2, 0, 0, 3, 0)], {}),
    "DepthToSpace": ("DepthToSpace", [], {"blocksize": 2}),
    "DepthToSpace CRD": ("DepthToSpace", [], {"blocksize": 2, "mode": "CRD"}),
    "SpaceToDepth": ("SpaceToDepth", [], {"blocksize": 2}),
    "Gather": ("Gather", [()], {"axis": 1}),
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("where", ["below DQ", "above Q", "real"])
def test_what_moves_data_moves_codes(qdq, lowered, name, where):
    g, (op_type, numbers, attributes) = qdq(), MOVES[name]
    x = g.input("x", [2, 4, 8, 6])
    constants = [g.ints(*n) if n else g.constant(np.array(-1)) for n in numbers]
    if where == "below DQ":
        y = g.node(op_type, g.pair(x, 0.05, 7), *constants, **attributes)
    else:
        y = g.node(op_type, x, *constants, **attributes)
        y = g.quantize(y, 0.05, 7) if where == "above Q" else y
    found = lowered(g, y).agree()
    assert "onnx" not in found.kinds
    if where != "real":
        assert found.kinds[0] == "quantize" and found.kinds.count("quantize") == 1


def test_split_is_slices(qdq, lowered):
    g = qdq()
    parts = g.node("Split", g.pair(g.input("x", [2, 6, 3])), g.ints(1, 2, 3), outputs=3, axis=1)
    found = lowered(g, g.quantize(parts[0]), parts[2]).agree()
    assert found.kinds.count("slice") == 2


def test_concat_rescales_what_comes_in_another_grid(qdq, lowered):
    g = qdq()
    a, b = g.pair(g.input("a", [2, 3, 4]), 0.05, 3), g.pair(g.input("b", [2, 5, 4]), 0.02)
    found = lowered(g, g.quantize(g.node("Concat", a, b, axis=1), 0.05, 3)).agree()
    assert found.kinds == ["quantize", "quantize", "concat"]


def test_layers_write_the_grid_of_the_concat_behind_them(qdq, lowered):
    g = qdq()
    x = g.pair(g.input("x", [1, 3, 4, 4]))
    joined = g.node("Concat", g.conv(x, 3, 4), g.conv(x, 3, 6), axis=1)
    found = lowered(g, g.quantize(joined, 0.1)).agree()
    assert found.kinds == ["quantize", "conv", "conv", "concat"]


RESIZES = {
    "upsample": ({"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, (1, 1, 2, 3)),
    "half pixel": ({}, (1, 1, 2, 1.5)),
    "shrink": ({"nearest_mode": "ceil"}, (1, 1, 0.5, 0.75)),
    "align corners": (
        {"coordinate_transformation_mode": "align_corners", "nearest_mode": "round_prefer_ceil"},
        (1, 1, 1.7, 2),
    ),
}


@pytest.mark.parametrize("name", RESIZES)
def test_resize_takes_the_nearest(qdq, lowered, name):
    g, (attributes, scales) = qdq(), RESIZES[name]
    x = g.pair(g.input("x", [1, 2, 6, 4]))
    y = g.node("Resize", x, "", g.constant(np.float32(scales)), mode="nearest", **attributes)
    assert lowered(g, g.quantize(y)).agree().kinds == ["quantize", "resize"]


def test_pairs_that_meet_vanish_or_rescale(qdq, lowered):
    g = qdq()
    same = g.pair(g.pair(g.input("x", [3, 4]), 0.05), 0.05)
    other = g.quantize(same, 0.03, 5)
    assert lowered(g, other).agree().kinds == ["quantize", "rescale"]


def test_readers_of_one_tensor_share_its_pair(qdq, lowered):
    g = qdq()
    x = g.input("x", [1, 3, 4, 4])
    a, b = g.conv(g.pair(x), 3, 4), g.conv(g.pair(x), 3, 4)
    found = lowered(g, g.quantize(a), g.quantize(b)).agree()
    assert found.kinds == ["quantize", "conv", "conv"]


def test_codes_come_in_and_go_out(qdq, lowered):
    from onnx import TensorProto

    g = qdq()
    x = g.dequantize(g.input("x", [1, 3, 4, 4], TensorProto.UINT8), 0.02, 120, "uint8")
    found = lowered(g, g.quantize(g.conv(x, 3, 4), 0.1, 128, "uint8")).agree()
    assert found.kinds == ["conv"]
    assert found.plan.tensors["x"].codes is not None


@pytest.mark.parametrize(
    ("op_type", "kinds"), [("GlobalMaxPool", ["reduce"]), ("MaxPool", ["dequantize", "onnx", "quantize"])]
)
def test_codes_do_not_pass_where_no_step_moves_them(qdq, lowered, op_type, kinds):
    g = qdq()
    kernel = {"kernel_shape": [2, 2, 1], "dilations": [2, 1, 1], "pads": [1, 0, 0, 1, 0, 0]}
    x = g.node("Transpose", g.pair(g.input("x", [2, 6, 4, 3, 2])), perm=[0, 2, 1, 3, 4])
    found = lowered(g, g.quantize(g.node(op_type, x, **(kernel if op_type == "MaxPool" else {})))).agree()
    assert found.kinds == ["quantize", "transpose", *kinds]


def test_a_batchnorm_over_rows_is_not_one_over_channels(qdq, lowered):
    g = qdq()
    y = g.node("MatMul", g.pair(g.input("x", [2, 5, 8])), g.weight(8, 5, axis=1))
    variance = g.constant(np.float32([1, 2, 3, 4, 5]))
    y = g.node("BatchNormalization", y, g.floats(5), g.floats(5), g.floats(5), variance)
    assert lowered(g, g.quantize(y)).agree().kinds == ["quantize", "linear", "binary", "binary"]


def test_a_factor_that_widens_the_channels_is_its_own_step(qdq, lowered):
    g = qdq()
    y = g.node("Mul", g.conv(g.pair(g.input("x", [1, 3, 4, 4])), 3, 1), g.floats(4, 1, 1))
    assert lowered(g, g.quantize(y)).agree().kinds == ["quantize", "conv", "binary"]
