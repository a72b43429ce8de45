"""`intact.torch.export`: a module with quantizers becomes an ONNX file with Q/DQ pairs, and is checked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from intact import graph
from intact.errors import CalibrationError, QuantValueError, UnsupportedError
from intact.torch.export_check import Batch, CodeCheck, EndToEnd, compare_codes, compare_outputs
from intact.torch.nn import TensorQuantizer
from intact.torch.onnx_ops import evaluating, is_dynamic, translate

__all__ = ["ExportReport", "export"]

DEFAULT_OPSET = 17
"""What TensorRT 8.6 and every later runtime reads."""


@dataclass(frozen=True)
class ExportReport:
    """What an export wrote, and how far the file agrees with the module. `print` it.

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

    @property
    def codes(self) -> int:
        """Codes that were compared."""
        return sum(q.codes for q in self.quantizers)

    @property
    def codes_differing(self) -> int:
        """Codes that differ."""
        return sum(q.differing for q in self.quantizers)

    @property
    def answers_differing(self) -> int:
        """Samples whose top-1 answer differs."""
        return self.end_to_end.answers_differing if self.end_to_end else 0

    def __str__(self) -> str:
        lines = [
            f"{self.path}: opset {self.opset}, {self.size:,} bytes, {self.pairs} Q/DQ pairs, "
            f"{self.folded} of them stored as codes"
        ]
        if self.end_to_end is None:
            return f"{lines[0]}\n  not verified: {self.skipped}"
        far = max((q.boundary for q in self.quantizers), default=0.0)
        lines.append(
            f"  codes, per layer:    {self.codes_differing:,} of {self.codes:,} differ"
            + (f", by at most {max(q.largest for q in self.quantizers)}, "
               f"{far:.1e} of a step from a rounding boundary" if self.codes_differing else "")
        )  # fmt: skip
        end = self.end_to_end
        if end.answers:
            lines.append(f"  top-1, end to end:   {end.answers_differing:,} of {end.answers:,} differ")
        lines.append(
            f"  outputs, end to end: {end.values_differing:,} of {end.values:,} differ noticeably, "
            f"by at most {end.max_abs_diff:.3g}"
        )
        if self.not_compared:
            lines.append(f"  not in the file: {', '.join(self.not_compared)}")
        return "\n".join(lines)


def export(
    model: nn.Module,
    example: Any,
    path: str | os.PathLike[str],
    *,
    opset: int = DEFAULT_OPSET,
    fold_weights: bool = True,
    dynamic_batch: bool = True,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    verify: bool | Iterable[Any] = True,
) -> ExportReport:
    """Write `model` as an ONNX file whose quantizers are QuantizeLinear/DequantizeLinear pairs.

    The model is exported in evaluation mode. int8 grids have zero point int8 0, unsigned ones uint8 0,
    asymmetric ones a real zero point; `pre_quant_scale` is a Mul, a narrow or learned range a Clip.

    Args:
        model: Calibrated: every active quantizer has its range.
        example: One input of the model: a tensor, a tuple of positional or a dict of named arguments.
        path: The file; written whole or not at all.
        opset: 13..25. 16-bit and 4-bit grids need 21, fp8 needs 19.
        fold_weights: Store weights as codes behind a DequantizeLinear; False: as floats in front of a pair.
        dynamic_batch: Leave the first dimension of the inputs that share it open, as "batch".
        input_names, output_names: Names in the file; None: the exporter's.
        verify: True: compare module and file in ONNX Runtime on `example`. Batches like `example` (or
            pairs of one and its labels): codes on the first, answers on all. False: do not.
    Returns:
        What was written and how many codes and top-1 answers differ.
    Raises:
        CalibrationError: A quantizer has no range, or is still collecting.
        UnsupportedError: The opset cannot write a quantizer's format, or the model cannot be traced.
        QuantValueError: The checker refuses the file, or a quantizer does not fake-quantize.
        FileAccessError: `path` cannot be written.
    """
    graph.check_opset(opset)
    args, kwargs = example_arguments(example)
    _refuse_unready(model)
    with torch.no_grad(), evaluating(model):
        trace, shapes = _dynamic(args, kwargs) if dynamic_batch else ((args, kwargs), None)
        program = translate(
            model,
            *trace,
            opset=opset,
            dynamic_shapes=shapes,
            input_names=input_names,
            output_names=output_names,
        )
        pairs = graph.emit_qdq(program.model, opset, fold_weights=fold_weights)
        graph.set_opset(program.model, opset)
        graph.tidy(program.model)
        data = graph.to_bytes(program.model)
        graph.write_model(data, path)
        distinct = {pair.real: pair.folded for pair in pairs}
        report = ExportReport(Path(path), opset, len(data), len(distinct), sum(distinct.values()))
        if verify is False:
            return replace(report, skipped="verify=False")
        batches = [(args, kwargs)] if verify is True else _batches(verify, example)
        return _verified(model, data, pairs, batches, report)


