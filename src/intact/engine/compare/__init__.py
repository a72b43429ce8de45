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
from intact.engine.compare.engine_comparison import (
    MODULE,
    ONNX_FILE,
    REFERENCE,
    EngineComparison,
    summarize_side,
)
from intact.engine.compare.file_comparison import (
    MOST_PARAMETERS,
    MOST_SAMPLES,
    FileComparison,
    compare_file,
)

__all__ = [
    "MODULE", "MOST_PARAMETERS", "MOST_SAMPLES", "ONNX_FILE", "REFERENCE", "ROUNDING", "CLibrary",
    "Comparison", "Counts", "Distance", "EngineComparison", "FileComparison", "LayerCounts", "Module",
    "TensorCounts", "c_library_of", "compare", "compare_file", "compare_module", "differing_elements",
    "summarize_side",
]  # fmt: skip
