"""Takes quantized reads of layers back, in front of the pairs."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import replace

from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.quantization_ranges import QuantizedWeight
from intact.ptq.scope.quantization_targets import Read, Target
from intact.ptq.stages.bias_correction import drop_added
from intact.ptq.stages.int16_activations import note_reasons, with_reason


def without_reads(
    state: State, reads: Container[Read], reasons: Mapping[str, str], integer: Collection[str] = ()
) -> State:
    """Return `state` with some reads unquantized, on a clone of its model; ranges must be chosen again.

    Args:
        state: In front of the pairs.
        reads: Which; a target that nobody reads any more goes.
        reasons: By node: why its layer has another format. What was to correct its bias goes, too.
        integer: Nodes whose layers still multiply integers.
    """
    targets, weights = list[Target](), list[QuantizedWeight]()
    weights_left = iter(state.weights)
    for target in state.targets:
        weight = next(weights_left) if target.site.role == "weight" else None
        if readers := tuple(read for read in target.readers if read not in reads):
            targets.append(replace(target, readers=readers))
            weights += [] if weight is None else [replace(weight, readers=readers)]
    model, errors = state.model.clone(), state.bias_errors
    drop_added(model, [error for error in errors if error.node in reasons])
    note_reasons(model, reasons)
    layers = tuple(with_reason(layer, reasons, integer) for layer in state.placement.layers)
    return replace(
        state, model=model, targets=tuple(targets), weights=tuple(weights),
        bias_errors=tuple(error for error in errors if error.node not in reasons),
        placement=replace(state.placement, layers=layers),
    )  # fmt: skip
