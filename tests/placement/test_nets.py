"""Networks of every kind that users bring: placed, read back after emission, and never a crash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_graph

from intact.graph import Mark, emit_qdq, load, mark
from intact.placement import PROFILES, Placement, check, place, read_placement
from intact.placement.pair_warnings import remarks_on
from intact.placement.pairs import Pairs
from intact.placement.placement_graph import View
from intact.spec import QuantSpec


def basic_blocks(n: Any) -> list[str]:
    """A ResNet's stem, an identity block, a downsampling block and its head."""
    x = n.conv(n.input("x", [1, 3, 32, 32]), 16, 7, name="stem", bn=True, act="Relu", stride=2)
    x = n.node("MaxPool", x, name="pool", kernel_shape=[2, 2], strides=[2, 2])
    y = n.conv(n.conv(x, 16, name="a1", bn=True, act="Relu"), 16, name="a2", bn=True)
    x = n.act(n.node("Add", y, x, name="a.add"), "Relu", "a.relu")
    y = n.conv(n.conv(x, 32, name="b1", bn=True, act="Relu", stride=2), 32, name="b2", bn=True)
    down = n.conv(x, 32, 1, name="b.down", bn=True, stride=2)
    x = n.act(n.node("Add", y, down, name="b.add"), "Relu", "b.relu")
    x = n.node("Flatten", n.node("GlobalAveragePool", x, name="gap"), name="flat")
    return [n.linear(x, 32, 10, name="fc", gemm=True)]


def bottleneck(n: Any) -> list[str]:
    """With the Add's operands the other way round, and BatchNorm folded."""
    x = n.conv(n.input("x", ["N", 16, 8, 8]), 64, 1, name="stem", act="Relu")
    y = n.conv(x, 16, 1, name="c1", act="Relu")
    y = n.conv(n.conv(y, 16, name="c2", act="Relu"), 64, 1, name="c3")
    x = n.act(n.node("Add", x, y, name="add"), "Relu", "relu")
    return [n.conv(x, 16, 1, name="next")]


def inception(n: Any) -> list[str]:
    """Three branches into a Concat, one of them pooled."""
    x = n.conv(n.input("x", [1, 3, 16, 16]), 16, name="stem", act="Relu")
    a = n.conv(x, 16, 1, name="a", act="Relu")
    b = n.conv(n.conv(x, 16, 1, name="b1", act="Relu"), 16, name="b2", act="Relu")
    p = n.node("AveragePool", x, name="avg", kernel_shape=[3, 3], pads=[1] * 4)
    c = n.conv(p, 16, 1, name="c", act="Relu")
    y = n.node("Concat", a, b, c, name="cat", axis=1)
    n._channels[y] = 48
    return [n.conv(y, 16, 1, name="next")]


def u_net(n: Any) -> list[str]:
    x = n.input("x", [1, 16, 16, 16])
    skip = n.conv(x, 16, name="enc", act="Relu")
    y = n.node("MaxPool", skip, name="pool", kernel_shape=[2, 2], strides=[2, 2])
    y = n.conv(y, 32, name="mid", act="Relu")
    y = n.node("ConvTranspose", y, n.random("up.w", 32, 16, 2, 2), name="up", strides=[2, 2])
    y = n.node("Concat", y, skip, name="cat", axis=1)
    n._channels[y] = 32
    y = n.conv(y, 16, name="dec", act="Relu")
    return [n.act(n.conv(y, 1, 1, name="head"), "Sigmoid", "mask")]


def build_inverted_residual(n: Any) -> list[str]:
    """MobileNetV2: depthwise, Relu6, a linear bottleneck, and the mean as ReduceMean."""
    x = n.conv(n.input("x", [1, 16, 8, 8]), 24, 1, name="in")
    y = n.conv(x, 96, 1, name="expand", act="Relu6")
    y = n.conv(y, 96, name="depth", act="Relu6", group=96)
    y = n.node("Add", x, n.conv(y, 24, 1, name="project"), name="add")
    y = n.conv(y, 48, 1, name="last", act="Relu6")
    y = n.node("ReduceMean", y, name="mean", axes=[2, 3], keepdims=0)
    return [n.linear(y, 48, 32, name="fc", gemm=True)]


