"""The dialect of a script that chooses none is found from the members that it uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import intact.trt as trt
from intact.trt.base import dialects

BUILD = """
builder = trt.Builder(logger)
network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
config = builder.create_builder_config()
x = network.add_input("x", trt.float32, (1, 3, 2, 2))
scale = network.add_constant([3], np.array([1, 2, 3], np.float32))
layer = network.add_quantize(x, scale.get_output(0))
layer.axis = 1
layer = network.add_dequantize(layer.get_output(0), scale.get_output(0))
layer.axis = 1
network.mark_output(layer.get_output(0))
engine = builder.build_serialized_network(network, config)
"""
"""A scale for each channel of an activation: TensorRT 8 takes it, TensorRT 10 does not."""


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("INTACT_TRT_DIALECT", raising=False)
    dialects._chosen.clear()
    yield
    dialects._chosen.clear()


@pytest.fixture
def script(log) -> Callable[[str], dict[str, Any]]:
    """A function that runs the text of a script, and gives the names that it leaves behind."""

    def run(text: str) -> dict[str, Any]:
        names = {"__name__": "script", "trt": trt, "np": np, "logger": log}
        exec(compile(text, "<script>", "exec"), names)
        return names

    return run


@pytest.mark.parametrize(
    "use",
    [
        "",
        "config.max_workspace_size = 1 << 30",
        "def infer(context):\n    return context.get_binding_shape(1)\ninfer",
        "class Runner:\n    def infer(self):\n        self.context.execute_async_v2([], 0)\nRunner",
        "lambda engine: [engine.binding_is_input(i) for i in range(engine.num_bindings)]",
        "config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1), print(trt.__version__)\n"
        "lambda context: context.set_binding_shape(0, (1,))",
    ],
    ids=["its-flag-alone", "workspace", "function", "class", "bindings", "some-newer-names"],
)
def test_a_script_that_uses_removed_members_anywhere_gets_the_rules_of_8(script, use) -> None:
    assert script(BUILD + use)["engine"] is not None


@pytest.mark.parametrize(
    "use",
    [
        "lambda context: context.execute_async_v3(0)",
        "def infer(engine):\n"
        "    return engine.num_io_tensors if hasattr(engine, 'num_io_tensors') else engine.num_bindings",
        "if trt.__version__ < '10':\n    config.max_workspace_size = 1\n"
        "else:\n    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1)",
        "max_workspace_size = 1 << 30\nconfig.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1)",
        "hasattr(builder, 'max_batch_size')",
    ],
    ids=["newer", "asks-for-members", "asks-for-the-version", "a-variable-of-its-own", "asks-alone"],
)
def test_a_script_that_could_run_with_10_gets_the_rules_of_10(script, log, use) -> None:
    assert script(BUILD + use)["engine"] is None
    assert any("Activations cannot be quantized per-channel" in message for message in log.of("ERROR"))


def test_a_chosen_dialect_wins_over_what_a_script_uses(script, monkeypatch) -> None:
    trt.set_dialect("10.x")
    assert script(BUILD)["engine"] is None
    assert script(BUILD + "config.max_workspace_size")["engine"] is None
    trt.set_dialect("8.x")
    assert script(BUILD + "lambda context: context.execute_async_v3(0)")["engine"] is not None
    dialects._chosen.clear()
    monkeypatch.setenv("INTACT_TRT_DIALECT", "8.x")
    assert script(BUILD)["engine"] is not None


def test_cells_that_run_one_after_another_decide_with_the_first_removed_member(script, log) -> None:
    """As in a notebook, where the code that builds does not see the code behind it."""
    config = trt.Builder(log).create_builder_config()
    assert not hasattr(config, "max_workspace_size")
    exec("config.max_workspace_size = 1 << 20", {"config": config})
    assert hasattr(config, "max_workspace_size")
    config.reset()
    assert hasattr(config, "max_workspace_size")


REMOVED = {
    "builder": "max_batch_size build_engine build_cuda_engine max_workspace_size int8_mode",
    "config": "max_workspace_size min_timing_iterations",
    "network": "add_fully_connected add_convolution add_pooling add_rnn_v2 has_explicit_precision",
    "layer": "stride padding dilation kernel_size",
    "engine": "num_bindings get_binding_name get_binding_shape binding_is_input max_batch_size get_location",
    "context": "execute execute_async execute_async_v2 set_binding_shape get_binding_shape get_strides",
}
KEPT = {
    "builder": "platform_has_fast_fp16 build_serialized_network",
    "config": "set_memory_pool_limit avg_timing_iterations",
    "network": "add_convolution_nd has_implicit_batch_dimension",
    "layer": "stride_nd padding_nd pre_padding padding_mode",
    "engine": "num_io_tensors has_implicit_batch_dimension get_tensor_profile_shape",
    "context": "execute_v2 execute_async_v3 set_input_shape active_optimization_profile",
}


def example_objects(log: trt.ILogger) -> dict[str, Any]:
    """One object of each class whose members differ."""
    builder = trt.Builder(log)
    network, config = builder.create_network(1), builder.create_builder_config()
    x = network.add_input("x", trt.float32, (1, 1, 4, 4))
    layer = network.add_convolution_nd(x, 1, (3, 3), np.ones((1, 1, 3, 3), np.float32))
    network.mark_output(layer.get_output(0))
    serialized = builder.build_serialized_network(network, config)
    engine = trt.Runtime(log).deserialize_cuda_engine(serialized)
    return locals() | {"context": engine.create_execution_context()}


@pytest.mark.parametrize("dialect", [None, "10.x", "8.x"])
def test_members_exist_by_dialect(log, dialect) -> None:
    if dialect is not None:
        trt.set_dialect(dialect)
    objects = example_objects(log)
    for name, members in REMOVED.items():
        assert [m for m in members.split() if hasattr(objects[name], m) != (dialect == "8.x")] == []
    for name, members in KEPT.items():
        assert [m for m in members.split() if not hasattr(objects[name], m)] == []


def test_code_that_catches_the_missing_member_takes_the_new_way(log) -> None:
    config = trt.Builder(log).create_builder_config()
    way = "old"
    try:
        config.max_workspace_size = 1 << 20
    except AttributeError as error:
        assert "set_memory_pool_limit" in str(error) and "set_dialect('8.x')" in str(error)
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 21)
        way = "new"
    assert way == "new" and config.get_memory_pool_limit(trt.MemoryPoolType.WORKSPACE) == 1 << 21


def test_a_class_is_asked_as_its_objects_are() -> None:
    assert not hasattr(trt.IBuilderConfig, "max_workspace_size")
    assert getattr(trt.ICudaEngine, "num_bindings", None) is None
    trt.set_dialect("8.x")
    assert hasattr(trt.IBuilderConfig, "max_workspace_size")


def test_the_version_is_that_of_the_dialect() -> None:
    assert trt.__version__ == "10.9.0"
    trt.set_dialect("8.x")
    assert trt.__version__ == "8.6.1"
    assert not hasattr(trt, "__versions__")
