"""A module as something that arrays go into and come out of, for those who know no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from intact.errors import QuantValueError

__all__ = ["runner"]


def runner(model: nn.Module) -> Callable[[Mapping[str, NDArray]], list[NDArray]]:
    """What runs `model`, in evaluation mode, on arrays: its inputs in order, whatever their names.

    Raises:
        QuantValueError: It is no module.
    """
    if not isinstance(model, nn.Module):
        raise QuantValueError("module", f"a {type(model).__name__}", "a torch.nn.Module", "return one")
    model.eval()

    def run(feeds: Mapping[str, NDArray]) -> list[NDArray]:
        with torch.no_grad():
            made = model(*(torch.from_numpy(np.array(array)) for array in feeds.values()))
        return [leaf.float().numpy() for leaf in pytree.tree_leaves(made) if isinstance(leaf, Tensor)]

    return run
