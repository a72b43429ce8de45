"""Measures what quantization does to a model on a few hold-out samples."""

from intact.ptq.measure.holdout_samples import HoldoutSample
from intact.ptq.measure.measured_outputs import outputs_in_any_order
from intact.ptq.measure.output_errors import Errors, align_rows, lowest_sqnr, relative_error
from intact.ptq.measure.quantization_state import State
from intact.ptq.measure.top1_margin import has_same_top1, has_top1

__all__ = [
    "Errors", "HoldoutSample", "State", "align_rows", "has_same_top1", "has_top1", "lowest_sqnr",
    "outputs_in_any_order", "relative_error",
]  # fmt: skip
