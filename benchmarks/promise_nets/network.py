"""The record of one network of the benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

Call = tuple[Tensor, ...]
"""The positional arguments of one call."""


@dataclass(frozen=True)
class Network:
    """One architecture.

    Attributes:
        name: As people call it.
        family: What the table groups it by.
        make: The float module in evaluation mode, and calls of it: all but the last one calibrate, the last
            one is compared.
    """

    name: str
    family: str
    make: Callable[[], tuple[nn.Module, list[Call]]]
