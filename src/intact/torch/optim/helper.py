"""Choose parameters by name for an optimizer, freeze them, and round weights in place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from intact.errors import QuantValueError, UnsupportedError
from intact.torch.nn.modules._utils import QuantMixin

__all__ = ["freeze_parameters", "group_parameters", "match_parameters", "quant_weight_inplace"]


def match_parameters(model: nn.Module, patterns: Sequence[str]) -> Iterator[nn.Parameter]:
    """Yield the parameters whose name one of `patterns` is found in (`re.search`), each once.

    Args:
        model: Where the parameters are.
        patterns: Regular expressions, such as ``["weight", "clip"]``.
    """
    return (param for _, param in _matching(model, patterns))


def group_parameters(
    model: nn.Module,
    patterns_list: Sequence[Sequence[str]],
    lrs: Sequence[float] | None = None,
    momentums: Sequence[float] | None = None,
    weight_decays: Sequence[float] | None = None,
) -> list[dict[str, Any]]:
    """Return parameter groups for an optimizer: one per list of patterns.

    Args:
        model: Where the parameters are.
        patterns_list: One list of regular expressions per group.
        lrs, momentums, weight_decays: One value per group, or None to leave it to the optimizer.
    Returns:
        A dictionary per group: ``params``, and of ``lr``, ``momentum``, ``weight_decay`` what was given.
    Raises:
        UnsupportedError: (a TypeError) The nesting or a length is wrong.
        QuantValueError: (a ValueError) A parameter falls into two groups.
    """
    if not _is_list(patterns_list) or not all(_is_list(patterns) for patterns in patterns_list):
        raise UnsupportedError(
            "patterns_list",
            f"{patterns_list!r}, which must be list of list of patterns",
            "a list of lists of patterns",
            "write [['weight'], ['bias']]",
        )
    options_by_name = {"lr": lrs, "momentum": momentums, "weight_decay": weight_decays}
    for key, values in options_by_name.items():
        if values is not None and (not _is_list(values) or len(values) != len(patterns_list)):
            raise UnsupportedError(
                f"{key}s",
                f"{values!r}, whose length must match that of patterns_list",
                f"a list of {len(patterns_list)} values",
                "give one value per list of patterns",
            )
    groups: list[dict[str, Any]] = []
    owner: dict[str, int] = {}
    for index, patterns in enumerate(patterns_list):
        matches = list(_matching(model, patterns))
        for name, _ in matches:
            if owner.setdefault(name, index) != index:
                raise QuantValueError(
                    f"parameter '{name}'",
                    f"matches in groups {owner[name]} and {index}",
                    "one group for each parameter",
                    "make the patterns exclusive, for example by anchoring them with ^ and $",
                )
        groups.append({"params": [param for _, param in matches]})
    for key, values in options_by_name.items():
        for group, value in zip(groups, values or (), strict=False):
            group[key] = value
    return groups


def freeze_parameters(model: nn.Module, patterns: Sequence[str]) -> None:
    """Set ``requires_grad`` to False for the parameters that `match_parameters` finds."""
    for param in match_parameters(model, patterns):
        param.requires_grad = False


def quant_weight_inplace(model: nn.Module) -> None:
    """Replace each quantized module's weights by their fake-quantized values (relax and round)."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, QuantMixin):
                for name, value in module.quantized_weights().items():
                    getattr(module, name).copy_(value)


def _matching(model: nn.Module, patterns: Sequence[str]) -> Iterator[tuple[str, nn.Parameter]]:
    if not _is_list(patterns):
        raise UnsupportedError("patterns", repr(patterns), "a list of patterns", "write ['weight']")
    for name, param in model.named_parameters():
        if any(re.search(pattern, name) for pattern in patterns):
            yield name, param


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))
