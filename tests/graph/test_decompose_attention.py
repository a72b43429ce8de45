"""Attention in one node becomes products and a Softmax that compute the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

import intact
from intact import graph
from intact.engine.steps import FallbackSubgraph
from intact.graph.rewrites.decompose_attention import ATTENTION

B, S, T, D, W = 2, 5, 7, 4, 6  # samples, queries, keys, sizes of a key and of a value


def attention(
    q_heads: int = 2,
    k_heads: int = 2,
    *,
    joined: bool = False,
    mask: np.ndarray | None = None,
    lengths: np.ndarray | None = None,
    past: int = 0,
    outputs: int = 1,
    opset: int = 23,
    sizes: bool = True,
    left_out: bool = False,
    **attributes: object,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one node, and what to run it on."""
    rng = np.random.default_rng(3)
    feeds = {
        "q": rng.normal(size=(B, q_heads, S, D)), "k": rng.normal(size=(B, k_heads, T, D)),
        "v": rng.normal(size=(B, k_heads, T, W)),
    }  # fmt: skip
    if joined:
        feeds = {name: x.transpose(0, 2, 1, 3).reshape(B, x.shape[2], -1) for name, x in feeds.items()}
        attributes |= {"q_num_heads": q_heads, "kv_num_heads": k_heads}
    feeds = {name: x.astype(np.float32) for name, x in feeds.items()}
    if mask is not None:
        feeds["mask"] = mask
    if past:
        feeds |= {"k0": np.float32(rng.normal(size=(B, k_heads, past, D))),
                  "v0": np.float32(rng.normal(size=(B, k_heads, past, W)))}  # fmt: skip
    if lengths is not None:
        feeds["lengths"] = lengths
    order = ("q", "k", "v", "mask", "k0", "v0", "lengths")
    names = [name if name in feeds else "" for name in order]
    while not names[-1]:
        names.pop()
    output_names = ["y", "keys", "values", "scores"][:outputs]
    if left_out:
        output_names[1:3] = ["", ""]
    node = helper.make_node("Attention", names, output_names, "attention", **attributes)
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape if sizes else [None] * x.ndim
        )
        for name, x in feeds.items()
    ]  # fmt: skip
    ranks = (3 if joined else 4, 4, 4, 4)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * rank)
        for name, rank in zip(output_names, ranks, strict=False)
        if name
    ]
    proto = onnx_model([node], inputs, ends, opset=opset, ir_version=11)
    return proto, feeds


def attention_formula(
    feeds: dict[str, np.ndarray], q_heads: int, k_heads: int, joined: bool, **attributes: float
) -> dict[str, np.ndarray]:
    """The formula of the operator, head by head."""
    x = {name: feeds[name] for name in "qkv"}
    if joined:
        counts = {"q": q_heads, "k": k_heads, "v": k_heads}
        x = {n: a.reshape(B, a.shape[1], counts[n], -1).transpose(0, 2, 1, 3) for n, a in x.items()}
    past = feeds["k0"].shape[2] if "k0" in feeds else 0
    keys = np.concatenate([feeds["k0"], x["k"]], 2) if past else x["k"]
    values = np.concatenate([feeds["v0"], x["v"]], 2) if past else x["v"]
    total = keys.shape[2]
    y, scores = np.zeros((B, q_heads, S, W), np.float32), np.zeros((B, q_heads, S, total), np.float32)
    bias = np.zeros((B, q_heads, S, total), np.float32)
    if "mask" in feeds:
        mask = feeds["mask"]
        bias = bias + (np.where(mask, 0, -np.inf) if mask.dtype == bool else mask).astype(np.float32)
    ahead = np.arange(total)[None, :] - np.arange(past, past + S)[:, None]
    if "lengths" in feeds:
        ends = feeds["lengths"].reshape(-1, 1, 1, 1)
        bias = np.where(np.arange(total) < ends, bias, -np.inf)
        ahead = ahead - (ends - S)
    if attributes.get("is_causal"):
        bias = np.where(ahead <= 0, bias, -np.inf)
    if "left_window_size" in attributes:
        bias = np.where(-ahead <= attributes["left_window_size"], bias, -np.inf)
    for h in range(q_heads):
        shared = h // (q_heads // k_heads)
        s = np.einsum("bid,bjd->bij", x["q"][:, h], keys[:, shared]) * attributes.get("scale", D**-0.5)
        scores[:, h] = s
        cap = attributes.get("softcap", 0)
        s = cap * np.tanh(s / cap) if cap else s
        s = s + bias[:, h]
        with np.errstate(invalid="ignore"):
            e = np.exp(s - s.max(-1, keepdims=True))
            weights = np.nan_to_num(e / e.sum(-1, keepdims=True))
        if attributes.get("qk_matmul_output_mode") == 3:
            scores[:, h] = weights
        y[:, h] = weights @ values[:, shared]
    if joined:
        y = y.transpose(0, 2, 1, 3).reshape(B, S, -1)
    return {"y": y, "keys": keys, "values": values, "scores": scores}


