"""Pairs pass what only moves data, and vanish or rescale where they meet."""

import numpy as np
import pytest

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


@pytest.mark.rule("N43")
@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("where", ["below DQ", "above Q", "real"])
def test_what_moves_data_moves_codes(qdq, lower_graph, name, where):
    g, (op_type, numbers, attributes) = qdq(), MOVES[name]
    x = g.input("x", [2, 4, 8, 6])
    constants = [g.ints(*n) if n else g.constant(np.array(-1)) for n in numbers]
    if where == "below DQ":
        y = g.node(op_type, g.pair(x, 0.05, 7), *constants, **attributes)
    else:
        y = g.node(op_type, x, *constants, **attributes)
        y = g.quantize(y, 0.05, 7) if where == "above Q" else y
    lowered = lower_graph(g, y).agree()
    assert "onnx" not in lowered.kinds
    if where != "real":
        assert lowered.kinds[0] == "quantize" and lowered.kinds.count("quantize") == 1


def test_split_is_slices(qdq, lower_graph):
    g = qdq()
    parts = g.node("Split", g.pair(g.input("x", [2, 6, 3])), g.ints(1, 2, 3), outputs=3, axis=1)
    lowered = lower_graph(g, g.quantize(parts[0]), parts[2]).agree()
    assert lowered.kinds.count("slice") == 2


def test_layers_write_the_grid_of_the_concat_behind_them(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", [1, 3, 4, 4]))
    joined = g.node("Concat", g.conv(x, 3, 4), g.conv(x, 3, 6), axis=1)
    lowered = lower_graph(g, g.quantize(joined, 0.1)).agree()
    assert lowered.kinds == ["quantize", "conv", "conv", "concat"]


@pytest.mark.rule("N43")
def test_pairs_that_meet_vanish_or_rescale(qdq, lower_graph):
    g = qdq()
    same = g.pair(g.pair(g.input("x", [3, 4]), 0.05), 0.05)
    other = g.quantize(same, 0.03, 5)
    assert lower_graph(g, other).agree().kinds == ["quantize", "rescale"]


def test_readers_of_one_tensor_share_its_pair(qdq, lower_graph):
    g = qdq()
    x = g.input("x", [1, 3, 4, 4])
    a, b = g.conv(g.pair(x), 3, 4), g.conv(g.pair(x), 3, 4)
    lowered = lower_graph(g, g.quantize(a), g.quantize(b)).agree()
    assert lowered.kinds == ["quantize", "conv", "conv"]


def test_codes_come_in_and_go_out(qdq, lower_graph):
    from onnx import TensorProto

    g = qdq()
    x = g.dequantize(g.input("x", [1, 3, 4, 4], TensorProto.UINT8), 0.02, 120, "uint8")
    lowered = lower_graph(g, g.quantize(g.conv(x, 3, 4), 0.1, 128, "uint8")).agree()
    assert lowered.kinds == ["conv"]
    assert lowered.plan.tensors["x"].codes is not None


@pytest.mark.parametrize(
    ("op_type", "kinds"), [("GlobalMaxPool", ["reduce"]), ("MaxPool", ["dequantize", "onnx", "quantize"])]
)
def test_codes_do_not_pass_where_no_step_moves_them(qdq, lower_graph, op_type, kinds):
    g = qdq()
    kernel = {"kernel_shape": [2, 2, 1], "dilations": [2, 1, 1], "pads": [1, 0, 0, 1, 0, 0]}
    x = g.node("Transpose", g.pair(g.input("x", [2, 6, 4, 3, 2])), perm=[0, 2, 1, 3, 4])
    lowered = lower_graph(
        g, g.quantize(g.node(op_type, x, **(kernel if op_type == "MaxPool" else {})))
    ).agree()
    assert lowered.kinds == ["quantize", "transpose", *kinds]
