"""Statistics of every tensor that a quantizer quantizes: activations from data, weights from parameters."""

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


class _Keep(_Calibrator):
    """Keeps the last tensor it saw."""

    def __init__(self) -> None:
        super().__init__(8, None, False)
        self.tensor: Tensor | None = None

    def collect(self, x: Tensor) -> None:
        self.tensor = x


def working_quantizers(model: nn.Module) -> dict[str, TensorQuantizer]:
    """Every quantizer of `model` that is not disabled, by module path; there may be none."""
    return {n: m for n, m in model.named_modules() if isinstance(m, TensorQuantizer) and not m._disabled}


def enabled_quantizers(model: nn.Module) -> dict[str, TensorQuantizer]:
    """Every quantizer of `model` that is not disabled, by module path; each learns its path, for messages.

    Raises:
        QuantValueError: There is none.
    """
    name_quantizers(model)
    found = working_quantizers(model)
    if not found:
        raise QuantValueError(
            "model",
            f"a {type(model).__name__} without an enabled TensorQuantizer",
            "a model with quantizers",
            "pass it through intact.torch.replace_modules, or build it under quant_modules.initialize()",
        )
    return found


def spec_of(quantizer: TensorQuantizer) -> QuantSpec:
    """Grid and granularity of `quantizer`."""
    return QuantSpec(
        Format.parse(quantizer.format),
        axis=quantizer.axis,
        symmetric=quantizer.symmetric,
        narrow=quantizer.narrow_range,
    )


@torch.no_grad()
def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The tensor that each enabled weight quantizer quantizes, by the quantizer's path, without data.

    Modules say it themselves, by `quantized_weights()`; a weight quantizer elsewhere is treated like one
    of an activation.
    """
    quantizers = enabled_quantizers(model)
    found = {}
    with watching(quantizers, {name: _Keep() for name in quantizers}):
        for module in model.modules():
            if callable(describe := getattr(module, "quantized_weights", None)):
                describe()
        for name, quantizer in quantizers.items():
            kept = quantizer._calibrator
            if isinstance(kept, _Keep) and kept.tensor is not None:
                found[name] = gather(kept.tensor.detach())
    return found


def computed_weights_of(model: nn.Module) -> set[str]:
    """Paths of the quantizers of weights that only a run of the model makes: each has one range, "max"."""
    found = {
        quantizer
        for module in model.modules()
        if callable(tell := getattr(module, "computed_weights", None))
        for quantizer in tell()
    }
    return {name for name, module in model.named_modules() if module in found}


@contextmanager
def watching(
    quantizers: dict[str, TensorQuantizer], calibrators: dict[str, _Calibrator]
) -> Iterator[dict[str, _Calibrator]]:
    """Let `quantizers` pass tensors through unchanged, and show them to `calibrators` where they have one.

    Every switch is put back at the end, also after an exception.
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
    """Let `quantizers` quantize and collect nothing; their switches are put back at the end."""
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
    """`model` in eval mode, without gradients; afterwards every module is in the mode it was in."""
    before = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, training in before:
            module.training = training


def calibrator_for(quantizer: TensorQuantizer, *, ends_only: bool = False) -> MergeableCalibrator:
    """An empty calibrator: the quantizer's own, where that is mergeable, so that it keeps the counts.

    `ends_only`: it need not count; a histogram of each channel of a weight is large.
    """
    if ends_only:
        return MergeableCalibrator(quantizer.num_bits, quantizer.axis, quantizer.unsigned, ends_only=True)
    own: Any = quantizer._calibrator
    if isinstance(own, MergeableCalibrator):
        own.reset()
        return own
    return MergeableCalibrator(quantizer.num_bits, quantizer.axis, quantizer.unsigned)


def fetch(calibrators: dict[str, MergeableCalibrator]) -> None:
    """Bring to the host what was counted on a device.

    Raises:
        CalibrationError: NaN or infinity was; names its quantizer.
    """
    for name, calibrator in calibrators.items():
        try:
            _ = calibrator.stats
        except CalibrationError as error:
            raise error.at(name) from None


def disable_unreached(
    quantizers: dict[str, TensorQuantizer], calibrators: dict[str, MergeableCalibrator]
) -> dict[str, Histogram | Range]:
    """Disable quantizers whose calibrator saw no value, and forget it; the statistics of the others.

    Where nothing was reached, everything stays, for `require_reached` to say so.
    """
    missed = [name for name, calibrator in calibrators.items() if not calibrator.stats.count.any()]
    for name in missed if len(missed) < len(calibrators) else ():
        quantizers[name].disable()
        del calibrators[name]
    return {name: calibrator.stats for name, calibrator in calibrators.items()}


def require_reached(calibrators: dict[str, MergeableCalibrator]) -> None:
    """
    Raises:
        CalibrationError: A calibrator saw no value; names its quantizer.
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
