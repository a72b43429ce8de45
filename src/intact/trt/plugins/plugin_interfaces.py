"""Interfaces of TensorRT's plugins in Python, which a script subclasses, and what they are given."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.trt.base.dialects import VERSIONS
from intact.trt.base.enums import (
    APILanguage,
    DataType,
    PluginArgDataType,
    PluginArgType,
    PluginCapabilityType,
    PluginFieldType,
    QuickPluginCreationRequest,
    TensorFormat,
    TensorRTPhase,
)
from intact.trt.base.itensor import Dims
from intact.trt.base.operation_enums import DimensionOperation

FORMAT_COMBINATIONS = 100
"""The most combinations of formats that TensorRT asks a plugin for."""


class InterfaceInfo:
    """Kind and version of an interface."""

    kind: str = ""
    major: int = 1
    minor: int = 0


class IVersionedInterface:
    """Base of interfaces that a script or a library implements."""

    api_language = property(lambda self: APILanguage.PYTHON)

    @property
    def interface_info(self) -> InterfaceInfo:
        """Kind and version of the interface."""
        info = InterfaceInfo()
        info.kind = type(self).__name__
        return info


class FallbackString(str):
    """A text that is taken where TensorRT keeps the memory of one."""


class PluginField:
    """One parameter of a plugin: a name, an array (or bytes), a type."""

    name: str = ""
    type: PluginFieldType = PluginFieldType.UNKNOWN
    data: NDArray = np.empty(0, np.int8)
    size: int = 0

    def __init__(
        self, name: str = "", data: Any = None, type: PluginFieldType = PluginFieldType.UNKNOWN
    ) -> None:
        self.name, self.type = name, PluginFieldType(type)
        text = data.encode() if isinstance(data, str) else data
        raw = isinstance(text, (bytes, bytearray))
        self.data = np.frombuffer(text, np.int8) if raw else np.asarray([] if text is None else text)
        self.size = int(self.data.size)

    def __repr__(self) -> str:
        return f"PluginField({self.name!r}, {self.data!r}, {self.type})"


class PluginFieldCollection(list[Any]):
    """The parameters of a plugin, a list of `PluginField`."""


class PluginTensorDesc:
    """Sizes, type and format of a tensor of a plugin."""

    dims: Dims = Dims()
    type: DataType = DataType.FLOAT
    format: TensorFormat = TensorFormat.LINEAR
    scale: float = 1.0

    def __init__(self, dims: Any = (), type: DataType = DataType.FLOAT) -> None:
        self.dims, self.type = Dims(dims), type


class DynamicPluginTensorDesc:
    """The same with the least, usual and greatest sizes."""

    desc: PluginTensorDesc = PluginTensorDesc()
    min: Dims = Dims()
    opt: Dims = Dims()
    max: Dims = Dims()

    def __init__(self, desc: PluginTensorDesc | None = None) -> None:
        self.desc = desc if desc is not None else PluginTensorDesc()
        self.min = self.opt = self.max = self.desc.dims


class IDimensionExpr:
    """A size that a plugin computes with; None inside: it is not known yet."""

    def __init__(self, value: int | None, size_tensor: bool = False) -> None:
        self._value, self._size_tensor = value, size_tensor

    def is_constant(self) -> bool:
        """Return whether the size is known."""
        return self._value is not None

    def get_constant_value(self) -> int:
        """Return its value.

        Raises:
            QuantValueError: The size is not known.
        """
        if self._value is None:
            raise QuantValueError("a size", "one that is not known", "is_constant() first", "ask before")
        return self._value

    def is_size_tensor(self) -> bool:
        """Return whether an output holds the size."""
        return self._size_tensor


class IExprBuilder:
    """Makes sizes from sizes."""

    def constant(self, value: int) -> IDimensionExpr:
        """Return a size that is a number."""
        return IDimensionExpr(int(value))

    def operation(self, op: DimensionOperation, first: Any, second: Any) -> IDimensionExpr:
        """Return a size computed from two sizes."""
        a, b = first._value, second._value
        return IDimensionExpr(None if a is None or b is None else int(_OPERATIONS[op](a, b)))

    def declare_size_tensor(self, output_index: int, opt: Any, upper: Any) -> IDimensionExpr:
        """Return a size that output `output_index` holds."""
        return IDimensionExpr(upper._value, size_tensor=True)


_OPERATIONS: dict[DimensionOperation, Any] = {
    DimensionOperation.SUM: lambda a, b: a + b, DimensionOperation.PROD: lambda a, b: a * b,
    DimensionOperation.MAX: max, DimensionOperation.MIN: min, DimensionOperation.SUB: lambda a, b: a - b,
    DimensionOperation.EQUAL: lambda a, b: a == b, DimensionOperation.LESS: lambda a, b: a < b,
    DimensionOperation.FLOOR_DIV: lambda a, b: a // b, DimensionOperation.CEIL_DIV: lambda a, b: -(-a // b),
}  # fmt: skip


class IPluginV2:
    """Base of TensorRT 8's plugins, by way of `IPluginV2DynamicExt`."""

    num_outputs: int = 1
    plugin_type: str = ""
    plugin_version: str = "1"
    plugin_namespace: str = ""
    tensorrt_version = int("".join(f"{int(n):02}" for n in VERSIONS["10.x"].split(".")))
    serialization_size = property(lambda self: len(self.serialize()))

    def __init__(self, *_: Any) -> None: ...
    def initialize(self) -> None: ...
    def terminate(self) -> None: ...
    def destroy(self) -> None: ...
    def configure_plugin(self, inp: Any, out: Any) -> None: ...
    def get_workspace_size(self, *_: Any) -> int:
        """Return the bytes of scratch memory."""
        return 0

    def serialize(self) -> bytes | str:
        """Serialize its parameters, for ``deserialize_plugin`` of its creator."""
        return b""


