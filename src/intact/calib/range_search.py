"""Search ranges by counts alone: the squared errors of many candidates, and their KL divergence (entropy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact import kernels
from intact.numerics import ZERO_RANGE, affine_from_range
from intact.spec import Format, QuantSpec

_TIE = 1e-12  # of the sum of squares: the rounding error of the prefix sums
_SWEEPS = 8


def magnitudes(fmt: Format) -> NDArray[np.float64]:
    """Return the positive numbers of a grid, ascending: 1..127 for int8, 2**-9..448 for fp8e4m3."""
    if not fmt.is_float:
        return np.arange(1, int(fmt.qmax) + 1, dtype=np.float64)
    codes = np.arange(2 ** (fmt.bits - 1), dtype=np.uint8).view(fmt.storage_dtype).astype(np.float64)
    return np.unique(codes[np.isfinite(codes) & (codes > 0)])


def symmetric_errors(
    positive: NDArray[np.int64],
    negative: NDArray[np.int64],
    spec: QuantSpec,
    scales: NDArray[np.float64],
    zero_bin: float = 0.0,
) -> NDArray[np.float64]:
    """Return the summed squared error of every scale, in bin widths squared.

    A bin counts with its middle x, the first one with `zero_bin`. With v_k the numbers of the grid, s the
    scale and N_k, X_k the number and the sum of the x beyond the point half-way between s v_(k-1) and
    s v_k, the error sum (x - s v)^2 is
    sum x^2 - 2 s sum_k (v_k - v_(k-1)) X_k + s^2 sum_k (v_k^2 - v_(k-1)^2) N_k:
    two look-ups per scale and number instead of one quantization per scale and bin. At a half-way point
    both neighbours are equally far, so that the rounding of ties does not matter.

    Args:
        positive, negative: Counts of magnitudes on either side of 0, int64 [bins].
        spec: A symmetric grid. Its extra negative code (-128 of int8) counts, unless it is narrow; an
            unsigned grid has no negative numbers.
        scales: Candidates, in bin widths, float64 [candidates], > 0.
        zero_bin: What stands for the first bin, in bin widths: 0 (zeros stay exact) or 0.5.
    Returns:
        float64 [candidates].
    """
    grid = magnitudes(spec.format)
    middles = _middles(len(positive), zero_bin)
    shared = positive if spec.qmin >= 0 else positive + negative
    errors = np.full(len(scales), float(((positive + negative) * middles**2).sum()))
    errors += _gain(shared, middles, np.concatenate([[0.0], grid]), scales)
    if -spec.qmin > spec.qmax and negative.any():
        extra = np.arange(spec.qmax, -spec.qmin + 1)  # 127, 128 for int8
        errors += _gain(negative, middles, extra, scales)
    return errors


def _middles(bins: int, zero_bin: float) -> NDArray[np.float64]:
    middles: NDArray[np.float64] = np.arange(bins, dtype=np.float64) + 0.5
    middles[0] = zero_bin
    return middles


def _gain(
    counts: NDArray[np.int64],
    middles: NDArray[np.float64],
    numbers: NDArray[np.float64],
    scales: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return how the numbers after the first change the summed squared error of that first one alone."""
    number, value = _beyond(counts), _beyond(counts * middles)
    if middles[0] == 0:
        number[0] = number[1]  # a first bin that stands at 0 lies beyond no point
    return kernels.grid_gains(number, value, numbers, scales)


class AffineErrors:
    """Computes the same errors for grids with a zero point.

    Args:
        positive, negative, spec: As there; an integer grid.
    """

    def __init__(self, positive: NDArray[np.int64], negative: NDArray[np.int64], spec: QuantSpec) -> None:
        middles = _middles(len(positive), 0.0)
        x, counts = np.concatenate([-middles[::-1], middles]), np.concatenate([negative[::-1], positive])
        self._number, self._value = _beyond(counts), _beyond(counts * x)
        self._squares = float((counts * x**2).sum())
        self._codes = int(spec.qmin), int(spec.qmax)

    def __call__(self, scales: NDArray[np.float64], zero_points: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the error of every candidate, float64 [candidates]."""
        return self._squares + kernels.affine_gains(
            self._number, self._value, self._codes, scales, zero_points
        )


def best_affine(
    positive: NDArray[np.int64],
    negative: NDArray[np.int64],
    spec: QuantSpec,
    width: float,
    ends: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the asymmetric range of the smallest error: -rmin and rmax, both >= 0, in the unit of the
    tensor.

    The best of 128 ranges that shrink both ends alike; from there each end in turn moves to its best
    place among 256, then among 128 close by, for as long as the error falls.

    Args:
        positive, negative: As for `symmetric_errors`.
        spec: An asymmetric grid.
        width: Width of a bin.
        ends: -min and max of the tensor, not below 0, float64 [2].
    """
    if ends.sum() <= ZERO_RANGE:
        return ends
    errors_of = AffineErrors(positive, negative, spec)

    def choose(candidates: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        # A range of zero has scale 1, which whole numbers like, and would read as a tensor of zeros (N7).
        candidates = candidates[candidates.sum(axis=1) > ZERO_RANGE]
        real = candidates.astype(np.float32)
        scale, zero_point = affine_from_range(-real[:, 0], real[:, 1], spec)
        errors = errors_of(scale / np.float64(width), zero_point)
        index = widest_best(errors, float(errors.max()))
        return candidates[index], float(errors[index])

    best, error = choose(np.multiply.outer(np.arange(1, 129) / 128, ends))
    for reach, places in ((1.0, 128), (1 / 64, 64)):
        offsets = reach * np.arange(-places, places + 1) / places
        cache: dict[tuple[int, float, float], tuple[NDArray[np.float64], float]] = {}
        for _ in range(_SWEEPS):
            before = error
            for side in (0, 1):
                # A sweep that moves nothing asks what was asked before.
                key = side, float(best[0]), float(best[1])
                if key not in cache:
                    places_of_side = np.clip(best[side] + offsets * ends[side], 0, ends[side])  # ascending
                    distinct = places_of_side[np.diff(places_of_side, prepend=-1) > 0]
                    moved = np.tile(best, (len(distinct), 1))
                    moved[:, side] = distinct
                    cache[key] = choose(moved)
                best, error = cache[key]
            if error >= before:
                break
    return best


def _beyond(values: NDArray) -> NDArray[np.float64]:
    """Return the sums of values[i:], for i = 0..len(values)."""
    sums = np.zeros(len(values) + 1)
    sums[:-1] = np.cumsum(values[::-1].astype(np.float64))[::-1]
    return sums


def widest_best(errors: NDArray[np.float64], total: float) -> int:
    """Return the last index whose error is the smallest, the rounding errors of a sum of `total` aside.

    Args:
        errors: float64 [candidates].
        total: The sum that they were taken of.
    """
    return int(np.flatnonzero(errors <= errors.min() + _TIE * total)[-1])


VARIANTS = ("pytorch_quantization", "gtc2017")
_ENTROPY_TIE = 1e-12  # nats; prefix sums carry rounding errors of about 1e-14
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
    best = np.flatnonzero(divergences <= divergences.min() + _ENTROPY_TIE)[0 if variant == "gtc2017" else -1]
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
