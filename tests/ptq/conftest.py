"""Small ONNX models for the tests of ptq, and data for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

Build = Callable[..., onnx.ModelProto]


@pytest.fixture
def build() -> Build:
    """``build(nodes, inputs, outputs, **weights)``: a checked model; see the function."""
    return _build


def _build(
    nodes: Sequence[tuple[Any, ...]],
    inputs: dict[str, Sequence[int | str | None]],
    outputs: dict[str, Sequence[int | str | None]],
    *,
    opset: int = 17,
    dtype: int = TensorProto.FLOAT,
    types: dict[str, int] | None = None,
    **weights: np.ndarray,
) -> onnx.ModelProto:
    """A model of nodes (op_type, inputs, output, attributes?), named by their outputs."""
    node_protos = [
        helper.make_node(op, ins.split(), [out], name=f"n_{out}", **(rest[0] if rest else {}))
        for op, ins, out, *rest in nodes
    ]
    kinds = types or {}
    model = onnx_model(
        node_protos,
        [helper.make_tensor_value_info(n, kinds.get(n, dtype), shape) for n, shape in inputs.items()],
        [helper.make_tensor_value_info(n, kinds.get(n, dtype), shape) for n, shape in outputs.items()],
        weights,
        opset=opset,
        ir_version=8,
    )
    onnx.checker.check_model(model)
    return model


@pytest.fixture
def cnn() -> onnx.ModelProto:
    """Conv-BN-Relu, a residual block, pooling and a classifier: [N, 3, 8, 8] -> [N, 10]."""
    return make_cnn()


def make_cnn(
    batch: int | str = "N", dtype: type = np.float32, seed: int = 0, opset: int = 17
) -> onnx.ModelProto:
    rng = np.random.default_rng(seed)

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (rng.standard_normal(shape) * scale).astype(dtype)

    weights = {
        "w1": normal(16, 3, 3, 3, scale=0.2), "b1": normal(16, scale=0.1),
        "gamma": (1 + 0.2 * rng.standard_normal(16)).astype(dtype), "beta": normal(16, scale=0.1),
        "mean": normal(16, scale=0.1), "var": (1 + 0.2 * rng.random(16)).astype(dtype),
        "w2": normal(16, 16, 3, 3, scale=0.08), "b2": normal(16, scale=0.1),
        "w3": normal(16, 16, 3, 3, scale=0.08), "b3": normal(16, scale=0.1),
        "w4": normal(10, 16, scale=0.3), "b4": normal(10, scale=0.1),
    }  # fmt: skip
    pads: dict[str, Any] = {"pads": [1, 1, 1, 1]}
    nodes = [
        ("Conv", "x w1 b1", "c1", pads),
        ("BatchNormalization", "c1 gamma beta mean var", "bn"),
        ("Relu", "bn", "r1"),
        ("Conv", "r1 w2 b2", "c2", pads),
        ("Relu", "c2", "r2"),
        ("Conv", "r2 w3 b3", "c3", pads),
        ("Add", "c3 r1", "sum"),
        ("Relu", "sum", "r3"),
        ("GlobalAveragePool", "r3", "pool"),
        ("Flatten", "pool", "flat"),
        ("Gemm", "flat w4 b4", "y", {"transB": 1}),
    ]
    kind = TensorProto.FLOAT if dtype is np.float32 else TensorProto.FLOAT16
    return _build(nodes, {"x": [batch, 3, 8, 8]}, {"y": [batch, 10]}, dtype=kind, opset=opset, **weights)


@pytest.fixture
def images() -> np.ndarray:
    """24 samples of [3, 8, 8]."""
    return np.random.default_rng(1).standard_normal((24, 3, 8, 8)).astype(np.float32)
