"""Quantize the weights of a module's linear layers in blocks, layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from intact.errors import CalibrationError, QuantValueError
from intact.formats import take_rows
from intact.progress import Progress
from intact.ptq.blocks import (
    RECIPES,
    BlockFormat,
    BlockSettings,
    FormatErrors,
    GroupStore,
    InputMoments,
    LayerCodes,
    candidate_formats,
    choose_formats,
    measure_formats,
    settings_of,
    summarize,
)
from intact.torch.block_weights.layers import BlockWeightLinear, finite_rows
from intact.torch.block_weights.linear_modules import (
    convert_at,
    disable_fused_encoders,
    find_linear_modules,
    replace_modules_at,
)
from intact.torch.block_weights.module_stream import Call, ModuleStream, shared_inputs
from intact.torch.exact import run_exactly
from intact.torch.models.batches import arguments_of
from intact.torch.models.modules import deep_copy, require_module, unwrap

__all__ = ["BlockQuantizedModule", "quantize_weights"]

_BITS = (3, 4, 5, 6, 8)
"""Numbers of bits that a budget chooses from: modules store each as it is."""

_NOT_REACHED = "no batch reached it: its codes are the nearest ones"


@dataclass(repr=False)
class BlockQuantizedModule:
    """Holds a module whose linear layers are `BlockWeightLinear`; `print` shows a summary.

    Attributes:
        model: The module, in evaluation mode.
        settings: What was asked for.
        layers: Those with codes, in the order in which they were quantized.
        in_float: Why each other linear layer stays as it is, by path.
        notes: What else is to be known of a layer, by path.
    """

    model: nn.Module
    settings: BlockSettings
    layers: list[LayerCodes] = field(default_factory=list)
    in_float: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        rows = self.summary()
        width = max(len(label) for label, _ in rows)
        return "\n".join(f"{label:<{width}}  {figure}" for label, figure in rows)

    def summary(self) -> list[tuple[str, str]]:
        """Return (label, figure) rows."""
        return summarize(self.settings, self.layers, self.in_float)


def quantize_weights(
    model: nn.Module, data: Iterable[Any] | None = None, *, inplace: bool = False, **options: Any
) -> BlockQuantizedModule:
    """Quantize the weights of linear layers in blocks; activations stay floats, or are int8 with
    dynamic ranges.

    With data the model runs layer by layer: weights are chosen for the inputs that a layer gets behind the
    layers that have codes already. What ONNX files get is chosen by the same functions.

    Args:
        model: A float module; what torch.compile or DataParallel put around it is left out of the result.
        data: Batches, as `intact.torch.calibrate` takes them. None: codes are the nearest ones.
        inplace: False: leave `model` alone and quantize a deep copy.
        **options: See `intact.ptq.blocks.BlockSettings`, but for `operator` and `batch_size`.
    Returns:
        The module, and the error of each layer.
    Raises:
        QuantValueError: An option is wrong, there is no linear layer, or there are no data for a method
            that needs some.
        CalibrationError: NaN or infinities in a layer's input; names it.
    """
    require_module(model, "quantize")
    for name in ("operator", "batch_size"):
        if options.get(name) is not None:
            raise QuantValueError(
                name, repr(options[name])[:60], "none: a module has no file and makes no batches",
                "leave it out",
            )  # fmt: skip
    settings = settings_of(options)
    settings.check_data(data)
    model = unwrap(model) if inplace else deep_copy(unwrap(model))
    model.eval()
    layers, reasons = find_linear_modules(model, settings.include, settings.exclude)
    if not layers:
        first = "; ".join(f"{path}: {why}" for path, why in list(reasons.items())[:3])
        raise QuantValueError(
            "model", "no linear layer to quantize" + (f" ({first})" if first else ""),
            "at least one nn.Linear", "change include and exclude, or quantize models with linear layers",
        )  # fmt: skip
    result = BlockQuantizedModule(model, settings, in_float=reasons)
    calls = _calls(model, data, settings)
    if calls:
        _quantize_by_data(result, layers, calls)
    else:
        _quantize_nearest(result, layers)
    run_exactly(result.model)
    return result


def _calls(model: nn.Module, data: Iterable[Any] | None, settings: BlockSettings) -> list[Call]:
    """Return the batches as arguments of the model; none where the method needs no data."""
    if data is None or not RECIPES[settings.method].needs_moments:
        return []
    calls = [arguments_of(batch, model) for batch in islice(data, settings.num_batches)]
    if not calls:
        raise QuantValueError("data", "no batches", "at least one", "pass batches of inputs")
    return calls


def _quantize_nearest(result: BlockQuantizedModule, layers: Mapping[str, nn.Linear]) -> None:
    costs = {path: _measure(result, {path: layer}, None) for path, layer in layers.items()}
    grids = _choose_grids(result, layers, costs)
    with Progress("quantize weights", len(layers), result.settings.progress) as progress:
        replacements = {
            path: _quantize_group(result, {path: layer}, None, grids[path])[path]
            for path, layer in progress.over(list(layers.items()))
        }
    result.model = replace_modules_at(result.model, replacements)


def _quantize_by_data(
    result: BlockQuantizedModule, layers: Mapping[str, nn.Linear], calls: Sequence[Call]
) -> None:
    """Quantize each group of layers that read one tensor when all batches stand in front of it."""
    disable_fused_encoders(result.model)
    groups = {path: group for group in shared_inputs(result.model, layers, calls[0]) for path in group}
    grids = _choose_grids(result, layers, _measure_all(result, layers, groups, calls))
    streams = [ModuleStream(result.model, layers, calls)]
    if RECIPES[result.settings.method].corrects:
        plain = deep_copy(result.model)
        streams.append(ModuleStream(plain, {path: plain.get_submodule(path) for path in layers}, calls))
    with Progress("quantize weights", len(layers), result.settings.progress) as progress:
        left = dict(layers)
        with ExitStack() as stack:
            for stream in streams:
                stack.enter_context(stream)
            while (group := _next_group(streams, groups)) is not None:
                moments = _moments(group, streams)
                members = {path: left.pop(path) for path in group}
                modules = _quantize_group(result, members, moments, grids[group[0]])
                for path, module in modules.items():
                    streams[0].gates[path].inner = module
                    for stream in streams:
                        stream.gates[path].is_open = True
                    progress.advance()
        for path, layer in left.items():
            result.notes[path] = _NOT_REACHED
            streams[0].gates[path].inner = _quantize_group(result, {path: layer}, None, grids[path])[path]
            progress.advance()
    result.model = streams[0].finish()


def _next_group(
    streams: Sequence[ModuleStream], groups: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...] | None:
    """Run all batches to a layer without codes; return the group of the first one's, None at the end."""
    for stream in streams:
        stream.advance()
    gates = [run.gate for run in streams[0].runs if run.gate is not None]
    if not gates:
        return None
    path = gates[0].path
    gates_by_path = streams[0].gates
    return tuple(p for p in groups.get(path, (path,)) if not gates_by_path[p].is_open)


