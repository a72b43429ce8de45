"""Lowering from opset 18: each operator means the same below, or is refused by name."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from intact.errors import UnsupportedError
from intact.graph import MAX_OPSET, MIN_OPSET, Session, oldest_opset, set_opset, to_bytes
from intact.graph.opset.downgrade import LOWERED

# The text form of ONNX: the graph is what a reader sees.
GRAPHS: dict[str, str] = {
    "ReduceMean-axes": "ax = Constant<value_ints = [2, 3]>() y = ReduceMean<keepdims = 0>(x, ax)",
    "ReduceMean-all": "y = ReduceMean(x)",
    "ReduceMean-noop": "y = ReduceMean<noop_with_empty_axes = 1>(x)",
    "ReduceMax-axes": "ax = Constant<value_ints = [-1]>() y = ReduceMax(x, ax)",
    "ReduceL2-axes": "ax = Constant<value_ints = [1]>() y = ReduceL2(x, ax)",
    "BatchNormalization": "c = Constant<value_floats = [0.5, 1.0, 2.0, 1.5]>() "
    "y = BatchNormalization<training_mode = 0>(x, c, c, c, c)",
    "Reshape-allowzero": "s = Constant<value_ints = [2, -1]>() y = Reshape<allowzero = 1>(x, s)",
    "Shape-slice": "s = Shape<start = 1, end = 3>(x) y = Cast<to = 1>(s)",
    "Shape-from": "s = Shape<start = -2>(x) y = Cast<to = 1>(s)",
    "Shape-whole": "s = Shape(x) y = Cast<to = 1>(s)",
    "Split-even": "y, z = Split<axis = 1, num_outputs = 2>(x)",
    "Split-uneven": "y, z = Split<axis = 2, num_outputs = 2>(x)",
    "Split-sizes": "s = Constant<value_ints = [1, 3]>() y, z = Split<axis = 1>(x, s)",
    "Pad-axes": "p = Constant<value_ints = [1, 0, 2, 3]>() v = Constant<value_float = 7.0>() "
    "a = Constant<value_ints = [2, -1]>() y = Pad(x, p, v, a)",
    "Pad-plain": "p = Constant<value_ints = [0, 0, 1, 1, 0, 0, 1, 1]>() y = Pad<mode = \"edge\">(x, p)",
    "Resize": "s = Constant<value_floats = [1.0, 1.0, 2.0, 2.0]>() y = Resize<antialias = 0>(x, , s)",
    "HardSwish": "y = HardSwish(x)",
    "LayerNormalization": "w = Constant<value_floats = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]>() "
    "y = LayerNormalization<epsilon = 0.001>(x, w, w)",
    "LayerNormalization-no-bias": "w = Constant<value_floats = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]>() "
    "y = LayerNormalization<axis = 3>(x, w)",
    "ScatterND": "i = Constant<value = int64[1, 1] {1}>() u = Constant<value = float[1, 4, 5, 6] "
    f"{{{', '.join(['1.5'] * 120)}}}>() y = ScatterND(x, i, u)",
    "LpPool": "y = LpPool<kernel_shape = [2, 2]>(x)",
    "only-types": "a = Relu(x) b = Add(a, x) c = Mul(b, x) d = Sub(c, a) e = Identity(d) t = Greater(e, a) "
    "y = Where(t, e, a)",
}  # fmt: skip


def parse(body: str, outputs: str = "float[] y", opset: int = 18) -> ir.Model:
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[2,4,5,6] x) => ({outputs}) {{ {body} }}'
    proto = onnx.parser.parse_model(text)
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto))


def run(model: ir.Model, x: NDArray) -> dict[str, NDArray]:
    return Session(to_bytes(model)).run({"x": x})


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("target", [13, 14, 15, 16, 17])
def test_the_lowered_graph_means_the_same(name: str, target: int, rng: np.random.Generator) -> None:
    outputs = "float[] y, float[] z" if "y, z =" in GRAPHS[name] else "float[] y"
    x = rng.normal(0, 2, (2, 4, 5, 6)).astype(np.float32)
    model = parse(GRAPHS[name], outputs)
    want = run(model, x)
    set_opset(model, target)
    assert model.opset_imports == {"": target}
    got = run(model, x)
    for key, value in want.items():
        np.testing.assert_allclose(got[key], value, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("target", [13, 14, 15, 16, 17])
def test_recurrent_operators_lose_their_default_layout(target: int) -> None:
    w, r = ", ".join(["0.1"] * 48), ", ".join(["0.2"] * 16)
    model = parse(
        f"w = Constant<value = float[1, 8, 6] {{{w}}}>() r = Constant<value = float[1, 8, 2] {{{r}}}>() "
        "s = Constant<value_ints = [8, 5, 6]>() t = Reshape(x, s) "
        "y, h, c = LSTM<hidden_size = 2, layout = 0>(t, w, r)"
    )
    x = np.ones((2, 4, 5, 6), np.float32)
    want = run(model, x)["y"]
    set_opset(model, target)
    np.testing.assert_array_equal(run(model, x)["y"], want)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y = GridSample(x, x)", "GridSample as it is since opset 16, in a file of opset 13"),
        ("y = Mish(x)", "Mish as it is since opset 18"),
        ("y = LpPool<kernel_shape = [2, 2], ceil_mode = 1>(x)", "LpPool with ceil_mode=1, since opset 18"),
        ("s = Constant<value_ints = [0, 6]>() e = Slice(x, s, s) y = Reshape<allowzero = 1>(e, s)",
         "Reshape to an empty tensor, since opset 14"),
        ("s = Shape(x) r = ReduceMax<keepdims = 0>(s) o = Constant<value_ints = [1]>() a = Mod(r, o) "
         "y = ReduceMean(x, a)", "ReduceMean with a computed input 1, since opset 18"),
    ],
    ids=["new-operator", "mish", "attribute", "allowzero", "computed-axes"],
)  # fmt: skip
def test_what_has_no_older_form_is_refused_by_name(body: str, message: str) -> None:
    model = parse(body)
    next(n for n in model.graph if n.op_type in message).name = "encoder.part"
    with pytest.raises(UnsupportedError, match=r"^encoder\.part: got ") as caught:
        set_opset(model, 13)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("body", "wanted", "oldest"),
    [
        ("y = Relu(x)", 13, 13),
        ("z = HardSwish(x) y = PRelu(z, x)", 13, 13),
        ("g = Constant<value = float[2, 1, 1, 2] {0, 0, 0, 0}>() y = GridSample(x, g)", 13, 16),
        ("y = Mish(x)", 17, 18),
        ("y = Mish(x)", 21, 21),
        ("b = Cast<to = 16>(x) c = Relu(b) y = Cast<to = 1>(c)", 13, 13),
    ],
)
def test_the_oldest_opset_has_every_operator(body: str, wanted: int, oldest: int) -> None:
    model = parse(body)
    before = to_bytes(model)
    assert oldest_opset(model, wanted) == oldest
    assert to_bytes(model) == before


def test_the_oldest_opset_takes_the_types_of_its_operators() -> None:
    model = parse("b = Cast<to = 16>(x) c = GlobalMaxPool(b) y = Cast<to = 1>(c)")
    for node in list(model.graph)[:2]:
        node.outputs[0].type = ir.TensorType(ir.DataType.BFLOAT16)
    assert oldest_opset(model, 17) == 22


@pytest.mark.parametrize("opset", [12, 26, 0])
def test_an_opset_outside_the_range_is_refused(opset: int) -> None:
    with pytest.raises(UnsupportedError, match=rf"opset: got {opset}, want 13\.\.25"):
        set_opset(parse("y = Relu(x)"), opset)


def test_only_opset_18_is_lowered() -> None:
    with pytest.raises(UnsupportedError, match="a model of opset 20 for 17, want opset 18"):
        set_opset(parse("y = Relu(x)", opset=20), 17)


@pytest.mark.parametrize("opset", range(MIN_OPSET, MAX_OPSET + 1))
def test_the_ir_version_fits_the_opset(opset: int) -> None:
    model = parse("y = Relu(x)")
    set_opset(model, opset)
    released = {row[2]: row[1] for row in reversed(onnx.helper.VERSION_TABLE)}
    assert model.ir_version == released[opset]


def since(op: str, opset: int) -> int:
    try:
        return onnx.defs.get_schema(op, opset).since_version
    except onnx.defs.SchemaError:
        return 0


def test_every_lowering_is_of_an_operator_that_changed() -> None:
    unchanged = [op for op in LOWERED if since(op, 13) == since(op, 18)]
    assert unchanged == []
