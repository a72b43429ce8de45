"""Compare a Q/DQ model, its engine and the integer reference on a few samples, within a bound of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from intact.engine.build import compile as build
from intact.engine.compare.compare_runs import compare
from intact.engine.compare.engine_comparison import (
    ONNX_FILE,
    REFERENCE,
    EngineComparison,
    summarize_side,
)
from intact.engine.engine import Engine
from intact.errors import IntactError
from intact.graph import Model

__all__ = ["FileComparison", "compare_file"]

Feeds = Mapping[str, NDArray[Any]]

MOST_SAMPLES = 4
"""Rows that are compared, where the model takes so few."""

MOST_PARAMETERS = 300_000_000
"""Parameters of a model beyond which a report compares nothing by itself: it would compile for minutes."""

MOST_PRODUCTS = 4_000_000_000
"""Products of codes in all samples together: the integer reference forms some 10^9 a second."""


@dataclass(frozen=True)
class FileComparison:
    """Compares the engine of a file with the integer reference, and the file in ONNX Runtime with the engine.

    Attributes:
        reference: The engine against the integer reference, which it must equal (numerics N32).
        file: The file in ONNX Runtime, without optimizations, against the engine (numerics N33).
    """

    reference: EngineComparison
    file: EngineComparison

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentence of each comparison that was tried."""
        return tuple(c.sentence for c in (self.reference, self.file) if not c.skipped or c is self.reference)

    def as_record(self) -> dict[str, Any]:
        """Return the counts as a JSON object."""
        return {"reference": self.reference.as_record(), "file": self.file.as_record()}


def compare_file(model: Model, samples: Sequence[Feeds]) -> FileComparison:
    """Compile a Q/DQ model, run it in every way on the first of `samples`, and count the differences.

    At most `MOST_SAMPLES` rows and `MOST_PRODUCTS` products are compared, and no model with more than
    `MOST_PARAMETERS`. Where nothing is compared, the sentences say why.

    Args:
        model: The quantized model; not changed.
        samples: Inputs by name, such as runs of the calibration data; possibly none.
    """
    if not samples:
        return _skip(
            "there are no samples, for ranges came from statistics; `intact verify` compares on data"
        )
    weights = (value.const_value for value in model.graph.initializers.values())
    count = sum(weight.size for weight in weights if weight is not None)
    if count > MOST_PARAMETERS:
        return _skip(f"{count:,} parameters take long to compile; `intact verify` compares")
    try:
        engine = build(model, deterministic=True)
        batches, products = _within_bounds(engine, samples)
        if not batches:
            return _skip(f"a sample has {products:,} products of codes; `intact verify` compares")
        comparison = compare(model, engine, batches, traced=len(batches), threads=engine.threads)
    except IntactError as error:
        return _skip(" ".join(f"{error}".split()))
    return FileComparison(
        summarize_side(comparison, "engine", REFERENCE, floats=True),
        summarize_side(comparison, "file", ONNX_FILE, floats=True),
    )


def _skip(reason: str) -> FileComparison:
    reference, file = (EngineComparison(skipped=reason, sides=sides) for sides in (REFERENCE, ONNX_FILE))
    return FileComparison(reference, file)


def _within_bounds(engine: Engine, samples: Sequence[Feeds]) -> tuple[list[Feeds], int]:
    """Return the batches to compare, and the number of products of the last one that was looked at."""
    batches, rows, products, total = list[Feeds](), 0, 0, 0
    for feeds in samples:
        batch = _first_rows(engine, feeds, MOST_SAMPLES - rows)
        products = sum(timing.macs for timing in engine.profile(batch, runs=1).timings)
        total += products
        if total > MOST_PRODUCTS:
            break
        batches.append(batch)
        rows += _rows(batch)
        if rows >= MOST_SAMPLES:
            break
    return batches, products


def _first_rows(engine: Engine, feeds: Feeds, count: int) -> Feeds:
    """Return so many of the first rows; all of them where the model does not leave the batch open."""
    is_open = all(port.shape and isinstance(port.shape[0], str) for port in engine.inputs)
    sizes = {array.shape[0] for array in feeds.values() if array.ndim}
    if not is_open or len(sizes) != 1:
        return feeds
    return {name: array[:count] for name, array in feeds.items()}


def _rows(feeds: Feeds) -> int:
    array = next(iter(feeds.values()))
    return len(array) if array.ndim else 1
