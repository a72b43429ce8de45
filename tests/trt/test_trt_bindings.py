"""Names of TensorRT 11.1's Python bindings exist in dialect 11.x, and what it removed does not.

The list is what `benchmarks/trt_bindings.py` reads from the sources of the bindings.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.trt.networks import constant

import intact.trt as trt
from intact.trt.base import dialects
from intact.trt.base.removed_in_11 import REMOVED_IN_11

LINES = Path(__file__).with_name("bindings_11_1.txt").read_text(encoding="utf-8").splitlines()
BINDINGS = {holder: members for holder, *members in (line.split() for line in LINES)}
REMOVED = [(owner, name) for owner, names in REMOVED_IN_11.items() for name in names]


@pytest.fixture(autouse=True)
def _version_11() -> Any:
    trt.set_dialect("11.x")
    yield
    dialects._chosen.clear()


def holder_of(name: str) -> Any:
    """The module, or the class of that name."""
    holder: Any = trt
    for part in name.split(".") if name not in ("tensorrt", "") else ():
        holder = getattr(holder, part)
    return holder


@pytest.mark.parametrize("name", BINDINGS)
def test_a_class_has_the_members_of_the_bindings(name: str) -> None:
    holder = holder_of(name)
    assert [member for member in BINDINGS[name] if not hasattr(holder, member)] == []


@pytest.mark.parametrize(("owner", "name"), REMOVED)
def test_what_version_11_removed_is_refused_with_what_to_use(owner: str, name: str) -> None:
    assert name not in BINDINGS[owner or "tensorrt"]
    assert name not in dir(holder_of(owner))
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'.*took its place.*set_dialect"):
        getattr(holder_of(owner), name)
    trt.set_dialect("10.x")
    assert hasattr(holder_of(owner), name) or owner == "BuilderFlag" or hasattr(trt, owner)


def test_objects_refuse_what_version_11_removed(log) -> None:
    builder = trt.Builder(log)
    config, network = builder.create_builder_config(), builder.create_network()
    x = network.add_input("x", trt.float32, (1, 4))
    layer = network.add_activation(x, trt.ActivationType.RELU)
    for act in (
        lambda: setattr(config, "int8_calibrator", None), lambda: setattr(layer, "precision", trt.int8),
        lambda: layer.set_output_type(0, trt.float16), lambda: x.set_dynamic_range(-1, 1),
        lambda: setattr(x, "dynamic_range", (-1, 1)), lambda: setattr(x, "dtype", trt.float16),
    ):  # fmt: skip
        with pytest.raises(AttributeError, match="set_dialect"):
            act()


def test_a_star_import_has_no_removed_name() -> None:
    names: dict[str, Any] = {}
    exec("from intact.trt import *", names)
    assert "Builder" in names and "IInt8Calibrator" not in names
    assert names["BuilderFlag"] is trt.BuilderFlag


def test_flags_have_the_numbers_of_version_11(log) -> None:
    flags = {m.name: int(m) for m in trt.BuilderFlag}
    assert (flags["TF32"], flags["VERSION_COMPATIBLE"], flags["DISTRIBUTIVE_INDEPENDENCE"]) == (6, 12, 27)
    assert int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED) == 0
    assert (
        int(trt.PreviewFeature.ALIASED_PLUGIN_IO_10_03) == 0 and int(trt.TacticSource.JIT_CONVOLUTIONS) == 1
    )
    config = trt.Builder(log).create_builder_config()
    config.set_flag(trt.BuilderFlag.STRIP_PLAN)
    config.set_preview_feature(trt.PreviewFeature.RUNTIME_ACTIVATION_RESIZE_10_10, True)
    assert config.flags == 1 << 18 and config.get_flag(trt.BuilderFlag.STRIP_PLAN)
    assert config.get_preview_feature(trt.PreviewFeature.RUNTIME_ACTIVATION_RESIZE_10_10)
    assert config.get_tactic_sources() == 0b11
    config.flags = 1 << 4 | 1 << 12
    assert config.get_flag(trt.BuilderFlag.REFIT) and config.get_flag(trt.BuilderFlag.VERSION_COMPATIBLE)
    assert not config.get_flag(trt.BuilderFlag.STRIP_PLAN)


@pytest.mark.parametrize("flags", [0, 1])
def test_every_network_is_strongly_typed(log, flags: int) -> None:
    network = trt.Builder(log).create_network(flags)
    assert network.get_flag(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED) and network.flags == 1
    a, b = (network.add_input(n, t, (1, 4)) for n, t in (("a", trt.float32), ("b", trt.float16)))
    network.mark_output(network.add_elementwise(a, b, trt.ElementWiseOperation.SUM).get_output(0))
    builder = trt.Builder(log)
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert "incompatible input types FLOAT and HALF" in log.of("ERROR")[0]


def test_the_inspector_names_inputs_and_outputs(log) -> None:
    builder = trt.Builder(log)
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (1, 4))
    relu = network.add_activation(x, trt.ActivationType.RELU).get_output(0)
    relu.name = "y"
    network.mark_output(relu)
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    engine = trt.Runtime(log).deserialize_cuda_engine(plan)
    text = engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON)
    assert json.loads(text)["I/O Tensors"] == ["x", "y"]
    assert trt.__version__ == "11.1.0" and trt.get_nv_onnx_parser_version() == 110100


BUILD = """
builder = trt.Builder(logger)
network = builder.create_network({flags})
x = network.add_input("x", trt.float32, (1, 4))
{use}
dialect = network.dialect
"""


@pytest.mark.parametrize(
    ("flags", "use", "dialect"),
    [
        ("0", "", "10.x"),
        ("0", "network.add_cast(x, trt.bfloat16)", "11.x"),
        ("0", "kind = trt.CausalMaskKind.UPPER_LEFT", "11.x"),
        ("0", "network.add_cast(x, trt.fp8), trt.BuilderFlag.FP8", "10.x"),
        ("1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)", "trt.fp4", "10.x"),
        ("0", "trt.bfloat16 if trt.__version__ > '10' else None", "10.x"),
    ],
)
def test_a_script_that_needs_version_11_gets_it(log, flags: str, use: str, dialect: str) -> None:
    dialects._chosen.clear()
    names = {"__name__": "script", "trt": trt, "logger": log}
    exec(compile(BUILD.format(flags=flags, use=use), "<script>", "exec"), names)
    assert names["dialect"] == dialect


def test_a_network_is_serialized_as_a_model_that_the_parser_reads(log) -> None:
    builder = trt.Builder(log)
    network, again = builder.create_network(), builder.create_network()
    x = network.add_input("x", trt.float32, (2, 3))
    weights = constant(network, np.full((1, 3), 2, np.float32))
    network.mark_output(network.add_elementwise(x, weights, trt.ElementWiseOperation.PROD).get_output(0))
    assert trt.OnnxParser(again, log).parse(network.serialize())
    engine = builder.build_engine_with_config(again, builder.create_builder_config())
    assert engine is not None
    assert (
        engine.engine.run({"x": np.ones((2, 3), np.float32)})[network.get_output(0).name].tolist()
        == [[2] * 3] * 2
    )
    network.add_dequantize(x, weights, trt.float32)
    with pytest.raises(ValueError, match=r"INetworkDefinition\.serialize"):
        network.serialize()


class Seen(trt.IDebugListener):
    """Keeps the names of the tensors that it is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def process_debug_tensor(self, addr, location, type, shape, name, stream) -> bool:
        self.names.add(name)
        return True


