"""Codes that others make or read: callers, and parts in ONNX Runtime. No proof rests on what they promise."""

import json
import zlib

import numpy as np
import onnx
import pytest

import intact
from intact.engine.files import container
from intact.engine.reference import evaluate
from intact.errors import FileFormatError, UnsupportedError

HEAD = '<ir_version: 10, opset_import: ["" : 21]> net '
READS = (
    HEAD
    + """(float[n,5,4] x) => (float[n,5,4] y, float[n,5,4] z)
<float s = {0.1}, float t = {0.2}, int8 zero = {-3}, int8 other = {4}> {
  q = QuantizeLinear (x, s, zero)
  y = DequantizeLinear (q, s, zero)
  o = Mod (q, other)
  z = DequantizeLinear (o, t, zero)
}"""
)
MAKES = (
    HEAD
    + """(int8[n,5,4] q) => (float[n,5,4] y, int8[n,5,4] m)
<float s = {0.1}, int8 zero = {-3}, int8 other = {100}> {
  m = Mod (q, other)
  d = DequantizeLinear (m, s, zero)
  r = Relu (d)
  p = QuantizeLinear (r, s, zero)
  y = DequantizeLinear (p, s, zero)
}"""
)


def compile_text(text, **options):
    return intact.compile(onnx.parser.parse_model(text).SerializeToString(), threads=1, **options)


@pytest.mark.parametrize("text", [READS, MAKES], ids=["reads", "makes"])
def test_a_part_in_onnx_runtime_reads_and_makes_signed_codes(text, rng):
    """Memory has codes as bytes, 128 above int8: ONNX Runtime got these, and refused their type."""
    engine = compile_text(text)
    assert "onnx" in {step.kind for step in engine.plan.steps}
    port = engine.inputs[0]
    x = rng.integers(-128, 128, (2, 5, 4)).astype(np.int8)
    feeds = {port.name: x if port.name == "q" else x.astype(np.float32) / 7}
    want, outputs = evaluate(engine.plan, feeds), engine.run(feeds)
    for name in engine.plan.outputs:
        np.testing.assert_array_equal(outputs[name], want[name], err_msg=name)
    for name, array in engine.tap(feeds).items():
        np.testing.assert_array_equal(array, want[name], err_msg=name)


def rewrite_plan(path, change):
    """The plan file with `change` applied to its text and arrays, checksums right."""
    metadata, views = container.read(path)
    content, arrays = json.loads(metadata["intact.plan"]), {n: v[:-64].copy() for n, v in views.items()}
    change(content, arrays)
    text = json.dumps(content)
    checksum = f"{zlib.crc32(text.encode()):08x}"
    container.write(path, arrays, {"intact.plan": text, "intact.plan.crc32": checksum})
    return path


@pytest.fixture
def layers(qdq, tmp_path):
    """A plan of codes in, a table, a convolution, codes out."""
    net = qdq()
    codes = net.input("x", ("n", 3, 8, 8), onnx.TensorProto.INT8)
    scale, zero = net.constant(np.float32(0.05)), net.constant(np.int8(0))
    x = net.node("DequantizeLinear", codes, scale, zero)
    y = net.pair(net.node("HardSwish", net.pair(net.conv(x, 3, 8))))
    path = tmp_path / "layers.plan"
    intact.compile(net.proto(net.quantize(net.conv(y, 8, 8))).SerializeToString(), threads=1).save(path)
    return path


def narrow(content, name, low, high):
    (record,) = (tensor for tensor in content["tensors"] if tensor["name"] == name)
    record["codes"] |= {"low": low, "high": high}


@pytest.mark.parametrize("ends", [(0, 127), (-127, 127), (-128, 5)])
def test_an_input_of_codes_has_its_whole_grid(layers, ends):
    """Sums were proved for [low, high], and callers may pass any int8."""
    with pytest.raises(FileFormatError, match=r"tensor 'x': got codes from .* want \(-128, 127\)"):
        intact.load(rewrite_plan(layers, lambda content, _: narrow(content, content["inputs"][0], *ends)))


def test_a_table_stays_within_the_grid_that_it_writes(layers):
    def lie(content, _):
        (step,) = (candidate for candidate in content["steps"] if candidate["kind"] == "table")
        narrow(content, step["y"], 0, 1)

    engine = intact.load(rewrite_plan(layers, lie), threads=1)
    with pytest.raises(FileFormatError, match=r"got a table of .* want bytes of the output's grid"):
        engine.run({"x": np.zeros((1, 3, 8, 8), np.int8)})


def test_a_reinterpretation_keeps_every_code(qdq, tmp_path):
    net = qdq()
    x = net.pair(net.input("x", ("n", 4)), 0.05)
    y = net.node("Mul", x, net.constant(np.float32(2)))
    path = tmp_path / "double.plan"
    intact.compile(net.proto(net.pair(y, 0.1)).SerializeToString(), threads=1).save(path)
    steps = json.loads(container.read(path)[0]["intact.plan"])["steps"]
    (step,) = (step for step in steps if step["kind"] == "reinterpret")
    with pytest.raises(FileFormatError, match="want codes within those of"):
        intact.load(rewrite_plan(path, lambda content, _: narrow(content, step["y"], -5, 5)))


def test_parts_are_counted(monkeypatch, qdq):
    """Each costs a session, and joining them the time of many lowerings."""
    net = qdq()
    x = net.input("x", ("n", 4))
    for _ in range(3):
        y = net.pair(net.node("MatMul", net.pair(x), net.weight(4, 4, axis=1)))
        x = net.node("LpNormalization", y)
    proto = net.proto(net.pair(x)).SerializeToString()
    monkeypatch.setenv("INTACT_LIMIT_FALLBACK_PARTS", "3")
    assert [step.kind for step in intact.compile(proto).plan.steps].count("onnx") == 3
    monkeypatch.setenv("INTACT_LIMIT_FALLBACK_PARTS", "2")
    with pytest.raises(UnsupportedError, match="INTACT_LIMIT_FALLBACK_PARTS=3"):
        intact.compile(proto)


def test_groups_divide_the_outputs(qdq):
    """It was "report this model"."""
    net = qdq()
    x = net.pair(net.input("x", ("n", 6, 8, 8)))
    y = net.node("Conv", x, net.weight(8, 2, 3, 3), group=3)
    with pytest.raises(
        UnsupportedError, match="groups 3, weight\\[0\\] 8, want groups that divide the channels"
    ):
        intact.compile(net.proto(net.pair(y)).SerializeToString())


@pytest.mark.parametrize("dtype", ["int16", "float16", "bool", "uint64", "float"])
def test_one_tensor_may_be_input_and_output(dtype):
    engine = compile_text(HEAD + f"({dtype}[2] x) => ({dtype}[2] x) {{}}")
    x = np.array([0, 1], dtype.replace("float16", "half").replace("float", "single"))
    assert engine.run({"x": x})["x"].tolist() == [0, 1]