def squeeze_excite(n: Any) -> list[str]:
    x = n.conv(n.input("x", [1, 16, 8, 8]), 32, name="in", act="Silu")
    s = n.node("GlobalAveragePool", x, name="gap")
    s = n.conv(n.conv(s, 16, 1, name="reduce", act="Relu"), 32, 1, name="expand", act="Sigmoid")
    x = n.node("Mul", x, s, name="scale")
    return [n.conv(x, 32, 1, name="next", act="HardSwish" if n.domains[""] >= 14 else "Relu")]


def heads(n: Any, x: str, width: int, count: int, name: str, perm: list[int]) -> str:
    x = n.node("Reshape", x, n.shape(f"{name}.shape", 0, 0, count, width // count), name=f"{name}.split")
    return str(n.node("Transpose", x, name=f"{name}.perm", perm=perm))


def erf_gelu(n: Any, x: str, name: str) -> str:
    def scalar(key: str, value: float) -> str:
        return str(n.weight(f"{name}.{key}.value", np.array(value, np.float32)))

    y = n.node("Erf", n.node("Div", x, scalar("root", 2**0.5), name=f"{name}.div"), name=f"{name}.erf")
    y = n.node("Mul", x, n.node("Add", y, scalar("one", 1.0), name=f"{name}.add"), name=f"{name}.gate")
    return str(n.node("Mul", y, scalar("half", 0.5), name=f"{name}.half"))


def build_decomposed_norm(n: Any, x: str, width: int, name: str) -> str:
    """LayerNormalization as exporters wrote it before opset 17."""
    d = n.node("Sub", x, n.node("ReduceMean", x, name=f"{name}.mean", axes=[-1]), name=f"{name}.centre")
    two, small = (n.weight(f"{name}.{k}", np.array(v, np.float32)) for k, v in (("two", 2.0), ("eps", 1e-5)))
    v = n.node("ReduceMean", n.node("Pow", d, two, name=f"{name}.square"), name=f"{name}.var", axes=[-1])
    s = n.node("Sqrt", n.node("Add", v, small, name=f"{name}.eps.add"), name=f"{name}.root")
    y = n.node(
        "Mul", n.node("Div", d, s, name=f"{name}.div"), n.random(f"{name}.w", width), name=f"{name}.mul"
    )
    return str(n.node("Add", y, n.random(f"{name}.b", width), name=f"{name}.add"))


def encoder(n: Any, modern: bool) -> list[str]:
    """One layer of a transformer, norm behind; `modern` as torch's dynamo exporter writes it."""
    width, count, rows = 64, 4, 20
    x = n.input("x", ["N", rows, width])
    mask = n.input("mask", ["N", 1, 1, rows])
    q, k, v = (heads(n, n.linear(x, width, width, name=f"{p}"), width, count, p, perm)
               for p, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])))  # fmt: skip
    root = n.weight("root", np.array(4.0 if not modern else 0.5, np.float32))
    if modern:
        q, k = n.node("Mul", q, root, name="q.scaled"), n.node("Mul", k, root, name="k.scaled")
        scores = n.node("MatMul", q, k, name="qk")
    else:
        scores = n.node("Div", n.node("MatMul", q, k, name="qk"), root, name="qk.scaled")
    scores = n.node("Add", scores, mask, name="masked")
    y = n.node("MatMul", n.node("Softmax", scores, name="softmax", axis=-1), v, name="pv")
    y = n.node("Transpose", y, name="merge.perm", perm=[0, 2, 1, 3])
    y = n.node("Reshape", y, n.shape("merge.shape", 0, 0, width), name="merge")
    y = n.node("Add", x, n.linear(y, width, width, name="o"), name="add1")
    x = norm(n, y, width, "norm1", modern)
    y = n.linear(x, width, 128, name="up")
    y = n.node("Gelu", y, name="gelu") if modern else erf_gelu(n, y, "gelu")
    y = n.node("Add", x, n.linear(y, 128, width, name="down"), name="add2")
    return [norm(n, y, width, "norm2", modern)]


