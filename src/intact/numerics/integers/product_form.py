"""The epilogue of an integer layer as one product and one sum with the same codes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.integers.requantize import NO_OFFSET, Gain

_UNIT = 2.0**-24  # largest relative error of one rounding
_ROUNDINGS = 8  # at most, of either form and of its constants
_MOST_ULPS = 2  # units in the last place by which M and B may move
_MOST_SUMS = 8  # candidates on one side of a boundary; beyond, float32 has too few digits for a proof


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
        """Return one sum of each channel in steps of the output, by the formula of `to_real`."""
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
    """Find M and B with which `requantize_by_product` has the codes of `requantize`, for every sum.

    NORMATIVE.

    Both forms are monotone in the sum, and each is a few roundings away from the real number. So their codes
    can differ only at sums that lie that close to a boundary between two codes, and all of these are tried.
    M is the float32 nearest to ``s_x * s_w * gain / s_y`` or one of its neighbours, and B likewise.

    Args:
        multiplier, bias: float32, one number or [channels], as for `requantize`.
        y_scale: Scale of the output, float32, one number.
        steps: The smallest and the largest code, less the zero point.
        most: The largest magnitude that a sum can have, one number or [channels], below 2**31.
        gain: The factor and offset behind the bias.
    Returns:
        (M, B), float32 [channels]; None where some channel has no such pair.

    Rule N22.
    """
    layer = _layer(multiplier, bias, y_scale, most, gain)
    slope = layer.multiplier.astype(np.float64) * layer.factor
    shift = layer.bias.astype(np.float64) * layer.factor + layer.offset
    m, b = (slope / layer.scale).astype(np.float32), (shift / layer.scale).astype(np.float32)
    if not (np.isfinite(m).all() and np.isfinite(b).all()):
        return None
    wrong = _wrong_channels(layer, m, b, steps, _ROUNDINGS)
    if wrong is None:
        return None
    for channel in wrong:
        alone = layer.of(np.array([channel]))
        neighbours = _neighbours(m[channel], b[channel])
        equal = next((pair for pair in neighbours if _same_codes(alone, *pair, steps)), None)
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
    """Yield pairs of M and B, one number each, the nearest first."""
    ulps = sorted(range(-_MOST_ULPS, _MOST_ULPS + 1), key=abs)
    for i, j in sorted(((i, j) for i in ulps for j in ulps), key=lambda pair: sum(map(abs, pair))):
        yield _move_by_ulps(m, i), _move_by_ulps(b, j)


def _move_by_ulps(value: np.float32, units: int) -> NDArray[np.float32]:
    """Move `value` by so many units in the last place; return an array of one number."""
    towards = np.float32(np.inf if units > 0 else -np.inf)
    for _ in range(abs(units)):
        value = np.nextafter(value, towards)
    return np.array([value], np.float32)


def _same_codes(
    layer: _Layer, m: NDArray[np.float32], b: NDArray[np.float32], steps: tuple[int, int]
) -> bool:
    wrong = _wrong_channels(layer, m, b, steps, _ROUNDINGS + 4 * _MOST_ULPS)
    return wrong is not None and wrong.size == 0


def _wrong_channels(
    layer: _Layer, m: NDArray[np.float32], b: NDArray[np.float32], steps: tuple[int, int], roundings: int
) -> NDArray[np.intp] | None:
    """Find the channels where the product gives a sum another code; None where too many sums are in doubt."""
    low, high = steps
    boundary = np.arange(low, high, dtype=np.float64) + 0.5
    slope = layer.multiplier.astype(np.float64) * layer.factor
    shift = layer.bias.astype(np.float64) * layer.factor + layer.offset
    is_constant = slope == 0
    safe = np.where(is_constant, 1.0, slope)[:, None]
    at = (boundary * float(layer.scale) - shift[:, None]) / safe
    scale = float(layer.scale)
    size = np.abs(layer.bias.astype(np.float64) * layer.factor) + np.abs(layer.offset) + np.abs(shift)
    doubt = roundings * _UNIT * (np.abs(at) + (size[:, None] + (np.abs(boundary) + 1) * scale) / np.abs(safe))
    near = (np.abs(at) - doubt <= layer.most[:, None]) & ~is_constant[:, None]
    widest = float(np.max(doubt, where=near, initial=0.0))
    if not widest < _MOST_SUMS:
        return None
    where: list[NDArray[np.intp]] = [np.flatnonzero(is_constant)]
    sums: list[NDArray[np.float64]] = [np.zeros(where[0].size)]
    nearest = np.rint(at)
    for offset in range(-int(widest + 1), int(widest + 1) + 1):
        candidate = nearest + offset
        in_doubt = near & (np.abs(candidate - at) <= doubt) & (np.abs(candidate) <= layer.most[:, None])
        channel, column = np.nonzero(in_doubt)
        where.append(channel)
        sums.append(candidate[channel, column])
    channels, values = np.concatenate(where), np.concatenate(sums)
    formula = layer.of(channels).steps(values)
    product = values.astype(np.float32) * m[channels] + b[channels]
    codes = [np.clip(np.rint(v), low, high) for v in (formula, product)]
    return np.unique(channels[codes[0] != codes[1]])
