"""Convolutions of each column over its last tokens, with a state. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.floats.fma import fma
from intact.numerics.grids.affine import to_float32

Reals = NDArray[np.float32]


def causal_convolution(
    x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, past: ArrayLike | None = None
) -> tuple[Reals, Reals]:
    """Return each column's sum over its last tokens, and the tokens that later ones need. NORMATIVE.

    A sum begins at the bias, or +0, and becomes ``fma(x[token + tap], weight[tap], y)``, tap ascending, where
    x stands behind the state. So chunks and batches change no bit.

    Args:
        x: Reals [batch, tokens, columns].
        weight: Reals [taps, columns]; the last one is of the token itself.
        bias: Reals [columns]; None: 0.
        past: Tokens before, reals [batch, taps - 1, columns]; None: 0.
    Returns:
        float32 [batch, tokens, columns] and [batch, taps - 1, columns].
    Source: ONNX's CausalConvWithState, which has columns first.

    Rule N77.
    """
    x, weight = to_float32(x), to_float32(weight)
    batch, tokens, columns = x.shape
    before = np.zeros((batch, len(weight) - 1, columns), np.float32) if past is None else to_float32(past)
    joined = np.concatenate([before, x], axis=1)
    y = np.array(np.broadcast_to(to_float32(0 if bias is None else bias), x.shape))
    for tap, factors in enumerate(weight):
        y = fma(joined[:, tap : tap + tokens], factors, y)
    return y, joined[:, tokens:]
