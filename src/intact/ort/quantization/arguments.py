"""Meanings of the arguments and extra options of `onnxruntime.quantization`: used, harmless or refused."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from intact.errors import QuantValueError, UnsupportedError

logger = logging.getLogger("intact.ort")

USED = ""
"""The reason of an argument that is used; all others say why they change nothing."""

STATIC = {
    "model_input": USED, "model_output": USED, "calibration_data_reader": USED, "quant_format": USED,
    "op_types_to_quantize": USED, "per_channel": USED, "reduce_range": USED, "activation_type": USED,
    "weight_type": USED, "nodes_to_quantize": USED, "nodes_to_exclude": USED,
    "use_external_data_format": USED, "calibrate_method": USED, "extra_options": USED,
    "calibration_cache_path": USED,
    "calibration_providers": "calibration runs on the processor; ranges are those of float32",
}  # fmt: skip
"""Arguments of quantize_static."""

DYNAMIC = {
    "model_input": USED, "model_output": USED, "op_types_to_quantize": USED, "reduce_range": USED,
    "weight_type": USED, "nodes_to_quantize": USED, "nodes_to_exclude": USED,
    "use_external_data_format": USED, "extra_options": USED,
    "per_channel": "each block of 32 weights has a scale of its own",
}  # fmt: skip
"""Arguments of quantize_dynamic."""

MATMUL_NBITS = {
    "model": USED, "bits": USED, "block_size": USED, "is_symmetric": USED, "accuracy_level": USED,
    "nodes_to_exclude": USED, "nodes_to_include": USED, "quant_format": USED, "op_types_to_quantize": USED,
    "quant_axes": USED, "channel_wised_quantize": USED, "algo_config": USED,
}  # fmt: skip
"""Arguments of MatMulNBitsQuantizer."""

_INTERNAL = "INTact decides it by what the engine fuses"
_CODES_STAND = "weights are stored as codes behind a DequantizeLinear, which mean the same numbers"
_DYNAMIC_ONLY = "ranges are taken while the model runs"

STATIC_OPTIONS = {
    "ActivationSymmetric": USED, "CalibTensorRangeSymmetric": USED, "MatMulConstBOnly": USED,
    "OpTypesToExcludeOutputQuantization": USED, "QDQOpTypePerChannelSupportToAxis": USED,
    "CalibPercentile": USED, "CalibStridedMinMax": USED, "SmoothQuant": USED, "TensorQuantOverrides": USED,
    "SmoothQuantAlpha": "the strength is the one with the least error",
    "SmoothQuantFolding": "scales go into the parameters in front of them where these can take them",
    "AddQDQPairToWeight": _CODES_STAND,
    "QuantizeBias": "biases stay floats in the file; the engine adds them as integers",
    "DedicatedQDQPair": "pairs of one tensor have one scale, whether they are shared or not",
    "ForceQuantizeNoInputCheck": _INTERNAL, "QDQKeepRemovableActivations": _INTERNAL,
    "QDQDisableWeightAdjustForInt32Bias": "scales are widened where a bias needs it",
    "CalibMaxIntermediateOutputs": "statistics take a bounded memory",
    "EnableSubgraph": "branches of Ifs are quantized where the data reach them",
    "DefaultTensorType": "types of tensors are inferred",
    "UseQDQContribOps": "the file gets the opset whose QuantizeLinear has the type",
}  # fmt: skip
"""Extra options of quantize_static."""

DYNAMIC_OPTIONS = {
    "MatMulConstBOnly": "constant matrices alone are quantized",
    "ActivationSymmetric": _DYNAMIC_ONLY, "WeightSymmetric": "blocks have a scale and no offset",
    "ForceQuantizeNoInputCheck": _INTERNAL,
    "EnableSubgraph": "branches and bodies of loops are quantized, too",
    "DefaultTensorType": "types of tensors are inferred",
}  # fmt: skip
"""Extra options of quantize_dynamic."""

REFUSED: dict[str, tuple[Any, ...]] = {
    "ActivationRestrictedAsymmetric": (False, None), "WeightSymmetric": (True, None),
    "MinimumRealRange": (None,), "CalibMovingAverage": (False, None),
    "CalibMovingAverageConstant": (0.01, None), "BlockSize": (0, None),
    "extra.Sigmoid.nnapi": (False, None),
}  # fmt: skip
"""Extra options with the values that are ONNX Runtime's default; INTact has nothing for others."""


