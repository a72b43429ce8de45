"""Records of operators that rewrites decompose: Einsum, com.microsoft's fused ones, ai.onnx.ml's."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

from intact.graph.ops.qoperators import MICROSOFT
from intact.graph.ops.record import Kind, Operator

ML = "ai.onnx.ml"
"""The domain of scikit-learn's operators."""


class Compound(Operator, shared=True):
    """Base of operators without rules; any of its inputs may hold the data."""

    kind: ClassVar[Kind] = "compound"
    data: ClassVar[tuple[int, ...] | None] = None


class OfRuntime(Compound, shared=True):
    """An operator of ONNX Runtime's domain."""

    domain: ClassVar[str] = MICROSOFT


class OfPipelines(Compound, shared=True):
    """An operator of ai.onnx.ml."""

    domain: ClassVar[str] = ML


@dataclass(frozen=True)
class Einsum(Compound):
    equation: str = ""


@dataclass(frozen=True)
class Shrink(Compound):
    """``x - bias`` above `lambd`, ``x + bias`` below ``-lambd``, else 0."""

    bias: float = 0.0
    lambd: float = 0.5


@dataclass(frozen=True)
class RotaryEmbedding(Compound):
    """Inputs: data, cosines, sines, positions."""

    num_heads: int = 0
    rotary_embedding_dim: int = 0
    interleaved: int = 0


@dataclass(frozen=True)
class ConcatFromSequence(Compound):
    axis: int = 0
    new_axis: int = 0


@dataclass(frozen=True)
class SplitToSequence(Compound):
    """Inputs: data, sizes. `keepdims` counts where no sizes are given."""

    axis: int = 0
    keepdims: int = 1


@dataclass(frozen=True)
class RuntimeRotaryEmbedding(OfRuntime):
    """Inputs: data, positions, cosines, sines."""

    op_type: ClassVar[str] = "RotaryEmbedding"
    is_packed_batching: int = 0
    scale: float = 1.0


@dataclass(frozen=True)
class QuickGelu(OfRuntime):
    """``x * sigmoid(alpha * x)``."""

    alpha: float = 1.702


@dataclass(frozen=True)
class FusedConv(OfRuntime):
    """A Conv, an addend and an activation with its parameters."""

    activation: str = ""
    activation_params: tuple[float, ...] = ()


@dataclass(frozen=True)
class FusedGemm(OfRuntime):
    """A Gemm and an activation with its parameters."""

    activation: str = ""
    activation_alpha: float | None = None
    activation_beta: float | None = None
    activation_gamma: float | None = None


@dataclass(frozen=True)
class FusedMatMul(OfRuntime):
    """``alpha * A @ B``, of which each may be transposed first."""

    alpha: float = 1.0
    transA: int = 0
    transB: int = 0
    transBatchA: int = 0
    transBatchB: int = 0


@dataclass(frozen=True)
class EmbedLayerNormalization(OfRuntime):
    epsilon: float = 1e-12


@dataclass(frozen=True)
class SkipLayerNormalization(OfRuntime):
    epsilon: float = 1e-12


@dataclass(frozen=True)
class SkipSimplifiedLayerNormalization(OfRuntime):
    epsilon: float = 1e-12


@dataclass(frozen=True)
class SimplifiedLayerNormalization(OfRuntime):
    """Files have it in ONNX's domain, too."""

    axis: int = -1
    epsilon: float = 1e-5


@dataclass(frozen=True)
class RuntimeScores(OfRuntime, shared=True):
    """An attention of as many keys and queries. A scale of 0 is ``1 / sqrt(size of a head)``."""

    num_heads: int = 0
    mask_filter_value: float = -10000.0
    unidirectional: int = 0
    scale: float = 0.0


@dataclass(frozen=True)
class RuntimeAttention(RuntimeScores):
    """Self-attention with its projections; `qkv_hidden_sizes` is a third of the columns each by default."""

    op_type: ClassVar[str] = "Attention"
    qkv_hidden_sizes: tuple[int, ...] | None = None
    do_rotary: int = 0


class MultiHeadAttention(RuntimeScores):
    pass


@dataclass(frozen=True)
class GroupQueryAttention(OfRuntime):
    """A scale of 0 is ``1 / sqrt(size of a head)``; a window of -1 reaches all keys."""

    num_heads: int = 0
    kv_num_heads: int = 0
    scale: float = 0.0
    softcap: float = 0.0
    do_rotary: int = 0
    rotary_interleaved: int = 0
    local_window_size: int = -1
    causal: int = 1
    smooth_softmax: int = 0
    qk_output: int = 0
    sliding_window_cache: int = 0
    k_quant_type: str = "NONE"
    v_quant_type: str = "NONE"

    @property
    def is_plain(self) -> bool:
        """Return whether it is causal, with float caches, and without windowed caches or other outputs."""
        quantized = {self.k_quant_type, self.v_quant_type} != {"NONE"}
        return self.causal == 1 and not (quantized or self.qk_output or self.sliding_window_cache)


