"""QOperator models in Q/DQ form: the same outputs, and pairs that can be read and stripped."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_graph, onnx_model

from intact.graph import (
    Mark,
    Session,
    emit_qdq,
    load,
    mark,
    normalize,
    prune,
    quantization_of,
    quantized_bias_of,
    strip_qdq,
    to_bytes,
)
from intact.spec import QuantSpec


def qlinear_model() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    arrays = {
        "xs": np.float32(0.02), "xz": np.uint8(120), "w": rng.integers(0, 255, (4, 3, 3, 3)).astype(np.uint8),
        "ws": np.float32([0.01, 0.02, 0.03, 0.04]), "wz": np.uint8([128] * 4), "ys": np.float32(0.2),
        "yz": np.uint8(100), "b": np.int32([100, -200, 300, 4]),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        helper.make_node(
            "QLinearConv", ["xq", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["yq"], name="conv"
        ),
        helper.make_node("QLinearAdd", ["yq", "ys", "yz", "yq", "ys", "yz", "ys", "yz"], ["zq"], name="add",
                         domain="com.microsoft"),
        helper.make_node("DequantizeLinear", ["zq", "ys", "yz"], ["y"]),
    ]  # fmt: skip
    return onnx_model(
        nodes, {"x": [2, 3, 8, 8]}, {"y": None}, arrays, opset=10, domains={"com.microsoft": 1}, ir_version=6
    )


def test_qoperators_become_pairs_with_the_same_codes() -> None:
    proto = qlinear_model()
    x = np.random.default_rng(1).normal(size=(2, 3, 8, 8)).astype(np.float32)
    model = load(proto)
    notes = [f"{note.node}: {note.what}" for note in normalize(model)]
    assert notes == [
        "conv: QLinearConv became Q/DQ around Conv", "add: QLinearAdd became Q/DQ around Add",
        "w.real: the uint8 weight 'w' became int8",
    ]  # fmt: skip
    assert model.graph.opset_imports == {"": 13}
    got = Session(to_bytes(model)).run({"x": x})["y"]
    differ = np.abs(got - Session(proto.SerializeToString()).run({"x": x})["y"])
    # A tie that float32 and integer sums round differently is one code of the Conv, and the Add doubles it.
    assert differ.max() < 0.401 and (differ > 0.001).mean() < 0.01
    conv = next(n for n in model.graph if n.op_type == "Conv")
    weight, bias = quantization_of(conv.inputs[1]), quantized_bias_of(conv.inputs[2])
    assert weight is not None and bias is not None
    assert (str(weight.spec), weight.constant) == ("int8 per-channel(axis=0)", True)
    np.testing.assert_array_equal(bias.codes, [100, -200, 300, 4])


def test_stripping_gives_back_the_float_model_and_the_ranges() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[2,2] x) => (float[2,2] y)
        <float[2,2] w = {1.0, 2.0, 3.0, 4.0}> { y = MatMul(x, w) }"""
    model = load(onnx.parser.parse_model(text))
    reader = model.graph[0].name or ""
    mark(model, [
        Mark("x", ((reader, 0),), QuantSpec("int8"), np.float32(127)),
        Mark("w", ((reader, 1),), QuantSpec("int8", axis=1, narrow=True), np.float32([4, 4])),
    ])  # fmt: skip
    emit_qdq(model, 17)
    prune(model)
    assert sorted(n.op_type for n in model.graph) == sorted(
        ["QuantizeLinear", "DequantizeLinear", "DequantizeLinear", "MatMul"]
    )
    stripped = strip_qdq(model)
    assert [n.op_type for n in model.graph] == ["MatMul"]
    assert set(stripped) == {"x", "w"} and stripped["x"].scale == 1
    assert set(model.graph.initializers) == {"w"}
    stored = model.graph.initializers["w"].const_value
    assert stored is not None
    np.testing.assert_allclose(stored.numpy(), [[1, 2], [3, 4]], atol=4 / 254)


