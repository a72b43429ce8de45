"""Names that TensorRT 11 removed from its Python API, and why nothing stands in their place.

Source: the bindings of TensorRT 8.6.1, 10.16 and 11.1 (python/src), compared name by name.
"""

from __future__ import annotations

CALIBRATORS = frozenset({
    "IInt8Calibrator", "IInt8EntropyCalibrator", "IInt8EntropyCalibrator2", "IInt8LegacyCalibrator",
    "IInt8MinMaxCalibrator",
})  # fmt: skip
"""Base classes of calibrators."""

TYPES = CALIBRATORS | {
    "CalibrationAlgoType", "IAlgorithm", "IAlgorithmContext", "IAlgorithmIOInfo", "IAlgorithmSelector",
    "IAlgorithmVariant", "IFullyConnectedLayer", "IRNNv2Layer", "QuantizationFlag",
}  # fmt: skip
"""Names of the module that are gone."""

FLAGS: dict[str, frozenset[str]] = {
    "BuilderFlag": frozenset({
        "BF16", "ENABLE_TACTIC_HEURISTIC", "FP16", "FP4", "FP8", "INT4", "INT8", "OBEY_PRECISION_CONSTRAINTS",
        "PREFER_PRECISION_CONSTRAINTS", "REJECT_EMPTY_ALGORITHMS", "STRICT_TYPES", "WEIGHTLESS",
    }),
    "PreviewFeature": frozenset({
        "DISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805", "FASTER_DYNAMIC_SHAPES_0805",
        "MULTIDEVICE_RUNTIME_10_16", "PROFILE_SHARING_0806",
    }),
    "TacticSource": frozenset({"CUBLAS", "CUBLAS_LT", "CUDNN"}),
}  # fmt: skip
"""Members of enumerations that are gone, by enumeration."""

NETWORK_FLAGS = frozenset({"EXPLICIT_BATCH", "EXPLICIT_PRECISION"})
"""Flags of a network that are gone; `STRONGLY_TYPED` stands in their place."""

CALLS = {
    "clear_quantization_flag": "there is no calibration to steer",
    "reset_dynamic_range": "ranges stand in Q/DQ",
    "reset_output_type": "types stand in the graph", "reset_precision": "types stand in the graph",
    "set_calibration_profile": "there is no calibration", "set_dynamic_range": "ranges stand in Q/DQ",
    "set_output_type": "types stand in the graph",
    "set_quantization_flag": "there is no calibration to steer",
}  # fmt: skip
"""Calls that are taken out, and why nothing stands in their place."""

SETTINGS = {
    "algorithm_selector": "the builder asks nobody", "dynamic_range": "ranges stand in Q/DQ",
    "fp16_mode": "types stand in the graph", "int8_calibrator": "scales stand in Q/DQ",
    "int8_mode": "int8 runs where Q/DQ stand", "max_batch_size": "batches stand in the shapes",
    "min_timing_iterations": "the builder takes the average's number",
    "quantization_flags": "there is no calibration to steer",
    "strict_type_constraints": "types stand in the graph",
}  # fmt: skip
"""Attributes whose assignments are taken out, and why."""

SETTINGS_OF_TYPES = frozenset({"compute_precision", "precision"})
"""Attributes of layers, which scripts use for other things too: gone where they are given a TensorRT type."""

ALWAYS_TRUE = frozenset({"platform_has_fast_fp16", "platform_has_fast_int8", "platform_has_tf32"})
"""Questions about a device that TensorRT 11 no longer answers, as every one that it runs on has them."""

POLYGRAPHY_KEYWORDS = frozenset({
    "algorithm_selector", "bf16", "calibrator", "fp16", "fp8", "int8", "obey_precision_constraints",
    "precision_constraints", "quantization_flags",
})  # fmt: skip
"""Keywords of Polygraphy's `CreateConfig` that set what is gone."""
