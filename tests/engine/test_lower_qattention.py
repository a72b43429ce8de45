"""QAttention becomes products of codes and an attention of floats, with ONNX Runtime's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.graph import Session

HIDDEN, HEADS = 32, 4


def attention_model(
    dtype: str, per_column: bool, mask: bool = False, causal: bool = False, past: bool = False
) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    limits, count = np.iinfo(dtype), 3 * HIDDEN if per_column else ()
    constants: dict[str, Any] = {
        "w": rng.integers(limits.min, limits.max + 1, (HIDDEN, 3 * HIDDEN)).astype(dtype),
        "b": rng.normal(0, 0.1, 3 * HIDDEN).astype(np.float32),
        "ws": rng.uniform(0.001, 0.01, count).astype(np.float32),
        "wz": rng.integers(limits.min, limits.max + 1, count).astype(dtype),
    }
    inputs = ["q", "w", "b", "xs", "ws", "mask" if mask else "", "xz", "wz", *(["past"] if past else [])]
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "xs", "xz"], name="quantize"),
        helper.make_node(
            "QAttention", inputs, ["y"], name="attention", domain="com.microsoft", num_heads=HEADS,
            unidirectional=int(causal),
        ),
    ]  # fmt: skip
    ports: dict[str, Any] = {"x": ["batch", "n", HIDDEN]}
    if mask:
        ports["mask"] = (TensorProto.INT32, ["batch", "n"])
    if past:
        ports["past"] = [2, "batch", HEADS, "m", HIDDEN // HEADS]
    return onnx_model(
        nodes, ports, {"y": ["batch", "n", HIDDEN]}, constants, opset=21, domains={"com.microsoft": 1}
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("per_column", [True, False])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_projections_multiply_codes(dtype: str, per_column: bool, mask: bool, causal: bool) -> None:
    model = attention_model(dtype, per_column, mask, causal)
    plan = lower(model)
    kinds = [step.kind for step in plan.steps]
    assert kinds.count("block_linear") == 3 and kinds.count("dynamic_quantize") == 1 and "onnx" not in kinds
    feeds: dict[str, Any] = {"x": np.random.default_rng(1).normal(0, 1, (2, 5, HIDDEN)).astype(np.float32)}
    if mask:
        feeds["mask"] = np.array([[1] * 5, [1] * 3 + [0] * 2], np.int32)
    got, want = Engine(plan).run(feeds)["y"], evaluate(plan, feeds)["y"]
    np.testing.assert_array_equal(got, want)
    expected = Session(model.SerializeToString()).run(feeds)["y"]
    # Sums of floats in another order.
    np.testing.assert_allclose(want, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


def test_a_computed_weight_stays_with_onnx_runtime() -> None:
    model = attention_model("int8", True)
    constants = [tensor for tensor in model.graph.initializer if tensor.name != "w"]
    del model.graph.initializer[:]
    model.graph.initializer.extend(constants)
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.INT8, [HIDDEN, 3 * HIDDEN]))
    assert "onnx" in [step.kind for step in lower(model).steps]
