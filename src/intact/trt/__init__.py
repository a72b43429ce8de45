"""TensorRT's vocabulary on INTact's engine: ``import intact.trt as trt`` for ``import tensorrt as trt``."""

import sys

from intact.trt.base.dialects import (
    VERSIONS,
    get_dialect,
    set_dialect,
)
from intact.trt.base.enums import (
    AllocatorFlag,
    APILanguage,
    BuilderFlag,
    CalibrationAlgoType,
    DataType,
    DeviceType,
    EngineCapability,
    EngineStat,
    ErrorCode,
    ErrorCodeTRT,
    ExecutionContextAllocationStrategy,
    HardwareCompatibilityLevel,
    LayerInformationFormat,
    MemoryPoolType,
    NetworkDefinitionCreationFlag,
    OnnxParserFlag,
    PluginArgDataType,
    PluginArgType,
    PluginCapabilityType,
    PluginCreatorVersion,
    PluginFieldType,
    PreviewFeature,
    ProfilingVerbosity,
    QuantizationFlag,
    QuickPluginCreationRequest,
    RuntimePlatform,
    SeekPosition,
    SerializationFlag,
    TacticSource,
    TempfileControlFlag,
    TensorFormat,
    TensorIOMode,
    TensorLocation,
    TensorRTPhase,
    TilingOptimizationLevel,
    WeightsRole,
    nptype,
)
from intact.trt.base.host_interfaces import (
    IAlgorithm,
    IAlgorithmContext,
    IAlgorithmIOInfo,
    IAlgorithmSelector,
    IAlgorithmVariant,
    IGpuAllocator,
    IGpuAsyncAllocator,
    IHostMemory,
    ILogger,
    IProfiler,
    IProgressMonitor,
    IStreamReader,
    IStreamReaderV2,
    IStreamWriter,
    Logger,
    Profiler,
)
from intact.trt.base.itensor import (
    Dims,
    Dims2,
    Dims3,
    Dims4,
    DimsExprs,
    DimsHW,
    ITensor,
    Permutation,
    Weights,
    volume,
)
from intact.trt.base.module_names import TrtModule, missing_name, visible_names
from intact.trt.base.operation_enums import (
    ActivationType,
    AttentionIOForm,
    AttentionNormalizationOp,
    BoundingBoxFormat,
    CausalMaskKind,
    CollectiveOperation,
    CumulativeOperation,
    DimensionOperation,
    ElementWiseOperation,
    FillOperation,
    GatherMode,
    InterpolationMode,
    KVCacheMode,
    LayerType,
    LoopOutput,
    MatrixOperation,
    MoEActType,
    PaddingMode,
    PoolingType,
    ReduceOperation,
    ResizeCoordinateTransformation,
    ResizeMode,
    ResizeRoundMode,
    ResizeSelector,
    RNNDirection,
    RNNGateType,
    RNNInputMode,
    RNNOperation,
    SampleMode,
    ScaleMode,
    ScatterMode,
    SliceMode,
    TopKOperation,
    TripLimit,
    UnaryOperation,
)
from intact.trt.base.trt_object import (
    IErrorRecorder,
)
from intact.trt.builder import (
    Builder,
)
from intact.trt.building.calibrators import (
    IInt8Calibrator,
    IInt8EntropyCalibrator,
    IInt8EntropyCalibrator2,
    IInt8LegacyCalibrator,
    IInt8MinMaxCalibrator,
)
from intact.trt.building.config import (
    IBuilderConfig,
    IOptimizationProfile,
    ITimingCache,
    TimingCacheKey,
    TimingCacheValue,
)
from intact.trt.building.onnx_parser import (
    OnnxParser,
    ParserError,
)
from intact.trt.layers import (
    IActivationLayer,
    IAssertionLayer,
    IAttention,
    IAttentionBoundaryLayer,
    IAttentionInputLayer,
    IAttentionOutputLayer,
    ICastLayer,
    IConcatenationLayer,
    IConditionLayer,
    IConstantLayer,
    IConvolutionLayer,
    ICumulativeLayer,
    IDeconvolutionLayer,
    IDequantizeLayer,
    IDistCollectiveLayer,
    IDynamicQuantizeLayer,
    IEinsumLayer,
    IElementWiseLayer,
    IFillLayer,
    IFullyConnectedLayer,
    IGatherLayer,
    IGridSampleLayer,
    IIdentityLayer,
    IIfConditional,
    IIfConditionalBoundaryLayer,
    IIfConditionalInputLayer,
    IIfConditionalOutputLayer,
    IIteratorLayer,
    IKVCacheUpdateLayer,
    ILayer,
    ILoop,
    ILoopBoundaryLayer,
    ILoopOutputLayer,
    ILRNLayer,
    IMatrixMultiplyLayer,
    IMoELayer,
    INMSLayer,
    INonZeroLayer,
    INormalizationLayer,
    IOneHotLayer,
    IOnnxLayer,
    IPaddingLayer,
    IParametricReLULayer,
    IPoolingLayer,
    IQuantizeLayer,
    IRaggedSoftMaxLayer,
    IRecurrenceLayer,
    IReduceLayer,
    IResizeLayer,
    IReverseSequenceLayer,
    IRNNv2Layer,
    IRotaryEmbeddingLayer,
    IScaleLayer,
    IScatterLayer,
    ISelectLayer,
    IShapeLayer,
    IShuffleLayer,
    ISliceLayer,
    ISoftMaxLayer,
    ISqueezeLayer,
    ITopKLayer,
    ITripLimitLayer,
    IUnaryLayer,
    IUnsqueezeLayer,
)
from intact.trt.network import (
    INetworkDefinition,
)
from intact.trt.plugins.plugin import (
    Grid,
    IPluginV2Layer,
    IPluginV3Layer,
    Quantized,
    init_libnvinfer_plugins,
    plugin,
)
from intact.trt.plugins.plugin_interfaces import (
    DynamicPluginTensorDesc,
    FallbackString,
    IDimensionExpr,
    IExprBuilder,
    InterfaceInfo,
    IPluginCapability,
    IPluginCreator,
    IPluginCreatorInterface,
    IPluginCreatorV3One,
    IPluginCreatorV3Quick,
    IPluginResource,
    IPluginResourceContext,
    IPluginV2,
    IPluginV2DynamicExt,
    IPluginV2DynamicExtBase,
    IPluginV2Ext,
    IPluginV3,
    IPluginV3OneBuild,
    IPluginV3OneBuildV2,
    IPluginV3OneCore,
    IPluginV3OneRuntime,
    IPluginV3QuickAOTBuild,
    IPluginV3QuickBuild,
    IPluginV3QuickCore,
    IPluginV3QuickRuntime,
    ISymExpr,
    ISymExprs,
    IVersionedInterface,
    KernelLaunchParams,
    PluginField,
    PluginFieldCollection,
    PluginTensorDesc,
)
from intact.trt.plugins.plugin_registry import (
    IPluginRegistry,
    get_builder_plugin_registry,
    get_plugin_registry,
)
from intact.trt.running.cuda_engine import (
    ICudaEngine,
)
from intact.trt.running.debug_tensors import (
    IDebugListener,
)
from intact.trt.running.engine_configs import (
    EngineInspector,
    IRuntimeConfig,
    ISerializationConfig,
)
from intact.trt.running.execution_context import (
    IExecutionContext,
    IOutputAllocator,
)
from intact.trt.running.refit import (
    OnnxParserRefitter,
    Refitter,
)
from intact.trt.running.runtime import (
    Runtime,
)