def norm(n: Any, x: str, width: int, name: str, modern: bool) -> str:
    if not modern:
        return build_decomposed_norm(n, x, width, name)
    weights = n.random(f"{name}.w", width), n.random(f"{name}.b", width)
    return str(n.node("LayerNormalization", x, *weights, name=name))


def detection_head(n: Any) -> list[str]:
    """Two scales, upsampled and joined; boxes and scores reshaped, sorted out by NonMaxSuppression."""
    x = n.conv(n.input("x", [1, 16, 16, 16]), 32, name="p3", act="Silu")
    y = n.conv(x, 32, name="p4", act="Silu", stride=2)
    up = n.node("Resize", y, "", n.weight("scales", np.float32([1, 1, 2, 2])), name="up", mode="nearest")
    x = n.node("Concat", up, x, name="cat", axis=1)
    n._channels[x] = 64
    x = n.conv(x, 32, 1, name="fuse", act="Silu")
    boxes = n.node("Reshape", n.conv(x, 4, 1, name="box"), n.shape("s4", 1, 4, -1), name="box.flat")
    boxes = n.node("Transpose", boxes, name="boxes", perm=[0, 2, 1])
    scores = n.act(n.conv(x, 5, 1, name="cls"), "Sigmoid", "cls.act")
    scores = n.node("Reshape", scores, n.shape("s5", 1, 5, -1), name="scores")
    n.node("NonMaxSuppression", boxes, scores, name="nms")
    return [boxes, scores, "nms#"]


def lstm(n: Any) -> list[str]:
    x = n.linear(n.input("x", ["T", 1, 32]), 32, 32, name="in")
    w, r = n.random("lstm.w", 1, 64, 32), n.random("lstm.r", 1, 64, 16)
    y, _, _ = n.node("LSTM", x, w, r, name="lstm", outputs=3, hidden_size=16)
    y = n.node("Squeeze", y, n.shape("ax", 1), name="squeeze")
    return [n.linear(y, 16, 32, name="out")]


def control_flow(n: Any) -> list[str]:
    """An If that reads a value of the main graph, with a convolution inside."""
    x = n.conv(n.input("x", [1, 16, 8, 8]), 16, name="c1", act="Relu")
    flag = n.input("flag", [], TensorProto.BOOL)
    w = n.random("inner.w", 16, 16, 1, 1)
    out = [helper.make_tensor_value_info("branch", TensorProto.FLOAT, None)]
    yes = onnx_graph([helper.make_node("Conv", [x, w], ["branch"], "inner")], (), out, name="yes")
    no = onnx_graph([helper.make_node("Identity", [x], ["branch"], "same")], (), out, name="no")
    y = n.node("If", flag, name="if", then_branch=yes, else_branch=no)
    n._channels[y] = 16
    return [n.conv(y, 16, name="c2")]


def loop(n: Any) -> list[str]:
    x = n.conv(n.input("x", [1, 16, 8, 8]), 16, name="c1")
    trips = n.weight("trips", np.array(3, np.int64))
    body = onnx_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"], "keep"),
            helper.make_node("Add", ["s", x], ["s_out"], "sum"),
        ],
        {"i": (TensorProto.INT64, []), "go": (TensorProto.BOOL, []), "s": None},
        {"go_on": (TensorProto.BOOL, []), "s_out": None},
        name="body",
    )
    y = n.node("Loop", trips, "", x, name="loop", body=body)
    n._channels[y] = 16
    return [n.conv(y, 16, name="c2")]


def custom_domain(n: Any) -> list[str]:
    n.domains["acme"] = 1
    x = n.conv(n.input("x", [1, 16, 8, 8]), 16, name="c1", act="Relu")
    y = n.node("Sharpen", x, name="sharpen", domain="acme")
    n._channels[y] = 16
    return [n.conv(y, 16, name="c2")]


