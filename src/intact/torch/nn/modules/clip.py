"""`Clip`: the module form of `intact.torch.nn.functional.clip`."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from intact.errors import QuantValueError
from intact.torch.alias import OLD_NAME, is_aliased
from intact.torch.nn import functional as F

__all__ = ["Clip"]


class Clip(nn.Module):
    """Clamp to bounds that are parameters where they are learned, buffers otherwise.

    Args:
        clip_value_min, clip_value_max: The bounds; a number, or a tensor that broadcasts to the input.
        learn_min, learn_max: Make that bound a parameter.
    """

    clip_value_min: Tensor
    clip_value_max: Tensor

    def __init__(
        self,
        clip_value_min: float | Tensor,
        clip_value_max: float | Tensor,
        learn_min: bool = False,
        learn_max: bool = False,
    ) -> None:
        super().__init__()
        self._hold("clip_value_min", clip_value_min, learn_min)
        self._hold("clip_value_max", clip_value_max, learn_max)

    def _hold(self, name: str, value: float | Tensor, learned: bool) -> None:
        if learned and is_aliased() and isinstance(value, (Tensor, np.ndarray)):
            raise QuantValueError(
                f"Clip {name}", f"a learned bound of type {type(value).__name__}",
                f"clip_value_min/clip_value_max must be scalar, numbers as in {OLD_NAME}",
                "pass a float, or import intact.torch and do without its alias",
            )  # fmt: skip
        tensor = torch.as_tensor(value, dtype=torch.float32).detach().clone()
        if learned:
            self.register_parameter(name, nn.Parameter(tensor))
        else:
            self.register_buffer(name, tensor)

    def forward(self, inputs: Tensor) -> Tensor:
        return F.clip(inputs, self.clip_value_min, self.clip_value_max)
