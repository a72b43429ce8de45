"""The names of the module ``tensorrt`` by dialect: what TensorRT 11 removed, and enumerations it changed."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from intact.trt.base.dialects import DialectChoice
from intact.trt.base.enums import IN_11
from intact.trt.base.removed_in_11 import REMOVED_IN_11
from intact.trt.base.removed_members import RemovedMemberError
from intact.trt.base.script_dialect import is_internal

_CHANGED = {kind.__name__: renumbered for kind, renumbered in IN_11.items()}


def missing_name(module: str, name: str) -> AttributeError:
    """Build the error for a name that `module` lacks, with what to use where TensorRT 11 removed it."""
    successor = REMOVED_IN_11[""].get(name)
    if successor is None:
        return AttributeError(f"module '{module}' has no attribute '{name}'")
    return RemovedMemberError.of(f"module '{module}'", name, "10.x", successor)


class _ModuleName:
    """Descriptor in the module's class, which comes before what the module itself holds."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, module: ModuleType | None, owner: type | None = None) -> Any:
        frame = sys._getframe(1)
        if module is None:
            return self
        if is_internal(frame) or DialectChoice().look(frame).dialect != "11.x":
            if self.name not in module.__dict__:
                raise AttributeError(f"module '{module.__name__}' has no attribute '{self.name}'")
            return module.__dict__[self.name]
        if self.name in _CHANGED:
            return _CHANGED[self.name]
        raise missing_name(module.__name__, self.name)

    def __set__(self, module: ModuleType, value: Any) -> None:
        module.__dict__[self.name] = value

    def __delete__(self, module: ModuleType) -> None:
        del module.__dict__[self.name]


class TrtModule(ModuleType):
    """A module with TensorRT's names, as the dialect of the script that reads them has them."""

    @property
    def __all__(self) -> list[str]:
        names = self.__dict__.get("__all__") or [n for n in self.__dict__ if not n.startswith("_")]
        return visible_names(names)


for _name in (*REMOVED_IN_11[""], *_CHANGED):
    setattr(TrtModule, _name, _ModuleName(_name))


def visible_names(names: Any) -> list[str]:
    """Return those of the module's names that its dialect has."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_internal(frame):
        frame = frame.f_back
    if DialectChoice().look(frame).dialect != "11.x":
        return sorted(names)
    return sorted(set(names) - set(REMOVED_IN_11[""]))
