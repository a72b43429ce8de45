"""Chooses the ranges of all targets from statistics and weights, and turns ranges into marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact import kernels, numerics
from intact.calib import (
    Calibration,
    Candidates,
    ChosenRange,
    Ends,
    Histogram,
    Range,
    Stats,
    by_method,
    configurations,
)
from intact.errors import CalibrationError, IntactError, QuantValueError
from intact.graph import Constants, Graph, Mark, Value
from intact.ptq.scope.preset_grids import PresetCandidates
from intact.ptq.scope.quantization_targets import Key, Target
from intact.ptq.scope.settings import WEIGHT_ONLY
from intact.spec import Format, QuantSpec

Ranges = dict[Key, ChosenRange]


CandidateCache = dict[tuple[Any, ...], Candidates]
"""Cache of grids by statistics. Trials ask for the same statistics again, and these do not change."""


class Activations:
    """Holds the ranges that each method would choose; targets of one group share a range.

    Args:
        targets: Those of activations.
        calibration: Statistics by tensor name.
        options: Of the methods.
        known: What is known already, and becomes known.
    Raises:
        CalibrationError: A tensor has no statistics; names it.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        calibration: Calibration,
        options: Mapping[str, Any],
        cache: CandidateCache | None = None,
    ) -> None:
        members: dict[Key, list[Target]] = {}
        for target in targets:
            members.setdefault(target.key, []).append(target)
        self._names = {key: _names_of(group) for key, group in members.items()}
        self._methods = {key: group[0].settings.method for key, group in members.items()}
        self._cache: CandidateCache = {} if cache is None else cache
        self._candidates = {
            key: _candidates(group, calibration, dict(options), self._cache) for key, group in members.items()
        }

    def spec(self, target: Target) -> QuantSpec:
        """Return the grid and granularity of `target`."""
        return self._candidates[target.key].spec

    def configurations(self, several: bool) -> dict[str, Ranges]:
        """Return the ranges for all keys, by the configuration's name; one configuration if nothing is to
        compare.

        Args:
            several: Whether they can be compared.
        """
        return configurations(self._candidates, self._methods, several=several)

    def refit(self, ranges: Ranges, calibration: Calibration) -> Ranges:
        """Return ranges by the same methods from other statistics, on the same grids.

        Args:
            ranges: As `configurations` has them.
            calibration: Statistics of the same tensors.
        """
        return {key: self._refit(key, calibration).by(chosen.method) for key, chosen in ranges.items()}

    def _refit(self, key: Key, calibration: Calibration) -> Candidates:
        """Return the candidates of a key with other statistics, on the same grid."""
        candidates, names = self._candidates[key], self._names[key]
        if isinstance(candidates, PresetCandidates):
            return candidates
        members = tuple(_ById(calibration[name]) for name in names)
        cache_key = (members, candidates.spec, *sorted(candidates.options.items()))
        if cache_key not in self._cache:
            stats = _merge_statistics(names, calibration)
            self._cache[cache_key] = replace(candidates, stats=stats, _ranges={})
        return self._cache[cache_key]

    def with_too_few_values(self) -> dict[str, str]:
        """Return the tensors with too few values for the requested method, with that method."""
        return {
            self._candidates[key].name: method for key, method in self._methods.items()
            if method != "auto" and self._candidates[key].is_too_few(method)
        }  # fmt: skip

    def by(self, method: str) -> Ranges:
        """Return the ranges for all keys: by `method` where "auto" is asked for, else by the method
        that is.
        """
        return by_method(self._candidates, self._methods, method)


def _candidates(
    group: Sequence[Target], calibration: Calibration, options: dict[str, Any], cache: CandidateCache
) -> Candidates:
    names = _names_of(group)
    if (grid := group[0].settings.grid) is not None:
        spec = QuantSpec(Format.parse(group[0].format), symmetric=group[0].settings.symmetric)
        return PresetCandidates(f"tensor '{names[0]}'", spec, grid.ends)
    if missing := [name for name in names if name not in calibration]:
        raise CalibrationError(
            f"tensor '{missing[0]}'",
            "no statistics",
            "statistics of every tensor that is quantized",
            "calibrate this model, with the same options, or exclude its layers",
        )
    options["scale_bits"] = group[0].settings.scale_bits
    # Statistics are told apart by themselves: the key holds them, so that none takes another one's place.
    members = tuple(_ById(calibration[name]) for name in names)
    key = (members, group[0].format, group[0].settings.symmetric, *sorted(options.items()))
    if key not in cache:
        cache[key] = _new_candidates(group[0], names, calibration, options)
    return cache[key]


@dataclass(frozen=True, eq=False)
class _ById:
    """Compares equal to another reference to the same object."""

    of: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


def _new_candidates(
    target: Target, names: Sequence[str], calibration: Calibration, options: dict[str, Any]
) -> Candidates:
    stats = _merge_statistics(names, calibration)
    spec = _activation_spec(target, stats)
    return Candidates(f"tensor '{names[0]}'", stats, spec, options)


def _names_of(group: Sequence[Target]) -> list[str]:
    """Return the names of the tensors of a group, each once."""
    return list(dict.fromkeys(target.site.value for target in group))


def _merge_statistics(names: Sequence[str], calibration: Calibration) -> Stats:
    """Return the statistics of tensors that share a range."""
    stats = calibration[names[0]]
    if len(names) > 1:
        stats = deepcopy(stats)
        for name in names[1:]:
            try:
                stats.merge(calibration[name])  # type: ignore[arg-type]
            except IntactError as error:
                raise error.at(f"tensor '{name}'") from error
    return stats


