"""Attention of new tokens to the keys and values of all tokens before them. NORMATIVE."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.blocks.dynamic_activations import quantize_dynamic
from intact.numerics.floats.float_matmul import float_product
from intact.numerics.floats.hyperbolic import tanh
from intact.numerics.floats.softmax import softmax
from intact.numerics.grids.affine import to_float32

Reals = NDArray[np.float32]
Counts = NDArray[np.int64]
CACHE_DTYPES = ("float32", "float16", "int8")
SCALE_BYTES = 4
"""Behind the int8 codes of a head: their float32 scale."""


def tokens_before(last: ArrayLike, tokens: int) -> Counts:
    """Return how many tokens each sequence had before the new ones: ``max(last + 1 - tokens, 0)``.

    Args:
        last: Integers, one for each sequence: the position of its last new token.
        tokens: New tokens of each.
    Returns:
        int64 [batch].
    Source: seqlens_k of com.microsoft's GroupQueryAttention.

    Rule N71.
    """
    return np.maximum(np.asarray(last, np.int64).reshape(-1) + 1 - tokens, 0)


def write_cache(
    past: ArrayLike | None, new: ArrayLike, before: Counts, room: int, dtype: str = "float32"
) -> NDArray[Any]:
    """Return a cache with the new tokens behind those that were there. NORMATIVE.

    Args:
        past: What this function returned [batch, heads, old room, ...]; None: nothing.
        new: Reals [batch, tokens, heads, size].
        before: Tokens that each sequence had.
        room: Tokens that the new cache holds; what nobody wrote is 0.
        dtype: "float32"; "float16", rounded to nearest even; or "int8": the codes of N68 with a scale for
            each token and head, whose four bytes, lowest first, stand behind them.
    Returns:
        The rows [batch, heads, room, size] of that dtype; of int8 [batch, heads, room, size + 4].
    Raises:
        QuantValueError: There is no room for the new tokens.

    Rule N72.
    """
    added = _stored_rows(to_float32(new).swapaxes(1, 2), dtype)
    batch, heads, tokens, width = added.shape
    cache = np.zeros((batch, heads, room, width), dtype)
    if past is not None:
        old = np.asarray(past, dtype)[:, :, :room]
        cache[:, :, : old.shape[2]] = old
    for row, start in enumerate(before):
        if start + tokens > room:
            got = f"{start} + {tokens} tokens in sequence {row}"
            raise QuantValueError("the cache", got, f"at most {room}", "give a larger cache")
        cache[row, :, start : start + tokens] = added[row]
    return cache


def _stored_rows(rows: Reals, dtype: str) -> NDArray[Any]:
    if dtype != "int8":
        with np.errstate(over="ignore"):
            return rows.astype(dtype)
    codes = quantize_dynamic(rows, per="token")
    scales = codes.scales.reshape(*rows.shape[:-1], 1).astype("<f4").view(np.int8)
    return np.concatenate([codes.codes, scales], axis=-1)


def cache_reals(cache: NDArray[Any]) -> Reals:
    """Return what the rows of a cache mean, float32 [batch, heads, room, size]: ``fl32(code * scale)``.

    Rule N72.
    """
    if cache.dtype != np.int8:
        return to_float32(cache)
    scales = np.ascontiguousarray(cache[..., -SCALE_BYTES:]).view("<f4")
    with np.errstate(invalid="ignore"):
        return cache[..., :-SCALE_BYTES].astype(np.float32) * scales.astype(np.float32)


def cached_attention(
    q: ArrayLike, keys: NDArray[Any], values: NDArray[Any], before: Counts,
    scale: float, window: int = 0, softcap: float = 0.0, sinks: ArrayLike | None = None,
) -> Reals:  # fmt: skip
    """Compute ``softmax(q k * scale) v`` over each token's own and all earlier ones. NORMATIVE.

    Products are N51's, the softmax is N40's over the keys in reach alone. So the tokens of a prompt may come
    at once, in chunks or one by one, with others or alone: no bit changes.

    Args:
        q: Reals [batch, tokens, heads, size].
        keys: Of `write_cache`, [batch, key heads, room, ...]; each serves ``heads / key heads`` heads.
        values: Likewise.
        before: Tokens before the first one of q, for each sequence.
        scale: Rounded to float32.
        window: So many tokens, its own included, each attends to; 0: all.
        softcap: c of ``c * tanh(x * fl32(scale / c))`` in place of ``x * scale``; 0: none.
        sinks: Reals [heads]: behind the scores of a head, one more that the softmax counts, and that has no
            value; None: none.
    Returns:
        float32 [batch, tokens, heads, value size].
    Source: "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints";
    "Longformer" (windows); Gemma 2 (cap); gpt-oss (sinks).

    Rule N72.
    """
    q, keys, values = to_float32(q), cache_reals(keys), cache_reals(values)
    batch, tokens, heads, _ = q.shape
    group = heads // keys.shape[1]
    y = np.empty((batch, tokens, heads, values.shape[-1]), np.float32)
    for row, token, head in np.ndindex(batch, tokens, heads):
        end = int(before[row]) + token + 1
        reach = slice(max(0, end - window) if window else 0, end)
        scores = float_product(q[row, token, None, head], keys[row, head // group, reach].T)
        if softcap:
            scores = tanh(scores * np.float32(scale / softcap)) * np.float32(softcap)
        else:
            scores = scores * np.float32(scale)
        if sinks is not None:
            scores = np.append(scores, to_float32(sinks)[head, None, None], axis=1)
        weights = softmax(scores)[:, : reach.stop - reach.start]
        y[row, token, head] = float_product(weights, values[row, head // group, reach])[0]
    return y
