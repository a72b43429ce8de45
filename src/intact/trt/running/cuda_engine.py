"""ICudaEngine: a plan under TensorRT's names; the memory is the host's."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from intact.engine import Engine, Plan
from intact.engine.files import plan_files as files
from intact.errors import QuantValueError
from intact.trt.base.dialects import DialectChoice
from intact.trt.base.enums import (
    DataType,
    DeviceType,
    EngineCapability,
    EngineStat,
    HardwareCompatibilityLevel,
    ProfilingVerbosity,
    TensorFormat,
    TensorIOMode,
    TensorLocation,
    dtype_of,
)
from intact.trt.base.host_interfaces import IHostMemory, ILogger
from intact.trt.base.itensor import Sizes
from intact.trt.base.removed_members import hide_removed
from intact.trt.base.trt_object import Reporting
from intact.trt.building.build_record import BuildRecord
from intact.trt.building.data_dependent_shapes import WholeEngine, engine_of
from intact.trt.running.caller_memory import CallerTensor
from intact.trt.running.engine_configs import EngineInspector, IRuntimeConfig, ISerializationConfig
from intact.trt.running.execution_context import IExecutionContext
from intact.trt.running.layer_report import engine_layers


def to_bytes(plan: Plan, packed: Any = None) -> IHostMemory:
    """Serialize a plan to the bytes of a plan file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "engine.intact"
        files.save(path, plan, packed)
        return IHostMemory(path.read_bytes())


