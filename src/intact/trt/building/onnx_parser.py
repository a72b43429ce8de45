"""OnnxParser: a network's layers read from an ONNX file, and what TensorRT's parser would refuse about it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intact.errors import IntactError
from intact.graph import (
    Parts,
    Source,
    bfloat16_values,
    load,
    output_types,
    parts_of,
    rename_foreign,
    take_floats_for_doubles,
    write_block_pairs,
)
from intact.placement import check
from intact.trt.base.enums import DataType, ErrorCode, OnnxParserFlag, dtype_of, foreign_type, is_known_type
from intact.trt.base.host_interfaces import ILogger, LogSeverity
from intact.trt.base.itensor import ITensor
from intact.trt.base.operation_enums import LayerType, layer_type_of
from intact.trt.base.removed_members import hide_removed
from intact.trt.base.trt_object import Interface
from intact.trt.building.build_observers import OBSERVERS
from intact.trt.building.split_model import StoredModel
from intact.trt.layers import IDequantizeLayer, ILayer
from intact.trt.network import INetworkDefinition
from intact.trt.plugins.onnx_plugins import OnnxPlugins
from intact.trt.plugins.plugin import IPluginV2Layer, IPluginV3Layer
from intact.trt.plugins.plugin_interfaces import IPluginV3
from intact.trt.plugins.plugin_registry import get_plugin_registry

OLDEST_OPSET = 9
"""The oldest opset of TensorRT's parser."""
NO_PLUGIN = "{}: plugin not found, are the plugin name, version, and namespace correct?"


@dataclass(frozen=True)
class ParserError:
    """One thing that the parser refused.

    Attributes:
        message: What is wrong, in TensorRT's words where they are known.
        where: Name of the node; "" where the file as a whole is at fault.
        kind: TensorRT's code for it.
    """

    message: str
    where: str = ""
    kind: ErrorCode = ErrorCode.UNSUPPORTED_NODE

    def desc(self) -> str:
        """Return the message."""
        return self.message

    def node_name(self) -> str:
        """Name of the node."""
        return self.where

    def node(self) -> int:
        """Index of the node, where TensorRT has one; -1 here: `node_name` says which."""
        return -1

    def code(self) -> ErrorCode:
        """Return TensorRT's error code."""
        return self.kind

    def file(self) -> str:
        """Return the parser's source; "" here."""
        return ""

    func = file

    def line(self) -> int:
        """Return the line of the parser's source; 0 here."""
        return 0

    def local_function_stack(self) -> list[str]:
        """Return an empty list: local functions are expanded before anything is refused."""
        return []

    def local_function_stack_size(self) -> int:
        """Return 0: see `local_function_stack`."""
        return 0

    def node_operator(self) -> str:
        """Return the operator of the node; "" where it is not known."""
        return ""

    def __str__(self) -> str:
        return f"In node {self.where}: {self.message}" if self.where else self.message


class KeepsErrors:
    """Collects the errors of a parser: base of TensorRT's parser and its refitter."""

    _errors: list[ParserError]

    @property
    def num_errors(self) -> int:
        """Number of errors since the last `clear_errors`."""
        return len(self._errors)

    def get_error(self, index: int) -> ParserError:
        """Return error `index`."""
        return self._errors[index]

    def clear_errors(self) -> None:
        """Forget all errors."""
        self._errors.clear()


