"""Table of inputs and outputs of com.microsoft operators, for which onnx has no schemas."""

from __future__ import annotations

_TABLE = """
Attention: 11????? 1?; AttnLSTM: 111??????????? ???; BeamSearch: 11?11??????? 1??; BiasAdd: 111 1
BiasDropout: 11??? 1?; BiasGelu: 11 1; BiasSoftmax: 11 1; BiasSplitGelu: 11 1; BifurcationDetector: 111? 11
BitmaskBiasDropout: 11??? 1?; BitmaskDropout: 1?? 1?; BranchwiseRMSNorm: 1? 1; CDist: 11 1
CausalConvWithState: 11?? 11?; ComplexMul: 11 1; ComplexMulConj: 11 1; ConvStateReplay: 1111 1
ConvTransposeWithDynamicPads: 11?? 1; CropAndResize: 1111 1; DecoderAttention: 11111???1111 1??
DecoderMaskedMultiHeadAttention: 1?????????? 1???; DecoderMaskedSelfAttention: 111?1?1?? 11
DequantizeBFP: 111 1; DequantizeLinear: 11? 1; DequantizeWithOrder: 11 1
DynamicQuantizeLSTM: 111?????1111 ???; DynamicQuantizeMatMul: 111?? 1
DynamicSparseAttention: 1??????1111????????? 1???; DynamicTimeWarping: 1 1
EmbedLayerNormalization: 1?11?11?? 1??; EngramGate: 11111? 1?; ExpandDims: 11 1; FastGelu: 1? 1
FusedConv: 11?? 1; FusedGemm: 11? 1; FusedMatMul: 11 1; FusedMatMulActivation: 11 1; GatedAdd: 111? 1
GatedDeltaNet: 1?????????? 1??; GatedDeltaNetStateReplay: 1111 1; GatedRMSNorm: 111 1
GatedRelativePositionBias: 111111? 1; GatherBlockQuantized: 111? 1; GatherND: 11 1; GatherPacked: 11 1
Gelu: 1 1; GemmFastGelu: 11? 1; GemmFloat8: 11???? 1; GemmaRotaryEmbedding: 11111 11
GreedySearch: 11????? 1; GridSample: 11 1; GroupNorm: 111 1; GroupQueryAttention: 1????11?????????? 1???
HyperConnectionLowRankMix: 11111?? 11?; HyperConnectionPostMix: 111? 1; HyperConnectionPreMix: 11 1
Inverse: 1 1; Irfft: 1 1; IsAllFinite: + 1; LinearAttention: 111??? 11; LinearAttentionGate: 111? 1?
LongformerAttention: 1111111 1; MRotaryEmbedding: 1111 1; Mamba2Verify: 1111111111 111??
MatMulBlockQuantizedFp4Weight: 1111?? 1; MatMulBlockQuantizedFp8Weight: 111?? 1; MatMulBnb4: 111 1
MatMulFpQ4: 111 1; MatMulInteger16: 11 1; MatMulIntegerToFloat: 1111??? 1; MatMulNBits: 111??? 1
MatMulNBitsMlp: 1??11?11? 1?; MatMulNBitsQLoRA: 1111111 1; MatMulNBitsQkv: 1?111?11?11? 111?
MatMulPacked: 11? 1; MaxpoolWithMask: 11 1; MoE: 111?1??? 1; MoEGroupRouter: 11? ???; MoEPacked: 111?1? 1
MulInteger: 1?1? 1; MultiHeadAttention: 1????????? 1???; MurmurHash3: 1 1; NGramHashMapping: 111???? 1?
NGramRepeatBlock: 11 1; NhwcConv: 11? 1; NhwcFusedConv: 11?? 1; NhwcMaxPool: 1 1; PackedAttention: 11111? 1
PackedMultiHeadAttention: 1???11? 1; PackedSparseAttentionIndexer: 1?111111????11?1?????? 1111?1???
PackedSparseAttentionIndexerMerge: 111???? 111; Pad: 11? 1; PagedAttention: 1??1?111????????? 1??
QAttention: 11111???? 1?; QEmbedLayerNormalization: 1?11?11?11?1111?11 11; QGemm: 111111??? 1
QLinearAdd: 11?11?1? 1; QLinearAveragePool: 11?1? 1; QLinearConcat: 11+ 1; QLinearConv: 11111111? 1
QLinearGlobalAveragePool: 11111 1; QLinearLeakyRelu: 11?1? 1; QLinearMul: 11?11?1? 1
QLinearReduceMean: 11?1? 1; QLinearSigmoid: 11?1? 1; QLinearSoftmax: 11?11 1; QLinearWhere: 111111111 1
QMoE: 111??1??????????????? 1; QOrderedAttention: 11111111111111??1??? 1; QOrderedGelu: 111 1
QOrderedLayerNormalization: 111?1 1; QOrderedLongformerAttention: 11111111111111 1
QOrderedMatMul: 11111??? 1; QuantizeBFP: 1 111; QuantizeLinear: 11? 1; QuantizeWithOrder: 11 1
QuickGelu: 1 1; RMSNormRotary: 11111? 1?; Range: 11? 1; ReduceSumInteger: 1 1; RelativePositionBias: 111 1
RemovePadding: 11 1111; RestorePadding: 11 1; Rfft: 1 1; RotaryEmbedding: 1111 1; RouterGateUpProj: 11 11
SampleOp: 1 1; Sampling: 11??????? 1?; ScaledSiLU: 1? 1; SkipGroupNorm: 1111? 1?
SkipLayerNormalization: 111?? 1???; SkipSimplifiedLayerNormalization: 111? 1???; Snpe: + +
SparseAttention: 1??111111?? 111; SparseAttentionIndexer: 1?1111?1?????? 11?
SparsePagedAttention: 1??11111?11??????????? 1??; SparseToDenseMatMul: 11 1
SpeculativePrefixCommit: 1111111 111; SwiGLU: 1? 1; Tokenizer: 1 1; TorchEmbedding: 11?? 1
TransposeMatMul: 11 1; Trilu: 1? 1; UnfoldTensor: 1 1; Unique: 1 111
VarlenCausalConvWithState: 111?1??? 11?; VarlenNGramHashMapping: 1111?????? 1???
WhisperBeamSearch: 11?11?????????? 1????; WordConvEmbedding: 1111 1
"""
"""Operator: inputs, outputs: 1 has to be there, ? may be left out, + may repeat. Of ONNX Runtime 1.32."""


def contrib_ports(op_type: str) -> tuple[str, str] | None:
    """Return the inputs and outputs of an operator by the table; None where ONNX Runtime has none."""
    return _PORTS.get(op_type)


_PORTS = {
    name: (inputs.strip("-"), outputs.strip("-"))
    for name, _, ports in (entry.partition(": ") for entry in _TABLE.replace("\n", "; ").split("; ") if entry)
    for inputs, outputs in [ports.split()]
}
