"""Implement `calibrate`: choose ranges for every quantizer of a model from one pass over data, and again
without data.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from intact.calib import Calibration, Candidates, ChosenRange, Histogram, Range, configurations
from intact.errors import CalibrationError
from intact.numerics import SHORT_BITS
from intact.progress import Progress, waiting
from intact.ptq.measure import align_rows
from intact.torch import distributed
from intact.torch.distributed import ProcessGroup
from intact.torch.exact import torch_functions
from intact.torch.models.batches import Forward, forward_batch, length_of, real_tensors
from intact.torch.models.fsdp import require_whole
from intact.torch.models.nonfinite import explain_nonfinite, require_numbers, squared_error
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.training.bias_correction import correct_bias as subtract_mean_error
from intact.torch.training.bias_correction import remove_added_biases, undo_bias_correction
from intact.torch.training.collect_statistics import (
    calibrator_for,
    collecting,
    computed_weight_paths,
    disable_unreached,
    enabled_quantizers,
    evaluating,
    fetch,
    quantize_weights,
    quantizing,
    require_reached,
    spec_of,
    weights_of,
    working_quantizers,
)
from intact.torch.training.range_choice import (
    Method,
    keepdims,
    method_by_name,
    require_method,
    set_range,
    warn_if_zero,
    weight_range,
)

HOLDOUT_BATCHES = 4
"""Number of batches that "auto" keeps to measure configurations on. Its cost is that of 6 times as many."""


@dataclass
class _HoldoutBatch:
    """One hold-out batch, with the float model's outputs."""

    number: int
    batch: Any
    outputs: list[Tensor]


