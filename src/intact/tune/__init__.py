"""Formats by layer: as little time as an accuracy target allows, by measured latency and measured error."""

from intact.tune.clock import EngineClock
from intact.tune.formats import LayerFormat, formats_of
from intact.tune.result import TunedLayer, TuneResult, TuneTrial
from intact.tune.tune import tune

__all__ = ["EngineClock", "LayerFormat", "TuneResult", "TuneTrial", "TunedLayer", "formats_of", "tune"]
