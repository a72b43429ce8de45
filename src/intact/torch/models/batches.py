"""Batches of any common shape, put through a model."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from intact.errors import QuantValueError

Forward = Callable[[nn.Module, Any], Any]


def forward_batch(model: nn.Module, batch: Any) -> Any:
    """``model(inputs)`` for a batch as data loaders give it, moved to the model's device.

    A tensor is the input. Of a tuple or list the first element is: a tensor; a tuple of positional
    arguments; or a dict of keyword arguments. Where the model cannot do without more than one tensor, a tuple
    begins with all of them. A dict holds keyword arguments. A list of tensors is one argument where forward
    takes no more, or says so by an annotation: ``([image, image], targets)``.
    """
    args, kwargs = arguments_of(batch, model)
    return model(*args, **kwargs)


def arguments_of(batch: Any, model: nn.Module) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A batch, in a form that `forward_batch` takes, as positional and named arguments on its device."""
    device = device_of(model)
    if isinstance(batch, (tuple, list)) and batch:
        if takes_list(model, batch):
            return (moved(batch, device),), {}
        wanted = _required(model) if isinstance(batch[0], Tensor) else 1
        batch = batch[0] if wanted < 2 or len(batch) < wanted else tuple(batch[:wanted])
    batch = moved(batch, device)
    if isinstance(batch, Mapping):
        return ((), dict(batch)) if _takes(model, batch) else ((batch,), {})
    if isinstance(batch, (tuple, list)) and batch:
        one = takes_list(model, batch) or not _takes_each(model, batch)
        return ((batch,) if one else tuple(batch)), {}
    if isinstance(batch, Tensor):
        return (batch,), {}
    raise QuantValueError(
        "batch",
        f"a {type(batch).__name__}",
        "a tensor, a tuple or list that begins with the inputs, or a dict of keyword arguments",
        "pass forward=lambda model, batch: ... to say how the model takes it",
    )


_SEQUENCE = re.compile(r"(typing\.|collections\.abc\.)?(list|tuple|sequence|iterable)\b", re.IGNORECASE)


def takes_list(model: nn.Module, value: Any) -> bool:
    """Whether forward says that its first argument is a list of tensors, and `value` is one."""
    if not isinstance(value, (tuple, list)) or not all(isinstance(x, Tensor) for x in value):
        return False
    first = next(iter(_parameters_of(model)), None)
    kind = "" if first is None or first.annotation is first.empty else first.annotation
    named = kind if isinstance(kind, str) else inspect.formatannotation(kind)
    return bool(_SEQUENCE.match(named.strip("'\"")))


def _takes_each(model: nn.Module, values: Sequence[Any]) -> bool:
    """Whether forward takes so many positional arguments; else it may take them as one."""
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):
        return True
    return _binds(signature, tuple(values), {}) or not _binds(signature, (values,), {})


def _parameters_of(model: nn.Module) -> list[inspect.Parameter]:
    """Those of forward; none where it is no Python function."""
    try:
        return list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):
        return []


def _required(model: nn.Module) -> int:
    """How many positional arguments a model cannot do without."""
    parameters = _parameters_of(model)
    if not parameters:
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is p.empty for p in parameters)


def _takes(model: nn.Module, named: Mapping[str, Any]) -> bool:
    """Whether forward's arguments have these names; else it may take the dict itself, as its only one."""
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):
        return True
    return _binds(signature, (), named) or not _binds(signature, (named,), {})


def _binds(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def device_of(model: nn.Module) -> torch.device:
    """Where the model's first parameter lies; the CPU for a model without."""
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def moved(value: Any, device: torch.device) -> Any:
    """`value` with every tensor in its tuples, lists and dicts on `device`.

    Raises:
        QuantValueError: One has no values.
    """
    if isinstance(value, Tensor):
        if value.is_meta and device.type != "meta":
            raise QuantValueError("data", "a tensor on the meta device", "tensors with values",
                                  "make the batch on the CPU")  # fmt: skip
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: moved(item, device) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [moved(item, device) for item in value]
        if isinstance(value, list):
            return items
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
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


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor in a call's arguments or result; in data classes that PyTorch was not told of, too."""
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, Tensor):
            yield leaf
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            yield from tensors_in([getattr(leaf, item.name) for item in fields(leaf)])
