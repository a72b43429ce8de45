"""TensorRT's enumerations of types, flags and settings, with its names and numbers."""

from __future__ import annotations

from enum import EnumType, IntEnum
from typing import TypeVar

import ml_dtypes
import numpy as np

from intact.trt.base.removed_in_11 import REMOVED_IN_11, SHIFTED
from intact.trt.base.removed_members import RemovedMemberError


class _Entries(EnumType):
    """Gives its enumerations ``__entries``, as pybind11 does: by name, the member and its text.

    An enumeration of TensorRT 11 says what took the place of a member that it no longer has.
    """

    def __getattr__(cls, name: str) -> object:
        if name in cls._member_map_:  # Python 3.11 finds members here
            return cls._member_map_[name]
        successor = REMOVED_IN_11.get(cls.__name__, {}).get(name)
        if successor is not None:
            raise RemovedMemberError.of(
                f"type object 'tensorrt.tensorrt.{cls.__name__}'", name, "10.x", successor
            )
        raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")

    def __dir__(cls) -> list[str]:
        names = {"__entries", *cls.__members__, *type.__dir__(cls)}
        return sorted(name for name in names if hasattr(cls, name))


setattr(_Entries, "__entries", property(lambda cls: {n: (m, None) for n, m in cls.__members__.items()}))


