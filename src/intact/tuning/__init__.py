"""Chooses a number format for each layer, by measured latency and measured error."""

from intact.tuning.format_costs import LayerFormat, formats_of
from intact.tuning.latency_clock import EngineClock, FileClock
from intact.tuning.tune import tune
from intact.tuning.tune_result import TunedLayer, TuneResult, TuneTrial

__all__ = [
    "EngineClock",
    "FileClock",
    "LayerFormat",
    "TuneResult",
    "TuneTrial",
    "TunedLayer",
    "formats_of",
    "tune",
]
