"""Operators of ONNX Runtime's own domain, written in ONNX's own: what ONNX Runtime makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

import intact
from intact import graph
from intact.engine.steps import FallbackSubgraph
from intact.errors import UnsupportedError
from intact.graph.ops import MICROSOFT
from intact.graph.rewrites.decompose_contrib import FUSED

B, S, T, N, D = 2, 5, 7, 2, 4  # samples, queries, keys, heads, size of a head
H = N * D
RNG = np.random.default_rng(4)


def real(*shape: int) -> np.ndarray:
    return np.float32(RNG.normal(size=shape))


def model(
    op_type: str,
    feeds: Mapping[str, np.ndarray],
    constants: Mapping[str, np.ndarray],
    inputs: Sequence[str],
    outputs: Mapping[str, int],
    *,
    domain: str = MICROSOFT,
    opset: int = 17,
    fixed: bool = False,
    **attributes: object,
) -> onnx.ModelProto:
    """One node; `outputs` have ranks, and the first rows of feeds are a free size, or fixed."""
    output_names = [f"y{at}" if f"y{at}" in outputs else "" for at in range(4)]
    while not output_names[-1]:
        output_names.pop()
    node = helper.make_node(op_type, inputs, output_names, "fused", domain=domain, **attributes)
    kinds = {"y1": TensorProto.INT32} if op_type == "EmbedLayerNormalization" else {}
    types = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in feeds.items()}
    begins = [
        helper.make_tensor_value_info(name, types[name], [array.shape[0] if fixed else "n", *array.shape[1:]])
        for name, array in feeds.items()
    ]
    ends = [
        helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), [None] * rank)
        for name, rank in outputs.items()
    ]
    return onnx_model([node], begins, ends, constants, opset=opset, domains={MICROSOFT: 1})


X, SKIP = real(B, S, H), real(B, S, H)
KEEP = np.ones((B, S), np.int32)
KEEP[0, 3:] = 0
QKV = {"w": real(H, 3 * H), "b": real(3 * H)}
NORM = {"g": real(H), "o": real(H), "b": real(H)}
MATRIX, IMAGE = real(3, 4, 6), real(B, 3, 6, 6)
MHA = {"q": real(B, S, H), "k": real(B, T, H), "v": real(B, T, H)}
PAST = {"k0": real(B, N, 3, D), "v0": real(B, N, 3, D)}
R = 4  # pairs that are turned
TURNED, PLACES = real(B, S, 4 * R), np.int64([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]])
ANGLES = {"c": real(9, R), "s": real(9, R)}
IDS = RNG.integers(0, 9, (B, S)).astype(np.int32)
TABLES = {"words": real(9, H), "places": real(8, H), "kinds": real(2, H), "g": real(H), "o": real(H)}
KERNEL = {"w": real(4, 3, 3, 3), "c": real(4)}

Y, BOTH = {"y0": 3}, {"y0": 3, "y3": 3}
CASES = {
    "Gelu": ({"x": X}, {}, ["x"], Y, {}),
    "BiasGelu": ({"x": X}, {"b": NORM["b"]}, ["x", "b"], Y, {}),
    "FastGelu": ({"x": X}, {}, ["x"], Y, {}),
    "FastGelu, bias": ({"x": X}, {"b": NORM["b"]}, ["x", "b"], Y, {}),
    "QuickGelu": ({"x": X}, {}, ["x"], Y, {}),
    "QuickGelu, silu": ({"x": X}, {}, ["x"], Y, {"alpha": 1.0}),
    "FusedMatMul": ({"x": MATRIX, "z": real(3, 5, 6)}, {}, ["x", "z"], Y, {"transB": 1, "alpha": 0.25}),
    "FusedMatMul, left": ({"x": MATRIX}, {"z": real(4, 5)}, ["x", "z"], Y, {"transA": 1}),
    "FusedGemm": (
        {"x": real(B, 4)}, {"z": real(3, 4), "c": real(3)}, ["x", "z", "c"], {"y0": 2},
        {"transB": 1, "activation": "LeakyRelu", "activation_alpha": 0.1},
    ),
    "FusedConv, Relu": (
        {"x": IMAGE}, KERNEL, ["x", "w", "c"], {"y0": 4}, {"activation": "Relu", "pads": [1] * 4}
    ),
    "FusedConv, Clip": (
        {"x": IMAGE}, KERNEL, ["x", "w"], {"y0": 4}, {"activation": "Clip", "activation_params": [0.0, 1.5]}
    ),
    "FusedConv, HardSigmoid": (
        {"x": IMAGE}, KERNEL, ["x", "w", "c"], {"y0": 4},
        {"activation": "HardSigmoid", "activation_params": [0.1, 0.4]},
    ),
    "FusedConv, sum": (
        {"x": IMAGE, "z": real(B, 4, 4, 4)}, KERNEL, ["x", "w", "c", "z"], {"y0": 4}, {"activation": "Relu"}
    ),
    "SkipLayerNormalization": (
        {"x": X, "s": SKIP}, NORM, ["x", "s", "g", "o", "b"], BOTH, {"epsilon": 1e-3}
    ),
    "SkipLayerNormalization, plain": ({"x": X, "s": SKIP}, NORM, ["x", "s", "g"], Y, {"epsilon": 1e-5}),
    "SkipSimplifiedLayerNormalization": (
        {"x": X, "s": SKIP}, NORM, ["x", "s", "g", "b"], BOTH, {"epsilon": 1e-3}
    ),
    "SimplifiedLayerNormalization": ({"x": X}, NORM, ["x", "g"], Y, {"epsilon": 1e-3, "domain": ""}),
    "SkipLayerNormalization, opset 13": (
        {"x": X, "s": SKIP}, NORM, ["x", "s", "g", "o"], Y, {"epsilon": 1e-3, "opset": 13}
    ),
    "EmbedLayerNormalization": (
        {"i": IDS, "t": IDS % 2, "m": KEEP}, TABLES, ["i", "t", "words", "places", "kinds", "g", "o", "m"],
        {"y0": 3, "y1": 1, "y2": 3}, {"epsilon": 1e-5},
    ),
    "EmbedLayerNormalization, places": (
        {"i": IDS, "p": IDS % 8}, TABLES, ["i", "", "words", "places", "", "g", "o", "", "p"],
        {"y0": 3, "y1": 1}, {},
    ),
    "Attention": ({"x": X}, QKV, ["x", "w", "b"], Y, {"num_heads": N}),
    "Attention, mask": ({"x": X, "m": KEEP}, QKV, ["x", "w", "b", "m"], Y, {"num_heads": N}),
    "Attention, masks": (
        {"x": X, "m": RNG.integers(0, 2, (B, S, S)).astype(np.int32) | np.eye(S, dtype=np.int32)}, QKV,
        ["x", "w", "b", "m"], Y, {"num_heads": N, "scale": 0.2},
    ),
    "Attention, causal with a past": (
        {"x": X}, QKV | {"p": real(2, B, N, 3, D)}, ["x", "w", "b", "", "p"], {"y0": 3, "y1": 5},
        {"num_heads": N, "unidirectional": 1},
    ),
    "Attention, ends": ({"x": X, "m": np.int32([3, 5])}, QKV, ["x", "w", "b", "m"], Y, {"num_heads": N}),
    "Attention, ends and starts": (
        {"x": X, "m": np.int32([3, 5, 0, 2])}, QKV, ["x", "w", "b", "m"], Y, {"num_heads": N, "fixed": True}
    ),
    "Attention, ends with a past": (
        {"x": X, "m": np.int32([8, 6])}, QKV | {"p": real(2, B, N, 3, D)}, ["x", "w", "b", "m", "p"],
        {"y0": 3, "y1": 5}, {"num_heads": N},
    ),
    "Attention, added": (
        {"x": X, "a": real(B, N, S, S)}, QKV, ["x", "w", "b", "", "", "a"], Y, {"num_heads": N}
    ),
    "MultiHeadAttention": (MHA, {}, ["q", "k", "v"], Y, {"num_heads": N}),
    "MultiHeadAttention, bias and mask": (
        MHA | {"m": np.int32(RNG.random((B, T)) < 0.6)}, {"b": real(3 * H)}, ["q", "k", "v", "b", "m"], Y,
        {"num_heads": N},
    ),
    "MultiHeadAttention, ends": (
        MHA | {"m": np.int32([4, 7])}, {}, ["q", "k", "v", "", "m"], Y, {"num_heads": N}
    ),
    "RotaryEmbedding": ({"x": TURNED, "p": PLACES}, ANGLES, ["x", "p", "c", "s"], Y, {}),
    "RotaryEmbedding, heads apart": (
        {"x": real(B, 3, S, 2 * R), "p": PLACES}, ANGLES, ["x", "p", "c", "s"], {"y0": 4}, {}
    ),
    "RotaryEmbedding, from one place on": (
        {"x": TURNED}, ANGLES | {"o": np.int64([2])}, ["x", "o", "c", "s"], Y, {"interleaved": 1}
    ),
    "RotaryEmbedding, in part": (
        {"x": real(B, S, 6 * R), "p": PLACES}, ANGLES, ["x", "p", "c", "s"], Y,
        {"num_heads": 2, "rotary_embedding_dim": 2 * R},
    ),
    "MultiHeadAttention, heads apart": (
        {"q": MHA["q"], "k": real(B, N, T, D), "v": real(B, N, T, D)}, {}, ["q", "k", "v"], Y,
        {"num_heads": N},
    ),
    "MultiHeadAttention, past": (
        MHA | PAST, {}, ["q", "k", "v", "", "", "", "k0", "v0"], {"y0": 3, "y1": 4, "y2": 4}, {"num_heads": N}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_onnx_runtime_does(name):
    feeds, constants, inputs, outputs, attributes = CASES[name]
    used = {key: array for key, array in constants.items() if key in inputs}
    proto = model(name.partition(",")[0], feeds, used, inputs, outputs, **attributes)
    want = graph.Session(graph.load(proto)).run(feeds)
    loaded = graph.load(proto)
    (note,) = graph.run_stages(loaded, FUSED)
    assert note.node == "fused" and all(node.domain == "" for node in loaded.graph)
    assert MICROSOFT not in loaded.opset_imports
    got = graph.Session(loaded).run(feeds)
    engine = intact.compile(proto)
    ours = engine.run(feeds)
    for key, array in want.items():
        assert np.allclose(got[key], array, atol=2e-5), key
        assert np.allclose(ours[key], array, atol=2e-5), key
    assert not any(isinstance(step, FallbackSubgraph) for step in engine.plan.steps)


LEFT = {
    "lengths of packed samples": (
        "Attention", {"x": X, "m": np.int32([3, 5, 0, 3, 0, 3, 8, 8])}, QKV, ["x", "w", "b", "m"],
        {"fixed": True},
    ),
    "scaled turns": (
        "RotaryEmbedding", {"x": TURNED, "p": PLACES}, ANGLES, ["x", "p", "c", "s"], {"scale": 2.0}
    ),
    "packed queries": ("MultiHeadAttention", {"q": real(B, S, N, 3, D)}, {}, ["q"], {}),
    "weights that are an input": ("Attention", {"x": X, "w": QKV["w"]}, {"b": QKV["b"]}, ["x", "w", "b"], {}),
    "batches turned": ("FusedMatMul", {"x": MATRIX, "z": real(4, 6, 5)}, {}, ["x", "z"], {"transBatchA": 1}),
    "an activation that is not known": (
        "FusedConv", {"x": IMAGE}, KERNEL, ["x", "w", "c"], {"activation": "Softsign"}
    ),
    "statistics are read": ("SkipLayerNormalization", {"x": X, "s": SKIP}, NORM, ["x", "s", "g"], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_what_has_no_other_form_stays(name):
    op_type, feeds, constants, inputs, attributes = LEFT[name]
    outputs = {"y0": 3, "y1": 3} if name.startswith("statistics") else {"y0": 3}
    heads = {"num_heads": N} if "Attention" in op_type else {}
    loaded = graph.load(model(op_type, feeds, constants, inputs, outputs, **heads, **attributes))
    assert graph.run_stages(loaded, FUSED) == [] and [node.op_type for node in loaded.graph] == [op_type]


def test_layouts_of_one_machine_are_refused():
    proto = model("FusedConv", {"x": IMAGE}, KERNEL, ["x", "w", "c"], {"y0": 4}, activation="Relu")
    proto.graph.node[0].domain, proto.graph.node[0].op_type = "com.microsoft.nchwc", "Conv"
    proto.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    with pytest.raises(UnsupportedError, match=r"node 'fused' \(Conv\): got a layout .* ORT_ENABLE_EXTENDED"):
        intact.quantize(proto, [{"x": IMAGE}], progress=False)


def test_a_fused_convolution_is_a_layer_in_int8():
    kernel = {"w": real(16, 16, 3, 3), "c": real(16)}
    feeds = [{"x": real(B, 16, 8, 8)} for _ in range(3)]
    proto = model("FusedConv", feeds[0], kernel, ["x", "w", "c"], {"y0": 4}, activation="Relu")
    quantized = intact.quantize(proto, feeds, progress=False)
    (layer,) = quantized.explain()
    assert (layer["layer"], layer["precision"], layer["fused"]) == ("fused", "int8", "Conv+Relu")
    engine, reference = intact.compile(quantized), intact.compile(quantized, backend="reference")
    assert np.array_equal(engine.run(feeds[0])["y0"], reference.run(feeds[0])["y0"])
