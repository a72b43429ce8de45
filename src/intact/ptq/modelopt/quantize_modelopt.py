"""Quantizes an ONNX model as a configuration of ModelOpt says: linear layers and attention."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from intact import graph
from intact.errors import QuantValueError, UnsupportedError
from intact.graph import Model, pipelines
from intact.progress import Progress
from intact.ptq.blocks import LayerGroup, find_linear_layers, fold_channel_scales, group_by_input
from intact.ptq.data.batches import open_data
from intact.ptq.data.model_inputs import Feeds, inputs_of
from intact.ptq.modelopt.attention_products import find_attention_products, module_paths
from intact.ptq.modelopt.attention_quantizers import AttentionTensor, attention_tensors, write_attention
from intact.ptq.modelopt.configurations import (
    Algorithm,
    QuantizerRules,
    read_quantizer_rules,
    read_rules,
    require_configuration,
)
from intact.ptq.modelopt.layer_quantizers import GroupPlan, plan_group, write_group
from intact.ptq.modelopt.tensor_statistics import ChannelStatistics, RangeStatistics, collect

_OPSET, _OPSET_OF_FP4 = 21, 23
"""The first opsets whose DequantizeLinear has blocks, and codes of fp4."""

_BLOCK_ALONG_SUM = "blocks of floats and scales of a run are for products with a matrix"


@dataclass(repr=False)
class ModelOptModel:
    """Holds a model with the quantizers of a configuration; `print` shows a summary.

    Attributes:
        model: The graph.
        layers: What each quantized layer and tensor of attention got, by name.
        errors: The squared error of each layer's weight relative to its squares.
        in_float: Why each other product and convolution stays as it is, by name.
        warnings: What a user should know.
    """

    model: Model
    layers: dict[str, str] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    in_float: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def proto(self) -> Any:
        """The model as an `onnx.ModelProto`."""
        return graph.to_proto(self.model)

    def save(self, path: str | os.PathLike[str], *, external: bool | None = None) -> None:
        """Write the file: whole or not at all; see `intact.graph.save`."""
        graph.save(self.model, path, external=external)

    def summary(self) -> list[tuple[str, str]]:
        """Return (label, figure) rows."""
        kinds: dict[str, int] = {}
        for kind in self.layers.values():
            kinds[kind] = kinds.get(kind, 0) + 1
        rows = [(kind, f"{count:,}") for kind, count in kinds.items()]
        rows.append(("layers in float", f"{len(self.in_float):,}"))
        if self.errors:
            worst = max(self.errors, key=lambda name: self.errors[name])
            rows.append(("worst weight", f"{worst}: error {self.errors[worst]:.1e}"))
        return rows

    def __repr__(self) -> str:
        rows = self.summary()
        width = max(len(label) for label, _ in rows)
        lines = [f"{label:<{width}}  {figure}" for label, figure in rows]
        return "\n".join([*lines, *(f"warning: {line}" for line in self.warnings)])


def quantize_modelopt(
    source: graph.Source,
    data: Any = None,
    config: str | Mapping[str, Any] = "NVFP4_DEFAULT_CFG",
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    num_batches: int | None = None,
    batch_size: int | None = None,
    progress: bool = True,
) -> ModelOptModel:
    """Quantize the linear layers and the attention of an ONNX model as a configuration of ModelOpt says.

    Patterns of the configuration are compared with the names of modules that torch's exporters leave in
    names of weights and nodes. NVFP4 and MXFP8 are written as ModelOpt writes them for TensorRT; other blocks
    as codes behind DequantizeLinear, and inputs as floats on their grid.

    Args:
        source: A path, the bytes of a file, an `onnx.ModelProto` or an onnx-ir model; never changed.
        data: Calibration data, see `intact.ptq.open_data`; None where nothing needs a range.
        config: The name of a configuration, or the dict itself, also after a way through JSON.
        include, exclude: Patterns over names of nodes and operator types, beside those of the configuration.
        num_batches, batch_size: Of the data, as for `intact.ptq.quantize`.
        progress: Draw a progress bar on standard error.
    Raises:
        UnsupportedError: The configuration asks for what INTact cannot do; names the field.
        QuantValueError: It has an unknown field, nothing of the model is quantized, or data are missing.
        CalibrationError: NaN or infinities in a tensor; names it.
    """
    rules = read_rules(config)
    job = _Job(source, rules, include, exclude)
    if not job.plans and not job.tensors:
        raise QuantValueError(
            "model", "no layer that the configuration quantizes", "at least one",
            f"these stay: {'; '.join(f'{name}: {why}' for name, why in list(job.in_float.items())[:3])}"
            if job.in_float else "quantize models with linear layers",
        )  # fmt: skip
    channels = job.collect(data, num_batches, batch_size)
    result = ModelOptModel(job.model, in_float=job.in_float, warnings=job.warnings)
    names, muls = graph.Namer(job.model.graph), list[str]()
    with Progress("quantize layers", len(job.plans) + len(job.tensors), progress) as bar:
        for plan in job.plans:
            statistics = channels.get(plan.source)
            written = write_group(
                names, plan, None if statistics is None else statistics.result(), rules.algorithm
            )
            result.layers |= written.layers
            result.errors |= written.errors
            muls += written.muls
            bar.advance()
        for tensor in job.tensors:
            result.layers[f"{tensor.name}: {tensor.kind}"] = write_attention(names, tensor)
            bar.advance()
    fold_channel_scales(job.model, muls)
    graph.prune(job.model)
    graph.share_initializers(job.model)
    return result


def layers_left_in_float(model: Model, config: str | Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of products and convolutions whose weights a configuration does not quantize.

    Args:
        model: It stays as it is.
        config: As for `quantize_modelopt`.
    """
    settings = require_configuration(config)
    rules = QuantizerRules(*read_quantizer_rules(settings), Algorithm())
    names = []
    for node in model.graph.all_nodes():
        if node.op_type in ("MatMul", "Gemm", "Conv", "ConvTranspose"):
            paths = module_paths(node, [value.name or "" for value in node.inputs[1:2] if value is not None])
            if not rules.of(paths, "weight_quantizer"):
                names.append(node.name or "")
    return tuple(names)


