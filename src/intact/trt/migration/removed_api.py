"""Names that TensorRT 11 removed from its Python API, grouped by what becomes of their uses in a script.

What 11 removed stands in `removed_in_11`, what 10 removed in `removed_members`.
"""

from __future__ import annotations

from itertools import chain

from intact.trt.base.removed_in_11 import REMOVED_IN_11

_RENAMED = frozenset({"IStreamReader", "ResizeMode", "SliceMode"})

CALIBRATORS = frozenset(name for name in REMOVED_IN_11[""] if name.startswith("IInt8"))
"""Base classes of calibrators."""

TYPES = frozenset(REMOVED_IN_11[""]) - _RENAMED
"""Names of the module that are gone; those of `_RENAMED` have another name."""

FLAGS: dict[str, frozenset[str]] = {
    kind: frozenset(REMOVED_IN_11[kind]) for kind in ("BuilderFlag", "PreviewFeature", "TacticSource")
}
"""Members of enumerations that are gone, by enumeration."""

NETWORK_FLAGS = frozenset(REMOVED_IN_11["NetworkDefinitionCreationFlag"])
"""Flags of a network that are gone; `STRONGLY_TYPED` stands in their place."""

ALWAYS_TRUE = frozenset(REMOVED_IN_11["Builder"])
"""Questions about a device that TensorRT 11 no longer answers, as every one that it runs on has them."""

_STATED = {**REMOVED_IN_11["IBuilderConfig"], **REMOVED_IN_11["ILayer"], **REMOVED_IN_11["ITensor"]}
_CALLED = ("set_", "reset_", "clear_")

CALLS = {name: f"instead: {advice}" for name, advice in _STATED.items() if name.startswith(_CALLED)}
"""Calls that are taken out, and what says the same now."""

SETTINGS_OF_TYPES = frozenset({"precision", *REMOVED_IN_11["INormalizationLayer"]})
"""Attributes of layers, which scripts use for other things too: gone where they are given a TensorRT type."""

SETTINGS = {
    **{name: f"instead: {advice}" for name, advice in _STATED.items()
       if name not in CALLS and name not in SETTINGS_OF_TYPES and not name.endswith("_is_set")},
    "fp16_mode": "types stand in the graph", "int8_mode": "int8 runs where Q/DQ stand",
    "max_batch_size": "batches stand in the shapes",
    "min_timing_iterations": "avg_timing_iterations alone is there",
    "quantization_flags": "there is no calibration to steer",
    "strict_type_constraints": "types stand in the graph",
}  # fmt: skip
"""Attributes whose assignments are taken out, and why; those behind the first are TensorRT 7's and 8's."""

_OWNERS = ("ICudaEngine", "IExecutionContext", "IPluginRegistry", "OnnxParser")
OTHERS = {
    **{name: REMOVED_IN_11[""][name] for name in _RENAMED},
    **dict(chain.from_iterable(REMOVED_IN_11[owner].items() for owner in _OWNERS)),
}  # fmt: skip
"""Names that are left as they are and listed, with what to use instead."""

POLYGRAPHY_KEYWORDS = frozenset({
    "algorithm_selector", "bf16", "calibrator", "fp16", "fp8", "int8", "obey_precision_constraints",
    "precision_constraints", "quantization_flags",
})  # fmt: skip
"""Keywords of Polygraphy's `CreateConfig` that set what is gone."""

_HALF = "layers without pairs run in the file's types: where these are float32, make them {} with AutoCast"
HALF_TYPES = {
    **dict.fromkeys(("FP16", "fp16", "fp16_mode"), _HALF.format("float16")),
    **dict.fromkeys(("BF16", "bf16"), _HALF.format("bfloat16")),
}
"""Flags, attributes and keywords that allowed a builder another type of floats, and what does so now."""
