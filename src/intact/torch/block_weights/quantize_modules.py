"""Quantize the weights of a module's linear layers in blocks, layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from intact.errors import QuantValueError
from intact.progress import Progress
from intact.ptq.blocks import (
    BlockFormat,
    BlockQuantizer,
    BlockResult,
    InputMoments,
    measure_inputs,
    settings_of,
    stack_rows,
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


@dataclass(repr=False, kw_only=True)
class BlockQuantizedModule(BlockResult):
    """Holds a module whose linear layers are `BlockWeightLinear`; `print` shows a summary.

    Attributes:
        model: The module, in evaluation mode.
        settings, layers: As of `BlockResult`.
        in_float: Why each other linear layer stays as it is, by path.
        notes: What else is to be known of a layer, by path.
    """

    model: nn.Module
    notes: dict[str, str] = field(default_factory=dict)


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
    quantizer = BlockQuantizer(settings, _BITS)
    result = BlockQuantizedModule(settings, quantizer.layers, reasons, model=model)
    if data is None or not quantizer.recipe.needs_moments:
        _quantize_nearest(result, layers, quantizer)
    else:
        _quantize_by_data(result, layers, _calls(model, data, settings.num_batches), quantizer)
    run_exactly(result.model)
    return result


def _calls(model: nn.Module, data: Iterable[Any], most: int | None) -> list[Call]:
    """Return at most so many batches as arguments of the model."""
    calls = [arguments_of(batch, model) for batch in islice(data, most)]
    if not calls:
        raise QuantValueError("data", "no batches", "at least one", "pass batches of inputs")
    return calls


def _quantize_nearest(
    result: BlockQuantizedModule, layers: Mapping[str, nn.Linear], quantizer: BlockQuantizer
) -> None:
    measured = ((path, _rows_of(path, layer), None) for path, layer in layers.items())
    grids = _choose_grids(result, layers, measured, quantizer)
    with Progress("quantize weights", len(layers), result.settings.progress) as progress:
        replacements = {
            path: _quantize_group(result, {path: layer}, None, grids[path], quantizer)[path]
            for path, layer in progress.over(list(layers.items()))
        }
    result.model = replace_modules_at(result.model, replacements)


def _quantize_by_data(
    result: BlockQuantizedModule, layers: Mapping[str, nn.Linear], calls: Sequence[Call],
    quantizer: BlockQuantizer,
) -> None:  # fmt: skip
    """Quantize each group of layers that read one tensor when all batches stand in front of it."""
    disable_fused_encoders(result.model)
    groups = {path: group for group in shared_inputs(result.model, layers, calls[0]) for path in group}
    grids = _choose_grids(result, layers, _measure_groups(result, layers, groups, calls), quantizer)
    streams = [ModuleStream(result.model, layers, calls)]
    if quantizer.recipe.corrects:
        plain = deep_copy(result.model)
        streams.append(ModuleStream(plain, {path: plain.get_submodule(path) for path in layers}, calls))
    with Progress("quantize weights", len(layers), result.settings.progress) as progress:
        left = dict(layers)
        with ExitStack() as stack:
            for stream in streams:
                stack.enter_context(stream)
            while (group := _next_group(streams, groups)) is not None:
                moments = _moments(group, streams)
                if moments is None:
                    result.notes |= dict.fromkeys(group, _NOT_REACHED)
                members = {path: left.pop(path) for path in group}
                modules = _quantize_group(result, members, moments, grids[group[0]], quantizer)
                for path, module in modules.items():
                    streams[0].gates[path].inner = module
                    for stream in streams:
                        stream.gates[path].is_open = True
                    progress.advance()
        for path, layer in left.items():
            result.notes[path] = _NOT_REACHED
            modules = _quantize_group(result, {path: layer}, None, grids[path], quantizer)
            streams[0].gates[path].inner = modules[path]
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


def _moments(group: Sequence[str], streams: Sequence[ModuleStream]) -> InputMoments | None:
    """Measure what a group reads; of two streams, that of the float model beside that behind codes."""
    where, size = f"the input of module '{group[0]}'", streams[0].size_of(group[0])
    return measure_inputs([(where, _inputs(group, streams))], size, crossed=len(streams) > 1)


def _inputs(group: Sequence[str], streams: Sequence[ModuleStream]) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield what a group reads in each batch, float32 [rows, K], in all streams."""
    for runs in zip(*(stream.runs for stream in streams), strict=True):
        if runs[0].gate is None or runs[0].gate.path not in group:
            continue
        x = _input_rows(runs[0].x)
        if len(runs) == 1:
            yield (x,)
            continue
        # Where the float model goes another way there is nothing to take back.
        other = runs[1].gate is not None and runs[1].gate.path in group and _input_rows(runs[1].x)
        yield x, other if isinstance(other, np.ndarray) and other.shape == x.shape else x


def _input_rows(x: Tensor | None) -> np.ndarray:
    assert x is not None
    return x.detach().to("cpu", torch.float32).reshape(-1, x.shape[-1]).numpy()


def _measure_groups(
    result: BlockQuantizedModule, layers: Mapping[str, nn.Linear], groups: Mapping[str, tuple[str, ...]],
    calls: Sequence[Call],
) -> Iterator[tuple[str, np.ndarray, InputMoments | None]]:  # fmt: skip
    """Run the float model; yield the first layer of each group, its weights [N, K] and what they multiply."""
    left = dict(layers)
    with ModuleStream(result.model, layers, calls) as stream:
        while (group := _next_group([stream], groups)) is not None:
            rows = [_rows_of(path, left.pop(path)) for path in group]
            yield group[0], stack_rows(rows), _moments(group, [stream])
            for path in group:
                stream.gates[path].is_open = True
    result.model = stream.finish()
    yield from ((path, _rows_of(path, layer), None) for path, layer in left.items())


def _choose_grids(
    result: BlockQuantizedModule, layers: Mapping[str, nn.Linear],
    measured: Iterable[tuple[str, np.ndarray, InputMoments | None]], quantizer: BlockQuantizer,
) -> dict[str, BlockFormat]:  # fmt: skip
    """Return the format of each layer; of a group under a budget that of its first one."""
    if result.settings.bits_budget is None:
        return dict.fromkeys(layers, result.settings.grid)
    return quantizer.choose_formats(measured)


def _rows_of(path: str, layer: nn.Linear) -> np.ndarray:
    """Return the weights of the layer at `path`, float32 [N, K]; errors name it."""
    return convert_at(path, partial(finite_rows, layer))


def _quantize_group(
    result: BlockQuantizedModule, layers: Mapping[str, nn.Linear], moments: InputMoments | None,
    grid: BlockFormat, quantizer: BlockQuantizer,
) -> dict[str, nn.Module]:  # fmt: skip
    """Choose the codes of layers that read one tensor; return modules by path."""
    matrices = [_rows_of(path, layer) for path, layer in layers.items()]
    codes, factors = quantizer.round(list(layers), matrices, moments, grid)
    inverses = None if factors is None else torch.from_numpy(1 / factors)
    make = partial(BlockWeightLinear, activations=result.settings.activations, channel_factors=inverses)
    return {
        path: convert_at(path, partial(make, weights, layer.bias))
        for (path, layer), weights in zip(layers.items(), codes, strict=True)
    }