def _verified(
    model: nn.Module, data: bytes, pairs: Sequence[graph.Pair], batches: Iterable[Batch], report: ExportReport
) -> ExportReport:
    stream = iter(batches)
    first = next(stream, None)
    if first is None:
        raise QuantValueError("verify", "no batches", "at least one", "pass True to verify on the example")
    if any(t.dtype == torch.bfloat16 for t in pytree.tree_leaves(first) if isinstance(t, Tensor)):
        return replace(report, skipped="ONNX Runtime takes no bfloat16 inputs from Python")
    try:
        checks, unknown = compare_codes(model, data, pairs, first)
    except UnsupportedError as error:
        return replace(report, skipped=str(error))
    end = compare_outputs(model, data, _chain(first, stream))
    return replace(report, quantizers=tuple(checks), end_to_end=end, not_compared=tuple(unknown))


def _chain(first: Batch, rest: Iterator[Batch]) -> Iterator[Batch]:
    yield first
    yield from rest


def example_arguments(example: Any) -> Batch:
    """`example` as positional and named arguments: a tensor, a tuple of them, or a dict of named ones."""
    if isinstance(example, Mapping):
        return (), dict(example)
    return (tuple(example) if isinstance(example, (tuple, list)) else (example,)), {}


def _batches(data: Iterable[Any], example: Any) -> Iterator[Batch]:
    """Batches as calls; where the example is one tensor, what follows the first item is labels."""
    for batch in data:
        labelled = isinstance(example, Tensor) and isinstance(batch, (tuple, list))
        yield example_arguments(batch[0] if labelled else batch)


def _refuse_unready(model: nn.Module) -> None:
    for name, quantizer in model.named_modules():
        if not isinstance(quantizer, TensorQuantizer) or quantizer._disabled:
            continue
        if quantizer._if_calib:
            raise CalibrationError(
                name, "a quantizer that is still collecting", "calibration finished",
                "call disable_calib() and load_calib_amax(), or intact.torch.calibrate",
            )  # fmt: skip
        if is_dynamic(quantizer):
            raise CalibrationError(
                name, "no amax: its range is that of each batch (dynamic quantization)", "a calibrated range",
                "run intact.torch.calibrate, set amax, or disable this quantizer",
            )  # fmt: skip
        if quantizer._if_quant and not quantizer.fake_quant:
            raise QuantValueError(
                name, "fake_quant=False: it returns codes", "a quantizer that returns floats",
                "build it from QuantDescriptor(fake_quant=True)",
            )  # fmt: skip


def _dynamic(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Batch, dict[str, Any] | tuple[Any, ...]]:
    """A call to trace, and the shapes that stay open in it: the first dimension, where it is the batch's.

    torch.export takes a size of 1 for a constant, so that an example of one sample is traced as two.
    """
    leaves = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor) and t.dim()]
    if not leaves:
        raise QuantValueError(
            "example", "no tensor with a dimension", "a batch of inputs", "use dynamic_batch=False"
        )
    size, batch = leaves[0].shape[0], torch.export.Dim("batch")

    def is_batched(x: Any) -> bool:
        return isinstance(x, Tensor) and x.dim() > 0 and x.shape[0] == size

    def double(x: Any) -> Any:
        return torch.cat([x, x]) if is_batched(x) and size == 1 else x

    def open_first(x: Any) -> dict[int, Any] | None:
        return {0: batch} if is_batched(x) else None

    trace = pytree.tree_map(double, (args, kwargs))
    shapes = pytree.tree_map(open_first, (args, kwargs))
    return trace, (shapes[1] if kwargs else shapes[0])
