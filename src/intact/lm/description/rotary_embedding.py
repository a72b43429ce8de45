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
        kind: "default", "linear", "llama3", "yarn", or "factors", where each pair has a divisor of its own.
        factor: By which positions are divided; of "llama3": those of long waves.
        low_frequency, high_frequency: Turns within `trained` positions below and above which "llama3"
            divides all, or nothing.
        trained: Positions that the model was trained for before it was stretched.
        divisors: Of "factors".
        ramp: Of "yarn", the pairs between which waves go over from their own length to the stretched one.
        gain: Cosines and sines are multiplied by it.
        reverses: It turns the other way.

    Source: "RoFormer"; "Extending Context Window of Large Language Models via Positional Interpolation"
    (linear); Llama 3.1's scaling of wavelengths; "YaRN: Efficient Context Window Extension of Large Language
    Models"; "LongRoPE" (factors).
    """

    base: float
    pairs: int
    kind: str = "default"
    factor: float = 1.0
    low_frequency: float = 1.0
    high_frequency: float = 4.0
    trained: float = 0.0
    divisors: tuple[float, ...] = ()
    ramp: tuple[float, float] = (0.0, 1.0)
    gain: float = 1.0
    reverses: bool = False

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
            *self.ramp,
            self.gain,
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
        sign = -1.0 if self.reverses else 1.0
        sines = sign * self.gain * np.sin(angles)
        return (self.gain * np.cos(angles)).astype(np.float32), sines.astype(np.float32)

    def _speeds(self) -> _Floats:
        speeds: _Floats = self.base ** -(np.arange(self.pairs) / self.pairs)
        if self.kind == "linear":
            return speeds / self.factor
        if self.kind == "factors":
            return speeds / np.asarray(self.divisors, np.float64)
        if self.kind == "yarn":
            low, high = self.ramp
            stretched: _Floats = np.clip((np.arange(self.pairs) - low) / (high - low), 0, 1)
            return speeds * (1 - stretched + stretched / self.factor)
        if self.kind == "llama3":
            turns = self.trained * speeds / (2 * np.pi)
            share = np.clip((turns - self.low_frequency) / (self.high_frequency - self.low_frequency), 0, 1)
            return speeds * (share + (1 - share) / self.factor)
        return speeds


def yarn_ramp(
    base: float, pairs: int, trained: float, fast: float, slow: float, is_whole: bool = True
) -> tuple[float, float]:
    """Return the pairs between which YaRN stretches waves in part.

    Args:
        base, pairs, trained: As of `RotaryEmbedding`.
        fast, slow: Turns within `trained` positions, above which nothing and below which all is stretched.
        is_whole: The pairs are whole numbers.
    Source: "YaRN", as transformers computes it.
    """

    def pair_of(turns: float) -> float:
        return pairs * math.log(trained / (turns * 2 * math.pi)) / math.log(base)

    low, high = pair_of(fast), pair_of(slow)
    if is_whole:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0.0), min(high, 2.0 * pairs - 1)
    return low, high if high != low else high + 0.001
