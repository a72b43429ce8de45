"""Specialize the plan of an engine for input sizes and for the branches that input values select.

A model whose sizes are all known is lowered best: sizes are numbers, arithmetic with them is done, and every
operator finds its step. A plan for free sizes that had to leave something open (`Plan.model` holds the model
then) is lowered again for each set of input shapes, and for the values of inputs that decide between
branches. Constants are kept once, whatever plan names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.lru_cache import MOST_DECIDED, Recent, key_of
from intact.engine.plan import Plan
from intact.engine.steps import Shape
from intact.engine.steps.base.wiring import rename_tensors
from intact.errors import FileFormatError, QuantValueError

_STEP_BYTES = 2048  # of a step's record with its tensors

Arrays = Mapping[str, NDArray[Any]]


class OtherPorts(FileFormatError):
    """The model that a plan holds has other inputs or outputs than the plan."""


class Plans:
    """Holds the plans of one engine, by the shapes of its inputs and the values that decide branches.

    Args:
        plan: For all of them.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._found = Recent[Plan](self._nbytes)
        self._decided: set[tuple[bytes, ...]] = set()

    def deciding(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        """Return the inputs' values that decide between branches.

        Empty once they have taken too many values: the plan with open branches costs less then than one plan
        each.
        """
        if not self.plan.deciding or not all(name in arrays for name in self.plan.deciding):
            return {}
        values = {name: np.array(arrays[name]) for name in self.plan.deciding}
        key = tuple(array.tobytes() for array in values.values())
        if key not in self._decided and len(self._decided) == MOST_DECIDED:
            return {}
        self._decided.add(key)
        return values

    def at(self, shapes: Mapping[str, Shape], values: Arrays) -> Plan:
        """Return the plan for inputs of these shapes, of which some hold these values.

        Raises:
            QuantValueError: The model does not take them; names the input.
        """
        if not self.plan.model:
            return self.plan
        if values:  # where branches are all that was open, one plan is for all sizes
            plan = self._found.get(key_of({}, values), lambda: self._lower({}, values))
            if not plan.model:
                return plan
        return self._found.get(key_of(shapes, values), lambda: self._lower(shapes, values))

    @contextmanager
    def explain_size_errors(self) -> Iterator[None]:
        """Report misfits of a plan for certain sizes as an error of the inputs, not of the file.

        Raises:
            QuantValueError: In place of a FileFormatError.
            FileFormatError: The model that the plan holds is damaged, or has other inputs or outputs.
        """
        if self.plan.model:
            self.plan.constants[self.plan.model]  # compared with its checksum here
        try:
            yield
        except FileFormatError as error:
            if not self.plan.model or isinstance(error, OtherPorts):
                raise
            fix = "give inputs of the shapes that the model was made for"
            raise QuantValueError(error.where, error.got, "sizes that fit each other", fix) from error

    def _lower(self, shapes: Mapping[str, Shape], values: Arrays) -> Plan:
        from intact.engine.lower import lower  # plans without a model run without ONNX

        plan = lower(self.plan.constants[self.plan.model].tobytes(), shapes, values, keep_codes=False)
        self._check_ports(plan)
        names = {name: self._name(name, array) for name, array in plan.constants.items()}
        constants = {
            new: self.plan.constants[new] if new in self.plan.constants else plan.constants[old]
            for old, new in names.items()
        }
        steps = tuple(rename_tensors(step, names) for step in plan.steps)
        return replace(plan, steps=steps, constants=constants)

    def _nbytes(self, plan: Plan) -> int:
        """Return the bytes of constants that a plan does not share with the plan for all inputs."""
        own = (array.nbytes for name, array in plan.constants.items() if name not in self.plan.constants)
        return sum(own) + _STEP_BYTES * len(plan.steps)

    def _check_ports(self, plan: Plan) -> None:
        """Refuse a plan of the model whose inputs and outputs are not those that the engine has."""
        for kind in ("inputs", "outputs"):
            want, got = (
                [(n, p.tensors[n].stored_dtype, len(p.tensors[n].shape)) for n in getattr(p, kind)]
                for p in (self.plan, plan)
            )
            if want != got:
                raise OtherPorts(f"the {kind} of the model that the plan holds", f"{got}", f"{want}",
                                 "build the plan again")  # fmt: skip

    def _name(self, name: str, array: NDArray[Any]) -> str:
        """Return a name under which no plan of this engine has another array: packed weights go by it."""
        existing = self.plan.constants.get(name)
        if existing is not None and existing.dtype == array.dtype and np.array_equal(existing, array):
            return name
        content = f"{array.dtype.name}{array.shape}".encode() + array.tobytes()
        return f"{name}@{blake2b(content, digest_size=16).hexdigest()}"
