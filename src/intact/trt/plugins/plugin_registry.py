"""TensorRT's plugins in Python: their classes, their registry, and the operators that they become.

A plugin's ``enqueue`` gets addresses of host memory. Its creator must be registered where an engine with it
is read.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine import find, register
from intact.errors import QuantValueError, UnsupportedError
from intact.graph import STORED
from intact.trt.base.enums import (
    DataType,
    PluginCapabilityType,
    PluginFieldType,
    TensorRTPhase,
)
from intact.trt.base.itensor import DimsExprs, pack, unpack
from intact.trt.base.removed_members import hide_removed
from intact.trt.base.trt_object import Interface
from intact.trt.plugins.plugin_interfaces import (
    DynamicPluginTensorDesc,
    IDimensionExpr,
    IExprBuilder,
    IPluginV3,
    PluginField,
    PluginFieldCollection,
    PluginTensorDesc,
)

DOMAIN = "trt.plugin"


class IPluginRegistry(Interface):
    """All creators of plugins.

    Attributes:
        error_recorder, parent_search_enabled: Kept.
    """

    error_recorder: Any = None
    parent_search_enabled: bool = True

    def __init__(self) -> None:
        self._creators: dict[tuple[str, str, str], Any] = {}
        self._resources: dict[str, Any] = {}

    @property
    def plugin_creator_list(self) -> list[Any]:
        """The creators."""
        return list(self._creators.values())

    all_creators = all_creators_recursive = plugin_creator_list

    def register_creator(self, creator: Any, plugin_namespace: str = "") -> bool:
        """Make a creator known, in place of one of that name, version and namespace."""
        creator.plugin_namespace = plugin_namespace or getattr(creator, "plugin_namespace", "")
        key = creator.name, str(creator.plugin_version), creator.plugin_namespace
        self._creators[key] = creator
        return True

    def deregister_creator(self, creator: Any) -> bool:
        """Forget a creator."""
        keys = [key for key, candidate in self._creators.items() if candidate is creator]
        for key in keys:
            del self._creators[key]
        return bool(keys)

    deregister_library = deregister_creator

    def get_creator(self, type: str, version: str, plugin_namespace: str = "") -> Any:
        """Look up the creator of that name; None where there is none."""
        return self._creators.get((type, str(version), plugin_namespace))

    get_plugin_creator = get_creator

    def load_library(self, plugin_path: str) -> Any:
        """Refuse: libraries of plugins are code for a GPU.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            "load_library", plugin_path, "a plugin in Python",
            "write its enqueue for host memory, or an operator with @trt.plugin",
        )  # fmt: skip

    def acquire_plugin_resource(self, key: str, resource: Any) -> Any:
        """Return the resource shared under `key`; the first call clones `resource`."""
        if key not in self._resources:
            self._resources[key] = resource.clone()
        return self._resources[key]

    def release_plugin_resource(self, key: str) -> bool:
        """Forget a shared resource."""
        resource = self._resources.pop(key, None)
        return resource is not None


hide_removed(IPluginRegistry)


_REGISTRY = IPluginRegistry()


def get_plugin_registry() -> IPluginRegistry:
    """Return the registry of plugins."""
    return _REGISTRY


def get_builder_plugin_registry(*_: Any) -> IPluginRegistry:
    """Return the registry of plugins, of which there is only one."""
    return _REGISTRY


def adopt(plugin: Any, input_types: Sequence[DataType]) -> str:
    """Register the operator that `plugin` is; return its name.

    Args:
        plugin: Of version 2 or 3.
        input_types: Element types of its inputs.
    """
    entry = _entry(plugin, input_types)
    text = repr(sorted(entry.items())).encode()
    kind = re.sub(r"\W", "_", entry["name"])
    name = f"{DOMAIN}::{kind}_{hashlib.sha256(text).hexdigest()[:12]}"
    _register(name, plugin, input_types)
    _ENTRIES[name] = entry
    return name


_ENTRIES: dict[str, dict[str, Any]] = {}


def plugins_of(network: Any) -> dict[str, Any]:
    """Return the creators that rebuild a network's plugins, by operator."""
    names = {getattr(layer, "operator", "") for layer in network.layers}
    names |= {f"{n.domain}::{n.op_type}" for la in network.layers if (n := getattr(la, "node", None))}
    return {name: _ENTRIES[name] for name in sorted(names) if name in _ENTRIES}


def remake(entries: dict[str, Any]) -> None:
    """Make the plugins of an engine that was read.

    Raises:
        UnsupportedError: A creator is not registered.
    """
    for name, entry in entries.items():
        if find(name) is not None:
            continue
        creator = _REGISTRY.get_creator(entry["name"], entry["version"], entry["namespace"])
        if creator is None:
            raise UnsupportedError(
                "engine", f"plugin '{entry['name']}', version {entry['version']}, without a creator",
                "a registered creator", "call get_plugin_registry().register_creator(...) first",
            )  # fmt: skip
        if entry["data"] is not None:
            plugin = creator.deserialize_plugin(entry["name"], base64.b64decode(entry["data"]))
        else:
            fields = PluginFieldCollection(
                PluginField(n, np.frombuffer(base64.b64decode(d), t), PluginFieldType(k))
                for n, d, t, k in entry["fields"]
            )
            plugin = creator.create_plugin(entry["name"], fields, TensorRTPhase.RUNTIME)
        _register(name, plugin, [DataType(t) for t in entry["types"]])
        _ENTRIES[name] = entry


