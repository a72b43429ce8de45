"""The plan: steps in order, the tensors between them, and the constants that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from intact.engine.compact_constants import Stored
from intact.engine.steps import STRING, Step, Tensor
from intact.engine.steps.base.wiring import Const, Reads, Writes, names_with_roles
from intact.errors import FileFormatError
from intact.layer import Layer

_FIX, _BUILD = "lower the model again", "build the plan again"


UNQUANTIZED = "nothing in the model is quantized: all of it runs in float"
"""A note of a plan that was lowered from a model without Q/DQ pairs."""


DYNAMIC = "layers that quantize their input while they run are left to ONNX Runtime"
"""A note of a plan that was lowered from a model with such layers."""


MOST_ELEMENTS = 2**24
"""Elements of all inputs of a self-test together."""


@dataclass(frozen=True)
class SelfTest:
    """Holds the self-test of a plan file.

    Attributes:
        seed: 0 to 2**32 - 1.
        shapes: Of every input, in the plan's order.
        checksums: CRC-32 of every output, in the plan's order.
    """

    seed: int
    shapes: tuple[tuple[int, ...], ...]
    checksums: tuple[int, ...]

    def check(self, ranks: Sequence[int], outputs: int) -> None:
        """Refuse what no writer of plans makes.

        Args:
            ranks: Of every input.
            outputs: How many there are.

        Raises:
            FileFormatError: Says which part.
        """
        where = "the self-test"
        if [len(shape) for shape in self.shapes] != list(ranks):
            raise FileFormatError(where, "other ranks", "sizes of every input", _BUILD)
        sizes = [size for shape in self.shapes for size in shape]
        if any(size < 0 for size in sizes) or sum(map(prod, self.shapes)) > MOST_ELEMENTS:
            raise FileFormatError(where, "other sizes", f"at most {MOST_ELEMENTS} elements in all", _BUILD)
        numbers = (self.seed, *self.checksums)
        if len(self.checksums) != outputs or not all(0 <= number < 2**32 for number in numbers):
            raise FileFormatError(where, "other numbers", "a seed, and a CRC-32 of every output", _BUILD)


@dataclass(frozen=True)
class Plan:
    """An integer model, lowered: what `evaluate` computes and a backend makes executable.

    Attributes:
        steps: In an order in which they can run.
        tensors: Every tensor that a step reads or writes, by name.
        constants: Every array that a step names. Of a plan file: each is verified when it is first asked for.
        inputs, outputs: Names of tensors, in the model's order and under the model's names.
        layers: What `explain` prints: the same records as for a file.
        notes: What the passes did, and what they could not do.
        model: Constant, uint8: the ONNX model, where the plan leaves open what the sizes of the inputs
            tell: it is lowered again for each set of them. "" where one plan is for all sizes.
        deciding: Inputs of one number each whose values say which branches run: where they are known, too,
            the model is lowered for these branches alone.
        stored: float32 constants in fewer bits, which a plan file holds instead.
        selftest: What proves on another machine that it runs right; None: nothing does.
    """

    steps: tuple[Step, ...]
    tensors: dict[str, Tensor]
    constants: Mapping[str, NDArray[np.generic]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layers: tuple[Layer, ...] = ()
    notes: tuple[str, ...] = field(default=())
    model: str = ""
    deciding: tuple[str, ...] = ()
    stored: Mapping[str, Stored] = field(default_factory=dict)
    selftest: SelfTest | None = None

    @property
    def is_unquantized(self) -> bool:
        """Return whether the model had no Q/DQ pairs."""
        return UNQUANTIZED in self.notes

    @property
    def dynamic(self) -> bool:
        """Return whether layers that quantize their input at run time are left to ONNX Runtime."""
        return DYNAMIC in self.notes

    def check(self) -> None:
        """Refuse a plan that contradicts itself: every name is given once before it is used.

        Raises:
            FileFormatError: Names the step, the tensor or the constant.
        """
        if both := self.tensors.keys() & self.constants.keys():
            got = "a tensor and a constant"
            raise FileFormatError(f"'{min(both)}'", got, "names that are given once", _FIX)
        for ports, where in ((self.inputs, "the inputs"), (self.outputs, "the outputs")):
            if len(set(ports)) < len(ports):
                raise FileFormatError(where, "a name twice", "distinct names", _FIX)
        if self.model and self.model not in self.constants:
            raise FileFormatError("the model", f"no constant '{self.model}'", "a constant of the plan", _FIX)
        defined = set(self.inputs)
        for name in self.inputs:
            self._require_tensor(name, "the inputs")
        for name in self.deciding:
            if not self.model or name not in self.inputs or self.tensors[name].dtype == STRING:
                raise FileFormatError(
                    "the deciding inputs", f"'{name}'", "inputs of a model that is held, of numbers", _FIX
                )
        for step in self.steps:
            self._check_names(step, defined)
        for name in self.outputs:
            if name not in defined:
                raise FileFormatError("the outputs", f"'{name}', which no step makes", "tensors", _FIX)
        if self.selftest is not None:
            self.selftest.check([len(self.tensors[name].shape) for name in self.inputs], len(self.outputs))
        for tensor in self.tensors.values():
            if (tensor.dtype == "codes") != (tensor.codes is not None):
                raise FileFormatError(f"tensor '{tensor.name}'", tensor.dtype, "codes with a grid", _FIX)

    def _check_names(self, step: Step, defined: set[str]) -> None:
        """Refuse undefined names that a step reads; define the names of its outputs."""
        where, outputs = f"step '{step.name}'", list[str]()
        for name, role in names_with_roles(step):
            if isinstance(role, Writes):
                outputs.append(name)
            elif isinstance(role, Const) and name not in self.constants:
                raise FileFormatError(where, f"no constant '{name}'", "a constant of the plan", _FIX)
            elif isinstance(role, Reads) and name not in defined:
                if role.constant and name in self.constants:
                    continue
                got = f"'{name}', which no step before it makes"
                raise FileFormatError(where, got, "a tensor that is there", _FIX)
        for name in outputs:
            if name in defined:
                raise FileFormatError(where, f"a second '{name}'", "names that are given once", _FIX)
            self._require_tensor(name, where)
            defined.add(name)

    def _require_tensor(self, name: str, where: str) -> None:
        if name not in self.tensors:
            raise FileFormatError(where, f"'{name}'", "a tensor of the plan", _FIX)
