"""Plans that are well formed, carry right checksums, and lie: refused, or run within their memory."""

import json
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import intact
from intact.engine import container
from intact.errors import IntactError

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
        made = engine.run({"x": np.ones((2, 3, 8, 8), np.float32)})
    except IntactError:
        return
    assert all(isinstance(array, np.ndarray) for array in made.values())
