"""The layers of a network: each file one kind, each class what it is in ONNX."""

from intact.trt.layers.base import ILayer
from intact.trt.layers.images import (
    INormalizationLayer,
    IPaddingLayer,
    IPoolingLayer,
    IReduceLayer,
    IResizeLayer,
    ISoftMaxLayer,
    ITopKLayer,
)
from intact.trt.layers.moves import (
    IConcatenationLayer,
    IConstantLayer,
    IGatherLayer,
    IShapeLayer,
    IShuffleLayer,
    ISliceLayer,
)
from intact.trt.layers.parsed import IOnnxLayer
from intact.trt.layers.pointwise import (
    IActivationLayer,
    ICastLayer,
    IElementWiseLayer,
    IIdentityLayer,
    IScaleLayer,
    ISelectLayer,
    IUnaryLayer,
)
from intact.trt.layers.qdq import IDequantizeLayer, IQuantizeLayer
from intact.trt.layers.weighted import IConvolutionLayer, IDeconvolutionLayer, IMatrixMultiplyLayer

__all__ = [
    "IActivationLayer",
    "ICastLayer",
    "IConcatenationLayer",
    "IConstantLayer",
    "IConvolutionLayer",
    "IDeconvolutionLayer",
    "IDequantizeLayer",
    "IElementWiseLayer",
    "IGatherLayer",
    "IIdentityLayer",
    "ILayer",
    "IMatrixMultiplyLayer",
    "INormalizationLayer",
    "IOnnxLayer",
    "IPaddingLayer",
    "IPoolingLayer",
    "IQuantizeLayer",
    "IReduceLayer",
    "IResizeLayer",
    "IScaleLayer",
    "ISelectLayer",
    "IShapeLayer",
    "IShuffleLayer",
    "ISliceLayer",
    "ISoftMaxLayer",
    "ITopKLayer",
    "IUnaryLayer",
]
