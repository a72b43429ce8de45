"""TensorRT's enumerations, with its names and numbers."""

from __future__ import annotations

from enum import Enum, IntEnum

import ml_dtypes
import numpy as np


class DataType(IntEnum):
    """Element types; the module also has them as `float32`, `int8`, ..."""

    FLOAT = 0
    HALF = 1
    INT8 = 2
    INT32 = 3
    BOOL = 4
    UINT8 = 5
    FP8 = 6
    BF16 = 7
    INT64 = 8
    INT4 = 9
    FP4 = 10

    @property
    def itemsize(self) -> float:
        """Bytes of one element; half a byte for the types of 4 bits."""
        return 0.5 if self in (DataType.INT4, DataType.FP4) else float(self.numpy.itemsize)

    @property
    def numpy(self) -> np.dtype:
        """The NumPy (or ml_dtypes) dtype that holds its elements."""
        found: np.dtype = np.dtype(_NUMPY[self])
        return found


_NUMPY = {
    DataType.FLOAT: np.float32, DataType.HALF: np.float16, DataType.INT8: np.int8, DataType.INT32: np.int32,
    DataType.BOOL: np.bool_, DataType.UINT8: np.uint8, DataType.FP8: ml_dtypes.float8_e4m3fn,
    DataType.BF16: ml_dtypes.bfloat16, DataType.INT64: np.int64, DataType.INT4: ml_dtypes.int4,
    DataType.FP4: ml_dtypes.float4_e2m1fn,
}  # fmt: skip


def nptype(dtype: DataType) -> type:
    """The NumPy scalar type of `dtype`: what ``trt.nptype`` gives."""
    return DataType(dtype).numpy.type


def dtype_of(name: str | None) -> DataType:
    """The type that NumPy calls `name`; float32 where it is not known."""
    return next((t for t, n in _NUMPY.items() if np.dtype(n).name == name), DataType.FLOAT)


class NetworkDefinitionCreationFlag(IntEnum):
    EXPLICIT_BATCH = 0
    EXPLICIT_PRECISION = 1
    STRONGLY_TYPED = 2
    PREFER_JIT_PYTHON_PLUGINS = 3
    PREFER_AOT_PYTHON_PLUGINS = 4


class BuilderFlag(IntEnum):
    FP16 = 0
    INT8 = 1
    DEBUG = 2
    GPU_FALLBACK = 3
    REFIT = 4
    DISABLE_TIMING_CACHE = 5
    TF32 = 6
    SPARSE_WEIGHTS = 7
    SAFETY_SCOPE = 8
    OBEY_PRECISION_CONSTRAINTS = 9
    PREFER_PRECISION_CONSTRAINTS = 10
    DIRECT_IO = 11
    REJECT_EMPTY_ALGORITHMS = 12
    VERSION_COMPATIBLE = 13
    EXCLUDE_LEAN_RUNTIME = 14
    FP8 = 15
    BF16 = 16
    INT4 = 17
    STRICT_TYPES = 18


class QuantizationFlag(IntEnum):
    CALIBRATE_BEFORE_FUSION = 0


class MemoryPoolType(IntEnum):
    WORKSPACE = 0
    DLA_MANAGED_SRAM = 1
    DLA_LOCAL_DRAM = 2
    DLA_GLOBAL_DRAM = 3
    TACTIC_DRAM = 4
    TACTIC_SHARED_MEMORY = 5


class ProfilingVerbosity(IntEnum):
    LAYER_NAMES_ONLY = 0
    NONE = 1
    DETAILED = 2


class LayerInformationFormat(IntEnum):
    ONELINE = 0
    JSON = 1


class CalibrationAlgoType(IntEnum):
    LEGACY_CALIBRATION = 0
    ENTROPY_CALIBRATION = 1
    ENTROPY_CALIBRATION_2 = 2
    MINMAX_CALIBRATION = 3


class TensorIOMode(IntEnum):
    NONE = 0
    INPUT = 1
    OUTPUT = 2


class TensorLocation(IntEnum):
    DEVICE = 0
    HOST = 1


class OnnxParserFlag(IntEnum):
    NATIVE_INSTANCENORM = 0


class ActivationType(Enum):
    """Value: the ONNX operator, then the attributes that alpha and beta are."""

    RELU = ("Relu",)
    SIGMOID = ("Sigmoid",)
    TANH = ("Tanh",)
    LEAKY_RELU = ("LeakyRelu", "alpha")
    ELU = ("Elu", "alpha")
    SELU = ("Selu", "alpha", "gamma")
    SOFTSIGN = ("Softsign",)
    SOFTPLUS = ("Softplus",)
    CLIP = ("Clip", "min", "max")
    HARD_SIGMOID = ("HardSigmoid", "alpha", "beta")
    SCALED_TANH = ("ScaledTanh", "alpha", "beta")
    THRESHOLDED_RELU = ("ThresholdedRelu", "alpha")
    GELU_ERF = ("Gelu",)
    GELU_TANH = ("GeluTanh",)


class PoolingType(Enum):
    MAX = "MaxPool"
    AVERAGE = "AveragePool"
    MAX_AVERAGE_BLEND = "Blend"