class IPluginV2Ext(IPluginV2):
    """A plugin with several types of outputs."""

    def attach_to_context(self, cudnn: Any, cublas: Any, allocator: Any) -> None: ...
    def detach_from_context(self) -> None: ...


class IPluginV2DynamicExtBase(IPluginV2):
    """Base of plugins for sizes that a run fixes."""


class IPluginV2DynamicExt(IPluginV2DynamicExtBase, IPluginV2Ext):
    """A plugin for sizes that a run fixes."""

    FORMAT_COMBINATION_LIMIT = FORMAT_COMBINATIONS

    def get_serialization_size(self) -> int:
        """Return the bytes of `serialize`."""
        return len(self.serialize())


class IPluginCapability(IVersionedInterface): ...


class IPluginV3(IVersionedInterface):
    """Base of TensorRT 10's plugins, with the three parts below."""

    def __init__(self, *_: Any) -> None: ...
    def get_capability_interface(self, type: PluginCapabilityType) -> Any:
        """Return the part for a capability."""
        return self

    def clone(self) -> Any:
        """Copy the plugin."""
        return self

    def destroy(self) -> None: ...


class IPluginV3OneCore(IPluginCapability):
    """Name and version of a plugin."""

    plugin_name: str = ""
    plugin_version: str = "1"
    plugin_namespace: str = ""

    def __init__(self, *_: Any) -> None: ...


class IPluginV3OneBuild(IPluginCapability):
    """Types and sizes of a plugin's outputs."""

    num_outputs: int = 1
    DEFAULT_FORMAT_COMBINATION_LIMIT = FORMAT_COMBINATIONS
    format_combination_limit: int = FORMAT_COMBINATIONS
    metadata_string: str = ""
    timing_cache_id: str = ""

    def __init__(self, *_: Any) -> None: ...
    def configure_plugin(self, inp: Any, out: Any) -> None: ...
    def get_workspace_size(self, *_: Any) -> int:
        """Return the bytes of scratch memory."""
        return 0

    def get_valid_tactics(self) -> list[int]:
        """Return no tactics of its own."""
        return []


class IPluginV3OneBuildV2(IPluginV3OneBuild):
    """The same with outputs that lie where inputs do."""

    def get_aliased_input(self, output_index: int) -> int:
        """Return the input whose memory an output is written to; -1: it has its own."""
        return -1


