"""Keeps chosen layers in float."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.quantization_ranges import QuantizedWeight
from intact.ptq.scope.quantization_targets import Target
from intact.ptq.stages.bias_correction import drop_added
from intact.ptq.stages.int16_activations import Unit, note_reasons, with_reason


def keep_in_float(state: State, why: Mapping[Unit, str]) -> State:
    """Return `state` with the layers behind some units in float; ranges must be chosen again.

    Args:
        state: In front of the pairs.
        why: The units, each with the reason.
    """
    keys, nodes = {unit.key for unit in why}, {node for unit in why for node in unit.nodes}
    targets, weights = list[Target](), list[QuantizedWeight]()
    weights_left = iter(state.weights)
    for target in state.targets:
        if target.site.role == "activation":
            targets += [] if target.key in keys else [target]
            continue
        weight, readers = next(weights_left), tuple(r for r in target.readers if r[0] not in nodes)
        if readers:
            targets.append(replace(target, readers=readers))
            weights.append(replace(weight, readers=readers))
    model, errors = state.model.clone(), state.bias_errors
    drop_added(model, [error for error in errors if error.node in nodes])
    reasons = {node: f"in float: {reason}" for unit, reason in why.items() for node in unit.nodes}
    note_reasons(model, reasons)
    layers = tuple(with_reason(layer, reasons) for layer in state.placement.layers)
    return replace(
        state, model=model, targets=tuple(targets), weights=tuple(weights),
        bias_errors=tuple(error for error in errors if error.node not in nodes),
        in_float={name: reason for unit, reason in why.items() for name in unit.tensors},
        placement=replace(state.placement, layers=layers),
    )  # fmt: skip
