"""GatherND and ScatterND get int64 indices, whatever torch's exporter writes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

from intact import graph
from intact.graph import pipelines


@pytest.mark.parametrize("op_type", ["GatherND", "ScatterND"])
def test_indices_of_int32_are_cast(op_type: str) -> None:
    inputs = ["x", "index", *(["x2"] if op_type == "ScatterND" else [])]
    nodes = [helper.make_node(op_type, inputs, ["y"], name="node")]
    ports = {"x": [3, 2], "x2": [2, 2], "index": (TensorProto.INT32, [2, 1])}
    proto = onnx_model(nodes, ports, {"y": [3, 2] if len(inputs) == 3 else [2, 2]})
    model = ir.from_proto(proto)  # unchecked, as torch's exporter hands it over
    graph.run_stages(model, pipelines.TORCH)
    feeds = {"x": np.eye(3, 2, dtype=np.float32), "index": np.array([[2], [0]], np.int32)}
    feeds["x2"] = np.full((2, 2), 5, np.float32)
    y = graph.Session(model).run(feeds)["y"]
    want = feeds["x"].copy()
    want[[2, 0]] = 5
    np.testing.assert_array_equal(y, want if op_type == "ScatterND" else feeds["x"][[2, 0]])
