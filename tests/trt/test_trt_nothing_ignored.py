"""No attribute of TensorRT's objects is accepted and ignored: each is read, or noted as without meaning."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from tests.onnx_models import onnx_model

import intact.trt as trt
from intact.trt.base.trt_object import WITHOUT_MEANING, Interface, settable, without_meaning

ROOM = Path(inspect.getfile(trt)).parent
CLASSES = [
    kind
    for name in trt.__all__
    if inspect.isclass(kind := getattr(trt, name)) and issubclass(kind, Interface)
]


def reads() -> set[str]:
    """The attributes that something in the room reads, but for plain getters of themselves."""
    names = set()
    for path in ROOM.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                names.add(node.attr)
    return names


READ = reads()


def backing(kind: type, name: str) -> set[str]:
    """Return the attribute behind a property of a class."""
    member = inspect.getattr_static(kind, name, None)
    if not isinstance(member, property) or member.fset is None:
        return {name}
    code = member.fset.__code__
    return {name, *code.co_names, *(c for c in code.co_consts if isinstance(c, str)), *code.co_freevars}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_attribute_is_read_or_noted(kind) -> None:
    ignored = [
        name for name in settable(kind)
        if without_meaning(kind, name) is None and not backing(kind, name) & READ
    ]  # fmt: skip
    assert ignored == []


def test_every_note_is_of_something_that_is_there() -> None:
    classes = {kind.__name__: kind for kind in CLASSES}
    nothing = object()
    gone = [
        key for key in WITHOUT_MEANING
        if inspect.getattr_static(classes[key.split(".")[0]], key.split(".")[1], nothing) is nothing
    ]  # fmt: skip
    assert gone == []


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_class_has_with(kind) -> None:
    assert callable(kind.__enter__) and callable(kind.__exit__)


def test_an_attribute_that_is_not_there_raises_and_names_the_nearest(network) -> None:
    layer = network.add_softmax(network.add_input("x", trt.float32, (1, 4)))
    with pytest.raises(AttributeError, match="did you mean 'axes'"):
        layer.axis = 1
    with pytest.raises(AttributeError, match="does not have"):
        layer.get_output = None


def test_what_has_no_meaning_is_said_once(log) -> None:
    config = trt.Builder(log).create_builder_config()
    for _ in range(2):
        config.max_workspace_size = 1 << 20
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 20)
        config.DLA_core = 0
    notes = [m for m in log.of("INFO") if "changes nothing" in m]
    assert len(notes) == 3 and config.max_workspace_size == 1 << 20


def test_a_layer_of_the_network_is_cast_by_its_class(network) -> None:
    x = network.add_input("x", trt.float32, (1, 4))
    network.add_activation(x, trt.ActivationType.TANH)
    layer = network.get_layer(0)
    assert layer.type == trt.LayerType.ACTIVATION
    layer.__class__ = trt.IActivationLayer
    assert layer.type == trt.ActivationType.TANH
    layer.type = trt.ActivationType.RELU
    assert network.layers[0].type == trt.ActivationType.RELU
    with pytest.raises(ValueError, match="IActivationLayer, which it is"):
        network.get_layer(0).__class__ = trt.ISoftMaxLayer


def test_a_parsed_layer_is_cast_by_its_type_and_stays_a_node() -> None:
    file = onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [2]}, {"y": [2]}, ir_version=8)
    builder = trt.Builder(trt.Logger())
    network = builder.create_network()
    assert trt.OnnxParser(network, trt.Logger()).parse(file.SerializeToString())
    layer = network.get_layer(0)
    layer.__class__ = trt.IActivationLayer
    with pytest.raises(AttributeError, match="alpha"):
        _ = layer.alpha
    with pytest.raises(AttributeError, match="alpha"):
        layer.alpha = 0.5
    with pytest.raises(ValueError, match="which it is"):
        network.get_layer(0).__class__ = trt.ISoftMaxLayer


def test_enumerations_print_and_compare_as_tensorrts() -> None:
    assert str(trt.float32) == f"{trt.float32}" == "DataType.FLOAT"
    assert trt.DataType.FLOAT != trt.LayerType.CONVOLUTION and trt.DataType.FLOAT == 0
    assert trt.Dims3(1, 2, 3) == trt.Dims([1, 2, 3]) == (1, 2, 3)


def test_a_script_runs_as_it_is(tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        """
import numpy as np
import tensorrt as trt
import pycuda.autoinit
import pycuda.driver as cuda
from cuda.bindings import runtime as cudart
from cuda import cudart as older
assert older is cudart

with trt.Logger(trt.Logger.ERROR) if hasattr(trt.Logger, "__enter__") else open(__file__):
    pass
