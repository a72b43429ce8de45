"""onnx-ir without SymPy, which it imports to compute with the names of sizes.

Nothing here adds or multiplies such names. This module comes before the first `import onnx_ir` and lets SymPy
wait until somebody does: 33 of the 36 MB that the import takes, and most of its time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

_FUNCTIONS = ("Max", "Min", "Mod", "floor", "sqrt")
"""Functions that onnx-ir puts into a table while it is imported."""


class _Later(ModuleType):
    """Proxy for a module, which it imports at the first use of an attribute."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is not self:
            return getattr(import_module(self.__name__), name)
        if name in _FUNCTIONS:
            return _later(self.__name__, name)
        raise AttributeError(f"module '{self.__name__}' is not imported yet: no '{name}'")


def _later(module: str, name: str) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        return getattr(import_module(module), name)(*args)

    return call


def import_light() -> None:
    """Import onnx_ir; as everybody does where SymPy is there already, or another thread might ask for it."""
    if "onnx_ir" in sys.modules or "sympy" in sys.modules or threading.active_count() > 1:
        return
    sys.modules["sympy"] = _Later("sympy")
    try:
        import_module("onnx_ir")
    except AttributeError:  # another onnx-ir, which wants more of it at once
        for name in [name for name in sys.modules if name.partition(".")[0] == "onnx_ir"]:
            del sys.modules[name]
    finally:
        del sys.modules["sympy"]


import_light()
