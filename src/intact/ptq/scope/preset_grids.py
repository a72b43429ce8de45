"""Grids that are preset instead of chosen: from `overrides`, from a file's own pairs, from stored ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.calib import Calibration, Candidates, ChosenRange, Ends, Range
from intact.errors import QuantValueError
from intact.graph import Stripped
from intact.spec import Format, QuantSpec, is_whole

PRESET = "given"
"""Name in results of the method of such a tensor."""
KEYS = ("scale", "zero_point", "range")
_NUDGES = 5


@dataclass(frozen=True)
class PresetGrid:
    """Holds an exact range; no method and no scale rounding changes it.

    Attributes:
        low, high: The ends of the range, one number per granule.
        format: The name of the number format, if that is preset too.
        axis: The axis of the granules; None for one granule.
        symmetric: Whether the zero point is 0.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    format: str = ""
    axis: int | None = None
    symmetric: bool = False

    @property
    def ends(self) -> Ends:
        """The range as `make_mark` takes it."""
        low, high = np.array(self.low, np.float32), np.array(self.high, np.float32)
        return (low.reshape(()), high.reshape(())) if self.axis is None else (low, high)


def grid_by_hand(entry: Mapping[str, Any], format: str) -> PresetGrid | None:
    """Return the grid of an entry of overrides; None where it names none of `KEYS`.

    Raises:
        QuantValueError: A value that no grid of `format` has, or two that contradict each other.
    """
    if not any(key in entry for key in KEYS):
        return None
    if "range" in entry:
        if len([key for key in KEYS if key in entry]) > 1:
            raise QuantValueError("range", "a scale beside it", "one of the two", "leave one out")
        low, high = _range(entry["range"])
        return PresetGrid((low,), (high,), symmetric=low == -high)
    scale, zero = entry.get("scale"), entry.get("zero_point", 0)
    limits = QuantSpec(Format.parse(format), symmetric=False)
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 0 < np.float32(scale) < np.inf:
        raise QuantValueError(
            "scale", f"{scale!r:.60}", "a number above 0", 'write {"scale": 0.02, "zero_point": 128}'
        )
    if not is_whole(zero) or not limits.qmin <= zero <= limits.qmax:
        want = f"a code of {format}: {limits.qmin}..{limits.qmax}"
        raise QuantValueError("zero_point", f"{zero!r:.60}", want, "correct it, or name another format")
    return _grid(np.array(scale, np.float32), np.array(zero, np.int32), format, None)


def _range(value: Any) -> tuple[float, float]:
    numbers = list(value) if isinstance(value, (list, tuple)) else []
    real = all(isinstance(number, (int, float)) and not isinstance(number, bool) for number in numbers)
    fits = len(numbers) == 2 and real and bool(np.isfinite(np.array(numbers, np.float32)).all())
    if not fits or numbers[0] > numbers[1]:
        raise QuantValueError(
            "range", f"{value!r:.60}", "two numbers, the lower one first", "write [-1.5, 3]"
        )
    return min(float(numbers[0]), 0.0), max(float(numbers[1]), 0.0)


def grids_of_pairs(stripped: Mapping[str, Stripped]) -> dict[str, PresetGrid]:
    """Return the grids of a file's own pairs by tensor, without those of blocks and floats."""
    grids = {}
    for name, pair in stripped.items():
        spec = pair.spec
        if spec.format.is_float or spec.block_size is not None or isinstance(spec.axis, tuple):
            continue
        grid = _grid(pair.scale, pair.zero_point, spec.format.name, spec.axis)
        if grid is not None:
            grids[name] = grid
    return grids


def grids_of_ranges(calibration: Calibration) -> dict[str, PresetGrid]:
    """Return stored ranges without a histogram by tensor; no method changes them."""
    grids = {}
    for name, stats in calibration.items():
        if not isinstance(stats, Range) or stats.min.ndim:
            continue
        low, high = min(float(stats.min), 0.0), max(float(stats.max), 0.0)
        grids[name] = PresetGrid((low,), (high,), symmetric=low == -high)
    return grids


def _grid(
    scale: NDArray[np.float32], zero: NDArray[np.int32], format: str, axis: int | None
) -> PresetGrid | None:
    """Return the range that gives exactly this grid; None where float32 has none."""
    symmetric = not zero.any()
    spec = QuantSpec(Format.parse(format), axis=axis, symmetric=symmetric)
    low, high = (np.array(end) for end in numerics.representable_range(scale, zero, spec))
    if symmetric:
        low = -high if spec.qmin < 0 else low
    step = 0
    for step in range(2 * _NUDGES + 1):
        wrong = ~_gives(low, high, scale, zero, spec)
        if not wrong.any():
            break
        base = numerics.representable_range(scale, zero, spec)[1]
        away = np.float32(np.inf if step % 2 else -np.inf)
        for _ in range(step // 2 + 1):
            base = np.nextafter(base, away)
        high = np.where(wrong, base, high)
        low = -high if symmetric and spec.qmin < 0 else low
    if not np.isfinite(high).all() or not _gives(low, high, scale, zero, spec).all():
        return None
    return PresetGrid(
        tuple(low.reshape(-1).tolist()), tuple(high.reshape(-1).tolist()), format, axis, symmetric
    )


def _gives(low: Any, high: Any, scale: Any, zero: Any, spec: QuantSpec) -> NDArray[np.bool_]:
    if spec.symmetric:
        return np.asarray(numerics.scale_from_amax(high, spec) == scale)
    got, point = numerics.affine_from_range(low, high, spec)
    return np.asarray((got == scale) & (point == zero))


class PresetCandidates(Candidates):
    """Stands for a tensor whose range is preset."""

    def __init__(self, name: str, spec: QuantSpec, ends: Ends) -> None:
        super().__init__(name, Range(), spec)
        self._range = ChosenRange(ends, PRESET)

    def by(self, method: str) -> ChosenRange:
        """Return the preset range, whatever the method."""
        return self._range

    def least_error(self) -> ChosenRange:
        """Return the preset range."""
        return self._range