def _moments(group: Sequence[str], streams: Sequence[ModuleStream]) -> InputMoments:
    """Measure what a group reads; of two streams, that of the float model beside that behind codes."""
    moments: InputMoments | None = None
    for runs in zip(*(stream.runs for stream in streams), strict=True):
        if runs[0].gate is None or runs[0].gate.path not in group:
            continue
        x = _rows(runs[0].x)
        reference = None
        if len(runs) > 1:
            # Where the float model goes another way there is nothing to take back.
            other = runs[1].gate is not None and runs[1].gate.path in group and _rows(runs[1].x)
            reference = other if isinstance(other, np.ndarray) and other.shape == x.shape else x
        moments = moments or InputMoments.zeros(x.shape[1], crossed=len(streams) > 1)
        moments.add(x, reference)
    assert moments is not None
    if not np.isfinite(moments.products).all():
        raise CalibrationError(
            f"the input of module '{group[0]}'", "NaN or infinity", "finite numbers",
            "look for the layer that gives it",
        )  # fmt: skip
    return moments.mean()


def _rows(x: Tensor | None) -> np.ndarray:
    assert x is not None
    return x.detach().to("cpu", torch.float32).reshape(-1, x.shape[-1]).numpy()


def _measure_all(
    result: BlockQuantizedModule, layers: Mapping[str, nn.Linear], groups: Mapping[str, tuple[str, ...]],
    calls: Sequence[Call],
) -> dict[str, FormatErrors]:  # fmt: skip
    """Measure the formats that a budget may choose on the float model, by the first layer of each group."""
    if result.settings.bits_budget is None:
        return {}
    costs: dict[str, FormatErrors] = {}
    left = dict(layers)
    with ModuleStream(result.model, layers, calls) as stream:
        while (group := _next_group([stream], groups)) is not None:
            members = {path: left.pop(path) for path in group}
            costs[group[0]] = _measure(result, members, _moments(group, [stream]))
            for path in group:
                stream.gates[path].is_open = True
    result.model = stream.finish()
    return costs | {path: _measure(result, {path: layer}, None) for path, layer in left.items()}


def _measure(
    result: BlockQuantizedModule, layers: Mapping[str, nn.Linear], moments: InputMoments | None
) -> FormatErrors:
    """Measure the formats of layers that read one tensor; nothing without a budget."""
    if result.settings.bits_budget is None:
        return FormatErrors(0, ())
    weight = np.concatenate([convert_at(path, partial(finite_rows, x)) for path, x in layers.items()])
    return measure_formats(weight, moments, candidate_formats(result.settings.grid, _BITS))


def _choose_grids(
    result: BlockQuantizedModule, layers: Mapping[str, nn.Linear], costs: Mapping[str, FormatErrors]
) -> dict[str, BlockFormat]:
    """Return the format of each layer; of a group under a budget that of its first one."""
    settings = result.settings
    if settings.bits_budget is None:
        return dict.fromkeys(layers, settings.grid)
    return choose_formats(costs, candidate_formats(settings.grid, _BITS), settings.bits_budget)


def _quantize_group(
    result: BlockQuantizedModule,
    layers: Mapping[str, nn.Linear],
    moments: InputMoments | None,
    grid: BlockFormat,
) -> dict[str, nn.Module]:
    """Choose the codes of layers that read one tensor; return modules by path."""
    settings = result.settings
    parts = [convert_at(path, partial(finite_rows, layer)) for path, layer in layers.items()]
    weight, recipe = np.concatenate(parts), RECIPES[settings.method]
    rounded = GroupStore(settings.state).round(weight, moments, grid, recipe, settings.strength)
    factors = rounded.channel_scales
    inverses = None if factors is None else torch.from_numpy(1 / factors)
    modules: dict[str, nn.Module] = {}
    begin = 0
    for (path, layer), part in zip(layers.items(), parts, strict=True):
        rows = slice(begin, begin := begin + len(part))
        weights, (error, square) = take_rows(rounded.weights, rows), rounded.errors[rows].sum(0)
        make = partial(
            BlockWeightLinear, weights, layer.bias, activations=settings.activations, channel_factors=inverses
        )
        modules[path] = convert_at(path, make)
        relative = float(error / max(square, 1e-300))
        result.layers.append(LayerCodes(path, (len(part), part.shape[1]), relative, grid.name))
    return modules
