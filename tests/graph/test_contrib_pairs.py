"""Pairs of ONNX Runtime's own domain, and those of them that stay."""

import numpy as np
import onnx
import pytest

from intact.graph import Session, load, normalize, to_proto

HEAD = '<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>'


def parse_pair(scale: str, codes: str, extra: str = "") -> onnx.ModelProto:
    return onnx.parser.parse_model(f"""{HEAD}
        net (float[2, 3] x) => (float[2, 3] y) <float[1] one = {{1}}, {scale}, {codes}>
        {{ q = com.microsoft.QuantizeLinear{extra} (x, s, z)
           d = com.microsoft.DequantizeLinear{extra} (q, s, z)  y = Mul (d, one) }}""")


@pytest.mark.parametrize(
    ("codes", "opset"),
    [("int8 z = {3}", 13), ("uint8 z = {3}", 13), ("int16 z = {3}", 21), ("uint16 z = {40000}", 21)],
)
def test_they_become_onnxs_in_the_first_opset_that_has_the_type(codes: str, opset: int) -> None:
    proto = parse_pair("float s = {0.01}", codes)
    model = load(proto)
    notes = normalize(model)
    assert sum("became ONNX's" in note.what for note in notes) == 2
    assert {node.domain for node in model.graph} == {""} and model.opset_imports == {"": opset}
    assert [value.dtype.name for node in model.graph for value in node.outputs][1:] == ["FLOAT", "FLOAT"]
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)}
    before, after = (Session(m.SerializeToString()).run(feeds)["y"] for m in (proto, to_proto(model)))
    np.testing.assert_array_equal(after, before)


def test_scales_along_an_axis_keep_it() -> None:
    proto = parse_pair("float[2] s = {0.01, 0.5}", "int16[2] z = {3, 0}", "<axis = 0>")
    model = load(proto)
    normalize(model)
    assert [node.attributes["axis"].value for node in list(model.graph)[:2]] == [0, 0]
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)}
    before, after = (Session(m.SerializeToString()).run(feeds)["y"] for m in (proto, to_proto(model)))
    np.testing.assert_array_equal(after, before)


def test_what_is_not_of_float32_stays() -> None:
    model = load(
        onnx.parser.parse_model(f"""{HEAD}
        net (float16[2, 3] x) => (float16[2, 3] y) <float16 s = {{8480}}, int8 z = {{3}}>
        {{ q = com.microsoft.QuantizeLinear (x, s, z)  y = com.microsoft.DequantizeLinear (q, s, z) }}""")
    )
    assert normalize(model) == []
    assert {node.domain for node in model.graph} == {"com.microsoft"} and model.opset_imports[""] == 13
