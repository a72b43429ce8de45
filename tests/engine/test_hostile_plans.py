"""Plans that are well formed, carry right checksums, and lie: refused, or run within their memory."""

import json
import os
import zlib

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.onnx_models import onnx_model

import intact
from intact.calib import Calibration, TrtCache
from intact.engine.engine import Engine
from intact.engine.files import container
from intact.engine.files import plan_files as files
from intact.errors import FileFormatError, IntactError

NUMBERS = st.sampled_from([0, 1, -1, 2, 3, 5, 7, 8, 16, 127, 128, 255, 256, 65535, 2**24, 2**31, 2**40])
REALS = st.sampled_from([0.0, -1.0, 1e-30, 1e30, 0.5])


@pytest.fixture(scope="module")
def plan(qdq_class, tmp_path_factory):
    """The text and the arrays of a plan with convolutions, a pool, an Add, a Concat, a Linear and moves."""
    net = qdq_class()
    x = net.pair(net.input("x", ("n", 3, 8, 8)))
    y = net.pair(net.node("Relu", net.conv(x, 3, 8, strides=[2, 2])))
    z = net.pair(net.node("Relu", net.node("Add", net.conv(y, 8, 8), y)))
    z = net.pair(net.conv(z, 8, 8, group=8))
    pooled = net.pair(net.node("MaxPool", z, kernel_shape=[2, 2], strides=[2, 2]))
    up = net.pair(net.node("ConvTranspose", pooled, net.weight(8, 8, 2, 2, axis=1), strides=[2, 2]))
    both = net.pair(net.node("Concat", z, up, axis=1))
    turned = net.pair(net.node("Transpose", both, perm=[0, 2, 3, 1]))
    rows = net.pair(net.node("Reshape", turned, net.ints(0, 16, 16)))
    soft = net.node(
        "Softmax", net.node("MatMul", rows, net.pair(net.node("Transpose", rows, perm=[0, 2, 1])))
    )
    flat = net.pair(net.node("Flatten", soft))
    proto = net.proto(net.node("Gemm", flat, net.weight(10, 256), transB=1))
    path = tmp_path_factory.mktemp("plan") / "model.plan"
    intact.compile(proto.SerializeToString(), threads=1).save(path)
    metadata, views = container.read(path)
    return metadata["intact.plan"], {name: view[:-64].copy() for name, view in views.items()}


def leaves(value, path=()):
    """The places of all values that are no lists and no objects."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inner:
        if isinstance(item, dict | list):
            yield from leaves(item, (*path, key))
        else:
            yield (*path, key)


def change(data, content):
    """Put something of the same type in the place of one value."""
    steps = [("steps", *path) for path in leaves(content["steps"])]
    tensors = [("tensors", *path) for path in leaves(content["tensors"])]
    constants = [("constants", *path) for path in leaves(content["constants"]) if path[-1] != "crc32"]
    names = [tensor["name"] for tensor in content["tensors"]]
    *path, last = data.draw(st.sampled_from(steps) | st.sampled_from(tensors) | st.sampled_from(constants))
    for key in path:
        content = content[key]
    old = content[last]
    if isinstance(old, bool):
        content[last] = not old
    elif isinstance(old, int):
        content[last] = data.draw(NUMBERS)
    elif isinstance(old, float):
        content[last] = data.draw(REALS)
    elif old is None:
        content[last] = data.draw(NUMBERS | REALS)
    else:
        content[last] = data.draw(st.sampled_from([*names, "", "float32", "int32", "codes", "n", "x"]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(data=st.data())
def test_one_lie_or_two(plan, tmp_path_factory, data):
    text, arrays = plan
    content = json.loads(text)
    for _ in range(data.draw(st.integers(1, 2))):
        change(data, content)
    path = tmp_path_factory.mktemp("lie") / "model.plan"
    text = json.dumps(content)
    container.write(
        path, arrays, {"intact.plan": text, "intact.plan.crc32": f"{zlib.crc32(text.encode()):08x}"}
    )
    try:
        engine = intact.load(path, threads=1)
        outputs = engine.run({"x": np.ones((2, 3, 8, 8), np.float32)})
    except IntactError:
        return
    assert all(isinstance(array, np.ndarray) for array in outputs.values())


def fallback_plan(tmp_path, qdq_class):
    """A plan with a part for ONNX Runtime: its text, its arrays and the name of that part's model."""
    net = qdq_class()
    x = net.pair(net.input("x", (1, 8)))
    summed = net.node("LpNormalization", net.node("MatMul", x, net.weight(8, 8)))
    path = tmp_path / "model.plan"
    intact.compile(net.proto(net.pair(summed)).SerializeToString(), threads=1).save(path)
    metadata, views = container.read(path)
    content = json.loads(metadata["intact.plan"])
    (step,) = (step for step in content["steps"] if step["kind"] == "onnx")
    return content, {name: view[:-64].copy() for name, view in views.items()}, step


def rewritten(path, content, arrays):
    text = json.dumps(content)
    container.write(
        path, arrays, {"intact.plan": text, "intact.plan.crc32": f"{zlib.crc32(text.encode()):08x}"}
    )
    return path


def with_model(content, arrays, step, model):
    """The same with other bytes for the part's model, and their checksum."""
    (record,) = (constant for constant in content["constants"] if constant["name"] == step["model"])
    record |= {"shape": [len(model)], "crc32": zlib.crc32(model)}
    padded = model + bytes(-len(model) % 64)
    arrays[f"constant/{step['model']}"] = np.frombuffer(padded, np.uint8)