class TrtEnum(IntEnum, metaclass=_Entries):
    """Prints and compares as TensorRT's: ``DataType.FLOAT``, equal to no member of another enumeration."""

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if hasattr(self, name)]

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __repr__(self) -> str:
        return f"<{self}: {int(self)}>"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TrtEnum) and type(other) is not type(self):
            return False
        return int.__eq__(self, other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return int.__hash__(self)


Member = TypeVar("Member", bound=TrtEnum)


class DataType(TrtEnum):
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
    E8M0 = 11

    @property
    def bits(self) -> int:
        """Bits of one element in the memory of a tensor."""
        return 4 if self in (DataType.INT4, DataType.FP4) else 8 * self.numpy.itemsize

    @property
    def itemsize(self) -> float:
        """Bytes of one element; half a byte for the types of 4 bits."""
        return self.numpy.itemsize if self.bits >= 8 else self.bits / 8

    def bytes_of(self, count: int) -> int:
        """Return the bytes of a dense tensor of `count` elements, of which those of 4 bits lie two in one."""
        return -(-count * self.bits // 8)

    @property
    def numpy(self) -> np.dtype:
        """The NumPy (or ml_dtypes) dtype that holds its elements."""
        dtype: np.dtype = np.dtype(_NUMPY[self])
        return dtype


_NUMPY = {
    DataType.FLOAT: np.float32, DataType.HALF: np.float16, DataType.INT8: np.int8, DataType.INT32: np.int32,
    DataType.BOOL: np.bool_, DataType.UINT8: np.uint8, DataType.FP8: ml_dtypes.float8_e4m3fn,
    DataType.BF16: ml_dtypes.bfloat16, DataType.INT64: np.int64, DataType.INT4: ml_dtypes.int4,
    DataType.FP4: ml_dtypes.float4_e2m1fn, DataType.E8M0: ml_dtypes.float8_e8m0fnu,
}  # fmt: skip


def nptype(dtype: DataType) -> type:
    """Return the NumPy scalar type of `dtype`, as ``trt.nptype`` does; ml_dtypes' where NumPy has none.

    Raises:
        TypeError: Two elements share a byte, which no array of NumPy's has.
    """
    if DataType(dtype).bits < 8:
        raise TypeError("Could not resolve TensorRT datatype to an equivalent numpy datatype.")
    return DataType(dtype).numpy.type


def dtype_of(name: str | None) -> DataType:
    """Return the type for NumPy's `name`; float32 where it is unknown."""
    return next((t for t, n in _NUMPY.items() if np.dtype(n).name == name), DataType.FLOAT)


def is_known_type(name: str) -> bool:
    """Return whether tensors of the type that NumPy calls `name` can be inputs and outputs; float64 as
    float32.
    """
    return name == "float64" or any(np.dtype(n).name == name for n in _NUMPY.values())


def foreign_type(tensor: str, name: str) -> str:
    """Return the message for an output whose type TensorRT does not have."""
    return f"output '{tensor}' has the type {name}, which TensorRT does not have: cast it in the model"


class NetworkDefinitionCreationFlag(TrtEnum):
    EXPLICIT_BATCH = 0
    EXPLICIT_PRECISION = 32
    STRONGLY_TYPED = 1
    PREFER_JIT_PYTHON_PLUGINS = 2
    PREFER_AOT_PYTHON_PLUGINS = 3


class BuilderFlag(TrtEnum):
    FP16 = 0
    BF16 = 17
    INT8 = 1
    DEBUG = 2
    GPU_FALLBACK = 3
    REFIT = 4
    DISABLE_TIMING_CACHE = 5
    EDITABLE_TIMING_CACHE = 27
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
    ERROR_ON_TIMING_CACHE_MISS = 16
    DISABLE_COMPILATION_CACHE = 18
    WEIGHTLESS = 19
    STRIP_PLAN = 19
    REFIT_IDENTICAL = 20
    WEIGHT_STREAMING = 21
    INT4 = 22
    REFIT_INDIVIDUAL = 23
    STRICT_NANS = 24
    MONITOR_MEMORY = 25
    FP4 = 26
    DISTRIBUTIVE_INDEPENDENCE = 28
    STRICT_TYPES = 40


class QuantizationFlag(TrtEnum):
    CALIBRATE_BEFORE_FUSION = 0


class MemoryPoolType(TrtEnum):
    WORKSPACE = 0
    DLA_MANAGED_SRAM = 1
    DLA_LOCAL_DRAM = 2
    DLA_GLOBAL_DRAM = 3
    TACTIC_DRAM = 4
    TACTIC_SHARED_MEMORY = 5


class ProfilingVerbosity(TrtEnum):
    LAYER_NAMES_ONLY = 0
    NONE = 1
    DETAILED = 2
    DEFAULT = 0
    VERBOSE = 2


class LayerInformationFormat(TrtEnum):
    ONELINE = 0
    JSON = 1


class CalibrationAlgoType(TrtEnum):
    LEGACY_CALIBRATION = 0
    ENTROPY_CALIBRATION = 1
    ENTROPY_CALIBRATION_2 = 2
    MINMAX_CALIBRATION = 3


class TensorIOMode(TrtEnum):
    NONE = 0
    INPUT = 1
    OUTPUT = 2


class TensorLocation(TrtEnum):
    DEVICE = 0
    HOST = 1


class OnnxParserFlag(TrtEnum):
    NATIVE_INSTANCENORM = 0
    ENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA = 1
    REPORT_CAPABILITY_DLA = 2
    ENABLE_PLUGIN_OVERRIDE = 3
    ADJUST_FOR_DLA = 4


class TensorFormat(TrtEnum):
    LINEAR = 0
    CHW2 = 1
    HWC8 = 2
    CHW4 = 3
    CHW16 = 4
    CHW32 = 5
    DHWC8 = 6
    CDHW32 = 7
    HWC = 8
    DLA_LINEAR = 9
    DLA_HWC4 = 10
    HWC16 = 11
    DHWC = 12


class DeviceType(TrtEnum):
    GPU = 0
    DLA = 1


class EngineCapability(TrtEnum):
    STANDARD = 0
    SAFETY = 1
    DLA_STANDALONE = 2
    DEFAULT = 0
    SAFE_GPU = 1
    SAFE_DLA = 2


class TacticSource(TrtEnum):
    CUBLAS = 0
    CUBLAS_LT = 1
    CUDNN = 2
    EDGE_MASK_CONVOLUTIONS = 3
    JIT_CONVOLUTIONS = 4


class PreviewFeature(TrtEnum):
    PROFILE_SHARING_0806 = 0
    ALIASED_PLUGIN_IO_10_03 = 1
    RUNTIME_ACTIVATION_RESIZE_10_10 = 2
    MULTIDEVICE_RUNTIME_10_16 = 3
    FASTER_DYNAMIC_SHAPES_0805 = 8
    DISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805 = 9


class HardwareCompatibilityLevel(TrtEnum):
    NONE = 0
    AMPERE_PLUS = 1
    SAME_COMPUTE_CAPABILITY = 2


class RuntimePlatform(TrtEnum):
    SAME_AS_BUILD = 0
    WINDOWS_AMD64 = 1


class TilingOptimizationLevel(TrtEnum):
    NONE = 0
    FAST = 1
    MODERATE = 2
    FULL = 3


class ExecutionContextAllocationStrategy(TrtEnum):
    STATIC = 0
    ON_PROFILE_CHANGE = 1
    USER_MANAGED = 2


class SerializationFlag(TrtEnum):
    EXCLUDE_WEIGHTS = 0
    EXCLUDE_LEAN_RUNTIME = 1
    INCLUDE_REFIT = 2


class TempfileControlFlag(TrtEnum):
    ALLOW_IN_MEMORY_FILES = 0
    ALLOW_TEMPORARY_FILES = 1


class WeightsRole(TrtEnum):
    KERNEL = 0
    BIAS = 1
    SHIFT = 2
    SCALE = 3
    CONSTANT = 4
    ANY = 5


class AllocatorFlag(TrtEnum):
    RESIZABLE = 0


class ErrorCodeTRT(TrtEnum):
    SUCCESS = 0
    UNSPECIFIED_ERROR = 1
    INTERNAL_ERROR = 2
    INVALID_ARGUMENT = 3
    INVALID_CONFIG = 4
    FAILED_ALLOCATION = 5
    FAILED_INITIALIZATION = 6
    FAILED_EXECUTION = 7
    FAILED_COMPUTATION = 8
    INVALID_STATE = 9
    UNSUPPORTED_STATE = 10


class ErrorCode(TrtEnum):
    SUCCESS = 0
    INTERNAL_ERROR = 1
    MEM_ALLOC_FAILED = 2
    MODEL_DESERIALIZE_FAILED = 3
    INVALID_VALUE = 4
    INVALID_GRAPH = 5
    INVALID_NODE = 6
    UNSUPPORTED_GRAPH = 7
    UNSUPPORTED_NODE = 8
    UNSUPPORTED_NODE_ATTR = 9
    UNSUPPORTED_NODE_INPUT = 10
    UNSUPPORTED_NODE_DATATYPE = 11
    UNSUPPORTED_NODE_DYNAMIC = 12
    UNSUPPORTED_NODE_SHAPE = 13
    REFIT_FAILED = 14


class PluginFieldType(TrtEnum):
    FLOAT16 = 0
    FLOAT32 = 1
    FLOAT64 = 2
    INT8 = 3
    INT16 = 4
    INT32 = 5
    CHAR = 6
    DIMS = 7
    UNKNOWN = 8
    BF16 = 9
    INT64 = 10
    FP8 = 11
    INT4 = 12
    FP4 = 13


class PluginCapabilityType(TrtEnum):
    CORE = 0
    BUILD = 1
    RUNTIME = 2


class TensorRTPhase(TrtEnum):
    BUILD = 0
    RUNTIME = 1


class PluginCreatorVersion(TrtEnum):
    V1 = 0
    V1_PYTHON = 64


class EngineStat(TrtEnum):
    TOTAL_WEIGHTS_SIZE = 0
    STRIPPED_WEIGHTS_SIZE = 1


class APILanguage(TrtEnum):
    CPP = 0
    PYTHON = 1


class QuickPluginCreationRequest(TrtEnum):
    UNKNOWN = 0
    PREFER_JIT = 1
    PREFER_AOT = 2
    STRICT_JIT = 3
    STRICT_AOT = 4


class PluginArgType(TrtEnum):
    INT = 0


class PluginArgDataType(TrtEnum):
    INT8 = 0
    INT16 = 1
    INT32 = 2


class SeekPosition(TrtEnum):
    SET = 0
    CUR = 1
    END = 2


def _renumber(kind: type[TrtEnum]) -> type[TrtEnum]:
    """Return an enumeration as TensorRT 11 has it: without what it removed, with its numbers."""
    removed = REMOVED_IN_11[kind.__name__]
    last, step = SHIFTED[kind.__name__]
    members = {n: int(m) - step * (int(m) > last) for n, m in kind.__members__.items() if n not in removed}
    renumbered: type[TrtEnum] = TrtEnum(kind.__name__, members, module=__name__)  # type: ignore
    renumbered.__doc__ = kind.__doc__
    return renumbered


IN_11: dict[type[TrtEnum], type[TrtEnum]] = {
    kind: _renumber(kind)
    for kind in (BuilderFlag, NetworkDefinitionCreationFlag, PreviewFeature, TacticSource)
}
"""The enumerations whose members TensorRT 11 changed, and what they are there."""


def member_of(kind: type[Member], value: object, dialect: str) -> Member:
    """Return the member of `kind` that `value` means: a member in any dialect, or a number of `dialect`."""
    if not isinstance(value, TrtEnum):
        value = (IN_11[kind] if dialect == "11.x" else kind)(int(value))  # type: ignore[call-overload]
    return kind[value.name]


def bits_of_dialect(kind: type[TrtEnum], bits: int, dialect: str) -> int:
    """Return bits by the numbers of `kind` as bits by those that `dialect` has."""
    if dialect != "11.x":
        return bits
    return sum(1 << int(m) for m in IN_11[kind] if bits >> int(kind[m.name]) & 1)


def bits_of_10(kind: type[TrtEnum], bits: int, dialect: str) -> int:
    """Return bits by the numbers of `dialect` as bits by those of `kind`."""
    if dialect != "11.x":
        return bits
    return sum(1 << int(kind[m.name]) for m in IN_11[kind] if bits >> int(m) & 1)
