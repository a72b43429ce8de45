"""Quantizes the weights of an ONNX model in blocks, layer by layer."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact import graph
from intact.errors import CalibrationError, QuantValueError
from intact.formats import take_rows
from intact.graph import Model, pipelines
from intact.numerics import BlockWeights
from intact.progress import Progress
from intact.ptq.blocks.apply_channel_scales import fold_channel_scales, insert_channel_scales
from intact.ptq.blocks.block_format import BlockFormat, activation_block
from intact.ptq.blocks.block_settings import BlockSettings, settings_of
from intact.ptq.blocks.branch_streams import BranchStreams
from intact.ptq.blocks.group_store import GroupStore
from intact.ptq.blocks.layer_groups import LayerGroup, group_by_input
from intact.ptq.blocks.linear_layers import LinearLayer, find_linear_layers
from intact.ptq.blocks.mixed_bits import (
    candidate_formats,
    choose_formats,
    measure_formats,
    stored_bits,
)
from intact.ptq.blocks.round_group import RECIPES, InputMoments
from intact.ptq.blocks.write_layers import (
    QDQ_OPSET,
    write_block_linear,
    write_dequantize,
    write_nbits,
)
from intact.ptq.data.batches import open_data
from intact.ptq.data.model_inputs import Feeds, inputs_of

_FOREIGN = "ONNX Runtime runs the branch or loop around it, and has no BlockLinear"


@dataclass(frozen=True)
class LayerCodes:
    """Says what became of one layer.

    Attributes:
        name: Of the node; in a branch of an If behind that of the branch.
        shape: Outputs N and inputs K.
        error: Squared error of its outputs relative to their squares, on the calibration data; without data
            that of its weights.
        format: Of its codes.
        twins: Names of nodes of other branches that have the same codes.
    """

    name: str
    shape: tuple[int, int]
    error: float
    format: str = ""
    twins: tuple[str, ...] = ()


def summarize(
    settings: BlockSettings, layers: Sequence[LayerCodes], in_float: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return (label, figure) rows on what a quantization did."""
    weights = sum(n * k for n, k in (layer.shape for layer in layers))
    twins = sum(bool(layer.twins) for layer in layers)
    worst = max(layers, key=lambda layer: layer.error)
    counts = Counter(layer.format for layer in layers)
    formats = ", ".join(f"{name} ({count})" if len(counts) > 1 else name for name, count in counts.items())
    bits = [stored_bits(BlockFormat(layer.format, settings.block)) for layer in layers]
    mean = sum(b * n * k for b, (n, k) in zip(bits, (layer.shape for layer in layers), strict=True)) / weights
    return [
        ("layers with block weights", f"{len(layers):,}"),
        *([("of them in several branches", f"{twins:,}")] if twins else []),
        ("layers in float", f"{len(in_float):,}"),
        ("weights in codes", f"{weights:,}"),
        ("format", f"{formats} in blocks of {settings.block}"),
        ("bits for each weight", f"{mean:.2f}"),
        ("activations", settings.activations),
        ("written as", settings.file_operator),
        ("worst layer", f"{worst.name}: error {worst.error:.1e} of its output"),
    ]


@dataclass(repr=False)
class BlockQuantizedModel:
    """Holds a model whose weights are codes in blocks; `print` shows a summary.

    Attributes:
        model: The graph.
        settings: What was asked for.
        layers: Those with codes, in the order of the graph.
        in_float: Why each other MatMul and Gemm stays as it is, by name.
        muls: Names of the Muls that scaled input channels; of those that other parameters took, too.
        warnings: What a user should know.
    """

    model: Model
    settings: BlockSettings
    layers: list[LayerCodes] = field(default_factory=list)
    in_float: dict[str, str] = field(default_factory=dict)
    muls: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        rows = self.summary()
        width = max(len(label) for label, _ in rows)
        lines = [f"{label:<{width}}  {figure}" for label, figure in rows]
        return "\n".join([*lines, *(f"warning: {line}" for line in self.warnings)])

    def summary(self) -> list[tuple[str, str]]:
        """Return (label, figure) rows."""
        return summarize(self.settings, self.layers, self.in_float)

    @property
    def proto(self) -> Any:
        """The model as an `onnx.ModelProto`."""
        return graph.to_proto(self.model)

    def save(self, path: str | os.PathLike[str], *, external: bool | None = None) -> None:
        """Write the file: whole or not at all, the same bytes for the same work; see `intact.graph.save`."""
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
    result = BlockQuantizedModel(model, settings, in_float=reasons)
    groups = deque(group_by_input(model, layers))
    del layers  # each holds pages of a file with external data, until it is done
    store = GroupStore(settings.state)
    grids = _choose_grids(model, groups, data, settings)
    streams = _open_streams(model, data, settings)
    with Progress("quantize weights", len(groups), settings.progress) as progress:
        while groups:
            group = groups.popleft()
            _quantize_group(result, group, streams, grids[group.name], store)
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


