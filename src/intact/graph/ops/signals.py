"""Records of discrete Fourier transforms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from intact.graph.ops.record import Kind, Operator


@dataclass(frozen=True)
class Transform(Operator, shared=True):
    kind: ClassVar[Kind] = "reduction"
    data: ClassVar[tuple[int, ...] | None] = None


@dataclass(frozen=True)
class DFT(Transform):
    """Inputs: data, length, axis."""

    inverse: int = 0
    onesided: int = 0


@dataclass(frozen=True)
class STFT(Transform):
    """Inputs: signal, step between frames, window, length of a frame."""

    onesided: int = 1
