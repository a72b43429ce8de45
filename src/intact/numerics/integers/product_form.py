"""One product and one sum that have the codes of an integer layer's own formula."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.integers.requantize import NO_OFFSET, Gain

_UNIT = 2.0**-24  # what one rounding may change, relatively
_FORMULA = 8  # roundings on the way of either form to a code, and of their constants
_NUDGES = 2  # units in the last place by which M and B are moved
_MOST_SUMS = 8  # on one side of a boundary: beyond, a float32 holds too few digits for a proof


@dataclass(frozen=True)
class _Layer:
    """Constants of some channels, float32 [channels], and the steps between which codes change."""

    multiplier: NDArray[np.float32]
    bias: NDArray[np.float32]
    factor: NDArray[np.float32]
    offset: NDArray[np.float32]
    most: NDArray[np.float64]
    scale: NDArray[np.float32]
    has_gain: bool

    def of(self, channels: NDArray[np.intp]) -> _Layer:
        parts = {
            name: getattr(self, name)[channels] for name in ("multiplier", "bias", "factor", "offset", "most")
        }
        return replace(self, **parts)

    def steps(self, sums: NDArray[np.float64]) -> NDArray[np.float32]:
        """The formula: a sum of each channel in steps of the output."""
        real = sums.astype(np.float32) * self.multiplier + self.bias
        if self.has_gain:
            real = real * self.factor + self.offset
        return np.asarray(real / self.scale)


def product_form(
    multiplier: ArrayLike,
    bias: ArrayLike,
    y_scale: ArrayLike,
    steps: tuple[int, int],
    most: ArrayLike,
    *,
    gain: Gain | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """M and B with which `requantize_by_product` has the codes of `requantize`, for every sum. NORMATIVE.

    Both forms are monotone in the sum and are off the real number by a few roundings each. So their codes can
    differ only at sums that lie as close to a boundary between two codes. All of these are tried. M is the
    nearest float32 to ``s_x * s_w * gain / s_y``, or one of its neighbours, and B likewise.

    Args:
        multiplier, bias: float32, one number or [channels], as for `requantize`.
        y_scale: Scale of the output, float32, one number.
        steps: The smallest and the largest code, less the zero point.
        most: The largest magnitude that a sum can have, one number or [channels], below 2**31.
        gain: What stands behind the bias.
    Returns:
        (M, B), float32 [channels]; None where some channel has no such pair.
    """
    layer = _layer(multiplier, bias, y_scale, most, gain)
    slope = layer.multiplier.astype(np.float64) * layer.factor
    shift = layer.bias.astype(np.float64) * layer.factor + layer.offset
    m, b = (slope / layer.scale).astype(np.float32), (shift / layer.scale).astype(np.float32)
    if not (np.isfinite(m).all() and np.isfinite(b).all()):
        return None
    wrong = _differing(layer, m, b, steps, _FORMULA)
    if wrong is None:
        return None
    for channel in wrong:
        alone = layer.of(np.array([channel]))
        neighbours = _neighbours(m[channel], b[channel])
        equal = next((pair for pair in neighbours if _same(alone, *pair, steps)), None)
        if equal is None:
            return None
        m[channel], b[channel] = equal[0][0], equal[1][0]
    return m, b


def _layer(
    multiplier: ArrayLike, bias: ArrayLike, y_scale: ArrayLike, most: ArrayLike, gain: Gain | None
) -> _Layer:
    factor, offset = (1.0, NO_OFFSET) if gain is None else (gain.factor, gain.offset)
    constants = [np.atleast_1d(np.asarray(a, np.float32)) for a in (multiplier, bias, factor, offset)]
    ends = np.atleast_1d(np.asarray(most, np.float64))
    shape = np.broadcast_shapes(*(a.shape for a in constants), ends.shape)
    m, b, g, o = (np.broadcast_to(a, shape) for a in constants)
    scale = np.asarray(y_scale, np.float32)
    return _Layer(m, b, g, o, np.broadcast_to(ends, shape), scale, gain is not None)


def _neighbours(m: np.float32, b: np.float32) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Pairs of one number each, the nearest first."""
    nudges = sorted(range(-_NUDGES, _NUDGES + 1), key=abs)
    for i, j in sorted(((i, j) for i in nudges for j in nudges), key=lambda pair: sum(map(abs, pair))):
        yield _nudged(m, i), _nudged(b, j)


def _nudged(value: np.float32, units: int) -> NDArray[np.float32]:
    towards = np.float32(np.inf if units > 0 else -np.inf)
    for _ in range(abs(units)):
        value = np.nextafter(value, towards)
    return np.array([value], np.float32)


def _same(layer: _Layer, m: NDArray[np.float32], b: NDArray[np.float32], steps: tuple[int, int]) -> bool:
    wrong = _differing(layer, m, b, steps, _FORMULA + 4 * _NUDGES)
    return wrong is not None and wrong.size == 0


def _differing(
    layer: _Layer, m: NDArray[np.float32], b: NDArray[np.float32], steps: tuple[int, int], roundings: int
) -> NDArray[np.intp] | None:
    """The channels with a sum that has another code by the product; None where there are too many to try."""
    low, high = steps
    boundary = np.arange(low, high, dtype=np.float64) + 0.5
    slope = layer.multiplier.astype(np.float64) * layer.factor
    shift = layer.bias.astype(np.float64) * layer.factor + layer.offset
    still = slope == 0
    safe = np.where(still, 1.0, slope)[:, None]
    at = (boundary * float(layer.scale) - shift[:, None]) / safe
    scale = float(layer.scale)
    size = np.abs(layer.bias.astype(np.float64) * layer.factor) + np.abs(layer.offset) + np.abs(shift)
    doubt = roundings * _UNIT * (np.abs(at) + (size[:, None] + (np.abs(boundary) + 1) * scale) / np.abs(safe))
    near = (np.abs(at) - doubt <= layer.most[:, None]) & ~still[:, None]
    widest = float(np.max(doubt, where=near, initial=0.0))
    if not widest < _MOST_SUMS:
        return None
    where: list[NDArray[np.intp]] = [np.flatnonzero(still)]
    sums: list[NDArray[np.float64]] = [np.zeros(where[0].size)]
    nearest = np.rint(at)
    for offset in range(-int(widest + 1), int(widest + 1) + 1):
        tried = nearest + offset
        hit = near & (np.abs(tried - at) <= doubt) & (np.abs(tried) <= layer.most[:, None])
        channel, column = np.nonzero(hit)
        where.append(channel)
        sums.append(tried[channel, column])
    channels, values = np.concatenate(where), np.concatenate(sums)
    formula = layer.of(channels).steps(values)
    product = values.astype(np.float32) * m[channels] + b[channels]
    codes = [np.clip(np.rint(v), low, high) for v in (formula, product)]
    return np.unique(channels[codes[0] != codes[1]])
