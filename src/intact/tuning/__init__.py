"""Formats by layer: as little time as an accuracy target allows, by measured latency and measured error."""

from intact.tuning.clock import EngineClock, FileClock
from intact.tuning.formats import LayerFormat, formats_of
from intact.tuning.result import TunedLayer, TuneResult, TuneTrial
from intact.tuning.tune import tune

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
