"""The first state of a quantization: the float model loaded, folded and placed."""

from __future__ import annotations

import os
from glob import escape
from pathlib import Path
from typing import Any

from intact import graph, placement
from intact.calib import Calibration
from intact.errors import QuantValueError
from intact.ptq.settings import Settings
from intact.ptq.sixteen import widened_by_name
from intact.ptq.state import State
from intact.ptq.targets import Rules


def prepared(source: graph.Source, data: Any, settings: Settings, *, checked: bool = False) -> State:
    """What `source` is before its first stage; it may have nothing to quantize.

    Args:
        source, data, settings: As for `quantize`.
        checked: See `intact.graph.load`.
    Raises:
        QuantValueError: An override, or a pattern of those that get 16 bits, fits nothing.
        FileFormatError, UnsupportedError: As for `quantize`.
    """
    model = graph.load(source, checked=checked)
    graph.inline_functions(model)
    graph.require_portable(model)
    graph.open_read_outputs(model)
    graph.settle(model)
    notes = [*graph.widen_float16(model), *graph.normalize(model), *graph.strip_dynamic(model)]
    notes += graph.fold_batchnorm(model)
    graph.lift_constants(model)
    rules = Rules(model, settings.layer, settings.overrides)
    opset = rules.opset(model.opset_imports.get("", 13), settings.opset)
    graph.raise_opset(model, opset)
    graph.check_after(model, "raise_opset")
    notes += graph.in_known_forms(model)
    left = [escape(name) for name in rules.float_nodes()]
    include, exclude = settings.include, settings.exclude
    placed = placement.place(model, settings.profile, include=include, exclude=[*exclude, *left])
    weight_only = rules.weight_only(include, exclude)
    placed = rules.split(rules.told(placed, weight_only))
    targets = rules.targets(placed, weight_only)
    stored = _stored_calibration(data)
    if stored is not None:
        settings.require_no_data()
    said = tuple(str(note) for note in notes if note.changed)
    return widened_by_name(State(settings, data, model, placed, tuple(targets), opset, said, stored))


class NothingToQuantizeError(QuantValueError):
    """There is no layer in a model that can be quantized, or that may be."""


def nothing_to_quantize(model: graph.Model) -> NothingToQuantizeError:
    """The error of a model in which no layer can be quantized.

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


def _stored_calibration(data: Any) -> Calibration | None:
    """Statistics given instead of data."""
    if isinstance(data, Calibration):
        return data
    if isinstance(data, (str, os.PathLike)) and Path(data).suffix == ".calib":
        return Calibration.load(data)
    return None
