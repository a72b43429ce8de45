"""Builder: a network and a configuration in, a serialized engine out."""

from __future__ import annotations

from intact.engine import Plan
from intact.engine.lower import lower
from intact.errors import IntactError
from intact.trt.config import IBuilderConfig, IOptimizationProfile
from intact.trt.enums import BuilderFlag, DataType
from intact.trt.implicit import implicit_plan
from intact.trt.layers import IDequantizeLayer, ILayer, IOnnxLayer, IQuantizeLayer
from intact.trt.logger import ILogger, LogSeverity
from intact.trt.network import INetworkDefinition
from intact.trt.record import BuildRecord
from intact.trt.runtime import ICudaEngine, IHostMemory, to_bytes

IGNORED = (
    "Calibrator won't be used in explicit precision mode. Use quantization aware training to generate "
    "network with Quantize/Dequantize nodes."
)


class Builder:
    """Makes networks, configurations and engines.

    Attributes:
        max_batch_size, max_threads: Kept; the batch is part of the shapes, threads are the runtime's.
    """

    def __init__(self, logger: ILogger) -> None:
        self.logger, self.max_batch_size, self.max_threads = logger, 1, 1

    platform_has_fast_int8 = property(lambda self: True)
    platform_has_fast_fp16 = property(lambda self: False)
    platform_has_tf32 = property(lambda self: False)
    num_DLA_cores = property(lambda self: 0)

    def create_network(self, flags: int = 0) -> INetworkDefinition:
        """An empty network; `flags` are bits of `NetworkDefinitionCreationFlag`."""
        return INetworkDefinition(self.logger, flags)

    def create_builder_config(self) -> IBuilderConfig:
        """A configuration."""
        return IBuilderConfig()

    def create_optimization_profile(self) -> IOptimizationProfile:
        """A profile for dynamic shapes."""
        return IOptimizationProfile()

    def is_network_supported(self, network: INetworkDefinition, config: IBuilderConfig) -> bool:
        """Whether the network can be built; what is in the way is in the log."""
        return self._plan(network, config) is not None

    def build_serialized_network(
        self, network: INetworkDefinition, config: IBuilderConfig
    ) -> IHostMemory | None:
        """The bytes of an engine, for `Runtime.deserialize_cuda_engine` or a file.

        Returns:
            None, with every error in the log, where the network cannot be built as asked.
        """
        plan = self._plan(network, config)
        return None if plan is None else to_bytes(plan)

    def build_engine(self, network: INetworkDefinition, config: IBuilderConfig) -> ICudaEngine | None:
        """The engine itself, as scripts of TensorRT 7 and 8 ask for it."""
        plan = self._plan(network, config)
        return None if plan is None else ICudaEngine(plan, None, self.logger)

    def _plan(self, network: INetworkDefinition, config: IBuilderConfig) -> Plan | None:
        if errors := network.errors():
            for message in errors:
                self.logger.log(LogSeverity.ERROR, message)
            return None
        try:
            plan = self._explicit_or_implicit(network, config)
        except (IntactError, ValueError) as error:
            self.logger.log(LogSeverity.ERROR, f"IBuilder::buildSerializedNetwork: {error}")
            return None
        broken = _broken_pins(network, plan)
        obey = config.get_flag(BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
        obey = obey or config.get_flag(BuilderFlag.STRICT_TYPES)
        for message in broken:
            self.logger.log(LogSeverity.ERROR if obey else LogSeverity.WARNING, message)
        return None if broken and obey else plan

    def _explicit_or_implicit(self, network: INetworkDefinition, config: IBuilderConfig) -> Plan:
        model = network.compose().load()
        explicit = any(map(_is_qdq, network.layers))
        if explicit and config.int8_calibrator is not None:
            network.warn(IGNORED)
        ranges = any(tensor.dynamic_range for tensor in network.tensors)
        asked = config.get_flag(BuilderFlag.INT8) and (config.int8_calibrator is not None or ranges)
        if asked and not explicit:
            return implicit_plan(network, config, model)
        return BuildRecord(network.name, config.profiles).added_to(lower(model))


def _is_qdq(layer: ILayer) -> bool:
    if isinstance(layer, IOnnxLayer):
        return layer.node.op_type in ("QuantizeLinear", "DequantizeLinear")
    return isinstance(layer, (IQuantizeLayer, IDequantizeLayer))


def _broken_pins(network: INetworkDefinition, plan: Plan) -> list[str]:
    """Layers whose precision was set, and that the plan runs in another one."""
    runs = {node: layer.precision for layer in plan.layers for node in layer.nodes}
    broken = []
    for layer in network.layers:
        if not layer.precision_is_set or layer.name not in runs:
            continue
        wanted = "int8" if layer.precision == DataType.INT8 else "float"
        if runs[layer.name] != wanted:
            why = next((one.reason for one in plan.layers if layer.name in one.nodes), "")
            said = f"pinned to {layer.precision.name} and runs in {runs[layer.name]}: {why}"
            broken.append(f"layer '{layer.name}' is {said}")
    return broken
