"""Answer what native code asks about a plan: its arrays, and the parts that no kernel runs.

The other side: csrc/engine/host.h.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.backend import Packed
from intact.engine.codec import encode
from intact.engine.cpu.fallback import FallbackSessions
from intact.engine.files.plan_files import VERSION
from intact.engine.kernel_choices import FormChoice, FormChooser
from intact.engine.plan import Plan
from intact.engine.shapes import SizesUnknown, borrow, checksum, peek
from intact.engine.steps import FallbackSubgraph, Shape, Step
from intact.engine.steps.base.wiring import constants, reads, writes
from intact.errors import FileFormatError, IntactError, QuantValueError, UnsupportedError
from intact.kernels import WEIGHTS
from intact.limits import ENGINE_BYTES


class PlanHost:
    """Holds the arrays of a plan, and runs what no kernel does, while the plan is bound.

    Args:
        plan: The plan.
        fallback: Runs the parts.

    Attributes:
        packed_weights: Packed weights; what is missing is added.
        chooser: Decides where a layer has several forms.
        known_shapes: What parts made of inputs of these sizes, by tensor.
        choices: What the chooser chose, by native step; empty where it does not ask.
    """

    def __init__(self, plan: Plan, fallback: FallbackSessions) -> None:
        self.plan, self._fallback = plan, fallback
        self.packed_weights: Packed = {}
        self.chooser = FormChooser()
        self.known_shapes: Mapping[str, Shape] = {}
        self.choices: dict[int, FormChoice] = {}
        self._chosen: FormChoice | None = None

    def constant(self, name: str) -> NDArray[Any]:
        """Return a constant, dense; one of a plan file is compared with its checksum."""
        return np.asarray(self.plan.constants[name], order="C")

    def constant_to_pack(self, name: str) -> NDArray[Any]:
        """Return a constant of which only what is packed of it is needed later."""
        return np.asarray(borrow(self.plan, name), order="C")

    def checksum(self, name: str) -> int:
        """Return the CRC-32 of a constant's bytes."""
        return checksum(self.plan, name)

    def find_packed(self, constant: str, form: str) -> NDArray[Any] | None:
        """Return a packed weight; None where nobody has packed it yet."""
        return self.packed_weights.get((constant, form))

    def keep_packed(self, constant: str, form: str, dtype: str, packed: NDArray[np.uint8]) -> NDArray[Any]:
        """Take over a packed weight, the bytes of a vector of `dtype`."""
        array = self.packed_weights[constant, form] = WEIGHTS.copy(packed).view(dtype)
        return array

    def part_shapes(self, index: int, shapes: Sequence[Shape]) -> list[Shape]:
        """Return the shapes of what a part makes, from those of what it reads, as `fallback_shapes` does."""
        step = self.plan.steps[index]
        outputs = {name: self.known_shapes[name] for name in writes(step) if name in self.known_shapes}
        if not outputs:
            inputs = dict(zip(_tensors_read(self.plan, step), shapes, strict=True))
            outputs = dict(self._fallback.shapes(step, inputs))
        return [outputs[name] for name in writes(step)]

    def asks_for_layers(self) -> bool:
        """Return whether layers have to say what they are called."""
        return self.chooser.asks

    def choose_form(self, layer: str, forms: Sequence[str], standard: int) -> int:
        """Return the place of the form of a layer that runs; `standard`: of the default."""
        self._chosen = self.chooser.choose(layer, forms, forms[standard])
        return forms.index(self._chosen.form)

    def note_form(self, native_step: int) -> None:
        """Note that a native step has the form that was chosen last."""
        assert self._chosen is not None
        self.choices[native_step] = self._chosen


def record_of(plan: Plan) -> str:
    """Return the JSON of a plan for native code: that of plan files, but for parts."""
    named = {name for step in plan.steps if step.native for name in (*reads(step), *constants(step))}
    arrays = {name: peek(plan, name) for name in plan.constants if name in named}
    return json.dumps({
        "version": VERSION, "tool": "", "byte_order": sys.byteorder,
        "inputs": plan.inputs, "outputs": plan.outputs,
        "tensors": [encode(tensor) for tensor in plan.tensors.values()],
        "layers": [], "notes": [], "model": "", "deciding": [],
        "constants": [
            {"name": name, "dtype": a.dtype.name, "shape": a.shape, "crc32": 0} for name, a in arrays.items()
        ],
        "stored": [], "panels": [], "joined": [], "packed": [], "timings": [],
        "steps": [_record_of_step(plan, step) for step in plan.steps],
    })  # fmt: skip


def _record_of_step(plan: Plan, step: Step) -> Any:
    if step.native:
        return encode(step)
    return {
        "kind": "part", "name": step.name, "nodes": list(step.nodes),
        "may_guess": isinstance(step, FallbackSubgraph),
        "reads": _tensors_read(plan, step), "writes": list(writes(step)),
    }  # fmt: skip


def _tensors_read(plan: Plan, step: Step) -> list[str]:
    """Return the tensors that a part reads, each once."""
    return [name for name in dict.fromkeys(reads(step)) if name in plan.tensors]


def refusal(status: int, where: str, got: str, want: str, is_guess: bool, nbytes: int) -> IntactError:
    """Return the error for a refusal of native code.

    Args:
        status: An `intact_status` of include/intact.h.
        where, got, want: What it says.
        is_guess: Whether sizes come from a run on zeros.
        nbytes: Of what is too large; 0: nothing is.
    """
    if nbytes:
        return ENGINE_BYTES.excess(nbytes, where, QuantValueError)
    if status == _BAD_FILE:
        return FileFormatError(where, got, want, "build the plan again")
    if status == _UNSUPPORTED:
        return UnsupportedError(where, got, want, "report this model to INTact")
    fix = "give rows that are there" if status == _BAD_INDEX else _RIGHT_SHAPES
    return (SizesUnknown if is_guess else QuantValueError)(where, got, want, fix)


_BAD_FILE, _UNSUPPORTED, _BAD_INDEX = 3, 4, 6
_RIGHT_SHAPES = "give inputs of the shapes that the model was made for"