class OnnxParser(KeepsErrors, Interface):
    """Adds the nodes of an ONNX model to a network.

    Args:
        network: An empty network.
        logger: Gets the errors too.
    """

    _logger: ILogger

    def __init__(self, network: INetworkDefinition, logger: ILogger) -> None:
        self._network, self._logger = network, logger
        self._choice = network._choice
        self._errors: list[ParserError] = []
        self._flags = 0
        self._proto = StoredModel()
        self._supported: list[tuple[list[int], bool]] = []

    def parse(self, model: bytes, path: str | None = None) -> bool:
        """Read the bytes of a model; `path` is where its external data lie.

        Returns:
            Whether the network has it now; if not, see `get_error`.
        """
        return self._parse(bytes(model), None if path is None else Path(path).parent)

    def parse_from_file(self, path: str | os.PathLike[str]) -> bool:
        """Read a file; otherwise as `parse`."""
        return self._parse(path, None)

    def supports_model(self, model: bytes, path: str | None = None) -> tuple[bool, list[Any]]:
        """Return whether `parse` would take the model.

        The list of subgraphs is empty, as nothing is split.
        """
        scratch = OnnxParser(INetworkDefinition(self._logger), self._logger)
        return scratch.parse(model, path), []

    def supports_model_v2(self, model: bytes, path: str | None = None) -> bool:
        """Return whether `parse` would take the model.

        `num_subgraphs` and its kind then describe its parts.
        """
        scratch = OnnxParser(INetworkDefinition(self._logger), self._logger)
        is_taken = scratch.parse(model, path)
        self._errors += scratch._errors
        self._supported = [(list(range(_node_count(model))), is_taken)]
        return is_taken

    @property
    def num_subgraphs(self) -> int:
        """Number of parts of the model that `supports_model_v2` saw: one, as nothing is split."""
        return len(self._supported)

    def is_subgraph_supported(self, index: int) -> bool:
        """Return whether `parse` would take part `index`."""
        return self._supported[index][1]

    def get_subgraph_nodes(self, subgraph_index: int) -> list[int]:
        """Return the nodes of a part, by their places in the file."""
        return self._supported[subgraph_index][0]

    def load_model_proto(self, model: bytes, path: str | None = None) -> bool:
        """Keep the bytes of a model for `parse_model_proto`."""
        return self._proto.load_model(model, path)

    def load_initializer(self, name: str, data: Any, size: int | None = None) -> bool:
        """Load weights in memory for the model that `load_model_proto` kept."""
        missing = f"there is no initializer '{name}' of such a size in the model"
        return self._proto.load_initializer(name, data, size) or self._refuse(ParserError(missing))

    def parse_model_proto(self) -> bool:
        """Read the model that was kept; otherwise as `parse`."""
        return self._parse(self._proto.bytes, self._proto.folder)

    def get_layer_output_tensor(self, name: str, i: int) -> ITensor | None:
        """Return output `i` of the layer called `name`; None where there is none."""
        layer = next((layer for layer in self._network.layers if layer.name == name), None)
        return None if layer is None else layer.get_output(i)

    def set_flag(self, flag: int) -> None:
        """Turn a flag on; ENABLE_PLUGIN_OVERRIDE alone changes what is read."""
        if flag != OnnxParserFlag.ENABLE_PLUGIN_OVERRIDE:
            self._note("set_flag")
        self._flags |= 1 << int(flag)

    def clear_flag(self, flag: int) -> None:
        """Turn a flag off."""
        self._flags &= ~(1 << int(flag))

    def get_flag(self, flag: int) -> bool:
        """Return whether a flag is on."""
        return bool(self._flags >> int(flag) & 1)

    @property
    def flags(self) -> int:
        """The flags, as bits."""
        return self._flags

    @flags.setter
    def flags(self, flags: int) -> None:
        self._note("set_flag")
        self._flags = int(flags)

    def set_builder_config(self, builder_config: Any) -> bool:
        """Take a configuration, which changes nothing: what is read is what a CPU runs."""
        self._builder_config = builder_config
        return True

    def supports_operator(self, op_name: str) -> bool:
        """Return whether an ONNX operator is known."""
        return layer_type_of(op_name) is not LayerType.OTHER

    def is_node_supported(self, model: bytes) -> bool:
        """Return whether `parse` would take the model."""
        return self.supports_model(model)[0]

    def parse_with_weight_descriptors(self, model: bytes) -> bool:
        """Parse the model, as `parse` does."""
        return self.parse(model)

    def get_used_vc_plugin_libraries(self) -> list[str]:
        """Return an empty list: there are no libraries."""
        return []

    def _parse(self, source: Source, folder: Path | None) -> bool:
        plugins = OnnxPlugins()
        try:
            model = load(source, folder=folder)
            rename_foreign(model, plugins.rename, self._overridden())
            write_block_pairs(model)
            findings = check(model, target="tensorrt")
            take_floats_for_doubles(model)
            parts = parts_of(model)
        except IntactError as problem:
            return self._refuse(ParserError(str(problem)))
        errors = [ParserError(NO_PLUGIN.format(node.op_type), node.name) for node in plugins.missing]
        read = {"opset"} if parts.domains.get("", 0) >= OLDEST_OPSET else set()  # newer ones are read as well
        refusals = [f for f in findings if f.severity == "error" and f.rule not in read]
        errors += [ParserError(f.message, f.node) for f in refusals]
        types = output_types(model).items()
        errors += [
            ParserError(foreign_type(n, t)) for n, t in types if t is not None and not is_known_type(t)
        ]
        for error in errors:
            self._refuse(error)
        if errors:
            return False
        self._adopt(parts, plugins.by_operator, bfloat16_values(model))
        for observer in OBSERVERS:
            observer.on_parse(source)
        return True

    def _overridden(self) -> list[str]:
        """Return the operators of ONNX that a plugin of the same name replaces."""
        if not self.get_flag(OnnxParserFlag.ENABLE_PLUGIN_OVERRIDE):
            return []
        return [creator.name for creator in get_plugin_registry().plugin_creator_list]

    def _refuse(self, error: ParserError) -> bool:
        self._errors.append(error)
        self._logger.log(LogSeverity.ERROR, str(error))
        return False

    def _adopt(self, parts: Parts, plugins: dict[str, Any], bfloat16: frozenset[str]) -> None:
        network = self._network
        tensors: dict[str, ITensor] = {}
        for name, dtype, shape in parts.inputs:
            sizes = tuple(n if isinstance(n, int) else -1 for n in shape)
            kind = DataType.BF16 if name in bfloat16 else dtype_of(dtype)
            tensor = network.add_input(name, kind, sizes)
            if tensor is not None:
                tensors[name], tensor._inner_dtype = tensor, kind
        for name, array in parts.constants:
            values = array.astype(DataType.BF16.numpy) if name in bfloat16 else array
            constant = network.add_constant(array.shape, values)
            constant.name = name
            self._name_output(constant.get_output(0), name, tensors)
        scales = {node.input[1] for node in parts.nodes if node.op_type == "DequantizeLinear"}
        for node in parts.nodes:
            inputs = [tensors.get(name) for name in node.input]
            operator = f"{node.domain}::{node.op_type}"
            layer: ILayer
            codes = inputs[0] if inputs else None
            is_scale = node.output[0] in scales
            if node.op_type == "DequantizeLinear" and codes is not None and _is_layer(codes, is_scale):
                layer = _dequantize_layer(network, inputs, parts.blocks[node.output[0]])
            elif operator in plugins:
                layer = _plugin_layer(network, inputs, operator, plugins[operator])
            else:
                layer = network.add_node(inputs, node, parts.domains)
            layer.name = node.name
            for index, name in enumerate(node.output):
                if name:
                    self._name_output(layer.get_output(index), name, tensors)
                    tensors[name]._known_type = DataType.BF16.numpy.name if name in bfloat16 else None
        for name in parts.outputs:
            tensors[name]._declared_shape = parts.output_shapes.get(name)
            network.mark_output(tensors[name])

    def _name_output(self, tensor: ITensor | None, name: str, tensors: dict[str, ITensor]) -> None:
        assert tensor is not None
        tensor.name = name
        tensors[name] = tensor