NETS: dict[str, tuple[Callable[[Any], list[str]], int]] = {
    "basic_blocks": (basic_blocks, 13),
    "bottleneck": (bottleneck, 17),
    "inception": (inception, 13),
    "u_net": (u_net, 17),
    "inverted_residual": (build_inverted_residual, 13),
    "squeeze_excite": (squeeze_excite, 17),
    "encoder_older": (lambda n: encoder(n, modern=False), 13),
    "encoder_dynamo": (lambda n: encoder(n, modern=True), 20),
    "detection_head": (detection_head, 13),
    "lstm": (lstm, 14),
    "control_flow": (control_flow, 17),
    "loop": (loop, 17),
    "custom_domain": (custom_domain, 17),
}


@pytest.fixture(params=list(NETS))
def proto(request: pytest.FixtureRequest, net: Callable[..., Any]) -> onnx.ModelProto:
    write, opset = NETS[request.param]
    n = net(opset)
    result: onnx.ModelProto = n.proto(*write(n))
    return result


def emit(proto: onnx.ModelProto, placement: Placement) -> ir.Model:
    """The graph with a pair on every site; a range for each group."""
    model = load(proto)
    shapes = {v.name: v.shape for v in model.graph.initializers.values()}
    marks = []
    for site in placement.sites:
        shape = shapes.get(site.value) if site.axis is not None else None
        size = () if shape is None or site.axis is None else int(shape[site.axis])
        amax = np.full(size, 1.0 + site.group, np.float32)
        marks.append(Mark(site.value, site.readers, QuantSpec(axis=site.axis if amax.ndim else None), amax))
    mark(model, marks)
    emit_qdq(model, 21)
    return model


def essence(placement: Placement) -> list[tuple[object, ...]]:
    return [(x.name, x.op_type, x.nodes, x.precision, x.fused) for x in placement.layers]


@pytest.mark.parametrize("profile", list(PROFILES))
def test_what_is_emitted_reads_back_as_it_was_placed(proto: onnx.ModelProto, profile: str) -> None:
    placed = place(load(proto), profile)
    assert essence(read_placement(emit(proto, placed), profile)) == essence(placed)


def activation_sites(placement: Placement) -> list[tuple[object, ...]]:
    """Sites without weights, whose stored codes have names of their own; groups counted anew."""
    numbers: dict[int, int] = {}
    return [
        (s.value, s.readers, s.axis, numbers.setdefault(s.group, len(numbers)))
        for s in placement.sites
        if s.role == "activation"
    ]


@pytest.mark.parametrize("profile", list(PROFILES))
def test_pairs_read_back_as_the_sites_that_asked_for_them(proto: onnx.ModelProto, profile: str) -> None:
    placed = place(load(proto), profile)
    read = read_placement(emit(proto, placed), profile)
    assert activation_sites(read) == activation_sites(placed)
    assert sum(s.role == "weight" for s in read.sites) == sum(s.role == "weight" for s in placed.sites)


def test_what_is_placed_gives_no_cause_for_remarks(proto: onnx.ModelProto) -> None:
    view = View(emit(proto, place(load(proto))))
    assert remarks_on(view, Pairs(view), PROFILES["intact"]) == []


def test_every_node_is_in_exactly_one_layer(proto: onnx.ModelProto) -> None:
    model = load(proto)
    placed = [name for layer in place(model).layers for name in layer.nodes]
    assert sorted(placed) == sorted(node.name or "" for node in model.graph)
    assert all(layer.reason for layer in place(model).layers)


def test_the_same_graph_is_placed_the_same(proto: onnx.ModelProto) -> None:
    assert place(load(proto)) == place(load(proto))


def test_what_is_placed_passes_the_check(proto: onnx.ModelProto) -> None:
    assert check(emit(proto, place(load(proto), "tensorrt")), "tensorrt") == []