@dataclass
class CalibrationResult:
    """The result of `calibrate`. The model's quantizers have their ranges already.

    Attributes:
        model: The calibrated model.
        calibration: The statistics of the activations, by quantizer path. Weights are not in it: their
            ranges come from the parameters.
        methods: By quantizer path, the method that chose its range.
        errors: For "auto": mean squared error of the outputs on the hold-out batches, relative to their mean
            square, of every configuration that was compared; the first smallest was taken.
        corrected: Whether biases were corrected.
    """

    model: nn.Module
    calibration: Calibration
    methods: dict[str, str] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    corrected: bool = False
    _holdout: list[_HoldoutBatch] = field(default_factory=list, repr=False)
    _shapes: dict[str, tuple[int, ...]] = field(default_factory=dict, repr=False)
    _forward: Forward = field(default=forward_batch, repr=False)
    _group: ProcessGroup = field(default_factory=ProcessGroup, repr=False)
    _unordered: frozenset[int] = field(default=frozenset(), repr=False)

    def apply(
        self,
        method: Method = "auto",
        *,
        weight_method: str = "max",
        unsigned: bool = False,
        correct_bias: bool | Literal["auto"] = False,
        scale_bits: int | None = SHORT_BITS,
        **options: Any,
    ) -> Self:
        """Choose all ranges again, by another method, without new data.

        Args:
            method, weight_method: Of the ranges of activations and of weights, as for `calibrate`.
            unsigned: Give activations without negative values unsigned codes.
            correct_bias: As for `calibrate`.
            scale_bits: Significant bits of scales; None: all of float32.
            options: Of the method.
        Returns:
            This result.
        Raises:
            QuantValueError: Unknown method, a pattern that fits nothing, or a bad option.
            CalibrationError: There are no statistics for an enabled quantizer; names it. Or there are no
                held batches to correct biases on.
        """
        options["scale_bits"] = scale_bits
        quantizers, weights = enabled_quantizers(self.model), weights_of(self.model)
        active = {n: q for n, q in quantizers.items() if n not in weights}
        self._require_statistics(active)
        computed = computed_weight_paths(self.model)
        method_of = _method_of_each(method, active, computed)
        require_method(weight_method)
        if correct_bias is True:
            self._require_holdout()
        undo_bias_correction(self.model)
        if unsigned:
            self._use_unsigned({n: q for n, q in active.items() if n not in computed})
        # Everything that can fail comes before the first range is set.
        weight_ranges = {
            n: ChosenRange(weight_range(n, w, spec_of(quantizers[n]), weight_method, options), weight_method)
            for n, w in weights.items()
        }
        self._shapes.update({n: keepdims(w, spec_of(quantizers[n])) for n, w in weights.items()})
        candidates = {
            n: Candidates(f"quantizer '{n}'", self.calibration[n], spec_of(q), options)
            for n, q in active.items()
        }
        choices = configurations(candidates, method_of, several=self._has_holdout())
        self._set_ranges(quantizers, weight_ranges)
        self._set_ranges(quantizers, self._best(quantizers, choices))
        for name, quantizer in quantizers.items():
            warn_if_zero(name, quantizer)
            quantizer.enable_quant()
            quantizer.disable_calib()
        quantize_weights(self.model)  # from here on, changes of weights are noticed
        self.corrected = bool(correct_bias) and self._has_holdout()
        if self.corrected:
            self._correct_biases(quantizers, always=correct_bias is True)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics to a `.calib` file; under torchrun the first process alone does."""
        if self._group.first:
            self.calibration.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: nn.Module) -> Self:
        """Load the statistics of a `.calib` file for `model`, whose ranges stay as they are until `apply`.

        There are no held batches then: "auto" takes the smallest expected error of each tensor.

        Raises:
            FileFormatError: The file is damaged, of another kind or version.
        """
        return cls(model, Calibration.load(path))

    def _require_statistics(self, active: dict[str, TensorQuantizer]) -> None:
        missing = [name for name in active if name not in self.calibration]
        if missing:
            raise CalibrationError(
                f"quantizer '{missing[0]}'",
                f"no statistics ({len(missing)} of {len(active)} quantizers have none)",
                "statistics of a model with the same enabled quantizers",
                "calibrate this model with data, or disable() the quantizers",
            )

    def _has_holdout(self) -> bool:
        return bool(distributed.sum_over(np.array([float(len(self._holdout))]), self._group)[0])

    def _require_holdout(self) -> None:
        if not self._has_holdout():
            raise CalibrationError(
                "correct_bias",
                "statistics without batches, as they come from a file",
                "batches to measure the error of each layer's output on",
                "calibrate the model with data, or leave the biases as they are",
            )

    def _use_unsigned(self, active: dict[str, TensorQuantizer]) -> None:
        for name, quantizer in active.items():
            plain = quantizer.symmetric and isinstance(quantizer.num_bits, int)
            if plain and bool((self.calibration[name].min >= 0).all()):
                quantizer.unsigned = True

    def _set_ranges(self, quantizers: dict[str, TensorQuantizer], ranges: dict[str, ChosenRange]) -> None:
        for name, ranged in ranges.items():
            set_range(quantizers[name], ranged.ends, self._shapes.get(name))
            self.methods[name] = ranged.method

    def _best(
        self, quantizers: dict[str, TensorQuantizer], choices: dict[str, dict[str, ChosenRange]]
    ) -> dict[str, ChosenRange]:
        """Return the configuration under which the outputs on the hold-out batches change least."""
        self.errors = {}
        if len(choices) == 1:
            return next(iter(choices.values()))
        for label, ranges in choices.items():
            self._set_ranges(quantizers, ranges)
            self.errors[label] = self._output_error(quantizers)
        return choices[min(self.errors, key=self.errors.__getitem__)]

    def _correct_biases(self, quantizers: dict[str, TensorQuantizer], always: bool) -> None:
        """Correct biases. Unless `always`, undo it where the outputs do not come closer to float."""
        # "auto" has measured the error of the ranges that it chose.
        least_error = min(self.errors.values(), default=None)
        before = (
            math.inf if always else self._output_error(quantizers) if least_error is None else least_error
        )
        batches = [(batch.number, batch.batch) for batch in self._holdout]
        added = subtract_mean_error(self.model, batches, self._forward, HOLDOUT_BATCHES, self._group)
        if not always and self._output_error(quantizers) >= before:
            undo_bias_correction(self.model)
            remove_added_biases(added)
            self.corrected = False

    def _output_error(self, quantizers: dict[str, TensorQuantizer]) -> float:
        """Return the squared error of the quantized model's outputs on the hold-out batches, relative to
        their square.
        """
        error, square = self.output_errors(quantizers).sum(axis=0)
        return float(error / square) if square else float(error)

    def output_errors(
        self, quantizers: Mapping[str, TensorQuantizer], batches: int = HOLDOUT_BATCHES
    ) -> NDArray[np.float64]:
        """Return squared error and square of each output on the hold-out batches, [outputs, 2].

        Args:
            quantizers: Quantizers that quantize, by path; the model's others pass tensors through.
            batches: How many of the hold-out batches to use, from the first.
        """
        number = sum(len(holdout.outputs) for holdout in self._holdout if holdout.number == 0)
        outputs = int(distributed.sum_over(np.array([float(number)]), self._group)[0])
        sums = np.zeros((batches, outputs, 2))
        bypassed = {n: q for n, q in working_quantizers(self.model).items() if n not in quantizers}
        with evaluating(self.model), collecting(bypassed, {}), quantizing(quantizers):
            for holdout in self._holdout:
                if holdout.number >= batches:
                    continue
                got = real_tensors(self._forward(self.model, holdout.batch))
                for output, (ours, want) in enumerate(zip(got, holdout.outputs, strict=True)):
                    sums[holdout.number, output] = _squares(ours, want, output in self._unordered)
        # One process has each row: the sums over rows are in one order, however many processes there are.
        errors: NDArray[np.float64] = distributed.sum_over(sums, self._group).sum(axis=0)
        return errors


def _squares(got: Tensor, want: Tensor, unordered: bool) -> tuple[float, float]:
    """Return `squared_error` of an output.

    Where the numbers of rows differ, or values decide their order, each row is compared with the nearest one.
    """
    if unordered or got.shape != want.shape:
        ours, theirs = (x.detach().double().cpu().numpy() for x in (got, want))
        matched = align_rows(ours, theirs, unordered=unordered)
        if matched is not None:
            got = torch.from_numpy(np.ascontiguousarray(matched))
    return squared_error(got, want)


def _method_of_each(method: Method, names: Iterable[str], computed: set[str]) -> dict[str, str]:
    """Return the method for each name.

    Weights that a run computes have "max", as only their ends are collected.
    """
    enabled = list(names)
    of_weights = {name: "max" for name in enabled if name in computed}
    return method_by_name(method, [name for name in enabled if name not in computed]) | of_weights


def _run_batch(run: Forward, model: nn.Module, number: int, batch: Any) -> Any:
    with explain_nonfinite(model, number, batch):
        return run(model, batch)


@torch_functions()  # ranges need no last bits, and these take half the time
def calibrate(
    model: nn.Module,
    data: Iterable[Any],
    *,
    method: Method = "auto",
    num_batches: int | None = None,
    weight_method: str = "max",
    unsigned: bool = False,
    correct_bias: bool | Literal["auto"] = False,
    scale_bits: int | None = SHORT_BITS,
    unreached: Literal["raise", "disable"] = "raise",
    forward: Forward | None = None,
    unordered: Collection[int] = (),
    progress: bool = True,
    **options: Any,
) -> CalibrationResult:
    """Find the range of every quantizer of `model` that is not disabled, from one pass over `data`.

    Statistics are collected in eval mode with nothing quantized, in memory that does not grow with the
    number of batches; afterwards each module is in the mode it was in, and the quantizers quantize.

    "auto" takes for each tensor the range of the smallest expected squared error among all methods;
    then it compares that configuration with the four plain ones by the error of the model's outputs
    on the first `HOLDOUT_BATCHES` batches, without labels, and takes the best. A statistic or grid that has
    no such method gets "max" (docs/decisions/0006-calibration-method-auto.md has the measurements).

    Args:
        model: Holds `TensorQuantizer` modules, as `intact.torch.replace_modules` makes them.
        data: Batches: a tensor; a tuple or list that begins with the inputs (a tensor, a tuple of them, or
            a dict); or a dict of keyword arguments.
        method: One of `intact.calib.METHODS`, or "auto"; or a dict of name pattern -> method.
        num_batches: Use at most this many; None: all.
        weight_method: The method for weights, whose ranges come from the parameters: per channel, "max".
        unsigned: Give tensors in which no value was negative the unsigned grid, which has twice the codes
            for them. TensorRT has none; a negative value later on is an error.
        correct_bias: Take the mean error of each quantized convolution's and linear layer's output, measured
            on the first `HOLDOUT_BATCHES` batches, out of its bias; a layer without a bias gets one. "auto":
            where that brings the model's outputs closer to float on these batches.
        scale_bits: Widen each range until its scale has at most so many significant bits: float sums then
            hardly round, and the exported file computes the module's codes; None: do not
            (docs/decisions/0007-short-scales.md).
        unreached: What becomes of a quantizer that no batch reached: an error, or it is disabled.
        forward: ``forward(model, batch)`` runs one batch, where the forms above do not fit.
        unordered: Numbers of the outputs, among those of floats, whose rows values order, as TopK does: a row
            is compared to the nearest one.
        progress: Show a progress bar on standard error.
        options: `percentile` (99.99), `variant` ("pytorch_quantization"), `start_bin` (128), `stride` (1).
    Returns:
        The statistics, from which another method can be chosen without data.
    Raises:
        CalibrationError: (a RuntimeError) NaN or infinity, a quantizer that no batch reached, no batch; the
            message names the quantizer, and all switches and ranges are as before.
        QuantValueError: (a ValueError) No quantizer, unknown method, a batch of another form.
    Warns:
        ZeroRangeWarning: A tensor is zero throughout; names the quantizer.
    Distributed: under torchrun the batches are dealt over the processes (a `DistributedSampler` has dealt
        them already; `num_batches` counts those of all). The scales are bit for bit those of one process.
    """
    group = distributed.join()
    require_whole(model, "calibrate", "calibrate first, and shard what came out")
    require_numbers(model)
    quantizers = enabled_quantizers(model)
    undo_bias_correction(model)
    weights = weights_of(model)
    active = {n: q for n, q in quantizers.items() if n not in weights}
    _method_of_each(method, active, computed := computed_weight_paths(model))
    calibrators = {name: calibrator_for(q, ends_only=name in computed) for name, q in active.items()}
    run, total = forward or forward_batch, num_batches if num_batches is not None else length_of(data)
    holdout, batches = list[_HoldoutBatch](), 0
    failure: Exception | None = None
    try:
        with (
            Progress("calibrating", total, progress and group.first) as bar,
            evaluating(model),
            collecting(quantizers, dict(calibrators)),
        ):
            for number, batch in distributed.split_batches(data, group, num_batches):
                outputs = _run_batch(run, model, number, batch)
                if number < HOLDOUT_BATCHES:
                    holdout.append(_HoldoutBatch(number, batch, real_tensors(outputs)))
                bar.advance(done=number + 1)
                batches += 1
        with explain_nonfinite(model):
            fetch(calibrators)
    except Exception as error:
        failure = error
    distributed.share_failure(failure, group)
    stats = _merge_statistics(calibrators, group)
    if unreached == "disable":
        stats = disable_unreached(quantizers, calibrators)
    require_reached(calibrators)
    shapes = {name: c.shape for name, c in calibrators.items() if c.shape or c.stats.axis is None}
    calibration = Calibration(stats)
    batch_count = distributed.sum_over(np.array([float(batches)]), group)
    calibration.record(source=type(model).__name__, batches=int(batch_count[0]))
    result = CalibrationResult(model, calibration, _holdout=holdout, _shapes=shapes, _forward=run)
    result._group, result._unordered = group, frozenset(unordered)
    with waiting("choose ranges", progress and group.first):
        return result.apply(
            method, weight_method=weight_method, unsigned=unsigned, correct_bias=correct_bias,
            scale_bits=scale_bits, **options,
        )  # fmt: skip


def _merge_statistics(calibrators: Mapping[str, Any], group: ProcessGroup) -> dict[str, Histogram | Range]:
    """Merge the statistics of all processes, by quantizer path; `calibrators` hold them, too."""
    stats: dict[str, Histogram | Range] = {name: c.stats for name, c in calibrators.items()}
    distributed.merge_statistics(stats, group)
    for name, merged in stats.items():
        calibrators[name].stats = merged
    return stats