OTHERS = {
    "Where": "m = Greater(x, half) u = com.microsoft.QLinearWhere(m, q, s, z, q, t, v, t, v)",
    "Softmax over rows": "u = com.microsoft.QLinearSoftmax<axis = 3, opset = 11>(q, s, z, t, v)",
    "Softmax as said": "u = com.microsoft.QLinearSoftmax<axis = 1, opset = 13>(q, s, z, t, v)",
    "channels last, pool": "u = com.microsoft.QLinearAveragePool<kernel_shape = [2, 2], channels_last = 1>"
    "(q, s, z, t, v)",
    "channels last, all": "u = com.microsoft.QLinearGlobalAveragePool<channels_last = 1>(q, s, z, t, v)",
    "channels last, Conv": "u = com.microsoft.QLinearConv<kernel_shape = [2, 2], channels_last = 1>"
    "(q, s, z, w, s, z, t, v)",
}


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("case", OTHERS)
def test_operators_of_onnx_runtime_become_pairs_with_the_same_codes(case: str, opset: int) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
        g (float[2, 5, 6, 4] x) => (float y) <float s = {{0.02}}, uint8 z = {{120}}, float t = {{0.0307}},
        uint8 v = {{100}}, float half = {{0.5}}>
        {{ q = QuantizeLinear(x, s, z) {OTHERS[case]} y = DequantizeLinear(u, t, v) }}"""
    proto = onnx.parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    weight = np.random.default_rng(3).integers(90, 150, (3, 4, 2, 2)).astype(np.uint8)
    proto.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    x = np.random.default_rng(1).normal(size=(2, 5, 6, 4)).astype(np.float32)
    model = load(proto)
    (note, *_) = normalize(model)
    assert note.changed, note
    assert not any(node.op_type.startswith("QLinear") for node in model.graph)
    before, after = (Session(p).run({"x": x})["y"] for p in (proto.SerializeToString(), to_bytes(model)))
    assert before.shape == after.shape
    differ = np.abs(before - after)
    # ONNX Runtime's own exponentials have few digits: a code apart near a tie. All others: the same codes.
    assert differ.max() < (0.0308 if "Softmax" in case else 1e-6)


def test_a_softmax_over_several_axes_stays() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[2, 5, 6, 4] x) => (float y) <float s = {0.02}, uint8 z = {120}> { q = QuantizeLinear(x, s, z)
        u = com.microsoft.QLinearSoftmax<opset = 11>(q, s, z, s, z) y = DequantizeLinear(u, s, z) }"""
    (note,) = normalize(load(onnx.parser.parse_model(text)))
    assert not note.changed and "over several axes" in note.what


def test_constants_come_first_in_every_graph():
    info = helper.make_tensor_value_info
    then = onnx_graph(
        [
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node("Constant", [], ["k"], value_float=2.0),
            helper.make_node("Mul", ["k", "a"], ["ka"]),
            helper.make_node("Mul", ["r", "ka"], ["t"]),
        ],
        (),
        {"t": None},
        name="then",
    )
    other = onnx_graph([helper.make_node("Neg", ["x"], ["o"])], (), {"o": None}, name="else")
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Constant", [], ["a"], value_float=3.0),
        helper.make_node("Sqrt", ["a"], ["b"]), helper.make_node("Mul", ["y", "b"], ["z"]),
        helper.make_node("RandomNormal", [], ["noise"], shape=[1]),
        helper.make_node("If", ["c"], ["w"], then_branch=then, else_branch=other),
    ]  # fmt: skip
    outputs = [info(name, TensorProto.FLOAT, None) for name in ("z", "w", "noise")]
    inputs = [info("x", TensorProto.FLOAT, ["n"]), info("c", TensorProto.BOOL, [])]
    proto = onnx_model(nodes, inputs, outputs)
    loaded = load(proto)
    normalize(loaded)
    assert [node.op_type for node in loaded.graph] == [
        "Constant", "Sqrt", "Relu", "Mul", "RandomNormal", "If",
    ]  # fmt: skip
    branch = list(loaded.graph)[-1].attributes["then_branch"].as_graph()
    assert [node.op_type for node in branch] == ["Constant", "Mul", "Relu", "Mul"]