@dataclass(frozen=True)
class CausalConvWithState(Compound):
    """Inputs: x [batch, columns, tokens], weight [columns, 1, taps], bias, tokens before."""

    activation: str = "none"


@dataclass(frozen=True)
class RuntimeCausalConvWithState(OfRuntime):
    """ONNX Runtime's own, with the inputs and attributes that ONNX took over; there may be several axes."""

    op_type: ClassVar[str] = "CausalConvWithState"
    activation: str = "none"


@dataclass(frozen=True)
class LinearAttention(Compound):
    """Inputs: queries, keys, values, state, decays, rates. A scale of 0 is ``1 / sqrt(size of a head)``."""

    q_num_heads: int = 0
    kv_num_heads: int = 0
    scale: float = 0.0
    update_rule: str = "gated_delta"
    chunk_size: int = 64


@dataclass(frozen=True)
class RuntimeLinearAttention(OfRuntime):
    """ONNX Runtime's own, with the inputs and attributes that ONNX took over."""

    op_type: ClassVar[str] = "LinearAttention"
    q_num_heads: int = 0
    kv_num_heads: int = 0
    scale: float = 0.0
    update_rule: str = "gated_delta"
    chunk_size: int = 64


class NarrowGroupQueryAttention(GroupQueryAttention):
    """INTact's own: queries, keys and values are float32, caches float16 or int8 (`numerics.write_cache`)."""

    domain: ClassVar[str] = "intact"
    op_type: ClassVar[str] = "GroupQueryAttention"


@dataclass(frozen=True)
class GatherBlockQuantized(OfRuntime):
    """Inputs: codes of a table, indices, scales, zero points."""

    gather_axis: int = 0
    quantize_axis: int = 1
    block_size: int = 128
    bits: int = 4


@dataclass(frozen=True)
class BlockProduct(OfRuntime, shared=True):
    """Multiplies rows of K elements by weights [N, K] in blocks of few bits."""

    K: int = 0
    N: int = 0
    block_size: int = 0


@dataclass(frozen=True)
class MatMulBnb4(BlockProduct):
    """Inputs: data, codes of the weight [N * K / 2], scales of blocks of them; `quant_type` 1 is nf4."""

    quant_type: int = 1
    training_mode: int = 0
    transB: int = 1


@dataclass(frozen=True)
class MatMulNBits(BlockProduct):
    """Inputs: data, codes of the weight [N, blocks, bytes], scales, zero points, an order, bias."""

    bits: int = 0
    accuracy_level: int = 0


@dataclass(frozen=True)
class MoE(OfRuntime):
    """A mixture of experts. Inputs: rows, router logits, weights and biases of three products.

    Weights are [experts, outputs, inputs]. `swiglu_fusion` 1 and 2: the first product makes gates and
    values, by turns or side by side; 0: the third makes the values.
    """

    k: int = 1
    activation_type: str = "relu"
    normalize_routing_weights: int = 0
    use_sparse_mixer: int = 0
    activation_alpha: float = 1.0
    activation_beta: float = 0.0
    swiglu_fusion: int = 0
    swiglu_limit: float = inf
    swiglu_limit_after_activation: int = 0


@dataclass(frozen=True)
class QMoE(MoE):
    """Experts with codes. Inputs: rows, router logits, codes, scales and biases of three products.

    Behind these stand their zero points, and router weights. `block_size` 0: a scale for each output.
    """

    expert_weight_bits: int = 4
    fc1_expert_weight_bits: int = 0
    fc2_expert_weight_bits: int = 0
    fc3_expert_weight_bits: int = 0
    block_size: int = 0
    accuracy_level: int = 0
    quant_type: str = "int"
    weights_prepacked: int = -1


@dataclass(frozen=True)
class Scaler(OfPipelines):
    offset: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()


@dataclass(frozen=True)
class Normalizer(OfPipelines):
    norm: str = "MAX"


@dataclass(frozen=True)
class Imputer(OfPipelines):
    imputed_value_floats: tuple[float, ...] = ()
    replaced_value_float: float = 0.0


@dataclass(frozen=True)
class Binarizer(OfPipelines):
    threshold: float = 0.0


@dataclass(frozen=True)
class LinearRegressor(OfPipelines):
    coefficients: tuple[float, ...] = ()
    intercepts: tuple[float, ...] = ()
    targets: int = 1
    post_transform: str = "NONE"
