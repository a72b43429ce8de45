"""Run a model on batches of any common shape."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from intact.errors import QuantValueError
from intact.torch.private_torch import pytree

Forward = Callable[[nn.Module, Any], Any]


def forward_batch(model: nn.Module, batch: Any) -> Any:
    """Call the model on a batch as data loaders give it, moved to the model's device.

    A tensor is the input. Of a tuple or list the first element is: a tensor; a tuple of positional
    arguments; or a dict of keyword arguments. Where the model cannot do without more than one tensor, a tuple
    begins with all of them. A dict holds keyword arguments. A list of tensors is one argument where forward
    takes no more, or says so by an annotation: ``([image, image], targets)``.
    """
    args, kwargs = arguments_of(batch, model)
    return model(*args, **kwargs)


def arguments_of(batch: Any, model: nn.Module) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a batch, as `forward_batch` takes it, as positional and named arguments on the device of the
    model.
    """
    device = device_of(model)
    if isinstance(batch, (tuple, list)) and batch:
        if takes_list(model, batch):
            return (move_to(batch, device),), {}
        needed = _count_required(model) if isinstance(batch[0], Tensor) else 1
        batch = batch[0] if needed < 2 or len(batch) < needed else tuple(batch[:needed])
    batch = move_to(batch, device)
    if isinstance(batch, Mapping):
        return ((), dict(batch)) if _takes(model, batch) else ((batch,), {})
    if isinstance(batch, (tuple, list)) and batch:
        as_one = takes_list(model, batch) or not _takes_each(model, batch)
        return ((batch,) if as_one else tuple(batch)), {}
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
    """Return whether forward annotates its first argument as a list, and `value` is a list of tensors."""
    if not isinstance(value, (tuple, list)) or not all(isinstance(x, Tensor) for x in value):
        return False
    first = next(iter(_parameters_of(model)), None)
    kind = "" if first is None or first.annotation is first.empty else first.annotation
    named = kind if isinstance(kind, str) else inspect.formatannotation(kind)
    return bool(_SEQUENCE.match(named.strip("'\"")))


def _takes_each(model: nn.Module, values: Sequence[Any]) -> bool:
    """Return whether forward takes so many positional arguments; otherwise it may take them as one."""
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):
        return True
    return _binds(signature, tuple(values), {}) or not _binds(signature, (values,), {})


def _parameters_of(model: nn.Module) -> list[inspect.Parameter]:
    """Return the parameters of forward; none where it is no Python function."""
    try:
        return list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):
        return []


def _count_required(model: nn.Module) -> int:
    """Return how many positional arguments without a default forward has."""
    parameters = _parameters_of(model)
    if not parameters:
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is p.empty for p in parameters)


def _takes(model: nn.Module, named: Mapping[str, Any]) -> bool:
    """Return whether forward's arguments have these names; otherwise it may take the dict as its only
    argument.
    """
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
    """Return the device of the model's first parameter; the CPU for a model without parameters."""
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def move_to(value: Any, device: torch.device) -> Any:
    """Return `value` with every tensor in its tuples, lists and dicts on `device`.

    Raises:
        QuantValueError: A tensor has no values (meta device).
    """
    if isinstance(value, Tensor):
        if value.is_meta and device.type != "meta":
            raise QuantValueError("data", "a tensor on the meta device", "tensors with values",
                                  "make the batch on the CPU")  # fmt: skip
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: move_to(item, device) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [move_to(item, device) for item in value]
        if isinstance(value, list):
            return items
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def real_tensors(value: Any) -> list[Tensor]:
    """Return the floating-point tensors in a model's output, in order."""
    if isinstance(value, Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in real_tensors(item)]
    return []


def length_of(data: Iterable[Any]) -> int | None:
    """Return the number of batches in one pass; None where `data` has no length."""
    try:
        return len(data)  # type: ignore[arg-type]
    except TypeError:
        return None


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield every tensor in a call's arguments or result, also inside data classes that PyTorch does not
    know.
    """
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, Tensor):
            yield leaf
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            yield from tensors_in([getattr(leaf, item.name) for item in fields(leaf)])
