"""The plans of one engine: one for all sizes of its inputs, or one for each set of them.

A model whose sizes are all known is lowered best: sizes are numbers, arithmetic with them is done, and every
operator finds its step. A plan for free sizes that had to leave something open (`Plan.model` holds the model
then) is lowered again for each set of input shapes. Constants are kept once, whatever plan names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.plan import Plan
from intact.engine.recent import Recent
from intact.engine.steps import Shape
from intact.engine.steps.wiring import renamed
from intact.errors import FileFormatError, QuantValueError


class Plans:
    """What an engine runs on inputs of certain shapes.

    Args:
        plan: For all shapes.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._found = Recent[Plan]()

    def at(self, shapes: Mapping[str, Shape]) -> Plan:
        """The plan for inputs of these shapes.

        Raises:
            QuantValueError: The model does not take them; names the input.
        """
        if not self.plan.model:
            return self.plan
        key = tuple(shapes[name] for name in self.plan.inputs)
        return self._found.get(key, lambda: self._lowered(shapes))

    @contextmanager
    def sized(self) -> Iterator[None]:
        """Of a plan for certain sizes, what does not fit was not in the file: say so.

        Raises:
            QuantValueError: In place of a FileFormatError.
        """
        try:
            yield
        except FileFormatError as error:
            if not self.plan.model:
                raise
            fix = "give inputs of the shapes that the model was made for"
            raise QuantValueError(error.where, error.got, "sizes that fit each other", fix) from error

    def _lowered(self, shapes: Mapping[str, Shape]) -> Plan:
        from intact.engine.lower import lower  # plans without a model run without ONNX

        plan = lower(self.plan.constants[self.plan.model].tobytes(), shapes)
        names = {name: self._name(name, array) for name, array in plan.constants.items()}
        constants = {
            new: self.plan.constants[new] if new in self.plan.constants else plan.constants[old]
            for old, new in names.items()
        }
        steps = tuple(renamed(step, names) for step in plan.steps)
        return replace(plan, steps=steps, constants=constants)

    def _name(self, name: str, array: NDArray[Any]) -> str:
        """A name under which no plan of this engine has another array: packed weights go by it."""
        held = self.plan.constants.get(name)
        if held is not None and held.dtype == array.dtype and np.array_equal(held, array):
            return name
        said = f"{array.dtype.name}{array.shape}".encode() + array.tobytes()
        return f"{name}@{blake2b(said, digest_size=16).hexdigest()}"
