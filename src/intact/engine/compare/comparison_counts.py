"""Records of what `compare` counts: tensors, top-1 answers, and distances between outputs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from intact.signal_to_noise import signal_to_noise

ROUNDING = 1e-3
"""Steps from a rounding boundary within which a layer in float may fall on the other side of it."""


@dataclass
class Counts:
    """Counts the differences between two runs of a model, in one tensor or in its answers.

    Attributes:
        compared: How many codes, numbers or answers were compared.
        differing: How many differ.
        largest: The largest difference; 0 of indices, which have no distance: class 6,624 is not far from 0.
    """

    compared: int = 0
    differing: int = 0
    largest: float = 0.0

    def add(self, a: NDArray, b: NDArray, *, indices: bool = False) -> None:
        """Count two arrays, element by element; NaN equals NaN. Strings have no distance, as indices."""
        if a.dtype.kind == "O":
            self.compared += a.size
            self.differing += int(np.count_nonzero(a != b))
            return
        a, b = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(
            invalid="ignore"
        ):  # infinities of one sign are equal, and their difference is not used
            apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        self.compared += apart.size
        self.differing += int(np.count_nonzero(apart))
        if not indices:
            self.largest = max(self.largest, float(apart.max(initial=0.0)))


@dataclass
class Distance(Counts):
    """Measures the distance between the outputs of two runs of a model, end to end.

    Attributes:
        signal: Sum of the squares of the engine's finite numbers; of the module's, where it is compared with
            the file.
        noise: Sum of the squares of the differences from them.
    """

    signal: float = 0.0
    noise: float = 0.0

    def add(self, a: NDArray, b: NDArray, *, indices: bool = False) -> None:
        """Count two arrays, and sum the squares of values that are finite in both."""
        super().add(a, b, indices=indices)
        if not indices and a.dtype.kind != "O":
            a, b = a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)
            finite = np.isfinite(a) & np.isfinite(b)
            self.signal += float((a[finite] ** 2).sum())
            self.noise += float(((a[finite] - b[finite]) ** 2).sum())

    @property
    def decibels(self) -> float:
        """Signal to noise ratio; infinite where all numbers are equal."""
        return signal_to_noise(self.signal, self.noise)

    def include(self, other: Distance) -> None:
        """Count the elements of another distance as well."""
        self.compared += other.compared
        self.differing += other.differing
        self.largest = max(self.largest, other.largest)
        self.signal += other.signal
        self.noise += other.noise


@dataclass
class LayerCounts(Counts):
    """Counts how many codes of one tensor differ between two ways of computing it from the same inputs.

    Attributes:
        boundary: How far, in steps, a differing value lies from the rounding boundary, at most.
    """

    boundary: float = 0.0

    @property
    def departs(self) -> bool:
        """Return whether any output code differs by more than one float32 rounding can explain."""
        return self.largest > 1 or self.boundary > ROUNDING


@dataclass
class TensorCounts:
    """One tensor of the plan, or a weight of the file.

    Attributes:
        tensor: Its name.
        layer: The step that makes it, or reads a weight; "" for an input.
        codes: Whether codes were compared, or floats.
        indices: Whether they are whole numbers that are no codes (indices, sizes, masks), or strings.
        quantizer: Of the module: what quantizes it; "" where nothing does, or there is no module.
        engine: The engine against the integer reference.
        file: The file in ONNX Runtime against it; nothing compared where the file has no such tensor.
        module: The module against it.
        export: The module against the file.
        alone: The module against the integer reference, every layer on the reference's codes.
    """

    tensor: str
    layer: str
    codes: bool
    quantizer: str = ""
    indices: bool = False
    engine: Counts = field(default_factory=Counts)
    file: Counts = field(default_factory=Counts)
    module: Counts = field(default_factory=Counts)
    export: Counts = field(default_factory=Counts)
    alone: LayerCounts = field(default_factory=LayerCounts)

    @property
    def departs(self) -> bool:
        """Return whether the module computes something else here: with another weight, or beyond rounding."""
        return self.alone.departs or bool(self.export.differing and not self.file.compared)


@dataclass
class Comparison:
    """Holds the result of `compare`.

    Attributes:
        tensors: In the plan's order; a module's weights before the layers that read them.
        samples: Rows of all batches.
        traced: Rows of the batches in which every tensor was compared.
        answers: Top-1 answers of the first output, by who against whom, over all batches.
        distances: Each output by name, end to end, over all batches: the engine's against those of
            "reference" (of traced batches), "file" and "module", and the module's against the file's, as
            "export".
        unmatched: Quantizers of the module, or of the file, that the other one does not have.
        float_steps: Steps that another runtime may round differently, by kind
            (`intact.placement.float_steps`).
        parts: Steps of the plan that run in ONNX Runtime, in float.
    """

    tensors: list[TensorCounts]
    samples: int = 0
    traced: int = 0
    answers: dict[str, Counts] = field(default_factory=dict)
    distances: dict[str, dict[str, Distance]] = field(default_factory=dict)
    unmatched: tuple[str, ...] = ()
    float_steps: dict[str, int] = field(default_factory=dict)
    parts: tuple[str, ...] = ()

    @property
    def outputs(self) -> dict[str, Distance]:
        """The distances of all outputs together, by side."""
        totals = {side: Distance() for side in self.distances}
        for side, by_name in self.distances.items():
            for distance in by_name.values():
                totals[side].include(distance)
        return totals

    @property
    def exact(self) -> bool:
        """Return whether the engine equals the integer reference on every code and number."""
        return not any(t.engine.differing for t in self.tensors)

    @property
    def departing(self) -> TensorCounts | None:
        """Return the first tensor where the module differs beyond the rounding of floats; None: nowhere."""
        return next((t for t in self.tensors if t.departs), None)

    def first(self, side: str, *, floats: bool = False) -> TensorCounts | None:
        """Return the first tensor with a difference; None where there is none.

        Args:
            side: One of the counts of `TensorCounts`.
            floats: Look at tensors of floats as well; those of the engine always count.
        """
        counted = (t for t in self.tensors if t.codes or floats or side == "engine")
        return next((t for t in counted if getattr(t, side).differing), None)

    def total(self, side: str) -> Counts:
        """Sum the counts of all codes."""
        counts = [getattr(t, side) for t in self.tensors if t.codes]
        return Counts(
            sum(c.compared for c in counts), sum(c.differing for c in counts),
            max((c.largest for c in counts), default=0.0),
        )  # fmt: skip
