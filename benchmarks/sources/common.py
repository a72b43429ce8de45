"""Runs public sources for `toolkit_sources.py`: each one's functions in the order of its scripts.

Each driver gives its quantized network, an input, and the file that the source exported, if it exports one.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

Driven = tuple[Any, Any, str | None]
SOURCES: dict[str, Callable[[Path], Driven]] = {}


def source(name: str) -> Callable[[Callable[[Path], Driven]], Callable[[Path], Driven]]:
    def register(driver: Callable[[Path], Driven]) -> Callable[[Path], Driven]:
        SOURCES[name] = driver
        return driver

    return register


def absent(*names: str, **contents: Any) -> None:
    """Stand-ins for packages that are not there; `contents` of the last of them."""
    for name in names:
        if name not in sys.modules:
            try:
                importlib.import_module(name)
            except (ImportError, RuntimeError):
                for key in [key for key in sys.modules if key == name or key.startswith(name + ".")]:
                    del sys.modules[key]
                spec = ModuleSpec(name, None)
                sys.modules[name] = MagicMock(__spec__=spec, __path__=[], __name__=name)
    for key, value in contents.items():
        setattr(sys.modules[names[-1]], key, value)


def package(name: str, folder: Path | None = None, **contents: Any) -> ModuleType:
    """A package without its ``__init__``: its modules lie in `folder`."""
    result = ModuleType(name)
    result.__path__ = [] if folder is None else [str(folder)]
    result.__dict__.update(contents)
    sys.modules[name] = result
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, result)
    return result


def images(size: int, batches: int = 2, batch: int = 2) -> list[tuple[Any, ...]]:
    """Batches of images of bytes, as data loaders of detectors give them."""
    import torch

    generator = torch.Generator().manual_seed(0)
    shape = (batch, 3, size, size)
    return [
        (torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8), None, None, None)
        for _ in range(batches)
    ]


def first(value: Any) -> Any:
    """The first tensor of what a network gives."""
    import torch

    while not isinstance(value, torch.Tensor):
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value