logger = trt.Logger(trt.Logger.ERROR)
with trt.Builder(logger) as builder, builder.create_network(1) as network:
    x = network.add_input("x", trt.float32, (1, 4))
    network.mark_output(network.add_activation(x, trt.ActivationType.RELU).get_output(0))
    with builder.create_builder_config() as config, trt.Runtime(logger) as runtime:
        engine = runtime.deserialize_cuda_engine(builder.build_serialized_network(network, config))
given, out = np.float32([[-1, 2, -3, 4]]), np.empty((1, 4), np.float32)
error, source = cudart.cudaMalloc(given.nbytes)
target = cuda.mem_alloc(out.nbytes)
cudart.cudaMemcpy(source, given.ctypes.data, given.nbytes, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice)
with engine.create_execution_context() as context:
    assert context.execute_v2([source, int(target)])
cuda.memcpy_dtoh(out, target)
assert cudart.cudaFree(source)[0] == cudart.cudaError_t.cudaSuccess
print(out.tolist())
""",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "intact.trt", str(script)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[[0.0, 2.0, 0.0, 4.0]]", done.stderr


def test_refitted_weights_are_used(network, log) -> None:
    x = network.add_input("x", trt.float32, (1, 1, 2, 2))
    layer = network.add_convolution_nd(x, 1, (1, 1), np.ones((1, 1, 1, 1), np.float32))
    layer.name = "conv"
    network.mark_output(layer.get_output(0))
    builder = trt.Builder(log)
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.REFIT)
    engine = builder.build_engine(network, config)
    refitter = trt.Refitter(engine, log)
    assert refitter.get_all() == (["conv"], [trt.WeightsRole.KERNEL])
    assert refitter.set_weights("conv", trt.WeightsRole.KERNEL, np.full(1, 3, np.float32))
    assert not refitter.set_weights("other", trt.WeightsRole.KERNEL, np.ones(1, np.float32))
    assert refitter.refit_cuda_engine(), log.messages
    out, data = np.empty((1, 1, 2, 2), np.float32), np.ones((1, 1, 2, 2), np.float32)
    assert engine.create_execution_context().execute_v2([data, out]) and (out == 3).all()


def test_weights_are_refitted_from_memory_that_changes_after_they_were_given(network, log) -> None:
    network.add_constant((2,), np.float32([1, 2])).get_output(0).name = "w"
    x = network.add_input("x", trt.float32, (2,))
    network.mark_output(
        network.add_elementwise(x, network.layers[0].get_output(0), trt.ElementWiseOperation.PROD).get_output(
            0
        )
    )
    builder = trt.Builder(log)
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.STRIP_PLAN)  # its engines are there to be refitted
    engine = builder.build_engine(network, config)
    assert engine.refittable
    refitter, device = trt.Refitter(engine, log), np.zeros(2, np.float32)
    (name,) = refitter.get_all_weights()
    wanted = refitter.get_weights_prototype(name)
    assert (wanted.dtype, wanted.size) == (trt.float32, 2) and not refitter.get_weights_prototype(
        "other"
    ).size
    assert refitter.get_weights_location(name) == trt.TensorLocation.HOST
    data = trt.Weights(trt.float32, device.ctypes.data, 2)
    assert refitter.set_named_weights(name, data, trt.TensorLocation.DEVICE)
    assert refitter.get_weights_location(name) == trt.TensorLocation.DEVICE
    context, out = engine.create_execution_context(), np.empty(2, np.float32)
    for values in ([3, 4], [5, 6]):
        device[:] = values
        assert refitter.refit_cuda_engine(), log.messages
        assert context.execute_v2([np.ones(2, np.float32), out]) and out.tolist() == values


def test_a_profile_has_empty_shapes_for_an_output(network, log) -> None:
    x = network.add_input("x", trt.float32, (-1, 2))
    network.mark_output(network.add_activation(x, trt.ActivationType.RELU).get_output(0))
    network.get_output(0).name = "y"
    builder = trt.Builder(log)
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    profile.set_shape("x", (1, 2), (2, 2), (3, 2))
    config.add_optimization_profile(profile)
    engine = builder.build_engine(network, config)
    assert engine.get_tensor_profile_shape("x", 0)[-1] == (3, 2)
    assert [trt.volume(shape) for shape in engine.get_tensor_profile_shape("y", 0)] == [1, 1, 1]
    assert engine.get_tensor_profile_shape("x", 1) == []


def test_ranges_on_some_tensors_only_give_floats_and_a_warning(small, log) -> None:
    builder = trt.Builder(log)
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.INT8)
    small.get_output(0).dynamic_range = (-1, 1)
    assert builder.build_serialized_network(small, config) is not None, log.messages
    assert any("INT8 is not used" in message for message in log.of("WARNING"))
