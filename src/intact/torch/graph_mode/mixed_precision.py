"""Spend a time budget on 16 bits or floats for the layers that lose most, where 8 bits leave an output poor.

The search is that for files (`intact.ptq.mixed`), run on the module. Units are quantized alone by
their switches, on the hold-out batches of calibration. Times are predicted for the exported graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from intact.calib import ZeroRangeWarning
from intact.errors import QuantValueError
from intact.placement import Placement, profile_of
from intact.ptq import GATE_DB, POOR_DB
from intact.ptq.measure import Errors, lowest_sqnr, relative_error
from intact.ptq.mixed import (
    GOOD_DB,
    RUNS,
    TRIALS,
    Form,
    PrecisionStep,
    PredictedTime,
    UnitGroup,
    UnitTrials,
    affordable_steps,
    fewest_steps,
    forms_of,
    greedy_steps,
    is_clearly_better,
    predict_step_count,
    reader_is_recurrent,
)
from intact.ptq.scope import FLOAT_BUDGET
from intact.ptq.stages import Unit, with_reason
from intact.torch.exact import torch_functions
from intact.torch.graph_mode.analysis import Analysis
from intact.torch.graph_mode.module_units import ModuleUnit, shapes_of, units_of
from intact.torch.graph_mode.quantizer_plan import QuantizerPlan
from intact.torch.graph_mode.report import GraphModeReport
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.training.bias_correction import undo_bias_correction
from intact.torch.training.calibration import CalibrationResult
from intact.torch.training.collect_statistics import enabled_quantizers


@dataclass
class BudgetResult:
    """Records what the budget changed.

    Attributes:
        wide: Path of a quantizer that has 16 bits -> why.
        left: Label of a call that stays in float -> why.
        off: Paths of the quantizers that are switched off for it.
        nodes: Node of the exported graph -> why it has another format.
        integers: Those of them that still compute in integers.
    """

    wide: dict[str, str] = field(default_factory=dict)
    off: set[str] = field(default_factory=set)
    left: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    integers: set[str] = field(default_factory=set)

    def apply_to_placement(self, before: Placement) -> Placement:
        """Return the placement with the layers' new formats."""
        layers = (with_reason(layer, self.nodes, self.integers) for layer in before.layers)
        return replace(before, layers=tuple(layers))

    def apply_to_report(self, before: GraphModeReport) -> GraphModeReport:
        """Return the report with the changes."""
        quantizers = {name: why for name, why in before.quantizers.items() if name not in self.off}
        return replace(before, quantizers=quantizers, left=before.left | self.left, wide=self.wide)


def check_budget(float_budget: float | None, profile: str, formats: set[str]) -> float:
    """Return the time budget as a share of the run's time; None means the default for files.

    Raises:
        QuantValueError: It is below 0, or no number.
    """
    if float_budget is None:
        supported = profile_of(profile).name == "intact" and formats <= {"int8", "uint8"}
        return FLOAT_BUDGET if supported else 0.0
    if (
        isinstance(float_budget, bool)
        or not isinstance(float_budget, (int, float))
        or not 0 <= float_budget < inf
    ):
        where, want = "quantize: float_budget", "a part of the time, 0 or more"
        raise QuantValueError(where, f"{float_budget!r:.60}", want, "write 0.2 for a fifth")
    return float(float_budget)


@torch_functions()
def spend_budget(
    analysis: Analysis,
    plan: QuantizerPlan,
    calibration: CalibrationResult,
    budget: float,
    choose: Callable[[], object],
    *,
    has_gate: bool = False,
) -> BudgetResult:
    """Give quantizers of a calibrated model 16 bits, or switch them off, where that is worth its time.

    Args:
        analysis: Of the model.
        plan: Of the model's quantizers.
        calibration: Its ranges are chosen, and its biases corrected if that was asked for.
        budget: How much longer a run may take, as a share of its time.
        choose: Chooses all ranges again, and corrects biases again.
        has_gate: Bring every output to `GATE_DB`, whatever that takes (docs/decisions/0069-gate.md).
    """
    quantizers = enabled_quantizers(calibration.model)
    before = _errors(calibration.output_errors(quantizers))
    if not budget or not before or lowest_sqnr(before) >= GOOD_DB:
        return BudgetResult()
    units = {module_unit.unit: module_unit for module_unit in units_of(analysis, plan, quantizers)}
    error, least = 0.0, lowest_sqnr(before)
    if least >= POOR_DB:
        reads, error = reader_is_recurrent(analysis.placed), relative_error(before)
        units = {unit: module_unit for unit, module_unit in units.items() if reads(unit)}
    if not units:
        return BudgetResult()
    undo_bias_correction(calibration.model)
    trials = _ModuleTrials(analysis, calibration, units)
    is_gated = has_gate and least < GATE_DB
    measured = (
        trials.measure(list(units), 2 * TRIALS, least_share=0.0) if is_gated
        else trials.measure(list(units), budget=budget, error=error)
    )  # fmt: skip
    search = _Search(calibration, units, choose)
    steps = affordable_steps(measured, budget, error)
    after = search.errors_with(steps)
    helps = bool(steps) and is_clearly_better(relative_error(before), relative_error(after))
    if is_gated and not (helps and lowest_sqnr(after) >= GATE_DB):
        if (gated := search.reach(measured, least)) is not None:
            return search.result(gated, least, f"the {GATE_DB:g} dB that every output has to have")
        search.errors_with(steps)
    if helps:
        return search.result(steps, least)
    search.errors_with([])
    return BudgetResult()


