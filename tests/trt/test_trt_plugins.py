"""Plugins of TensorRT in Python, on host memory, from the network and through a serialized engine."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import intact.trt as trt
from intact.engine import custom


def at(address: int, dims: trt.Dims, dtype: trt.DataType) -> np.ndarray:
    """The array at an address."""
    size = trt.volume(dims) * dtype.itemsize
    memory = (ctypes.c_uint8 * size).from_address(address)
    return np.frombuffer(memory, np.uint8).view(trt.nptype(dtype)).reshape(dims)


class Scaled(trt.IPluginV2DynamicExt):
    """``factor * x``, with one more column of zeros."""

    def __init__(self, factor: float) -> None:
        trt.IPluginV2DynamicExt.__init__(self)
        self.factor, self.num_outputs, self.plugin_type = factor, 1, "TestScaled"

    def get_output_datatype(self, index, input_types):
        return input_types[0]

    def get_output_dimensions(self, index, inputs, builder):
        dims = trt.DimsExprs(inputs[0])
        dims[1] = builder.operation(trt.DimensionOperation.SUM, dims[1], builder.constant(1))
        return dims

    def serialize(self):
        return str(self.factor).encode()

    def configure_plugin(self, inp, out):
        self.configured = inp[0].desc.dims, out[0].desc.dims

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        assert self.configured == (input_desc[0].dims, output_desc[0].dims)
        x = at(inputs[0], input_desc[0].dims, input_desc[0].type)
        at(outputs[0], output_desc[0].dims, output_desc[0].type)[:, :-1] = self.factor * x
        return 0


class ScaledCreator(trt.IPluginCreator):
    def __init__(self) -> None:
        trt.IPluginCreator.__init__(self)
        self.name, self.plugin_version, self.field_names = "TestScaled", "1", trt.PluginFieldCollection([])

    def create_plugin(self, name, fc):
        return Scaled(float(fc[0].data[0]))

    def deserialize_plugin(self, name, data):
        return Scaled(float(data.decode()))


class Places(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
    """int32 places of the largest in each row."""

    def __init__(self) -> None:
        trt.IPluginV3.__init__(self)
        self.num_outputs, self.plugin_name = 1, "TestPlaces"

    def get_output_data_types(self, input_types):
        return [trt.int32]

    def get_output_shapes(self, inputs, shape_inputs, builder):
        return [trt.DimsExprs([inputs[0][0]])]

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        x = at(inputs[0], input_desc[0].dims, input_desc[0].type)
        at(outputs[0], output_desc[0].dims, output_desc[0].type)[:] = x.argmax(1)


@pytest.fixture
def creator() -> ScaledCreator:
    registry, creator = trt.get_plugin_registry(), ScaledCreator()
    assert registry.register_creator(creator, "")
    yield creator
    registry.deregister_creator(creator)


def test_a_plugin_of_version_2_is_made_again_by_its_creator(network, log, creator, monkeypatch) -> None:
    creator = trt.get_plugin_registry().get_plugin_creator("TestScaled", "1", "")
    field = trt.PluginField("factor", np.float32([2.5]), trt.PluginFieldType.FLOAT32)
    plugin = creator.create_plugin("scaled", trt.PluginFieldCollection([field]))
    layer = network.add_plugin_v2([network.add_input("x", trt.float32, (-1, 3))], plugin)
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    assert layer.get_output(0).shape == (-1, 4) and layer.type == trt.LayerType.PLUGIN_V2
    builder = trt.Builder(log)
    data = builder.build_serialized_network(network, builder.create_builder_config())
    monkeypatch.setattr(custom, "_OPERATORS", {})  # as in another process
    engine = trt.Runtime(log).deserialize_cuda_engine(data)
    context = engine.create_execution_context()
    x, y = np.ones((2, 3), np.float32), np.empty((2, 4), np.float32)
    assert context.set_input_shape("x", (2, 3)) and context.execute_v2([x, y]), log.messages
    assert (y[:, :3] == 2.5).all() and (y[:, 3] == 0).all()
    monkeypatch.setattr(custom, "_OPERATORS", {})
    trt.get_plugin_registry().deregister_creator(creator)
    assert trt.Runtime(log).deserialize_cuda_engine(data) is None
    assert "'TestScaled', version 1, without a creator" in log.of("ERROR")[-1]


def test_a_plugin_of_version_3_has_types_of_its_own(network, log) -> None:
    layer = network.add_plugin_v3([network.add_input("x", trt.float32, (2, 3))], [], Places())
    network.mark_output(layer.get_output(0))
    assert layer.get_output(0).dtype == trt.int32 and layer.get_output(0).shape == (2,)
    builder = trt.Builder(log)
    engine = builder.build_engine(network, builder.create_builder_config())
    x, y = np.float32([[1, 3, 2], [9, 1, 1]]), np.empty(2, np.int32)
    assert engine.create_execution_context().execute_v2([x, y]), log.messages
    assert y.tolist() == [1, 0]


def test_a_calibrators_own_error_is_shown(small, log) -> None:
    class Broken(trt.IInt8EntropyCalibrator2):
        def get_batch_size(self):
            return 1

        def get_batch(self, names):
            return {}["missing"]

    builder = trt.Builder(log)
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = Broken()
    assert builder.build_serialized_network(small, config) is None
    errors = log.of("ERROR")
    assert "Traceback" in errors[0] and "Broken.get_batch: got KeyError: 'missing'" in errors[-1]


def test_the_cache_that_is_written_has_tobytes(small, log) -> None:
    class Kept(trt.IInt8MinMaxCalibrator):
        left = 2

        def get_batch_size(self):
            return 1

        def get_batch(self, names):
            self.left -= 1
            return [np.ones((1, 16, 8, 8), np.float32)] if self.left >= 0 else None

        def write_calibration_cache(self, cache):
            self.written = cache.tobytes()

    builder = trt.Builder(log)
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = calibrator = Kept()
    assert builder.build_serialized_network(small, config) is not None, log.messages
    assert calibrator.written.startswith(b"TRT-")