def test_unfused_tensors_are_shown_to_the_listener(log) -> None:
    builder = trt.Builder(log)
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (1, 4))
    layer = network.add_softmax(x)
    layer.axes, softmax = 1 << 1, layer.get_output(0)
    softmax.name = "probabilities"
    network.mark_output(network.add_topk(softmax, trt.TopKOperation.MAX, 1, 2).get_output(1))
    assert network.mark_unfused_tensors_as_debug_tensors()
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    engine = trt.Runtime(log).deserialize_cuda_engine(plan)
    context, listener = engine.create_execution_context(), Seen()
    assert context.set_debug_listener(listener) and engine.num_io_tensors == 2
    data, largest = np.float32([[1, 3, 2, 0]]), np.empty((1, 1), np.int32)
    for state in (False, True):
        context.unfused_tensors_debug_state = state
        assert context.unfused_tensors_debug_state is state
        assert context.execute_v2([data.ctypes.data, largest.ctypes.data]) and largest.tolist() == [[1]]
        assert listener.names == ({"probabilities"} if state else set())
    assert network.unmark_unfused_tensors_as_debug_tensors()


def test_what_needs_several_devices_or_libraries_is_refused_by_name(log) -> None:
    builder = trt.Builder(log)
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (1, 4))
    assert (
        network.add_dist_collective(x, trt.CollectiveOperation.ALL_TO_ALL, trt.ReduceOperation.SUM, 0, [])
        is None
    )
    network.mark_output(network.add_softmax(x).get_output(0))
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    context = engine.create_execution_context(engine.create_runtime_config())
    assert isinstance(context.get_runtime_config(), trt.IRuntimeConfig)
    assert not context.set_communicator(object())
    assert ["one device" in message for message in log.of("ERROR")] == [True, True]
    with pytest.raises(TypeError, match="load_runtime"):
        trt.Runtime(log).load_runtime("libnvinfer_lean.so")
