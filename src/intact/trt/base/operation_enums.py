"""TensorRT's enumerations of what layers compute, with its names and numbers."""

from __future__ import annotations

from intact.trt.base.enums import TrtEnum


class ActivationType(TrtEnum):
    RELU = 0
    SIGMOID = 1
    TANH = 2
    LEAKY_RELU = 3
    ELU = 4
    SELU = 5
    SOFTSIGN = 6
    SOFTPLUS = 7
    CLIP = 8
    HARD_SIGMOID = 9
    SCALED_TANH = 10
    THRESHOLDED_RELU = 11
    GELU_ERF = 12
    GELU_TANH = 13


class PoolingType(TrtEnum):
    MAX = 0
    AVERAGE = 1
    MAX_AVERAGE_BLEND = 2


class PaddingMode(TrtEnum):
    EXPLICIT_ROUND_DOWN = 0
    EXPLICIT_ROUND_UP = 1
    SAME_UPPER = 2
    SAME_LOWER = 3
    CAFFE_ROUND_DOWN = 4
    CAFFE_ROUND_UP = 5


class ElementWiseOperation(TrtEnum):
    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    SUB = 4
    DIV = 5
    POW = 6
    FLOOR_DIV = 7
    AND = 8
    OR = 9
    XOR = 10
    EQUAL = 11
    GREATER = 12
    LESS = 13


class UnaryOperation(TrtEnum):
    EXP = 0
    LOG = 1
    SQRT = 2
    RECIP = 3
    ABS = 4
    NEG = 5
    SIN = 6
    COS = 7
    TAN = 8
    SINH = 9
    COSH = 10
    ASIN = 11
    ACOS = 12
    ATAN = 13
    ASINH = 14
    ACOSH = 15
    ATANH = 16
    CEIL = 17
    FLOOR = 18
    ERF = 19
    NOT = 20
    SIGN = 21
    ROUND = 22
    ISINF = 23
    ISNAN = 24


class ReduceOperation(TrtEnum):
    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    AVG = 4
    NONE = 5


class ScaleMode(TrtEnum):
    UNIFORM = 0
    CHANNEL = 1
    ELEMENTWISE = 2


class MatrixOperation(TrtEnum):
    NONE = 0
    TRANSPOSE = 1
    VECTOR = 2


class TopKOperation(TrtEnum):
    MAX = 0
    MIN = 1


class GatherMode(TrtEnum):
    DEFAULT = 0
    ELEMENT = 1
    ND = 2


class ScatterMode(TrtEnum):
    ELEMENT = 0
    ND = 1


class SampleMode(TrtEnum):
    STRICT_BOUNDS = 0
    DEFAULT = 0
    WRAP = 1
    CLAMP = 2
    FILL = 3
    REFLECT = 4


class InterpolationMode(TrtEnum):
    NEAREST = 0
    LINEAR = 1
    CUBIC = 2


class ResizeCoordinateTransformation(TrtEnum):
    ALIGN_CORNERS = 0
    ASYMMETRIC = 1
    HALF_PIXEL = 2


class ResizeSelector(TrtEnum):
    FORMULA = 0
    UPPER = 1


class ResizeRoundMode(TrtEnum):
    HALF_UP = 0
    HALF_DOWN = 1
    FLOOR = 2
    CEIL = 3


class FillOperation(TrtEnum):
    LINSPACE = 0
    RANDOM_UNIFORM = 1
    RANDOM_NORMAL = 2


class CumulativeOperation(TrtEnum):
    SUM = 0


class BoundingBoxFormat(TrtEnum):
    CORNER_PAIRS = 0
    CENTER_SIZES = 1


class LoopOutput(TrtEnum):
    LAST_VALUE = 0
    CONCATENATE = 1
    REVERSE = 2


class TripLimit(TrtEnum):
    COUNT = 0
    WHILE = 1


class AttentionNormalizationOp(TrtEnum):
    NONE = 0
    SOFTMAX = 1


