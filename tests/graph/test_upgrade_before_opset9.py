"""Files of opset 1 to 9 with older forms of operators: what `load` makes of them gives the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.graph.old_models import old as old_model
from tests.onnx_models import onnx_graph, onnx_model

from intact.errors import FileFormatError, UnsupportedError
from intact.graph import Session, load, to_bytes, upgrade_opset
from intact.graph.opset.upgrade_before_opset9 import EARLY
from intact.ptq import quantize

C4 = "c = Constant<value = float[4] {0.5, -1.0, 2.0, 1.5}>()"
AS_CHANNELS = "c = Constant<value = float[4, 1, 1] {0.5, -1.0, 2.0, 1.5}>()"
C45 = "c = Constant<value = float[4, 5] {" + ", ".join(f"{0.3 * k - 2:.1f}" for k in range(20)) + "}>()"
AS_ROWS = C45.replace("[4, 5]", "[4, 5, 1]")
POSITIVE = "c = Constant<value = float[4] {0.5, 1.0, 2.0, 1.5}>()"
TENTHS = ", ".join(f"{0.1 * k + 1:.1f}" for k in range(120))
PICTURE = f"c = Constant<value = float[4, 5, 6] {{{TENTHS}}}>()"
INDICES = "{} = Constant<value = int64[2] {{{}}}>()"
FIRST = "w = Slice<axes = [0, 1], starts = [0, 0], ends = [1, 1]>(x)"
BOUNDS = " ".join(INDICES.format(*bound) for bound in (("s", "1, 0"), ("e", "3, 2"), ("a", "2, 1")))


def recurrent(kind: str, gates: int, attributes: str) -> str:
    weights = [", ".join(f"{0.01 * (k % 17) - 0.08:.2f}" for k in range(2 * gates * n)) for n in (3, 2)]
    shape = "n = Constant<value = int64[3] {16, 5, 3}>() z = Reshape(x, n)"
    w, r = (
        f"{name} = Constant<value = float[1, {2 * gates}, {n}] {{{numbers}}}>()"
        for name, n, numbers in zip("wr", (3, 2), weights, strict=True)
    )
    return f"{w} {r} {shape} y = {kind}<hidden_size = 2{attributes}>(z, w, r)"


OVERWRITING = {
    "Abs": "", "Ceil": "", "Clip": "min = -0.5, max = 0.75", "Elu": "alpha = 0.5", "Exp": "", "Floor": "",
    "HardSigmoid": "alpha = 0.3, beta = 0.4", "LeakyRelu": "alpha = 0.2", "Neg": "", "Relu": "",
    "Selu": "alpha = 1.5, gamma = 1.25", "Sigmoid": "", "Tanh": "", "Dropout": "ratio = 0.75, is_test = 1",
}  # fmt: skip
OPERANDS = {
    "Add": f"{PICTURE} y = Add<%>(x, c)", "Sub": f"{PICTURE} y = Sub<%>(x, c)",
    "Mul": f"{PICTURE} y = Mul<%>(x, c)", "Div": f"{PICTURE} y = Div<%>(x, c)",
    **{kind: f"u = Softsign(x) y = {kind}<%>(x, u)" for kind in ("Max", "Min", "Sum", "Mean")},
    **{kind: f"u = Softplus(x) y = {kind}<%>(u)" for kind in ("Log", "Sqrt", "Reciprocal")},
    "InstanceNormalization": f"{POSITIVE} y = InstanceNormalization<%, epsilon = 0.01>(x, c, c)",
}  # fmt: skip
OVERWRITES = "consumed_inputs = [0]"

FORMS: dict[str, tuple[int, str, str]] = {
    **{kind: (1, f"y = {kind}<{', '.join(filter(None, (attributes, OVERWRITES)))}>(x)",
              f"y = {kind}<{attributes.partition(', is_test')[0]}>(x)".replace("<>", ""))
       for kind, attributes in OVERWRITING.items()},
    **{kind: (5, body.replace("%", OVERWRITES + ", broadcast = 1" * (kind in ("Add", "Sub", "Mul", "Div"))),
              body.replace("<%>", "").replace("%, ", ""))
       for kind, body in OPERANDS.items()},
    "Selu-default": (5, "y = Selu(x)", "y = Selu<alpha = 1.6732, gamma = 1.0507>(x)"),
    "Concat": (3, "y = Concat(x, x)", "y = Concat<axis = 1>(x, x)"),
    "Concat-axis": (1, "y = Concat<axis = 3>(x, x)", "y = Concat<axis = 3>(x, x)"),
    "Reshape": (4, "y = Reshape<shape = [0, -1, 3], consumed_inputs = [0]>(x)",
                "s = Constant<value = int64[3] {0, -1, 3}>() y = Reshape(x, s)"),
    "Pad": (1, 'y = Pad<mode = "edge", paddings = [0, 0, 1, 2, 0, 1, 0, 3]>(x)',
            'y = Pad<mode = "edge", pads = [0, 0, 1, 2, 0, 1, 0, 3]>(x)'),
    "Split": (1, "s = Constant<value = int64[2] {1, 3}>() y, z = Split<axis = 1>(x, s)",
              "y, z = Split<axis = 1, split = [1, 3]>(x)"),
    "Split-even": (1, "y, z = Split<axis = 3>(x)", "y, z = Split<axis = 3>(x)"),
    "Tile": (1, "t = Constant<value = float[1] {3.0}>() a = Constant<value = float {2.0}>() "
                "y = Tile(x, t, a)",
             "r = Constant<value = int64[4] {1, 1, 3, 1}>() y = Tile(x, r)"),
    "Cast": (5, 'u = Cast<to = "INT32">(x) y = Cast<to = "float">(u)',
             "u = Cast<to = 6>(x) y = Cast<to = 1>(u)"),
    "LpPool": (1, "y = LpPool<p = 3.0, kernel_shape = [2, 3]>(x)",
               "y = LpPool<p = 3, kernel_shape = [2, 3]>(x)"),
    "GlobalLpPool": (1, "y = GlobalLpPool<p = 1.0>(x)", "y = GlobalLpPool<p = 1>(x)"),
    "Add-along": (6, f"{C4} y = Add<axis = 1, broadcast = 1>(x, c)", f"{AS_CHANNELS} y = Add(x, c)"),
    "Sub-along-two": (6, f"{C45} y = Sub<axis = 1, broadcast = 1>(x, c)", f"{AS_ROWS} y = Sub(x, c)"),
    "Mul-from-the-end": (4, f"{C4} y = Mul<axis = -3, broadcast = 1>(x, c)", f"{AS_CHANNELS} y = Mul(x, c)"),
    "Div-by-one": (6, "c = Constant<value = float[1] {3.0}>() y = Div<axis = 0, broadcast = 1>(x, c)",
                   "c = Constant<value = float {3.0}>() y = Div(x, c)"),
    "Add-behind": (6, "u = GlobalMaxPool(x) v = Squeeze<axes = [2, 3]>(u) "
                      "y = Add<axis = 0, broadcast = 1>(x, v)",
                   "v = GlobalMaxPool(x) y = Add(x, v)"),
    "Add-suffix": (6, f"{FIRST} z = Squeeze<axes = [0, 1]>(w) y = Add<broadcast = 1>(x, z)",
                   f"{FIRST} y = Add(x, w)"),
    "Mul-behind-an-old-form": (1, f"{C4} u = Abs(x) v = Reshape<shape = [2, 4, 30]>(u) "
                                  "y = Mul<axis = 1, broadcast = 1>(v, c)",
                               "c = Constant<value = float[4, 1] {0.5, -1.0, 2.0, 1.5}>() u = Abs(x) "
                               "s = Constant<value = int64[3] {2, 4, 30}>() v = Reshape(u, s) y = Mul(v, c)"),
    "Pow": (6, f"{C4} u = Softplus(x) y = Pow<axis = 1, broadcast = 1>(u, c)",
            f"{AS_CHANNELS} u = Softplus(x) y = Pow(u, c)"),
    **{kind: (6, f"{C4} b = {kind}<axis = 1, broadcast = 1>(x, c) y = Cast<to = 1>(b)",
              f"{AS_CHANNELS} b = {kind}(x, c) y = Cast<to = 1>(b)") for kind in ("Greater", "Less")},
    "Equal": (6, "i = Constant<value = int32[4] {0, 1, -1, 0}>() u = Cast<to = 6>(x) "
                 "b = Equal<axis = 1, broadcast = 1>(u, i) y = Cast<to = 1>(b)",
              "i = Constant<value = int32[4, 1, 1] {0, 1, -1, 0}>() u = Cast<to = 6>(x) "
              "b = Equal(u, i) y = Cast<to = 1>(b)"),
    **{kind: (6, "i = Constant<value = bool[4] {0, 1, 1, 0}>() u = Cast<to = 9>(x) "
                 f"b = {kind}<axis = 1, broadcast = 1>(u, i) y = Cast<to = 1>(b)",
              "i = Constant<value = bool[4, 1, 1] {0, 1, 1, 0}>() u = Cast<to = 9>(x) "
              f"b = {kind}(u, i) y = Cast<to = 1>(b)") for kind in ("And", "Or", "Xor")},
    "BatchNormalization": (5, f"{POSITIVE} y = BatchNormalization<consumed_inputs = [0, 0, 0, 1, 1], "
                              "is_test = 1, epsilon = 0.01>(x, c, c, c, c)",
                           f"{POSITIVE} y = BatchNormalization<epsilon = 0.01>(x, c, c, c, c)"),
    "BatchNormalization-silent": (6, f"{POSITIVE} y = BatchNormalization(x, c, c, c, c)",
                                  f"{POSITIVE} y = BatchNormalization(x, c, c, c, c)"),
    "BatchNormalization-spatial": (8, f"{POSITIVE} y = BatchNormalization<spatial = 1>(x, c, c, c, c)",
                                   f"{POSITIVE} y = BatchNormalization(x, c, c, c, c)"),
    "Dropout-silent": (6, "y = Dropout(x)", "y = Identity(x)"),
    "PRelu": (6, f"{C4} y = PRelu(x, c)", f"{AS_CHANNELS} y = PRelu(x, c)"),
    "PRelu-one": (1, "c = Constant<value = float[1] {0.3}>() y = PRelu<consumed_inputs = [0]>(x, c)",
                  "c = Constant<value = float[1] {0.3}>() y = PRelu(x, c)"),
    "Gemm": (6, "c = Constant<value = float[2] {0.5, -1.0}>() u = Flatten(x) "
                "y = Gemm<broadcast = 1, transB = 1, alpha = 0.5>(u, u, c)",
             "c = Constant<value = float[2] {0.5, -1.0}>() u = Flatten(x) "
             "y = Gemm<transB = 1, alpha = 0.5>(u, u, c)"),
    "RNN": (6, recurrent("RNN", 1, ", output_sequence = 1"), recurrent("RNN", 1, "")),
    "GRU": (6, recurrent("GRU", 3, ", output_sequence = 1"), recurrent("GRU", 3, "")),
    "LSTM": (6, recurrent("LSTM", 4, ", output_sequence = 0"), recurrent("LSTM", 4, "")),
    "Upsample": (6, 'y = Upsample<mode = "nearest", height_scale = 2.0, width_scale = 1.5>(x)',
                 "s = Constant<value = float[4] {1.0, 1.0, 2.0, 1.5}>() y = Upsample(x, s)"),
}  # fmt: skip
"""Forms that newer runtimes dropped: opset, graph in its form, the same graph in the form of opset 9."""

RUNNING: dict[str, tuple[int, str]] = {
    "Upsample": (7, 'y = Upsample<mode = "linear", scales = [1.0, 1.0, 2.0, 2.0]>(x)'),
    "BatchNormalization": (7, f"{PICTURE} "
                              "y = BatchNormalization<spatial = 0, epsilon = 0.01>(x, c, c, c, c)"),
    "BatchNormalization-of-rows": (8, f"c = Constant<value = float[120] {{{TENTHS}}}>() u = Flatten(x) "
                                      "y = BatchNormalization<spatial = 0>(u, c, c, c, c)"),
    "MeanVarianceNormalization": (7, "y = MeanVarianceNormalization(x)"),
    "MeanVarianceNormalization-across": (8, "y = MeanVarianceNormalization<across_channels = 1>(x)"),
    "MeanVarianceNormalization-mean": (7, "y = MeanVarianceNormalization<normalize_variance = 0>(x)"),
    "Affine": (7, "y = Affine<alpha = 0.5, beta = -2.0>(x)"),
    "Affine-idle": (9, "y = Affine(x)"),
    "Crop": (7, "y = Crop<border = [1, 2, 2, 0]>(x)"),
    "Crop-size": (9, "y = Crop<border = [1, 2, 2, 0], scale = [2, 3]>(x)"),
    "DynamicSlice": (9, f"{BOUNDS} y = DynamicSlice(x, s, e, a)"),
    "ImageScaler": (7, "y = ImageScaler<scale = 0.5, bias = [1.0, -1.0, 2.0, 3.0]>(x)"),
    "ParametricSoftplus": (9, "y = ParametricSoftplus<alpha = 2.0, beta = 0.5>(x)"),
    "Scale": (8, "y = Scale<scale = 0.25>(x)"),
    "ScaledTanh": (7, "y = ScaledTanh<alpha = 2.0, beta = 0.5>(x)"),
    "ThresholdedRelu": (9, "y = ThresholdedRelu<alpha = 0.25>(x)"),
    "Dropout": (7, "y, z = Dropout<ratio = 0.75>(x)"),
    "all-of-a-converter": (7, "a = ImageScaler<scale = 0.5, bias = [1.0, -1.0, 2.0, 3.0]>(x) "
                              "b = Crop<border = [1, 1, 1, 1]>(a) c = Tanh(b) y = Affine<alpha = 127.5>(c)"),
}  # fmt: skip
"""Forms that ONNX Runtime still runs."""


def outputs(proto: onnx.ModelProto | bytes, x: np.ndarray) -> np.ndarray:
    data = proto if isinstance(proto, bytes) else proto.SerializeToString()
    return Session(data).run({"x": x})["y"]


@pytest.mark.parametrize("name", FORMS)
def test_a_forgotten_form_means_what_its_newer_one_does(name: str, rng: np.random.Generator) -> None:
    opset, old, new = FORMS[name]
    x = rng.standard_normal((2, 4, 5, 6)).astype(np.float32)
    lifted = load(old_model(old, opset, ir_version=3))
    assert lifted.opset_imports[""] == 9
    want = outputs(old_model(new, 9, ir_version=3), x)
    got = outputs(to_bytes(lifted), x)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", RUNNING)
def test_a_form_that_still_runs_gives_the_same(name: str, rng: np.random.Generator) -> None:
    opset, old = RUNNING[name]
    x = rng.standard_normal((2, 4, 5, 6)).astype(np.float32)
    want = outputs(old_model(old, opset, ir_version=3), x)
    lifted = load(old_model(old, opset, ir_version=3))
    assert 9 <= lifted.opset_imports[""] <= 10
    got = outputs(to_bytes(lifted), x)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


def test_every_early_form_is_tested() -> None:
    tested = {(name.split("-")[0], opset) for name, (opset, _, _) in FORMS.items()}
    tested |= {(name.split("-")[0], opset) for name, (opset, _) in RUNNING.items()}
    reached = {(kind, first) for kind, first in EARLY for op, opset in tested if op == kind and opset < first}
    assert reached | {("Scan", 9)} == set(EARLY)


@pytest.mark.parametrize("directions", [None, [0, 1]])
def test_a_scan_over_a_batch_becomes_one_within_another(
    directions: list[int] | None, rng: np.random.Generator
) -> None:
    def row(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])

    nodes = [helper.make_node("Add", ["s", "a"], ["t"]), helper.make_node("Mul", ["t", "b"], ["o"])]
    body = onnx_graph(nodes, [row("s"), row("a"), row("b")], [row("t"), row("o")], name="body")
    options: dict[str, Any] = {} if directions is None else {"directions": directions}
    options |= {"body": body, "num_scan_inputs": 2}
    scan = helper.make_node("Scan", ["", "s0", "x", "z"], ["last", "y"], **options)
    shapes = {"s0": (3, 4), "x": (3, 5, 4), "z": (3, 5, 4), "last": (3, 4), "y": (3, 5, 4)}
    infos = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in shapes.items()}
    proto = onnx_model(
        [scan], [infos[n] for n in ("s0", "x", "z")], [infos[n] for n in ("last", "y")], opset=8, ir_version=3
    )
    feeds = {n: rng.standard_normal(shapes[n]).astype(np.float32) for n in ("s0", "x", "z")}
    want = Session(proto.SerializeToString()).run(feeds)
    got = Session(to_bytes(load(proto))).run(feeds)
    assert list(got) == list(want)
    for name in want:
        np.testing.assert_array_equal(got[name], want[name])


LENGTHS = (
    "l = Constant<value = int64[2] {5, 3}>() "
    "y = Scan<num_scan_inputs = 1, body = b (float[5,6] e) => (float[5,6] f) { f = Abs(e) }>(l, x)"
)


@pytest.mark.parametrize(
    ("opset", "body", "message"),
    [
        (6, f"{C4} k, v = TopK<k = 2>(x) s = Cast<to = 7>(v) u = Reshape(x, s) "
            "y = Add<axis = 1, broadcast = 1>(u, c)", r"\(Add\).*an unknown rank"),
        (6, f"{C45} y = Mul<axis = 3, broadcast = 1>(x, c)", r"\(Mul\).*2 axes along axis 3 of 4"),
        (6, f"{C4} y, z = BatchNormalization(x, c, c, c, c) u = Abs(z)",
         r"\(BatchNormalization\).*statistics"),
        (1, "y = LpPool<p = 1.5, kernel_shape = [2, 2]>(x)", r"\(LpPool\).*the power 1\.5"),
        (1, "y = GlobalLpPool<p = 0.5>(x)", r"\(GlobalLpPool\).*the power 0\.5"),
        (1, 'y = Cast<to = "WORDS">(x)', r"\(Cast\).*the type 'WORDS'"),
        (1, "y = Reshape(x)", r"\(Reshape\).*no shape"),
        (1, "t = Shape(x) y = Tile(x, t, t)", r"\(Tile\).*a computed input 1"),
        (1, "t = Constant<value = float[1] {2.5}>() y = Tile(x, t, t)", r"\(Tile\).*an input 1 of \[2\.5\]"),
        (1, "t = Constant<value = float[1] {4.0}>() y = Tile(x, t, t)", r"\(Tile\).*axis 4 of 4"),
        (8, "z, y = Dropout(x)", r"\(Dropout\).*its mask"),
        (8, LENGTHS, r"\(Scan\).*sequences of their own lengths"),
        (9, "y = Crop<border = [1, 2]>(x)", r"\(Crop\).*border"),
        (9, "y = Crop<border = [1, 2, 3, -4]>(x)", r"\(Crop\).*border"),
    ],
    ids=["rank", "too-many-axes", "training", "power", "global-power", "type", "no-shape", "tiles", "part",
         "axis", "mask", "lengths", "border", "negative"],
)  # fmt: skip
def test_what_no_newer_form_says_is_refused_by_its_node(opset: int, body: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        upgrade_opset(load(old_model(body, opset, ir_version=3)), 13)


@pytest.mark.parametrize("body", ["y = Affine()", "y = ImageScaler()", "y = Crop()", "y, z = Scale(x)"])
def test_an_operator_that_nobody_counted_the_ports_of(body: str) -> None:
    with pytest.raises(FileFormatError, match=r"inputs and \d outputs"):
        load(old_model(body, 7, ir_version=3))


def test_branches_come_along(rng: np.random.Generator) -> None:
    body = """
        f = Constant<value = bool {1}>()
        y = If<then_branch = a () => (float[2,4,5,6] p) {
                   c = Constant<value = float[4] {0.5, -1.0, 2.0, 1.5}>()
                   p = Add<axis = 1, broadcast = 1>(x, c)
               },
               else_branch = b () => (float[2,4,5,6] q) { q = Abs(x) }>(f)
    """
    x = rng.standard_normal((2, 4, 5, 6)).astype(np.float32)
    want = x + np.array([0.5, -1.0, 2.0, 1.5], np.float32).reshape(4, 1, 1)
    np.testing.assert_array_equal(outputs(to_bytes(load(old_model(body, 6, ir_version=3))), x), want)


def old_network(rng: np.random.Generator) -> onnx.ModelProto:
    """As exporters wrote them in 2017: weights are inputs too, biases are added along an axis."""
    weights: dict[str, np.ndarray] = {
        "w": rng.standard_normal((8, 4, 3, 3)).astype(np.float32) / 6,
        "b": rng.standard_normal(8).astype(np.float32),
        "v": rng.standard_normal((3, 240)).astype(np.float32) / 15,
        "d": rng.standard_normal(3).astype(np.float32),
        "one": np.ones(8, np.float32),
    }
    make = helper.make_node
    nodes = [
        make("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        make("Add", ["c", "b"], ["a"], axis=1, broadcast=1),
        make("BatchNormalization", ["a", "one", "b", "b", "one"], ["n"], is_test=1, consumed_inputs=[0] * 5),
        make("Relu", ["n"], ["r"], consumed_inputs=[0]),
        make("Dropout", ["r"], ["o"], is_test=1),
        make("Reshape", ["o"], ["f"], shape=[-1, 240]),
        make("Gemm", ["f", "v", "d"], ["y"], transB=1, broadcast=1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, 5, 6])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    stored = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    also = [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in stored]
    return onnx_model(nodes, [x, *also], [y], stored, opset=4, ir_version=3)


def test_an_old_network_is_quantized_and_runs(rng: np.random.Generator) -> None:
    import intact

    proto = old_network(rng)
    feeds = [{"x": rng.standard_normal((2, 4, 5, 6)).astype(np.float32)} for _ in range(4)]
    w, b, v, d = (onnx.numpy_helper.to_array(t) for t in proto.graph.initializer[:4])
    x = np.pad(feeds[0]["x"], ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    convolved = np.einsum("nchwij,ocij->nohw", windows, w) + b.reshape(8, 1, 1)
    normal = (convolved - b.reshape(8, 1, 1)) / np.sqrt(1 + 1e-5) + b.reshape(8, 1, 1)
    want = np.maximum(normal, 0).reshape(2, 240) @ v.T + d
    floating = Session(to_bytes(load(proto))).run(feeds[0])["y"]
    np.testing.assert_allclose(floating, want, rtol=1e-4, atol=1e-4)
    written = quantize(proto, feeds, progress=False)
    codes = intact.compile(written, threads=1).run(feeds[0])["y"]
    np.testing.assert_array_equal(intact.compile(written, backend="reference").run(feeds[0])["y"], codes)
    assert np.square(codes - want).sum() < 1e-3 * np.square(want).sum()
    assert "Unsqueeze" not in {node.op_type for node in load(proto).graph}, "biases are stored as they lie"