def _entry(plugin: Any, input_types: Sequence[DataType]) -> dict[str, Any]:
    types = [int(t) for t in input_types]
    if not isinstance(plugin, IPluginV3):
        data = plugin.serialize()
        raw = data.encode() if isinstance(data, str) else bytes(data)
        return {
            "name": plugin.plugin_type, "version": str(plugin.plugin_version),
            "namespace": plugin.plugin_namespace, "data": base64.b64encode(raw).decode(), "fields": [],
            "types": types,
        }  # fmt: skip
    core = plugin.get_capability_interface(PluginCapabilityType.CORE)
    fields = plugin.get_capability_interface(PluginCapabilityType.RUNTIME).get_fields_to_serialize()
    return {
        "name": core.plugin_name, "version": str(core.plugin_version), "namespace": core.plugin_namespace,
        "data": None, "types": types,
        "fields": [
            [f.name, base64.b64encode(f.data.tobytes()).decode(), f.data.dtype.str, int(f.type)]
            for f in fields or ()
        ],
    }  # fmt: skip


def _register(name: str, plugin: Any, input_types: Sequence[DataType]) -> None:
    call = PluginCall(plugin, list(input_types))
    register(name, call, shapes=call.shapes, outputs=call.outputs, dtypes=[_node_type(t) for t in call.types])


def _node_type(dtype: DataType) -> str:
    """Return NumPy's name of the type that nodes have for `dtype`."""
    return STORED.get(dtype.numpy.name, dtype.numpy.name)


class PluginCall:
    """The body of a plugin's operator.

    Attributes:
        types: Of the outputs, as the plugin says; the engine has those of `STORED` for some.
    """

    def __init__(self, plugin: Any, input_types: list[DataType]) -> None:
        three = isinstance(plugin, IPluginV3)
        self.plugin, self.three = plugin, three
        self.build = plugin.get_capability_interface(PluginCapabilityType.BUILD) if three else plugin
        self.runtime = plugin.get_capability_interface(PluginCapabilityType.RUNTIME) if three else plugin
        self.outputs = int(self.build.num_outputs)
        self.input_types = input_types
        if three:
            self.types = list(self.build.get_output_data_types(list(input_types)))
        else:
            self.types = [plugin.get_output_datatype(i, list(input_types)) for i in range(self.outputs)]
            plugin.initialize()
        self._ready: Any = None
        self._shapes: Any = None

    def shapes(self, *inputs: Sequence[int | str]) -> Any:
        """Return the sizes of the outputs for inputs of such shapes; unknown sizes are names."""
        dims = [DimsExprs(IDimensionExpr(n if isinstance(n, int) else None) for n in s) for s in inputs]
        builder = IExprBuilder()
        if self.three:
            output_shapes = self.build.get_output_shapes(dims, [], builder)
        else:
            output_shapes = [self.plugin.get_output_dimensions(i, dims, builder) for i in range(self.outputs)]
        sizes = [
            tuple(
                size._value if size._value is not None else f"plugin.{i}.{j}" for j, size in enumerate(shape)
            )
            for i, shape in enumerate(output_shapes)
        ]
        return sizes[0] if self.outputs == 1 else sizes

    def __call__(self, *arrays: NDArray) -> Any:
        """Run ``enqueue`` on host memory."""
        output_shapes = self.shapes(*(a.shape for a in arrays))
        shapes = [output_shapes] if self.outputs == 1 else output_shapes
        inputs = [PluginTensorDesc(a.shape, t) for a, t in zip(arrays, self.input_types, strict=True)]
        outputs = [PluginTensorDesc(s, t) for s, t in zip(shapes, self.types, strict=True)]
        buffers_in = [pack(a.astype(t.numpy), t) for a, t in zip(arrays, self.input_types, strict=True)]
        buffers_out = [
            np.zeros(t.bytes_of(prod(s)), np.uint8) for s, t in zip(shapes, self.types, strict=True)
        ]
        worker = self._worker(inputs, outputs)
        scratch = np.zeros(max(int(self.build.get_workspace_size(inputs, outputs) or 0), 1), np.uint8)
        state = worker.enqueue(
            inputs, outputs, [a.ctypes.data for a in buffers_in], [a.ctypes.data for a in buffers_out],
            scratch.ctypes.data, 0,
        )  # fmt: skip
        if state not in (None, 0):
            raise QuantValueError(
                "plugin", f"status {state} from enqueue", "0", "see what the plugin printed"
            )
        results = [
            unpack(raw, t, prod(s)).reshape(s).astype(_node_type(t), copy=False)
            for raw, s, t in zip(buffers_out, shapes, self.types, strict=True)
        ]
        return results[0] if self.outputs == 1 else tuple(results)

    def _worker(self, inputs: list[PluginTensorDesc], outputs: list[PluginTensorDesc]) -> Any:
        shapes = [d.dims for d in (*inputs, *outputs)]
        if self.three:
            if self._ready is None:
                self._ready = self.runtime.attach_to_context(None)
            if shapes != self._shapes:
                self._ready.on_shape_change(inputs, outputs)
        elif shapes != self._shapes:
            dynamic = [[DynamicPluginTensorDesc(d) for d in group] for group in (inputs, outputs)]
            self.plugin.configure_plugin(*dynamic)
        self._shapes = shapes
        return self._ready if self.three else self.plugin
