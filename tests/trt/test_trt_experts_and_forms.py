"""Mixtures of experts and packed sequences of attentions, against NumPy."""

from __future__ import annotations

from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from tests.trt.networks import constant, ints, outputs_of

import intact.trt as trt

RNG = np.random.default_rng(11)
SOFTMAX, PACKED = trt.AttentionNormalizationOp.SOFTMAX, trt.AttentionIOForm.PACKED_NHD
NONE, UPPER, LOWER = trt.CausalMaskKind.NONE, trt.CausalMaskKind.UPPER_LEFT, trt.CausalMaskKind.LOWER_RIGHT
HEADS, SHARED, SIZE = 4, 2, 8
QUERY_ENDS, KEY_ENDS = [0, 3, 4, 8], [0, 5, 9, 13]


def one_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, kind: trt.CausalMaskKind) -> np.ndarray:
    """The attention of one sequence, in NumPy: [heads, tokens, size]."""
    k, v = (np.repeat(a, HEADS // SHARED, axis=0) for a in (k, v))
    scores = q.astype(float) @ k.swapaxes(1, 2)
    if kind is not NONE:
        offset = k.shape[1] - q.shape[1] if kind is LOWER else 0
        scores = np.where(np.tri(*scores.shape[1:], offset, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True)) @ v


def sequences(array: np.ndarray, ends: list[int], packed: bool) -> list[np.ndarray]:
    """The sequences of a tensor, each [heads, tokens, size]."""
    if packed:
        return [array[a:b].swapaxes(0, 1) for a, b in pairwise(ends)]
    return [array[i, :, : b - a] for i, (a, b) in enumerate(pairwise(ends))]


def tensor(heads: int, ends: list[int], packed: bool, spare: int = 0) -> np.ndarray:
    """Random values for sequences that end there; `spare` tokens behind the last."""
    longest = max(b - a for a, b in pairwise(ends))
    shape = (ends[-1] + spare, heads, SIZE) if packed else (len(ends) - 1, heads, longest, SIZE)
    return RNG.standard_normal(shape, np.float32)


@pytest.mark.parametrize("kind", [NONE, UPPER, LOWER])
@pytest.mark.parametrize(("query_packed", "key_packed"), [(True, True), (True, False), (False, True)])
def test_packed_sequences_see_their_own_keys(network, log, kind, query_packed, key_packed) -> None:
    ends = QUERY_ENDS if query_packed else [0, 3, 6, 9]
    key_ends = KEY_ENDS
    q = tensor(HEADS, ends, query_packed, spare=2)
    k, v = (tensor(SHARED, key_ends, key_packed, spare=1) for _ in range(2))
    inputs = [network.add_input(n, trt.float32, a.shape) for n, a in (("q", q), ("k", k), ("v", v))]
    attention = network.add_attention_v2(*inputs, SOFTMAX, kind)
    if query_packed:
        attention.query_form, attention.query_lengths = PACKED, ints(network, *ends)
    if key_packed:
        attention.key_value_form, attention.key_value_lengths = PACKED, ints(network, *key_ends)
    else:
        attention.key_value_lengths = ints(network, *np.diff(key_ends))
    network.mark_output(attention.get_output(0))
    assert attention.get_output(0).shape == q.shape
    output = outputs_of(network, log, q=q, k=k, v=v)[0]
    parts = [sequences(a, e, p) for a, e, p in (
        (q, ends, query_packed), (k, key_ends, key_packed), (v, key_ends, key_packed),
        (output, ends, query_packed),
    )]  # fmt: skip
    for one_q, one_k, one_v, own in zip(*parts, strict=True):
        np.testing.assert_allclose(own, one_attention(one_q, one_k, one_v, kind), atol=1e-5)


@pytest.mark.parametrize("kind", [NONE, UPPER, LOWER])
@pytest.mark.parametrize("lengths", [None, (5, 3)])
def test_padded_sequences_have_lengths_and_both_kinds_of_causal_masks(network, log, kind, lengths) -> None:
    q = RNG.standard_normal((2, HEADS, 3, SIZE), np.float32)
    k, v = (RNG.standard_normal((2, SHARED, 5, SIZE), np.float32) for _ in range(2))
    inputs = [network.add_input(n, trt.float32, a.shape) for n, a in (("q", q), ("k", k), ("v", v))]
    attention = network.add_attention_v2(*inputs, SOFTMAX, kind)
    if lengths:
        attention.key_value_lengths = ints(network, *lengths)
    network.mark_output(attention.get_output(0))
    output = outputs_of(network, log, q=q, k=k, v=v)[0]
    for i, length in enumerate(lengths or (5, 5)):
        want = one_attention(q[i], k[i, :, :length], v[i, :, :length], kind)
        np.testing.assert_allclose(output[i], want, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda network, a: setattr(a, "query_form", PACKED), "needs query_lengths"),
        (
            lambda network, a: a.set_input(1, network.add_input("flat", trt.float32, (2, 3, 4))),
            "4 dimensions",
        ),
        (
            lambda network, a: setattr(a, "key_value_lengths", constant(network, np.ones(2, np.float32))),
            "INT32",
        ),
    ],
)
def test_forms_and_lengths_that_do_not_fit_are_refused(network, log, change, message) -> None:
    inputs = [network.add_input(n, trt.float32, (1, 2, 3, 4)) for n in "qkv"]
    attention = network.add_attention_v2(*inputs, SOFTMAX, NONE)
    network.mark_output(attention.get_output(0))
    change(network, attention)
    builder = trt.Builder(log)
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert message in log.of("ERROR")[0]


