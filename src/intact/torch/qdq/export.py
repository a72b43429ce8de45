"""Implement `intact.torch.export`: write a module with quantizers as an ONNX file with Q/DQ pairs, and verify
it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from intact import graph, placement
from intact.errors import IntactError, QuantValueError, UnsupportedError, require_path
from intact.ptq.blocks import QDQ_OPSET
from intact.torch.block_weights.layers import BlockWeightLinear
from intact.torch.models.modules import require_module, unwrap
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.private_torch import pytree
from intact.torch.qdq.compare_engine import EngineComparison, compare_call
from intact.torch.qdq.qdq_model import example_arguments, qdq_model
from intact.torch.qdq.run_exporter import evaluating
from intact.torch.qdq.verify_export import Batch, CodeCheck, EndToEnd, compare_codes, compare_outputs

__all__ = ["ExportReport", "export"]

DEFAULT_OPSET = 17
"""The opset that TensorRT 8.6 and every later runtime reads."""


@dataclass(frozen=True)
class ExportReport:
    """Reports what an export wrote, and how far the file agrees with the module. `print` it.

    Attributes:
        path: The file.
        opset: Its opset.
        size: Its bytes.
        pairs: QuantizeLinear/DequantizeLinear pairs, or codes behind a DequantizeLinear, after sharing.
        folded: How many of them are stored codes.
        quantizers: Code by code, per quantizer, each layer on the same input codes; empty if not verified.
        end_to_end: Module and file each on its own; None if not verified.
        not_compared: Quantizers that the module runs and the file does not have.
        skipped: Why nothing was verified; empty if it was.
        float_steps: Steps of the file that another runtime may round differently, by kind
            (`intact.placement.float_steps`).
        fallback_parts: Parts of it that the engine leaves to ONNX Runtime; None where it cannot be compiled.
        comparison: Module and engine of the file, on the first batch of `verify`.
    """

    path: Path
    opset: int
    size: int
    pairs: int
    folded: int
    quantizers: tuple[CodeCheck, ...] = field(default=(), repr=False)
    end_to_end: EndToEnd | None = None
    not_compared: tuple[str, ...] = ()
    skipped: str = ""
    float_steps: dict[str, int] = field(default_factory=dict)
    fallback_parts: int | None = None
    comparison: EngineComparison = field(default=EngineComparison(skipped="verify=False"), repr=False)

    @property
    def agreement(self) -> str:
        """Say in one sentence what was compared, what differed, and where other runtimes may differ
        (numerics N32, N33).
        """
        return f"{self.comparison.sentence}; {placement.in_other_runtimes(self.float_steps)}"

    @property
    def codes(self) -> int:
        """Return how many codes were compared."""
        return sum(q.codes for q in self.quantizers)

    @property
    def codes_differing(self) -> int:
        """Return how many codes differ."""
        return sum(q.differing for q in self.quantizers)

    @property
    def answers_differing(self) -> int:
        """Return how many samples have another top-1 answer."""
        return self.end_to_end.answers_differing if self.end_to_end else 0

    def __str__(self) -> str:
        lines = [
            f"{self.path}: opset {self.opset}, {self.size:,} bytes, {self.pairs} Q/DQ pairs, "
            f"{self.folded} of them stored as codes"
        ]
        if self.end_to_end is None:
            return f"{lines[0]}\n  {self.agreement}\n  not verified: {self.skipped}"
        far = max((q.boundary for q in self.quantizers), default=0.0)
        lines.append(
            f"  codes, per layer:    {self.codes_differing:,} of {self.codes:,} differ"
            + (f", by at most {max(q.largest for q in self.quantizers)}, "
               f"{far:.1e} of a step from a rounding boundary" if self.codes_differing else "")
        )  # fmt: skip
        end = self.end_to_end
        if end.answers:
            lines.append(f"  top-1, end to end:   {end.answers_differing:,} of {end.answers:,} differ")
        if end.values:  # an output of indices has answers, and no distance
            lines.append(
                f"  outputs, end to end: {end.values_differing:,} of {end.values:,} differ noticeably, "
                f"by at most {end.max_abs_diff:.3g}"
            )
        lines.append(f"  {self.agreement}")
        if self.not_compared:
            lines.append(f"  not in the file: {', '.join(self.not_compared)}")
        return "\n".join(lines)


def export(
    model: nn.Module,
    example: Any,
    path: str | os.PathLike[str],
    *,
    opset: int | None = None,
    fold_weights: bool = True,
    dynamic_batch: bool = True,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    verify: bool | Iterable[Any] = True,
) -> ExportReport:
    """Write `model` as an ONNX file whose quantizers are QuantizeLinear/DequantizeLinear pairs.

    The model is exported in evaluation mode. int8 grids have zero point int8 0, unsigned ones uint8 0,
    asymmetric ones a real zero point; `pre_quant_scale` is a Mul, a narrow or learned range a Clip.

    Args:
        model: Calibrated: every active quantizer has its range. What torch.compile, DataParallel or
            DistributedDataParallel put around it is left out.
        example: One input of the model: a tensor, a tuple of positional or a dict of named arguments.
        path: The file; written whole or not at all.
        opset: 13..25. 16-bit and 4-bit grids need 21, fp8 needs 19. None: 17, or what quantizers and
            operators need. Block weights under float activations are a DequantizeLinear from 21 on, which
            is then the default, and ONNX Runtime's MatMulNBits in older opsets.
        fold_weights: Store weights as codes behind a DequantizeLinear; False: as floats in front of a pair.
        dynamic_batch: Leave the first dimension of the inputs that share it open, as "batch".
        dynamic_shapes: What else stays open, as `torch.export.export` takes it, in place of `dynamic_batch`:
            lengths of sequences, for example.
        input_names, output_names: Names in the file; None: those of forward's arguments, and those that a
            model which answers a dict or a data class gives its outputs.
        verify: True: compare module and file in ONNX Runtime on `example`. Batches like `example` (or
            pairs of one and its labels): codes on the first, answers on all. False: do not.
    Returns:
        What was written and how many codes and top-1 answers differ.
    Raises:
        CalibrationError: A quantizer has no range, or is still collecting.
        UnsupportedError: The opset cannot write a quantizer's format, or the model cannot be traced.
        QuantValueError: The checker refuses the file, or a quantizer does not fake-quantize.
        FileAccessError: `path` cannot be written.
    Warns:
        UserWarning: The model answers objects that are no tensors, as a cache of keys and values.
    """
    require_module(model, "export")
    require_path(path)
    model = unwrap(model)
    least = _default_opset(model) if opset is None else opset
    graph.check_opset(least)
    args, kwargs = example_arguments(example, model)
    with torch.no_grad(), evaluating(model):
        written, pairs = qdq_model(
            model,
            (args, kwargs),
            opset=least,
            newer=opset is None,
            fold_weights=fold_weights,
            dynamic_batch=dynamic_batch,
            dynamic_shapes=dynamic_shapes,
            input_names=input_names,
            output_names=output_names,
        )
        placed = placement.read_placement(written)
        placement.record_agreement(written, placed)
        data = graph.to_bytes(written)
        graph.write_model(data, path)
        distinct = {pair.real: pair.folded for pair in pairs}
        opset = written.opset_imports[""]
        steps = placement.float_steps(written, placed)
        report = ExportReport(
            Path(path), opset, len(data), len(distinct), sum(distinct.values()), float_steps=steps
        )
        if verify is False:
            parts = _fallback_parts(written)
            comparison = EngineComparison(skipped="verify=False", parts=parts or 0)
            return replace(report, skipped="verify=False", fallback_parts=parts, comparison=comparison)
        batches = [(args, kwargs)] if verify is True else _batches(verify, example, model)
        return _verify(model, (written, data), pairs, batches, report)


def _compare_engine(model: nn.Module, written: graph.Model, batch: Batch) -> EngineComparison:
    try:
        return compare_call(model, written, batch)
    except IntactError as error:
        return EngineComparison(skipped=str(error))


def _fallback_parts(written: graph.Model) -> int | None:
    """Return how many parts of the engine's plan run in ONNX Runtime; None where it makes no plan of the
    model.
    """
    from intact.engine.lower import lower
    from intact.engine.steps import FallbackSubgraph

    try:
        return sum(isinstance(step, FallbackSubgraph) for step in lower(written).steps)
    except IntactError:
        return None


def _default_opset(model: nn.Module) -> int:
    """Return the opset of a file where none is asked for."""
    quantizers = (m for m in model.modules() if isinstance(m, TensorQuantizer) and not m._disabled)
    formats = {q.format for q in quantizers if q._if_quant}
    floats = any(isinstance(m, BlockWeightLinear) and m.activations == "float" for m in model.modules())
    return max(
        QDQ_OPSET if floats else 0,
        DEFAULT_OPSET,
        *(graph.FORMAT_OPSETS.get(name, DEFAULT_OPSET) for name in formats),
        0,
    )


def _verify(
    model: nn.Module,
    file: tuple[graph.Model, bytes],
    pairs: Sequence[graph.Pair],
    batches: Iterable[Batch],
    report: ExportReport,
) -> ExportReport:
    stream = iter(batches)
    first = next(stream, None)
    if first is None:
        raise QuantValueError("verify", "no batches", "at least one", "pass True to verify on the example")
    written, data = file
    comparison = _compare_engine(model, written, first)
    parts = None if comparison.skipped else comparison.parts
    report = replace(report, comparison=comparison, fallback_parts=parts)
    if any(t.dtype == torch.bfloat16 for t in pytree.tree_leaves(first) if isinstance(t, Tensor)):
        return replace(report, skipped="ONNX Runtime takes no bfloat16 inputs from Python")
    try:
        checks, not_compared = compare_codes(model, data, pairs, first)
    except UnsupportedError as error:
        return replace(report, skipped=str(error))
    end = compare_outputs(model, data, _chain(first, stream))
    return replace(report, quantizers=tuple(checks), end_to_end=end, not_compared=tuple(not_compared))


def _chain(first: Batch, rest: Iterator[Batch]) -> Iterator[Batch]:
    yield first
    yield from rest


def _batches(data: Iterable[Any], example: Any, model: nn.Module) -> Iterator[Batch]:
    """Yield batches as calls. Where the example is one tensor, what follows the first item is labels."""
    for batch in data:
        labelled = isinstance(example, Tensor) and isinstance(batch, (tuple, list))
        yield example_arguments(batch[0] if labelled else batch, model)
