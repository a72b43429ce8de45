"""Spellings that exporters use, through `quantize` and `compile`."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

import intact


def net(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    result = parser.parse_model(text)
    result.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return result


def reals(*shape: int) -> np.ndarray:
    """From the generator that every test begins anew: no test's numbers hang on which ran before it."""
    return np.random.standard_normal(shape).astype(np.float32)


CONV = """<ir_version: 8, opset_import: ["" : 17]>
net (float[n, 3, 8, 8] x) => (float[n, 4, 8, 8] y) { y = Conv (x, w) }"""


def test_weights_among_the_inputs_are_constants() -> None:
    """keep_initializers_as_inputs=True: nothing was quantized."""
    model = net(CONV, w=reals(4, 3, 1, 1))
    model.graph.input.append(helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [4, 3, 1, 1]))
    result = intact.quantize(model, reals(8, 3, 8, 8), progress=False)
    assert [row["precision"] for row in result.explain()] == ["int8"]
    engine = intact.compile(result.model, threads=1)
    assert [port.name for port in engine.inputs] == ["x"]
    assert [port.name for port in intact.compile(model, threads=1).inputs] == ["x"]


def test_a_size_of_minus_one_is_any_size() -> None:
    """As paddle2onnx and others wrote it: the file was called damaged."""
    model = net(CONV, w=reals(4, 3, 1, 1))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = -1
    result = intact.quantize(model, reals(8, 3, 8, 8), progress=False)
    engine = intact.compile(result.model, threads=1)
    assert [engine(reals(count, 3, 8, 8)).shape[0] for count in (1, 5)] == [1, 5]


@pytest.mark.parametrize("opset", [11, 13])
def test_the_rank_that_a_file_declares_outlives_an_identity(opset: int) -> None:
    text = f"""<ir_version: 7, opset_import: ["" : {opset}]>
    net (float[n, 3, 1, 1] x) => (float[n, 2] y) {{
        c = Conv (x, w)  s = Shape (x)  b = Slice (s, zero, one)  t = Concat <axis = 0> (b, rest)
        r = Reshape (c, t)  z = MatMul (r, v)  q = Softmax <axis = 1> (z)  y = Identity (q) }}"""
    sizes = {"zero": np.array([0]), "one": np.array([1]), "rest": np.array([-1])}
    model = net(text, w=reals(4, 3, 1, 1), v=reals(4, 2), **sizes)
    result = intact.quantize(model, reals(8, 3, 1, 1), progress=False)
    assert intact.compile(result.model, threads=1)(reals(2, 3, 1, 1)).shape == (2, 2)


def test_constants_that_the_reference_cannot_compute() -> None:
    """GatherElements of one row out of a table, as in BERT's positions of a fixed length."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[n, 32] x) => (float[n, 16] y) {
        w = GatherElements <axis = 1> (table, indices)  v = Unsqueeze (w, zero)  u = Squeeze (v, zero)
        a = MatMul (x, m)  y = Add (a, u) }"""
    table, indices = reals(1, 64), np.arange(16, dtype=np.int64)[None] * 2
    model = net(text, m=reals(32, 16), table=table, indices=indices, zero=np.array([0]))
    x = reals(2, 32)
    expected = x @ numpy_helper.to_array(model.graph.initializer[0]) + table[:, ::2][:, :16]
    np.testing.assert_allclose(intact.compile(model, threads=1)(x), expected, atol=1e-4)


@pytest.mark.parametrize("dead", ["d = Conv (b, v)", "d = MatMul (b, b)", "c = Conv (b, v)  d = Relu (c)"])
def test_layers_whose_result_nobody_uses_are_dropped(dead: str) -> None:
    """They got pairs and ranges, and whoever asked for their tensors, or took their weights back, failed."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    net (float[n, 4, 8, 8] x) => (float[n, 4, 8, 8] y) {{
        a = Conv (x, w)  b = Relu (a)  {dead}  y = Conv (b, w) }}"""
    model = net(text, w=reals(4, 4, 1, 1), v=reals(4, 4, 1, 1))
    result = intact.quantize(model, reals(8, 4, 8, 8), progress=False)
    assert [row["precision"] for row in result.explain()] == ["int8", "int8"]
    assert not {"c", "d"} & {value.name for node in result.model.graph for value in node.outputs}