class IPluginV3OneRuntime(IPluginCapability):
    """Runs of a plugin."""

    def __init__(self, *_: Any) -> None: ...
    def on_shape_change(self, inp: Any, out: Any) -> None: ...
    def set_tactic(self, tactic: int) -> None: ...
    def attach_to_context(self, context: Any) -> Any:
        """Return the plugin for one context."""
        return self

    def get_fields_to_serialize(self) -> PluginFieldCollection:
        """Return its parameters, for ``create_plugin`` of its creator."""
        return PluginFieldCollection()


class IPluginV3QuickCore(IPluginV3OneCore):
    """Name of a plugin that a decorator of ``tensorrt.plugin`` made."""


class IPluginV3QuickBuild(IPluginCapability):
    """The same at a build."""


class IPluginV3QuickAOTBuild(IPluginV3QuickBuild):
    """The same with a kernel that was compiled before, which is code for a GPU."""


class IPluginV3QuickRuntime(IPluginCapability):
    """The same at a run."""


class IPluginResource(IVersionedInterface):
    """Holds what plugins share under a key of the registry."""

    def release(self) -> None: ...
    def clone(self) -> Any:
        """Return what is shared."""
        return self


class IPluginResourceContext:
    """Context that a plugin is attached to; it has neither."""

    error_recorder = property(lambda self: None)
    gpu_allocator = property(lambda self: None)


class KernelLaunchParams:
    """Sizes with which a GPU starts a kernel; kept."""

    grid_x = grid_y = grid_z = block_x = block_y = block_z = 1
    shared_mem = 0


class ISymExpr:
    """An argument of a kernel that sizes decide; kept."""

    type: PluginArgType = PluginArgType.INT
    dtype: PluginArgDataType = PluginArgDataType.INT32
    expr: Any = None


class ISymExprs(list[Any]):
    """Arguments of a kernel; kept."""

    @property
    def nbSymExprs(self) -> int:
        """Number of arguments."""
        return len(self)

    @nbSymExprs.setter
    def nbSymExprs(self, count: int) -> None:
        self[:] = [*self, *[None] * count][:count]


class IPluginCreatorInterface(IVersionedInterface): ...


class IPluginCreator(IPluginCreatorInterface):
    """Makes plugins of TensorRT 8: ``create_plugin(name, fields)``, ``deserialize_plugin(name, data)``."""

    name: str = ""
    plugin_version: str = "1"
    plugin_namespace: str = ""
    field_names: Any = ()

    def __init__(self, *_: Any) -> None: ...

    def create_plugin(
        self, name: str, field_collection: Any, phase: TensorRTPhase = TensorRTPhase.BUILD
    ) -> Any:
        """Create a plugin with these fields."""
        raise NotImplementedError(f"{type(self).__name__} must define create_plugin")

    def deserialize_plugin(self, name: str, data: bytes) -> Any:
        """Recreate a plugin from the bytes of its ``serialize``."""
        raise NotImplementedError(f"{type(self).__name__} must define deserialize_plugin")


class IPluginCreatorV3One(IPluginCreator):
    """Makes plugins of TensorRT 10: ``create_plugin(name, fields, phase)``."""


class IPluginCreatorV3Quick(IPluginCreatorV3One):
    """Makes plugins of ``tensorrt.plugin``: ``create_plugin(name, namespace, fields, phase, kind)``."""

    REQUEST = QuickPluginCreationRequest.UNKNOWN


def _open_method(name: str) -> Any:
    def method(self: Any, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"{type(self).__name__} must define {name}")

    method.__name__, method.__doc__ = name, "A plugin defines this."
    return method


LEFT_OPEN: dict[type, str] = {
    IPluginV2: "clone configure_with_format execute_async get_output_shape supports_format",
    IPluginV2Ext: "clone get_output_data_type",
    IPluginV2DynamicExt:
        "clone enqueue get_output_datatype get_output_dimensions supports_format_combination",
    IPluginV3OneBuild: "get_output_data_types get_output_shapes supports_format_combination",
    IPluginV3OneRuntime: "enqueue",
}  # fmt: skip
"""Methods that a plugin of such a class defines."""

for _kind, _names in LEFT_OPEN.items():
    for _name in _names.split():
        setattr(_kind, _name, _open_method(_name))
