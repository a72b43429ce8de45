"""Constants of a graph: values that depend on no input, computed when asked for."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from intact.graph import Constants, load

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g '


def test_operators_on_constants_are_constant() -> None:
    model = load(onnx.parser.parse_model(HEAD + """(float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> {
        d = Add(w, w)
        e = Mul(d, w)
        y = Mul(x, e)
    }"""))  # fmt: skip
    constants, (_, e, y) = Constants(model.graph), (node.outputs[0] for node in model.graph)
    np.testing.assert_array_equal(constants(e), [2, 8])
    assert e in constants and y not in constants
    assert constants(y) is None and constants(None) is None


def test_a_chain_longer_than_the_stack_is_computed() -> None:
    nodes = [onnx.helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(1500)]
    graph = onnx.helper.make_graph(
        nodes, "g", [], [onnx.helper.make_tensor_value_info("v1500", onnx.TensorProto.FLOAT, [1])],
        [onnx.numpy_helper.from_array(np.float32([3]), "v0")],
    )  # fmt: skip
    model = load(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    )
    np.testing.assert_array_equal(Constants(model.graph)(model.graph.outputs[0]), [3])


@pytest.mark.parametrize("size, constant", [(4, True), (2**32, False)], ids=["small", "all-memory"])
def test_a_number_that_asks_for_all_memory_is_not_computed(size: int, constant: bool) -> None:
    model = load(onnx.parser.parse_model(HEAD + f"""(float x) => (float[n] y) <int64[1] s = {{{size}}}> {{
        z = ConstantOfShape(s)
        y = Add(x, z)
    }}"""))  # fmt: skip
    assert (Constants(model.graph)(model.graph[0].outputs[0]) is not None) == constant
