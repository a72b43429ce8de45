"""The entropy method: the threshold whose quantized distribution tells most about the real one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

VARIANTS = ("pytorch_quantization", "gtc2017")
_BLOCK = 1 << 14  # candidates times levels at a time: what they need stays in the second-level cache
_TIE = 1e-12  # nats; prefix sums carry rounding errors of about 1e-14


def entropy_edge(
    counts: NDArray[np.int64], levels: int, variant: str, start_bin: int, stride: int
) -> int | None:
    """Index i of the edge at which clipping loses least: the arg-min of KL(P || Q). NORMATIVE.

    P is the first i bins, the counts beyond them added to the last; Q spreads the counts of each of
    `levels` equal parts of the first i bins over those of its bins that are not empty. Bin j belongs to
    part floor(j * levels / i). Candidates are i = start_bin, start_bin + stride, ..., up to the number
    of bins.

    Args:
        counts: Magnitudes in bins of one width, int64 [bins].
        levels: Number of codes for a magnitude: 128 for int8, 256 for uint8.
        variant: "pytorch_quantization" gives bin 0 the count of bin 1, so that the zeros after a ReLU do
            not drive the result, and prefers the last of equals; "gtc2017" takes the counts as they are
            and prefers the first.
        start_bin, stride: Which candidates are tried.
    Returns:
        The edge's index; None where nothing can be chosen (as many levels as bins, no candidate, no
        counts): the maximum is right there.
    Numerics: float64 over prefix sums; divergences within 1e-12 of the smallest are equal.
    Source: Migacz, 8-bit inference with TensorRT, GTC 2017; pytorch_quantization 2.2.1 (its form).
    """
    bins = counts.astype(np.float64)
    if variant == "pytorch_quantization" and len(bins) > 1:
        bins[0] = bins[1]
    if levels >= len(bins) or start_bin > len(bins) or not bins.any():
        return None
    found = np.concatenate(list(_divergences(bins, levels, start_bin, stride)))
    best = np.flatnonzero(found <= found.min() + _TIE)[0 if variant == "gtc2017" else -1]
    return start_bin + stride * int(best)


def _divergences(bins: NDArray[np.float64], levels: int, start: int, stride: int) -> Iterator[NDArray]:
    """KL(P || Q) of the candidates, some rows at a time.

    With p the share of a bin, m and n the mass and the number of non-empty bins of a part, s the mass of
    all parts and o what lies beyond them (s + o = 1), Q is m / n / s in the non-empty bins of a part, and
    KL = sum p log p - p_last log p_last + (p_last + o) log(p_last + o)
         - sum m log(m / n) - o log(m_last / n_last) + log s.
    """
    mass = _prefix(bins)  # whole numbers, so that differences are exact and an empty part has mass 0
    filled = _prefix((bins > 0).astype(np.float64))
    total = mass[-1]
    p = bins / total
    own = _prefix(_xlogx(p))

    log_total = np.log(total)
    for candidates, edges in _blocks(levels, start, stride, len(bins)):
        m, n = np.diff(mass.take(edges)), np.diff(filled.take(edges))
        log_density = np.log(np.maximum(m, 1) / np.maximum(n, 1)) - log_total
        spread = np.einsum("cl,cl->c", m, log_density) / total
        last_density = log_density[:, -1]
        inside, tail, end = mass[candidates] / total, (total - mass[candidates]) / total, p[candidates - 1]
        kl = own[candidates] - _xlogx(end) + _xlogx(end + tail) - spread - tail * last_density
        kl += np.log(np.where(inside > 0, inside, 1.0))
        # What is clipped lands in the last bin: where that one is empty, Q is 0 and P is not.
        yield np.where((inside > 0) & ((end > 0) | (tail == 0)), kl, np.inf)


def _blocks(levels: int, start: int, stride: int, bins: int) -> Iterator[tuple[NDArray, NDArray]]:
    """Some candidates at a time, and the edges of their parts: intp [candidates, levels + 1]."""
    part = np.arange(levels + 1, dtype=np.intp)
    candidates = np.arange(start, bins + 1, stride, dtype=np.intp)
    rows = max(8, _BLOCK // levels)
    for first in range(0, len(candidates), rows):
        block = candidates[first : first + rows]
        yield block, -(-(part * block[:, None]) // levels)


def _prefix(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([[0.0], np.cumsum(values)])


def _xlogx(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values * np.log(np.where(values > 0, values, 1.0))
