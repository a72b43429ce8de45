"""Biases and functions behind a change of shape stand behind the layer; stacks that are compared go."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.onnx_models import onnx_model

from intact import graph
from intact.engine.lower import lower
from intact.graph.rewrites.fuse_maxima import FUSE_STACKED_MAX
from intact.graph.rewrites.hoist_epilogue import HOIST_EPILOGUE


def model(nodes: list[tuple[Any, ...]], x: list[Any], opset: int = 18, **constants: Any) -> onnx.ModelProto:
    """Nodes as (operator, inputs, output, attributes); the last one makes y."""
    protos = [helper.make_node(op, i.split(), [o], name=o, **a) for op, i, o, a in nodes]
    return onnx_model(protos, {"x": (1, x)}, {"y": None}, constants, opset=opset, ir_version=8)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def same(proto: onnx.ModelProto, changed: graph.Model, *shape: int) -> None:
    feeds = {"x": floats(*shape)}
    want, got = (
        graph.Session(data).run(feeds)["y"] for data in (proto.SerializeToString(), graph.to_bytes(changed))
    )
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


CONV = ("Conv", "x w", "c", {})
AXES = np.array([2])
BEHIND = {
    "a bias for each channel": ([CONV, ("Squeeze", "c axes", "s", {}), ("Add", "s b", "y", {})], (5, 1)),
    "a row of biases": ([CONV, ("Squeeze", "c axes", "s", {}), ("Add", "b s", "y", {})], (1, 5, 1)),
    "a factor, and what follows": (
        [CONV, ("Squeeze", "c axes", "s", {}), ("Mul", "s b", "m", {}), ("Relu", "m", "r", {}),
         ("Tanh", "r", "y", {})], (5, 1),
    ),
    "one number": ([CONV, ("Squeeze", "c axes", "s", {}), ("Sub", "b s", "y", {})], ()),
}  # fmt: skip


@pytest.mark.parametrize("name", BEHIND)
def test_a_squeeze_comes_last(name):
    nodes, shape = BEHIND[name]
    proto = model(nodes, [2, 3, 1, 9], w=floats(5, 3, 1, 4), axes=AXES, b=floats(*shape))
    changed = graph.load(proto)
    (note,) = HOIST_EPILOGUE(changed)
    assert note.node == "s" and [node.op_type for node in changed.graph][-1] == "Squeeze"
    same(proto, changed, 2, 3, 1, 9)


@pytest.mark.parametrize("op_type", ["Reshape", "Flatten"])
def test_a_bias_along_an_axis_that_stays_whole(op_type):
    """As Keras' Dense on sequences is written."""
    shape = {"sizes": np.array([2, -1, 4])} if op_type == "Reshape" else {}
    change = ("Reshape", "m sizes", "s", {}) if shape else ("Flatten", "m", "s", {"axis": 1})
    nodes = [("MatMul", "x w", "m", {}), change, ("Add", "s b", "z", {}), ("Sigmoid", "z", "y", {})]
    proto = model(nodes, [6, 3], w=floats(3, 4), b=floats(4), **shape)
    changed = graph.load(proto)
    assert len(HOIST_EPILOGUE(changed)) == 1
    assert [node.op_type for node in changed.graph] == ["MatMul", "Add", "Sigmoid", op_type]
    same(proto, changed, 6, 3)
    assert [step.kind for step in lower(proto).steps][:1] == ["float_linear"]


@pytest.mark.parametrize(("nodes", "constants"), [
    ([CONV, ("Squeeze", "c axes", "s", {}), ("Add", "s s", "y", {})], {}),
    ([CONV, ("Squeeze", "c axes", "s", {}), ("Relu", "s", "r", {}), ("Add", "s r", "y", {})], {}),
    ([CONV, ("Squeeze", "c axes", "s", {}), ("Add", "s b", "y", {})], {"b": floats(1, 2, 5, 6)}),
    ([CONV, ("Reshape", "c sizes", "s", {}), ("Add", "s b", "y", {})],
     {"sizes": np.array([2, 30]), "b": floats(30)}),
    ([("Relu", "x", "c", {}), ("Squeeze", "c axes", "s", {}), ("Tanh", "s", "y", {})], {}),
    ([CONV, ("Squeeze", "c axes", "s", {}), ("Softmax", "s", "y", {"axis": 1})], {}),
], ids=["tensors", "readers", "wider", "another axis", "no layer", "norm"])  # fmt: skip
def test_what_stays_behind(nodes, constants):
    proto = model(nodes, [2, 3, 1, 9], w=floats(5, 3, 1, 4), axes=AXES, **constants)
    assert HOIST_EPILOGUE(graph.load(proto)) == []


def stack(op_type: str, keepdims: int, axis: int = -1, reduced: int = 3) -> onnx.ModelProto:
    nodes = [(op, "x", op, {}) for op in ("Sin", "Tanh", "Relu")]
    nodes += [("Unsqueeze", f"{op} axes", f"{op}.u", {}) for op in ("Sin", "Tanh", "Relu")]
    nodes += [("Concat", "Sin.u Tanh.u Relu.u", "s", {"axis": axis}),
              (op_type, "s reduced", "y", {"keepdims": keepdims})]  # fmt: skip
    return model(nodes, [2, 3, 4], axes=np.array([3]), reduced=np.array([reduced]))


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin"])
def test_the_largest_of_a_stack_is_that_of_its_tensors(op_type, keepdims):
    proto = stack(op_type, keepdims)
    changed = graph.load(proto)
    (note,) = FUSE_STACKED_MAX(changed)
    assert note.node == "y" and "3 tensors" in note.what
    graph.prune(changed)
    assert not {"Concat", op_type} & {node.op_type for node in changed.graph}
    same(proto, changed, 2, 3, 4)
    assert {"concat", "reduce"}.isdisjoint(step.kind for step in lower(proto).steps)


@pytest.mark.parametrize("text", [("ReduceMax", 0, 2, 3), ("ReduceMax", 0, 3, 1), ("ReduceSum", 0)],
                         ids=["joined elsewhere", "reduced elsewhere", "sum"])  # fmt: skip
def test_other_stacks_stay(text):
    assert FUSE_STACKED_MAX(graph.load(stack(*text))) == []


@pytest.mark.parametrize("behind", [
    [("Constant", "", "k", {"value_float": 4.0}), ("Mul", "s k", "y", {})],
    [("Constant", "", "k", {"value_float": 4.0}), ("Neg", "k", "n", {}), ("Add", "n s", "y", {})],
    [("Constant", "", "l", {"value_float": 0.0}), ("Constant", "", "h", {"value_float": 6.0}),
     ("Clip", "s l h", "y", {})],
    [("Constant", "", "k", {"value_floats": [1.0, 2.0, 3.0, 4.0, 5.0]}), ("Unsqueeze", "k one", "b", {}),
     ("Mul", "s b", "y", {})],
])  # fmt: skip
def test_constants_that_stand_behind_the_change_of_shape(behind):
    nodes = [CONV, ("Squeeze", "c axes", "s", {}), *behind]
    proto = model(nodes, [2, 3, 1, 9], w=floats(5, 3, 1, 4), axes=AXES, one=np.array([1]))
    changed = graph.load(proto)
    graph.normalize(changed)
    assert HOIST_EPILOGUE(changed)
    graph.check_graph(changed, "HOIST_EPILOGUE")
    same(proto, changed, 2, 3, 1, 9)
