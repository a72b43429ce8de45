"""Lets a recorder see what builds with implicit int8 work with: files, calibration batches, scales, pins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from numpy.typing import NDArray

from intact.calib import TrtCache
from intact.graph import Model, Source


class BuildObserver(Protocol):
    """Is told of every build in this process while it is in `OBSERVERS`."""

    def on_parse(self, source: Source) -> None:
        """See the bytes or the path of a file that a parser took."""

    def on_batch(self, feeds: Mapping[str, NDArray]) -> None:
        """See a batch that a calibrator gave."""

    def on_build(self, model: Model, cache: TrtCache, floats: Sequence[str]) -> None:
        """See a network with implicit int8.

        Args:
            model: The network, in float.
            cache: Its scales.
            floats: Names of the layers that are pinned to float.
        """


OBSERVERS: list[BuildObserver] = []
"""Those who are told, in order."""