def _activation_spec(target: Target, stats: Histogram | Range) -> QuantSpec:
    """Return the spec of an activation; an unsigned grid gets a zero point only for negative values."""
    format = Format.parse(target.format)
    symmetric = target.settings.symmetric or format.is_float
    if not format.signed and symmetric:
        symmetric = bool((stats.min >= 0).all())
    return QuantSpec(format, symmetric=symmetric)


def weight_spec(target: Target) -> QuantSpec:
    """Return the grid and granularity of a weight."""
    axis = target.settings.axis
    return QuantSpec(
        Format.parse(target.format),
        axis=target.site.axis if axis == "channel" else axis,
        block_size=target.settings.block_size,
    )


def weight_ends(weight: NDArray, spec: QuantSpec, scale_bits: int | None = None) -> Ends:
    """Return the whole range of each granule of `weight`: (-amax, amax), float32, granule shape of `spec`.

    Args:
        weight: Its values.
        spec: Grid and granularity.
        scale_bits: Widened until the scale has at most so many significant bits; None: exact.
    Raises:
        QuantValueError: The weight lacks the axis, holds NaN or infinities, or has negative values for an
            unsigned format.
    """
    unsigned = not (spec.format.signed or spec.format.is_float)
    if unsigned and (lowest := float(numerics.to_float32(weight).min(initial=0.0))) < 0:
        raise QuantValueError(
            "weight", f"{spec.format.name} for values down to {lowest:.3g}",
            "a signed format: codes of weights have no zero point", f"write '{spec.format.name[1:]}'",
        )  # fmt: skip
    if spec.block_size is None:
        amax = kernels.absmax(weight, spec.axis)
    else:
        (axis,) = numerics.normalize_axes(weight.shape, spec)
        starts = np.arange(0, weight.shape[axis], spec.block_size)
        amax = np.asarray(np.maximum.reduceat(np.abs(numerics.to_float32(weight)), starts, axis=axis))
    if not np.isfinite(amax).all():
        raise QuantValueError("weight", "NaN or infinity", "finite values", "repair the float model")
    if scale_bits is not None:
        amax = numerics.short_amax(amax, spec, scale_bits)
    return -amax, amax


@dataclass(frozen=True)
class QuantizedWeight:
    """Holds a constant of the graph and the grid that stores it.

    Attributes:
        readers: (node name, input index) of those who read it quantized.
        array: Its values.
        spec: Grid and granularity.
        ends: Its range.
        rounded: Reals on the grid that are stored for `array`; None: the nearest ones.
    """

    readers: tuple[tuple[str, int], ...]
    array: NDArray
    spec: QuantSpec
    ends: Ends
    rounded: NDArray[np.float32] | None = None

    @property
    def grid(self) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """The scale and zero point."""
        return grid_of(self.spec, self.ends)

    @property
    def rounding_error(self) -> NDArray[np.float64]:
        """The dequantized codes minus the float weight, float64 in the weight's shape."""
        exact = numerics.to_float32(self.array)
        stored = self.rounded if self.rounded is not None else exact
        return kernels.fake_quantize(stored, *self.grid, self.spec).astype(np.float64) - exact

    @property
    def value_of_codes(self) -> NDArray:
        """The dequantized codes, in the weight's own dtype."""
        return np.asarray((numerics.to_float32(self.array) + self.rounding_error).astype(self.array.dtype))


def weights_of(graph: Graph, targets: Sequence[Target]) -> tuple[QuantizedWeight, ...]:
    """Return the weights that `targets` name.

    Args:
        graph: The main graph of the model.
        targets: Of the role "weight".
    Raises:
        IntactError: One does not fit its grid; names it.
    """
    constants, values = Constants(graph), {value.name: value for value in graph.initializers.values()}
    values |= {value.name: value for node in graph for value in node.outputs}
    return tuple(_weight_of(target, constants, values[target.site.value]) for target in targets)


def _weight_of(target: Target, constants: Constants, value: Value) -> QuantizedWeight:
    array, spec = constants(value), weight_spec(target)
    assert array is not None, "placement calls constants weights"
    bits = None if target.format in WEIGHT_ONLY else target.settings.scale_bits
    if (grid := target.settings.grid) is not None and _is_on_grid(array, spec, grid.ends):
        return QuantizedWeight(target.readers, array, spec, grid.ends)
    try:
        return QuantizedWeight(target.readers, array, spec, weight_ends(array, spec, bits))
    except IntactError as error:
        raise error.at(f"weight '{value.name}'") from None


def _is_on_grid(array: NDArray, spec: QuantSpec, ends: Ends) -> bool:
    """Return whether a weight is what codes of this grid mean: nothing was folded into it since."""
    if not isinstance(spec.axis, (int, type(None))):
        return False
    if spec.axis is not None and ends[1].shape != (array.shape[spec.axis],):
        return False
    exact = numerics.to_float32(array)
    return bool((kernels.fake_quantize(exact, *grid_of(spec, ends), spec) == exact).all())


def make_mark(target: Target, spec: QuantSpec, ends: Ends, name: str) -> Mark:
    """Return the mark that puts `target` on its grid, with range `ends`.

    Args:
        target: A tensor or weight.
        spec: Its grid.
        ends: (low, high), float32 of the shape of the scales.
        name: Of the tensor, in the graph.
    """
    low = None if spec.symmetric else ends[0]
    return Mark(target.site.value, target.readers, spec, ends[1], low, name)


def grid_of(spec: QuantSpec, ends: Ends) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return the scale (float32) and zero point (int32) of a range."""
    if spec.symmetric:
        scale = numerics.scale_from_amax(ends[1], spec)
        return scale, np.zeros(scale.shape, np.int32)
    return numerics.affine_from_range(ends[0], ends[1], spec)
