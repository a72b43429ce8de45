"""`calibrate`: ranges for every quantizer of a model from one pass over data, chosen again at will."""

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

from intact.calib import Calibration, Histogram, Range
from intact.calib.choice import Candidates, Ranged, configurations
from intact.errors import CalibrationError
from intact.numerics import SHORT_BITS
from intact.progress import Progress, waiting
from intact.ptq.measure.matched_rows import with_rows_of
from intact.torch import distributed
from intact.torch.distributed import ProcessGroup
from intact.torch.exact import torch_functions
from intact.torch.models.batches import Forward, forward_batch, length_of, real_tensors
from intact.torch.models.fsdp import require_whole
from intact.torch.models.nonfinite import explain_nonfinite, require_numbers, squared_error
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.training.bias_correction import correct_bias as subtract_mean_error
from intact.torch.training.bias_correction import undo_bias_correction, without_bias
from intact.torch.training.collect_statistics import (
    calibrator_for,
    computed_weights_of,
    disable_unreached,
    enabled_quantizers,
    evaluating,
    fetch,
    quantizing,
    require_reached,
    spec_of,
    watching,
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

HELD_BATCHES = 4
"""How many batches "auto" keeps to measure configurations on: its cost is that of 6 times as many."""


@dataclass
class _Held:
    """One batch that "auto" measures on, with what the float model says to it."""

    number: int
    batch: Any
    outputs: list[Tensor]


@dataclass
class CalibrationResult:
    """What `calibrate` found. The model's quantizers have their ranges already.

    Attributes:
        model: The calibrated model.
        calibration: The statistics of the activations, by quantizer path. Weights are not in it: their
            ranges come from the parameters.
        methods: By quantizer path, the method that chose its range.
        errors: For "auto": mean squared error of the outputs on the held batches, relative to their mean
            square, of every configuration that was compared; the first smallest was taken.
        corrected: Whether biases were corrected.
    """

    model: nn.Module
    calibration: Calibration
    methods: dict[str, str] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    corrected: bool = False
    _held: list[_Held] = field(default_factory=list, repr=False)
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
        """Choose all ranges again, by another method, without new data; arguments as for `calibrate`.

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
        computed = computed_weights_of(self.model)
        asked = _asked(method, active, computed)
        require_method(weight_method)
        if correct_bias is True:
            self._require_held()
        undo_bias_correction(self.model)
        if unsigned:
            self._use_unsigned({n: q for n, q in active.items() if n not in computed})
        # Everything that can fail comes before the first range is set.
        for_weights = {
            n: Ranged(weight_range(n, w, spec_of(quantizers[n]), weight_method, options), weight_method)
            for n, w in weights.items()
        }
        self._shapes.update({n: keepdims(w, spec_of(quantizers[n])) for n, w in weights.items()})
        candidates = {
            n: Candidates(f"quantizer '{n}'", self.calibration[n], spec_of(q), options)
            for n, q in active.items()
        }
        found = configurations(candidates, asked, several=self._held_anywhere())
        self._set(quantizers, for_weights)
        self._set(quantizers, self._best(quantizers, found))
        for name, quantizer in quantizers.items():
            warn_if_zero(name, quantizer)
            quantizer.enable_quant()
            quantizer.disable_calib()
        self.corrected = bool(correct_bias) and self._held_anywhere()
        if self.corrected:
            self._correct_biases(quantizers, always=correct_bias is True)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics to a `.calib` file; under torchrun the first process alone does."""
        if self._group.first:
            self.calibration.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: nn.Module) -> Self:
        """The statistics in a `.calib` file, for `model`, whose ranges stay as they are until `apply`.

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

    def _held_anywhere(self) -> bool:
        return bool(distributed.sum_over(np.array([float(len(self._held))]), self._group)[0])

    def _require_held(self) -> None:
        if not self._held_anywhere():
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

    def _set(self, quantizers: dict[str, TensorQuantizer], ranges: dict[str, Ranged]) -> None:
        for name, ranged in ranges.items():
            set_range(quantizers[name], ranged.ends, self._shapes.get(name))
            self.methods[name] = ranged.method

    def _best(
        self, quantizers: dict[str, TensorQuantizer], found: dict[str, dict[str, Ranged]]
    ) -> dict[str, Ranged]:
        """The configuration under which the outputs on the held batches change least."""
        self.errors = {}
        if len(found) == 1:
            return next(iter(found.values()))
        for label, ranges in found.items():
            self._set(quantizers, ranges)
            self.errors[label] = self._output_error(quantizers)
        return found[min(self.errors, key=self.errors.__getitem__)]

    def _correct_biases(self, quantizers: dict[str, TensorQuantizer], always: bool) -> None:
        """Take the mean errors out; unless `always`, put them back where the outputs do not come closer."""
        # "auto" has measured the ranges that it took.
        known = min(self.errors.values(), default=None)
        before = math.inf if always else self._output_error(quantizers) if known is None else known
        batches = [(held.number, held.batch) for held in self._held]
        added = subtract_mean_error(self.model, batches, self._forward, HELD_BATCHES, self._group)
        if not always and self._output_error(quantizers) >= before:
            undo_bias_correction(self.model)
            without_bias(added)
            self.corrected = False

    def _output_error(self, quantizers: dict[str, TensorQuantizer]) -> float:
        """Squared error of the quantized model's outputs on the held batches, relative to their square."""
        error, square = self.output_errors(quantizers).sum(axis=0)
        return float(error / square) if square else float(error)

    def output_errors(
        self, quantizers: Mapping[str, TensorQuantizer], batches: int = HELD_BATCHES
    ) -> NDArray[np.float64]:
        """Squared error and square of each output on the held batches, [outputs, 2].

        Args:
            quantizers: By path, those that quantize; the model's others let everything pass.
            batches: The first so many of those that were held.
        """
        number = sum(len(held.outputs) for held in self._held if held.number == 0)
        outputs = int(distributed.sum_over(np.array([float(number)]), self._group)[0])
        sums = np.zeros((batches, outputs, 2))
        others = {n: q for n, q in working_quantizers(self.model).items() if n not in quantizers}
        with evaluating(self.model), watching(others, {}), quantizing(quantizers):
            for held in self._held:
                if held.number >= batches:
                    continue
                got = real_tensors(self._forward(self.model, held.batch))
                for output, (ours, want) in enumerate(zip(got, held.outputs, strict=True)):
                    sums[held.number, output] = _squares(ours, want, output in self._unordered)
        # One process has each row: the sums over rows are in one order, however many processes there are.
        found: NDArray[np.float64] = distributed.sum_over(sums, self._group).sum(axis=0)
        return found


