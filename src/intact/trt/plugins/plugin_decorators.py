"""``tensorrt.plugin``, TensorRT's decorators for plugins ("quick plugins"), on host memory.

``register`` describes the outputs, ``impl`` computes them, ``autotune`` names types and tactics. A kernel
that was compiled before (``aot_impl``) is code for a GPU: a plugin that has nothing else is refused.

The name is also that of `intact.trt.plugins.plugin.plugin`, so that the module can be called as it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from numpy.typing import NDArray

from intact.errors import QuantValueError, UnsupportedError
from intact.trt.base.enums import DataType
from intact.trt.base.itensor import ITensor, at_address
from intact.trt.plugins import quick_sizes
from intact.trt.plugins.plugin import plugin
from intact.trt.plugins.plugin_interfaces import (
    IPluginCreatorV3Quick,
    IPluginV3,
    IPluginV3OneBuild,
    IPluginV3OneRuntime,
    IPluginV3QuickCore,
    KernelLaunchParams,
    PluginField,
    PluginFieldCollection,
)
from intact.trt.plugins.plugin_registry import get_plugin_registry
from intact.trt.plugins.quick_sizes import HostTensor, ShapeExpr, ShapeExprs, TensorDesc

TYPES = {DataType.FLOAT: "FP32", DataType.HALF: "FP16"}
"""Names of types in combinations, where they are not TensorRT's own."""


class AutoTuneCombination:
    """Types, layouts and tactics that a plugin offers: "FP32|FP16, FP32" for an input and an output."""

    def __init__(self, io_types: str = "", layouts: str = "LINEAR", tactics: Sequence[int] = ()) -> None:
        self._types = [part.strip().split("|") for part in io_types.split(",")] if io_types else []
        self._layouts, self._tactics = layouts, list(tactics)

    def pos(self, pos: int | Sequence[int], io_types: str, layouts: str = "LINEAR") -> None:
        """Set types and layouts of some inputs and outputs, counted through."""
        for place in [pos] if isinstance(pos, int) else pos:
            self._types += [[] for _ in range(place + 1 - len(self._types))]
            self._types[place] = io_types.split("|")
        self._layouts = layouts

    def tactics(self, tactics: Sequence[int]) -> None:
        """Set the numbers of the tactics."""
        self._tactics = list(tactics)

    def takes(self, types: Sequence[DataType]) -> bool:
        """Return whether dense tensors of these types are among those that it offers."""
        names = [TYPES.get(dtype, dtype.name) for dtype in types]
        pairs = zip(self._types, names, strict=False)
        return "LINEAR" in self._layouts.replace("|", ",") and all(not o or n in o for o, n in pairs)


class PluginDefinition:
    """One plugin: its functions, and the arguments that its nodes give."""

    def __init__(self, plugin_id: str, describe: Callable[..., Any]) -> None:
        self.namespace, _, self.name = plugin_id.rpartition("::")
        self.plugin_id, self.describe = plugin_id, describe
        self.impl: Callable[..., Any] | None = None
        self.autotune: Callable[..., Any] | None = None
        self.aot_impl: Callable[..., Any] | None = None
        parameters = inspect.signature(describe).parameters
        hints = inspect.get_annotations(describe, eval_str=True)
        self.tensors = [name for name in parameters if hints.get(name) is TensorDesc]
        self.attribute_types = {name: hints.get(name) for name in parameters if name not in self.tensors}

    def __call__(self, *arguments: Any, **named: Any) -> QuickCall:
        bound = inspect.signature(self.describe).bind(*arguments, **named)
        bound.apply_defaults()
        inputs = [bound.arguments[name] for name in self.tensors]
        wrong = [name for name, t in zip(self.tensors, inputs, strict=True) if not isinstance(t, ITensor)]
        if wrong:
            raise QuantValueError(
                self.plugin_id, f"{wrong[0]} that is no tensor", "an ITensor",
                "pass layer.get_output(0), and attributes by name",
            )  # fmt: skip
        return QuickCall(
            inputs, QuickPlugin(self, {name: bound.arguments[name] for name in self.attribute_types})
        )

    def attribute(self, name: str, data: NDArray) -> Any:
        """Return an attribute from the field of a node or a plan."""
        hint = self.attribute_types[name]
        if hint is str:
            return data.tobytes().decode()
        return hint(data.reshape(-1)[0].item()) if hint in (int, float, bool) else data


