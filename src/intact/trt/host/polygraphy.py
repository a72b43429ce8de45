"""Polygraphy's wrapper of CUDA on host memory: it loads CUDA's library itself, past ``cuda.cudart``."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from intact.trt.host import memory

NAME = "polygraphy.cuda.cuda"


class Cuda:
    """Result of ``polygraphy.cuda.wrapper()``: memory, copies and streams."""

    handle = None

    def check(self, status: int) -> None:
        """Do nothing: no status is an error."""

    def create_stream(self) -> int:
        """Return a stream, which is a number."""
        return memory.handle()

    def stream_synchronize(self, ptr: Any) -> None:
        """Do nothing: there is nothing to wait for."""

    def destroy_stream(self, ptr: Any) -> None:
        """Do nothing: a stream is a number."""

    def malloc(self, nbytes: int) -> int:
        """Allocate host memory."""
        return memory.allocate(nbytes)

    def free(self, ptr: Any) -> None:
        """Give memory back."""
        memory.free(ptr or 0)

    def memcpy(self, dst: Any, src: Any, nbytes: int, kind: Any, stream_ptr: Any = None) -> None:
        """Copy, at once."""
        memory.copy(dst, src, nbytes)


class _Loader(importlib.abc.Loader):
    """The module's own loader, and then `Cuda` in place of its class."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._own.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._own.exec_module(module)
        module.__dict__["Cuda"] = Cuda


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the one module, as Python would."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name == NAME else None
        if spec is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def install() -> None:
    """Let Polygraphy, whenever it is imported, keep its device memory on the host."""
    if NAME in sys.modules:
        sys.modules[NAME].__dict__.update(Cuda=Cuda, G_CUDA=None)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
