"""What quantization costs: the sensitivity of each tensor, whose error it is, findings with advice."""

from intact.ptq.analysis.analysis_records import AccuracyFinding, Drawn, Sensitivity, SensitivityAnalysis
from intact.ptq.analysis.analyze import BUDGET, analyze

__all__ = ["BUDGET", "SensitivityAnalysis", "Drawn", "AccuracyFinding", "Sensitivity", "analyze"]
