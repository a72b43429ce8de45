"""Layers of a network: one file for each kind, one class for each layer, which writes itself as ONNX
nodes.
"""

from intact.trt.layers.attention import (
    IAttention,
    IAttentionBoundaryLayer,
    IAttentionInputLayer,
    IAttentionOutputLayer,
    IKVCacheUpdateLayer,
    IRotaryEmbeddingLayer,
)
from intact.trt.layers.base import (
    ILayer,
)
from intact.trt.layers.control_flow import (
    IConditionLayer,
    IIfConditional,
    IIfConditionalBoundaryLayer,
    IIfConditionalInputLayer,
    IIfConditionalOutputLayer,
    IIteratorLayer,
    ILoop,
    ILoopBoundaryLayer,
    ILoopOutputLayer,
    IRecurrenceLayer,
    ITripLimitLayer,
)
from intact.trt.layers.convolution_and_matmul import (
    IConvolutionLayer,
    IDeconvolutionLayer,
    IEinsumLayer,
    IFullyConnectedLayer,
    IMatrixMultiplyLayer,
)
from intact.trt.layers.data_movement import (
    IConcatenationLayer,
    IConstantLayer,
    IDistCollectiveLayer,
    IReverseSequenceLayer,
    IShapeLayer,
    IShuffleLayer,
    ISqueezeLayer,
    IUnsqueezeLayer,
)
from intact.trt.layers.dynamic_quantize import (
    IDynamicQuantizeLayer,
)
from intact.trt.layers.fill import (
    IFillLayer,
)
from intact.trt.layers.image_layers import (
    IGridSampleLayer,
    ILRNLayer,
    IPaddingLayer,
    IPoolingLayer,
    IResizeLayer,
)
from intact.trt.layers.indexing import (
    IGatherLayer,
    INMSLayer,
    INonZeroLayer,
    IOneHotLayer,
    IScatterLayer,
    ISliceLayer,
)
from intact.trt.layers.mixture_of_experts import (
    IMoELayer,
)
from intact.trt.layers.parsed_onnx import (
    IOnnxLayer,
)
from intact.trt.layers.pointwise import (
    IActivationLayer,
    IAssertionLayer,
    ICastLayer,
    IElementWiseLayer,
    IIdentityLayer,
    IParametricReLULayer,
    IScaleLayer,
    ISelectLayer,
    IUnaryLayer,
)
from intact.trt.layers.qdq import (
    IDequantizeLayer,
    IQuantizeLayer,
)
from intact.trt.layers.recurrent import IRNNv2Layer
from intact.trt.layers.reductions import (
    ICumulativeLayer,
    INormalizationLayer,
    IRaggedSoftMaxLayer,
    IReduceLayer,
    ISoftMaxLayer,
    ITopKLayer,
)

__all__ = [
    "IActivationLayer",
    "IAssertionLayer",
    "IAttention",
    "IAttentionBoundaryLayer",
    "IAttentionInputLayer",
    "IAttentionOutputLayer",
    "ICastLayer",
    "IConcatenationLayer",
    "IConditionLayer",
    "IConstantLayer",
    "IConvolutionLayer",
    "ICumulativeLayer",
    "IDeconvolutionLayer",
    "IDequantizeLayer",
    "IDistCollectiveLayer",
    "IDynamicQuantizeLayer",
    "IEinsumLayer",
    "IElementWiseLayer",
    "IFillLayer",
    "IFullyConnectedLayer",
    "IGatherLayer",
    "IGridSampleLayer",
    "IIdentityLayer",
    "IIfConditional",
    "IIfConditionalBoundaryLayer",
    "IIfConditionalInputLayer",
    "IIfConditionalOutputLayer",
    "IIteratorLayer",
    "IKVCacheUpdateLayer",
    "ILRNLayer",
    "ILayer",
    "ILoop",
    "ILoopBoundaryLayer",
    "ILoopOutputLayer",
    "IMatrixMultiplyLayer",
    "IMoELayer",
    "INMSLayer",
    "INonZeroLayer",
    "INormalizationLayer",
    "IOneHotLayer",
    "IOnnxLayer",
    "IPaddingLayer",
    "IParametricReLULayer",
    "IPoolingLayer",
    "IQuantizeLayer",
    "IRNNv2Layer",
    "IRaggedSoftMaxLayer",
    "IRecurrenceLayer",
    "IReduceLayer",
    "IResizeLayer",
    "IReverseSequenceLayer",
    "IRotaryEmbeddingLayer",
    "IScaleLayer",
    "IScatterLayer",
    "ISelectLayer",
    "IShapeLayer",
    "IShuffleLayer",
    "ISliceLayer",
    "ISoftMaxLayer",
    "ISqueezeLayer",
    "ITopKLayer",
    "ITripLimitLayer",
    "IUnaryLayer",
    "IUnsqueezeLayer",
]