class QuickCall(NamedTuple):
    """Holds what ``network.add_plugin`` takes: the inputs, and the plugin with its attributes."""

    inputs: list[ITensor]
    plugin: QuickPlugin


class QuickPlugin(IPluginV3, IPluginV3QuickCore, IPluginV3OneBuild, IPluginV3OneRuntime):
    """A plugin of ``tensorrt.plugin`` with its attributes."""

    def __init__(self, definition: PluginDefinition, attributes: dict[str, Any]) -> None:
        super().__init__()
        self.definition, self.attributes = definition, attributes
        self.plugin_name, self.plugin_namespace = definition.name, definition.namespace
        empty = [TensorDesc() for _ in definition.tensors]
        self.num_outputs = len(self._outputs(empty, probing=True))

    def _outputs(self, inputs: Sequence[TensorDesc], probing: bool = False) -> list[TensorDesc]:
        try:
            described = self.definition.describe(*inputs, **self.attributes)
        except (IndexError, QuantValueError):
            if not probing:
                raise
            hints = inspect.get_annotations(self.definition.describe, eval_str=True)
            hint = hints.get("return", TensorDesc)
            return [TensorDesc()] * len(getattr(hint, "__args__", (hint,)))
        return list(described) if isinstance(described, (tuple, list)) else [described]

    def get_output_data_types(self, input_types: Sequence[DataType]) -> list[DataType]:
        """Return the types that the description says."""
        if self.definition.impl is None:
            raise UnsupportedError(
                f"tensorrt.plugin '{self.definition.plugin_id}'", "no function of tensorrt.plugin.impl",
                "one: a kernel of aot_impl is code for a GPU",
                "decorate a function that computes on the host",
            )  # fmt: skip
        # Sizes come later; types may not depend on them.
        inputs = [TensorDesc([ShapeExpr()] * 8, dtype) for dtype in input_types]
        return [output.dtype for output in self._outputs(inputs)]

    def get_output_shapes(self, inputs: Any, shape_inputs: Any, builder: Any) -> list[Any]:
        """Return the sizes that the description says."""
        outputs = self._outputs([TensorDesc(sizes) for sizes in inputs])
        return [[size._expr for size in output.shape_expr] for output in outputs]

    def get_fields_to_serialize(self) -> PluginFieldCollection:
        """Return the attributes."""
        return PluginFieldCollection(PluginField(name, value) for name, value in self.attributes.items())

    def enqueue(
        self, input_desc: Any, output_desc: Any, inputs: Any, outputs: Any, workspace: int, stream: int
    ) -> None:
        """Run the function on host memory."""
        read, written = (
            [
                HostTensor(at_address(a, tuple(d.dims), d.type.numpy), d.type)
                for a, d in zip(*pair, strict=True)
            ]
            for pair in ((inputs, input_desc), (outputs, output_desc))
        )
        described: list[TensorDesc] = [t.like() for t in read]
        for output, desc in zip(written, self._outputs(described), strict=True):
            if desc.is_aliased:
                source = next(i for i, d in enumerate(described) if d is desc.get_aliased())
                output.numpy()[...] = read[source].numpy()
        impl = self.definition.impl
        assert impl is not None  # checked when the network was written
        arguments = dict(zip(self.definition.tensors, read, strict=True)) | self.attributes
        arguments |= {"outputs": tuple(written), "stream": stream, "tactic": self._tactic(described, written)}
        impl(**{name: arguments[name] for name in inspect.signature(impl).parameters})

    def _tactic(self, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]) -> int:
        """Return the first tactic of the first combination for these types; 0 where none is offered."""
        if self.definition.autotune is None:
            return 0
        described = tuple(output.like() for output in outputs)
        offered = self.definition.autotune(*inputs, **self.attributes, outputs=described)
        types = [t.dtype for t in (*inputs, *outputs)]
        fitting = [c for c in offered if c.takes(types)]
        if not fitting:
            raise QuantValueError(
                f"tensorrt.plugin '{self.definition.plugin_id}'", f"no combination for {types}", "one",
                "offer it in autotune, with the layout LINEAR",
            )  # fmt: skip
        return fitting[0]._tactics[0] if fitting[0]._tactics else 0


