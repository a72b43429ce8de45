"""The rotation of queries and keys by their positions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact.errors import FileFormatError

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RotaryEmbedding:
    """Says how fast each pair of a head's channels turns.

    Attributes:
        base: Of the wavelengths, `rope_theta`.
        pairs: That turn.
        kind: "default", "linear", "llama3", or "factors", where each pair has a divisor of its own.
        factor: By which positions are divided; of "llama3": those of long waves.
        low_frequency, high_frequency: Turns within `trained` positions below and above which "llama3"
            divides all, or nothing.
        trained: Positions that the model was trained for before it was stretched.
        divisors: Of "factors".

    Source: "RoFormer"; "Extending Context Window of Large Language Models via Positional Interpolation"
    (linear); Llama 3.1's scaling of wavelengths.
    """

    base: float
    pairs: int
    kind: str = "default"
    factor: float = 1.0
    low_frequency: float = 1.0
    high_frequency: float = 4.0
    trained: float = 0.0
    divisors: tuple[float, ...] = ()

    def check(self, where: str) -> None:
        """Refuse numbers that no model has.

        Raises:
            FileFormatError: Names the file.
        """
        numbers = (
            self.base,
            self.factor,
            self.low_frequency,
            self.high_frequency,
            self.trained,
            *self.divisors,
        )
        fits = all(map(math.isfinite, numbers)) and self.base > 0 and self.factor > 0
        fits = fits and (
            self.kind != "llama3" or (self.low_frequency != self.high_frequency and self.trained > 0)
        )
        fits = fits and (
            self.kind != "factors" or (len(self.divisors) == self.pairs and min(self.divisors) > 0)
        )
        if not fits:
            raise FileFormatError(
                where, f"a rotation {self}"[:200], "finite numbers", "download the model again"
            )

    def angles(self, positions: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the cosines and sines of the rotation, float32 [positions, pairs].

        They are computed in float64 and rounded once.
        """
        angles = np.arange(positions)[:, None] * self._speeds()
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def _speeds(self) -> _Floats:
        speeds: _Floats = self.base ** -(np.arange(self.pairs) / self.pairs)
        if self.kind == "linear":
            return speeds / self.factor
        if self.kind == "factors":
            return speeds / np.asarray(self.divisors, np.float64)
        if self.kind == "llama3":
            turns = self.trained * speeds / (2 * np.pi)
            share = np.clip((turns - self.low_frequency) / (self.high_frequency - self.low_frequency), 0, 1)
            return speeds * (share + (1 - share) / self.factor)
        return speeds
