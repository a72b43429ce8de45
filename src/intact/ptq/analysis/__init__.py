"""What quantization costs: the sensitivity of each tensor, whose error it is, findings with advice."""

from intact.ptq.analysis.analyze import BUDGET, analyze
from intact.ptq.analysis.records import AccuracyFinding, Drawn, Sensitivity, SensitivityAnalysis

__all__ = ["BUDGET", "SensitivityAnalysis", "Drawn", "AccuracyFinding", "Sensitivity", "analyze"]