class _Job:
    """Holds the model and what of it is quantized.

    Args:
        source, include, exclude: As for `quantize_modelopt`.
        rules: Of the configuration.

    Attributes:
        model: In the form that quantizers are inserted into.
        plans: Groups of layers that get quantizers.
        tensors: Tensors of attention that get some.
        in_float: Why other layers get none, by name.
        warnings: What a user should know.
    """

    def __init__(
        self, source: graph.Source, rules: QuantizerRules, include: Sequence[str], exclude: Sequence[str]
    ) -> None:
        self._rules, self.warnings = rules, list[str]()
        self.model = graph.load(source)
        attention = (pipelines.ATTENTION,) if rules.has_attention else ()
        graph.run_stages(
            self.model,
            (
                pipelines.INLINE,
                pipelines.LIFT_CONSTANTS,
                pipelines.FLOAT_EXPERTS,
                *attention,
                pipelines.PRUNE,
            ),
        )
        graph.upgrade_opset(self.model, _OPSET_OF_FP4 if _has_fp4(rules) else _OPSET)
        layers, self.in_float = find_linear_layers(self.model, include, exclude)
        self.plans = [plan for group in group_by_input(self.model, layers) if (plan := self._plan(group))]
        self.tensors = self._attention() if rules.has_attention else []
        for node in self.model.graph:
            if node.op_type in ("Conv", "ConvTranspose"):
                paths = module_paths(node, [v.name or "" for v in node.inputs[1:2] if v is not None])
                if rules.of(paths, "weight_quantizer") or rules.of(paths, "input_quantizer"):
                    self.in_float[node.name or ""] = _BLOCK_ALONG_SUM

    def _plan(self, group: LayerGroup) -> GroupPlan | None:
        plan, reasons = plan_group(group, self._rules)
        self.in_float |= reasons
        return plan

    def _attention(self) -> list[AttentionTensor]:
        tensors = []
        products = find_attention_products(self.model)
        for attention in products:
            tensors += attention_tensors(attention, self._rules)
        if not products:
            raise UnsupportedError(
                "ModelOpt: quantizers of attention", "a model in which no attention is found",
                "two MatMuls with a Softmax between, or ONNX's Attention",
                "choose a configuration of linear layers, or export attention as such operators",
            )  # fmt: skip
        return tensors

    def collect(
        self, data: Any, num_batches: int | None, batch_size: int | None
    ) -> dict[str, ChannelStatistics]:
        """Run the data through the float model; return what they say of the inputs of layers, by tensor."""
        searches = self._rules.algorithm.method not in (None, "max")
        needing = [plan for plan in self.plans if plan.needs_data or searches]
        channels = {plan.source: ChannelStatistics(searches) for plan in needing}
        ranges: list[tuple[str, RangeStatistics]] = [
            (tensor.value.name or "", tensor.statistics) for tensor in self.tensors if tensor.needs_data
        ]
        if not channels and not ranges:
            return channels
        if data is None:
            raise QuantValueError(
                "data", "none for stored ranges", "inputs like those of its later work",
                "give some, or choose a configuration whose scales are all found while the model runs, "
                "as MXFP8_DEFAULT_CFG",
            )  # fmt: skip
        source = open_data(data, inputs_of(self.model), batch_size=batch_size, num_batches=num_batches)
        batches: list[Feeds] = list(source.batches)
        wanted: dict[str, list[ChannelStatistics | RangeStatistics]] = {}
        means = [(name, statistics) for name, statistics in ranges if statistics.needs_mean]
        for name, statistics in means:
            wanted.setdefault(name, []).append(statistics)
        if means:
            collect(self.model, batches, wanted)
            for _, statistics in means:
                statistics.finish_mean()
        wanted = {name: [statistics] for name, statistics in channels.items()}
        for name, statistics in ranges:
            wanted.setdefault(name, []).append(statistics)
        collect(self.model, batches, wanted)
        return channels


def _has_fp4(rules: QuantizerRules) -> bool:
    chains = [chain for _, chain in rules.rules]
    return any(quantizer.dtype.startswith("float4") for chain in chains for quantizer in chain.quantizers)
