"""Nodes of ONNX files whose operator is a plugin's: the creator makes layers of them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

import intact.trt as trt


def at(address: int, desc: trt.PluginTensorDesc) -> np.ndarray:
    """The array at an address."""
    memory = (ctypes.c_uint8 * int(trt.volume(desc.dims) * desc.type.itemsize)).from_address(address)
    return np.frombuffer(memory, np.uint8).view(trt.nptype(desc.type)).reshape(desc.dims)


class Affine(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
    """``factor * x + shift``, as float32 whatever x is."""

    def __init__(self, fields: dict[str, np.ndarray]) -> None:
        trt.IPluginV3.__init__(self)
        self.fields, self.num_outputs, self.plugin_name = fields, 1, "TestAffine"
        self.plugin_version, self.plugin_namespace = "2", "mine"

    def get_output_data_types(self, input_types):
        return [trt.float32]

    def get_output_shapes(self, inputs, shape_inputs, builder):
        return [trt.DimsExprs(inputs[0])]

    def get_fields_to_serialize(self):
        return trt.PluginFieldCollection([trt.PluginField(n, a) for n, a in self.fields.items()])

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        x = at(inputs[0], input_desc[0])
        at(outputs[0], output_desc[0])[:] = x * self.fields["factor"] + self.fields["shifts"].sum()


class AffineCreator(trt.IPluginCreatorV3One):
    def __init__(self) -> None:
        trt.IPluginCreatorV3One.__init__(self)
        self.name, self.plugin_version, self.plugin_namespace = "TestAffine", "2", "mine"
        kinds = {"factor": trt.PluginFieldType.FLOAT64, "shifts": trt.PluginFieldType.UNKNOWN}
        kinds |= {"label": trt.PluginFieldType.CHAR, "absent": trt.PluginFieldType.INT32}
        self.field_names = trt.PluginFieldCollection(
            [trt.PluginField(name, np.array([]), kind) for name, kind in kinds.items()]
        )
        self.got: list[tuple] = []

    def create_plugin(self, name, fc, phase):
        self.got.append((name, phase, [(f.name, f.type, f.data.dtype) for f in fc]))
        return Affine({f.name: f.data for f in fc if f.name != "label"})


class Twice(trt.IPluginV2DynamicExt):
    """``2 * x``, under the name of an operator of ONNX."""

    def __init__(self) -> None:
        trt.IPluginV2DynamicExt.__init__(self)
        self.num_outputs, self.plugin_type = 1, "Abs"

    def get_output_datatype(self, index, input_types):
        return input_types[0]

    def get_output_dimensions(self, index, inputs, builder):
        return trt.DimsExprs(inputs[0])

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        at(outputs[0], output_desc[0])[:] = 2 * at(inputs[0], input_desc[0])


class TwiceCreator(trt.IPluginCreator):
    name = "Abs"

    def create_plugin(self, name, fc):
        return Twice()


@pytest.fixture
def affine() -> Iterator[AffineCreator]:
    yield from register(AffineCreator())


@pytest.fixture
def twice() -> Iterator[TwiceCreator]:
    yield from register(TwiceCreator())


def register(creator: trt.IPluginCreator) -> Iterator[trt.IPluginCreator]:
    registry = trt.get_plugin_registry()
    assert registry.register_creator(creator, creator.plugin_namespace)
    yield creator
    registry.deregister_creator(creator)


def model(*nodes: onnx.NodeProto, dtype: int = TensorProto.FLOAT) -> bytes:
    ends = [helper.make_tensor_value_info(n, dtype, ["batch", 3]) for n in ("x", "y")]
    content: bytes = onnx_model(list(nodes), ends[:1], ends[1:]).SerializeToString()
    return content


NODES = (
    helper.make_node("Relu", ["x"], ["r"], name="relu"),
    helper.make_node(
        "TestAffine", ["r"], ["a"], name="first", factor=2.0, shifts=[1, 2], label="text", other=7,
        plugin_version="2", plugin_namespace="mine",
    ),
    helper.make_node(
        "TestAffine", ["a"], ["b"], name="second", factor=10.0, shifts=[1], plugin_version="2",
        plugin_namespace="mine",
    ),
    helper.make_node("Neg", ["b"], ["y"], name="neg"),
)  # fmt: skip


def run(network: trt.INetworkDefinition, log, x: np.ndarray) -> np.ndarray:
    builder = trt.Builder(log)
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape("x", x.shape, x.shape, x.shape)
    config.add_optimization_profile(profile)
    data = builder.build_serialized_network(network, config)
    assert data is not None, log.messages
    context = trt.Runtime(log).deserialize_cuda_engine(data).create_execution_context()
    y = np.empty(x.shape, np.float32)
    assert context.set_input_shape("x", x.shape) and context.execute_v2([x, y]), log.messages
    return y


def test_nodes_become_layers_of_their_plugins(network, log, affine) -> None:
    assert trt.OnnxParser(network, log).parse(model(*NODES)), log.messages
    kinds = [layer.type for layer in network.layers]
    assert kinds[1:3] == [trt.LayerType.PLUGIN_V3] * 2
    assert [layer.name for layer in network.layers] == ["relu", "first", "second", "neg"]
    assert [type(layer.plugin) for layer in network.layers[1:3]] == [Affine, Affine]
    assert network.get_output(0).shape == (-1, 3)
    x = np.float32([[1, -2, 3], [0, 5, -6]])
    assert (run(network, log, x) == -(10 * (2 * np.maximum(x, 0) + 3) + 1)).all()


def test_the_creator_gets_the_fields_that_it_declared(network, log, affine) -> None:
    assert trt.OnnxParser(network, log).parse(model(*NODES)), log.messages
    name, phase, fields = affine.got[0]
    assert (name, phase) == ("first", trt.TensorRTPhase.BUILD)
    assert fields == [
        ("factor", trt.PluginFieldType.FLOAT64, np.float64), ("shifts", trt.PluginFieldType.INT32, np.int32),
        ("label", trt.PluginFieldType.CHAR, np.int8),
    ]  # fmt: skip


def test_without_a_creator_the_node_is_refused_by_name(network, log) -> None:
    parser = trt.OnnxParser(network, log)
    assert not parser.parse(model(*NODES))
    assert parser.num_errors and "TestAffine" in parser.get_error(0).desc()


def test_another_version_of_the_plugin_is_another_plugin(network, log, affine) -> None:
    node = helper.make_node("TestAffine", ["x"], ["y"], name="only", factor=1.0, shifts=[0])
    assert not trt.OnnxParser(network, log).parse(model(node))
    assert affine.got == []


def test_operators_of_onnx_stay_unless_plugins_override_them(network, log, twice) -> None:
    data = model(helper.make_node("Abs", ["x"], ["y"], name="abs"))
    x = np.float32([[1, -2, 3]])
    parser = trt.OnnxParser(network, log)
    assert parser.parse(data) and (run(network, log, x) == abs(x)).all()
    other = trt.Builder(log).create_network()
    parser = trt.OnnxParser(other, log)
    parser.set_flag(trt.OnnxParserFlag.ENABLE_PLUGIN_OVERRIDE)
    assert parser.parse(data) and other.layers[0].type == trt.LayerType.PLUGIN_V2
    assert (run(other, log, x) == 2 * x).all()
