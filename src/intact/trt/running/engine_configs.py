"""ISerializationConfig and IRuntimeConfig: how an engine is serialized, its contexts made and inspected."""

from __future__ import annotations

import json
from typing import Any

from intact.engine import Plan
from intact.trt.base.dialects import DialectChoice
from intact.trt.base.enums import (
    ExecutionContextAllocationStrategy,
    LayerInformationFormat,
    SerializationFlag,
)
from intact.trt.base.host_interfaces import ILogger
from intact.trt.base.trt_object import Interface, Reporting
from intact.trt.building.build_record import BuildRecord
from intact.trt.running.layer_report import EngineLayer, describe_layer, engine_layers


class ISerializationConfig(Interface):
    """Flags for ``ICudaEngine.serialize_with_config``; kept, as a plan has one form.

    Attributes:
        flags: Bits of `SerializationFlag`.
    """

    flags: int = 0

    def __init__(self, logger: ILogger | None = None) -> None:
        self._logger = logger

    def set_flag(self, flag: SerializationFlag) -> bool:
        """Turn a flag on."""
        self.flags |= 1 << int(flag)
        return True

    def clear_flag(self, flag: SerializationFlag) -> bool:
        """Turn a flag off."""
        self.flags &= ~(1 << int(flag))
        return True

    def get_flag(self, flag: SerializationFlag) -> bool:
        """Return whether a flag is on."""
        return bool(self.flags >> int(flag) & 1)


class IRuntimeConfig(Interface):
    """Settings for ``ICudaEngine.create_execution_context``; kept, as an engine has memory of its own."""

    def __init__(self, logger: ILogger | None = None) -> None:
        self._logger = logger
        self._strategy = ExecutionContextAllocationStrategy.STATIC

    def set_execution_context_allocation_strategy(self, strategy: ExecutionContextAllocationStrategy) -> None:
        """Set the strategy, which is only stored: the engine has memory of its own."""
        self._note("set_execution_context_allocation_strategy")
        self._strategy = ExecutionContextAllocationStrategy(strategy)

    def get_execution_context_allocation_strategy(self) -> ExecutionContextAllocationStrategy:
        """Return the strategy set by `set_execution_context_allocation_strategy`."""
        return self._strategy


class EngineInspector(Reporting):
    """Describes the layers of an engine; get one from ``ICudaEngine.create_engine_inspector``.

    Attributes:
        execution_context: Kept.
    """

    execution_context: Any = None

    def __init__(self, plan: Plan, record: BuildRecord, choice: DialectChoice) -> None:
        self._plan, self._record = plan, record
        self._choice: DialectChoice = choice

    def get_layer_information(self, layer_index: int, format: LayerInformationFormat) -> str:
        """Describe one layer: a line, or JSON with its nodes, its precision, and both times where known."""
        entry = self._entry(engine_layers(self._plan)[layer_index])
        return _format_entry(entry, format)

    def get_engine_information(self, format: LayerInformationFormat) -> str:
        """Describe all layers, and names of inputs and outputs: "Bindings", or "I/O Tensors" in 11.x."""
        layers = [self._entry(layer) for layer in engine_layers(self._plan)]
        if format == LayerInformationFormat.ONELINE:
            return "\n".join(_format_entry(entry, format) for entry in layers)
        bindings = [*self._plan.inputs, *self._plan.outputs]
        key = "I/O Tensors" if self._choice.dialect == "11.x" else "Bindings"
        return json.dumps({"Layers": layers, key: bindings}, indent=1)

    def clear_inspection_source(self) -> None:
        """Do nothing: sources are not kept."""

    def _entry(self, layer: EngineLayer) -> dict[str, Any]:
        record, choice = layer.record, self._record.choices.get(layer.name)
        steps = [step.kind for step in layer.steps]
        nodes = list(record.nodes) if record is not None else [n for s in layer.steps for n in s.nodes]
        entry: dict[str, Any] = {
            "Name": layer.name, "LayerType": record.fused if record is not None else "+".join(steps),
            "Nodes": nodes,
            "Precision": "INT8" if record is not None and record.precision == "int8" else "FP32",
            "Reason": record.reason if record is not None else "it stands between floats and codes",
            **describe_layer(self._plan, layer),
        }  # fmt: skip
        if choice is not None:
            entry |= {"Int8Ms": choice.int8_ms, "FloatMs": choice.float_ms, "Choice": choice.why}
        return entry


def _format_entry(entry: dict[str, Any], format: LayerInformationFormat) -> str:
    if format == LayerInformationFormat.JSON:
        return json.dumps(entry, indent=1)
    return (
        f"{entry['Name']} {entry['LayerType']} {entry['Precision']}: {entry.get('Choice') or entry['Reason']}"
    )