def test_a_part_for_onnx_runtime_reads_no_file_beside_the_plan(tmp_path, qdq_class, monkeypatch):
    """ONNX Runtime looks for external data in the working folder: a plan could read any file there."""
    content, arrays, step = fallback_plan(tmp_path, qdq_class)
    (tmp_path / "secret.bin").write_bytes(np.arange(8, dtype=np.float32).tobytes())
    monkeypatch.chdir(tmp_path)
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[1, 8], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="secret.bin")
    x, y = step["xs"][0], step["ys"][0]
    info = [onnx.helper.make_tensor_value_info(name, 1, [1, 8]) for name in (x, y)]
    model = onnx_model([onnx.helper.make_node("Add", [x, "w"], [y])], info[:1], info[1:], [tensor])
    with_model(content, arrays, step, model.SerializeToString())
    path = rewritten(tmp_path / "evil.plan", content, arrays)
    with pytest.raises(FileFormatError, match=r"external data in 'secret\.bin'"):
        intact.load(path, threads=1)
    with pytest.raises(FileFormatError, match=r"external data in 'secret\.bin'"):
        Engine(files.load(path).plan, threads=1).run({"x": np.ones((1, 8), np.float32)})
    with_model(content, arrays, step, b"no model")
    with pytest.raises(IntactError, match="step "):
        intact.load(rewritten(path, content, arrays), threads=1)


def test_pads_and_sizes_that_take_all_memory_are_refused(plan, tmp_path, monkeypatch):
    """A pool with pads of 30,000 asked for gigabytes; an arena has a limit."""
    text, arrays = plan
    content = json.loads(text)
    (pool,) = (step for step in content["steps"] if step["kind"] == "pool")
    pool["pads"] = [30_000] * 4
    with pytest.raises(FileFormatError, match=r"pads within the kernel"):
        intact.load(rewritten(tmp_path / "pads.plan", content, arrays))
    path = rewritten(tmp_path / "good.plan", json.loads(text), arrays)
    feeds = {"x": np.ones((2, 3, 8, 8), np.float32)}
    intact.load(path, threads=1).run(feeds)
    for most, where in ((1000, "tensor 'x'"), (2500, "engine")):
        monkeypatch.setenv("INTACT_LIMIT_ENGINE_BYTES", str(most))
        with pytest.raises(IntactError, match=f"{where}.*INTACT_LIMIT_ENGINE_BYTES"):
            intact.load(path, threads=1).run(feeds)


@pytest.mark.parametrize("ports", ["inputs", "outputs"])
def test_ports_that_stand_twice_are_refused(plan, tmp_path, ports):
    text, arrays = plan
    content = json.loads(text)
    content[ports] *= 2
    with pytest.raises(FileFormatError, match="a name twice"):
        intact.load(rewritten(tmp_path / "twice.plan", content, arrays))


def test_reals_where_codes_should_be_are_refused(plan, tmp_path):
    text, arrays = plan
    content = json.loads(text)
    step = next(step for step in content["steps"] if step["kind"] == "quantize")
    for tensor in content["tensors"]:
        if tensor["name"] == step["y"]:
            tensor |= {"dtype": "float32", "codes": None}
    with pytest.raises(FileFormatError, match="codes"):
        intact.load(rewritten(tmp_path / "floats.plan", content, arrays))


@pytest.mark.parametrize("read", [intact.load, intact.compile, Calibration.load, TrtCache.load])
def test_what_is_no_file_is_refused_and_no_pipe_is_waited_for(read, tmp_path):
    pipe, empty = tmp_path / "pipe", tmp_path / "empty"
    os.mkfifo(pipe)
    empty.write_bytes(b"")
    for path, got in ((tmp_path, "a folder"), (pipe, "a pipe"), (empty, "want ")):
        with pytest.raises(IntactError, match=got):
            read(path)
    with pytest.raises((IntactError, OSError), match="missing"):
        read(tmp_path / "missing")


@pytest.mark.parametrize("dtype", ["int32", "int8", "float64", "bool"])
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_part_for_onnx_runtime_makes_what_the_plan_says(tmp_path, qdq_class, dtype, backend):
    content, arrays, step = fallback_plan(tmp_path, qdq_class)
    for tensor in content["tensors"]:
        if tensor["name"] == step["ys"][0]:
            tensor["dtype"] = dtype
    content["steps"] = content["steps"][: content["steps"].index(step) + 1]
    content["outputs"] = step["ys"]
    path = rewritten(tmp_path / "other.plan", content, arrays)
    with pytest.raises(FileFormatError, match=f"got float32 in the model, want {dtype}"):
        intact.load(path, threads=1, backend=backend)


def test_a_part_for_onnx_runtime_has_the_outputs_that_its_step_names(tmp_path, qdq_class):
    content, arrays, step = fallback_plan(tmp_path, qdq_class)
    model = onnx.ModelProto.FromString(arrays[f"constant/{step['model']}"].tobytes().rstrip(b"\0"))
    model.graph.node[-1].output[0] = model.graph.output[0].name = "other"
    with_model(content, arrays, step, model.SerializeToString())
    with pytest.raises(FileFormatError, match="got none in the model"):
        intact.load(rewritten(tmp_path / "renamed.plan", content, arrays), threads=1)


def test_a_part_for_onnx_runtime_has_types_that_onnx_defines(tmp_path, qdq_class):
    content, arrays, step = fallback_plan(tmp_path, qdq_class)
    model = onnx.ModelProto.FromString(arrays[f"constant/{step['model']}"].tobytes().rstrip(b"\0"))
    model.graph.output[0].type.tensor_type.elem_type = 72
    with_model(content, arrays, step, model.SerializeToString())
    with pytest.raises(FileFormatError, match="got data type 72, want a type that ONNX defines"):
        intact.load(rewritten(tmp_path / "typed.plan", content, arrays), threads=1)