def _squares(got: Tensor, want: Tensor, unordered: bool) -> tuple[float, float]:
    """`squared_error` of an output; of one with more or fewer rows, or rows that values order, each row is
    compared to the nearest."""
    if unordered or got.shape != want.shape:
        ours, theirs = (x.detach().double().cpu().numpy() for x in (got, want))
        matched = with_rows_of(ours, theirs, unordered=unordered)
        if matched is not None:
            got = torch.from_numpy(np.ascontiguousarray(matched))
    return squared_error(got, want)


def _asked(method: Method, names: Iterable[str], computed: set[str]) -> dict[str, str]:
    """The method for each name; for weights that a run computes "max", as their ends are all that is kept."""
    enabled = list(names)
    of_weights = {name: "max" for name in enabled if name in computed}
    return method_by_name(method, [name for name in enabled if name not in computed]) | of_weights


def _run_explained(run: Forward, model: nn.Module, number: int, batch: Any) -> Any:
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
    on the first `HELD_BATCHES` batches, without labels, and takes the best. A statistic or grid that has
    no such method gets "max" (docs/decisions/0006-auto-compares-outputs.md has the measurements).

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
            on the first `HELD_BATCHES` batches, out of its bias; a layer without a bias gets one. "auto":
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
    _asked(method, active, computed := computed_weights_of(model))
    calibrators = {name: calibrator_for(q, ends_only=name in computed) for name, q in active.items()}
    run, total = forward or forward_batch, num_batches if num_batches is not None else length_of(data)
    held, batches = list[_Held](), 0
    failure: Exception | None = None
    try:
        with (
            Progress("calibrating", total, progress and group.first) as bar,
            evaluating(model),
            watching(quantizers, dict(calibrators)),
        ):
            for number, batch in distributed.deal(data, group, num_batches):
                outputs = _run_explained(run, model, number, batch)
                if number < HELD_BATCHES:
                    held.append(_Held(number, batch, real_tensors(outputs)))
                bar.advance(done=number + 1)
                batches += 1
        with explain_nonfinite(model):
            fetch(calibrators)
    except Exception as error:
        failure = error
    distributed.share_failure(failure, group)
    stats = _merged(calibrators, group)
    if unreached == "disable":
        stats = disable_unreached(quantizers, calibrators)
    require_reached(calibrators)
    shapes = {name: c.shape for name, c in calibrators.items() if c.shape or c.stats.axis is None}
    calibration = Calibration(stats)
    seen = distributed.sum_over(np.array([float(batches)]), group)
    calibration.record(source=type(model).__name__, batches=int(seen[0]))
    result = CalibrationResult(model, calibration, _held=held, _shapes=shapes, _forward=run, _group=group)
    result._unordered = frozenset(unordered)
    with waiting("choose ranges", progress and group.first):
        return result.apply(
            method, weight_method=weight_method, unsigned=unsigned, correct_bias=correct_bias,
            scale_bits=scale_bits, **options,
        )  # fmt: skip


def _merged(calibrators: Mapping[str, Any], group: ProcessGroup) -> dict[str, Histogram | Range]:
    """The statistics of all processes, by quantizer path; `calibrators` hold them, too."""
    stats: dict[str, Histogram | Range] = {name: c.stats for name, c in calibrators.items()}
    distributed.merge_statistics(stats, group)
    for name, merged in stats.items():
        calibrators[name].stats = merged
    return stats
