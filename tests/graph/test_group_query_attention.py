"""GroupQueryAttention, in which builders write language models, becomes products and a Softmax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

import intact
from intact import graph
from intact.engine.steps import FallbackSubgraph
from intact.errors import FileFormatError
from intact.graph.ops import MICROSOFT
from intact.graph.rewrites.decompose_contrib import FUSED

N, K, D = 4, 2, 16  # heads of queries, of keys; size of a head: what ONNX Runtime turns is a multiple of 16
ORDER = ("q", "k", "v", "k0", "v0", "ends", "total", "cos", "sin", "ids", "bias", "sinks")
_TABLES = ("cos", "sin", "sinks")
OUTPUTS = ("y", "k1", "v1")
Arrays = dict[str, np.ndarray]


def step(
    new: int,
    lengths: Sequence[int],
    room: int | None = 0,
    *,
    pairs: int = 0,
    ids: Sequence[int] | None = None,
    bias: bool = False,
    sinks: bool = False,
) -> Arrays:
    """Return the inputs of one step.

    Args:
        new: Places that it adds to each row.
        lengths: Places of each row behind it.
        room: Places of the buffers of the past; None: there are none.
        pairs: That are turned.
        ids: Places of the new ones, as an input says them.
        bias: Something is added to the scores.
        sinks: Heads have them.
    """
    rng, batch = np.random.default_rng(6), len(lengths)
    shapes = {"q": (batch, new, N * D), "k": (batch, new, K * D), "v": (batch, new, K * D)}
    if room is not None:
        shapes |= {"k0": (batch, K, room, D), "v0": (batch, K, room, D)}
    if pairs:
        shapes |= {"cos": (32, pairs), "sin": (32, pairs)}
    if bias:
        shapes["bias"] = (1, N, new, max(lengths))
    if sinks:
        shapes["sinks"] = (N,)
    feeds = {name: np.float32(rng.normal(size=shape)) for name, shape in shapes.items()}
    if ids is not None:
        feeds["ids"] = np.tile(np.int64(ids), (batch, 1))
    return feeds | {"ends": np.int32(lengths) - 1, "total": np.array(max(lengths), np.int32)}


def model(feeds: Arrays, *, packed: bool = False, **attributes: object) -> tuple[onnx.ModelProto, Arrays]:
    """One node, its batch and places free, and what the model reads: tables of angles are constants."""
    if packed:
        feeds = {"q": np.concatenate([feeds[name] for name in "qkv"], -1)} | {
            name: array for name, array in feeds.items() if name not in "qkv"
        }
    node = helper.make_node(
        "GroupQueryAttention", [name if name in feeds else "" for name in ORDER], OUTPUTS, "mix",
        domain=MICROSOFT, num_heads=N, kv_num_heads=K, **attributes,
    )  # fmt: skip
    tables = [numpy_helper.from_array(feeds[name], name) for name in _TABLES if name in feeds]
    inputs = {name: array for name, array in feeds.items() if name not in _TABLES}
    sizes: dict[str, list[str | int]] = {
        "q": ["b", "s", inputs["q"].shape[2]], "k": ["b", "s", K * D], "v": ["b", "s", K * D], "ends": ["b"],
        "k0": ["b", K, "p", D], "v0": ["b", K, "p", D], "ids": ["b", "s"], "bias": [1, N, "s", "t"],
        "total": [],
    }  # fmt: skip
    begins = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), sizes[name])
        for name, array in inputs.items()
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * rank)
        for name, rank in zip(OUTPUTS, (3, 4, 4), strict=True)
    ]
    proto = onnx_model([node], begins, ends, tables, opset=18, domains={MICROSOFT: 1})
    return proto, inputs


def values_to_compare(arrays: Arrays, lengths: np.ndarray, new: int) -> list[np.ndarray]:
    """Return the values that are defined: new places that are no padding, and keys of places that a row
    has."""
    y = [row[: min(new, length)] for row, length in zip(arrays["y"], lengths, strict=True)]
    cached_rows = [arrays[name][at, :, :length] for name in ("k1", "v1") for at, length in enumerate(lengths)]
    return [*y, *cached_rows]


PROMPT, PADDED, NEXT, UNLIKE = step(5, [5, 5]), step(5, [5, 3]), step(1, [7, 7], 6), step(1, [7, 4], 6)
TURNED = {"do_rotary": 1}
CASES: dict[str, tuple[Arrays, dict[str, object]]] = {
    "a prompt without a past": (step(5, [5], None), {}),
    "a prompt": (PROMPT, {}),
    "a prompt with padding": (PADDED, {}),
    "a prompt in a buffer": (step(5, [5, 3], 9), {}),
    "a next place": (NEXT, {}),
    "a next place of rows of unlike lengths": (UNLIKE, {}),
    "a next place in a buffer": (step(1, [7, 4], 12), {}),
    "next places": (step(3, [9], 6), {}),
    "next places in a buffer": (step(3, [9], 16), {}),
    "a window": (PROMPT, {"local_window_size": 3}),
    "a window into the past": (step(1, [9, 6], 8), {"local_window_size": 3}),
    "capped scores": (PROMPT, {"softcap": 0.5}),
    "its own scale": (PROMPT, {"scale": 0.3}),
    "added to scores": (step(5, [5, 5], bias=True), {}),
    "added to scores in a buffer": (step(1, [7, 4], 12, bias=True), {}),
    "sinks": (step(5, [5, 3], sinks=True), {"softcap": 0.5}),
    "sinks in a next place": (step(1, [7, 4], 6, bias=True, sinks=True), {}),
    "sinks of zero": (NEXT, {"smooth_softmax": 1}),
    "turned": (step(5, [5, 3], pairs=8), TURNED),
    "turned side by side": (step(5, [5, 3], pairs=8), TURNED | {"rotary_interleaved": 1}),
    "turned in a next place": (step(1, [7, 4], 6, pairs=8), TURNED),
    "turned by given places": (step(1, [7, 4], 6, pairs=8, ids=[9]), TURNED),
    "turned by places that one of a prompt gives": (step(4, [4, 4], pairs=8, ids=[3, 9, 9, 9]), TURNED),
    "packed": (step(5, [5, 3], pairs=8), TURNED | {"packed": True}),
    "packed, a next place": (step(1, [7, 4], 6, pairs=8), TURNED | {"packed": True}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_onnx_runtime_does(name):
    proto, feeds = model(CASES[name][0], **CASES[name][1])
    lengths, new = feeds["ends"] + 1, feeds["q"].shape[1]
    want = graph.Session(graph.load(proto)).run(feeds)
    loaded = graph.load(proto)
    (note,) = graph.run_stages(loaded, FUSED)
    assert note.node == "mix" and all(node.domain == "" for node in loaded.graph)
    rewritten_outputs = graph.Session(loaded).run(feeds)
    engine, reference = (
        intact.compile(proto).run(feeds),
        intact.compile(proto, backend="reference").run(feeds),
    )
    assert {key: array.shape for key, array in rewritten_outputs.items()} == {
        key: a.shape for key, a in want.items()
    }
    for outputs in (rewritten_outputs, engine):
        pairs = zip(
            values_to_compare(outputs, lengths, new), values_to_compare(want, lengths, new), strict=True
        )
        assert all(np.allclose(actual, other, atol=2e-6) for actual, other in pairs)
    assert all(np.array_equal(engine[key], reference[key]) for key in want)


LEFT = {
    "other outputs": {"qk_output": 1},
    "to places ahead": {"causal": 0},
    "a window as the cache": {"sliding_window_cache": 1, "local_window_size": 4},
    "codes as the cache": {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"},
    "turned by angles that it does not read": {"do_rotary": 1},
}


@pytest.mark.parametrize("name", LEFT)
def test_what_has_no_exact_form_stays(name):
    proto, _ = model(NEXT, **LEFT[name])
    loaded = graph.load(proto)
    assert graph.run_stages(loaded, FUSED) == []
    assert [node.op_type for node in loaded.graph] == ["GroupQueryAttention"]


@pytest.mark.parametrize("heads", [0, 3, 2**62])
def test_keys_that_fit_no_queries_are_refused(heads: int) -> None:
    proto, _ = model(NEXT)
    for attribute in proto.graph.node[0].attribute:
        if attribute.name == "kv_num_heads":
            attribute.i = heads
    with pytest.raises(FileFormatError, match="heads"):
        graph.load(proto)


def decoder(layers: int = 2, hidden: int = 64) -> onnx.ModelProto:
    """A small decoder as ONNX Runtime's builder writes it: lengths from a mask, an attention in one node."""
    rng, arrays, nodes = np.random.default_rng(7), {}, []

    def add_weight(name: str, *shape: int) -> str:
        arrays[name] = np.float32(rng.normal(size=shape)) / np.float32(np.sqrt(shape[0]))
        return name

    def put(op: str, inputs: Sequence[str], *outputs: str, domain: str = "", **attributes: object) -> None:
        nodes.append(helper.make_node(op, inputs, outputs, outputs[0], domain=domain, **attributes))

    arrays |= {"one": np.int64([1]), "axis": np.int64(1)}
    put("ReduceSum", ["mask", "one"], "sums", keepdims=0)
    put("Sub", ["sums", "one"], "less")
    put("Cast", ["less"], "ends", to=TensorProto.INT32)
    put("Shape", ["mask"], "sizes")
    put("Gather", ["sizes", "axis"], "size")
    put("Cast", ["size"], "total", to=TensorProto.INT32)
    put("Gather", [add_weight("words", 50, hidden), "ids"], "x0")
    angles = np.arange(32)[:, None] * 0.5 ** np.arange(D // 2)
    arrays |= {"cos": np.float32(np.cos(angles)), "sin": np.float32(np.sin(angles))}
    for at in range(layers):
        past, present = [f"{kind}{at}.past" for kind in "kv"], [f"{kind}{at}.present" for kind in "kv"]
        arrays[f"g{at}"] = np.ones(hidden, np.float32)
        put("SimplifiedLayerNormalization", [f"x{at}", f"g{at}"], f"n{at}", epsilon=1e-5, axis=-1)
        put("MatMul", [f"n{at}", add_weight(f"qkv{at}", hidden, (N + 2 * K) * D)], f"p{at}")
        put("GroupQueryAttention", [f"p{at}", "", "", *past, "ends", "total", "cos", "sin"], f"a{at}",
            *present, domain=MICROSOFT, num_heads=N, kv_num_heads=K, do_rotary=1)  # fmt: skip
        put("MatMul", [f"a{at}", add_weight(f"o{at}", N * D, hidden)], f"m{at}")
        put("SkipSimplifiedLayerNormalization", [f"x{at}", f"m{at}", f"g{at}"], f"s{at}", "", "", f"r{at}",
            domain=MICROSOFT, epsilon=1e-5)  # fmt: skip
        put("MatMul", [f"s{at}", add_weight(f"up{at}", hidden, 2 * hidden)], f"u{at}")
        put("Sigmoid", [f"u{at}"], f"c{at}")
        put("Mul", [f"u{at}", f"c{at}"], f"d{at}")
        put("MatMul", [f"d{at}", add_weight(f"down{at}", 2 * hidden, hidden)], f"e{at}")
        put("Add", [f"r{at}", f"e{at}"], f"x{at + 1}")
    put("MatMul", [f"x{layers}", add_weight("head", hidden, 50)], "logits")
    ints = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "new"]),
        helper.make_tensor_value_info("mask", TensorProto.INT64, ["batch", "total"]),
    ]
    caches = [
        helper.make_tensor_value_info(f"{kind}{at}.{end}", TensorProto.FLOAT, ["batch", K, size, "size"])
        for end, size in (("past", "past"), ("present", "total"))
        for at in range(layers)
        for kind in "kv"
    ]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "new", 50])]
    return onnx_model(
        nodes,
        ints + caches[: 2 * layers],
        outputs + caches[2 * layers :],
        arrays,
        opset=18,
        domains={MICROSOFT: 1},
    )


