"""Rotary positions and attention to a cache: the formulas, one operation at a time."""

from __future__ import annotations

import numpy as np
import pytest

from intact import numerics
from intact.errors import QuantValueError

F32 = np.float32


def reals(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.rule("N71")
@pytest.mark.parametrize("interleaved", [False, True])
def test_pairs_rotate_by_single_operations(interleaved):
    x, cos, sin = reals(1, 2, 1, 6), reals(5, 2, seed=1), reals(5, 2, seed=2)
    y = numerics.rotary_embedding(x, cos, sin, [[3, 1]], interleaved)
    for token, position in enumerate((3, 1)):
        for pair in range(2):
            first, second = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + 2)
            a, b = x[0, token, 0, first], x[0, token, 0, second]
            c, s = cos[position, pair], sin[position, pair]
            assert y[0, token, 0, first] == F32(F32(a * c) - F32(b * s))
            assert y[0, token, 0, second] == F32(F32(a * s) + F32(b * c))
    assert (y[..., 4:] == x[..., 4:]).all()


@pytest.mark.rule("N71")
def test_positions_count_on_from_what_was_there():
    assert numerics.tokens_before([4, 9, 0, -3], 2).tolist() == [3, 8, 0, 0]
    with pytest.raises(QuantValueError, match="positions"):
        numerics.rotary_embedding(reals(1, 1, 1, 4), reals(5, 2), reals(5, 2), [[5]])
    with pytest.raises(QuantValueError, match="heads"):
        numerics.rotary_embedding(reals(1, 1, 1, 3), reals(5, 2), reals(5, 2), [[0]])


@pytest.mark.rule("N72")
def test_a_cache_keeps_what_was_there():
    past, new = reals(2, 1, 3, 4), reals(2, 2, 1, 4, seed=1)
    cache = numerics.write_cache(past, new, np.array([1, 3]), 6)
    assert cache.shape == (2, 1, 6, 4)
    assert (cache[0, 0, 1:3] == new[0, :, 0]).all()
    assert (cache[0, 0, 0] == past[0, 0, 0]).all()
    assert (cache[1, 0, :3] == past[1, 0]).all()
    assert (cache[1, 0, 3:5] == new[1, :, 0]).all()
    assert (cache[:, :, 5] == 0).all()
    with pytest.raises(QuantValueError, match="cache"):
        numerics.write_cache(past, new, np.array([1, 5]), 6)


@pytest.mark.rule("N72")
def test_a_narrow_cache_rounds_each_head_by_itself():
    past, new = reals(1, 1, 3, 4), reals(1, 1, 2, 4, seed=1)
    new[0, 0, 1] *= 1000
    before = np.array([3])
    half = numerics.write_cache(np.float16(past), new[:, :, :1], before, 5, "float16")
    assert half.dtype == np.float16
    assert (half[0, 0, 3] == np.float16(new[0, 0, 0])).all()
    assert (half[0, 0, :3] == np.float16(past[0, 0])).all()
    codes = numerics.write_cache(None, new, np.array([1]), 2, "int8")
    assert codes.shape == (1, 2, 2, 8)
    assert not codes[:, :, 0].any()
    for head in range(2):
        scale = F32(np.abs(new[0, 0, head]).max() / F32(127))
        row = codes[0, head, 1]
        assert row[4:].tobytes() == np.array(scale, "<f4").tobytes()
        assert row[:4].tolist() == np.rint(new[0, 0, head] / scale).tolist()
        meaning = numerics.cache_reals(codes)[0, head, 1]
        assert meaning.tolist() == (row[:4].astype(F32) * scale).tolist()


@pytest.mark.rule("N72")
@pytest.mark.parametrize("sinks", [None, (0.5, -1.0, 2.0, 0.0)])
@pytest.mark.parametrize(("window", "cap"), [(0, 0.0), (2, 0.0), (0, 1.5)])
def test_tokens_attend_to_what_they_reach(window, cap, sinks):
    q, keys, values = reals(1, 3, 4, 2), reals(1, 2, 9, 2, seed=1), reals(1, 2, 9, 3, seed=2)
    before = np.array([4])
    y = numerics.cached_attention(q, keys, values, before, 0.7, window, cap, sinks)
    for token, head in np.ndindex(3, 4):
        end = 4 + token + 1
        begin = max(0, end - window) if window else 0
        k, v = keys[0, head // 2, begin:end], values[0, head // 2, begin:end]
        scores = [F32(sum_of(q[0, token, head], key)) for key in k]
        if cap:
            logits = numerics.FUNCTIONS["tanh"](np.array(scores, F32) * F32(0.7 / cap)) * F32(cap)
        else:
            logits = np.array(scores, F32) * F32(0.7)
        own = [] if sinks is None else [F32(sinks[head])]
        weights = numerics.softmax(np.append(logits, np.array(own, F32)))[: len(k)]
        expected = [sum_of(weights, column) for column in v.T]
        assert y[0, token, head].tolist() == expected


def sum_of(a: np.ndarray, b: np.ndarray) -> np.float32:
    total = F32(0)
    for x, y in zip(a, b, strict=True):
        total = numerics.fma(x, y, total)
    return F32(total)


@pytest.mark.rule("N72")
def test_chunks_change_no_bit():
    q, k, v = reals(1, 7, 2, 4), reals(1, 7, 1, 4, seed=1), reals(1, 7, 1, 4, seed=2)
    start = np.array([0])
    keys, values = (numerics.write_cache(None, x, start, 7) for x in (k, v))
    whole = numerics.cached_attention(q, keys, values, start, 0.5)
    for at in range(7):
        token = numerics.cached_attention(q[:, at : at + 1], keys, values, np.array([at]), 0.5)
        assert token.tobytes() == whole[:, at : at + 1].tobytes()