def test_a_packed_update_goes_where_its_sequence_is(network, log) -> None:
    cache = RNG.standard_normal((2, SHARED, 6, SIZE), np.float32)
    update = RNG.standard_normal((4, SHARED, SIZE), np.float32)
    c, u = (network.add_input(n, trt.float32, a.shape) for n, a in (("c", cache), ("u", update)))
    layer = network.add_kv_cache_update(c, u, ints(network, 4, 1), trt.KVCacheMode.LINEAR)
    layer.update_form, layer.update_lengths = PACKED, ints(network, 0, 2, 3)
    network.mark_output(layer.get_output(0))
    want = cache.copy()
    want[0, :, 4:6], want[1, :, 1] = update[:2].swapaxes(0, 1), update[2]
    np.testing.assert_array_equal(outputs_of(network, log, c=cache, u=update)[0], want)


EXPERTS, INNER, HIDDEN = 5, 16, 8


@pytest.fixture
def experts(network):
    """A network with a mixture, and what NumPy needs to compute it."""
    arrays = {
        "x": RNG.standard_normal((2, 3, HIDDEN), np.float32),
        "chosen": RNG.integers(0, EXPERTS, (2, 3, 2)).astype(np.int32),
        "scores": RNG.random((2, 3, 2), np.float32),
    }
    gate, up = RNG.standard_normal((2, EXPERTS, HIDDEN, INNER), np.float32)
    weights = gate, up, RNG.standard_normal((EXPERTS, INNER, HIDDEN), np.float32)
    types = (trt.float32, trt.int32, trt.float32)
    inputs = [network.add_input(n, t, a.shape) for (n, a), t in zip(arrays.items(), types, strict=True)]
    layer = network.add_moe(*inputs)
    layer.set_gated_weights(*(constant(network, w) for w in weights), trt.MoEActType.SILU)
    network.mark_output(layer.get_output(0))
    return layer, arrays, weights


def numpy_experts(arrays, weights, biases=(0, 0, 0), unit=None, grid=lambda a: a) -> np.ndarray:
    """The mixture in NumPy, token by token."""
    unit = unit or (lambda g, u: g / (1 + np.exp(-g)) * u)
    x, output = arrays["x"].astype(float), np.zeros(arrays["x"].shape)
    for place in np.ndindex(x.shape[:2]):
        for expert, score in zip(arrays["chosen"][place], arrays["scores"][place], strict=True):
            g, u = (x[place] @ w[expert] + (b[expert] if np.ndim(b) else 0)
                    for w, b in zip(weights[:2], biases[:2], strict=True))  # fmt: skip
            last = biases[2][expert] if np.ndim(biases[2]) else 0
            output[place] += score * (grid(unit(g, u)) @ weights[2][expert] + last)
    return output


def test_each_token_goes_through_the_experts_that_were_chosen(network, log, experts) -> None:
    layer, arrays, weights = experts
    assert layer.get_output(0).shape == (2, 3, HIDDEN)
    np.testing.assert_allclose(
        outputs_of(network, log, **arrays)[0], numpy_experts(arrays, weights), atol=1e-4
    )


def test_experts_have_biases_and_parameters_of_the_gate(network, log, experts) -> None:
    layer, arrays, weights = experts
    biases = [RNG.standard_normal((EXPERTS, n), np.float32) for n in (INNER, INNER, HIDDEN)]
    layer.set_gated_biases(*(constant(network, b) for b in biases))
    layer.set_swiglu_params(2.0, 1.5, 1.0)

    def unit(g: np.ndarray, u: np.ndarray) -> np.ndarray:
        g, u = np.minimum(g, 2), np.clip(u, -2, 2)
        return g / (1 + np.exp(-1.5 * g)) * (u + 1)

    want = numpy_experts(arrays, weights, biases, unit)
    np.testing.assert_allclose(outputs_of(network, log, **arrays)[0], want, atol=1e-4)


def test_products_of_experts_are_rounded_in_front_of_the_last_weights(network, log, experts) -> None:
    layer, arrays, weights = experts
    layer.set_quantization_static(constant(network, np.float32(0.125)), trt.fp8)
    grid = lambda a: (a / 0.125).astype(ml_dtypes.float8_e4m3fn).astype(float) * 0.125  # noqa: E731
    np.testing.assert_allclose(
        outputs_of(network, log, **arrays)[0], numpy_experts(arrays, weights, grid=grid), atol=5e-2
    )
    layer.set_quantization_dynamic_dbl_q(
        constant(network, np.float32(0.01)), trt.fp4, trt.Dims((1, 1, 1, 16)), trt.fp8
    )

    def dynamic(a: np.ndarray) -> np.ndarray:
        scale = np.float32(np.float32(np.abs(a).max() / 6 / 0.01).astype(ml_dtypes.float8_e4m3fn)) * 0.01
        return (a / scale).astype(ml_dtypes.float4_e2m1fn).astype(float) * scale

    want = numpy_experts(arrays, weights, grid=dynamic)
    np.testing.assert_allclose(outputs_of(network, log, **arrays)[0], want, atol=5e-2)


def test_experts_without_weights_or_with_others_are_refused(network, log, experts) -> None:
    layer = experts[0]
    layer.activation_type = trt.MoEActType.NONE
    builder = trt.Builder(log)
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert "SILU alone" in log.of("ERROR")[0]
    layer.activation_type = trt.MoEActType.SILU
    log.messages.clear()
    layer.set_input(4, network.add_input("wide", trt.float32, (EXPERTS, HIDDEN, INNER + 1)))
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert "do not fit hidden states" in log.of("ERROR")[0]
