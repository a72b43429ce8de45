"""Sensitivity analysis: measures what quantizing each tensor costs, and gives advice."""

from intact.ptq.analysis.analysis_records import AccuracyFinding, Drawn, Sensitivity, SensitivityAnalysis
from intact.ptq.analysis.analyze import BUDGET, analyze, settings_of, states_around_pairs
from intact.ptq.analysis.partial_quantization import QuantizedReads, grids_of, quantize_reads
from intact.ptq.analysis.sensitivity_trials import Sweep, SweepJobs, Trial, measure_in_pool
from intact.ptq.analysis.sensitivity_units import SweepUnit, units_of
from intact.ptq.scope.quantization_targets import Read

__all__ = [
    "BUDGET", "AccuracyFinding", "Drawn", "QuantizedReads", "Read", "Sensitivity", "SensitivityAnalysis",
    "Sweep", "SweepJobs", "SweepUnit", "Trial", "analyze", "grids_of", "measure_in_pool", "quantize_reads",
    "settings_of", "states_around_pairs", "units_of",
]  # fmt: skip
