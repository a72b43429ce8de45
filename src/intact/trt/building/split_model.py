"""Collects a model that a script hands over in parts: its bytes, and weights in its memory."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from intact.errors import IntactError
from intact.graph import weights_in, with_weights
from intact.trt.base.itensor import is_address


class StoredModel:
    """Model and initializers given to ``load_model_proto`` and ``load_initializer``.

    Attributes:
        bytes: The model, with the initializers that were given.
        folder: Where its external data lie; None: nowhere.
    """

    def __init__(self) -> None:
        self.bytes = b""
        self.folder: Path | None = None

    def load_model(self, model: bytes, path: str | None = None) -> bool:
        """Keep a model; return whether it has any bytes."""
        self.bytes, self.folder = bytes(model), None if path is None else Path(path).parent
        return bool(self.bytes)

    def load_initializer(self, name: str, data: Any, size: int | None = None) -> bool:
        """Replace weights: `data` is an array, bytes, or an address with `size` bytes."""
        try:
            weights = weights_in(self.bytes).get(name)
        except IntactError:  # `parse_model_proto` says what is wrong with the model
            return False
        if weights is None:
            return False
        if is_address(data):
            content = ctypes.string_at(int(data), weights.nbytes if size is None else int(size))
        else:
            content = bytes(memoryview(data).cast("B"))
        if len(content) != weights.nbytes:
            return False

        array = np.frombuffer(content, weights.dtype).reshape(weights.shape)
        self.bytes = with_weights(self.bytes, {name: array})
        return True
