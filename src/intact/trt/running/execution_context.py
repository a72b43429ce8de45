"""IExecutionContext: shapes and memory of one caller, and runs.

Addresses that TensorRT would take on a device are addresses of host memory here (``array.ctypes.data``);
wherever one is taken, a NumPy array or anything with DLPack will do as well. Streams are accepted and not
used: a call returns when the outputs are written.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine import Engine
from intact.errors import IntactError, QuantValueError
from intact.trt.base.enums import (
    ErrorCodeTRT,
    ProfilingVerbosity,
    TensorIOMode,
    TensorLocation,
)
from intact.trt.base.host_interfaces import IProfiler
from intact.trt.base.itensor import Sizes, is_address, pack
from intact.trt.base.removed_members import hide_removed
from intact.trt.running.caller_memory import CallerTensor
from intact.trt.running.debug_tensors import DebugTensors

ALIGNMENT = 256
"""Of the memory that output allocators are asked for, as TensorRT's."""


class InferShapesError(IntactError, RuntimeError):
    """The shapes of inputs contradict the network: TensorRT raises here, and does not only log."""


class IOutputAllocator:
    """Allocator interface for outputs whose sizes only a run determines."""

    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        """Return the address of `size` bytes; `memory` is what was used before, or 0."""
        raise NotImplementedError(f"{type(self).__name__} must define reallocate_output")

    def notify_shape(self, tensor_name: str, shape: Sizes) -> None:
        """Take the sizes that the output has."""