class PaddingMode(IntEnum):
    EXPLICIT_ROUND_DOWN = 0
    EXPLICIT_ROUND_UP = 1
    SAME_UPPER = 2
    SAME_LOWER = 3


class ElementWiseOperation(Enum):
    """Value: the ONNX operator."""

    SUM = "Add"
    PROD = "Mul"
    MAX = "Max"
    MIN = "Min"
    SUB = "Sub"
    DIV = "Div"
    POW = "Pow"
    FLOOR_DIV = "FloorDiv"
    AND = "And"
    OR = "Or"
    XOR = "Xor"
    EQUAL = "Equal"
    GREATER = "Greater"
    LESS = "Less"


class UnaryOperation(Enum):
    """Value: the ONNX operator."""

    EXP = "Exp"
    LOG = "Log"
    SQRT = "Sqrt"
    RECIP = "Reciprocal"
    ABS = "Abs"
    NEG = "Neg"
    SIN = "Sin"
    COS = "Cos"
    TAN = "Tan"
    SINH = "Sinh"
    COSH = "Cosh"
    ASIN = "Asin"
    ACOS = "Acos"
    ATAN = "Atan"
    ASINH = "Asinh"
    ACOSH = "Acosh"
    ATANH = "Atanh"
    CEIL = "Ceil"
    FLOOR = "Floor"
    ERF = "Erf"
    NOT = "Not"
    SIGN = "Sign"
    ROUND = "Round"
    ISINF = "IsInf"
    ISNAN = "IsNaN"


class ReduceOperation(Enum):
    """Value: the ONNX operator."""

    SUM = "ReduceSum"
    PROD = "ReduceProd"
    MAX = "ReduceMax"
    MIN = "ReduceMin"
    AVG = "ReduceMean"


class ScaleMode(IntEnum):
    UNIFORM = 0
    CHANNEL = 1
    ELEMENTWISE = 2


class MatrixOperation(IntEnum):
    NONE = 0
    TRANSPOSE = 1
    VECTOR = 2


class TopKOperation(IntEnum):
    MAX = 0
    MIN = 1


class GatherMode(Enum):
    """Value: the ONNX operator."""

    DEFAULT = "Gather"
    ELEMENT = "GatherElements"
    ND = "GatherND"


class SampleMode(IntEnum):
    STRICT_BOUNDS = 0
    WRAP = 1
    CLAMP = 2
    FILL = 3
    REFLECT = 4


SliceMode = SampleMode


class InterpolationMode(Enum):
    """Value: the mode of ONNX Resize."""

    NEAREST = "nearest"
    LINEAR = "linear"
    CUBIC = "cubic"


ResizeMode = InterpolationMode


class ResizeCoordinateTransformation(Enum):
    """Value: ONNX's name."""

    ALIGN_CORNERS = "align_corners"
    ASYMMETRIC = "asymmetric"
    HALF_PIXEL = "half_pixel"


class ResizeRoundMode(Enum):
    """Value: the nearest_mode of ONNX Resize."""

    HALF_UP = "round_prefer_ceil"
    HALF_DOWN = "round_prefer_floor"
    FLOOR = "floor"
    CEIL = "ceil"


class LayerType(Enum):
    """Value: the ONNX operators that a parsed layer of this type has."""

    CONVOLUTION = ("Conv",)
    CAST = ("Cast",)
    ACTIVATION = (
        "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "Selu", "Softsign", "Softplus", "Clip",
        "HardSigmoid", "ThresholdedRelu", "Gelu",
    )  # fmt: skip
    POOLING = ("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")
    SCALE = ("BatchNormalization",)
    SOFTMAX = ("Softmax",)
    DECONVOLUTION = ("ConvTranspose",)
    CONCATENATION = ("Concat",)
    ELEMENTWISE = (
        "Add", "Mul", "Max", "Min", "Sub", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less",
    )  # fmt: skip
    UNARY = tuple(op.value for op in UnaryOperation)
    PADDING = ("Pad",)
    SHUFFLE = ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "DepthToSpace", "SpaceToDepth")
    REDUCE = tuple(op.value for op in ReduceOperation)
    TOPK = ("TopK",)
    GATHER = ("Gather", "GatherElements", "GatherND")
    MATRIX_MULTIPLY = ("MatMul", "Gemm")
    CONSTANT = ("Constant",)
    IDENTITY = ("Identity",)
    SLICE = ("Slice", "Split")
    SHAPE = ("Shape",)
    RESIZE = ("Resize", "Upsample")
    SELECT = ("Where",)
    QUANTIZE = ("QuantizeLinear",)
    DEQUANTIZE = ("DequantizeLinear",)
    NORMALIZATION = ("LayerNormalization", "InstanceNormalization", "GroupNormalization")
    PLUGIN_V2 = ()
    OTHER = ("",)

    @classmethod
    def of(cls, op_type: str) -> LayerType:
        """What TensorRT calls the layer that an ONNX operator becomes."""
        return next((member for member in cls if op_type in member.value), cls.OTHER)
