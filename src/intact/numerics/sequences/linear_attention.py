"""Linear attention: a matrix of each head takes in tokens one after the other. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.floats.float_matmul import float_product
from intact.numerics.floats.fma import fma
from intact.numerics.grids.affine import to_float32

Reals = NDArray[np.float32]


def linear_attention(
    q: ArrayLike, k: ArrayLike, v: ArrayLike, past: ArrayLike | None = None, *,
    decay: ArrayLike | None = None, beta: ArrayLike | None = None, scale: float = 1.0,
) -> tuple[Reals, Reals]:  # fmt: skip
    """Return what queries read of a state, and the state behind the last token. NORMATIVE.

    For each token: ``S = S * decay``, ``d = (v - k S) * beta`` or v, ``S = S + k d``, ``y = q S * scale``.
    Each operation is rounded by itself, but that products of vectors with S are N51's, and ``S + k d`` is one
    fused multiply-add. So chunks and batches change no bit.

    Args:
        q: Reals [batch, tokens, heads, size].
        k: Reals [batch, tokens, state heads, size]; each serves ``heads / state heads`` heads.
        v: Reals [batch, tokens, state heads, value size].
        past: The state before, reals [batch, state heads, size, value size]; None: 0.
        decay: Factors of the state, reals [batch, tokens, state heads, columns] with 1 or `size` columns, or
            one for each element of the state; None: 1.
        beta: Reals [batch, tokens, state heads]: how much of the difference between the value and what the
            state holds for the key is added (the delta rule); None: the value itself is.
        scale: Rounded to float32.
    Returns:
        float32 [batch, tokens, heads, value size] and [batch, state heads, size, value size].
    Source: ONNX's LinearAttention, whose `decay` is the logarithm of this one; "Gated Delta Networks:
    Improving Mamba2 with Delta Rule"; "Transformers are SSMs" (Mamba 2).

    Rule N76.
    """
    q, k, v = to_float32(q), to_float32(k), to_float32(v)
    batch, tokens, heads, size = q.shape
    shape = (batch, k.shape[2], size, v.shape[3])
    state = np.zeros(shape, np.float32) if past is None else to_float32(past).copy()
    y = np.empty((batch, tokens, heads, shape[3]), np.float32)
    for token in range(tokens):
        key, value = k[:, token], v[:, token]
        if decay is not None:
            factors = to_float32(decay)[:, token]
            whole = factors.shape[-1] not in (1, size)
            state = state * (factors.reshape(shape) if whole else factors[..., None])
        if beta is not None:
            present = float_product(key[:, :, None], state)[:, :, 0]
            value = (value - present) * to_float32(beta)[:, token, :, None]
        state = fma(key[..., None], value[:, :, None], state)
        apart = q[:, token].reshape(batch, shape[1], -1, size)
        y[:, token] = (float_product(apart, state) * np.float32(scale)).reshape(batch, heads, shape[3])
    return y, state