class AttentionIOForm(TrtEnum):
    PADDED_BHND = 0
    PACKED_NHD = 1


class CausalMaskKind(TrtEnum):
    NONE = 0
    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class KVCacheMode(TrtEnum):
    LINEAR = 0


class MoEActType(TrtEnum):
    NONE = 0
    SILU = 1


class CollectiveOperation(TrtEnum):
    ALL_REDUCE = 0
    ALL_GATHER = 1
    BROADCAST = 2
    REDUCE = 3
    REDUCE_SCATTER = 4
    ALL_TO_ALL = 5
    GATHER = 6
    SCATTER = 7


class RNNOperation(TrtEnum):
    RELU = 0
    TANH = 1
    LSTM = 2
    GRU = 3


class RNNDirection(TrtEnum):
    UNIDIRECTION = 0
    BIDIRECTION = 1


class RNNInputMode(TrtEnum):
    LINEAR = 0
    SKIP = 1


class RNNGateType(TrtEnum):
    INPUT = 0
    OUTPUT = 1
    FORGET = 2
    UPDATE = 3
    RESET = 4
    CELL = 5
    HIDDEN = 6


class DimensionOperation(TrtEnum):
    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    SUB = 4
    EQUAL = 5
    LESS = 6
    FLOOR_DIV = 7
    CEIL_DIV = 8


class LayerType(TrtEnum):
    CONVOLUTION = 0
    CAST = 1
    ACTIVATION = 2
    POOLING = 3
    LRN = 4
    SCALE = 5
    SOFTMAX = 6
    DECONVOLUTION = 7
    CONCATENATION = 8
    ELEMENTWISE = 9
    PLUGIN = 10
    UNARY = 11
    PADDING = 12
    SHUFFLE = 13
    REDUCE = 14
    TOPK = 15
    GATHER = 16
    MATRIX_MULTIPLY = 17
    RAGGED_SOFTMAX = 18
    CONSTANT = 19
    IDENTITY = 20
    PLUGIN_V2 = 21
    SLICE = 22
    SHAPE = 23
    PARAMETRIC_RELU = 24
    RESIZE = 25
    TRIP_LIMIT = 26
    RECURRENCE = 27
    ITERATOR = 28
    LOOP_OUTPUT = 29
    SELECT = 30
    FILL = 31
    QUANTIZE = 32
    DEQUANTIZE = 33
    CONDITION = 34
    CONDITIONAL_INPUT = 35
    CONDITIONAL_OUTPUT = 36
    SCATTER = 37
    EINSUM = 38
    ASSERTION = 39
    ONE_HOT = 40
    NON_ZERO = 41
    GRID_SAMPLE = 42
    NMS = 43
    REVERSE_SEQUENCE = 44
    NORMALIZATION = 45
    PLUGIN_V3 = 46
    SQUEEZE = 47
    UNSQUEEZE = 48
    CUMULATIVE = 49
    DYNAMIC_QUANTIZE = 50
    ATTENTION_INPUT = 51
    ATTENTION_OUTPUT = 52
    ROTARY_EMBEDDING = 53
    KV_CACHE_UPDATE = 54
    MOE = 55
    DIST_COLLECTIVE = 56
    FULLY_CONNECTED = 90
    RNN_V2 = 91
    OTHER = 99


SliceMode = SampleMode
ResizeMode = InterpolationMode

