"""Sessions that may optimize give what the file says."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from intact.graph import Session


@pytest.mark.parametrize("codes", ["FLOAT8E4M3FN", "FLOAT8E5M2", "INT8", "UINT8"])
def test_a_relu_in_front_of_codes_stays(codes: str) -> None:
    """ONNX Runtime takes it for one that the codes do themselves, those of fp8 too."""
    zero = helper.make_tensor("zero", getattr(TensorProto, codes), [], [0])
    scale = helper.make_tensor("scale", TensorProto.FLOAT, [], [0.01])
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [9]) for name in "xy")
    graph = helper.make_graph(nodes, "net", [x], [y], [scale, zero])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    feeds = {"x": np.linspace(-1, 1, 9, dtype=np.float32)}
    plain, folded = (Session(model.SerializeToString(), folded=f).run(feeds)["y"] for f in (False, True))
    np.testing.assert_array_equal(folded, plain)
    assert folded.min() == 0
