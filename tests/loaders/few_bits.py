"""Models with weights of 4 bits, whose plans hold these in other ways than other constants."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
from tests.onnx_models import onnx_model


def few_bits() -> onnx.ModelProto:
    """Weights of 4 bits in blocks, and of float16, which plans hold as they are."""
    rng, value = np.random.default_rng(4), onnx.helper.make_tensor_value_info
    arrays = {
        "w": rng.integers(0, 16, (32, 16)).astype(ml_dtypes.uint4), "s": np.full((2, 16), 0.1, np.float32),
        "z": rng.integers(0, 16, (2, 16)).astype(ml_dtypes.uint4),
        "v": rng.standard_normal((16, 16)).astype(np.float16),
    }  # fmt: skip
    nodes = [
        onnx.helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=0, block_size=16),
        onnx.helper.make_node("MatMul", ["x", "d"], ["h"]),
        onnx.helper.make_node("Cast", ["v"], ["c"], to=onnx.TensorProto.FLOAT),
        onnx.helper.make_node("MatMul", ["h", "c"], ["y"]),
    ]
    ports = [value("x", onnx.TensorProto.FLOAT, ["n", 32])], [value("y", onnx.TensorProto.FLOAT, ["n", 16])]
    return onnx_model(nodes, *ports, arrays, name="few", opset=21)


def labels() -> onnx.ModelProto:
    """Strings beside ONNX Runtime's weights of 4 bits, whose plan has the bytes of the model in pieces."""
    rng, make = np.random.default_rng(5), onnx.helper.make_node
    value, text = onnx.helper.make_tensor_value_info, onnx.TensorProto.STRING
    codes = rng.integers(0, 256, (8, 16, 16)).astype(np.uint8)
    nodes = [
        make("MatMulNBits", ["x", "B", "s"], ["m"], domain="com.microsoft", K=512, N=8, bits=4,
             block_size=32),
        make("ArgMax", ["m"], ["i"], axis=1, keepdims=0), make("Gather", ["labels", "i"], ["label"]),
        make("Concat", ["words", "label"], ["y"], axis=0),
    ]  # fmt: skip
    ports = (
        [value("x", onnx.TensorProto.FLOAT, ["n", 512]), value("words", text, ["n"])],
        [value("y", text, ["k"]), value("m", onnx.TensorProto.FLOAT, ["n", 8])],
    )
    constants = [
        onnx.numpy_helper.from_array(codes, "B"),
        onnx.numpy_helper.from_array(np.full(128, 0.1, np.float32), "s"),
        onnx.helper.make_tensor("labels", text, [8], [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b""]),
    ]
    return onnx_model(nodes, *ports, constants, name="labels", opset=21, domains={"com.microsoft": 1})
