"""Records of older forms of operators that upgrades read; none is in the book.

Each is called as its operator and the opset that brought it, as ONNX's own pages do: ``Softmax-1``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from intact.graph.ops.record import Kind, Operator


class Older(Operator, shared=True):
    kind: ClassVar[Kind] = "compound"


@dataclass(frozen=True)
class Arithmetic1(Older, shared=True):
    """Aligns the second operand's axes with those of the first from `axis` on, where `broadcast` is set."""

    axis: int | None = None
    broadcast: int = 0


@dataclass(frozen=True)
class BatchNormalization1(Older, shared=True):
    """Without `spatial` each element of a sample has numbers of its own."""

    epsilon: float = 1e-5
    spatial: int = 1


@dataclass(frozen=True)
class Cast1(Older, shared=True):
    """The name of a type."""

    to: str = ""


@dataclass(frozen=True)
class Concat1(Older, shared=True):
    axis: int = 1


@dataclass(frozen=True)
class Crop1(Older, shared=True):
    """Images without `border` (left, top, right, bottom), or `scale` (height, width) from its corner on."""

    border: tuple[int, ...] = ()
    scale: tuple[int, ...] = ()


@dataclass(frozen=True)
class DFT17(Older, shared=True):
    axis: int = 1


@dataclass(frozen=True)
class GridSample16(Older, shared=True):
    mode: str = "bilinear"


@dataclass(frozen=True)
class GroupNormalization18(Older, shared=True):
    num_groups: int = 1


@dataclass(frozen=True)
class ImageScaler1(Older, shared=True):
    scale: float = 1.0
    bias: tuple[float, ...] = ()


@dataclass(frozen=True)
class LpPool1(Older, shared=True):
    p: float = 2.0
    kernel_shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class MeanVarianceNormalization1(Older, shared=True):
    across_channels: int = 0
    normalize_variance: int = 1


@dataclass(frozen=True)
class Pad1(Older, shared=True):
    paddings: tuple[int, ...] = ()


@dataclass(frozen=True)
class ScaledFunction1(Older, shared=True):
    """Affine, ParametricSoftplus, Scale or ScaledTanh."""

    alpha: float | None = None
    beta: float | None = None
    scale: float | None = None


@dataclass(frozen=True)
class Scan8(Older, shared=True):
    num_scan_inputs: int = 0
    directions: tuple[int, ...] = ()


@dataclass(frozen=True)
class Selu1(Older, shared=True):
    alpha: float = 1.6732
    gamma: float = 1.0507


@dataclass(frozen=True)
class Softmax1(Older, shared=True):
    """Over everything from `axis` on."""

    axis: int = 1


@dataclass(frozen=True)
class TopK1(Older, shared=True):
    k: int = 0


@dataclass(frozen=True)
class Upsample1(Older, shared=True):
    height_scale: float = 1.0
    width_scale: float = 1.0
