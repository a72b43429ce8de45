"""GroupQueryAttention over caches whose length is known: rotation, cache and attention as native steps."""

from __future__ import annotations

import platform

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

import intact
from intact import graph, numerics
from intact.errors import IntactError
from intact.graph.ops import MICROSOFT

HEADS, KV_HEADS, POSITIONS = 6, 2, 40
ORDER = ("q", "k", "v", "past_k", "past_v", "last", "total", "cos", "sin", "positions", "bias", "sinks")


def model(size: int = 16, *, packed: bool = False, pairs: int = 0, rooms: str = "room", sinks: bool = False,
          **attributes):  # fmt: skip
    """Build one node over a cache that stays as long as it is, or grows to the size called `rooms`."""
    rng = np.random.default_rng(3)
    tables = {name: np.float32(rng.normal(size=(POSITIONS, pairs))) for name in ("cos", "sin") if pairs}
    if sinks:
        tables["sinks"] = np.linspace(-2, 3, HEADS, dtype=np.float32)
    present = {*ORDER[3:7], *tables, "q"} | (set() if packed else {"k", "v"})
    node = helper.make_node(
        "GroupQueryAttention", [name if name in present else "" for name in ORDER], ["y", "keys", "values"],
        "attention", domain=MICROSOFT, num_heads=HEADS, kv_num_heads=KV_HEADS, do_rotary=int(pairs > 0),
        **attributes,
    )  # fmt: skip
    columns = (HEADS + 2 * KV_HEADS) * size if packed else HEADS * size
    inputs = {"q": ["batch", "tokens", columns]}
    if not packed:
        inputs |= {name: ["batch", "tokens", KV_HEADS * size] for name in "kv"}
    inputs |= {name: ["batch", KV_HEADS, "room", size] for name in ("past_k", "past_v")}
    inputs |= {"last": (TensorProto.INT32, ["batch"]), "total": (TensorProto.INT32, [])}
    if rooms != "room":
        inputs["mask"] = (TensorProto.INT64, ["batch", rooms])
    caches = {name: ["batch", KV_HEADS, rooms, size] for name in ("keys", "values")}
    return onnx_model([node], inputs, {"y": None, **caches}, tables, domains={MICROSOFT: 1})


def feeds(proto: onnx.ModelProto, tokens: int, lengths: list[int], room: int, seed: int = 0):
    """Draw what a step reads that ends with sequences of these lengths."""
    rng, sizes = np.random.default_rng(seed), {"batch": len(lengths), "tokens": tokens, "room": room}
    arrays = {}
    for value in proto.graph.input:
        dims = [dim.dim_value or sizes.get(dim.dim_param, 0) for dim in value.type.tensor_type.shape.dim]
        arrays[value.name] = np.float32(rng.normal(size=dims))
    arrays |= {"last": np.int32(lengths) - 1, "total": np.array(max(lengths), np.int32)}
    if "mask" in arrays:
        arrays["mask"] = np.ones((len(lengths), max(lengths)), np.int64)
    return arrays


CASES = {
    "a prompt": ({}, 5, [5], 8),
    "a prompt of several blocks": ({}, 21, [21, 21], 24),
    "a next token": ({}, 1, [7, 4], 12),
    "a chunk": ({}, 9, [30], 33),
    "rotated": ({"pairs": 8}, 3, [9], 16),
    "rotated, interleaved": ({"pairs": 8, "rotary_interleaved": 1}, 1, [9, 5], 16),
    "packed": ({"packed": True, "pairs": 8}, 4, [9], 16),
    "a window": ({"local_window_size": 3}, 11, [17], 20),
    "capped": ({"softcap": 0.7, "scale": 0.4}, 4, [8], 9),
    "sinks": ({"sinks": True, "pairs": 8}, 5, [9], 12),
    "sinks, capped, in a window": ({"sinks": True, "softcap": 0.7, "local_window_size": 5}, 21, [30], 33),
    "sinks of zero": ({"smooth_softmax": 1, "scale": 0.4}, 1, [7, 4], 12),
    "heads that fill no register": ({"size": 40}, 6, [13], 17),
    "heads of one element": ({"size": 8, "local_window_size": 2}, 2, [2], 2),
    "a long cache": ({"size": 64}, 2, [300], 301),
    "a window shorter than a block": ({"local_window_size": 7}, 33, [35], 37),
    "a prompt in a long window": ({"size": 24, "local_window_size": 270}, 40, [330], 333),
}


