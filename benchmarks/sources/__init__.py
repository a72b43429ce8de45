"""Drivers of public sources for `benchmarks/toolkit_sources.py`."""

from sources import detectors, language, points
from sources.common import SOURCES

__all__ = ["SOURCES", "detectors", "language", "points"]
