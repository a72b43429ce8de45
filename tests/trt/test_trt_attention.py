"""Layers of transformers and of dynamic quantization, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.trt.networks import constant, outputs_of

import intact.trt as trt

RNG = np.random.default_rng(5)
Q = RNG.standard_normal((2, 4, 3, 8), np.float32)
K, V = RNG.standard_normal((2, 2, 2, 5, 8), np.float32)
SOFTMAX = trt.AttentionNormalizationOp.SOFTMAX


def numpy_attention(q, k, v, seen=None, added=0.0, grid=None) -> np.ndarray:
    """Attention in NumPy, heads of k and v repeated."""
    k, v = (np.repeat(a, q.shape[1] // a.shape[1], axis=1) for a in (k, v))
    scores = q.astype(float) @ k.swapaxes(2, 3) + added
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return (p if grid is None else grid(p)) @ v


@pytest.fixture
def attention(network) -> trt.IAttention:
    q, k, v = (network.add_input(n, trt.float32, a.shape) for n, a in (("q", Q), ("k", K), ("v", V)))
    layer = network.add_attention(q, k, v, SOFTMAX, False)
    network.mark_output(layer.get_output(0))
    return layer


def test_attention_does_not_scale_and_shares_heads(network, log, attention) -> None:
    assert (attention.num_inputs, attention.num_outputs) == (3, 1)
    assert attention.get_output(0).shape == Q.shape
    np.testing.assert_allclose(
        outputs_of(network, log, q=Q, k=K, v=V)[0], numpy_attention(Q, K, V), atol=1e-5
    )


def test_a_causal_attention_sees_what_came_before(network, log, attention) -> None:
    attention.causal = True
    want = numpy_attention(Q, K, V, seen=np.tri(3, 5, dtype=bool))
    np.testing.assert_allclose(outputs_of(network, log, q=Q, k=K, v=V)[0], want, atol=1e-5)


@pytest.mark.parametrize("kind", [bool, np.float32])
def test_masks_hide_or_are_added(network, log, attention, kind) -> None:
    mask = RNG.integers(0, 2, (1, 1, 3, 5)).astype(kind)
    mask[..., 0] = 1
    attention.mask = constant(network, mask)
    want = numpy_attention(Q, K, V, **({"seen": mask} if kind is bool else {"added": mask}))
    np.testing.assert_allclose(outputs_of(network, log, q=Q, k=K, v=V)[0], want, atol=1e-5)
    assert attention.num_inputs == 4


def test_without_normalization_it_is_two_products(network, log, attention) -> None:
    attention.norm_op = trt.AttentionNormalizationOp.NONE
    k, v = (np.repeat(a, 2, axis=1) for a in (K, V))
    np.testing.assert_allclose(
        outputs_of(network, log, q=Q, k=K, v=V)[0], Q @ k.swapaxes(2, 3) @ v, rtol=1e-4, atol=1e-4
    )


def test_normalized_scores_are_rounded_to_a_grid(network, log, attention) -> None:
    attention.normalization_quantize_scale = constant(network, np.float32([1 / 127]))
    attention.normalization_quantize_to_type = trt.int8
    want = numpy_attention(Q, K, V, grid=lambda p: np.round(p * 127) / 127)
    np.testing.assert_allclose(outputs_of(network, log, q=Q, k=K, v=V)[0], want, atol=1e-5)


def test_an_attention_says_what_does_not_fit(network, log, attention) -> None:
    attention.causal, attention.mask = True, constant(network, np.ones((1, 1, 3, 5), bool))
    attention.name = "mine"
    builder = trt.Builder(log)
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert log.of("ERROR") == ["mine: an attention is causal or has a mask, not both"]
    with pytest.raises(ValueError, match="FP8 or INT8"):
        attention.normalization_quantize_to_type = trt.float32


def test_the_other_end_is_wired_anew(network, log, attention) -> None:
    other = network.add_input("other", trt.float32, V.shape)
    attention.set_input(2, other)
    start, end = network.layers[:2]
    assert attention.get_input(2) is other and start.get_input(2) is other
    assert (end.num_inputs, end.get_input(0)) == (1, start.get_output(0))
    feeds = {"q": Q, "k": K, "v": V, "other": -V}
    np.testing.assert_allclose(outputs_of(network, log, **feeds)[0], numpy_attention(Q, K, -V), atol=1e-5)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("turned", [0, 4])
def test_rotary_embedding_turns_pairs(network, log, interleaved, turned) -> None:
    width = turned or 8
    angles = RNG.standard_normal((7, width // 2)).astype(np.float32)
    places = np.array([[0, 3, 6], [5, 5, 1]])
    x = network.add_input("x", trt.float32, Q.shape)
    tables = [constant(network, f(angles)) for f in (np.cos, np.sin)]
    layer = network.add_rotary_embedding(x, *tables, interleaved, turned)
    layer.set_input(3, constant(network, places))
    network.mark_output(layer.get_output(0))
    turn = np.exp(1j * angles[places])[:, None]
    want, part = Q.copy(), Q[..., :width]
    first, second = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (
        slice(0, width // 2), slice(width // 2, None),
    )  # fmt: skip
    rotated = (part[..., first] + 1j * part[..., second]) * turn
    want[..., :width][..., first], want[..., :width][..., second] = rotated.real, rotated.imag
    np.testing.assert_allclose(outputs_of(network, log, x=Q)[0], want, atol=1e-6)


def test_the_cache_takes_new_rows_in_place(network, log) -> None:
    cache = network.add_input("cache", trt.float32, (2, 3, 6, 4))
    update = network.add_input("update", trt.float32, (2, 3, 2, 4))
    at = network.add_input("at", trt.int32, (2,))
    layer = network.add_kv_cache_update(cache, update, at, trt.KVCacheMode.LINEAR)
    layer.get_output(0).name = "out"
    network.mark_output(layer.get_output(0))
    builder = trt.Builder(log)
    engine = builder.build_engine(network, builder.create_builder_config())
    assert engine is not None, log.messages
    assert engine.get_aliased_input_tensor("out") == "cache"
    assert engine.get_aliased_input_tensor("cache") is None
    cached = RNG.standard_normal((2, 3, 6, 4)).astype(np.float32)
    rows = RNG.standard_normal((2, 3, 2, 4)).astype(np.float32)
    want = cached.copy()
    want[0, :, 1:3], want[1, :, 4:6] = rows[0], rows[1]
    context = engine.create_execution_context()
    for name, array in (("cache", cached), ("update", rows), ("at", np.int32([1, 4]))):
        assert context.set_tensor_address(name, array)
    assert context.execute_async_v3(0), log.messages
    assert (cached == want).all()


def test_a_cache_that_the_network_makes_is_refused(network, log) -> None:
    x = network.add_input("x", trt.float32, (1, 1, 2, 2))
    rotated = network.add_identity(x).get_output(0)
    layer = network.add_kv_cache_update(rotated, x, constant(network, np.int32([0])), trt.KVCacheMode.LINEAR)
    network.mark_output(layer.get_output(0))
    builder = trt.Builder(log)
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert "the cache must be an input of the network" in log.of("ERROR")[0]


DATA = RNG.standard_normal((4, 32)).astype(np.float32)
DATA[1, :16] = 0
FP4 = ml_dtypes.float4_e2m1fn


def nearest(x: np.ndarray, dtype: type, largest: float) -> np.ndarray:
    return np.clip(x, -largest, largest).astype(dtype).astype(np.float32)


def test_codes_and_scales_of_blocks(network, log) -> None:
    x = network.add_input("x", trt.float32, DATA.shape)
    layer = network.add_dynamic_quantize(x, 1, 16, trt.fp8, trt.float32)
    for i in (0, 1):
        network.mark_output(layer.get_output(i))
    codes, scale = outputs_of(network, log, x=DATA)
    want = np.abs(DATA.reshape(4, 2, 16)).max(-1) / np.float32(448)
    assert (scale == want).all()
    steps = DATA.reshape(4, 2, 16) / np.where(want == 0, 1, want)[..., None]
    assert (codes == nearest(steps, ml_dtypes.float8_e4m3fn, 448).reshape(DATA.shape)).all()


def test_scales_are_quantized_too_and_undone(network, log) -> None:
    x = network.add_input("x", trt.float32, DATA.shape)
    layer = network.add_dynamic_quantize(x, 1, 16, trt.fp4, trt.fp8)
    outer = constant(network, np.float32(0.01))
    layer.set_input(1, outer)
    scales = network.add_dequantize(layer.get_output(1), outer, trt.float32)
    back = network.add_dequantize(layer.get_output(0), scales.get_output(0), trt.float32)
    for tensor in (layer.get_output(0), layer.get_output(1), back.get_output(0)):
        network.mark_output(tensor)
    codes, inner, floats = outputs_of(network, log, x=DATA)
    blocks, factor = DATA.reshape(4, 2, 16), np.float32(0.01)
    want = nearest(np.abs(blocks).max(-1) / np.float32(6) / factor, ml_dtypes.float8_e4m3fn, 448)
    total = (want * factor)[..., None]
    steps = nearest(blocks / np.where(total == 0, 1, total), FP4, 6)
    assert (inner == want).all() and (codes == steps.reshape(DATA.shape)).all()
    assert (floats == (steps * total).reshape(DATA.shape)).all()


def test_blocks_of_two_axes_with_powers_of_two(network, log) -> None:
    x = network.add_input("x", trt.float32, DATA.shape)
    layer = network.add_dynamic_quantize_v2(x, (2, -1), trt.fp8, trt.e8m0)
    network.mark_output(layer.get_output(1))
    amax = np.abs(DATA).reshape(2, 64).max(-1) / np.float32(448)
    assert (outputs_of(network, log, x=DATA)[0][:, 0] == 2 ** np.ceil(np.log2(amax.astype(float)))).all()


def test_dynamic_quantization_says_what_does_not_fit(network, log) -> None:
    x = network.add_input("x", trt.float32, DATA.shape)
    layer = network.add_dynamic_quantize_v2(x, (2, 4), trt.fp4, trt.fp8)
    layer.set_input(1, constant(network, np.float32(1)))
    assert "scalar block_size" in layer.check()[0]
    layer.block_shape = (3, 4)
    assert "do not fill" in layer.check()[0]
    layer.to_type = trt.int8
    assert "FP8 or FP4" in layer.check()[0]


def test_what_needs_other_devices_is_none_and_logged(network, log) -> None:
    x = network.add_input("x", trt.float32, (1, 2, 8))
    assert network.add_dist_collective(x, trt.CollectiveOperation.ALL_REDUCE, None, -1, []) is None
    assert len(log.of("ERROR")) == 1
