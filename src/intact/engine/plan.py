"""The plan: steps in order, the tensors between them, and the constants that they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from intact.engine.steps import Step, Tensor
from intact.layer import Layer


@dataclass(frozen=True)
class Plan:
    """An integer model, lowered: what `engine.reference` evaluates and `engine.bind` makes native.

    Attributes:
        steps: In an order in which they can run.
        tensors: Every tensor that a step reads or writes, by name.
        constants: Every array that a step names. Of a plan file: each is verified when it is first asked for.
        inputs, outputs: Names of tensors, in the model's order and under the model's names.
        layers: What `explain` prints: the same records as for a file.
        notes: What the passes did, and what they could not do.
    """

    steps: tuple[Step, ...]
    tensors: dict[str, Tensor]
    constants: Mapping[str, NDArray[np.generic]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layers: tuple[Layer, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def check(self) -> None:
        """Refuse a plan that contradicts itself: every name is given once before it is used.

        Raises:
            FileFormatError: Names the step, the tensor or the constant.
        """
        from intact.engine.check import check  # which reads plans

        check(self)
