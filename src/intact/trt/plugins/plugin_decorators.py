"""``tensorrt.plugin``, TensorRT 10's decorators for plugins: importable, and they say what to use instead.

The name is also that of `intact.trt.plugins.plugin.plugin`, so that the module can be called as it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from intact.errors import UnsupportedError
from intact.trt.plugins.plugin import plugin

DECORATORS = ("register", "impl", "aot_impl", "autotune")


class PluginModule(ModuleType):
    """The module; a call of it is a call of `plugin`."""

    def __init__(self) -> None:
        super().__init__("tensorrt.plugin", __doc__)
        self.__dict__.update({name: _refusing(name) for name in DECORATORS})

    def __call__(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        return plugin(*args, **kwargs)


def _refusing(name: str) -> Callable[..., NoReturn]:
    def decorator(plugin_id: str, **_: Any) -> NoReturn:
        """Refuse: its functions get tensors on a GPU.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            f"tensorrt.plugin.{name}", f"'{plugin_id}', whose functions get tensors on a GPU",
            "a plugin that computes on the host",
            "write an IPluginV3, or a function of NumPy arrays with @intact.trt.plugin",
        )  # fmt: skip

    decorator.__name__ = name
    return decorator
