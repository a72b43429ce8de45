"""Runtime, ICudaEngine and IExecutionContext: plans run under TensorRT's names, over host memory.

Addresses that TensorRT would take on a device are addresses of host memory here (``array.ctypes.data``);
wherever one is taken, a NumPy array or anything with DLPack will do as well. Streams are accepted and not
used: a call returns when the outputs are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine import Plan, files
from intact.engine.engine import Engine
from intact.errors import IntactError, QuantValueError
from intact.trt.calibrators import at_address
from intact.trt.enums import DataType, ProfilingVerbosity, TensorIOMode, TensorLocation, dtype_of
from intact.trt.inspector import EngineInspector
from intact.trt.logger import ILogger, LogSeverity
from intact.trt.profiler import IProfiler
from intact.trt.record import BuildRecord
from intact.trt.tensors import Dims


class IHostMemory(bytes):
    """A serialized engine; plain bytes, with TensorRT's ``nbytes``."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return len(self)


def to_bytes(plan: Plan, packed: Any = None) -> IHostMemory:
    """The bytes of a plan file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "engine.intact"
        files.save(path, plan, packed)
        return IHostMemory(path.read_bytes())


class Runtime:
    """Reads serialized engines.

    Attributes:
        max_threads: Threads of the engines that it makes; None: all that the process may use.
    """

    def __init__(self, logger: ILogger) -> None:
        self.logger = logger
        self.max_threads: int | None = None

    def deserialize_cuda_engine(self, serialized_engine: bytes | None) -> ICudaEngine | None:
        """The engine in these bytes; None, with an error in the log, where they are none."""
        if not serialized_engine:
            self.logger.log(LogSeverity.ERROR, "IRuntime::deserializeCudaEngine: there are no bytes")
            return None
        try:
            with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                path = Path(folder) / "engine.intact"
                path.write_bytes(bytes(serialized_engine))
                found = files.load(path)
            return ICudaEngine(found.plan, found.packed, self.logger, self.max_threads)
        except IntactError as error:
            self.logger.log(LogSeverity.ERROR, f"IRuntime::deserializeCudaEngine: {error}")
            return None


class ICudaEngine:
    """An engine; the name is TensorRT's, the memory is the host's."""

    def __init__(self, plan: Plan, packed: Any, logger: ILogger, threads: int | None = None) -> None:
        self._engine, self._logger = Engine(plan, threads=threads, packed=dict(packed or {})), logger
        self._record = BuildRecord.of(plan)
        self.name = self._record.name

    @property
    def engine(self) -> Engine:
        """INTact's own engine behind it."""
        return self._engine

    # Tensors by name.

    @property
    def _ports(self) -> dict[str, Any]:
        return {port.name: port for port in (*self._engine.inputs, *self._engine.outputs)}

    num_io_tensors = property(lambda self: len(self._ports))
    num_layers = property(lambda self: len(self._engine.plan.layers))
    num_optimization_profiles = property(lambda self: max(1, len(self._record.profiles)))
    has_implicit_batch_dimension = property(lambda self: False)
    max_batch_size = property(lambda self: 1)
    device_memory_size = property(lambda self: 0)
    device_memory_size_v2 = property(lambda self: 0)
    profiling_verbosity = property(lambda self: ProfilingVerbosity.DETAILED)

    def get_tensor_name(self, index: int) -> str:
        """Name of tensor `index`: inputs first."""
        return list(self._ports)[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        """Whether a tensor is input or output."""
        if name in self._engine.plan.inputs:
            return TensorIOMode.INPUT
        return TensorIOMode.OUTPUT if name in self._ports else TensorIOMode.NONE

    def get_tensor_shape(self, name: str) -> Dims:
        """Sizes; -1 where a run fixes them."""
        return tuple(n if isinstance(n, int) else -1 for n in self._port(name).shape)

    def get_tensor_dtype(self, name: str) -> DataType:
        """Element type."""
        return dtype_of(self._port(name).dtype)

    def get_tensor_location(self, name: str) -> TensorLocation:
        """Host memory, always."""
        return TensorLocation.HOST

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[Dims]:
        """(min, opt, max) of an input in a profile; empty where there is none."""
        profiles = self._record.profiles
        return profiles[profile_index].get_shape(name) if profile_index < len(profiles) else []

    def _port(self, name: str) -> Any:
        if name not in self._ports:
            raise QuantValueError(
                "engine",
                f"a tensor '{name}'",
                f"one of {', '.join(self._ports)}",
                "use an input's or output's name",
            )
        return self._ports[name]

    # Bindings by index, as before TensorRT 10.

    num_bindings = property(lambda self: len(self._ports))

    def __len__(self) -> int:
        return len(self._ports)

    def __iter__(self) -> Any:
        return iter(self._ports)

    def __getitem__(self, which: int | str) -> str | int:
        return self.get_binding_index(which) if isinstance(which, str) else self.get_tensor_name(which)

    def get_binding_name(self, index: int) -> str:
        """Name of binding `index`."""
        return self.get_tensor_name(index)

    def get_binding_index(self, name: str) -> int:
        """Number of the binding called `name`; -1 where there is none."""
        names = list(self._ports)
        return names.index(name) if name in names else -1

    def binding_is_input(self, which: int | str) -> bool:
        """Whether a binding is an input."""
        name = which if isinstance(which, str) else self.get_tensor_name(which)
        return self.get_tensor_mode(name) == TensorIOMode.INPUT

    def get_binding_shape(self, which: int | str) -> Dims:
        """Sizes of a binding; -1 where a run fixes them."""
        return self.get_tensor_shape(which if isinstance(which, str) else self.get_tensor_name(which))

    def get_binding_dtype(self, which: int | str) -> DataType:
        """Element type of a binding."""
        return self.get_tensor_dtype(which if isinstance(which, str) else self.get_tensor_name(which))

    def get_profile_shape(self, profile_index: int, binding: int | str) -> list[Dims]:
        """(min, opt, max) of an input in a profile."""
        name = binding if isinstance(binding, str) else self.get_tensor_name(binding)
        return self.get_tensor_profile_shape(name, profile_index)

    # What it is for.

    def create_execution_context(self, *_: Any) -> IExecutionContext:
        """A context: shapes and addresses of one caller. Contexts may run at the same time."""
        return IExecutionContext(self)

    create_execution_context_without_device_memory = create_execution_context

    def create_engine_inspector(self) -> EngineInspector:
        """What each layer became."""
        return EngineInspector(self._engine.plan, self._record)

    def serialize(self) -> IHostMemory:
        """The bytes that `Runtime.deserialize_cuda_engine` reads."""
        return to_bytes(self._engine.plan, self._engine.packed)


class IExecutionContext:
    """Shapes and addresses for runs of an engine.

    Attributes:
        profiler: Gets the time of every layer of a run; None: nothing is measured.
        debug_sync: Kept.
    """

    def __init__(self, engine: ICudaEngine) -> None:
        self.engine, self.debug_sync = engine, False
        self.profiler: IProfiler | None = None
        self._shapes: dict[str, Dims] = {}
        self._addresses: dict[str, Any] = {}
        self.active_optimization_profile = 0

    # Shapes.

    def set_input_shape(self, name: str, shape: Sequence[int]) -> bool:
        """Fix the shape of an input; False, with an error in the log, where the engine does not take it."""
        if self.engine.get_tensor_mode(name) != TensorIOMode.INPUT:
            return self._complain(f"setInputShape: '{name}' is no input")
        asked, declared = tuple(int(n) for n in shape), self.engine.get_tensor_shape(name)
        fits = len(asked) == len(declared) and all(d in (-1, n) for n, d in zip(asked, declared, strict=True))
        limits = self.engine.get_tensor_profile_shape(name, self.active_optimization_profile)
        if fits and limits:
            fits = all(low <= n <= high for n, low, high in zip(asked, limits[0], limits[2], strict=True))
        if not fits:
            bounds = f", profile {limits[0]} to {limits[2]}" if limits else ""
            return self._complain(f"setInputShape: '{name}' is {declared}{bounds}, got {asked}")
        self._shapes[name] = asked
        return True

    def set_binding_shape(self, index: int, shape: Sequence[int]) -> bool:
        """Fix the shape of an input by its number."""
        return self.set_input_shape(self.engine.get_tensor_name(index), shape)

    def get_tensor_shape(self, name: str) -> Dims:
        """Sizes as of now; -1 where an input's shape is missing."""
        declared = self._shapes.get(name, self.engine.get_tensor_shape(name))
        if -1 not in declared or not self.all_shape_inputs_specified:
            return declared
        return tuple(self._bound().shapes[name])

    def get_binding_shape(self, index: int) -> Dims:
        """Sizes of a binding as of now."""
        return self.get_tensor_shape(self.engine.get_tensor_name(index))

    def get_tensor_strides(self, name: str) -> Dims:
        """Strides in elements: dense."""
        shape = self.get_tensor_shape(name)
        return tuple(int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(len(shape)))

    def infer_shapes(self) -> list[str]:
        """Names of the inputs whose shapes are missing."""
        inputs = self.engine.engine.plan.inputs
        return [n for n in inputs if -1 in self._shapes.get(n, self.engine.get_tensor_shape(n))]

    @property
    def all_shape_inputs_specified(self) -> bool:
        """Whether all shapes are known."""
        return not self.infer_shapes()

    all_binding_shapes_specified = all_shape_inputs_specified

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int = 0) -> bool:
        """Choose the profile whose limits hold."""
        self.active_optimization_profile = int(profile_index)
        return 0 <= profile_index < int(self.engine.num_optimization_profiles)

    # Runs.

    def set_tensor_address(self, name: str, memory: Any) -> bool:
        """Where a tensor lies: an address, an array, or anything with DLPack."""
        if self.engine.get_tensor_mode(name) == TensorIOMode.NONE:
            return self._complain(f"setTensorAddress: there is no tensor '{name}'")
        self._addresses[name] = memory
        return True

    def get_tensor_address(self, name: str) -> Any:
        """What `set_tensor_address` was given; 0 where nothing was."""
        return self._addresses.get(name, 0)

    def execute_async_v3(self, stream_handle: int = 0) -> bool:
        """Run on the addresses that were set."""
        names = self.engine._ports
        return self._execute([self._addresses.get(name) for name in names])

    def execute_v2(self, bindings: Sequence[Any]) -> bool:
        """Run on the given memory, one entry for each binding."""
        return self._execute(list(bindings))

    def execute_async_v2(self, bindings: Sequence[Any], stream_handle: int = 0, *_: Any) -> bool:
        """`execute_v2`; the stream is not used."""
        return self._execute(list(bindings))

    def execute_async(
        self, batch_size: int = 1, bindings: Sequence[Any] = (), stream_handle: int = 0
    ) -> bool:
        """`execute_v2`, for scripts of implicit batches: the batch is part of the shapes here."""
        return self._execute(list(bindings))

    def execute(self, batch_size: int = 1, bindings: Sequence[Any] = ()) -> bool:
        """`execute_v2`, for scripts of implicit batches: the batch is part of the shapes here."""
        return self._execute(list(bindings))

    def report_to_profiler(self) -> bool:
        """True: every run reports at once."""
        return True

    def _execute(self, bindings: list[Any]) -> bool:
        engine = self.engine.engine
        names = list(self.engine._ports)
        try:
            if len(bindings) != len(names) or any(b is None for b in bindings):
                return self._complain(f"execute: memory is needed for {', '.join(names)}")
            if missing := self.infer_shapes():
                return self._complain(f"execute: the shapes of {', '.join(missing)} are not set")
            arrays = {n: self._memory(n, b) for n, b in zip(names, bindings, strict=True)}
            inputs = {n: arrays[n] for n in engine.plan.inputs}
            outputs = {n: arrays[n] for n in engine.plan.outputs}
            engine.run(inputs, outputs)
            if self.profiler is not None:
                for timing in engine.profile(inputs, runs=1).timings:
                    self.profiler.report_layer_time(timing.name or timing.kind, timing.seconds * 1e3)
        except IntactError as error:
            return self._complain(f"execute: {error}")
        return True

    def _memory(self, name: str, memory: Any) -> NDArray:
        shape, dtype = self.get_tensor_shape(name), self.engine.get_tensor_dtype(name).numpy
        if isinstance(memory, (int, np.integer)):
            return at_address(int(memory), shape, dtype)
        array = memory if isinstance(memory, np.ndarray) else np.from_dlpack(memory)
        if array.size != int(np.prod(shape, dtype=np.int64)) or not array.flags.c_contiguous:
            raise QuantValueError(
                f"tensor '{name}'",
                f"an array of shape {array.shape}",
                f"a dense one of {shape}",
                "reshape it",
            )
        return array.reshape(shape)

    def _bound(self) -> Any:
        shapes = {
            n: self._shapes.get(n, self.engine.get_tensor_shape(n)) for n in self.engine.engine.plan.inputs
        }
        return self.engine.engine.prepare(shapes)

    def _complain(self, message: str) -> bool:
        self.engine._logger.log(LogSeverity.ERROR, f"IExecutionContext::{message}")
        return False
