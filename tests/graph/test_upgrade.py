"""Every adapter of `upgrade_opset`: the model in its old form and the raised one give the same numbers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from tests.graph.old_models import old

from intact.graph import Session, load, to_bytes, upgrade_opset
from intact.graph.opset.upgrade import UPGRADES
from intact.graph.opset.upgrade_before_opset9 import EARLY

S = "s = Constant<value = float[4] {1.0, 1.0, 2.0, 1.5}>()"
INDEX = "i = Constant<value = int64[1, 4, 5, 6] {" + ", ".join(str(k % 2) for k in range(120)) + "}>()"
VEC = "c = Constant<value = float[4] {0.5, 1.0, 2.0, 1.5}>()"
ROI = "r = Constant<value = float[2, 4] {0.0, 0.0, 3.0, 3.0, 1.0, 1.0, 4.0, 5.0}>() " \
    "b = Constant<value = int64[2] {0, 1}>()"  # fmt: skip
GRID = (
    "g0 = Constant<value = float[2, 2, 2, 2] {"
    + ", ".join(f"{0.11 * k - 0.9:.2f}" for k in range(16))
    + "}>()"
)

OLD: dict[str, tuple[str, int, str]] = {
    "Upsample": ("Upsample", 9, f"{S} y = Upsample<mode = \"nearest\">(x, s)"),
    "Upsample-linear": ("Upsample", 9, f"{S} y = Upsample<mode = \"linear\">(x, s)"),
    "Slice": ("Slice", 9, "y = Slice<starts = [1, -3], ends = [4, 100], axes = [1, 3]>(x)"),
    "Slice-all-axes": ("Slice", 9, "y = Slice<starts = [0, 1], ends = [2, 3]>(x)"),
    "TopK": ("TopK", 9, "y, n = TopK<k = 2, axis = 1>(x)"),
    "Resize": ("Resize", 10, f"{S} y = Resize<mode = \"nearest\">(x, s)"),
    "Resize-linear": ("Resize", 10, f"{S} y = Resize<mode = \"linear\">(x, s)"),
    "Clip": ("Clip", 10, "y = Clip<min = -0.5, max = 0.75>(x)"),
    "Clip-above": ("Clip", 10, "y = Clip<max = 0.25>(x)"),
    "Pad": ("Pad", 10, "y = Pad<pads = [0, 0, 1, 2, 0, 1, 0, 3], value = 1.5>(x)"),
    "Pad-reflect": ("Pad", 10, "y = Pad<mode = \"reflect\", pads = [0, 0, 1, 2, 0, 0, 1, 3]>(x)"),
    "Scatter": ("Scatter", 9, f"{INDEX} u = Neg(x) z = Slice<starts = [0], ends = [1], axes = [0]>(u) "
                "y = Scatter<axis = 0>(x, i, z)"),
    "Dropout": ("Dropout", 11, "y = Dropout<ratio = 0.75>(x)"),
    "Squeeze": ("Squeeze", 12, "u = Unsqueeze<axes = [0, 3]>(x) y = Squeeze<axes = [3]>(u)"),
    "Squeeze-all": ("Squeeze", 12, "u = Unsqueeze<axes = [0]>(x) y = Squeeze(u)"),
    "Unsqueeze": ("Unsqueeze", 12, "y = Unsqueeze<axes = [1, 4]>(x)"),
    "ReduceSum": ("ReduceSum", 12, "y = ReduceSum<axes = [1, -1], keepdims = 0>(x)"),
    "ReduceSum-all": ("ReduceSum", 12, "y = ReduceSum(x)"),
    "Split": ("Split", 12, "y, z = Split<axis = 1, split = [1, 3]>(x)"),
    "Split-even": ("Split", 12, "y, z = Split<axis = 1>(x)"),
    "Split-count": ("Split", 17, "y, z = Split<axis = 3>(x)"),
    "Softmax": ("Softmax", 12, "y = Softmax<axis = 2>(x)"),
    "Softmax-default": ("Softmax", 12, "y = Softmax(x)"),
    "Softmax-last": ("Softmax", 12, "y = Softmax<axis = 3>(x)"),
    "LogSoftmax": ("LogSoftmax", 12, "y = LogSoftmax<axis = 1>(x)"),
    "Hardmax": ("Hardmax", 12, "y = Hardmax<axis = 2>(x)"),
    "BatchNormalization": ("BatchNormalization", 13, f"{VEC} y = BatchNormalization(x, c, c, c, c)"),
    "RoiAlign": ("RoiAlign", 15, f"{ROI} y = RoiAlign<output_height = 3, output_width = 2>(x, r, b)"),
    "GridSample": ("GridSample", 19, f"{GRID} y = GridSample<mode = \"bilinear\">(x, g0)"),
    "GridSample-cubic": ("GridSample", 19, f"{GRID} y = GridSample<mode = \"bicubic\">(x, g0)"),
    "DFT": ("DFT", 19, "a = Constant<value_ints = [4]>() u = Unsqueeze(x, a) y = DFT<axis = 2>(u)"),
    "DFT-default": ("DFT", 19, "a = Constant<value_ints = [4]>() u = Unsqueeze(x, a) y = DFT(u)"),
    **{f"Reduce{kind}": (f"Reduce{kind}", 17, f"p = Abs(x) y = Reduce{kind}<axes = [1, 3]>(p)")
       for kind in ("Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")},
}  # fmt: skip
"""(operator, opset, graph in that opset's form)"""


@pytest.mark.parametrize("name", OLD)
def test_the_raised_graph_means_the_same(name: str, rng: np.random.Generator) -> None:
    op, opset, body = OLD[name]
    (first,) = [since for kind, since in UPGRADES if kind == op and since > opset][:1]
    x = rng.standard_normal((2, 4, 5, 6)).astype(np.float32)
    want = Session(old(body, opset).SerializeToString()).run({"x": x})["y"]
    for target in (first, 21):
        model = load(old(body, opset))
        upgrade_opset(model, target)
        assert model.opset_imports[""] == target
        got = Session(to_bytes(model)).run({"x": x})["y"]
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("channels", ["4", "c"])
def test_numbers_of_groups_are_repeated_for_their_channels(channels: str, rng: np.random.Generator) -> None:
    """The scale is an initializer, the bias an input."""
    text = f"""<ir_version: 8, opset_import: ["" : 18]> g (float[2,{channels},3] x, float[2] b) => (float[] y)
        <float[2] s = {{0.5, 2.0}}> {{ y = GroupNormalization<num_groups = 2>(x, s, b) }}"""
    proto = onnx.parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    model = load(proto)
    upgrade_opset(model, 21)
    x, b = rng.standard_normal((2, 4, 3)).astype(np.float32), np.float32([1, -1])
    rows = x.reshape(2, 2, 6)
    normal = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + 1e-5)
    want = (normal * np.float32([0.5, 2]).reshape(2, 1) + b.reshape(2, 1)).reshape(x.shape)
    np.testing.assert_allclose(Session(to_bytes(model)).run({"x": x, "b": b})["y"], want, atol=1e-5)


