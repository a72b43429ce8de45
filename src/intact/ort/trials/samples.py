"""`SampleStore`: a bounded sample of a session's inputs and float outputs, and their ranges."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]
_Item = TypeVar("_Item")

HOLDOUT_STEP = 3
"""Every third input is kept from calibration, and compares the engine with float."""
_SETTLED_GROWTH = 0.25
_COST_SHARE = 0.03
"""The time of watching, as a share of the time that the program's runs take."""
_MOST_IDLE_RUNS = 64
"""Runs in a row that are not even timed: tiny ones take some ten times as long as a look at the clock."""
_MOST_RUNS = 8
_MOST_SCORES = 64
"""Elements of an output of scores that may all be low: larger ones between 0 and 1 are maps or embeddings."""
_HIGH_SCORE = 0.5
_CALIBRATION_SECONDS, _LEAST_CALIBRATION = 1.5, 3
"""The time in float of all samples for calibration, and how many there are at least."""
_REPEATS = 4
"""Runs without a new input, in multiples of the count, after which a program repeats its inputs."""


@dataclass(frozen=True, eq=False)
class RunSample:
    """Holds copies of what went into a run and came out of it.

    Attributes:
        inputs, outputs: Arrays by name.
        nbytes: Of all of them.
        checksum: Of the inputs.
    """

    inputs: dict[str, NDArray[Any]]
    outputs: dict[str, NDArray[Any]]
    nbytes: int
    checksum: int = 0