class Notes:
    """Says once for each call what changes nothing.

    Args:
        function: Whose arguments they are.
    """

    def __init__(self, function: str) -> None:
        self.function = function
        self.lines: list[str] = []

    def add(self, name: str, why: str) -> None:
        """Note that an argument changes nothing, and why."""
        self.lines.append(f"{name} changes nothing: {why}")

    def log(self) -> None:
        """Write the lines as one warning of the logger "intact.ort"."""
        if self.lines:
            logger.warning("INTact: %s: %s", self.function, "; ".join(self.lines))


def check_arguments(notes: Notes, call_arguments: Mapping[str, Any], meanings: Mapping[str, str]) -> None:
    """Note arguments that change nothing; refuse those that nobody knows.

    Args:
        notes: Of the call.
        call_arguments: What the script passed, by name.
        meanings: By name, as in `STATIC`.

    Raises:
        UnsupportedError: An argument is not among `meanings`: it is of a newer onnxruntime.
    """
    for name, value in call_arguments.items():
        if name not in meanings:
            raise _unknown(notes.function, name, value)
        if meanings[name] and value not in (None, False):
            notes.add(name, meanings[name])


def check_extra_options(
    notes: Notes, options: Any, meanings: Mapping[str, str]
) -> dict[str, Any]:  # fmt: skip
    """Return the extra options of a call that are used, without those that are None.

    Raises:
        QuantValueError: They are no dict.
        UnsupportedError: An option is unknown, or has a value that INTact has nothing for.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise QuantValueError(
            f"{notes.function}: extra_options", f"a {type(options).__name__}", "a dict", "correct it"
        )
    used = {}
    for name, value in options.items():
        where = f"extra_options['{name}']"
        if name in meanings:
            if meanings[name] == USED:
                used[name] = value
            elif value is not None:
                notes.add(where, meanings[name])
        elif name not in REFUSED:
            raise _unknown(notes.function, where, value)
        elif value not in REFUSED[name]:
            raise UnsupportedError(
                f"{notes.function}: {where}", f"{value!r:.60}", f"{REFUSED[name][0]!r}, the default",
                "leave it out, or run the script without INTACT_ORT_QUANTIZATION",
            )  # fmt: skip
    return {name: value for name, value in used.items() if value is not None}


def format_name(where: str, quant_type: Any) -> str:
    """Return INTact's name of a `QuantType`: "int8" for QInt8.

    Raises:
        QuantValueError: It is none.
    """
    name = getattr(quant_type, "name", "")
    if name == "QFLOAT8E4M3FN":
        return "fp8e4m3"
    if name in ("QInt8", "QUInt8", "QInt16", "QUInt16", "QInt4", "QUInt4"):
        return str(name[1:]).lower()
    raise QuantValueError(where, f"{quant_type!r:.60}", "a QuantType", "pass QuantType.QInt8, for example")


def weight_format(notes: Notes, quant_type: Any) -> str:
    """Return the format of the weights for a `QuantType`."""
    name = format_name(f"{notes.function}: weight_type", quant_type)
    if name.startswith("uint"):
        notes.lines.append(f"weight_type {name}: codes are {name[1:]}, which mean the same numbers")
        return name[1:]
    return name


def check_reduce_range(notes: Notes, value: Any, target: str) -> None:
    """Note that weights need no 7 bits where the engine runs the file.

    Raises:
        UnsupportedError: Another engine shall run it, whose sums may overflow.
    """
    if not value:
        return
    if target != "intact":
        raise UnsupportedError(
            f"{notes.function}: reduce_range", f"True for '{target}'", "False: weights have 8 bits",
            "leave it out, or take quantization='intact', whose kernels never saturate",
        )  # fmt: skip
    notes.add("reduce_range", "the engine's sums are exact with 8 bits")


def name_list(where: str, value: Any) -> list[str]:
    """Return a list of names; None is an empty one.

    Raises:
        QuantValueError: It holds something else.
    """
    if value is None:
        return []
    names = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    if not all(isinstance(name, str) for name in names):
        raise QuantValueError(where, f"{value!r:.60}", "a list of names", "correct it")
    return names


def existing(notes: Notes, where: str, names: Sequence[str], known_names: Iterable[str]) -> list[str]:
    """Return the names that there are; note the others, which ONNX Runtime leaves unsaid."""
    names_in_model = set(known_names)
    if missing := [name for name in names if name not in names_in_model]:
        shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        notes.lines.append(f"{where}: not in the model: {shown}")
    return [name for name in names if name in names_in_model]


def _unknown(function: str, name: str, value: Any) -> UnsupportedError:
    return UnsupportedError(
        f"{function}: {name}", f"{value!r:.60}", "an argument that INTact knows",
        "leave it out, or run the script without INTACT_ORT_QUANTIZATION",
    )  # fmt: skip
