"""Batches of any common shape, put through a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from intact.errors import QuantValueError

Forward = Callable[[nn.Module, Any], Any]


def forward_batch(model: nn.Module, batch: Any) -> Any:
    """``model(inputs)`` for a batch as data loaders give it, moved to the model's device.

    A tensor is the input. Of a tuple or list the first element is: a tensor; a tuple of positional
    arguments; or a dict of keyword arguments. A dict holds keyword arguments.
    """
    args, kwargs = arguments_of(batch, device_of(model))
    return model(*args, **kwargs)


def arguments_of(batch: Any, device: torch.device) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A batch, in a form that `forward_batch` takes, as positional and named arguments on `device`."""
    if isinstance(batch, (tuple, list)) and batch:
        batch = batch[0]
    batch = moved(batch, device)
    if isinstance(batch, Mapping):
        return (), dict(batch)
    if isinstance(batch, (tuple, list)) and batch:
        return tuple(batch), {}
    if isinstance(batch, Tensor):
        return (batch,), {}
    raise QuantValueError(
        "batch",
        f"a {type(batch).__name__}",
        "a tensor, a tuple or list that begins with the inputs, or a dict of keyword arguments",
        "pass forward=lambda model, batch: ... to say how the model takes it",
    )


def device_of(model: nn.Module) -> torch.device:
    """Where the model's first parameter lies; the CPU for a model without."""
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def moved(value: Any, device: torch.device) -> Any:
    """`value` with every tensor in its tuples, lists and dicts on `device`."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: moved(item, device) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [moved(item, device) for item in value]
    return value


def real_tensors(value: Any) -> list[Tensor]:
    """The floating-point tensors in a model's output, in order."""
    if isinstance(value, Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in real_tensors(item)]
    return []


def length_of(data: Iterable[Any]) -> int | None:
    """Number of batches in one pass, where `data` says it."""
    try:
        return len(data)  # type: ignore[arg-type]
    except TypeError:
        return None
