"""16 bits, or floats, for what loses most: where 8 bits leave an output of a calibrated module poor.

The same search as for files (`intact.ptq.mixed.budget`), with the module as what runs: units are
quantized alone by their switches, on the batches that calibration has held, and times are predicted for the
exported graph.
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
from intact.ptq import POOR_DB
from intact.ptq.measure.evaluator import Errors, relative, worst
from intact.ptq.mixed.budget import GOOD_DB, is_recurrent
from intact.ptq.mixed.predicted_time import PredictedTime
from intact.ptq.mixed.unit_groups import RUNS, Form, UnitTrials, forms_of, is_hopeless, pays, within
from intact.ptq.scope.settings import FLOAT_BUDGET
from intact.ptq.stages.sixteen import Unit, said_of
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
class Spent:
    """What was changed.

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

    def placement(self, before: Placement) -> Placement:
        """With the layers' new formats."""
        layers = (said_of(layer, self.nodes, self.integers) for layer in before.layers)
        return replace(before, layers=tuple(layers))

    def report(self, before: GraphModeReport) -> GraphModeReport:
        """With what was changed."""
        kept = {name: why for name, why in before.quantizers.items() if name not in self.off}
        return replace(before, quantizers=kept, left=before.left | self.left, wide=self.wide)


def checked_budget(given: float | None, profile: str, formats: set[str]) -> float:
    """Of time, as a part of the whole; None: as for files, where activations and weights are bytes.

    Raises:
        QuantValueError: It is below 0, or no number.
    """
    if given is None:
        known = profile_of(profile).name == "intact" and formats <= {"int8", "uint8"}
        return FLOAT_BUDGET if known else 0.0
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given < inf:
        where, want = "quantize: float_budget", "a part of the time, 0 or more"
        raise QuantValueError(where, f"{given!r:.60}", want, "write 0.2 for a fifth")
    return float(given)


@torch_functions()
def spend(
    found: Analysis,
    plan: QuantizerPlan,
    calibration: CalibrationResult,
    budget: float,
    choose: Callable[[], object],
) -> Spent:
    """Give quantizers of a calibrated model 16 bits, or switch them off, where that is worth its time.

    Args:
        found, plan: Of the model.
        calibration: Its ranges are chosen, and its biases corrected if that was asked for.
        budget: How much longer a run may take, as a part of its time.
        choose: Chooses all ranges again, and corrects biases again.
    """
    quantizers = enabled_quantizers(calibration.model)
    before = _errors(calibration.output_errors(quantizers))
    if not budget or not before or worst(before) >= GOOD_DB:
        return Spent()
    units = {one.unit: one for one in units_of(found, plan, quantizers)}
    error = 0.0
    if worst(before) >= POOR_DB:
        reads, error = is_recurrent(found.placed), relative(before)
        units = {unit: one for unit, one in units.items() if reads(unit)}
    if not units:
        return Spent()
    undo_bias_correction(calibration.model)
    trials = _ModuleTrials(found, calibration, units)
    wanted = [u for u in units if min(trials.time([u], "16 bits"), trials.time([u], "float")) <= budget]
    measured = trials.measured(wanted, budget=budget, error=error) if wanted else []
    steps = within(measured, budget, error)
    forms = forms_of([] if is_hopeless(measured, steps, error) else steps)
    changed = _Change(calibration)
    spent = Spent()
    for form, groups in forms.items():
        for unit, group in groups.items():
            changed.give(units[unit], form)
            _say(spent, units[unit], form, group.reason(worst(before), form))
    if changed.enabled():  # else there is no range to choose, and no error
        _quietly(choose)
    if not changed.any:
        return spent
    after = _errors(calibration.output_errors(changed.enabled()))
    if pays(relative(before), relative(after)):
        return spent
    changed.undo()
    _quietly(choose)
    return Spent()


def _quietly(choose: Callable[[], object]) -> None:
    """Choose ranges again: whose are zero was said when they were chosen first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZeroRangeWarning)
        choose()


def _say(spent: Spent, unit: ModuleUnit, form: Form, reason: str) -> None:
    spent.nodes |= dict.fromkeys(unit.unit.nodes, reason)
    if form == "16 bits":
        spent.wide[unit.activation] = reason
        spent.integers |= set(unit.unit.nodes)
    else:
        spent.left |= dict.fromkeys(unit.labels, f"in float: {reason}")
        spent.off |= {unit.activation, *unit.weights}


def _errors(sums: NDArray[np.float64]) -> Errors:
    """As `intact.ptq` has them, each output one part."""
    return Errors({str(i): (error[None], square[None]) for i, (error, square) in enumerate(sums)})


class _Change:
    """Formats of quantizers, which can be put back."""

    def __init__(self, calibration: CalibrationResult) -> None:
        self._quantizers = enabled_quantizers(calibration.model)
        self._before = {name: (q.num_bits, q.unsigned) for name, q in self._quantizers.items()}

    @property
    def any(self) -> bool:
        """Whether one has another format than before."""
        return any(
            q._disabled or (q.num_bits, q.unsigned) != self._before[name]
            for name, q in self._quantizers.items()
        )

    def enabled(self) -> dict[str, TensorQuantizer]:
        """Those that still work."""
        return {name: q for name, q in self._quantizers.items() if not q._disabled}

    def give(self, unit: ModuleUnit, form: Form) -> None:
        """Another format for a unit."""
        if form == "16 bits":
            self._quantizers[unit.activation].num_bits = 16
            return
        for name in (unit.activation, *unit.weights):
            self._quantizers[name].disable()

    def undo(self) -> None:
        """The formats of before."""
        for name, quantizer in self._quantizers.items():
            quantizer.enable()
            quantizer.num_bits, quantizer.unsigned = self._before[name]


class _ModuleTrials(UnitTrials):
    """Measures units of a module by its quantizers' switches."""

    def __init__(
        self, found: Analysis, calibration: CalibrationResult, units: Mapping[Unit, ModuleUnit]
    ) -> None:
        model = found.placed
        wide = {node for one in units.values() if one.widens for node in one.unit.nodes}
        super().__init__(PredictedTime(model, found.placement, shapes_of(model)), wide)
        self._calibration, self._units = calibration, units
        self._quantizers = enabled_quantizers(calibration.model)

    def can_widen(self, unit: Unit) -> bool:
        bits = self._quantizers[self._units[unit].activation].num_bits
        return self._units[unit].widens and bits == 8

    def errors(self, parts: Sequence[Sequence[Unit]], weights: bool) -> list[float]:
        return [relative(_errors(self._alone(part, weights))) for part in parts]

    def _alone(self, part: Sequence[Unit], weights: bool) -> NDArray[np.float64]:
        units = [self._units[unit] for unit in part]
        names = [name for one in units for name in (one.activation, *(one.weights if weights else ()))]
        return self._calibration.output_errors({name: self._quantizers[name] for name in names}, RUNS)
