"""Plugins that the decorators of ``tensorrt.plugin`` make run on host memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.onnx_models import onnx_model
from tests.trt.networks import outputs_of

import intact.trt as trt
from intact.trt.plugins.plugin_decorators import PluginModule
from intact.trt.plugins.plugin_registry import _ENTRIES

trtp = PluginModule()
TensorDesc, Tensor = trtp.TensorDesc, trtp.Tensor
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@trtp.register("quick::scaled")
def scale_desc(x: TensorDesc, factor: float, label: str = "a") -> tuple[TensorDesc, TensorDesc]:
    return x.like(), trtp.from_shape_expr((x.shape_expr[0], x.shape_expr[1] * 2), trt.int32)


@trtp.autotune("quick::scaled")
def tune(x: TensorDesc, factor: float, label: str, outputs: Any) -> list[Any]:
    return [
        trtp.AutoTuneCombination("FP16, FP16, INT32", "LINEAR", [9]),
        trtp.AutoTuneCombination("FP32|FP16, FP32|FP16, INT32", "LINEAR", [2, 1]),
    ]


@trtp.impl("quick::scaled")
def scale(x: Tensor, factor: float, label: str, outputs: Any, stream: int, tactic: int) -> None:
    np.asarray(outputs[0])[...] = np.asarray(x) * factor * tactic
    outputs[1].numpy()[...] = len(label)


@trtp.register("quick::in_place")
def in_place_desc(x: TensorDesc) -> TensorDesc:
    return x.aliased()


@trtp.impl("quick::in_place")
def in_place(x: Tensor, outputs: Any, stream: int) -> None:
    np.from_dlpack(outputs[0])[0] += 1


@trtp.register("quick::compiled")
def compiled_desc(x: TensorDesc, block: int) -> TensorDesc:
    return x.like()


@trtp.aot_impl("quick::compiled")
def compile_ahead(x: TensorDesc, block: int, outputs: Any, tactic: int) -> Any:
    raise AssertionError("nobody compiles a kernel here")


def test_a_quick_plugin_is_built_serialized_and_run(log) -> None:
    builder = trt.Builder(log)
    network, config = builder.create_network(), builder.create_builder_config()
    x = network.add_input("x", trt.float32, (2, -1))
    layer = network.add_plugin(trtp.op.quick.scaled(x, factor=3.0, label="abc"))
    assert [layer.get_output(i).dtype for i in range(2)] == [trt.float32, trt.int32]
    for i in range(2):
        network.mark_output(layer.get_output(i))
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (2, 1), (2, 3), (2, 8))
    config.add_optimization_profile(profile)
    serialized = builder.build_serialized_network(network, config)
    _ENTRIES.clear()  # as in a process that only registers the plugin
    engine = trt.Runtime(log).deserialize_cuda_engine(serialized)
    scaled, lengths = engine.engine.run({"x": X}).values()
    np.testing.assert_array_equal(scaled, X * 6)
    np.testing.assert_array_equal(lengths, np.full((2, 6), 3))


def test_an_aliased_output_begins_as_its_input(network, log) -> None:
    x = network.add_input("x", trt.float32, X.shape)
    network.mark_output(network.add_plugin(trtp.op.quick.in_place(x)).get_output(0))
    want = X.copy()
    want[0] += 1
    np.testing.assert_array_equal(outputs_of(network, log, x=X)[0], want)


def test_a_node_of_a_file_is_a_quick_plugin(log) -> None:
    node = helper.make_node("scaled", ["x"], ["y", "n"], factor=2.0, label="ab", plugin_namespace="quick")
    model = onnx_model([node], {"x": list(X.shape)}, {"y": list(X.shape)}, ir_version=10)
    network = trt.Builder(log).create_network()
    assert trt.OnnxParser(network, log).parse(model.SerializeToString()), log.messages
    np.testing.assert_array_equal(outputs_of(network, log, x=X)[0], X * 4)
    assert onnx.checker is not None


def test_sizes_are_computed_before_a_run() -> None:
    size = trtp.ShapeExpr(7)
    parts = [
        size + 1,
        size - 1,
        size * 2,
        size // 2,
        trtp.cdiv(size, 2),
        trtp.max(size, 9),
        trtp.min(size, 9),
    ]
    assert [part.constant_value() for part in parts] == [8, 6, 14, 3, 4, 9, 7]
    assert bool(size == 7) and not bool(size < 7) and not trtp.ShapeExpr().is_constant
    assert trtp.ShapeExprs((2, size)).numel().constant_value() == 14


def test_what_needs_a_gpu_or_is_not_there_is_refused(network) -> None:
    x = network.add_input("x", trt.float32, X.shape)
    with pytest.raises(TypeError, match="aot_impl is code for a GPU"):
        network.add_plugin(trtp.op.quick.compiled(x, block=2))
    with pytest.raises(TypeError, match="aot=True"):
        network.add_plugin(trtp.op.quick.scaled(x, factor=1.0), aot=True)
    with pytest.raises(ValueError, match="that is no tensor"):
        trtp.op.quick.scaled(X, factor=1.0)
    with pytest.raises(AttributeError, match="quick::missing"):
        _ = trtp.op.quick.missing
    with pytest.raises(ValueError, match="register it first"):
        trtp.impl("quick::missing")(scale)
    with pytest.raises(TypeError, match="a size that a run tells"):
        trtp.size_tensor(1, 2)