class QuickCreator(IPluginCreatorV3Quick):
    """Makes a quick plugin from the attributes of a node or a plan."""

    def __init__(self, definition: PluginDefinition) -> None:
        super().__init__()
        self.definition, self.name = definition, definition.name
        self.plugin_version, self.plugin_namespace = "1", definition.namespace
        self.field_names = PluginFieldCollection(PluginField(name) for name in definition.attribute_types)

    def create_plugin(self, name: str, field_collection: Any, phase: Any = None, *_: Any) -> QuickPlugin:
        """Create the plugin."""
        fields = {field.name: field.data for field in field_collection}
        values = {name: self.definition.attribute(name, data) for name, data in fields.items()}
        return QuickPlugin(self.definition, values)


class _Operators:
    """``tensorrt.plugin.op``: plugins by namespace and name."""

    def __init__(self, path: str = "") -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}::{name}" if self._path else name
        if path in _DEFINITIONS:
            return _DEFINITIONS[path]
        if self._path or name.startswith("__"):
            raise AttributeError(f"no plugin '{path}' is registered")
        return _Operators(path)


_DEFINITIONS: dict[str, PluginDefinition] = {}


def register(plugin_id: str, lazy_register: bool = False) -> Callable[[Any], PluginDefinition]:
    """Register the decorated function, which describes the outputs of the plugin "namespace::name"."""

    def decorate(describe: Callable[..., Any]) -> PluginDefinition:
        definition = _DEFINITIONS[plugin_id] = PluginDefinition(plugin_id, describe)
        get_plugin_registry().register_creator(QuickCreator(definition), definition.namespace)
        return definition

    return decorate


def _decorator_of(part: str) -> Callable[[str], Callable[[Any], Any]]:
    def decorator(plugin_id: str) -> Callable[[Any], Any]:
        def decorate(function: Any) -> Any:
            if plugin_id not in _DEFINITIONS:
                raise QuantValueError(
                    f"tensorrt.plugin.{part}", f"'{plugin_id}'", "a plugin that register described",
                    "register it first",
                )  # fmt: skip
            setattr(_DEFINITIONS[plugin_id], part, function)
            return function

        return decorate

    decorator.__name__ = part
    return decorator


class PluginModule(ModuleType):
    """The module; a call of it is a call of `plugin`."""

    def __init__(self) -> None:
        super().__init__("tensorrt.plugin", __doc__)
        self.__dict__.update(
            register=register, op=_Operators(), AutoTuneCombination=AutoTuneCombination,
            **{name: _decorator_of(name) for name in ("impl", "aot_impl", "autotune")},
            **dict.fromkeys(("ShapeExpr", "SymInt32", "SymInt16", "SymInt8", "SymExpr"), ShapeExpr),
            **dict.fromkeys(("ShapeExprs", "SymExprs", "SymIntExprs"), ShapeExprs),
            Shape=quick_sizes.Shape, TensorDesc=TensorDesc, Tensor=HostTensor, cdiv=quick_sizes.cdiv,
            max=quick_sizes.larger, min=quick_sizes.smaller, size_tensor=quick_sizes.size_tensor,
            from_shape_expr=quick_sizes.from_shape_expr, KernelLaunchParams=KernelLaunchParams,
        )  # fmt: skip

    def __call__(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        return plugin(*args, **kwargs)