UNARY_NODES = {
    UnaryOperation.EXP: "Exp", UnaryOperation.LOG: "Log", UnaryOperation.SQRT: "Sqrt",
    UnaryOperation.RECIP: "Reciprocal", UnaryOperation.ABS: "Abs", UnaryOperation.NEG: "Neg",
    UnaryOperation.SIN: "Sin", UnaryOperation.COS: "Cos", UnaryOperation.TAN: "Tan",
    UnaryOperation.SINH: "Sinh", UnaryOperation.COSH: "Cosh", UnaryOperation.ASIN: "Asin",
    UnaryOperation.ACOS: "Acos", UnaryOperation.ATAN: "Atan", UnaryOperation.ASINH: "Asinh",
    UnaryOperation.ACOSH: "Acosh", UnaryOperation.ATANH: "Atanh", UnaryOperation.CEIL: "Ceil",
    UnaryOperation.FLOOR: "Floor", UnaryOperation.ERF: "Erf", UnaryOperation.NOT: "Not",
    UnaryOperation.SIGN: "Sign", UnaryOperation.ROUND: "Round", UnaryOperation.ISINF: "IsInf",
    UnaryOperation.ISNAN: "IsNaN",
}  # fmt: skip
REDUCE_NODES = {
    ReduceOperation.SUM: "ReduceSum", ReduceOperation.PROD: "ReduceProd", ReduceOperation.MAX: "ReduceMax",
    ReduceOperation.MIN: "ReduceMin", ReduceOperation.AVG: "ReduceMean",
}  # fmt: skip

LAYER_TYPES: dict[str, LayerType] = {
    "Conv": LayerType.CONVOLUTION, "ConvTranspose": LayerType.DECONVOLUTION, "Cast": LayerType.CAST,
    "BatchNormalization": LayerType.SCALE, "Softmax": LayerType.SOFTMAX, "LRN": LayerType.LRN,
    "Concat": LayerType.CONCATENATION, "Pad": LayerType.PADDING, "TopK": LayerType.TOPK,
    "MatMul": LayerType.MATRIX_MULTIPLY, "Gemm": LayerType.MATRIX_MULTIPLY, "Constant": LayerType.CONSTANT,
    "Identity": LayerType.IDENTITY, "Shape": LayerType.SHAPE, "Where": LayerType.SELECT,
    "Einsum": LayerType.EINSUM, "PRelu": LayerType.PARAMETRIC_RELU, "OneHot": LayerType.ONE_HOT,
    "NonZero": LayerType.NON_ZERO, "GridSample": LayerType.GRID_SAMPLE, "NonMaxSuppression": LayerType.NMS,
    "ReverseSequence": LayerType.REVERSE_SEQUENCE, "CumSum": LayerType.CUMULATIVE,
    "QuantizeLinear": LayerType.QUANTIZE, "DequantizeLinear": LayerType.DEQUANTIZE,
    **dict.fromkeys(("Resize", "Upsample"), LayerType.RESIZE),
    **dict.fromkeys(("Slice", "Split"), LayerType.SLICE),
    **dict.fromkeys(("Gather", "GatherElements"), LayerType.GATHER), "GatherND": LayerType.GATHER,
    **dict.fromkeys(("ScatterElements", "ScatterND"), LayerType.SCATTER),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"), LayerType.POOLING),
    **dict.fromkeys(UNARY_NODES.values(), LayerType.UNARY),
    **dict.fromkeys(REDUCE_NODES.values(), LayerType.REDUCE),
    **dict.fromkeys(
        ("LayerNormalization", "InstanceNormalization", "GroupNormalization"), LayerType.NORMALIZATION
    ),
    **dict.fromkeys(
        ("Add", "Mul", "Max", "Min", "Sub", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"),
        LayerType.ELEMENTWISE,
    ),
    **dict.fromkeys(
        ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "Selu", "Softsign", "Softplus", "Clip",
         "HardSigmoid", "ThresholdedRelu", "Gelu"), LayerType.ACTIVATION,
    ),
    "Reshape": LayerType.SHUFFLE, "Transpose": LayerType.SHUFFLE, "Flatten": LayerType.SHUFFLE,
    "Squeeze": LayerType.SHUFFLE, "Unsqueeze": LayerType.SHUFFLE, "DepthToSpace": LayerType.SHUFFLE,
    "SpaceToDepth": LayerType.SHUFFLE,
}  # fmt: skip
"""The layer that TensorRT's parser makes of an ONNX operator."""


def layer_type_of(op_type: str) -> LayerType:
    """Return TensorRT's layer type for an ONNX operator."""
    return LAYER_TYPES.get(op_type, LayerType.OTHER)
