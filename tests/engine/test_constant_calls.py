"""Calls that read constants alone are computed when an engine is built."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper as h
from onnx import numpy_helper as nh
from tests.onnx_models import onnx_model

import intact
from intact import numerics
from intact.engine.steps import FallbackSubgraph

pytestmark = pytest.mark.filterwarnings("ignore::intact.errors.NotQuantizedWarning")
rng = np.random.default_rng(0)


def model(
    op_type: str, operands: dict[str, Any], input_shape: tuple[int, ...], **attributes: Any
) -> onnx.ModelProto:
    """x, of any number of samples, and what the operator makes of constants."""
    nodes = [
        h.make_node(op_type, list(operands), ["c"], name="call", **attributes),
        h.make_node("Add", ["x", "c"], ["y"], name="sum"),
    ]
    shape = ["n", *input_shape[1:]]
    values = [h.make_tensor_value_info(name, 1, shape) for name in ("x", "y")]
    return onnx_model(nodes, values[:1], values[1:], operands, opset=21)


def reals(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def run_both(proto: onnx.ModelProto, samples: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Run zeros in the engine and in ONNX Runtime; the engine leaves nothing to ONNX Runtime."""
    shape = [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim][1:]
    x = np.zeros((samples, *shape), np.float32)
    engine = intact.compile(proto)
    assert not [step for step in engine.plan.steps if isinstance(step, FallbackSubgraph)]
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return engine.run({"x": x})["y"], session.run(None, {"x": x})[0]


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_of_constants_has_the_bits_of_the_steps(groups: int) -> None:
    x, w, b = reals(1, 8, 6, 5), reals(12, 8 // groups, 3, 2), reals(12)
    window = {"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2], "group": groups}
    engine, runtime = run_both(model("Conv", {"p": x, "w": w, "b": b}, (1, 12, 4, 4), **window))
    wanted = numerics.float_conv(
        x, w, b, stride=(2, 1), padding=((1, 2), (0, 1)), dilation=(1, 2), groups=groups
    )
    np.testing.assert_array_equal(engine, np.concatenate([wanted, wanted]))
    np.testing.assert_allclose(engine, runtime, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("groups", [1, 2])
def test_so_has_a_transposed_one(groups: int) -> None:
    x, w, b = reals(1, 8, 5), reals(8, 16 // groups, 4), reals(16)
    window = {"strides": [3], "pads": [1, 0], "output_padding": [2], "group": groups}
    engine, runtime = run_both(model("ConvTranspose", {"p": x, "w": w, "b": b}, (1, 16, 17), **window))
    np.testing.assert_allclose(engine, runtime, rtol=1e-5, atol=1e-5)
    alone = model("ConvTranspose", {"w": w, "b": b}, (1, 16, 17), **window)
    graph = alone.graph
    graph.node[0].input.insert(0, "x")
    graph.input[0].CopyFrom(h.make_tensor_value_info("x", 1, [1, 8, 5]))
    graph.node[1].CopyFrom(h.make_node("Identity", ["c"], ["y"]))
    np.testing.assert_array_equal(engine[:1], intact.compile(alone).run({"x": x})["y"])


def test_so_are_other_operators_as_onnx_runtime_computes_them() -> None:
    window = {"kernel_shape": [3, 3], "strides": [3, 3]}
    engine, runtime = run_both(model("MaxPool", {"p": reals(1, 4, 6, 6)}, (1, 4, 2, 2), **window))
    np.testing.assert_array_equal(engine, runtime)


def test_what_follows_from_such_a_call_is_constant_too() -> None:
    x, w, v = reals(1, 4, 6, 6), reals(8, 4, 1, 1), reals(4, 8, 1, 1)
    proto = model("Conv", {"p": x, "w": w}, (1, 4, 6, 6))
    proto.graph.node[0].output[0] = "a"
    proto.graph.initializer.append(nh.from_array(v, "v"))
    more = [h.make_node("Sigmoid", ["a"], ["b"]), h.make_node("Conv", ["b", "v"], ["c"], name="second")]
    nodes = [proto.graph.node[0], *more, proto.graph.node[1]]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    engine, runtime = run_both(proto)
    np.testing.assert_allclose(engine, runtime, rtol=1e-5, atol=1e-5)
