"""Quantizes the weights of an ONNX model in blocks, layer by layer."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact import graph
from intact.errors import QuantValueError
from intact.graph import Model, pipelines
from intact.numerics import BlockWeights
from intact.progress import Progress
from intact.ptq.blocks.apply_channel_scales import fold_channel_scales, insert_channel_scales
from intact.ptq.blocks.block_format import BlockFormat, activation_block
from intact.ptq.blocks.block_quantizer import BlockQuantizer, BlockResult, measure_inputs, stack_rows
from intact.ptq.blocks.block_settings import BlockSettings, settings_of
from intact.ptq.blocks.layer_stream import BranchStreams
from intact.ptq.blocks.linear_layers import LayerGroup, LinearLayer, find_linear_layers, group_by_input
from intact.ptq.blocks.round_group import InputMoments, Recipe
from intact.ptq.blocks.write_layers import (
    QDQ_OPSET,
    write_block_linear,
    write_dequantize,
    write_nbits,
)
from intact.ptq.data.batches import open_data
from intact.ptq.data.model_inputs import Feeds, inputs_of

_FOREIGN = "ONNX Runtime runs the branch or loop around it, and has no BlockLinear"


@dataclass(repr=False, kw_only=True)
class BlockQuantizedModel(BlockResult):
    """Holds a model whose weights are codes in blocks; `print` shows a summary.

    Attributes:
        model: The graph.
        settings, layers: As of `BlockResult`.
        in_float: Why each other MatMul and Gemm stays as it is, by name.
        muls: Names of the Muls that scaled input channels; of those that other parameters took, too.
        warnings: What a user should know.
    """

    model: Model
    muls: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return "\n".join([super().__repr__(), *(f"warning: {line}" for line in self.warnings)])

    @property
    def proto(self) -> Any:
        """The model as an `onnx.ModelProto`."""
        return graph.to_proto(self.model)

    def save(self, path: str | os.PathLike[str], *, external: bool | None = None) -> None:
        """Write the file: whole or not at all, the same bytes for the same work; see `intact.graph.save`.

        Args:
            path: Of the file.
            external: Put weights above 1 KiB into a file beside it; None: only where they exceed 2 GiB.
        Raises:
            FileAccessError: The path cannot be written; an old file stays as it is.
        """
        graph.save(self.model, path, external=external)


def quantize_weights(source: graph.Source, data: Any = None, **options: Any) -> BlockQuantizedModel:
    """Quantize the constant matrices of MatMul and Gemm in blocks; activations stay floats, or get ranges of
    their own while the model runs.

    With data the model runs piece by piece: each layer's weights are chosen for the inputs that it gets
    behind the layers that have codes already. Weights in external data are read one layer at a time.

    Args:
        source: A path, the bytes of a file, an `onnx.ModelProto` or an onnx-ir model; never changed.
        data: Calibration data, see `intact.ptq.open_data`. None: codes are the nearest ones.
        options: See `BlockSettings`.
    Returns:
        The quantized model, with the error of each layer.
    Raises:
        FileFormatError: The model or data file is damaged; names it.
        QuantValueError: An option is wrong, no layer has weights that can be quantized, or there are no data
            for a method that needs some.
        CalibrationError: NaN or infinities in a layer's input; names it.
        UnsupportedError: ONNX Runtime cannot run the model.
    """
    settings = settings_of(options)
    settings.check_operator()
    settings.check_data(data)
    model = graph.load(source)
    graph.run_stages(
        model, (pipelines.INLINE, pipelines.LIFT_CONSTANTS, pipelines.FLOAT_EXPERTS, pipelines.PRUNE)
    )
    if settings.file_operator == "DequantizeLinear":
        graph.upgrade_opset(model, QDQ_OPSET)
    layers, reasons = find_linear_layers(model, settings.include, settings.exclude)
    if settings.file_operator == "BlockLinear":
        layers, foreign = _split_foreign(model, layers)
        reasons |= {twin.name: _FOREIGN for layer in foreign for twin in layer.all}
    if not layers:
        raise QuantValueError(
            "model", "no MatMul or Gemm with a constant matrix of floats", "at least one",
            f"these stay: {'; '.join(f'{name}: {why}' for name, why in list(reasons.items())[:3])}"
            if reasons else "quantize models with linear layers",
        )  # fmt: skip
    quantizer = BlockQuantizer(settings, settings.file_bits)
    result = BlockQuantizedModel(settings, quantizer.layers, reasons, model=model)
    groups = deque(group_by_input(model, layers))
    del layers  # each holds pages of a file with external data, until it is done
    grids = _choose_grids(model, groups, data, settings, quantizer)
    streams = _open_streams(model, data, settings, quantizer.recipe)
    names = graph.Namer(model.graph)
    with Progress("quantize weights", len(groups), settings.progress) as progress:
        while groups:
            group = groups.popleft()
            _quantize_group(result, names, group, streams, grids[group.name], quantizer)
            progress.advance()
    fold_channel_scales(model, result.muls)  # at the end: streams hold tensors as they were
    graph.share_initializers(model)
    return result


def _split_foreign(
    model: Model, layers: Sequence[LinearLayer]
) -> tuple[list[LinearLayer], list[LinearLayer]]:
    """Split off the layers in bodies of loops, and in branches that no input selects: these are no plans."""
    selected = graph.ifs_by_input(model)
    parts: tuple[list[LinearLayer], list[LinearLayer]] = [], []
    for layer in layers:
        nodes = {node for twin in layer.all for node, _ in twin.path}
        parts[not nodes <= selected].append(layer)
    return parts


def _open_streams(model: Model, data: Any, settings: BlockSettings, recipe: Recipe) -> BranchStreams | None:
    """Return the streams of the model that gets codes, and of the float model where it is needed.

    None where the method needs no data.
    """
    if data is None or not recipe.needs_moments:
        return None
    plain = (model.clone(),) if recipe.corrects else ()
    return BranchStreams((model, *plain), _batches(model, data, settings))


def _choose_grids(
    model: Model, groups: Sequence[LayerGroup], data: Any, settings: BlockSettings, quantizer: BlockQuantizer
) -> dict[str, BlockFormat]:
    """Return the format of each group, by its name."""
    if settings.bits_budget is None:
        return {group.name: settings.grid_of(group.layers[0].names) for group in groups}
    batches = None if data is None else _batches(model, data, settings)
    measured = read_groups(model, groups, batches)
    return quantizer.choose_formats(
        (group.name, weight, moments) for group, (weight, moments) in zip(groups, measured, strict=True)
    )


def read_groups(
    model: Model, groups: Sequence[LayerGroup], batches: Sequence[Feeds] | None
) -> Iterator[tuple[NDArray[np.float32], InputMoments | None]]:
    """Yield the weights of each group, float32 [N, K], and the moments of what they multiply in floats.

    Args:
        model: Float; it stays as it is.
        groups: Of its layers, in the order of `group_by_input`.
        batches: Of its inputs; None: no moments, as where none reaches a group.
    """
    streams = None if batches is None else BranchStreams((model.clone(),), batches)
    for group in groups:
        weight = stack_rows(list(map(_finite_rows, group.layers)))
        yield weight, None if streams is None else _moments(group, streams)


def _batches(model: Model, data: Any, settings: BlockSettings) -> list[Feeds]:
    source = open_data(
        data, inputs_of(model), batch_size=settings.batch_size, num_batches=settings.num_batches
    )
    return list(source.batches)


def _quantize_group(
    result: BlockQuantizedModel, names: graph.Namer, group: LayerGroup, streams: BranchStreams | None,
    grid: BlockFormat, quantizer: BlockQuantizer,
) -> None:  # fmt: skip
    moments = None
    if streams is not None:
        moments = _moments(group, streams)
        if moments is None:
            result.warnings.append(
                f"{group.name}: no batch of the data reaches it; its codes are the nearest"
            )
    matrices = list(map(_finite_rows, group.layers))
    twins = [tuple(twin.name for twin in layer.twins) for layer in group.layers]
    codes, channel_scales = quantizer.round(
        [layer.name for layer in group.layers], matrices, moments, grid, twins
    )
    if channel_scales is not None:
        for layers in group.by_source():
            result.muls.append(insert_channel_scales(names, layers, channel_scales))
    for layer, weights in zip(group.layers, codes, strict=True):
        _write_layer(names, layer, weights, grid, result.settings)


def _write_layer(
    names: graph.Namer, layer: LinearLayer, weights: BlockWeights, grid: BlockFormat, settings: BlockSettings
) -> None:
    """Put the codes of a layer and its twins into the model, as the operator of the file says them."""
    if settings.file_operator == "DequantizeLinear":
        write_dequantize(names, layer, weights)
        return
    x_block = activation_block(grid.block_size, layer.shape[1]) if settings.accuracy_level else 0
    for twin in layer.all:
        if settings.file_operator == "BlockLinear":
            write_block_linear(names, twin, weights, x_block)
        else:
            write_nbits(names, twin, weights, settings.accuracy_level)


def _finite_rows(layer: LinearLayer) -> NDArray[np.float32]:
    """Return the weights of a layer, [N, K]; refuse what has no codes."""
    rows = layer.rows()
    if not np.isfinite(rows).all():
        raise QuantValueError(
            f"node '{layer.name}', weight '{layer.weight.name}'", "NaN or infinity", "finite numbers",
            "exclude the node, or look for what went wrong in training",
        )  # fmt: skip
    return rows


def _moments(group: LayerGroup, streams: BranchStreams) -> InputMoments | None:
    """Measure the inputs of a group, in all branches that have it; None where no batch reaches it.

    Of two models, those of the float model stand beside those behind codes.
    """
    tensors = (
        (f"tensor '{layer.source.name}', input of '{layer.name}'", streams.rows(layer))
        for layer, *_ in group.by_source()
    )
    return measure_inputs(tensors, group.size, crossed=streams.count > 1)
