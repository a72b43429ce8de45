"""Compare one Q/DQ model in every way that runs it: integer reference, engine, module and ONNX Runtime."""

from intact.engine.compare.c_library import CLibrary, c_library_of, differing_elements
from intact.engine.compare.compare_runs import Module, compare, compare_module
from intact.engine.compare.comparison_counts import (
    ROUNDING,
    Comparison,
    Counts,
    Distance,
    LayerCounts,
    TensorCounts,
)

__all__ = [
    "ROUNDING", "CLibrary", "Comparison", "Counts", "Distance", "LayerCounts", "Module", "TensorCounts",
    "c_library_of", "compare", "compare_module", "differing_elements",
]  # fmt: skip
