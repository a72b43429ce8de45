"""Cache torch's registry of ONNX translations.

Building it takes as long as torch.export of a small model.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from intact.torch.private_torch import BUILD_REGISTRY

__all__ = ["cached_registry"]


@contextmanager
def cached_registry() -> Iterator[None]:
    """Let torch's exporter start from a copy of the registry that was built for the same opset."""

    def wrap(original: Any) -> Any:
        def copy_of_registry(kind: Any, *args: Any, **options: Any) -> Any:
            registry = _build(original.__func__, kind, args, tuple(options.items()))
            copy = kind()
            vars(copy).update(vars(registry))
            copy.functions = {target: list(forms) for target, forms in registry.functions.items()}
            return copy

        return classmethod(copy_of_registry)

    with BUILD_REGISTRY.wrapping(wrap):
        yield


@cache
def _build(build: Any, kind: Any, args: tuple[Any, ...], options: tuple[tuple[str, Any], ...]) -> Any:
    return build(kind, *args, **dict(options))
