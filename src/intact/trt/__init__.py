"""TensorRT's vocabulary on INTact's engine: ``import intact.trt as trt`` for ``import tensorrt as trt``."""

from intact.trt.base.dialects import (
    VERSIONS,
    get_dialect,
    set_dialect,
)
from intact.trt.base.enums import (
    AllocatorFlag,
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
    PluginCapabilityType,
    PluginCreatorVersion,
    PluginFieldType,
    PreviewFeature,
    ProfilingVerbosity,
    QuantizationFlag,
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
from intact.trt.base.operation_enums import (
    ActivationType,
    AttentionNormalizationOp,
    BoundingBoxFormat,
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
    IDynamicQuantizeLayer,
    IEinsumLayer,
    IElementWiseLayer,
    IFillLayer,
    IFullyConnectedLayer,
    IGatherLayer,
    IGridSampleLayer,
    IIdentityLayer,
    IIfConditional,
    IIfConditionalInputLayer,
    IIfConditionalOutputLayer,
    IIteratorLayer,
    IKVCacheUpdateLayer,
    ILayer,
    ILoop,
    ILoopOutputLayer,
    ILRNLayer,
    IMatrixMultiplyLayer,
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
from intact.trt.plugins.plugin_registry import (
    DynamicPluginTensorDesc,
    IDimensionExpr,
    IExprBuilder,
    IPluginCapability,
    IPluginCreator,
    IPluginCreatorInterface,
    IPluginCreatorV3One,
    IPluginRegistry,
    IPluginResource,
    IPluginResourceContext,
    IPluginV2,
    IPluginV2DynamicExt,
    IPluginV2Ext,
    IPluginV3,
    IPluginV3OneBuild,
    IPluginV3OneBuildV2,
    IPluginV3OneCore,
    IPluginV3OneRuntime,
    PluginField,
    PluginFieldCollection,
    PluginTensorDesc,
    get_builder_plugin_registry,
    get_plugin_registry,
)
from intact.trt.running.cuda_engine import (
    ICudaEngine,
)
from intact.trt.running.engine_configs import (
    EngineInspector,
    IRuntimeConfig,
    ISerializationConfig,
)
from intact.trt.running.execution_context import (
    IDebugListener,
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
"""The TensorRT whose vocabulary this is: 10.9.0, or 8.6.1 for a script of the dialect 8.x."""

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


def __getattr__(name: str) -> str:
    if name == "__version__":
        return VERSIONS[get_dialect()]
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), "__version__"})


def get_nv_onnx_parser_version() -> int:
    """Return the version of TensorRT's parser whose messages are followed: 0x100900."""
    return 100900


__all__ = [
    "ActivationType", "AllocatorFlag", "AttentionNormalizationOp", "BoundingBoxFormat", "Builder",
    "BuilderFlag", "CalibrationAlgoType", "CollectiveOperation", "CumulativeOperation", "DataType",
    "DeviceType", "DimensionOperation", "Dims", "Dims2", "Dims3", "Dims4", "DimsExprs", "DimsHW",
    "DynamicPluginTensorDesc", "ElementWiseOperation", "EngineCapability", "EngineInspector",
    "EngineStat", "ErrorCode", "ErrorCodeTRT", "ExecutionContextAllocationStrategy", "FillOperation",
    "GatherMode", "Grid", "HardwareCompatibilityLevel", "IActivationLayer", "IAlgorithm",
    "IAlgorithmContext", "IAlgorithmIOInfo", "IAlgorithmSelector", "IAlgorithmVariant", "IAssertionLayer",
    "IAttention", "IAttentionInputLayer", "IAttentionOutputLayer", "IBuilderConfig", "ICastLayer",
    "IConcatenationLayer", "IConditionLayer", "IConstantLayer", "IConvolutionLayer", "ICudaEngine",
    "ICumulativeLayer", "IDebugListener", "IDeconvolutionLayer", "IDequantizeLayer", "IDimensionExpr",
    "IDynamicQuantizeLayer", "IEinsumLayer", "IElementWiseLayer", "IErrorRecorder", "IExecutionContext",
    "IExprBuilder", "IFillLayer", "IFullyConnectedLayer", "IGatherLayer", "IGpuAllocator",
    "IGpuAsyncAllocator", "IGridSampleLayer", "IHostMemory", "IIdentityLayer", "IIfConditional",
    "IIfConditionalInputLayer", "IIfConditionalOutputLayer", "IInt8Calibrator", "IInt8EntropyCalibrator",
    "IInt8EntropyCalibrator2", "IInt8LegacyCalibrator", "IInt8MinMaxCalibrator", "IIteratorLayer",
    "IKVCacheUpdateLayer", "ILRNLayer", "ILayer", "ILogger", "ILoop", "ILoopOutputLayer",
    "IMatrixMultiplyLayer", "INMSLayer", "INetworkDefinition", "INonZeroLayer", "INormalizationLayer",
    "IOneHotLayer", "IOnnxLayer", "IOptimizationProfile", "IOutputAllocator", "IPaddingLayer",
    "IParametricReLULayer", "IPluginCapability", "IPluginCreator", "IPluginCreatorInterface",
    "IPluginCreatorV3One", "IPluginRegistry", "IPluginResource", "IPluginResourceContext", "IPluginV2",
    "IPluginV2DynamicExt", "IPluginV2Ext", "IPluginV2Layer", "IPluginV3", "IPluginV3Layer",
    "IPluginV3OneBuild", "IPluginV3OneBuildV2", "IPluginV3OneCore", "IPluginV3OneRuntime",
    "IPoolingLayer", "IProfiler", "IProgressMonitor", "IQuantizeLayer", "IRNNv2Layer",
    "IRaggedSoftMaxLayer", "IRecurrenceLayer", "IReduceLayer", "IResizeLayer", "IReverseSequenceLayer",
    "IRotaryEmbeddingLayer", "IRuntimeConfig", "IScaleLayer", "IScatterLayer", "ISelectLayer",
    "ISerializationConfig", "IShapeLayer", "IShuffleLayer", "ISliceLayer", "ISoftMaxLayer",
    "ISqueezeLayer", "IStreamReader", "IStreamReaderV2", "IStreamWriter", "ITensor", "ITimingCache",
    "ITopKLayer", "ITripLimitLayer", "IUnaryLayer", "IUnsqueezeLayer", "InterpolationMode", "KVCacheMode",
    "LayerInformationFormat", "LayerType", "Logger", "LoopOutput", "MatrixOperation", "MemoryPoolType",
    "MoEActType", "NetworkDefinitionCreationFlag", "OnnxParser", "OnnxParserFlag", "OnnxParserRefitter",
    "PaddingMode", "ParserError", "Permutation", "PluginCapabilityType", "PluginCreatorVersion",
    "PluginField", "PluginFieldCollection", "PluginFieldCollection_", "PluginFieldType",
    "PluginTensorDesc", "PoolingType", "PreviewFeature", "Profiler", "ProfilingVerbosity",
    "QuantizationFlag", "Quantized", "RNNDirection", "RNNGateType", "RNNInputMode", "RNNOperation",
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