__version__: str
"""The TensorRT whose vocabulary this is: 10.9.0; 8.6.1 or 11.1.0 for a script of the dialects 8.x, 11.x."""

float32 = DataType.FLOAT
float16 = DataType.HALF
bfloat16 = DataType.BF16
int8 = DataType.INT8
int32 = DataType.INT32
int64 = DataType.INT64
uint8 = DataType.UINT8
bool = DataType.BOOL
fp8 = DataType.FP8
int4 = DataType.INT4
fp4 = DataType.FP4
e8m0 = DataType.E8M0
PluginFieldCollection_ = PluginFieldCollection
_plugin_registry = get_plugin_registry()


def __getattr__(name: str) -> str:
    if name == "__version__":
        return VERSIONS[get_dialect()]
    raise missing_name(__name__, name)


def __dir__() -> list[str]:
    return visible_names({*globals(), "__version__"})


def get_nv_onnx_parser_version() -> int:
    """Return the version of TensorRT's parser whose messages are followed: 100900 for 10.9.0."""
    major, minor, patch = map(int, VERSIONS[get_dialect()].split("."))
    return major * 10000 + minor * 100 + patch


sys.modules[__name__].__class__ = TrtModule


__all__ = [
    "APILanguage", "ActivationType", "AllocatorFlag", "AttentionIOForm", "AttentionNormalizationOp",
    "BoundingBoxFormat", "Builder", "BuilderFlag", "CalibrationAlgoType", "CausalMaskKind",
    "CollectiveOperation", "CumulativeOperation", "DataType", "DeviceType", "DimensionOperation",
    "Dims", "Dims2", "Dims3", "Dims4", "DimsExprs", "DimsHW", "DynamicPluginTensorDesc",
    "ElementWiseOperation", "EngineCapability", "EngineInspector", "EngineStat", "ErrorCode",
    "ErrorCodeTRT", "ExecutionContextAllocationStrategy", "FallbackString", "FillOperation",
    "GatherMode", "Grid", "HardwareCompatibilityLevel", "IActivationLayer", "IAlgorithm",
    "IAlgorithmContext", "IAlgorithmIOInfo", "IAlgorithmSelector", "IAlgorithmVariant",
    "IAssertionLayer", "IAttention", "IAttentionBoundaryLayer", "IAttentionInputLayer",
    "IAttentionOutputLayer", "IBuilderConfig", "ICastLayer", "IConcatenationLayer", "IConditionLayer",
    "IConstantLayer", "IConvolutionLayer", "ICudaEngine", "ICumulativeLayer", "IDebugListener",
    "IDeconvolutionLayer", "IDequantizeLayer", "IDimensionExpr", "IDistCollectiveLayer",
    "IDynamicQuantizeLayer", "IEinsumLayer", "IElementWiseLayer", "IErrorRecorder", "IExecutionContext",
    "IExprBuilder", "IFillLayer", "IFullyConnectedLayer", "IGatherLayer", "IGpuAllocator",
    "IGpuAsyncAllocator", "IGridSampleLayer", "IHostMemory", "IIdentityLayer", "IIfConditional",
    "IIfConditionalBoundaryLayer", "IIfConditionalInputLayer", "IIfConditionalOutputLayer",
    "IInt8Calibrator", "IInt8EntropyCalibrator", "IInt8EntropyCalibrator2", "IInt8LegacyCalibrator",
    "IInt8MinMaxCalibrator", "IIteratorLayer", "IKVCacheUpdateLayer", "ILRNLayer", "ILayer", "ILogger",
    "ILoop", "ILoopBoundaryLayer", "ILoopOutputLayer", "IMatrixMultiplyLayer", "IMoELayer", "INMSLayer",
    "INetworkDefinition", "INonZeroLayer", "INormalizationLayer", "IOneHotLayer", "IOnnxLayer",
    "IOptimizationProfile", "IOutputAllocator", "IPaddingLayer", "IParametricReLULayer",
    "IPluginCapability", "IPluginCreator", "IPluginCreatorInterface", "IPluginCreatorV3One",
    "IPluginCreatorV3Quick", "IPluginRegistry", "IPluginResource", "IPluginResourceContext",
    "IPluginV2", "IPluginV2DynamicExt", "IPluginV2DynamicExtBase", "IPluginV2Ext", "IPluginV2Layer",
    "IPluginV3", "IPluginV3Layer", "IPluginV3OneBuild", "IPluginV3OneBuildV2", "IPluginV3OneCore",
    "IPluginV3OneRuntime", "IPluginV3QuickAOTBuild", "IPluginV3QuickBuild", "IPluginV3QuickCore",
    "IPluginV3QuickRuntime", "IPoolingLayer", "IProfiler", "IProgressMonitor", "IQuantizeLayer",
    "IRNNv2Layer", "IRaggedSoftMaxLayer", "IRecurrenceLayer", "IReduceLayer", "IResizeLayer",
    "IReverseSequenceLayer", "IRotaryEmbeddingLayer", "IRuntimeConfig", "IScaleLayer", "IScatterLayer",
    "ISelectLayer", "ISerializationConfig", "IShapeLayer", "IShuffleLayer", "ISliceLayer",
    "ISoftMaxLayer", "ISqueezeLayer", "IStreamReader", "IStreamReaderV2", "IStreamWriter", "ISymExpr",
    "ISymExprs", "ITensor", "ITimingCache", "ITopKLayer", "ITripLimitLayer", "IUnaryLayer",
    "IUnsqueezeLayer", "IVersionedInterface", "InterfaceInfo", "InterpolationMode", "KVCacheMode",
    "KernelLaunchParams", "LayerInformationFormat", "LayerType", "Logger", "LoopOutput",
    "MatrixOperation", "MemoryPoolType", "MoEActType", "NetworkDefinitionCreationFlag", "OnnxParser",
    "OnnxParserFlag", "OnnxParserRefitter", "PaddingMode", "ParserError", "Permutation",
    "PluginArgDataType", "PluginArgType", "PluginCapabilityType", "PluginCreatorVersion", "PluginField",
    "PluginFieldCollection", "PluginFieldCollection_", "PluginFieldType", "PluginTensorDesc",
    "PoolingType", "PreviewFeature", "Profiler", "ProfilingVerbosity", "QuantizationFlag", "Quantized",
    "QuickPluginCreationRequest", "RNNDirection", "RNNGateType", "RNNInputMode", "RNNOperation",
    "ReduceOperation", "Refitter", "ResizeCoordinateTransformation", "ResizeMode", "ResizeRoundMode",
    "ResizeSelector", "Runtime", "RuntimePlatform", "SampleMode", "ScaleMode", "ScatterMode",
    "SeekPosition", "SerializationFlag", "SliceMode", "TacticSource", "TempfileControlFlag",
    "TensorFormat", "TensorIOMode", "TensorLocation", "TensorRTPhase", "TilingOptimizationLevel",
    "TimingCacheKey", "TimingCacheValue", "TopKOperation", "TripLimit", "UnaryOperation", "Weights",
    "WeightsRole", "bfloat16", "bool", "e8m0", "float16", "float32", "fp4", "fp8",
    "get_builder_plugin_registry", "get_dialect", "get_nv_onnx_parser_version", "get_plugin_registry",
    "init_libnvinfer_plugins", "int32", "int4", "int64", "int8", "nptype", "plugin", "set_dialect",
    "uint8", "volume",
]  # fmt: skip