def _open_streams(model: Model, data: Any, settings: BlockSettings) -> BranchStreams | None:
    """Return the streams of the model that gets codes, and of the float model where it is needed.

    None where the method needs no data.
    """
    if data is None or not RECIPES[settings.method].needs_moments:
        return None
    plain = (model.clone(),) if RECIPES[settings.method].corrects else ()
    return BranchStreams((model, *plain), _batches(model, data, settings))


def _choose_grids(
    model: Model, groups: Sequence[LayerGroup], data: Any, settings: BlockSettings
) -> dict[str, BlockFormat]:
    """Return the format of each group, by its name; under a budget by errors of the nearest codes."""
    if settings.bits_budget is None:
        return {group.name: settings.grid_of(group.layers[0].names) for group in groups}
    grids = candidate_formats(settings.grid, settings.file_bits)
    batches = None if data is None else _batches(model, data, settings)
    errors = {
        group.name: measure_formats(weight, moments, grids)
        for group, (weight, moments) in zip(groups, read_groups(model, groups, batches), strict=True)
    }
    return choose_formats(errors, grids, settings.bits_budget)


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
        yield _group_weight(group), None if streams is None else _moments(group, streams)


def _batches(model: Model, data: Any, settings: BlockSettings) -> list[Feeds]:
    source = open_data(
        data, inputs_of(model), batch_size=settings.batch_size, num_batches=settings.num_batches
    )
    return list(source.batches)


def _group_weight(group: LayerGroup) -> NDArray[np.float32]:
    """Return the weights of all layers of a group, [N, K]."""
    parts = [_finite_rows(layer) for layer in group.layers]
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def _quantize_group(
    result: BlockQuantizedModel, group: LayerGroup, streams: BranchStreams | None, grid: BlockFormat,
    store: GroupStore,
) -> None:  # fmt: skip
    settings, model = result.settings, result.model
    weight, moments = _group_weight(group), None
    if streams is not None:
        moments = _moments(group, streams)
        if moments is None:
            result.warnings.append(
                f"{group.name}: no batch of the data reaches it; its codes are the nearest"
            )
    rounded = store.round(weight, moments, grid, RECIPES[settings.method], settings.strength)
    if rounded.channel_scales is not None:
        for layers in group.by_source():
            result.muls.append(insert_channel_scales(model, layers, rounded.channel_scales))
    begin = 0
    for layer in group.layers:
        outputs, size = layer.shape
        rows = slice(begin, begin + outputs)
        weights, (error, square) = take_rows(rounded.weights, rows), rounded.errors[rows].sum(0)
        _write(model, layer, weights, grid, settings)
        relative = float(error / max(square, 1e-300))
        twins = tuple(twin.name for twin in layer.twins)
        result.layers.append(LayerCodes(layer.name, (outputs, size), relative, grid.name, twins))
        begin += outputs


def _write(
    model: Model, layer: LinearLayer, weights: BlockWeights, grid: BlockFormat, settings: BlockSettings
) -> None:
    """Put the codes of a layer and its twins into the model, as the operator of the file says them."""
    if settings.file_operator == "DequantizeLinear":
        write_dequantize(model, layer, weights)
        return
    x_block = activation_block(grid.block_size, layer.shape[1]) if settings.accuracy_level else 0
    for twin in layer.all:
        if settings.file_operator == "BlockLinear":
            write_block_linear(model, twin, weights, x_block)
        else:
            write_nbits(model, twin, weights, settings.accuracy_level)


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
    moments = InputMoments.zeros(group.size, crossed=streams.count > 1)
    for layer, *_ in group.by_source():
        for rows in streams.rows(layer):
            moments.add(*rows)
        if not np.isfinite(moments.products).all():
            source = layer.source.name
            raise CalibrationError(
                f"tensor '{source}', input of '{layer.name}'", "NaN or infinity", "finite numbers",
                "look for the layer that gives it",
            )  # fmt: skip
    return moments.mean() if moments.rows else None
