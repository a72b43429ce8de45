"""Reads ranges and weights from a state dict of `pytorch_quantization`, without its module."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from intact.errors import FileFormatError
from intact.torch.pickled_models import load_pickled

_INPUT, _WEIGHT = "._input_quantizer._amax", "._weight_quantizer._amax"


@dataclass(frozen=True)
class CheckpointLayer:
    """Holds what a checkpoint says of one quantized layer.

    Attributes:
        name: Of its module.
        weight: Its weight, float32.
        weight_amax: Largest magnitudes that its codes reach, as stored: of all, or shaped to broadcast.
        input_amax: That of its input; None where the input is not quantized.
    """

    name: str
    weight: NDArray[np.float32]
    weight_amax: NDArray[np.float32]
    input_amax: float | None


def read_checkpoint_ranges(path: str | os.PathLike[str]) -> tuple[list[CheckpointLayer], list[str]]:
    """Return the layers of a checkpoint that have ranges, and the quantizers that belong to none of them.

    Args:
        path: A file of ``torch.save(model.state_dict(), path)``, or of a dict with one under "state_dict" or
            "model". No code of it runs.
    Raises:
        FileFormatError: There is no state dict with ranges in it.
        FileAccessError: It cannot be read.
    """
    state = _state_dict(load_pickled(path))
    ranges = {key for key, value in state.items() if key.endswith("._amax")}
    layers, used = list[CheckpointLayer](), set[str]()
    for key in sorted(ranges):
        name = key.removesuffix(_WEIGHT)
        weight = state.get(f"{name}.weight")
        if not key.endswith(_WEIGHT) or weight is None:
            continue
        used.update({key, f"{name}{_INPUT}"})
        stored = state.get(f"{name}{_INPUT}")
        amax = None if stored is None else float(stored.float().max())
        layers.append(CheckpointLayer(name, _array(weight), _array(state[key]), amax))
    if not layers:
        raise FileFormatError(
            f"file '{os.fspath(path)}'", "no '..._weight_quantizer._amax' beside a weight",
            "the state dict of a calibrated model of pytorch_quantization",
            "save it with torch.save(model.state_dict(), path), after calibration",
        )  # fmt: skip
    return layers, sorted(ranges - used)


def _state_dict(loaded: Any) -> Mapping[str, Tensor]:
    inner = [loaded.get(key) for key in ("state_dict", "model")] if isinstance(loaded, dict) else []
    for candidate in (loaded, *inner):
        if isinstance(candidate, torch.nn.Module):
            candidate = candidate.state_dict()
        if isinstance(candidate, Mapping) and any(isinstance(value, Tensor) for value in candidate.values()):
            return {str(key): value for key, value in candidate.items() if isinstance(value, Tensor)}
    return {}


def _array(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.detach().float().numpy()
