"""Members of TensorRT 10 beside building and running: configurations, names of weights, a parser's parts."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

import intact.trt as trt

X = np.arange(4, dtype=np.float32).reshape(1, 4)


def model(weights: np.ndarray, name: str = "w") -> bytes:
    """y = x + weights, as a file."""
    ports = [helper.make_tensor_value_info(port, TensorProto.FLOAT, [1, 4]) for port in "xy"]
    node = helper.make_node("Add", ["x", name], ["y"], name="add")
    constants = [numpy_helper.from_array(weights, name)]
    return onnx_model([node], ports[:1], ports[1:], constants).SerializeToString()


def engine_of(network: trt.INetworkDefinition, log, *flags: trt.BuilderFlag) -> trt.ICudaEngine:
    config = network.builder.create_builder_config()
    for flag in flags:
        config.set_flag(flag)
    serialized = network.builder.build_serialized_network(network, config)
    return trt.Runtime(log).deserialize_cuda_engine(serialized)


def parse(log, data: bytes) -> trt.INetworkDefinition:
    network = trt.Builder(log).create_network()
    assert trt.OnnxParser(network, log).parse(data)
    return network


def run(engine: trt.ICudaEngine, context: trt.IExecutionContext | None = None) -> list[float]:
    output = np.empty((1, 4), np.float32)
    assert (context or engine.create_execution_context()).execute_v2([X.ctypes.data, output.ctypes.data])
    return output.reshape(-1).tolist()


def test_configurations_keep_what_they_are_given(log) -> None:
    engine = engine_of(parse(log, model(np.ones(4, np.float32))), log)
    config = engine.create_serialization_config()
    assert config.set_flag(trt.SerializationFlag.EXCLUDE_WEIGHTS) and config.flags == 1
    assert config.clear_flag(trt.SerializationFlag.EXCLUDE_WEIGHTS)
    assert not config.get_flag(trt.SerializationFlag.EXCLUDE_WEIGHTS)
    again = trt.Runtime(log).deserialize_cuda_engine(engine.serialize_with_config(config))
    runtime = again.create_runtime_config()
    strategy = trt.ExecutionContextAllocationStrategy.USER_MANAGED
    runtime.set_execution_context_allocation_strategy(strategy)
    assert runtime.get_execution_context_allocation_strategy() is strategy
    assert run(again, again.create_execution_context(runtime)) == [1, 2, 3, 4]
    assert engine.get_engine_stat(trt.EngineStat.TOTAL_WEIGHTS_SIZE) >= 16
    assert engine.get_engine_stat(trt.EngineStat.STRIPPED_WEIGHTS_SIZE) == 0
    assert engine.get_weight_streaming_automatic_budget() == 0


def test_weights_are_refitted_by_the_name_that_a_script_gave_them(log) -> None:
    builder = trt.Builder(log)
    network = builder.create_network()
    assert network.builder is builder
    x, weights = network.add_input("x", trt.float32, (1, 4)), np.ones((1, 4), np.float32)
    other = np.full((1, 4), 2, np.float32)
    total = x
    for array in (weights, other):
        constants = network.add_constant((1, 4), array).get_output(0)
        total = network.add_elementwise(total, constants, trt.ElementWiseOperation.SUM).get_output(0)
    network.mark_output(total)
    assert network.set_weights_name(weights, "mine") and network.set_weights_name(trt.Weights(other), "other")
    assert not network.set_weights_name(weights, "x")
    assert not network.set_weights_name(np.ones(3, np.float32), "nobody's")
    assert network.mark_weights_refittable("mine") and network.mark_weights_refittable("other")
    assert network.unmark_weights_refittable("other")
    assert network.are_weights_marked_refittable("mine")
    assert not network.are_weights_marked_refittable("other")
    assert sorted(trt.Refitter(engine_of(network, log, trt.BuilderFlag.REFIT), log).get_all_weights()) == [
        "mine", "other"
    ]  # fmt: skip
    engine = engine_of(network, log, trt.BuilderFlag.REFIT_INDIVIDUAL)
    refitter = trt.Refitter(engine, log)
    assert refitter.get_all_weights() == ["mine"] and not refitter.set_named_weights("other", other)
    assert refitter.set_named_weights("mine", np.full((1, 4), 5, np.float32)) and refitter.refit_cuda_engine()
    assert run(engine) == [7, 8, 9, 10]


def test_a_parser_tells_of_the_parts_that_it_would_take(log) -> None:
    parser = trt.OnnxParser(trt.Builder(log).create_network(), log)
    data = model(np.ones(4, np.float32))
    assert parser.num_subgraphs == 0
    assert parser.supports_model_v2(data) and parser.num_subgraphs == 1 and parser.num_errors == 0
    assert parser.is_subgraph_supported(0) and parser.get_subgraph_nodes(0) == [0]
    broken = onnx.load_from_string(data)
    broken.graph.node[0].op_type = "Nonsense"
    assert not parser.supports_model_v2(broken.SerializeToString())
    assert not parser.is_subgraph_supported(0) and parser.num_errors == 1


def test_a_parser_takes_weights_from_memory(log) -> None:
    network = trt.Builder(log).create_network()
    parser = trt.OnnxParser(network, log)
    weights = np.full(4, 3, np.float32)
    assert parser.load_model_proto(model(np.ones(4, np.float32)))
    assert parser.load_initializer("w", weights.ctypes.data, weights.nbytes)
    assert not parser.load_initializer("w", weights[:2], 8) and not parser.load_initializer("v", weights)
    assert parser.num_errors == 2 and parser.parse_model_proto()
    assert parser.get_layer_output_tensor("add", 0).name == "y"
    assert parser.get_layer_output_tensor("add", 1) is parser.get_layer_output_tensor("none", 0) is None
    assert run(engine_of(network, log)) == [3, 4, 5, 6]


def test_a_refitter_of_files_keeps_its_errors(log, tmp_path) -> None:
    engine = engine_of(parse(log, model(np.ones(4, np.float32))), log, trt.BuilderFlag.REFIT)
    refitter = trt.Refitter(engine, log)
    parser = trt.OnnxParserRefitter(refitter, log)
    assert not parser.refit_from_bytes(b"nothing") and not parser.refit_from_file(tmp_path / "none.onnx")
    assert not parser.refit_from_bytes(model(np.ones(4, np.float32), "strange"))
    assert parser.num_errors == 3 and parser.get_error(2).code() is trt.ErrorCode.REFIT_FAILED
    parser.clear_errors()
    assert parser.num_errors == 0
    assert parser.load_model_proto(model(np.full(4, 2, np.float32)))
    assert parser.load_initializer("w", np.full(4, 9, np.float32)) and parser.refit_model_proto()
    assert refitter.refit_cuda_engine() and run(engine) == [9, 10, 11, 12]


def test_a_timing_cache_is_read_and_changed_by_key(log) -> None:
    config = trt.Builder(log).create_builder_config()
    cache = config.create_timing_cache(b"")
    key = trt.TimingCacheKey.parse(str(trt.TimingCacheKey("a machine", "int8 conv")))
    assert cache.queryKeys() == [] and cache.query(key).timingMSec == 0
    assert cache.update(key, trt.TimingCacheValue(0, 2.5))
    with cache.serialize() as data:
        again = config.create_timing_cache(data)
    assert again.queryKeys() == [key] and again.query(key).timingMSec == pytest.approx(2.5)


def test_bytes_of_another_timing_cache_are_refused_in_the_log(log) -> None:
    config = trt.Builder(log).create_builder_config()
    assert config.create_timing_cache(b"not a cache") is None
    assert "createTimingCache" in log.of("ERROR")[0]
    assert not config.set_timing_cache(None, False) and config.get_timing_cache() is None


def test_a_refitter_refuses_another_number_of_values_at_once(log) -> None:
    engine = engine_of(parse(log, model(np.ones(4, np.float32))), log, trt.BuilderFlag.REFIT)
    refitter = trt.Refitter(engine, log)
    (name,) = refitter.get_all_weights()
    assert not refitter.set_named_weights(name, np.ones(3, np.float32))
    assert "got 3 values, want 4" in log.of("ERROR")[0]
    assert refitter.get_named_weights(name) is None
    assert refitter.set_named_weights(name, np.full(4, 9, np.float32)) and refitter.refit_cuda_engine()


@pytest.mark.parametrize("size", [-5, 0, 1 << 40])
def test_a_budget_of_streamed_weights_stays_within_what_can_be_streamed(log, size: int) -> None:
    engine = engine_of(parse(log, model(np.ones(4, np.float32))), log)
    engine.weight_streaming_budget_v2 = size
    assert engine.weight_streaming_budget_v2 == engine.streamable_weights_size == 0
    assert len(log.of("ERROR")) == (size < 0)


QUICK = """
import intact.trt.alias
intact.trt.alias.alias()
import pycuda.tools
import tensorrt as trt
import tensorrt.plugin as quick
print(trt.plugin is quick, callable(quick("mine::One")), int(pycuda.tools.DeviceMemoryPool().allocate(4)) > 0)
"""


def test_the_module_of_quick_plugins_can_be_imported_and_called() -> None:
    done = subprocess.run([sys.executable, "-c", QUICK], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("True True True\n", 0), done.stderr