class ICudaEngine(Reporting):
    """An engine; the name is TensorRT's, the memory is the host's."""

    def __init__(
        self, plan: Plan, packed: Any, logger: ILogger, threads: int | None = None,
        choice: DialectChoice | None = None,
    ) -> None:  # fmt: skip
        self._logger: ILogger = logger
        self._choice: DialectChoice = choice if choice is not None else DialectChoice().look()
        self._threads = threads
        self._adopt(plan, packed)

    def _adopt(self, plan: Plan, packed: Any = None) -> None:
        """Run `plan` from now on."""
        self._engine = engine_of(plan, self._threads, packed)
        self._record = BuildRecord.of(plan)

    @property
    def engine(self) -> Engine | WholeEngine:
        """INTact's own engine behind it."""
        return self._engine

    # Tensors by name.

    @property
    def _ports(self) -> dict[str, Any]:
        ports = (*self._engine.inputs, *self._engine.outputs)
        return {port.name: port for port in ports if port.name not in self._record.extra_outputs}

    name = property(lambda self: self._record.name)
    num_io_tensors = property(lambda self: len(self._ports))
    num_layers = property(lambda self: len(engine_layers(self._engine.plan)))
    num_optimization_profiles = property(lambda self: max(1, len(self._record.profiles)))
    has_implicit_batch_dimension = property(lambda self: self._record.samples > 0)
    max_batch_size = property(lambda self: max(1, self._record.samples))
    device_memory_size = property(lambda self: 0)
    device_memory_size_v2 = property(lambda self: 0)
    streamable_weights_size = property(lambda self: 0)
    minimum_weight_streaming_budget = property(lambda self: 0)
    weight_streaming_scratch_memory_size = property(lambda self: 0)
    num_aux_streams = property(lambda self: 0)
    num_devices = property(lambda self: 1)
    refittable = property(lambda self: bool(self._record.refit))
    device_type = property(lambda self: DeviceType.GPU)
    engine_capability = property(lambda self: EngineCapability.STANDARD)
    hardware_compatibility_level = property(lambda self: HardwareCompatibilityLevel.NONE)
    profiling_verbosity = property(lambda self: ProfilingVerbosity.DETAILED)
    tactic_sources = property(lambda self: 0)

    def get_tensor_name(self, index: int) -> str:
        """Name of tensor `index`: inputs first."""
        return list(self._ports)[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        """Return whether a tensor is input or output."""
        if name in self._engine.plan.inputs:
            return TensorIOMode.INPUT
        return TensorIOMode.OUTPUT if name in self._ports else TensorIOMode.NONE

    def get_tensor_shape(self, name: str) -> Sizes:
        """Return the sizes; -1 where a run fixes them."""
        shape = self._port(name).shape
        sizes = self._record.sizes.get(name, (-1,) * len(shape))
        return tuple(n if isinstance(n, int) else size for n, size in zip(shape, sizes, strict=True))

    def get_tensor_dtype(self, name: str) -> DataType:
        """Return the element type."""
        self._port(name)
        return self.dtype_outside(name)

    def dtype_outside(self, name: str) -> DataType:
        """Return the type that the caller knows a tensor by, be it an input, an output or a debug tensor."""
        return self._record.types.get(name, dtype_of(self.dtype_inside(name).name))

    def dtype_inside(self, name: str) -> np.dtype:
        """Return the type that the plan has for a tensor."""
        return np.dtype(self._engine.plan.tensors[name].stored_dtype)

    def caller_tensor(self, name: str, shape: Sizes) -> CallerTensor:
        """Return a tensor in a caller's memory, with the sizes of one run."""
        return CallerTensor(name, self.dtype_outside(name), tuple(shape), self.dtype_inside(name))

    def get_tensor_location(self, name: str) -> TensorLocation:
        """Return HOST for inputs whose values are sizes; all memory is the host's."""
        return TensorLocation.HOST if self.is_shape_inference_io(name) else TensorLocation.DEVICE

    def is_shape_inference_io(self, name: str) -> bool:
        """Return whether a tensor is an input whose values are sizes."""
        return name in self._record.dependence.hosts

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[Sizes]:
        """Return (min, opt, max) of an input in a profile: three times its shape where that is fixed.

        Three empty shapes for an output; an empty list where there is no such profile, or it leaves out the
        input.
        """
        if not 0 <= profile_index < self.num_optimization_profiles:
            return []
        if self.get_tensor_mode(name) == TensorIOMode.OUTPUT:
            return [()] * 3
        shape = self.get_tensor_shape(name)
        if -1 not in shape:
            return [shape] * 3
        profiles = self._record.profiles
        return profiles[profile_index].get_shape(name) if profiles else []

    def get_tensor_profile_values(self, *which: int | str) -> list[Sizes]:
        """Return (min, opt, max) of the values of an input that holds sizes, by its name and the profile's
        number."""
        index, name = sorted(which, key=lambda argument: isinstance(argument, str))
        profiles = self._record.profiles
        return profiles[int(index)].get_shape_input(str(name)) if int(index) < len(profiles) else []

    def get_tensor_format(self, name: str, profile_index: int = 0) -> TensorFormat:
        """Return the format: dense, in the order of the axes."""
        self._port(name)
        return TensorFormat.LINEAR

    def get_tensor_format_desc(self, name: str, profile_index: int = 0) -> str:
        """Describe the format in words."""
        kind = "FP32" if self.get_tensor_dtype(name) is DataType.FLOAT else self.get_tensor_dtype(name).name
        return f"Row major linear {kind} format (kLINEAR)"

    def get_tensor_bytes_per_component(self, name: str, profile_index: int = 0) -> int:
        """Return -1: tensors are not made of vectors."""
        self._port(name)
        return -1

    get_tensor_components_per_element = get_tensor_vectorized_dim = get_tensor_bytes_per_component

    def get_aliased_input_tensor(self, name: str) -> str | None:
        """Return the input whose memory output `name` is written to.

        None for outputs with memory of their own.
        """
        return self._record.aliases.get(name)

    def is_debug_tensor(self, name: str) -> bool:
        """Return whether a debug listener may see a tensor."""
        return name in self._record.debugged

    def get_device_memory_size_for_profile(self, profile_index: int) -> int:
        """Return 0: the engine has memory of its own."""
        return 0

    get_device_memory_size_for_profile_v2 = get_device_memory_size_for_profile

    def _port(self, name: str) -> Any:
        if name not in self._ports:
            raise QuantValueError(
                "engine",
                f"a tensor '{name}'",
                f"one of {', '.join(self._ports)}",
                "use an input's or output's name",
            )
        return self._ports[name]

    # Bindings by index, as before TensorRT 10: all tensors once for each profile.

    num_bindings = property(lambda self: len(self._ports) * self.num_optimization_profiles)

    def __len__(self) -> int:
        return int(self.num_bindings)

    def __iter__(self) -> Any:
        return (self.get_binding_name(i) for i in range(len(self)))

    def __getitem__(self, which: int | str) -> str | int:
        return self.get_binding_index(which) if isinstance(which, str) else self.get_binding_name(which)

    def get_binding_name(self, index: int) -> str:
        """Name of binding `index`; with " [profile n]" behind it for profiles other than the first.

        Args:
            index: From 0 to ``num_bindings - 1``.
        Raises:
            IndexError: There is no such binding.
        """
        if not 0 <= index < self.num_bindings:
            raise IndexError(f"binding {index}: there are {self.num_bindings}")
        profile, place = divmod(index, len(self._ports))
        return f"{list(self._ports)[place]}{f' [profile {profile}]' if profile else ''}"

    def get_binding_index(self, name: str) -> int:
        """Number of the binding called `name`; -1 where there is none."""
        names = list(self)
        return names.index(name) if name in names else -1

    def _tensor_of_binding(self, which: int | str) -> str:
        """Return the name of the tensor that a binding stands for."""
        name = which if isinstance(which, str) else self.get_binding_name(which)
        return name.partition(" [profile ")[0] if name not in self._ports else name

    def binding_is_input(self, which: int | str) -> bool:
        """Return whether a binding is an input."""
        return self.get_tensor_mode(self._tensor_of_binding(which)) == TensorIOMode.INPUT

    def get_binding_shape(self, which: int | str) -> Sizes:
        """Return the sizes of a binding; -1 where a run fixes them."""
        return self.get_tensor_shape(self._tensor_of_binding(which))

    def get_binding_dtype(self, which: int | str) -> DataType:
        """Return the element type of a binding."""
        return self.get_tensor_dtype(self._tensor_of_binding(which))

    def get_binding_format(self, which: int | str) -> TensorFormat:
        """Return the format: dense, in the order of the axes."""
        return self.get_tensor_format(self._tensor_of_binding(which))

    def get_binding_format_desc(self, which: int | str) -> str:
        """Describe the format in words."""
        return self.get_tensor_format_desc(self._tensor_of_binding(which))

    def get_location(self, which: int | str) -> TensorLocation:
        """Return where TensorRT would expect a binding."""
        return self.get_tensor_location(self._tensor_of_binding(which))

    def get_binding_bytes_per_component(self, which: int | str) -> int:
        """Return -1: tensors are not made of vectors."""
        return self.get_tensor_bytes_per_component(self._tensor_of_binding(which))

    get_binding_components_per_element = get_binding_vectorized_dim = get_binding_bytes_per_component

    def is_shape_binding(self, which: int | str) -> bool:
        """Return whether a binding is an input whose values are sizes."""
        return self.is_shape_inference_io(self._tensor_of_binding(which))

    def is_execution_binding(self, which: int | str) -> bool:
        """Return whether a binding holds data."""
        return not self.is_shape_binding(which)

    def get_profile_shape(self, profile_index: int, binding: int | str) -> list[Sizes]:
        """Return (min, opt, max) of an input in a profile."""
        return self.get_tensor_profile_shape(self._tensor_of_binding(binding), profile_index)

    def get_profile_shape_input(self, profile_index: int, binding: int | str) -> list[Sizes]:
        """Return (min, opt, max) of the values of an input that holds sizes."""
        return self.get_tensor_profile_values(self._tensor_of_binding(binding), profile_index)

    # What it is for.

    def create_execution_context(self, *settings: Any) -> IExecutionContext:
        """Create a context: shapes and addresses of one caller. Contexts may run at the same time."""
        context = IExecutionContext(self)
        context._config = next((s for s in settings if isinstance(s, IRuntimeConfig)), None)
        return context

    create_execution_context_without_device_memory = create_execution_context

    def create_engine_inspector(self) -> EngineInspector:
        """Return an inspector, which prints the result of the build for each layer."""
        return EngineInspector(self._engine.plan, self._record, self._choice)

    def create_serialization_config(self) -> ISerializationConfig:
        """Create flags for `serialize_with_config`."""
        return ISerializationConfig(self._logger)

    def create_runtime_config(self) -> IRuntimeConfig:
        """Create settings for `create_execution_context`."""
        return IRuntimeConfig(self._logger)

    def get_engine_stat(self, stat: EngineStat) -> int:
        """Return the bytes of all weights, or of those that STRIP_PLAN left out: none."""
        if EngineStat(stat) is EngineStat.STRIPPED_WEIGHTS_SIZE:
            return 0
        return sum(array.nbytes for array in self._engine.plan.constants.values())

    @property
    def weight_streaming_budget_v2(self) -> int:
        """Bytes of streamable weights that stay in memory: all. A negative budget is refused."""
        return int(self.streamable_weights_size)

    @weight_streaming_budget_v2.setter
    def weight_streaming_budget_v2(self, size: int) -> None:
        if size < 0:
            self._report(
                f"setWeightStreamingBudgetV2: got {size} bytes, want 0 or more. Fix: pass a size in bytes"
            )

    weight_streaming_budget = weight_streaming_budget_v2

    def get_weight_streaming_automatic_budget(self) -> int:
        """Return 0: weights are in host memory."""
        return 0

    def serialize(self) -> IHostMemory:
        """Serialize the engine to the bytes that `Runtime.deserialize_cuda_engine` reads."""
        return to_bytes(self._engine.plan, self._engine.packed_weights)

    def serialize_with_config(self, config: Any = None) -> IHostMemory:
        """Serialize as `serialize` does: there is one form."""
        return self.serialize()


hide_removed(ICudaEngine)