def prompt_feeds(proto: onnx.ModelProto, count: int) -> Arrays:
    """Return the inputs of a prompt."""
    ids = np.random.default_rng(count).integers(0, 50, (2, count))
    past = {past_input.name: np.zeros((2, K, 0, D), np.float32) for past_input in proto.graph.input[2:]}
    return past | {"ids": ids, "mask": np.ones((2, count), np.int64)}


def following(feeds: Arrays, outputs: Arrays) -> Arrays:
    """Return the inputs of the step behind one."""
    past = {name.replace("present", "past"): a for name, a in outputs.items() if name.endswith("present")}
    mask = np.concatenate([feeds["mask"], np.ones((2, 1), np.int64)], 1)
    return past | {"ids": outputs["logits"][:, -1:].argmax(-1), "mask": mask}


def test_a_quantized_decoder_writes_on_from_its_past():
    proto = decoder()
    original = graph.Session(graph.load(proto))
    data = [prompt_feeds(proto, 6)]
    for _ in range(3):
        data.append(following(data[-1], original.run(data[-1])))
    quantized = intact.quantize(proto, data, dynamic_ranges=False, float_budget=0, progress=False)
    layers = {row["layer"]: row["precision"] for row in quantized.explain()}
    assert {layers[name] for at in (0, 1) for name in (f"p{at}", f"a{at}", f"m{at}", f"u{at}")} == {"int8"}
    assert not {node.domain for node in quantized.model.graph} - {""}
    file, engine = graph.Session(quantized.model), intact.compile(quantized)
    reference = intact.compile(quantized, backend="reference")
    for feeds in data:
        want, engine_outputs, file_outputs = original.run(feeds), engine.run(feeds), file.run(feeds)
        assert np.corrcoef(want["logits"].ravel(), file_outputs["logits"].ravel())[0, 1] > 0.99
        assert np.corrcoef(engine_outputs["logits"].ravel(), file_outputs["logits"].ravel())[0, 1] > 0.999
        assert all(np.array_equal(engine_outputs[key], array) for key, array in reference.run(feeds).items())


def test_a_decoder_of_known_sizes_runs_natively():
    proto = decoder()
    original, prompt = graph.Session(graph.load(proto)), prompt_feeds(proto, 6)
    for feeds in (prompt, following(prompt, original.run(prompt))):
        engine = intact.compile(proto, shapes={name: array.shape for name, array in feeds.items()})
        assert not any(isinstance(step, FallbackSubgraph) for step in engine.plan.steps)
        want = original.run(feeds)
        assert all(np.allclose(engine.run(feeds)[key], array, atol=1e-5) for key, array in want.items())
