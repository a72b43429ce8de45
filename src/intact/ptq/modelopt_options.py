"""Reads configurations of NVIDIA's ModelOpt (`modelopt.torch.quantization`, `modelopt.onnx.quantization`) as
options of `quantize`.

Every field is used, listed as harmless, or refused by name. Source of names and defaults: ModelOpt 0.40,
torch/quantization/config.py and onnx/quantization/quantize.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from intact.errors import IntactError, QuantValueError, UnsupportedError
from intact.graph import load
from intact.ptq.modelopt import NAMES as NAMES
from intact.ptq.modelopt import (
    layers_left_in_float,
    needs_blocks_of_floats,
    read_rules,
    require_configuration,
)

_FORMATS = {8: "int8", 4: "int4", (4, 3): "fp8e4m3", (5, 2): "fp8e5m2", (2, 1): "fp4e2m1"}
_HARMLESS = {"pass_through_bwd": "training alone", "trt_high_precision_dtype": "types are those of the file"}
_AS_DEFAULT = {
    "fake_quant": True, "unsigned": False, "narrow_range": False, "learn_amax": False, "rotate": False,
    "bias": None, "type": "static",
}  # fmt: skip
"""Fields of a quantizer that must be what they are by default."""

_CLASSES = {
    "nn.Linear": ("Gemm", "MatMul"),
    "nn.Conv1d": ("Conv",),
    "nn.Conv2d": ("Conv",),
    "nn.Conv3d": ("Conv",),
}
_NEVER_QUANTIZED = re.compile(r"nn\.(BatchNorm[123]d|LeakyReLU)")
_ALGORITHM_FIELDS = {"method", "alpha_step", "debug", "distributed_sync"}
_DIGIT_KEY = re.compile(r"-?\d+")


@dataclass(frozen=True)
class ModelOptOptions:
    """Holds what a configuration means here.

    Attributes:
        options: Of `intact.quantize`.
        notes: What is harmless, or left to INTact, in words.
    """

    options: dict[str, Any]
    notes: tuple[str, ...] = ()


@dataclass
class _Quantizers:
    """Collects what the keys of ``quant_cfg`` say."""

    weights: Mapping[str, Any] | None = None
    inputs: Mapping[str, Any] | None = None
    include: list[str] = field(default_factory=list)
    exclude: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def modelopt_options(config: str | Mapping[str, Any], names: Sequence[str] = ()) -> ModelOptOptions:
    """Return the options of `intact.quantize` that a configuration of `modelopt.torch.quantization` means.

    Args:
        config: The name of one ("INT8_DEFAULT_CFG"), or the dict itself, also after a way through JSON.
        names: Of the model's nodes: patterns that switch quantizers off count where they fit one of them.
    Raises:
        UnsupportedError: A field asks for what INTact cannot do; names it.
        QuantValueError: There is no such configuration or field.

    Floats in blocks, ranges that a run finds and quantizers of attention are one option, ``modelopt``, which
    holds the configuration.
    """
    settings = require_configuration(config)
    if needs_blocks_of_floats(settings):
        read_rules(settings)  # refuses what nobody quantizes with
        return ModelOptOptions({"modelopt": config})
    collected = _read_quantizers(settings["quant_cfg"], names)
    options = _formats(collected)
    options |= _algorithm(settings["algorithm"], "block" in options, collected.notes)
    for key in ("include", "exclude"):
        if patterns := getattr(collected, key):
            options[key] = tuple(dict.fromkeys(patterns))
    return ModelOptOptions(options, tuple(collected.notes))


def options_with_modelopt(model: Any, modelopt: Any, **options: Any) -> dict[str, Any]:
    """Return options of `intact.quantize` in which those of a configuration stand in its place.

    ``modelopt`` is among them only where options do not say what the configuration asks for.

    Args:
        model: An ONNX model, as `intact.graph.load` takes it, or a `torch.nn.Module`.
        modelopt: The configuration, as `modelopt_options` takes it.
        options: Further ones, which go before those of the configuration.
    Raises:
        UnsupportedError: As for `modelopt_options`; or a module would need more than options say.
        QuantValueError: There is no such configuration or field.
    """
    if hasattr(model, "named_modules"):
        read = modelopt_options(modelopt, [name for name, _ in model.named_modules()]).options
        per_channel = read.pop("per_channel", True)
        extra = [name for name in ("modelopt", "equalization") if name in read]
        if extra or not per_channel:
            raise UnsupportedError(
                "ModelOpt", f"a module, and {modelopt!r:.60}",
                "an ONNX model, or a configuration of int8 or int4",
                "export the module with torch.onnx.export, and quantize the file",
            )  # fmt: skip
        return read | options
    read = modelopt_options(modelopt).options
    if "modelopt" in read or "block" in read:  # TensorRT takes no negative scales of blocks
        return {"modelopt": modelopt} | options
    read = {name: value for name, value in read.items() if name not in ("include", "exclude")}
    in_float = layers_left_in_float(load(model), modelopt)
    return {"profile": "tensorrt"} | read | options | {"exclude": (*options.get("exclude", ()), *in_float)}


def _read_quantizers(quant_cfg: Mapping[str, Any], names: Sequence[str]) -> _Quantizers:
    result = _Quantizers()
    for key, value in quant_cfg.items():
        if _NEVER_QUANTIZED.fullmatch(key):
            continue  # they have no quantizers of their own here
        if isinstance(value, list | tuple):
            raise _refusal(key, "several quantizers, one behind the other")
        if not isinstance(value, Mapping):
            raise QuantValueError(key, f"{value!r:.60}", "a dict", "correct the configuration")
        if key == "default":
            _require_off(key, value)
        elif key.endswith("weight_quantizer"):
            result.weights = _add_place(result, key, value, "weight_quantizer")
        elif key.endswith("input_quantizer") and not key.endswith("bmm_input_quantizer"):
            result.inputs = _add_place(result, key, value, "input_quantizer")
        elif key in _CLASSES:
            _require_off(key, value.get("*", value))
            result.exclude += _CLASSES[key]
        elif key.endswith("_quantizer") or key.startswith("nn."):
            _require_off(key, value.get("*", value))
        else:
            _require_off(key, value)
            pattern = key if key.endswith("*") else f"{key}*"
            if any(fnmatchcase(name, pattern) for name in names):
                result.exclude.append(pattern)
    return result


def _add_place(result: _Quantizers, key: str, value: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Note which layers a pattern of quantizers means, and return its settings."""
    pattern = key.removesuffix(kind)
    if pattern.strip("*."):
        result.include.append(pattern if pattern.endswith("*") else f"{pattern}*")
    for name, text in _HARMLESS.items():
        if name in value:
            result.notes.append(f"{name}: {text}")
    return value


