"""Collect statistics of every tensor that a quantizer quantizes: of activations from data, of weights from
parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from intact.calib import Histogram, Range
from intact.errors import CalibrationError, QuantValueError
from intact.spec import Format, QuantSpec
from intact.torch.calib.calibrator import _Calibrator
from intact.torch.calib.mergeable import MergeableCalibrator
from intact.torch.models.fsdp import gather
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer, name_quantizers

_SWITCHES = ("_if_quant", "_if_calib", "_if_clip", "_calibrator")


class _LastTensor(_Calibrator):
    """Keeps the last tensor that it was given."""

    def __init__(self) -> None:
        super().__init__(8, None, False)
        self.tensor: Tensor | None = None

    def collect(self, x: Tensor) -> None:
        self.tensor = x


def working_quantizers(model: nn.Module) -> dict[str, TensorQuantizer]:
    """Return every quantizer of `model` that is not disabled, by module path; there may be none."""
    return {n: m for n, m in model.named_modules() if isinstance(m, TensorQuantizer) and not m._disabled}


def enabled_quantizers(model: nn.Module) -> dict[str, TensorQuantizer]:
    """Return every quantizer of `model` that is not disabled, by module path.

    Each quantizer gets its path, for messages.

    Raises:
        QuantValueError: There is none.
    """
    name_quantizers(model)
    quantizers = working_quantizers(model)
    if not quantizers:
        raise QuantValueError(
            "model",
            f"a {type(model).__name__} without an enabled TensorQuantizer",
            "a model with quantizers",
            "pass it through intact.torch.replace_modules, or build it under quant_modules.initialize()",
        )
    return quantizers


def spec_of(quantizer: TensorQuantizer) -> QuantSpec:
    """Return grid and granularity of `quantizer`."""
    return QuantSpec(
        Format.parse(quantizer.format),
        axis=quantizer.axis,
        symmetric=quantizer.symmetric,
        narrow=quantizer.narrow_range,
    )


@torch.no_grad()
def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensor that each enabled weight quantizer quantizes, by the quantizer's path, without data.

    Modules return these by `quantized_weights()`. A weight quantizer elsewhere is treated as one of an
    activation.
    """
    quantizers = enabled_quantizers(model)
    weights = {}
    with collecting(quantizers, {name: _LastTensor() for name in quantizers}):
        for module in model.modules():
            if callable(describe := getattr(module, "quantized_weights", None)):
                describe()
        for name, quantizer in quantizers.items():
            calibrator = quantizer._calibrator
            if isinstance(calibrator, _LastTensor) and calibrator.tensor is not None:
                weights[name] = gather(calibrator.tensor.detach())
    return weights


def quantize_weights(model: nn.Module) -> None:
    """Run the quantizers of all weights that modules hold, in evaluation mode."""
    with evaluating(model):
        for module in model.modules():
            if callable(describe := getattr(module, "quantized_weights", None)):
                describe()


def computed_weight_paths(model: nn.Module) -> set[str]:
    """Return paths of the quantizers of weights that only a run of the model computes.

    Each has one range, by "max".
    """
    computed = {
        quantizer
        for module in model.modules()
        if callable(list_quantizers := getattr(module, "computed_weight_quantizers", None))
        for quantizer in list_quantizers()
    }
    return {name for name, module in model.named_modules() if module in computed}


@contextmanager
def collecting(
    quantizers: dict[str, TensorQuantizer], calibrators: dict[str, _Calibrator]
) -> Iterator[dict[str, _Calibrator]]:
    """Make `quantizers` pass tensors through unchanged, and show them to `calibrators` where they have one.

    Every switch is restored at the end, also after an exception.
    """
    before = [{switch: getattr(q, switch) for switch in _SWITCHES} for q in quantizers.values()]
    try:
        for name, quantizer in quantizers.items():
            quantizer._if_quant = quantizer._if_clip = False
            quantizer._if_calib = name in calibrators
            quantizer._calibrator = calibrators.get(name, quantizer._calibrator)
        yield calibrators
    finally:
        for quantizer, switches in zip(quantizers.values(), before, strict=True):
            for switch, value in switches.items():
                setattr(quantizer, switch, value)


@contextmanager
def quantizing(quantizers: Mapping[str, TensorQuantizer]) -> Iterator[None]:
    """Make `quantizers` quantize and collect nothing inside the context."""
    before = [(q, q._if_quant, q._if_calib) for q in quantizers.values()]
    try:
        for quantizer in quantizers.values():
            quantizer._if_quant, quantizer._if_calib = True, False
        yield
    finally:
        for quantizer, quant, calib in before:
            quantizer._if_quant, quantizer._if_calib = quant, calib


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Set `model` to eval mode, without gradients; afterwards every module has the mode that it had."""
    before = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, training in before:
            module.training = training


def calibrator_for(quantizer: TensorQuantizer, *, ends_only: bool = False) -> MergeableCalibrator:
    """Return an empty calibrator: the quantizer's own, where that is mergeable, so that it keeps the counts.

    Args:
        quantizer: The quantizer.
        ends_only: Collect no histogram, because one for each channel of a weight is large.
    """
    if ends_only:
        return MergeableCalibrator(quantizer.num_bits, quantizer.axis, quantizer.unsigned, ends_only=True)
    own: Any = quantizer._calibrator
    if isinstance(own, MergeableCalibrator):
        own.reset()
        return own
    return MergeableCalibrator(quantizer.num_bits, quantizer.axis, quantizer.unsigned)


def fetch(calibrators: dict[str, MergeableCalibrator]) -> None:
    """Copy statistics that were counted on a device to the host.

    Raises:
        CalibrationError: Values were NaN or infinite; names their quantizer.
    """
    for name, calibrator in calibrators.items():
        try:
            _ = calibrator.stats
        except CalibrationError as error:
            raise error.at(name) from None


def disable_unreached(
    quantizers: dict[str, TensorQuantizer], calibrators: dict[str, MergeableCalibrator]
) -> dict[str, Histogram | Range]:
    """Disable quantizers whose calibrator saw no value, drop their calibrators, and return the other
    statistics.

    Where no quantizer was reached, nothing changes, and `require_reached` raises.
    """
    missed = [name for name, calibrator in calibrators.items() if not calibrator.stats.count.any()]
    for name in missed if len(missed) < len(calibrators) else ():
        quantizers[name].disable()
        del calibrators[name]
    return {name: calibrator.stats for name, calibrator in calibrators.items()}


def require_reached(calibrators: dict[str, MergeableCalibrator]) -> None:
    """Raise where a calibrator saw no value.

    Raises:
        CalibrationError: Names the quantizers.
    """
    missed = [name for name, calibrator in calibrators.items() if not calibrator.stats.count.any()]
    if missed:
        shown = ", ".join(f"'{name}'" for name in missed[:5]) + (", ..." if len(missed) > 5 else "")
        raise CalibrationError(
            f"quantizer {shown}",
            f"no value in any batch ({len(missed)} of {len(calibrators)} quantizers)",
            "at least one batch that reaches every enabled quantizer",
            "feed batches that run through these modules, or disable() the quantizers",
        )
