"""Quantizes some of the reads of a model, as a trial asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from intact import graph
from intact.calib import Ends
from intact.graph import Model, Session, is_op, set_initializer
from intact.ptq.analysis.model_segments import ModelSegment
from intact.ptq.data.parallel_runs import THREADS
from intact.ptq.measure.output_errors import FIX
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.quantization_ranges import QuantizedWeight
from intact.ptq.scope.quantization_targets import Read, Target
from intact.ptq.stages.insert_qdq import Marks
from intact.spec import QuantSpec


@dataclass(frozen=True, eq=False)
class QuantizedReads:
    """Says how each read of a quantized model is quantized.

    Attributes:
        activations: Targets with grid and range.
        weights: Targets with their constants.
        biases: (read of the weight that it makes up for, its value there), by initializer: a corrected bias
            belongs to the weight whose rounding it corrects, and is as it was where that weight is float.
        opset: Of the pairs.
    """

    activations: tuple[tuple[Target, QuantSpec, Ends], ...]
    weights: tuple[tuple[Target, QuantizedWeight], ...]
    biases: Mapping[str, tuple[Read, NDArray]]
    opset: int

    @property
    def reads(self) -> list[Read]:
        """Every quantized read, activations first."""
        targets = [*(target for target, _, _ in self.activations), *(target for target, _ in self.weights)]
        return [read for target in targets for read in target.readers]


def grids_of(before: State, after: State) -> QuantizedReads:
    """Collect the grids that the stages between `before` (without pairs) and `after` (with them) chose."""
    assert before.chooser is not None
    spec = before.chooser.spec
    weights = [target for target in before.targets if target.site.role == "weight"]
    return QuantizedReads(
        tuple((target, spec(target), after.ranges[target.key].ends) for target in before.activations),
        tuple(zip(weights, before.weights, strict=True)),
        _bias_changes(before.model, after.model, {read for t in weights for read in t.readers}),
        before.opset,
    )


def _bias_changes(before: Model, after: Model, weights: set[Read]) -> dict[str, tuple[Read, NDArray]]:
    changes = {}
    for name, value in before.graph.initializers.items():
        old, new = value.const_value, after.graph.initializers.get(name)
        uses = list(value.uses())
        if old is None or new is None or new.const_value is None or len(uses) != 1:
            continue
        node, index = uses[0]
        used = node.name or "", index
        if is_op(node, "Add"):  # behind a MatMul
            addend = node.inputs[1 - index]
            node = addend.producer() or node if addend is not None else node
        read = node.name or "", 1
        same = old.shape == new.const_value.shape and old.dtype == new.const_value.dtype
        if read in weights and used != read and same:
            array = new.const_value.numpy()
            if not np.array_equal(array, old.numpy()):
                changes[name] = read, array
    return changes


def segment_session(segment: ModelSegment, grids: QuantizedReads, on: frozenset[Read]) -> Session:
    """Return a session of `segment` with the reads `on` quantized.

    Args:
        segment: A part of the model.
        grids: How each read is quantized.
        on: The reads of `segment` that are quantized.
    """
    on &= segment.reads
    model = quantize_reads(segment.model, [(grids, on)]) if on else segment.model
    return Session(model, folded=True, threads=THREADS, fix=FIX)


def quantize_reads(source: Model, parts: Iterable[tuple[QuantizedReads, frozenset[Read]]]) -> Model:
    """Clone a float model with some reads quantized; each of `parts` has its own grids."""
    parts = list(parts)
    model = source.clone()
    opset = max(grids.opset for grids, _ in parts)
    if opset > model.opset_imports[""]:
        graph.upgrade_opset(model, opset)
    marks = Marks(model)
    for grids, on in parts:
        for target, spec, ends in grids.activations:
            if part := _restrict_readers(target, on):
                marks.add(part, spec, ends)
        for target, weight in grids.weights:
            if part := _restrict_readers(target, on):
                marks.add_weight(part, weight)
    graph.mark(model, marks.marks)
    graph.emit_qdq(model, opset)
    graph.prune(model)
    for grids, on in parts:
        for name, (read, array) in grids.biases.items():
            if read in on and name in model.graph.initializers:
                set_initializer(model, name, array)
    return model


def _restrict_readers(target: Target, on: frozenset[Read]) -> Target | None:
    """Return `target` with only those readers that are in `on`; None where there are none."""
    readers = tuple(read for read in target.readers if read in on)
    return replace(target, readers=readers) if readers else None
