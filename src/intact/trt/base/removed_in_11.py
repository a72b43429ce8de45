"""Names that TensorRT 11 removed, by class, with what to use instead; "" holds those of the module.

Derived from the bindings of 10.16 and 11.1 (`benchmarks/trt_bindings.py`). TensorRT 11 quantizes what
Quantize and Dequantize layers say, and computes in the types that a network has.
"""

from __future__ import annotations

_QDQ = "Quantize and Dequantize layers: `intact quantize` writes them, as does NVIDIA's Model Optimizer"
_TYPES = "types in the network: inputs, constants and Cast layers say them"
_STRONG = "nothing: every network is strongly typed"
_BATCH = "nothing: shapes have the batch"

REMOVED_IN_11: dict[str, dict[str, str]] = {
    "": {
        **{
            f"IInt8{kind.rstrip('2')}Calibrator{'2' if kind.endswith('2') else ''}": _QDQ
            for kind in ("", "Entropy", "Entropy2", "Legacy", "MinMax")
        },
        "CalibrationAlgoType": _QDQ, "QuantizationFlag": _QDQ,
        **dict.fromkeys(
            ("IAlgorithm", "IAlgorithmContext", "IAlgorithmIOInfo", "IAlgorithmSelector",
             "IAlgorithmVariant"), "an editable timing cache",
        ),
        "IStreamReader": "IStreamReaderV2", "IFullyConnectedLayer": "add_matrix_multiply",
        "IRNNv2Layer": "add_loop", "ResizeMode": "InterpolationMode", "SliceMode": "SampleMode",
        **dict.fromkeys(("RNNDirection", "RNNGateType", "RNNInputMode", "RNNOperation"), "add_loop"),
    },
    "Builder": dict.fromkeys(
        ("platform_has_fast_fp16", "platform_has_fast_int8", "platform_has_tf32"),
        "what CUDA says of the device",
    ),
    "BuilderFlag": {
        **dict.fromkeys(("FP16", "BF16", "FP8", "FP4"), _TYPES), **dict.fromkeys(("INT8", "INT4"), _QDQ),
        **dict.fromkeys(
            ("OBEY_PRECISION_CONSTRAINTS", "PREFER_PRECISION_CONSTRAINTS", "STRICT_TYPES"), _STRONG
        ),
        "REJECT_EMPTY_ALGORITHMS": "an editable timing cache", "WEIGHTLESS": "STRIP_PLAN",
    },
    "NetworkDefinitionCreationFlag": {"EXPLICIT_BATCH": _BATCH, "EXPLICIT_PRECISION": _STRONG},
    "PreviewFeature": dict.fromkeys(
        ("PROFILE_SHARING_0806", "MULTIDEVICE_RUNTIME_10_16", "FASTER_DYNAMIC_SHAPES_0805",
         "DISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805"), "nothing: it is always on",
    ),
    "TacticSource": dict.fromkeys(("CUBLAS", "CUBLAS_LT", "CUDNN"), "TensorRT's own kernels"),
    "IBuilderConfig": {
        "algorithm_selector": "an editable timing cache",
        **dict.fromkeys(
            ("int8_calibrator", "set_calibration_profile", "get_calibration_profile", "set_quantization_flag",
             "clear_quantization_flag", "get_quantization_flag"), _QDQ,
        ),
    },
    "ICudaEngine": {
        "create_execution_context_without_device_memory":
            "create_execution_context(trt.ExecutionContextAllocationStrategy.USER_MANAGED)",
        "device_memory_size": "device_memory_size_v2", "has_implicit_batch_dimension": _BATCH,
        "get_device_memory_size_for_profile": "get_device_memory_size_for_profile_v2",
        "minimum_weight_streaming_budget": "weight_streaming_scratch_memory_size",
        "weight_streaming_budget": "weight_streaming_budget_v2",
    },
    "IExecutionContext": {"all_shape_inputs_specified": "infer_shapes"},
    "ILayer": dict.fromkeys(
        ("precision", "precision_is_set", "reset_precision", "set_output_type", "output_type_is_set",
         "reset_output_type"), _TYPES,
    ),
    "INormalizationLayer": {"compute_precision": _TYPES},
    "IPluginRegistry": {"get_plugin_creator": "get_creator", "plugin_creator_list": "all_creators"},
    "ITensor": dict.fromkeys(("dynamic_range", "set_dynamic_range", "reset_dynamic_range"), _QDQ),
    "OnnxParser": {
        "supports_model": "supports_model_v2",
        "parse_with_weight_descriptors": "load_model_proto, load_initializer and parse_model_proto",
    },
}  # fmt: skip
SHIFTED = {
    "BuilderFlag": (12, 1), "NetworkDefinitionCreationFlag": (0, 1), "PreviewFeature": (0, 1),
    "TacticSource": (2, 3),
}  # fmt: skip
"""Enumerations whose members have other numbers since: those above the first are less by the second."""
