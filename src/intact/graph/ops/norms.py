"""Records of normalizations: elements scaled by statistics along some axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from intact.graph.ops.record import Kind, Operator


class Norm(Operator, shared=True):
    kind: ClassVar[Kind] = "norm"


@dataclass(frozen=True)
class BatchNormalization(Norm):
    """Inputs: data, scale, bias, mean, variance. It computes by constants alone where it does not train."""

    channels: ClassVar[int | None] = 1
    epsilon: float = 1e-5
    training_mode: int = 0


@dataclass(frozen=True)
class GroupNormalization(Norm):
    channels: ClassVar[int | None] = 1
    epsilon: float = 1e-5
    num_groups: int = 1


@dataclass(frozen=True)
class InstanceNormalization(Norm):
    channels: ClassVar[int | None] = 1
    epsilon: float = 1e-5


@dataclass(frozen=True)
class LayerNormalization(Norm):
    """Inputs: data, scale, bias. Outputs: the result, mean, deviation."""

    axis: int = -1
    epsilon: float = 1e-5


@dataclass(frozen=True)
class RMSNormalization(Norm):
    axis: int = -1
    epsilon: float = 1e-5


@dataclass(frozen=True)
class LpNormalization(Norm):
    axis: int = -1
    p: int = 2


@dataclass(frozen=True)
class LRN(Norm):
    alpha: float = 0.0001
    beta: float = 0.75
    bias: float = 1.0
    size: int = 0

    channels: ClassVar[int | None] = 1


@dataclass(frozen=True)
class Softmax(Norm):
    axis: int = -1


@dataclass(frozen=True)
class LogSoftmax(Norm):
    axis: int = -1
