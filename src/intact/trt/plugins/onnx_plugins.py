"""Creates plugins for nodes of an ONNX file that ONNX does not know."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import UnsupportedError
from intact.graph import ForeignNode
from intact.trt.base.enums import PluginFieldType, TensorRTPhase, dtype_of
from intact.trt.plugins.plugin_interfaces import IPluginCreatorV3One, PluginField, PluginFieldCollection
from intact.trt.plugins.plugin_registry import adopt, get_plugin_registry

FIELD_DTYPES = {
    PluginFieldType.FLOAT16: np.float16, PluginFieldType.FLOAT32: np.float32,
    PluginFieldType.FLOAT64: np.float64, PluginFieldType.INT8: np.int8, PluginFieldType.INT16: np.int16,
    PluginFieldType.INT32: np.int32, PluginFieldType.INT64: np.int64,
}  # fmt: skip


class OnnxPlugins:
    """Makes the plugins of one file.

    Attributes:
        by_operator: The plugin of each operator, which is "domain::Name".
        missing: Nodes of ONNX's own domain that neither ONNX nor a creator knows.
    """

    def __init__(self) -> None:
        self.by_operator: dict[str, Any] = {}
        self.missing: list[ForeignNode] = []

    def rename(self, node: ForeignNode) -> str | None:
        """Return the operator of the plugin that `node` is; None where no creator has its name.

        The creator is that of the node's operator, its attributes plugin_version ("1" where it is missing)
        and plugin_namespace (""). It gets those attributes of the node that are among its `field_names`.

        Raises:
            UnsupportedError: The type of an input is not known.
        """
        version, namespace = (_text(node.fields.get(f"plugin_{part}", default))
                              for part, default in (("version", "1"), ("namespace", "")))  # fmt: skip
        creator = get_plugin_registry().get_creator(node.op_type, version, namespace)
        if creator is None:
            if not node.domain:
                self.missing.append(node)
            return None
        if None in node.input_types:
            raise UnsupportedError(
                f"node '{node.name}'", f"inputs of the types {node.input_types}", "types that are known",
                "declare the types of the graph's inputs",
            )  # fmt: skip
        fields = PluginFieldCollection(
            _field(field, node.fields[field.name])
            for field in creator.field_names or ()
            if field.name in node.fields
        )
        phase = (TensorRTPhase.BUILD,) if isinstance(creator, IPluginCreatorV3One) else ()
        plugin = creator.create_plugin(node.name, fields, *phase)
        operator = adopt(plugin, [dtype_of(name) for name in node.input_types])
        self.by_operator[operator] = plugin
        return operator


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _field(declared: PluginField, value: Any) -> PluginField:
    """Convert an attribute to the field that the creator declared.

    One without a type has the attribute's own.
    """
    if isinstance(value, bytes):
        return PluginField(declared.name, value, PluginFieldType.CHAR)
    array = np.atleast_1d(np.asarray(value))
    kind = declared.type if declared.type in FIELD_DTYPES else _kind_of(array)
    return PluginField(declared.name, array.astype(FIELD_DTYPES[kind]), kind)


def _kind_of(array: NDArray) -> PluginFieldType:
    return PluginFieldType.FLOAT32 if array.dtype.kind == "f" else PluginFieldType.INT32