@pytest.mark.rule("N72")
@pytest.mark.parametrize("name", CASES)
def test_engine_equals_reference_and_onnx_runtime(name):
    settings, tokens, lengths, room = CASES[name]
    proto = model(**settings)
    arrays = feeds(proto, tokens, lengths, room)
    engine = intact.compile(proto)
    assert engine.plan.steps[-1].kind == "cached_attention"
    outputs, expected = (e.run(arrays) for e in (engine, intact.compile(proto, backend="reference")))
    assert {n: a.tobytes() for n, a in outputs.items()} == {n: a.tobytes() for n, a in expected.items()}
    if settings.get("size", 16) % 8 == 0 and settings.get("size") != 40:
        runtime = graph.Session(graph.load(proto)).run(arrays)
        np.testing.assert_allclose(outputs["y"], runtime["y"], atol=3e-5)
        for row, length in enumerate(lengths):
            np.testing.assert_allclose(
                outputs["keys"][row, :, :length], runtime["keys"][row, :, :length], atol=1e-5
            )


@pytest.mark.parametrize("cache", ["float16", "int8"])
@pytest.mark.parametrize("name", CASES)
def test_narrow_caches_equal_the_reference(name, cache, monkeypatch):
    settings, tokens, lengths, room = CASES[name]
    narrow = graph.load(model(**settings))
    graph.narrow_caches(narrow, cache)
    proto = graph.to_proto(narrow)
    arrays = feeds(proto, tokens, lengths, room)
    for past in ("past_k", "past_v"):
        rows = np.random.default_rng(5).normal(size=(len(lengths), room, KV_HEADS, settings.get("size", 16)))
        arrays[past] = numerics.write_cache(None, rows, np.zeros(len(lengths), np.int64), room, cache)
    expected = intact.compile(proto, backend="reference").run(arrays)
    assert expected["keys"].dtype == cache
    for max_isa in ("none", "", "avx2" if platform.machine() == "x86_64" else "neon"):
        monkeypatch.setenv("INTACT_MAX_ISA", max_isa) if max_isa else monkeypatch.delenv("INTACT_MAX_ISA")
        engine = intact.compile(proto)
        assert engine.plan.steps[-1].kind == "cached_attention"
        outputs = engine.run(arrays)
        assert {n: a.tobytes() for n, a in outputs.items()} == {n: a.tobytes() for n, a in expected.items()}


def test_chunks_batches_and_threads_change_no_bit():
    proto = model(pairs=8)
    whole = feeds(proto, 24, [24, 24], 32)
    engines = [intact.compile(proto, threads=threads) for threads in (1, 2, 5)]
    expected = engines[0].run(whole)
    for engine, chunk in zip(engines, (24, 1, 7), strict=True):
        for row in range(2):
            keys, values, pieces = whole["past_k"][row, None].copy(), whole["past_v"][row, None].copy(), []
            for start in range(0, 24, chunk):
                end = min(24, start + chunk)
                step = {name: whole[name][row, None, start:end] for name in "qkv"}
                step |= {
                    "past_k": keys,
                    "past_v": values,
                    "last": np.int32([end - 1]),
                    "total": whole["total"],
                }
                pieces.append(engine.run(step, {"keys": keys, "values": values})["y"])
            assert np.concatenate(pieces, 1).tobytes() == expected["y"][row, None].tobytes()
            assert keys.tobytes() == expected["keys"][row, None].tobytes()
            assert values.tobytes() == expected["values"][row, None].tobytes()


def test_a_cache_grows_to_a_size_of_the_inputs():
    proto = model(rooms="total_tokens")
    arrays = feeds(proto, 2, [9, 6], 7)
    engine, reference = intact.compile(proto), intact.compile(proto, backend="reference")
    assert engine.plan.steps[-1].kind == "cached_attention"
    outputs, expected = engine.run(arrays), reference.run(arrays)
    assert outputs["keys"].shape == (2, KV_HEADS, 9, 16)
    assert all(outputs[name].tobytes() == expected[name].tobytes() for name in outputs)


@pytest.mark.parametrize("last", [40, 2**31 - 1])
def test_tokens_behind_the_room_are_an_error(last):
    proto = model(pairs=8)
    arrays = feeds(proto, 1, [8], 8) | {"last": np.int32([last])}
    for backend in ("cpu", "reference"):
        with pytest.raises(IntactError):
            intact.compile(proto, backend=backend).run(arrays)


def test_what_has_no_step_is_decomposed_or_left_to_onnx_runtime():
    proto = model(qk_output=1)
    kinds = {step.kind for step in intact.compile(proto).plan.steps}
    assert "cached_attention" not in kinds
