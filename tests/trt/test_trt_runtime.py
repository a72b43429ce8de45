"""Engines under the old binding calls and the new calls by name; damaged bytes; profiles; the parser."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import intact.trt as trt


@pytest.fixture
def engine(small, log) -> trt.ICudaEngine:
    builder = trt.Builder(log)
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 16, 8, 8), (2, 16, 8, 8), (4, 16, 8, 8))
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(small, config)
    return trt.Runtime(log).deserialize_cuda_engine(plan)


X = np.random.default_rng(0).standard_normal((3, 16, 8, 8)).astype(np.float32)


def test_an_engine_of_fixed_shapes_has_them_in_its_one_profile(log) -> None:
    builder = trt.Builder(log)
    network, config = builder.create_network(), builder.create_builder_config()
    fixed = network.add_input("fixed", trt.float32, (1, 4))
    free = network.add_input("free", trt.float32, (-1, 4))
    network.mark_output(network.add_elementwise(free, fixed, trt.ElementWiseOperation.SUM).get_output(0))
    engine = builder.build_engine(network, config)
    assert engine.get_tensor_profile_shape("fixed", 0) == [(1, 4)] * 3
    assert engine.get_profile_shape(0, 0) == engine.get_profile_shape(0, "fixed") == [(1, 4)] * 3
    assert engine.get_tensor_profile_shape("free", 0) == [] == engine.get_tensor_profile_shape("fixed", 1)
    for most in (2, 3):
        profile = builder.create_optimization_profile()
        profile.set_shape("free", (1, 4), (2, 4), (most, 4))
        config.add_optimization_profile(profile)
    engine = builder.build_engine(network, config)
    assert engine.get_tensor_profile_shape("fixed", 1) == [(1, 4)] * 3
    assert engine.get_tensor_profile_shape("free", 1)[2] == (3, 4)
    assert engine.get_tensor_profile_shape("fixed", 2) == []
    context = engine.create_execution_context()
    assert context.set_input_shape("fixed", (1, 4)) and not context.set_input_shape("fixed", (2, 4))


def test_bindings_by_index(engine) -> None:
    assert (engine.num_bindings, engine.get_binding_name(0), engine["y"]) == (2, "x", 1)
    assert engine.binding_is_input(0) and not engine.binding_is_input("y")
    assert engine.get_binding_shape(0) == (-1, 16, 8, 8)
    context = engine.create_execution_context()
    assert not context.all_binding_shapes_specified
    assert context.set_binding_shape(0, X.shape)
    y = np.empty(context.get_binding_shape(1), trt.nptype(engine.get_binding_dtype(1)))
    assert y.shape == (3, 5)
    assert context.execute_v2([X.ctypes.data, y.ctypes.data])
    assert (y == engine.engine.run({"x": X})["y"]).all()


def test_tensors_by_name_and_arrays_as_addresses(engine) -> None:
    context = engine.create_execution_context()
    y = np.empty((3, 5), np.float32)
    assert context.set_input_shape("x", X.shape)
    assert context.get_tensor_shape("y") == (3, 5)
    assert context.set_tensor_address("x", X) and context.set_tensor_address("y", y)
    assert context.execute_async_v3(0)
    assert (y == engine.engine.run({"x": X})["y"]).all()


def test_shapes_outside_the_profile_are_refused(engine, log) -> None:
    context = engine.create_execution_context()
    assert not context.set_input_shape("x", (5, 16, 8, 8))
    assert "profile (1, 16, 8, 8) to (4, 16, 8, 8), got (5, 16, 8, 8)" in log.of("ERROR")[-1]
    assert not context.execute_v2([0, 0])
    assert "the shapes of x are not set" in log.of("ERROR")[-1]


def test_a_profiler_hears_of_every_layer(engine) -> None:
    class Heard(trt.IProfiler):
        def __init__(self) -> None:
            self.layers: list[str] = []

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            assert ms >= 0
            self.layers.append(layer_name)

    context = engine.create_execution_context()
    context.profiler = Heard()
    context.set_input_shape("x", X.shape)
    assert context.execute_v2([X, np.empty((3, 5), np.float32)])
    assert context.profiler.layers


def test_serializing_again_gives_an_engine_of_the_same_answers(engine, log) -> None:
    other = trt.Runtime(log).deserialize_cuda_engine(engine.serialize())
    assert (other.engine.run({"x": X})["y"] == engine.engine.run({"x": X})["y"]).all()
    assert other.get_tensor_profile_shape("x", 0) == [(1, 16, 8, 8), (2, 16, 8, 8), (4, 16, 8, 8)]


@pytest.mark.parametrize("data", [b"", b"no engine", None], ids=["empty", "text", "none"])
def test_bytes_that_are_no_engine_give_none(log, data) -> None:
    assert trt.Runtime(log).deserialize_cuda_engine(data) is None
    assert log.of("ERROR")


def test_parsed_layers_have_names_types_and_tensors(log, tmp_path) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        g (float[N, 3] x) => (float[N, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {
          [mul] h = MatMul(x, w)
          [act] y = Relu(h)
        }"""
    )
    network = trt.Builder(log).create_network()
    parser = trt.OnnxParser(network, log)
    assert parser.parse(proto.SerializeToString())
    named = {layer.name: layer for layer in network.layers}
    assert named["mul"].type == trt.LayerType.MATRIX_MULTIPLY
    assert named["act"].type == trt.LayerType.ACTIVATION
    assert named["act"].get_input(0).name == "h"
    assert network.inputs[0].shape == (-1, 3) and network.get_output(0).name == "y"
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    assert trt.OnnxParser(trt.Builder(log).create_network(), log).parse_from_file(path)


def test_the_parser_lists_its_errors_in_tensorrts_words(log) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        g (float[1, 3] x) => (float[1, 3] y) <float s = {0.1}, uint8 z = {3}> {
          [q] c = QuantizeLinear(x, s, z)
          [d] y = DequantizeLinear(c, s, z)
        }"""
    )
    parser = trt.OnnxParser(trt.Builder(log).create_network(), log)
    assert not parser.parse(proto.SerializeToString())
    assert parser.num_errors == len([parser.get_error(i) for i in range(parser.num_errors)]) > 0
    assert {parser.get_error(i).node_name() for i in range(parser.num_errors)} <= {"q", "d"}
    parser.clear_errors()
    assert parser.num_errors == 0
    assert not parser.parse(b"not a model")
    assert parser.num_errors == 1


def test_what_scripts_call_beside_building_and_running(log) -> None:
    assert trt.volume((2, 3, 4)) == 24
    assert trt.init_libnvinfer_plugins(log, "")
    assert trt.Permutation([0, 2, 1]) == (0, 2, 1) and trt.DimsHW((3, 5)).w == 5
    assert trt.__version__.split(".")[0] == "10"
    assert trt.nptype(trt.int8) is np.int8 and trt.int4.itemsize == 0.5


def test_memory_with_dlpack_is_taken(engine) -> None:
    class Foreign:
        """An array of another library, as far as DLPack goes."""

        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **keywords: object) -> object:
            return self.array.__dlpack__(**keywords)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    context = engine.create_execution_context()
    context.set_input_shape("x", X.shape)
    y = np.empty((3, 5), np.float32)
    assert context.execute_v2([Foreign(X), y])
    assert (y == engine.engine.run({"x": X})["y"]).all()
