"""The floats of two weight files, tensor by tensor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from intact.formats.weight_files import floats_of, open_weights


@dataclass(frozen=True)
class WeightDifference:
    """Counts the differences of one tensor's floats between two files.

    Attributes:
        name: Of the tensor.
        differing: Elements that differ; zeros of both signs are equal, and NaNs.
        elements: All of them.
        largest: The largest absolute difference.
        missing: "first" or "second" where that file has no such tensor, or another shape; else "".
    """

    name: str
    differing: int
    elements: int
    largest: float
    missing: str = ""


def compare_weights(
    first: str | os.PathLike[str], second: str | os.PathLike[str]
) -> Iterator[WeightDifference]:
    """Compare the floats that two files stand for, tensor by tensor, in the order of the first.

    Args:
        first, second: As `convert` takes its source.
    Yields:
        One difference for each tensor of either.
    Raises:
        FileFormatError, FileAccessError, UnsupportedError: A file cannot be read.
    """
    ours, theirs = open_weights(first), open_weights(second)
    names = set(theirs.names)
    for name in ours.names:
        if name not in names:
            yield WeightDifference(name, 0, 0, 0.0, "second")
            continue
        a, b = (floats_of(weights.read(name)).astype(np.float32) for weights in (ours, theirs))
        if a.shape != b.shape:
            yield WeightDifference(name, a.size, a.size, float("inf"), "second")
            continue
        with np.errstate(invalid="ignore"):
            differs = (a != b) & ~(np.isnan(a) & np.isnan(b))
            largest = float(np.abs(a[differs] - b[differs]).max(initial=0))
        yield WeightDifference(name, int(differs.sum()), a.size, largest)
    for name in theirs.names:
        if name not in set(ours.names):
            yield WeightDifference(name, 0, 0, 0.0, "first")
