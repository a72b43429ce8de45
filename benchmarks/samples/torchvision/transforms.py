"""The three transforms of that sample."""

from __future__ import annotations

from typing import Any

import torch


class Compose:
    """One after the other."""

    def __init__(self, steps: list[Any]) -> None:
        self.steps = steps

    def __call__(self, x: Any) -> Any:
        for step in self.steps:
            x = step(x)
        return x


class ToTensor:
    """Bytes to [1, height, width] in 0 to 1."""

    def __call__(self, x: Any) -> torch.Tensor:
        return torch.from_numpy(x)[None].float() / 255


class Normalize:
    """By a mean and a deviation."""

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        self.mean, self.std = mean[0], std[0]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.mean) / self.std
