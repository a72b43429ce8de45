"""Records of pools that compute; those that pick an element are in `moves`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from intact.graph.ops.record import Kind, Operator
from intact.graph.ops.window import Windowed


@dataclass(frozen=True)
class AveragePool(Windowed):
    kind: ClassVar[Kind] = "pool"
    ceil_mode: int = 0
    count_include_pad: int = 0


@dataclass(frozen=True)
class GlobalAveragePool(Operator):
    kind: ClassVar[Kind] = "pool"


@dataclass(frozen=True)
class LpPool(Windowed):
    kind: ClassVar[Kind] = "pool"
    ceil_mode: int = 0
    p: int = 2