RNG = np.random.default_rng(8)
NOTHING = RNG.random((S, T)) < 0.7
NOTHING[2] = False  # a query that may attend to nothing
CASES = {
    "plain": {},
    "cross, joined": {"joined": True},
    "queries share keys": {"q_heads": 6, "k_heads": 2},
    "queries share keys, joined": {"q_heads": 6, "k_heads": 3, "joined": True},
    "scale": {"scale": 0.3},
    "softcap": {"softcap": 0.4, "mask": np.float32(RNG.normal(size=(B, 1, S, T)))},
    "causal": {"is_causal": 1},
    "causal, past": {"is_causal": 1, "past": 3, "outputs": 3},
    "past, joined": {"past": 2, "joined": True, "outputs": 3},
    "no past, present": {"outputs": 3},
    "bool mask": {"mask": NOTHING},
    "real mask": {"mask": np.float32(RNG.normal(size=(2, S, T)))},
    "whole mask": {"mask": RNG.integers(-2, 3, (B, 2, S, T))},
    "causal and mask": {"is_causal": 1, "mask": np.triu(np.ones((S, T), bool)) | np.eye(S, T, dtype=bool)},
    "scores": {"outputs": 4},
    "scores alone": {"outputs": 4, "left_out": True},
    "weights": {"outputs": 4, "qk_matmul_output_mode": 3, "mask": NOTHING},
    "opset 24": {"opset": 24, "is_causal": 1},
    "lengths": {"opset": 24, "lengths": np.int64([7, 4])},
    "lengths, one of which is 0": {"opset": 24, "lengths": np.int64([7, 0]), "joined": True},
    "lengths, causal": {"opset": 24, "lengths": np.int64([7, 3]), "is_causal": 1},
    "lengths and mask": {"opset": 24, "lengths": np.int64([6, 4]), "mask": NOTHING},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_it_computes_the_same(case):
    proto, feeds = attention(**case)
    model = graph.load(proto)
    (note,) = ATTENTION(model)
    assert note.changed and note.node == "attention"
    nodes = [node.op_type for node in model.graph]
    assert nodes.count("MatMul") == 2 and "Attention" not in nodes
    assert next(node.op_type for node in model.graph if node.name == "attention") == "MatMul"
    options = {"q_heads": 2, "k_heads": 2, "joined": False} | case
    want = attention_formula(
        feeds, **{name: value for name, value in options.items() if name not in ("mask", "past", "lengths")}
    )
    engine = intact.compile(proto)
    got = engine.run(feeds)
    assert set(got) == {value.name for value in proto.graph.output}
    for name, array in got.items():
        assert np.allclose(array, want[name], atol=1e-5), name
    with_sizes = graph.Session(model).run(feeds)
    assert all(np.allclose(with_sizes[name], want[name], atol=1e-5) for name in got)
    assert not any(isinstance(step, FallbackSubgraph) for step in engine.plan.steps)


def test_a_window_reaches_so_far():
    proto, feeds = attention(opset=25, left_window_size=1, is_causal=1)
    model = graph.load(proto)
    assert ATTENTION(model)[0].changed
    want = attention_formula(feeds, 2, 2, False, left_window_size=1, is_causal=1)
    assert np.allclose(graph.Session(model).run(feeds)["y"], want["y"], atol=1e-5)


def test_a_window_that_leaves_a_query_nothing_gives_zeros():
    proto, feeds = attention(opset=25, left_window_size=1)
    feeds["q"] = np.concatenate([feeds["q"]] * 3, 2)  # 15 queries, 7 keys
    proto.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 15
    got = intact.compile(proto).run(feeds)["y"]
    assert not got[:, :, 8:].any() and got[:, :, :8].any(axis=-1).all()


MINUS = np.float32(-np.inf)
STRANGE = {
    "a NaN in the mask": ({"mask": np.where(np.arange(S * T) == 9, np.nan, 0).reshape(S, T)}, None),
    "a NaN beside -inf": ({"mask": np.where(np.arange(S * T) == 9, np.nan, MINUS).reshape(S, T)}, None),
    "infinity": ({"mask": np.where(np.arange(S * T) == 9, np.inf, 0).reshape(S, T)}, None),
    "a row of -inf": ({"mask": np.where(np.arange(S * T) // T == 2, MINUS, 0).reshape(S, T)}, None),
    "a NaN in a query that may attend to nothing": ({"mask": NOTHING}, (2, np.nan)),
    "infinity in a query that may attend to nothing": ({"mask": NOTHING}, (2, np.inf)),
    "a NaN in another query": ({"mask": NOTHING}, (1, np.nan)),
}


@pytest.mark.rule("N55")
@pytest.mark.parametrize("case", STRANGE.values(), ids=STRANGE.keys())
def test_rows_of_nothing_are_zeros_and_rows_with_a_nan_stay_nan(case):
    """As the specification has it; older versions of ONNX's reference and of ONNX Runtime give more NaNs."""
    options, query = case
    mask = options["mask"] if options["mask"].dtype == bool else np.float32(options["mask"])
    proto, feeds = attention(mask=mask)
    if query is not None:
        feeds["q"][..., query[0], 0] = query[1]
    scores = np.float32(feeds["q"] @ feeds["k"].swapaxes(-1, -2) / 2)
    bias = np.where(mask, np.float32(0), MINUS) if mask.dtype == bool else mask
    with np.errstate(invalid="ignore"):
        shares = np.exp(scores + bias - (scores + bias).max(-1, keepdims=True))
        shares = shares / shares.sum(-1, keepdims=True)
        want = np.where(np.all(bias == MINUS, -1)[:, None], 0, shares @ feeds["v"])
    got = intact.compile(proto).run(feeds)["y"]
    np.testing.assert_allclose(got, want, atol=1e-5)
    np.testing.assert_array_equal(intact.run_reference(proto, feeds)["y"], got)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ({"sizes": False}, "sizes of its heads are not known"),
        ({"q_heads": 3, "k_heads": 2}, "sizes of its heads are not known"),
        ({"mask": np.ones((S, T - 2), bool)}, "its mask is shorter than the keys"),
        ({"outputs": 4, "qk_matmul_output_mode": 1}, "'qk_matmul_output_mode' 1"),
    ],
)
def test_what_cannot_be_written_out_stays(case, why):
    proto, _ = attention(**case)
    model = graph.load(proto)
    (note,) = ATTENTION(model)
    assert not note.changed and why in note.what
    assert [node.op_type for node in model.graph] == ["Attention"]


def test_quantize_sees_its_products():
    rng = np.random.default_rng(1)
    weights = {name: np.float32(rng.normal(size=(32, 32))) for name in ("wq", "wk", "wv")}
    nodes = [helper.make_node("MatMul", ["x", f"w{n}"], [n], f"project_{n}") for n in "qkv"]
    nodes.append(
        helper.make_node(
            "Attention", ["q", "k", "v"], ["y"], "mix", q_num_heads=2, kv_num_heads=2, is_causal=1
        )
    )
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "places", 32]) for name in ("x", "y")
    ]
    proto = onnx_model(nodes, ends[:1], ends[1:], weights, opset=23)
    batches = [{"x": np.float32(rng.normal(size=(2, 9, 32)))} for _ in range(4)]
    quantized = intact.quantize(proto, batches, float_budget=0, progress=False)
    int8 = {layer["layer"] for layer in quantized.explain() if layer["precision"] == "int8"}
    assert {"mix", "mix.matmul", "project_q"} <= int8
    engine, reference = intact.compile(quantized), intact.compile(quantized, backend="reference")
    for places in (9, 4):
        feeds = {"x": np.float32(rng.normal(size=(1, places, 32)))}
        assert np.array_equal(engine.run(feeds)["y"], reference.run(feeds)["y"])