class _Search:
    """Tries formats of a calibrated module's quantizers.

    Args:
        calibration: Of the module.
        units: What can have other formats.
        choose: Chooses all ranges again.
    """

    def __init__(
        self, calibration: CalibrationResult, units: Mapping[Unit, ModuleUnit], choose: Callable[[], object]
    ) -> None:
        self._calibration, self._units, self._choose = calibration, units, choose
        self._change = _Change(calibration)
        self._steps: list[PrecisionStep] | None = None

    def errors_with(self, steps: Sequence[PrecisionStep]) -> Errors:
        """Take `steps` alone, choose ranges again, and return the errors of the outputs."""
        if list(steps) != self._steps:
            self._change.undo()
            for form, groups in forms_of(steps).items():
                for unit in groups:
                    self._change.set_form(self._units[unit], form)
            self._steps = list(steps)
            if self._change.working():  # else there is no range to choose, and no error
                _choose_again(self._choose)
        return _errors(self._calibration.output_errors(self._change.working()))

    def reach(self, measured: Sequence[UnitGroup], least: float) -> list[PrecisionStep] | None:
        """Take the fewest steps that bring every output to `GATE_DB`, and return them.

        None where all of them bring next to nothing. Some layer stays in int8.
        """
        steps = greedy_steps(measured)
        while steps and not self._leaves_quantizers(steps):
            steps.pop()
        ratios = {0: least}

        def ratio_with(number: int) -> float:
            if number not in ratios:
                ratios[number] = lowest_sqnr(self.errors_with(steps[:number]))
            return ratios[number]

        guess = predict_step_count(measured, steps, GATE_DB)
        number = fewest_steps(len(steps), guess, GATE_DB, least, ratio_with)
        if number is None:
            return None
        self.errors_with(steps[:number])
        return steps[:number]

    def _leaves_quantizers(self, steps: Sequence[PrecisionStep]) -> bool:
        """Return whether a quantizer still works behind `steps`."""
        units = [self._units[unit] for unit in forms_of(steps)["float"]]
        names = {name for unit in units for name in (unit.activation, *unit.weights)}
        return not names.issuperset(enabled_quantizers(self._calibration.model))

    def result(
        self, steps: Sequence[PrecisionStep], least: float, by: str = "the float budget"
    ) -> BudgetResult:
        """Return what `steps` changed; `by` chose them where the worst output had `least` dB."""
        result = BudgetResult()
        for form, groups in forms_of(steps).items():
            for unit, group in groups.items():
                _record_change(result, self._units[unit], form, group.reason(least, form, by))
        return result


def _choose_again(choose: Callable[[], object]) -> None:
    """Choose ranges again, without repeating the warnings about ranges of zero."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZeroRangeWarning)
        choose()


def _record_change(result: BudgetResult, unit: ModuleUnit, form: Form, reason: str) -> None:
    result.nodes |= dict.fromkeys(unit.unit.nodes, reason)
    if form == "16 bits":
        result.wide[unit.activation] = reason
        result.integers |= set(unit.unit.nodes)
    else:
        result.left |= dict.fromkeys(unit.labels, f"in float: {reason}")
        result.off |= {unit.activation, *unit.weights}


def _errors(sums: NDArray[np.float64]) -> Errors:
    """Return the errors as `intact.ptq` has them, with each output as one part."""
    return Errors({str(i): (error[None], square[None]) for i, (error, square) in enumerate(sums)})


class _Change:
    """Sets formats of quantizers, and can restore them."""

    def __init__(self, calibration: CalibrationResult) -> None:
        self._quantizers = enabled_quantizers(calibration.model)
        self._before = {name: (q.num_bits, q.unsigned) for name, q in self._quantizers.items()}

    def working(self) -> dict[str, TensorQuantizer]:
        """Return the quantizers that still work."""
        return {name: q for name, q in self._quantizers.items() if not q._disabled}

    def set_form(self, unit: ModuleUnit, form: Form) -> None:
        """Set another format for a unit."""
        if form == "16 bits":
            self._quantizers[unit.activation].num_bits = 16
            return
        for name in (unit.activation, *unit.weights):
            self._quantizers[name].disable()

    def undo(self) -> None:
        """Restore the formats."""
        for name, quantizer in self._quantizers.items():
            quantizer.enable()
            quantizer.num_bits, quantizer.unsigned = self._before[name]


class _ModuleTrials(UnitTrials):
    """Measures units of a module by its quantizers' switches."""

    def __init__(
        self, analysis: Analysis, calibration: CalibrationResult, units: Mapping[Unit, ModuleUnit]
    ) -> None:
        model = analysis.placed
        wide = {
            node for module_unit in units.values() if module_unit.widens for node in module_unit.unit.nodes
        }
        super().__init__(PredictedTime(model, analysis.placement, shapes_of(model)), wide)
        self._calibration, self._units = calibration, units
        self._quantizers = enabled_quantizers(calibration.model)

    def can_widen(self, unit: Unit) -> bool:
        bits = self._quantizers[self._units[unit].activation].num_bits
        return self._units[unit].widens and bits == 8

    def errors(self, parts: Sequence[Sequence[Unit]], weights: bool) -> list[float]:
        return [relative_error(_errors(self._alone(part, weights))) for part in parts]

    def _alone(self, part: Sequence[Unit], weights: bool) -> NDArray[np.float64]:
        units = [self._units[unit] for unit in part]
        names = [
            name
            for module_unit in units
            for name in (module_unit.activation, *(module_unit.weights if weights else ()))
        ]
        return self._calibration.output_errors({name: self._quantizers[name] for name in names}, RUNS)
