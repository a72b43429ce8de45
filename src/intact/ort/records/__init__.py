"""The memory of models: records and plans in a folder that processes share."""

from intact.ort.records.record_text import (
    counts_of,
    describe,
    figure_of_metric,
    name_of,
    text_of_repeats,
)
from intact.ort.records.result_cache import COUNTS, ModelRecord, ResultCache

__all__ = [
    "COUNTS", "ModelRecord", "ResultCache", "counts_of", "describe", "figure_of_metric", "name_of",
    "text_of_repeats",
]  # fmt: skip
