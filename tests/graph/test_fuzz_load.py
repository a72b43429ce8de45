"""Damaged bytes: `load` reads a model or raises an IntactError, whatever they are."""

from __future__ import annotations

import random
import tracemalloc
from importlib import import_module

import onnx
import pytest
from tests.onnx_models import onnx_model

from intact.errors import IntactError
from intact.graph import fold_batchnorm, load, normalize, strip_qdq, to_proto

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'
MODELS = {
    "conv": HEAD + """ g (float[1,2,5,5] x) => (float[1,2,3,3] y)
        <float[2,1,3,3] w = {1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0},
         float[2] v = {1.0, 2.0}> {
        c = Conv <group = 2, strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1]> (x, w)
        y = BatchNormalization (c, v, v, v, v)
    }""",
    "pool": HEAD + """ g (float[1,2,6,6] x) => (float[1,2,s,t] y) {
        p = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (x)
        y = AveragePool <kernel_shape = [2, 2], pads = [1, 1, 1, 1]> (p)
    }""",
    "shapes": HEAD + """ g (float[2,6] x) => (float[a,b] y)
        <int64[2] s = {3, -1}, int64[2] n = {2, 2}, int64 one = {1}, int64[1] z = {0}> {
        r = Reshape (x, s)
        e = Tile (r, n)
        f = ConstantOfShape (n)
        k = Range (one, one, one)
        t = Split <num_outputs = 1, axis = 0> (e)
        u = Unsqueeze (e, z)
        y = Squeeze (u, z)
    }""".replace("<num_outputs = 1, axis = 0>", "<axis = 0>"),
    "control-flow": HEAD + """ g (float[2] x, bool c) => (float[2] y) {
        y = If (c) <then_branch = a () => (float[2] p) { p = Relu (x) },
                    else_branch = b () => (float[2] q) { q = Neg (x) }>
    }""",
    "quantized": HEAD + """ g (float[2,4] x) => (float[2,4] y)
        <float s = {0.5}, uint8 z = {128}, uint8[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}> {
        q = QuantizeLinear (x, s, z)
        m = QLinearMatMul (q, s, z, w, s, z, s, z)
        a = com.microsoft.QLinearAdd (m, s, z, q, s, z, s, z)
        y = DequantizeLinear (a, s, z)
    }""",
}  # fmt: skip
ROUNDS = 150


def damage(data: bytes, dice: random.Random) -> bytes:
    """`data` cut, or with a byte or two changed."""
    if dice.random() < 0.15:
        return data[: dice.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(dice.choice([1, 1, 2])):
        place = dice.randrange(len(changed))
        flipped = changed[place] ^ (1 << dice.randrange(8))
        changed[place] = dice.choice([flipped, 0, 0x7F, 0xFF])
    return bytes(changed)


@pytest.mark.parametrize("text", MODELS.values(), ids=MODELS)
def test_damaged_models_are_read_or_refused(text: str) -> None:
    data = onnx.parser.parse_model(text).SerializeToString()
    load(data)
    import_module("sympy")  # by onnx-ir, for names of sizes, whenever it first needs it: no part of a load
    dice, read = random.Random(0), 0
    tracemalloc.start()
    for _ in range(ROUNDS):
        try:
            model = load(damage(data, dice))
            normalize(model)
            fold_batchnorm(model)
            strip_qdq(model)
            to_proto(model)
            read += 1
        except IntactError:
            pass
    assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    tracemalloc.stop()
    assert 0 < read < ROUNDS


@pytest.mark.parametrize("attribute", ["strides", "dilations", "kernel_shape"])
@pytest.mark.parametrize("number", [0, -1, 2**62])
def test_absurd_windows_do_no_harm(attribute: str, number: int) -> None:
    node = onnx.helper.make_node(
        "MaxPool", ["x"], ["y"], name="pool", **{"kernel_shape": [2, 2], attribute: [number, number]}
    )
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 1, 4, 4])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    proto = onnx_model([node], [x], [y])
    with pytest.raises(IntactError, match=r"node 'pool' \(MaxPool\)"):
        load(proto)


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"text, no model", b"\xff" * 64], ids=["empty", "zero", "text", "noise"]
)
def test_what_is_no_model_at_all_is_refused(data: bytes) -> None:
    with pytest.raises(IntactError, match="model: "):
        load(data)
