"""torch's table of ONNX forms, built once: that takes as long as torch.export takes for a small model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from torch.onnx._internal.exporter._registration import ONNXRegistry

__all__ = ["registry_kept"]


@contextmanager
def registry_kept() -> Iterator[None]:
    """Let torch's exporter begin with a copy of the table that it built before for the same opset."""
    known = vars(ONNXRegistry).get("from_torchlib")
    if known is None:
        yield
        return

    def copied(*args: Any, **options: Any) -> ONNXRegistry:
        built = _built(known.__func__, args, tuple(options.items()))
        made = ONNXRegistry()
        vars(made).update(vars(built))
        made.functions = {target: list(forms) for target, forms in built.functions.items()}
        return made

    setattr(ONNXRegistry, "from_torchlib", staticmethod(copied))  # noqa: B010  # mypy: it is a classmethod
    try:
        yield
    finally:
        setattr(ONNXRegistry, "from_torchlib", known)  # noqa: B010


@cache
def _built(build: Any, args: tuple[Any, ...], options: tuple[tuple[str, Any], ...]) -> ONNXRegistry:
    built: ONNXRegistry = build(ONNXRegistry, *args, **dict(options))
    return built
