"""Sensitivity analysis: measures what quantizing each tensor costs, and gives advice."""

from intact.ptq.analysis.analysis_records import AccuracyFinding, Drawn, Sensitivity, SensitivityAnalysis
from intact.ptq.analysis.analyze import BUDGET, analyze

__all__ = ["BUDGET", "SensitivityAnalysis", "Drawn", "AccuracyFinding", "Sensitivity", "analyze"]