class IExecutionContext(DebugTensors):
    """Shapes and addresses for runs of an engine (an `ICudaEngine`, which makes it).

    Attributes:
        profiler: Gets the time of every layer of a run; None: nothing is measured.
    """

    debug_sync: bool = False
    enqueue_emits_profile: bool = True
    persistent_cache_limit: int = 0
    device_memory: int = 0
    nvtx_verbosity = ProfilingVerbosity.LAYER_NAMES_ONLY
    temporary_allocator: Any = None
    profiler: IProfiler | None = None

    def __init__(self, engine: Any) -> None:
        self._logger, self._choice = engine._logger, engine._choice
        self._engine = engine
        self._shapes: dict[str, Sizes] = {}
        self._addresses: dict[str, Any] = {}
        self._values: dict[str, NDArray] = {}
        self._allocators: dict[str, Any] = {}
        self._promised: dict[str, int] = {}
        self._listener = None
        self._debugged = set()
        self._profile = 0
        self._config: Any = None

    engine = property(lambda self: self._engine)
    name = property(lambda self: self._engine.name)

    # Shapes.

    def set_input_shape(self, name: str, shape: Sequence[int]) -> bool:
        """Fix the shape of an input; False, with an error in the log, where the engine does not take it."""
        engine = self._engine
        if engine.get_tensor_mode(name) != TensorIOMode.INPUT:
            return self._complain(f"setInputShape: '{name}' is no input")
        sizes, declared = tuple(int(n) for n in shape), engine.get_tensor_shape(name)
        fits = len(sizes) == len(declared) and all(d in (-1, n) for n, d in zip(sizes, declared, strict=True))
        limits = engine.get_tensor_profile_shape(name, self._profile)
        if fits and limits:
            fits = all(low <= n <= high for n, low, high in zip(sizes, limits[0], limits[2], strict=True))
        if not fits:
            bounds = f", profile {limits[0]} to {limits[2]}" if limits else ""
            return self._complain(f"setInputShape: '{name}' is {declared}{bounds}, got {sizes}")
        self._shapes[name] = sizes
        return True

    def set_binding_shape(self, index: int, shape: Sequence[int]) -> bool:
        """Fix the shape of an input by its number."""
        return self.set_input_shape(self._engine._tensor_of_binding(index), shape)

    def set_shape_input(self, index: int, values: Sequence[int]) -> bool:
        """Give the values of an input that holds sizes, by its number."""
        name = self._engine._tensor_of_binding(index)
        if not self._engine.is_shape_inference_io(name):
            return self._complain(f"setInputShapeBinding: '{name}' is no input that holds sizes")
        sizes = np.asarray(values, self._engine.dtype_inside(name))
        self._values[name] = sizes.reshape(self._engine.get_tensor_shape(name))
        return True

    def get_shape(self, index: int) -> list[int]:
        """Return the values set by `set_shape_input`."""
        return [int(n) for n in self._values[self._engine._tensor_of_binding(index)].reshape(-1)]

    def get_tensor_shape(self, name: str) -> Sizes:
        """Return the present sizes; -1 where an input's shape is missing, or where only a run decides it."""
        declared: Sizes = self._shapes.get(name, self._engine.get_tensor_shape(name))
        if -1 not in declared or self._missing():
            return declared
        depends = self._engine._record.dependence
        if name in depends.unknown:
            return declared
        if depends:
            return tuple(self._run_on_zeros()[name].shape)
        own = self._engine.engine
        assert isinstance(own, Engine)
        return tuple(own.prepare({n: self.get_tensor_shape(n) for n in own.plan.inputs}).shapes[name])

    def _run_on_zeros(self) -> dict[str, NDArray]:
        """Run on zeros, with the values that hold sizes as they are, and return the outputs."""
        engine, feeds = self._engine, {}
        for name in engine.engine.plan.inputs:
            values = self._size_values(name)
            dtype = engine._port(name).dtype
            feeds[name] = np.zeros(self.get_tensor_shape(name), dtype) if values is None else values
        outputs: dict[str, NDArray] = engine.engine.run(feeds)
        return outputs

    def _size_values(self, name: str) -> NDArray | None:
        """Return the present values of an input that holds sizes.

        None for others, and where they are missing.
        """
        if not self._engine.is_shape_inference_io(name):
            return None
        values = self._values.get(name)
        if values is None and self._addresses.get(name) is not None:
            values = self._tensor(name).read(self._addresses[name])
        return values

    def get_binding_shape(self, index: int) -> Sizes:
        """Return the present sizes of a binding."""
        return self.get_tensor_shape(self._engine._tensor_of_binding(index))

    def get_tensor_strides(self, name: str) -> Sizes:
        """Return the strides in elements: dense."""
        shape = self.get_tensor_shape(name)
        return tuple(int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(len(shape)))

    def get_strides(self, index: int) -> Sizes:
        """Return the strides of a binding in elements: dense."""
        return self.get_tensor_strides(self._engine._tensor_of_binding(index))

    def infer_shapes(self) -> list[str]:
        """Return the names of the inputs whose shapes, or whose values where they hold sizes, are missing.

        Raises:
            InferShapesError: Nothing is missing, and the shapes are not what an Assertion layer says.
        """
        missing, asserted = self._missing(), self._engine._record.of_shapes
        if not missing and asserted:
            outputs = self._run_on_zeros()
            for name, message in self._engine._record.assertions.items():
                if name in asserted and not outputs[name].all():
                    self._complain(f"inferShapes: assertion failed: {message}")
                    raise InferShapesError("shapes", f"{self._shapes}", message, "set shapes that fit")
        return missing

    def _missing(self) -> list[str]:
        engine = self._engine
        inputs = engine.engine.plan.inputs
        missing = [n for n in inputs if -1 in self._shapes.get(n, engine.get_tensor_shape(n))]
        return missing + [n for n in engine._record.dependence.hosts if self._size_values(n) is None]

    @property
    def all_shape_inputs_specified(self) -> bool:
        """Return whether all values that hold sizes are known."""
        return all(self._size_values(n) is not None for n in self._engine._record.dependence.hosts)

    @property
    def all_binding_shapes_specified(self) -> bool:
        """Return whether all shapes are known."""
        return not self._missing()

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int = 0) -> bool:
        """Choose the profile whose limits hold."""
        if not 0 <= profile_index < self._engine.num_optimization_profiles:
            return self._complain(f"setOptimizationProfileAsync: there is no profile {profile_index}")
        self._profile = int(profile_index)
        return True

    @property
    def active_optimization_profile(self) -> int:
        """The profile whose limits hold."""
        return self._profile

    @active_optimization_profile.setter
    def active_optimization_profile(self, index: int) -> None:
        self.set_optimization_profile_async(index)

    # Memory.

    def set_tensor_address(self, name: str, memory: Any) -> bool:
        """Set the memory of a tensor: an address, an array, or anything with DLPack."""
        if self._engine.get_tensor_mode(name) == TensorIOMode.NONE:
            return self._complain(f"setTensorAddress: there is no tensor '{name}'")
        self._addresses[name] = memory
        return True

    set_input_tensor_address = set_output_tensor_address = set_tensor_address

    def get_tensor_address(self, name: str) -> Any:
        """Return the memory set by `set_tensor_address`; 0 where none was."""
        return self._addresses.get(name, 0)

    get_output_tensor_address = get_tensor_address

    def set_output_allocator(self, name: str, output_allocator: IOutputAllocator) -> bool:
        """Set the allocator of an output, whose sizes a run may determine."""
        if self._engine.get_tensor_mode(name) != TensorIOMode.OUTPUT:
            return self._complain(f"setOutputAllocator: '{name}' is no output")
        self._allocators[name] = output_allocator
        return True

    def get_output_allocator(self, name: str) -> Any:
        """Return the allocator set by `set_output_allocator`."""
        return self._allocators.get(name)

    def get_max_output_size(self, name: str) -> int:
        """Return the most bytes of an output; where only a run decides, its bytes for zeros and ones."""
        engine = self._engine
        if name not in engine._record.dependence.unknown:
            return int(engine.caller_tensor(name, self.get_tensor_shape(name)).nbytes)
        ones = {}
        for port in engine.engine.plan.inputs:
            values = self._size_values(port)
            dtype = engine._port(port).dtype
            ones[port] = np.ones(self.get_tensor_shape(port), dtype) if values is None else values
        results = engine.engine.run(ones)[name], self._run_on_zeros()[name]
        sizes = [engine.caller_tensor(name, array.shape).nbytes for array in results]
        self._promised[name] = max(*sizes, ALIGNMENT)
        return self._promised[name]

    def set_device_memory(self, memory: int, size: int = 0) -> None:
        """Set memory, which is not used: the engine has memory of its own."""
        self._note("set_device_memory")

    def set_aux_streams(self, aux_streams: Sequence[int]) -> None:
        """Set streams, which are not used: there are none."""
        self._note("set_aux_streams")

    def set_input_consumed_event(self, event: int) -> bool:
        """Set an event, which is not used: a call returns when the inputs are read."""
        self._note("set_input_consumed_event")
        return True

    def get_input_consumed_event(self) -> int:
        """Return 0: there is no event."""
        return 0

    def update_device_memory_size_for_shapes(self) -> int:
        """Return 0: the engine has memory of its own."""
        return 0

    # Several devices.

    def set_communicator(self, communicator: Any) -> bool:
        """Return False, with an error in the log: there is one device, the CPU."""
        return self._complain("setCommunicator: there is one device, the CPU; run without a communicator")

    def get_runtime_config(self) -> Any:
        """Return the settings that the context was made with."""
        if self._config is None:
            self._config = self._engine.create_runtime_config()
        return self._config

    # Runs.

    def execute_async_v3(self, stream_handle: int = 0) -> bool:
        """Run on the addresses that were set."""
        names = self._engine._ports
        return self._execute([self._addresses.get(name) for name in names])

    def execute_v2(self, bindings: Sequence[Any]) -> bool:
        """Run on the given memory, one entry for each binding."""
        return self._execute(self._of_profile(bindings))

    def execute_async_v2(self, bindings: Sequence[Any], stream_handle: int = 0, *_: Any) -> bool:
        """Run as `execute_v2`; the stream is not used."""
        return self._execute(self._of_profile(bindings))

    def execute_async(
        self, batch_size: int = 1, bindings: Sequence[Any] = (), stream_handle: int = 0, *_: Any
    ) -> bool:
        """Run as `execute_v2`, sample by sample `batch_size` times where shapes leave the batch out."""
        return self._each(batch_size, self._of_profile(bindings))

    def execute(self, batch_size: int = 1, bindings: Sequence[Any] = ()) -> bool:
        """Run as `execute_v2`, sample by sample `batch_size` times where shapes leave the batch out."""
        return self._each(batch_size, self._of_profile(bindings))

    def report_to_profiler(self) -> bool:
        """Return True: every run reports at once."""
        return True

    def _of_profile(self, bindings: Sequence[Any]) -> list[Any]:
        """Return the bindings of the chosen profile, where those of all profiles are given."""
        count = len(self._engine._ports)
        if len(bindings) == count * self._engine.num_optimization_profiles:
            return list(bindings)[self._profile * count : (self._profile + 1) * count]
        return list(bindings)

    def _each(self, batch_size: int, bindings: list[Any]) -> bool:
        """Run once per sample where the engine's shapes leave the batch out; else run once."""
        most = self._engine._record.samples
        if not most or len(bindings) != len(self._engine._ports):
            return self._execute(bindings)
        if not 1 <= batch_size <= most:
            return self._complain(f"execute: batch size {batch_size}, want 1 to {most}: the build said so")
        ports = zip(self._engine._ports, bindings, strict=True)
        samples = [self._samples(name, memory, batch_size) for name, memory in ports]
        return all(self._execute(list(of_sample)) for of_sample in zip(*samples, strict=True))

    def _samples(self, name: str, memory: Any, count: int) -> list[Any]:
        """Return where each of `count` samples lies in the memory of a binding."""
        shape = self._engine.get_tensor_shape(name)
        if is_address(memory):
            step = self._engine.caller_tensor(name, shape).nbytes
            return [int(memory) + i * step for i in range(count)]
        array = memory if isinstance(memory, np.ndarray) else np.from_dlpack(memory)
        return list(array.reshape(count, *shape)) if count > 1 else [array]

    def _execute(self, bindings: list[Any]) -> bool:
        engine = self._engine.engine
        names, unknown = list(self._engine._ports), self._engine._record.dependence.unknown
        if len(bindings) != len(names):
            return self._complain(f"execute: {len(bindings)} bindings, want {len(names)}: {', '.join(names)}")
        memory_of = dict(zip(names, bindings, strict=True))
        aliases = self._engine._record.aliases
        memory_of.update(
            {out: memory_of[cache] for out, cache in aliases.items() if memory_of.get(out) is None}
        )
        try:
            values = {n: v for n in names if (v := self._size_values(n)) is not None}
            outputs_by_allocator = {*unknown, *self._allocators}
            needed = [n for n in names if memory_of[n] is None and n not in {*values, *self._allocators}]
            if needed:
                return self._complain(f"execute: memory is needed for {', '.join(needed)}")
            if missing := self._missing():
                return self._complain(f"execute: the shapes of {', '.join(missing)} are not set")
            inputs = {
                n: values[n] if n in values else self._tensor(n).read(memory_of[n])
                for n in engine.plan.inputs
            }
            inputs.update({n: inputs[n].copy() for n in aliases.values()})  # what is written is read no more
            fixed_outputs = [
                n for n in engine.plan.outputs if n in memory_of and n not in outputs_by_allocator
            ]
            results = self._run(inputs, {n: memory_of[n] for n in fixed_outputs})
            for name in (n for n in names if n in outputs_by_allocator):
                self._hand_out(name, memory_of[name], results[name])
            if not self._check_watched({**inputs, **results}):
                return False
            if self.profiler is not None and isinstance(engine, Engine):
                for timing in engine.profile(inputs, runs=1).timings:
                    self.profiler.report_layer_time(timing.name or timing.kind, timing.seconds * 1e3)
        except IntactError as error:
            return self._complain(f"execute: {error}")
        return True

    def _run(self, inputs: dict[str, NDArray], memory_of: dict[str, Any]) -> dict[str, NDArray]:
        """Run, write the outputs that have memory there, and return all of them as the plan has them."""
        tensors = {name: self._tensor(name) for name in memory_of}
        in_place = {n: a for n, t in tensors.items() if (a := t.in_place(memory_of[n])) is not None}
        results: dict[str, NDArray] = self._engine.engine.run(inputs, in_place)
        for name, tensor in tensors.items():
            if name not in in_place:
                tensor.write(memory_of[name], results[name])
        return results

    def _hand_out(self, name: str, memory: Any, array: NDArray) -> None:
        """Copy an output to its memory, where the run determined its sizes or an allocator gives the
        memory."""
        allocator, tensor = self._allocators.get(name), self._engine.caller_tensor(name, array.shape)
        if allocator is not None:
            address = int(memory) if isinstance(memory, (int, np.integer)) else 0
            memory = self._addresses[name] = self._ask_allocator(allocator, tensor, address)
        elif (room := self._room(name, memory)) < tensor.nbytes:
            raise QuantValueError(
                f"tensor '{name}'", f"{tensor.nbytes} bytes from this run",
                f"at most {room}, what memory was for",
                "set an IOutputAllocator, which is asked for memory when the size is known",
            )  # fmt: skip
        if isinstance(memory, np.ndarray) and not is_address(memory):
            memory = memory.reshape(-1).view(np.uint8)[: tensor.nbytes]
        tensor.write(memory, array)

    def _ask_allocator(self, allocator: Any, tensor: CallerTensor, address: int) -> int:
        """Return the address that an allocator gives for a tensor, whose sizes it is told.

        Raises:
            QuantValueError: The allocator raises, or gives no address; a traceback is in the log.
        """
        size, ask = max(tensor.nbytes, 1), getattr(allocator, "reallocate_output_async", None)
        try:
            if ask is None:
                address = allocator.reallocate_output(tensor.name, address, size, ALIGNMENT)
            else:
                address = ask(tensor.name, address, size, ALIGNMENT, 0)
            allocator.notify_shape(tensor.name, tuple(tensor.shape))
        except Exception as error:
            self._report("".join(traceback.format_exception(error)).rstrip(), ErrorCodeTRT.INVALID_STATE)
            raise QuantValueError(
                f"output allocator of '{tensor.name}'", f"{type(error).__name__}: {error}", "no exception",
                "correct the allocator; its traceback is in the log",
            ) from error  # fmt: skip
        if not is_address(address) or not int(address):
            raise QuantValueError(
                f"output allocator of '{tensor.name}'", f"{address!r} for {size} bytes", "an address",
                "return the address of memory of that size",
            )  # fmt: skip
        return int(address)

    def _room(self, name: str, memory: Any) -> int:
        """Return the bytes of the memory for an output; for a bare address, what `get_max_output_size`
        promises.
        """
        if not isinstance(memory, (int, np.integer)):
            return int(memory.nbytes)
        if name not in self._promised:
            self._promised[name] = self.get_max_output_size(name)
        return self._promised[name]

    def _check_watched(self, arrays: dict[str, NDArray]) -> bool:
        """Pass debug tensors to their listener; return whether every assertion holds."""
        record = self._engine._record
        for name in record.debugged:
            if self._listener is not None and name in self._debugged:
                tensor = self._engine.caller_tensor(name, arrays[name].shape)
                raw = pack(tensor.convert(arrays[name]), tensor.dtype)
                self._listener.process_debug_tensor(
                    raw.ctypes.data, TensorLocation.HOST, tensor.dtype, tensor.shape, name, 0
                )
        for name, message in record.assertions.items():
            if not arrays[name].all():
                return self._complain(f"execute: assertion failed: {message}")
        return True

    def _tensor(self, name: str) -> CallerTensor:
        """Return a tensor in the caller's memory, with its present sizes."""
        shape = self._shapes.get(name, self._engine.get_tensor_shape(name))
        if -1 in shape or self._engine.get_tensor_mode(name) == TensorIOMode.OUTPUT:
            shape = self.get_tensor_shape(name)
        tensor: CallerTensor = self._engine.caller_tensor(name, shape)
        return tensor

    def _complain(self, message: str) -> bool:
        self._report(f"IExecutionContext::{message}", ErrorCodeTRT.INVALID_STATE)
        engine_recorder = self._engine.error_recorder
        if engine_recorder is not None and engine_recorder is not self.error_recorder:
            engine_recorder.report_error(ErrorCodeTRT.INVALID_STATE, message)
        return False


hide_removed(IExecutionContext)
