"""Loads, folds and places the float model: the first state of a quantization."""

from __future__ import annotations

import os
from dataclasses import replace
from glob import escape
from pathlib import Path
from typing import Any

from intact import graph, placement
from intact.calib import Calibration
from intact.errors import QuantValueError
from intact.graph import pipelines
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.name_patterns import ResolvedNames, node_names, with_resolved_names
from intact.ptq.scope.override_weights import idle_overrides, table_sites, with_table_reasons
from intact.ptq.scope.preset_grids import grids_of_pairs, grids_of_ranges
from intact.ptq.scope.quantization_targets import Rules, file_opset
from intact.ptq.scope.settings import Settings
from intact.ptq.stages.int16_activations import widen_by_name


def prepare_state(source: graph.Source, data: Any, settings: Settings, *, checked: bool = False) -> State:
    """Load `source` as the state in front of the first stage; it may have nothing to quantize.

    Args:
        source, data, settings: As for `quantize`.
        checked: See `intact.graph.load`.
    Raises:
        QuantValueError: A pattern fits nothing.
        FileFormatError, UnsupportedError: As for `quantize`.
    """
    model = graph.load(source, checked=checked)
    before, size = node_names(model), 0 if checked else stored_bytes(model)
    notes = graph.run_stages(model, pipelines.PTQ)
    if not settings.may_be_dynamic:
        notes += graph.run_stages(model, (pipelines.DYNAMIC_STATES,))
    stripped = graph.strip_qdq(model, keeps_codes=True) if _has_pairs(model) else {}
    if stripped:
        graph.refresh_shapes(model)
    notes += graph.run_stages(model, pipelines.FLOAT)
    grids = grids_of_pairs(stripped)
    if settings.ranges is not None:
        if not checked:  # a branch has some of the tensors alone
            _require_tensors(model, settings.ranges)
        grids |= grids_of_ranges(settings.ranges)
    opset = file_opset(settings, model.opset_imports.get("", 13))
    graph.upgrade_opset(model, opset)
    graph.check_after(model, "upgrade_opset")
    notes += graph.run_stages(model, pipelines.KNOWN_FORMS)
    names = ResolvedNames(settings)  # in a branch, patterns of the whole file may fit nothing
    if not checked:
        names = with_resolved_names(settings, before, model)
    settings = names.settings
    rules = Rules(model, settings.layer, settings.overrides, grids)
    four_bit_layers = _readers_of_few_bits(model)
    include, exclude = settings.include, [*settings.exclude, *map(escape, four_bit_layers)]
    left = [escape(name) for name in rules.float_nodes()]
    placed = placement.place(model, settings.profile, include=include, exclude=[*exclude, *left])
    weight_only = rules.weight_only(include, exclude)
    placed = _with_few_bits_reasons(rules.split(rules.with_reasons(placed, weight_only)), four_bit_layers)
    tables = table_sites(model, settings.overrides, exclude)
    placed = replace(placed, layers=tuple(with_table_reasons(placed, tables)))
    targets = rules.targets(placed, [*weight_only, *tables])
    idle = idle_overrides(model, names.overrides, settings.overrides or {}, targets, placed.layers)
    stored = _calibration_in(data)
    if stored is not None:
        settings.require_no_data()
    if any(target.settings.grid is not None for target in targets):
        # Other channels, or other codes of weights, would not lie on the grids that are given.
        settings = replace(settings, equalization=False, rounding=False)
    messages = tuple(str(note) for note in notes if note.changed)
    target_names = {target.site.value for target in targets}
    messages += tuple(
        f"{name}: no layer reads it in int8: its pair went" for name in grids if name not in target_names
    )
    state = State(
        settings,
        data,
        model,
        placed,
        tuple(targets),
        opset,
        messages,
        stored,
        warnings=(*names.warnings, *idle),
        stored_bytes=size,
    )
    return widen_by_name(state)


def _readers_of_few_bits(model: graph.Model) -> set[str]:
    """Return the names of nodes that read weights of 4 bits or fewer: as codes of 8 they would be larger."""
    behind = [node.outputs[0] for node in model.graph if graph.has_few_bits(node)]
    readers = list[graph.Node]()
    while behind:
        for node in behind.pop().consumers():
            readers.append(node)
            behind += node.outputs if graph.ops.may_move(node) and node.op_type != "Gather" else ()
    return {node.name or "" for node in readers}


def _with_few_bits_reasons(placed: placement.Placement, names: set[str]) -> placement.Placement:
    reason = "kept in float: its weight came with 4 bits or fewer, and keeps them"
    layers = (
        layer if names.isdisjoint(layer.nodes) else replace(layer, reason=reason) for layer in placed.layers
    )
    return replace(placed, layers=tuple(layers))


def stored_bytes(model: graph.Model) -> int:
    """Return the bytes of all constants of a model, those of branches included."""
    nodes = list(model.graph.all_nodes())
    graphs = {id(part): part for part in (model.graph, *(node.graph for node in nodes)) if part is not None}
    tensors = [value.const_value for part in graphs.values() for value in part.initializers.values()]
    tensors += [
        value.const_value for node in nodes if graph.is_op(node, "Constant") for value in node.outputs
    ]
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


class NothingToQuantizeError(QuantValueError):
    """No layer of the model can or may be quantized."""


def nothing_to_quantize(model: graph.Model) -> NothingToQuantizeError:
    """Build the error for a model in which no layer can be quantized.

    Layers that quantize while they run were made float again, where that can be done.
    """
    if there := sorted({node.op_type for node in model.graph if graph.is_dynamic(node)}):
        return NothingToQuantizeError(
            "model", f"a model that is quantized already ({', '.join(there)})", "a float model",
            "quantize the model that it was made from",
        )  # fmt: skip
    return NothingToQuantizeError(
        "model", "no layer that can be quantized", "at least one",
        "see the reasons that `intact explain` gives, or widen include and exclude",
    )  # fmt: skip


def _require_tensors(model: graph.Model, ranges: Calibration) -> None:
    values = (value for node in model.graph.all_nodes() for value in (*node.inputs, *node.outputs))
    names = {value.name for value in values if value is not None}
    if unknown := sorted(name for name in ranges if name not in names):
        raise QuantValueError(
            "ranges", f"{len(unknown)} tensors that the model does not have: {', '.join(unknown[:3])}",
            "statistics of this model", "take those of this file, under the names that it has",
        )  # fmt: skip


def _has_pairs(model: graph.Model) -> bool:
    return any(graph.is_op(node, "DequantizeLinear") for node in model.graph.all_nodes())


def _calibration_in(data: Any) -> Calibration | None:
    """Return the statistics that were given instead of data, or None."""
    if isinstance(data, Calibration):
        return data
    if isinstance(data, (str, os.PathLike)) and Path(data).suffix == ".calib":
        return Calibration.load(data)
    return None
