"""Codes pass through what reads and writes by computed indices, and through Pads that fill with numbers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engine.conftest import add_inputs, exactly, few

from intact.graph import load
from intact.placement import read_placement


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32) * 3


CASES = {
    "Gather": ([few("int64", 3, 2, low=-4, high=4)], [], {"axis": 1}),
    "GatherElements": ([few("int64", 2, 3, 5, low=-4, high=4)], [], {"axis": 1}),
    "GatherND": ([few("int64", 2, 6, 1, low=-4, high=4)], [], {"batch_dims": 1}),
    "ScatterElements": ([np.tile([[[3], [0]]], (2, 1, 5))], [floats(2, 2, 5)], {"axis": 1}),
    "ScatterND": ([np.array([[1, 2], [0, -1], [0, 2]])], [floats(3, 5)], {}),
}


@pytest.mark.parametrize("op_type", CASES)
@pytest.mark.parametrize("where", ["before", "behind", "both"])
def test_codes_pass(qdq, lower_graph, op_type, where):
    g = qdq()
    index, updates, attributes = CASES[op_type]
    arrays = {"x": floats(2, 4, 5), "ids": index[0], **dict(zip("u", updates, strict=False))}
    names = add_inputs(g, **arrays)
    data = [name if name == "ids" or where == "behind" else g.pair(name) for name in names]
    y = g.node(op_type, *data, **attributes)
    y = g.pair(y) if where != "before" else y
    lowered = exactly(lower_graph(g, y))
    counts = {"quantize": len(arrays) - 1, "dequantize": 1}
    assert {kind: lowered.kinds.count(kind) for kind in counts} == counts
    codes = [
        lowered.plan.tensors[step.y].codes for step in lowered.plan.steps if step.kind == step_kind(op_type)
    ]
    assert all(codes)


def step_kind(op_type: str) -> str:
    return {"GatherND": "gather_rows", "ScatterND": "scatter_rows", "Gather": "gather"}.get(
        op_type, {"GatherElements": "gather_elements"}.get(op_type, "scatter_elements")
    )


@pytest.mark.parametrize("op_type", ["ScatterElements", "ScatterND"])
@pytest.mark.parametrize("what", ["another grid", "sums"])
def test_what_makes_other_numbers_is_one_of_floats(qdq, lower_graph, op_type, what):
    g = qdq()
    index, updates, attributes = CASES[op_type]
    x, ids, u = add_inputs(g, x=floats(2, 4, 5), ids=index[0], u=updates[0])
    how = attributes | ({"reduction": "add"} if what == "sums" else {})
    y = g.node(op_type, g.pair(x), ids, g.pair(u, 0.03 if what == "another grid" else 0.05), **how)
    lowered = exactly(lower_graph(g, y))
    assert lowered.plan.tensors[lowered.step(step_kind(op_type)).y].codes is None


def test_a_file_whose_layers_read_picked_codes_is_int8(qdq, lower_graph):
    """The layer behind is read as one of int8, though its pair stands in front of what moves."""
    g = qdq()
    x = g.pair(g.input("x", [2, 6, 8]))
    rows = g.node("GatherND", x, g.input("ids", [2, 3, 1], 7), batch_dims=1)
    g.feeds = lambda sizes=None: {"x": floats(2, 6, 8), "ids": few("int64", 2, 3, 1, high=6)}
    y = g.node("MatMul", rows, g.weight(8, 4, axis=1))
    lowered = lower_graph(g, g.quantize(y)).agree()
    assert "dequantize" not in lowered.kinds and "linear" in lowered.kinds
    placement = read_placement(load(g.proto(g.quantize(y))))
    assert all(layer.precision == "int8" for layer in placement.layers)


FILLS = {"on the grid": 0.15, "beyond its end": np.inf, "below its end": -1e9, "between codes": 0.123}


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("zero", [0, 7])
@pytest.mark.parametrize("where", ["before", "behind", "both"])
def test_pads_of_codes_with_the_code_of_a_number(qdq, lower_graph, where, zero, fill):
    """A Q behind quantizes the fill too; from a DQ in front only what is a code passes."""
    g = qdq()
    x = g.input("x", [2, 3])
    number = np.float32(np.float32(3) * np.float32(0.05) if fill == "on the grid" else FILLS[fill])
    y = g.node(
        "Pad", g.pair(x, 0.05, zero) if where != "behind" else x, g.ints(1, 1, 2, 0), g.constant(number)
    )
    y = g.quantize(y, 0.05, zero) if where != "before" else y
    lowered = exactly(lower_graph(g, y))
    passes = where != "before" or fill == "on the grid"
    assert (lowered.plan.tensors[lowered.step("pad").y].codes is not None) == passes


def test_a_pad_with_minus_infinity_before_a_pool(qdq, lower_graph):
    """As exporters write the padding of a MaxPool."""
    g = qdq()
    x = g.pair(g.conv(g.pair(g.input("x", ["n", 3, 7, 7])), 3, 4))
    y = g.node("Pad", x, g.ints(0, 0, 1, 1, 0, 0, 1, 1), g.constant(np.float32(-np.inf)))
    y = g.pair(g.node("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2]))
    lowered = lower_graph(g, g.quantize(g.conv(y, 4, 2)), sizes={"n": 2}).agree()
    assert "dequantize" not in lowered.kinds and lowered.kinds.count("quantize") == 1
