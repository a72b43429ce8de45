"""Custom layers: operators with a Python body, for networks and for ONNX files of their own domains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from intact.engine import Operator, Quantized, find, register
from intact.engine import OutputGrid as Grid
from intact.errors import QuantValueError
from intact.graph import STORED, TypedComposer
from intact.trt.base.host_interfaces import ILogger
from intact.trt.base.operation_enums import LayerType
from intact.trt.layers import ILayer
from intact.trt.plugins.nms_plugin import install
from intact.trt.plugins.plugin_registry import PluginCall

Body = TypeVar("Body", bound=Callable[..., Any])

__all__ = ["Grid", "IPluginV2Layer", "Quantized", "init_libnvinfer_plugins", "plugin"]


def plugin(
    name: str, *, shapes: Callable[..., Any] | None = None, int8: bool = False, outputs: int = 1
) -> Callable[[Body], Body]:
    """Register the decorated function as the operator `name`.

    Args:
        name: "domain::Name"; nodes of that domain and operator type are it, in files too.
        shapes: Shapes of the outputs from those of the inputs; None: as the first input.
        int8: The body reads `Quantized` codes and returns codes on the grids that it gets as `outputs`.
            Between Dequantize and Quantize layers it then runs on their codes, and nothing is converted.
        outputs: Number of outputs.
    Raises:
        QuantValueError: The name has no domain.

    Example:
        >>> @plugin("doc::Negate", int8=True)
        ... def negate(x, *, outputs):
        ...     grid = outputs[0]
        ...     steps = (x.codes.astype(int) - x.zero_point) * (float(x.scale) / float(grid.scale))
        ...     return (grid.zero_point - steps.round()).clip(grid.low, grid.high).astype(grid.dtype)
    """

    def keep(body: Body) -> Body:
        register(name, body, shapes=shapes, codes=int8, outputs=outputs)
        return body

    return keep


def init_libnvinfer_plugins(logger: ILogger, namespace: str) -> bool:
    """Register INTact's plugins of TensorRT's own library (EfficientNMS_TRT), as an import does.

    Return True.
    """
    install()
    return True


install()


class IPluginV2Layer(ILayer):
    """A layer of a registered operator.

    Attributes:
        operator: "domain::Name".
        attributes: What the body gets as keyword arguments.
    """

    TYPE = LayerType.PLUGIN_V2
    operator: str = ""
    attributes: dict[str, Any] = {}
    _plugin: Any = None
    plugin = property(lambda self: self._plugin)

    def _title(self) -> str:
        return "PluginV2"

    def _count(self) -> int:
        return require_operator(self.operator).outputs

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        domain, _, op_type = self.operator.partition("::")
        c.node(op_type, x, y, name=self.name, domain=domain, **self.attributes)
        body = require_operator(self.operator).body
        for output, dtype in zip(y, body.types if isinstance(body, PluginCall) else (), strict=False):
            if dtype.numpy.name in STORED:
                c.set_type(output, dtype.numpy.name)


class IPluginV3Layer(IPluginV2Layer):
    """A layer of a plugin of TensorRT 10."""

    TYPE = LayerType.PLUGIN_V3

    def _title(self) -> str:
        return "PluginV3"


def require_operator(name: str) -> Operator:
    """Return the operator called `name`.
    Raises:
        QuantValueError: No operator of that name is registered.
    """
    operator = find(name)
    if operator is None:
        raise QuantValueError(
            "plugin", f"'{name}'", "a registered operator", "register it with @plugin first"
        )
    return operator