class SampleStore:
    """Collects different inputs until they suffice to quantize.

    Args:
        count: Different inputs that are wanted.
        nbytes: The bound of all copies.

    Attributes:
        samples: What was copied so far.
        shapes: The shapes of inputs that were seen, and how many runs had them.
        checksums: Of the inputs in `samples`.
        has_undefined_runs: Whether float gave NaN for an input of equal values, as layers do that divide by a
            range or a deviation: silence, a blank image. Such runs are no samples.
        low_scores: Outputs between 0 and 1 that have never been high.
        idle_runs: Runs to come for which there is surely no time: they count as if they took the mean.
    """

    def __init__(self, count: int, nbytes: int) -> None:
        self._count, self._free_bytes = count, nbytes
        self.samples: list[RunSample] = []
        self.shapes: dict[tuple[tuple[int, ...], ...], int] = {}
        self.checksums: set[int] = set()
        self.has_undefined_runs = False
        self.low_scores: set[str] = set()
        self.idle_runs = 0
        self._repeats = self._runs = 0
        self._growth: list[bool] = []
        self._ranges: dict[str, tuple[float, float]] = {}
        self._seconds = self._run_seconds = 0.0
        self._is_full = False

    def has_time(self, run_seconds: float) -> bool:
        """Return whether a run of this time leaves time for a look at its arrays."""
        self._run_seconds += run_seconds
        self._runs += 1
        if self._seconds <= _COST_SHARE * self._run_seconds:
            return True
        self._rest()
        return False

    def spend(self, seconds: float) -> None:
        """Count the time that `add` took."""
        self._seconds += seconds
        self._rest()

    def _rest(self) -> None:
        """Let runs pass until there is time again."""
        mean = self.mean_seconds
        missing = self._seconds / _COST_SHARE - self._run_seconds
        self.idle_runs = min(_MOST_IDLE_RUNS, int(missing / mean)) if missing > 0 and mean > 0 else 0
        self._run_seconds += self.idle_runs * mean
        self._runs += self.idle_runs

    def add(self, inputs: Arrays, outputs: Arrays) -> None:
        """Keep copies of a run's arrays where its inputs are new and there is room."""
        shape = tuple(array.shape for array in inputs.values())
        self.shapes[shape] = self.shapes.get(shape, 0) + 1
        checksum = checksum_of(inputs)
        if checksum in self.checksums:
            self._repeats += 1
            return
        if self._is_full:
            return
        if has_equal_values(inputs) and any(map(has_nan, outputs.values())):
            self.has_undefined_runs = True
            return
        self._repeats = 0
        nbytes = sum(array.nbytes for arrays in (inputs, outputs) for array in arrays.values())
        if self.low_scores:  # it waits for a high one, maybe for days
            while len(self.samples) >= self._count and (
                nbytes > self._free_bytes or len(self.samples) >= _MOST_RUNS * self._count
            ):
                self._drop_oldest()
        if nbytes > self._free_bytes:
            self._is_full = True
            return
        self.checksums.add(checksum)
        self._free_bytes -= nbytes
        self.samples.append(RunSample(_copy(inputs), _copy(outputs), nbytes, checksum))
        self._note_scores(outputs)
        self._growth.append(self._widen({**inputs, **{f"output {n}": a for n, a in outputs.items()}}))

    def _drop_oldest(self) -> None:
        sample = self.samples.pop(0)
        self._free_bytes += sample.nbytes
        self.checksums.discard(sample.checksum)
        self._growth.pop(0)

    @property
    def is_ready(self) -> bool:
        """True where inputs suffice, and the last quarter of them has not widened any range by a quarter.

        Ranges that never settle are waited for up to 8 times the count.
        """
        count = len(self.samples)
        if self._waits_for_scores:
            return False
        if self._is_full:
            return count >= HOLDOUT_STEP
        if self.is_repetitive:
            return True
        if count < self._count:
            return False
        recent = self._growth[-max(1, self._count // 4) :]
        return count == 1 or not any(recent) or count >= _MOST_RUNS * self._count

    @property
    def _waits_for_scores(self) -> bool:
        """True where scores have all been low; a value that never changes is none."""
        ranges = (self._ranges.get(f"output {name}", (0.0, 0.0)) for name in self.low_scores)
        return any(low < high for low, high in ranges)

    @property
    def is_repetitive(self) -> bool:
        """True where the program gives the same few inputs again and again."""
        return 0 < len(self.samples) < self._count and self._repeats >= _REPEATS * self._count

    def go_on(self) -> None:
        """Wait for new inputs again, as the program has shown that it has some."""
        self._repeats = 0

    @property
    def mean_seconds(self) -> float:
        """The mean time of the program's runs."""
        return self._run_seconds / max(1, self._runs)

    @property
    def shortage(self) -> str:
        """The inputs that are missing, in words."""
        if self._is_full and not self.is_ready:
            return "the inputs of one run are larger than the memory for samples (policy memory)"
        if len(self.samples) < self._count:
            return f"{len(self.samples)} of {self._count} different inputs seen"
        if self._waits_for_scores:
            return f"the scores of output '{min(self.low_scores)}' have all been below {_HIGH_SCORE}"
        return "the ranges of inputs and outputs still grow"

    @property
    def new_shape_share(self) -> float:
        """The share of runs behind the first, 0 to 1, whose shapes came for the first time."""
        return (len(self.shapes) - 1) / max(1, sum(self.shapes.values()) - 1)

    def _note_scores(self, outputs: Arrays) -> None:
        """Keep the names of outputs whose scores have all been low: what they shall find was not among the
        inputs, and its ranges are unknown."""
        for name, array in outputs.items():
            is_low = array.dtype.kind == "f" and 0 < array.size <= _MOST_SCORES
            is_low = (
                is_low and bool((array >= 0).all() and (array < _HIGH_SCORE).all()) and array.sum() < 1 - 1e-2
            )
            if len(self.samples) == 1 and is_low:
                self.low_scores.add(name)
            elif not is_low:
                self.low_scores.discard(name)

    def _widen(self, arrays: Arrays) -> bool:
        """Widen the ranges to those of a run; return whether one grew much."""
        has_grown = False
        for name, array in arrays.items():
            if array.dtype.kind != "f" or not array.size:
                continue
            low, high = float(array.min()), float(array.max())
            before = self._ranges.get(name)
            if before is None:
                self._ranges[name] = low, high
                continue
            slack = _SETTLED_GROWTH * (before[1] - before[0])
            has_grown |= low < before[0] - slack or high > before[1] + slack
            self._ranges[name] = min(low, before[0]), max(high, before[1])
        return has_grown


def split_holdout(
    samples: Sequence[RunSample], run_seconds: float = 0.0
) -> tuple[list[RunSample], list[RunSample]]:
    """Return the samples for calibration, and those that calibration does not see.

    Quantizing runs the former some hundred times. Where runs are long, such as those of large images, fewer
    calibrate, which have as many positions as many short ones; the others only compare.

    Args:
        samples: All.
        run_seconds: The mean time of a run.
    """
    holdout = list(samples[HOLDOUT_STEP - 1 :: HOLDOUT_STEP])
    remaining = [s for i, s in enumerate(samples) if i % HOLDOUT_STEP != HOLDOUT_STEP - 1]
    count = max(_LEAST_CALIBRATION, int(_CALIBRATION_SECONDS / max(run_seconds, 1e-9)))
    calibration = spread(remaining, count)
    calibration_ids = set(map(id, calibration))
    return calibration, holdout + [sample for sample in remaining if id(sample) not in calibration_ids]


def spread(items: Sequence[_Item], count: int) -> list[_Item]:
    """Return `count` of the items, evenly spaced, or all where these are fewer."""
    if count >= len(items):
        return list(items)
    return [items[index * len(items) // count] for index in range(count)]


def has_equal_values(inputs: Arrays) -> bool:
    """Return whether a float input has one value throughout."""
    floats = [array for array in inputs.values() if array.dtype.kind == "f" and array.size > 1]
    return any(array.min() == array.max() for array in floats)


def has_nan(array: NDArray[Any]) -> bool:
    """Return whether a float array has NaN."""
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _copy(arrays: Arrays) -> dict[str, NDArray[Any]]:
    return {name: np.array(array) for name, array in arrays.items()}


def checksum_of(arrays: Arrays) -> int:
    """Return a checksum of the names, shapes and elements of a run's inputs."""
    checksum = 0
    for name, array in arrays.items():
        checksum = zlib.crc32(f"{name} {array.shape}".encode(), checksum)
        checksum = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, checksum)
    return checksum
