"""Builder: a network and a configuration in, a serialized engine out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from intact.engine import Plan
from intact.engine.lower import lower
from intact.errors import IntactError
from intact.graph import STORED, widen_ports
from intact.trt.base.dialects import DialectChoice
from intact.trt.base.enums import BuilderFlag, DataType, ErrorCodeTRT, foreign_type, is_known_type
from intact.trt.base.host_interfaces import IHostMemory, ILogger, IStreamWriter, LogSeverity, phases
from intact.trt.base.itensor import ITensor
from intact.trt.base.removed_members import hide_removed
from intact.trt.base.trt_object import Reporting
from intact.trt.building.build_record import BuildRecord
from intact.trt.building.calibrators import IInt8Calibrator
from intact.trt.building.config import IBuilderConfig, IOptimizationProfile
from intact.trt.building.data_dependent_shapes import dependence_of, only_shapes, whole_plan
from intact.trt.building.implicit_quantization import implicit_plan, nodes_on_floats
from intact.trt.layers import (
    IAssertionLayer,
    IDequantizeLayer,
    IKVCacheUpdateLayer,
    ILayer,
    IOnnxLayer,
    IQuantizeLayer,
)
from intact.trt.network import INetworkDefinition
from intact.trt.plugins.plugin_registry import IPluginRegistry, get_plugin_registry, plugins_of
from intact.trt.running.cuda_engine import ICudaEngine, to_bytes
from intact.trt.running.refit import weights_of

IGNORED = (
    "Calibrator won't be used in explicit precision mode. Use quantization aware training to generate "
    "network with Quantize/Dequantize nodes."
)
REFITTABLE = (
    BuilderFlag.REFIT, BuilderFlag.REFIT_IDENTICAL, BuilderFlag.REFIT_INDIVIDUAL, BuilderFlag.STRIP_PLAN
)  # fmt: skip


class Builder(Reporting):
    """Makes networks, configurations and engines.

    Attributes:
        max_batch_size: The most samples of one call, where shapes leave the batch out (TensorRT 8).
        max_threads: Kept; threads are the runtime's.
        max_workspace_size, fp16_mode, int8_mode, int8_calibrator: TensorRT 7's names for what is the
            configuration's now; `build_cuda_engine` reads them.
    """

    max_batch_size: int = 1
    max_threads: int = 1
    max_workspace_size: int = 1 << 30
    fp16_mode: bool = False
    int8_mode: bool = False
    strict_type_constraints: bool = False
    int8_calibrator: IInt8Calibrator | None = None
    gpu_allocator: Any = None

    def __init__(self, logger: ILogger) -> None:
        self._logger: ILogger = logger
        self._choice: DialectChoice = DialectChoice().look()

    logger = property(lambda self: self._logger)
    platform_has_fast_int8 = property(lambda self: True)
    platform_has_fast_fp16 = property(lambda self: False)
    platform_has_tf32 = property(lambda self: False)
    num_DLA_cores = property(lambda self: 0)
    max_DLA_batch_size = property(lambda self: 0)

    def get_plugin_registry(self) -> IPluginRegistry:
        """Return the registry of plugins."""
        return get_plugin_registry()

    def reset(self) -> None:
        """Do nothing: a builder keeps nothing of a build."""

    def build_cuda_engine(self, network: INetworkDefinition) -> ICudaEngine | None:
        """Build the engine, as scripts of TensorRT 6 and 7 ask for it."""
        config = self.create_builder_config()
        if self.int8_mode:
            config.set_flag(BuilderFlag.INT8)
        config.int8_calibrator = self.int8_calibrator
        return self.build_engine(network, config)

    def build_engine_with_config(
        self, network: INetworkDefinition, config: IBuilderConfig
    ) -> ICudaEngine | None:
        """Build the engine itself."""
        return self.build_engine(network, config)

    def create_network(self, flags: int = 0) -> INetworkDefinition:
        """Create an empty network; `flags` are bits of `NetworkDefinitionCreationFlag`."""
        self._choice = self._choice.look()
        network = INetworkDefinition(self._logger, flags, self._choice)
        network._builder = self
        return network

    def create_builder_config(self) -> IBuilderConfig:
        """Create a configuration."""
        self._choice = self._choice.look()
        return IBuilderConfig(self._logger, self._choice)

    def create_optimization_profile(self) -> IOptimizationProfile:
        """Create a profile for dynamic shapes."""
        return IOptimizationProfile()

    def is_network_supported(self, network: INetworkDefinition, config: IBuilderConfig) -> bool:
        """Return whether the network can be built; problems are logged."""
        return self._plan(network, config) is not None

    def build_serialized_network(
        self, network: INetworkDefinition, config: IBuilderConfig
    ) -> IHostMemory | None:
        """Build the bytes of an engine, for `Runtime.deserialize_cuda_engine` or a file.

        Returns:
            None, with every error in the log, where the network cannot be built as asked.
        """
        plan = self._plan(network, config)
        return None if plan is None else to_bytes(plan)

    def build_serialized_network_to_stream(
        self, network: INetworkDefinition, config: IBuilderConfig, writer: IStreamWriter
    ) -> bool:
        """Write the bytes of the engine to ``writer``; return False, with errors in the log, where there are
        none.
        """
        plan = self._plan(network, config)
        if plan is None:
            return False
        data = memoryview(bytes(to_bytes(plan)))
        while len(data):
            count = writer.write(data)
            if not isinstance(count, int) or count <= 0:
                self._report(f"IStreamWriter.write took {count!r} of {len(data)} bytes, want how many")
                return False
            data = data[count:]
        return True

    def build_engine(self, network: INetworkDefinition, config: IBuilderConfig) -> ICudaEngine | None:
        """Build the engine itself, as scripts of TensorRT 7 and 8 do."""
        plan = self._plan(network, config)
        if plan is None:
            return None
        return ICudaEngine(plan, None, self._logger, choice=self._choice)

    def _plan(self, network: INetworkDefinition, config: IBuilderConfig) -> Plan | None:
        network.look_at_script()
        with phases(config.progress_monitor) as stopped:
            if errors := network.errors():
                for message in errors:
                    self._report(message)
                return None
            network.fix(config.fixed_values())
            try:
                plan, on_floats = self._explicit_or_implicit(network, config)
            except (IntactError, ValueError) as error:
                self._report(f"IBuilder::buildSerializedNetwork: {error}", ErrorCodeTRT.INTERNAL_ERROR)
                return None
            finally:
                network.fix({})
            if stopped():
                self._report("IBuilder::buildSerializedNetwork: the progress monitor stopped the build")
                return None
        types = {name: str(plan.tensors[name].stored_dtype) for name in plan.outputs}
        if foreign := [foreign_type(n, t) for n, t in types.items() if not is_known_type(t)]:
            for message in foreign:
                self._report(message)
            return None
        broken = _list_broken_pins(network, plan, on_floats)
        obey = config.get_flag(BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
        obey = obey or config.get_flag(BuilderFlag.STRICT_TYPES)
        for message in broken:
            self._logger.log(LogSeverity.ERROR if obey else LogSeverity.WARNING, message)
        return None if broken and obey else plan

    def _explicit_or_implicit(
        self, network: INetworkDefinition, config: IBuilderConfig
    ) -> tuple[Plan, set[str]]:
        """Return the plan, and the names of the layers that read only floats."""
        explicit = any(map(_is_qdq, network.layers))
        if explicit and config.int8_calibrator is not None:
            network.warn(IGNORED)
        ranges = any(tensor.dynamic_range for tensor in network.tensors)
        wants_int8 = config.get_flag(BuilderFlag.INT8) and (config.int8_calibrator is not None or ranges)
        conditions = _assertions(network)
        unfused = _tensors_between_steps(network)
        debugged = [*network._debugged, *unfused]
        watched = list(dict.fromkeys([*conditions, *debugged]))
        hidden = [t for t in watched if not (t.is_network_input or t.is_network_output)]
        depends = dependence_of(network)
        record = BuildRecord(
            network.name, config.profiles, dependence=depends,
            assertions={t.name: message for t, message in conditions.items()},
            sizes={t.name: t.shape for t in network.outputs if -1 in t.shape},
            of_shapes=tuple(t.name for t in conditions if only_shapes(t)),
            debugged=tuple(t.name for t in debugged), unfused=tuple(t.name for t in unfused),
            visible=tuple(t.name for t in watched if t not in hidden), plugins=plugins_of(network),
            aliases=aliases_of(network),
            types={t.name: t.dtype for t in (*network.inputs, *network.outputs, *watched)},
            samples=max(1, self.max_batch_size) if network.has_implicit_batch_dimension else 0,
        )  # fmt: skip
        composed = network.compose(hidden)
        if any(map(config.get_flag, REFITTABLE)):
            individual = config.get_flag(BuilderFlag.REFIT_INDIVIDUAL)
            only = network._refittable if individual else None
            record = replace(record, refit=weights_of(network, composed, only))
        if depends:
            if wants_int8:
                network.warn("INT8 is not used: shapes of this network depend on values")
            return record.add_to(whole_plan(network, composed, hidden)), set()
        model = composed.load()
        widen_ports(model)  # callers keep their types: see `CallerTensor`
        if wants_int8 and not explicit:
            choices, plan, on_floats = implicit_plan(network, config, model)
            return replace(record, choices=choices).add_to(plan), on_floats
        return record.add_to(lower(model)), nodes_on_floats(model)


hide_removed(Builder)


def _assertions(network: INetworkDefinition) -> dict[ITensor, str]:
    """Collect the conditions that a run must find true, with the message of each.
    Raises:
        ValueError: A condition is a constant, and false.
    """
    conditions = {}
    for layer in network.layers:
        if isinstance(layer, IAssertionLayer):
            condition = layer.get_input(0)
            value = network.value_of(condition) if condition is not None else None
            if value is not None and not value.all():
                raise ValueError(f"{layer.name}: assertion failed: {layer.message}")
            if value is None and condition is not None:
                conditions[layer.condition] = layer.message
    return conditions


def _tensors_between_steps(network: INetworkDefinition) -> list[ITensor]:
    """Return the tensors that the plan has between its steps, where the network wants them to be seen."""
    if not network._shows_unfused:
        return []
    hidden = [t for la in network.layers for t in la._outputs if t not in network._debugged]
    hidden = [t for t in hidden if not t.is_network_output]
    if dependence_of(network):
        return hidden
    tensors = lower(network.compose().load()).tensors
    types = {t.name: t.dtype.numpy.name for t in hidden}
    types = {name: STORED.get(dtype, dtype) for name, dtype in types.items()}
    return [t for t in hidden if t.name in tensors and tensors[t.name].stored_dtype == types[t.name]]


def aliases_of(network: INetworkDefinition) -> dict[str, str]:
    """Return the outputs that TensorRT writes in place, by name, each with the input whose memory it uses."""
    caches = [layer for layer in network.layers if isinstance(layer, IKVCacheUpdateLayer)]
    pairs = [(layer._outputs[0], layer.get_input(0)) for layer in caches]
    return {out.name: cache.name for out, cache in pairs if cache is not None and out.is_network_output}


def _is_qdq(layer: ILayer) -> bool:
    if isinstance(layer, IOnnxLayer):
        return layer.node.op_type in ("QuantizeLinear", "DequantizeLinear")
    return isinstance(layer, (IQuantizeLayer, IDequantizeLayer))


def _list_broken_pins(network: INetworkDefinition, plan: Plan, on_floats: set[str]) -> list[str]:
    """Describe the layers whose precision was set and that the plan runs in another one.
    A layer that reads floats computes in float, even where it is fused into an int8 layer and rounded behind
        it.
    """
    runs = {node: layer.precision for layer in plan.layers for node in layer.nodes}
    broken = []
    for layer in network.layers:
        if not layer.precision_is_set or (layer.name not in runs and _is_qdq(layer)):
            continue
        wanted = "int8" if layer.precision == DataType.INT8 else "float"
        if wanted == "float" and layer.name in on_floats:
            continue
        runs_in = runs.get(layer.name, "float")
        if runs_in != wanted:
            why = next(
                (step.reason for step in plan.layers if layer.name in step.nodes),
                "the plan has no such layer",
            )
            complaint = f"pinned to {layer.precision.name} and runs in {runs_in}: {why}"
            broken.append(f"layer '{layer.name}' is {complaint}")
    return broken
