"""Files of opset 26 to 28, which TensorRT 11's parser does not read yet, are parsed and run."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

import intact.trt as trt
from intact.graph.files.validate import MAX_READ_OPSET

X = np.float32([[1, -2, 3], [0.5, 4, -1]])


def run(log: trt.ILogger, node: onnx.NodeProto, opset: int, inits: list[onnx.TensorProto] = ()) -> np.ndarray:
    model = onnx_model([node], {"x": list(X.shape)}, {"y": None}, list(inits), opset=opset, ir_version=10)
    builder = trt.Builder(log)
    network = builder.create_network()
    assert trt.OnnxParser(network, log).parse(onnx.shape_inference.infer_shapes(model).SerializeToString()), (
        log.messages
    )
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    return engine.engine.run({"x": X})["y"]


@pytest.mark.parametrize("opset", range(26, MAX_READ_OPSET + 1))
def test_operators_of_newer_opsets_are_run(log, opset: int) -> None:
    axis = helper.make_tensor("axis", TensorProto.INT64, [], [1])
    products = run(log, helper.make_node("CumProd", ["x", "axis"], ["y"]), opset, [axis])
    np.testing.assert_allclose(products, np.cumprod(X, 1))


def test_the_check_for_tensorrt_still_says_what_its_parser_reads(log, tmp_path) -> None:
    from intact.graph import load
    from intact.placement import check

    node = helper.make_node("Relu", ["x"], ["y"])
    model = onnx_model(
        [node], {"x": list(X.shape)}, {"y": list(X.shape)}, opset=MAX_READ_OPSET, ir_version=10
    )
    findings = check(load(model.SerializeToString()), target="tensorrt")
    assert [f.rule for f in findings if f.severity == "error"] == ["opset"]


def test_an_empty_constant_keeps_its_type(network) -> None:
    for array in (np.empty(0, np.int64), np.empty((0, 4), ml_dtypes.bfloat16)):
        tensor = network.add_constant(array.shape, array).get_output(0)
        assert (tensor.dtype.numpy, tensor.shape) == (array.dtype, array.shape)
