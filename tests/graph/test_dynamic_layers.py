"""Layers that are quantized while they run, as floats: exactly the weights of their codes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from tests.onnx_models import onnx_graph, onnx_model

from intact.graph import Session, float_dynamic, load, prune, strip_dynamic, strip_qdq, to_bytes
from intact.numerics import BlockWeights, dequantize_blocks, join_stream

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>\n'
RNG = np.random.default_rng(7)


def model(body: str, x: str, **constants: Any) -> onnx.ModelProto:
    proto = parser.parse_model(f"{HEAD}g ({x}) => (float y) {{ {body} }}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    proto.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items())
    return proto


def codes(*shape: int, dtype: Any = np.uint8) -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def outputs_before_and_after(
    proto: onnx.ModelProto, feeds: dict[str, np.ndarray], ops: list[str]
) -> tuple[np.ndarray, ...]:
    """Run the model as it is and without its codes; `ops` are the operators left."""
    loaded = load(proto)
    notes = strip_dynamic(loaded)
    assert all(note.changed for note in notes) and notes
    assert [node.op_type for node in loaded.graph] == ops
    before, after = Session(proto.SerializeToString()), Session(to_bytes(loaded))
    return before.run(feeds)["y"], after.run(feeds)["y"]


def step(x: np.ndarray) -> float:
    """The scale that a DynamicQuantizeLinear gives x, a little more than rounded."""
    return float(max(x.max(), 0) - min(x.min(), 0)) / 255 * (1 + 1e-6)


X = RNG.normal(size=(3, 5, 16)).astype(np.float32)
QUANTIZED = "q, s, z = DynamicQuantizeLinear(x) "
W, S, Z = codes(16, 6), np.float32(0.01), np.uint8(120)
COLUMNS = (RNG.random(6) * 0.02).astype(np.float32)
PRODUCTS = {
    "one scale": ("m = MatMulInteger(q, w, z, wz) c = Cast<to = 1>(m) f = Mul(s, ws) y = Mul(c, f)", W, S, Z),
    "the other way round": ("m = MatMulInteger(q, w, z, wz) c = Cast<to = 1>(m) f = Mul(ws, s) y = Mul(f, c)",
                            W, S, Z),
    "one after the other": ("m = MatMulInteger(q, w, z, wz) c = Cast<to = 1>(m) f = Mul(c, ws) y = Mul(f, s)",
                            W, S, Z),
    "by column": ("m = MatMulInteger(q, w, z, wz) c = Cast<to = 1>(m) f = Mul(s, ws) y = Mul(c, f)",
                  W, COLUMNS, codes(6)),
    "in one node": ("y = com.microsoft.MatMulIntegerToFloat(q, w, s, ws, z, wz)", W, COLUMNS, codes(6)),
    "by column in one node": ("y = com.microsoft.DynamicQuantizeMatMul(x, w, ws, wz)", W, COLUMNS, codes(6)),
}  # fmt: skip


@pytest.mark.parametrize("form", PRODUCTS)
def test_a_product_has_the_weights_of_its_codes(form: str) -> None:
    body, weight, scale, zero = PRODUCTS[form]
    proto = model(QUANTIZED + body, "float[3, 5, 16] x", w=weight, ws=scale, wz=zero)
    before, after = outputs_before_and_after(proto, {"x": X}, ["MatMul"])
    real = (weight.astype(np.int32) - zero).astype(np.float32) * scale
    (initializer,) = (
        v.const_value.numpy() for v in _load_stripped(proto).graph.initializers.values() if v.uses()
    )
    assert np.array_equal(initializer, real)
    bound = np.abs(real).sum(0) * step(X) / 2
    assert (np.abs(after - before) <= bound + 1e-5).all() and not np.array_equal(after, before)


def _load_stripped(proto: onnx.ModelProto) -> Any:
    loaded = load(proto)
    strip_qdq(loaded)
    return loaded


def test_a_bias_is_added() -> None:
    bias = RNG.normal(size=6).astype(np.float32)
    body = "y = com.microsoft.DynamicQuantizeMatMul(x, w, ws, wz, b)"
    proto = model(body, "float[3, 5, 16] x", w=W, ws=S, wz=Z, b=bias)
    before, after = outputs_before_and_after(proto, {"x": X}, ["MatMul", "Add"])
    assert np.abs(after - before).max() <= 255 * 0.01 * 16 * step(X) / 2


def test_a_convolution_keeps_its_attributes_and_its_bias() -> None:
    x = RNG.normal(size=(2, 3, 8, 8)).astype(np.float32)
    weight = codes(4, 3, 3, 3)
    body = (
        "m = ConvInteger<strides = [2, 2], pads = [1, 1, 1, 1]>(q, w, z, wz) c = Cast<to = 1>(m) "
        "f = Mul(s, ws) r = Mul(c, f) y = Add(r, b)"
    )
    bias = RNG.normal(size=(1, 4, 1, 1)).astype(np.float32)
    proto = model(QUANTIZED + body, "float[2, 3, 8, 8] x", w=weight, ws=S, wz=Z, b=bias)
    before, after = outputs_before_and_after(proto, {"x": x}, ["Conv", "Add"])
    real = (weight.astype(np.int32) - Z).astype(np.float32) * S
    bound = np.abs(real).sum((1, 2, 3)).reshape(1, 4, 1, 1) * step(x) / 2
    assert before.shape == (2, 4, 4, 4) and (np.abs(after - before) <= bound + 1e-5).all()


def test_both_operands_may_be_dynamic() -> None:
    body = (
        "k, t, u = DynamicQuantizeLinear(o) m = MatMulInteger(q, k, z, u) c = Cast<to = 1>(m) f = Mul(s, t) "
        "y = Mul(c, f)"
    )
    other = RNG.normal(size=(3, 16, 4)).astype(np.float32)
    proto = model(QUANTIZED + body, "float[3, 5, 16] x, float[3, 16, 4] o")
    before, after = outputs_before_and_after(proto, {"x": X, "o": other}, ["MatMul"])
    bound = np.abs(X).sum(-1)[..., None] * step(other) + np.abs(other).sum(-2)[:, None] * step(X)
    assert (np.abs(after - before) <= bound).all()


def test_what_moved_codes_moves_floats() -> None:
    body = (
        "p = Transpose<perm = [1, 0, 2]>(q) h = Reshape(p, to) m = MatMulInteger(h, w, z, wz) "
        "c = Cast<to = 1>(m) f = Mul(s, ws) r = Mul(c, f) "
        "d = DequantizeLinear(p, s, z) g = ReduceSum(d) y = Add(r, g)"
    )
    proto = model(QUANTIZED + body, "float[3, 5, 16] x", w=W, ws=S, wz=Z, to=np.int64([15, 16]))
    before, after = outputs_before_and_after(
        proto, {"x": X}, ["Transpose", "Reshape", "MatMul", "ReduceSum", "Add"]
    )
    assert np.abs(after - before).max() <= 255 * 0.01 * 16 * step(X) / 2 + X.size * step(X) / 2


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_an_lstm_gets_its_weights_turned(dtype: Any) -> None:
    w, r = codes(2, 16, 32, dtype=dtype), codes(2, 8, 32, dtype=dtype)
    scales = {n: (RNG.random((2, 32)) * 0.004).astype(np.float32) for n in ("ws", "rs")}
    zeros = {
        n: np.zeros((2, 32), dtype) if dtype is np.int8 else np.full((2, 32), 128, dtype)
        for n in ("wz", "rz")
    }
    body = (
        'y = com.microsoft.DynamicQuantizeLSTM<hidden_size = 8, direction = "bidirectional">'
        "(x, w, r, b, , , , , ws, wz, rs, rz)"
    )
    bias = RNG.normal(size=(2, 64)).astype(np.float32) * np.float32(0.1)
    proto = model(body, "float[3, 5, 16] x", w=w, r=r, b=bias, **scales, **zeros)
    before, after = outputs_before_and_after(proto, {"x": X}, ["LSTM"])
    assert before.shape == (3, 2, 5, 8)
    # 16 inputs and 8 states are half a step off each, times weights of 0.5: so much a gate, and less a state.
    assert np.abs(after - before).max() <= 3 * (16 * step(X) + 8 / 127) / 2 * 0.5


def test_the_weights_of_a_few_bits() -> None:
    packed, scale, zero = codes(6, 2, 8), (RNG.random(12) * 0.1).astype(np.float32), codes(6)
    body = "y = com.microsoft.MatMulNBits<K = 24, N = 6, bits = 4, block_size = 16>(x, w, ws, wz)"
    x = RNG.normal(size=(3, 24)).astype(np.float32)
    proto = model(body, "float[3, 24] x", w=packed, ws=scale, wz=zero)
    before, after = outputs_before_and_after(proto, {"x": x}, ["MatMul"])
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-4)
    proto = model(body.replace(", wz", ""), "float[3, 24] x", w=packed, ws=scale)
    before, after = outputs_before_and_after(proto, {"x": x}, ["MatMul"])
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-4)


@pytest.mark.parametrize("has_levels", [False, True])
def test_block_weights_of_our_operators(has_levels: bool) -> None:
    rng = np.random.default_rng(3)
    fields = rng.integers(0, 32, (6, 24), np.uint8)
    parts = {
        "w": join_stream(fields, 5, 1), "s": rng.normal(size=(6, 3)).astype(np.float32),
        "m": rng.normal(size=(6, 3)).astype(np.float32), "b": rng.normal(size=6).astype(np.float32),
    }  # fmt: skip
    zeros, levels = np.full((6, 3), 16, np.uint8), ""
    weights = BlockWeights(fields, "uint5", parts["s"], 8, zeros, parts["m"])
    if has_levels:
        parts |= {name: parts[name][:, :1].copy() for name in "sm"}
        parts |= {name: rng.integers(-128, 128, (6, 3)).astype(np.int8) for name in ("ss", "sm")}
        supers, levels = (parts["s"], parts["m"]), ", ss, sm"
        weights = BlockWeights(fields, "uint5", parts["ss"], 8, zeros, parts["sm"], *supers)
    head = HEAD.replace("]", ', "intact" : 1]')
    numbers = "K = 24, bits = 5, block = 8"
    product = f"y = intact.BlockLinear<{numbers}, x_block = 8>(x, w, s, z, m, b{levels})"
    rows = f"y = intact.BlockGather<{numbers}>(x, w, s, , m{levels and f',{levels}'})"
    x, index = rng.normal(size=(2, 24)).astype(np.float32), np.array([5, -6])
    floats = dequantize_blocks(weights)
    for port, body, feed, ops, want in (
        ("float[2, 24] x", product, x, ["MatMul", "Add"], x @ floats.T + parts["b"]),
        ("int64[2] x", rows, index, ["Gather"], floats[index]),
    ):  # fmt: skip
        proto = parser.parse_model(f"{head}g ({port}) => (float y) {{ {body} }}")
        proto.graph.output[0].type.tensor_type.ClearField("shape")
        used = {n: a for n, a in {**parts, "z": zeros}.items() if n in proto.graph.node[0].input}
        proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in used.items())
        loaded = load(proto)
        assert all(note.changed for note in strip_dynamic(loaded))
        assert [node.op_type for node in loaded.graph] == ops
        got = Session(to_bytes(loaded)).run({"x": feed})["y"]
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


def test_attention_gets_floats() -> None:
    body = "y = com.microsoft.QAttention<num_heads = 2>(q, w, b, s, ws, , z, wz)"
    weight = codes(16, 48)
    proto = model(QUANTIZED + body, "float[3, 5, 16] x", w=weight, b=np.zeros(48, np.float32),
                  ws=np.float32(0.001), wz=np.uint8(128))  # fmt: skip
    before, after = outputs_before_and_after(proto, {"x": X}, ["Attention"])
    assert np.abs(after - before).max() <= 0.128 * 16 * step(X)


STAYING = {
    "no factor": ("m = MatMulInteger(q, w, z, wz) y = Cast<to = 1>(m)", "scale of its codes|no Cast"),
    "another zero point": ("m = MatMulInteger(q, w, wz, wz) c = Cast<to = 1>(m) f = Mul(s, ws) y = Mul(c, f)",
                           "zero point of others"),
    "a sum that others read": ("m = MatMulInteger(q, w, z, wz) c = Cast<to = 1>(m) f = Mul(s, ws) "
                               "g = Mul(c, f) y = Add(g, c)", "scale of its codes"),
    "codes made of codes": ("v = Cast<to = 2>(x) m = MatMulInteger(v, w) y = Cast<to = 1>(m)",
                            "no DynamicQuantizeLinear"),
    "blocks in another order": ("y = com.microsoft.MatMulNBits<K = 16, N = 6, bits = 4, block_size = 16>"
                                "(x, b, bs, , o)", "order of their own"),
}  # fmt: skip


@pytest.mark.parametrize("case", STAYING)
def test_what_cannot_be_floats_stays_as_it_is(case: str) -> None:
    body, reason = STAYING[case]
    proto = model(QUANTIZED + body, "float[3, 5, 16] x", w=W, ws=S, wz=Z, b=codes(6, 1, 8),
                  bs=np.ones(6, np.float32), o=np.zeros(16, np.int32))  # fmt: skip
    loaded = load(proto)
    (note,) = float_dynamic(loaded)
    assert not note.changed
    assert re.search(reason, note.what), note.what
    prune(loaded)
    x = np.abs(X)
    before, after = (Session(p).run({"x": x})["y"] for p in (proto.SerializeToString(), to_bytes(loaded)))
    assert np.array_equal(before, after)


def test_branches_lose_their_codes_too() -> None:
    branches = {}
    for side, scale in (("then_branch", 0.01), ("else_branch", 0.02)):
        proto = model(QUANTIZED + PRODUCTS["one scale"][0].replace("y =", f"y_{side[:4]} ="), "float x", w=W,
                      ws=np.float32(scale), wz=Z)  # fmt: skip
        graph = onnx_graph(
            list(proto.graph.node), (), {f"y_{side[:4]}": None}, list(proto.graph.initializer), name=side
        )
        branches[side] = graph
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 5, 16]),
             helper.make_tensor_value_info("way", TensorProto.BOOL, [])]  # fmt: skip
    proto = onnx_model([helper.make_node("If", ["way"], ["y"], **branches)], infos, {"y": None})
    loaded = load(proto)
    strip_qdq(loaded)
    assert {node.op_type for node in loaded.graph.all_nodes()} == {"If", "MatMul"}
    for side in (True, False):
        feeds = {"x": X, "way": np.array(side)}
        before, after = (Session(p).run(feeds)["y"] for p in (proto.SerializeToString(), to_bytes(loaded)))
        assert np.abs(after - before).max() <= 255 * 0.02 * 16 * step(X) / 2


@pytest.mark.parametrize("read_as_floats", [True, False])
def test_rows_of_a_table_of_codes_are_rows_of_floats(read_as_floats: bool) -> None:
    table, body = codes(20, 16), (
        "q = Gather(e, x) m = MatMulInteger(q, w, ez, wz) c = Cast<to = 1>(m) f = Mul(es, ws) r = Mul(c, f) "
    )  # fmt: skip
    body += (
        "d = DequantizeLinear(q, es, ez) g = ReduceSum(d) y = Add(r, g)" if read_as_floats else "y = Neg(r)"
    )
    proto = model(
        body, "int64[3] x", e=table, es=np.float32(0.02), ez=np.uint8(7), w=W, ws=COLUMNS, wz=codes(6)
    )
    before, after = outputs_before_and_after(
        proto, {"x": np.int64([3, 0, 19])},
        ["Gather", "MatMul", *(["ReduceSum", "Add"] if read_as_floats else ["Neg"])],
    )  # fmt: skip
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-4)  # the same reals, other sums
