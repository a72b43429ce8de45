"""Draws histograms, scatter plots and bars as static SVG.

Colours come from the page's style sheet, so that one drawing serves a bright screen, a dark one and paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 480, 156
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 6, 6, 20
_FLOOR = 0.7
"""Below one value: empty bins lie under the axis of logarithms."""


def histogram(
    left: NDArray[np.float64],
    width: float,
    counts: NDArray[np.int64],
    ranges: Mapping[str, tuple[float, float]],
    chosen: str = "",
    label: str = "",
) -> str:
    """Draw counts on a logarithmic axis, and the ends of each range as lines across it.

    Args:
        left: Left edges of the bins, float64 [bins], ascending.
        width: Of each bin.
        counts: Values in each bin, int64 [bins].
        ranges: (low, high) by name; the n-th has the class ``rn``.
        chosen: The one that is drawn strongest.
        label: What it shows, for those who cannot see it.
    Returns:
        One ``svg`` element.
    """
    left, counts = _used(left, counts)
    ends = [end for pair in ranges.values() for end in pair]
    start, stop = (float(left[0]), float(left[-1]) + width) if len(left) else (0.0, 1.0)
    low = min(start, *ends) if start < 0 else 0.0
    axis = _Axis(1.02 * low, 1.02 * max(stop, *ends, 0.0))
    top = log10(max(float(counts.max(initial=0)), 1) * 1.6)
    parts = [
        *_decades(top),
        *_ticks(axis),
        f'<path class="bars" d="{_outline(left, width, counts, axis, top)}"/>',
        *_lines(ranges, chosen, axis),
    ]
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


@dataclass(frozen=True)
class Point:
    """Describes a dot of a scatter plot.

    Attributes:
        x, y: Where.
        style: Its class, which gives the colour.
        says: What a pointer on it shows.
    """

    x: float
    y: float
    style: str
    says: str


def scatter(points: Sequence[Point], label: str = "") -> str:
    """Draw dots over two linear axes.

    Args:
        points: Finite ones; those that come later lie above the others.
        label: What it shows, for those who cannot see it.
    Returns:
        One ``svg`` element.
    """
    across = _Axis(*_spread([point.x for point in points]))
    low, high = _spread([point.y for point in points])
    bottom = HEIGHT - _BOTTOM

    def up(value: float) -> int:
        return round(bottom - (value - low) / (high - low) * (bottom - _TOP))

    parts = list(_ticks(across))
    for value in _Axis(low, high).ticks(4):
        parts.append(f'<path class="grid" d="M{_LEFT} {up(value)}H{WIDTH - _RIGHT}"/>')
        parts.append(f'<text class="count" x="{_LEFT - 5}" y="{up(value) + 4}">{value:.4g}</text>')
    parts += [
        f'<circle class="{point.style}" cx="{across(point.x)}" cy="{up(point.y)}" r="3.5">'
        f"<title>{escape(point.says)}</title></circle>"
        for point in points
    ]
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis with a little room around `values`."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room


def _used(
    left: NDArray[np.float64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return both without the empty bins at the ends."""
    used = np.flatnonzero(counts)
    span = slice(int(used[0]), int(used[-1]) + 1) if used.size else slice(0)
    return left[span], counts[span]


def bar(part: float) -> str:
    """Return a bar of `part` of its full length, 0 to 1."""
    length = round(100 * min(max(part, 0.0), 1.0), 1)
    path = f'<path d="M0 0h{length:g}v8H0"/>'
    return f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none">{path}</svg>'


class _Axis:
    """Maps numbers to horizontal positions."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high if high > low else low + 1

    def __call__(self, value: float) -> int:
        """Return the position in units of the drawing; numbers outside the axis are at its rim."""
        part = (value - self.low) / (self.high - self.low)
        return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * min(max(part, 0.0), 1.0))

    def ticks(self, most: int = 6) -> list[float]:
        """Return round numbers along the axis: multiples of 1, 2 or 5 times a power of ten."""
        span = (self.high - self.low) / most
        power = 10.0 ** floor(log10(span))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= span)
        return [index * step for index in range(ceil(self.low / step), floor(self.high / step) + 1)]


def _height(count: float, top: float) -> int:
    """Return the vertical position of the top of a bar with `count` values."""
    if count < 1:
        return HEIGHT - _BOTTOM
    bottom = log10(_FLOOR)
    part = (log10(count) - bottom) / (top - bottom)
    return round(HEIGHT - _BOTTOM - part * (HEIGHT - _TOP - _BOTTOM))


def _outline(
    left: NDArray[np.float64], width: float, counts: NDArray[np.int64], axis: _Axis, top: float
) -> str:
    """Return all bars as one closed path; neighbours of one height are one step."""
    base = at = HEIGHT - _BOTTOM
    steps = []
    for edge, count in zip(left.tolist(), counts.tolist(), strict=True):
        if (height := _height(count, top)) != at:
            steps.append(f"H{axis(edge)}V{height}")
            at = height
    end = axis(float(left[-1]) + width) if len(left) else _LEFT
    start = axis(float(left[0])) if len(left) else _LEFT
    return f"M{start} {base}{''.join(steps)}H{end}V{base}Z"


def _decades(top: float) -> Iterator[str]:
    """Yield the lines at powers of ten, at most five of them, with their exponents."""
    for power in range(0, floor(top) + 1, max(1, ceil(top / 5))):
        y = _height(10.0**power, top)
        yield f'<path class="grid" d="M{_LEFT} {y}H{WIDTH - _RIGHT}"/>'
        text = "1" if power == 0 else f'10<tspan class="power" dy="-4">{power}</tspan>'
        yield f'<text class="count" x="{_LEFT - 5}" y="{y + 4}">{text}</text>'


def _ticks(axis: _Axis) -> Iterator[str]:
    yield f'<path class="axis" d="M{_LEFT} {HEIGHT - _BOTTOM}H{WIDTH - _RIGHT}"/>'
    for value in axis.ticks():
        yield f'<text x="{axis(value)}" y="{HEIGHT - 5}">{value:.4g}</text>'


def _lines(ranges: Mapping[str, tuple[float, float]], chosen: str, axis: _Axis) -> Iterator[str]:
    for index, (name, (low, high)) in enumerate(ranges.items()):
        spans = [end for end in (low, high) if axis.low <= end <= axis.high and end != 0]
        drawn = "".join(f"M{axis(end)} {_TOP}V{HEIGHT - _BOTTOM}" for end in dict.fromkeys(spans))
        style = f"line r{index}{' chosen' if name == chosen else ''}"
        yield f'<path class="{style}" d="{drawn}"><title>{escape(name)}</title></path>'