hide_removed(OnnxParser)


def _node_count(model: bytes) -> int:
    try:
        return len(list(load(bytes(model)).graph))
    except IntactError:
        return 0


def _is_layer(codes: ITensor, is_scale: bool) -> bool:
    """Return whether a dequantizer becomes TensorRT's layer: of FP4, and of scales that have a scale."""
    return codes.dtype is DataType.FP4 or (is_scale and codes.dtype is DataType.FP8)


def _dequantize_layer(
    network: INetworkDefinition, inputs: list[ITensor | None], blocks: tuple[int, int]
) -> ILayer:
    """Add TensorRT's layer for codes of FP4, which ONNX's operators read from opset 23 on."""
    codes, scale = inputs[:2]
    assert codes is not None and scale is not None
    layer: IDequantizeLayer = network.add_dequantize(codes, scale, DataType.FLOAT)
    axis, size = blocks[0] % len(codes.shape), blocks[1]
    if size:
        layer.block_shape = tuple(size if i == axis else 1 for i in range(len(codes.shape)))
    elif scale.shape:
        layer.axis = axis
    return layer


def _plugin_layer(
    network: INetworkDefinition, inputs: list[ITensor | None], operator: str, plugin: Any
) -> ILayer:
    kind = IPluginV3Layer if isinstance(plugin, IPluginV3) else IPluginV2Layer
    return network.add_layer(kind, tuple(inputs), operator=operator, _plugin=plugin)