def _require_off(key: str, value: Mapping[str, Any]) -> None:
    if set(value) != {"enable"} or value["enable"] is not False:
        raise _refusal(key, "a quantizer that INTact has not got: only switching it off is read")


def _formats(collected: _Quantizers) -> dict[str, Any]:
    weights = _quantizer("weight_quantizer", collected.weights)
    inputs = _quantizer("input_quantizer", collected.inputs)
    if inputs.get("block") is not None:
        raise _refusal("input_quantizer", "inputs in blocks, whose scales are found while the model runs")
    if inputs.get("axis") is not None:
        raise _refusal("input_quantizer: axis", "a scale for each channel of an input")
    if weights.get("block") is not None:
        if inputs["format"] != "float" or not weights["format"].startswith("int"):
            raise _refusal(
                "weight_quantizer: block_sizes", "codes of floats in blocks, or blocks with quantized inputs"
            )
        return {"weights": weights["format"], "block": weights["block"], "activations": "float"}
    axis = weights.get("axis")
    if axis not in (None, 0):
        raise _refusal("weight_quantizer: axis", f"scales along axis {axis}; 0 is the output channels")
    return {"weights": weights["format"], "activations": inputs["format"], "per_channel": axis == 0}


def _quantizer(where: str, value: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return format, axis and block size of a quantizer."""
    if value is None or value.get("enable", True) is False:
        return {"format": "float"}
    fields = {"enable", "num_bits", "axis", "block_sizes", "calibrator", *_AS_DEFAULT, *_HARMLESS}
    if extra := sorted(value.keys() - fields):
        raise QuantValueError(
            f"{where}: {extra[0]}", "a field", f"one of {', '.join(sorted(fields))}", "correct it"
        )
    for name, default in _AS_DEFAULT.items():
        if value.get(name, default) != default:
            raise _refusal(f"{where}: {name}", f"{name}={value[name]!r:.40}")
    if value.get("calibrator", "max") != "max":
        raise _refusal(
            f"{where}: calibrator", "a calibrator of its own; the algorithm says how ranges are chosen"
        )
    bits = value.get("num_bits", 8)
    bits = tuple(bits) if isinstance(bits, list) else bits
    if bits not in _FORMATS:
        raise _refusal(f"{where}: num_bits", f"num_bits={bits!r:.40}")
    return {
        "format": _FORMATS[bits],
        "axis": value.get("axis"),
        "block": _block(where, value.get("block_sizes")),
    }


def _block(where: str, sizes: Mapping[Any, Any] | None) -> int | None:
    if not sizes:
        return None
    named = {key: value for key, value in sizes.items() if not _DIGIT_KEY.fullmatch(str(key))}
    axes = {int(key): value for key, value in sizes.items() if _DIGIT_KEY.fullmatch(str(key))}
    if extra := sorted(named.keys() - {"type", "scale_bits", "scale_block_sizes"}):
        raise QuantValueError(
            f"{where}: block_sizes", repr(extra[0]), "axes, type and scale_bits", "correct it"
        )
    if named.get("type", "static") != "static" or named.get("scale_bits") or named.get("scale_block_sizes"):
        raise _refusal(
            f"{where}: block_sizes", "scales that are found while the model runs, or have few bits"
        )
    if list(axes) != [-1] or not isinstance(axes[-1], int):
        raise _refusal(
            f"{where}: block_sizes", f"blocks along {sorted(axes)}; INTact has those along the sum"
        )
    return int(axes[-1])


def _algorithm(algorithm: Any, in_blocks: bool, notes: list[str]) -> dict[str, Any]:
    settings = algorithm if isinstance(algorithm, Mapping) else {"method": algorithm}
    method = settings.get("method")
    if extra := sorted(settings.keys() - _ALGORITHM_FIELDS):
        raise _refusal(f"algorithm: {extra[0]}", f"{extra[0]}={settings[extra[0]]!r:.40}")
    if "alpha_step" in settings:
        notes.append("alpha_step: INTact searches strengths in steps of its own")
    methods = (
        {None: "rtn", "max": "rtn", "awq_lite": "awq"}
        if in_blocks
        else {None: "max", "max": "max", "mse": "mse"}
    )
    if method == "smoothquant" and not in_blocks:
        notes.append("smoothquant: INTact chooses how much of the inputs' ranges goes into the weights")
        return {"method": "max", "equalization": True}
    if method not in methods:
        kind = "weights in blocks" if in_blocks else "one scale for each tensor or channel"
        raise _refusal("algorithm", f"{method!r:.40} with {kind}")
    return {"method": methods[method]}


_MODES = {
    "int8": {"weights": "int8", "activations": "int8", "per_channel": True},
    "fp8": {"weights": "fp8e4m3", "activations": "fp8e4m3", "per_channel": False},
    "int4": {"weights": "int4", "activations": "float", "block": 128},
}
_METHODS = {
    "int8": {"entropy": "entropy", "max": "max"}, "fp8": {"entropy": "entropy", "max": "max"},
    "int4": {"awq_lite": "awq", "rtn_dq": "rtn"},
}  # fmt: skip
_ONNX_HARMLESS = {
    "use_external_data_format", "keep_intermediate_files", "output_path", "log_level", "log_file",
    "calibration_eps", "calibrate_per_node", "simplify", "mha_accumulation_dtype", "dq_only", "onnx_path",
    "calibration_data",
}  # fmt: skip
"""Arguments that say where to write, what to print and where to calibrate."""

_ONNX_DEFAULTS: dict[str, Any] = {
    "calibration_cache_path": None, "calibration_shapes": None, "override_shapes": None,
    "op_types_to_exclude_fp16": None, "trt_plugins": None, "trt_plugins_precision": None,
    "high_precision_dtype": "fp32", "disable_mha_qdq": False, "passes": ["concat_elimination"],
    "input_shapes_profile": None, "direct_io_types": False,
}  # fmt: skip
"""Arguments that must be left out or be these: types of floats stay as they are in the file."""

_PATTERNS = {
    "op_types_to_quantize": "include", "nodes_to_quantize": "include", "op_types_to_exclude": "exclude",
    "nodes_to_exclude": "exclude",
}  # fmt: skip


def modelopt_onnx_options(**arguments: Any) -> ModelOptOptions:
    """Return the options of `intact.quantize` that arguments of `modelopt.onnx.quantization.quantize` mean.

    Args:
        arguments: As that function takes them.
    Raises:
        UnsupportedError: An argument asks for what INTact cannot do; names it.
        QuantValueError: There is no such argument.
    """
    parameters = {"quantize_mode", "calibration_method", "block_size", "use_zero_point"}
    parameters |= {*_PATTERNS, *_ONNX_DEFAULTS, *_ONNX_HARMLESS}
    if extra := sorted(arguments.keys() - parameters):
        raise QuantValueError(
            extra[0], "an argument", f"one of {', '.join(sorted(parameters))}", "correct it"
        )
    mode = arguments.get("quantize_mode", "int8")
    if mode not in _MODES:
        raise _refusal("quantize_mode", f"{mode!r:.40}")
    for name, default in _ONNX_DEFAULTS.items():
        if name in arguments and arguments[name] not in (default, None):
            fix = "intact cache to-onnx reads a cache" if name == "calibration_cache_path" else ""
            raise _refusal(name, f"{arguments[name]!r:.60}", fix)
    method = arguments.get("calibration_method") or {"int4": "awq_lite"}.get(mode, "entropy")
    if method not in _METHODS[mode]:
        raise _refusal("calibration_method", f"{method!r:.40} with {mode}")
    options: dict[str, Any] = dict(_MODES[mode]) | {"method": _METHODS[mode][method]}
    if mode == "int4":
        options["block"] = arguments.get("block_size") or 128
        options["weights"] = "uint4" if arguments.get("use_zero_point") else "int4"
    else:
        options["profile"] = "tensorrt"
        for name in ("block_size", "use_zero_point"):
            if arguments.get(name):
                raise _refusal(name, f"{arguments[name]!r:.40} with {mode}")
    for name, key in _PATTERNS.items():
        patterns = tuple(_glob(name, pattern) for pattern in arguments.get(name) or ())
        if patterns:
            options[key] = (*options.get(key, ()), *patterns)
    notes = [f"{name}: it changes no answer" for name in sorted(_ONNX_HARMLESS & arguments.keys())]
    if "high_precision_dtype" not in arguments:
        notes.append("high_precision_dtype: floats stay as they are in the file")
    if mode == "int4" and not arguments.get("calibration_method"):
        notes.append("calibration_method: awq_lite, where ModelOpt's default is awq_clip")
    return ModelOptOptions(options, tuple(notes))


def _glob(where: str, pattern: str) -> str:
    """Translate a regular expression of names, as far as a pattern with stars says it."""
    text = pattern.removeprefix("^").removesuffix("$").replace(r"\.", ".").replace(".*", "*")
    if re.search(r"[\\^$+?{}()|\[\]]", text):
        raise _refusal(where, f"the regular expression {pattern!r:.60}", "write it with * alone")
    return text


def _refusal(where: str, got: str, fix: str = "") -> IntactError:
    return UnsupportedError(
        f"ModelOpt: {where}", got, "what intact.quantize has options for",
        fix or "leave it out, or choose another configuration",
    )  # fmt: skip
