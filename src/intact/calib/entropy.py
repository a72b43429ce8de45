"""The entropy method: finds the threshold whose quantized distribution is closest to the real one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact import kernels

VARIANTS = ("pytorch_quantization", "gtc2017")
_TIE = 1e-12  # nats; prefix sums carry rounding errors of about 1e-14
_SURE = 1e-9  # nats above the best: what lies there is neither the best nor its equal


def entropy_edge(
    counts: NDArray[np.int64], levels: int, variant: str, start_bin: int, stride: int
) -> int | None:
    """Return the index of the edge at which clipping loses least: the arg-min of KL(P || Q). NORMATIVE.

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
    divergences = _divergences(bins, levels, start_bin, stride)
    best = np.flatnonzero(divergences <= divergences.min() + _TIE)[0 if variant == "gtc2017" else -1]
    return start_bin + stride * int(best)


def _divergences(bins: NDArray[np.float64], levels: int, start: int, stride: int) -> NDArray[np.float64]:
    """Return KL(P || Q) of the candidates; inf for those that a bound rules out.

    With p the share of a bin, m and n the mass and the number of non-empty bins of a part, s the mass of
    all parts and o what lies beyond them (s + o = 1), Q is m / n / s in the non-empty bins of a part, and
    KL = sum p log p - p_last log p_last + (p_last + o) log(p_last + o)
         - sum m log(m / n) - o log(m_last / n_last) + log s.
    """
    mass = _prefix(bins)  # whole numbers, so that differences are exact and an empty part has mass 0
    filled = _prefix((bins > 0).astype(np.float64))
    candidates = np.arange(start, len(bins) + 1, stride, dtype=np.int64)
    bounds, divergences = _bounds(bins, mass, filled, levels, candidates), np.empty(len(candidates))
    order = np.argsort(bounds, kind="stable")
    divergences[order] = kernels.entropy_divergences(
        bins, mass, filled, levels, candidates[order], bounds[order], _SURE
    )
    return divergences


def _bounds(
    bins: NDArray[np.float64],
    mass: NDArray[np.float64],
    filled: NDArray[np.float64],
    levels: int,
    candidates: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return a lower bound of KL(P || Q) for each candidate: merging bins never increases it.

    All parts but the last, the last without its last bin, and this bin are left: P is (a, b, c + o) there
    and Q (a, (b + c) (1 - 1/n), (b + c) / n) / s, of masses a, b, c and what lies beyond, o.
    """
    total, last = mass[-1], -(-((levels - 1) * candidates) // levels)
    a, c = mass[last] / total, bins[candidates - 1] / total
    b = (mass[candidates] - mass[last] - bins[candidates - 1]) / total
    inside, clipped = mass[candidates] / total, (total - mass[candidates]) / total
    n = filled[candidates] - filled[last]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (b + c) / inside
        bound = a * np.log(inside) + (c + clipped) * np.log((c + clipped) * n / share)
        bound += np.where(b > 0, b * np.log(b / (share * (1 - 1 / n))), 0.0)
    bound = np.where((candidates >= levels) & (c > 0), bound, -np.inf)  # nothing is said of parts of no bin
    return np.where((c == 0) & (clipped > 0), np.inf, bound)  # Q is 0 in the last bin, and P is not


def _prefix(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([[0.0], np.cumsum(values)])
