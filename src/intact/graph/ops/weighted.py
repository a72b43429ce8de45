"""Records of convolutions, products, pools and Attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from intact.graph.ops.record import Kind, Operator
from intact.graph.ops.window import Windowed


@dataclass(frozen=True)
class Conv(Windowed):
    """Inputs: data, weight [out, in / group, ...], bias."""

    kind: ClassVar[Kind] = "convolution"
    channels: ClassVar[int | None] = 1
    group: int = 1

    @property
    def weight_axis(self) -> int:
        """The axis of the weight along which output channels lie."""
        return 0


@dataclass(frozen=True)
class ConvTranspose(Windowed):
    """Inputs: data, weight [in, out / group, ...], bias."""

    kind: ClassVar[Kind] = "convolution"
    channels: ClassVar[int | None] = 1
    group: int = 1
    output_padding: tuple[int, ...] = ()
    output_shape: tuple[int, ...] | None = None

    @property
    def weight_axis(self) -> int:
        """The axis of the weight along which output channels lie: of each group those of that group."""
        return 1


@dataclass(frozen=True)
class Gemm(Operator):
    """``alpha * A @ B + beta * C``; inputs: A, B, C."""

    kind: ClassVar[Kind] = "product"
    channels: ClassVar[int | None] = -1
    data: ClassVar[tuple[int, ...] | None] = (0, 1)
    alpha: float = 1.0
    beta: float = 1.0
    transA: int = 0
    transB: int = 0

    @property
    def weight_axis(self) -> int:
        """The axis of B along which output channels lie."""
        return 0 if self.transB else 1


class MatMul(Operator):
    """Inputs: two tensors, or one and a weight [in, out]."""

    kind: ClassVar[Kind] = "product"
    channels: ClassVar[int | None] = -1
    data: ClassVar[tuple[int, ...] | None] = (0, 1)

    @property
    def weight_axis(self) -> int:
        """The axis of a matrix on the right along which output channels lie."""
        return 1


@dataclass(frozen=True)
class Attention(Operator):
    """Scores, Softmax and weighted sum in one node. A window of -1 reaches all keys; without a scale it is
    ``1 / sqrt(size of a head)``.
    """

    kind: ClassVar[Kind] = "attention"
    data: ClassVar[tuple[int, ...] | None] = (0, 1, 2)
    q_num_heads: int = 0
    kv_num_heads: int = 0
    scale: float | None = None
    softcap: float = 0.0
    is_causal: int = 0
    left_window_size: int = -1
    right_window_size: int = -1
    qk_matmul_output_mode: int = 0


@dataclass(frozen=True)
class AveragePool(Windowed):
    kind: ClassVar[Kind] = "pool"
    ceil_mode: int = 0
    count_include_pad: int = 0


class GlobalAveragePool(Operator):
    kind: ClassVar[Kind] = "pool"


@dataclass(frozen=True)
class LpPool(Windowed):
    kind: ClassVar[Kind] = "pool"
    ceil_mode: int = 0
    p: int = 2