def test_numbers_of_channels_stay_as_they_are() -> None:
    four = "c = Constant<value = float[4] {0.5, 1.0, 2.0, 3.0}>()"
    model = load(old(f"{four} y = GroupNormalization<num_groups = 2>(x, c, c)", 18))
    upgrade_opset(model, 21)
    assert [node.op_type for node in model.graph] == ["Constant", "GroupNormalization"]


def test_every_adapter_is_tested() -> None:
    tested = {
        (op, since)
        for op, opset, _ in OLD.values()
        for kind, since in set(UPGRADES) - set(EARLY)
        if op == kind and since > opset
    }
    assert tested | {("GroupNormalization", 21)} == set(UPGRADES) - set(EARLY)  # it has tests of its own


@pytest.mark.parametrize("axis", [1, 2])
def test_a_softmax_whose_rank_only_newer_forms_tell(axis: int, rng: np.random.Generator) -> None:
    """Before opset 13 ONNX follows no numbers through Slice; the output is declared without axes, as Paddle's
    exporter writes what it does not know."""
    body = f"""
        n = Constant<value_ints = [2]>() s = Constant<value_ints = [0]>() m = Constant<value_ints = [-1]>()
        all = Shape(x) two = Slice(all, s, n) shape = Concat<axis = 0>(two, m)
        rows = Reshape(x, shape) y = Softmax<axis = {axis}>(rows)
    """
    text = f'<ir_version: 4, opset_import: ["" : 12]> g (float[a,4,5,b] x) => (float[] y) {{ {body} }}'
    proto = onnx.parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.shape.SetInParent()
    x = rng.standard_normal((2, 4, 5, 6)).astype(np.float32)
    bare = onnx.ModelProto.FromString(proto.SerializeToString())
    bare.graph.output[0].type.tensor_type.ClearField("shape")
    want = Session(bare.SerializeToString()).run({"x": x})["y"]
    model = load(proto)
    upgrade_opset(model, 21)
    assert model.graph.outputs[0].shape is not None and len(model.graph.outputs[0].shape) == 3
    assert ("Flatten" in {node.op_type for node in model.graph}) == (axis == 1)
    got = Session(to_bytes(model)).run({"x": x})["y"]
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
