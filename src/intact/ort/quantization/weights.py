"""`quantize_dynamic` and `MatMulNBitsQuantizer` of scripts, by `intact.ptq.quantize_weights`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from intact.errors import UnsupportedError
from intact.ort.quantization.arguments import (
    DYNAMIC,
    DYNAMIC_OPTIONS,
    Notes,
    check_arguments,
    check_extra_options,
    check_reduce_range,
    existing,
    name_list,
    weight_format,
)
from intact.ort.quantization.static import batches_of, model_source, scope

_LINEAR = ("MatMul", "Gemm")
_QUANTIZED = (*_LINEAR, "Gather", "Conv", "LSTM", "Attention")
_DYNAMIC_OPERATORS = {
    "Conv": 1, "Attention": 1, "LSTM": 1, "Gather": 0, "EmbedLayerNormalization": 2,
}  # fmt: skip
"""Other operators that ONNX Runtime's function quantizes, with the input that holds weights."""
_METHODS = {"DEFAULT": "auto", "RTN": "auto", "k_quant": "auto", "HQQ": "auto", "GPTQ": "gptq"}
"""Methods of INTact in the place of those of algorithms: without data, scales with the least error."""
_DEFAULTS: dict[str, dict[str, tuple[Any, ...]]] = {
    "DEFAULT": {"channel_wised_quantize": (False,)},
    "RTN": {"ratios": ({}, None)}, "k_quant": {"ratios": ({}, None)}, "HQQ": {"axis": (1,)},
    "GPTQ": {"percdamp": (0.01,), "actorder": (False,), "mse": (False,), "perchannel": (True,)},
}  # fmt: skip
"""Fields of configurations for which INTact has only these values."""


def quantize_dynamic(call_arguments: Mapping[str, Any], target: str) -> None:
    """Quantize weights in blocks of 32, with ranges of activations that are taken while the model runs.

    Tables that Gathers read rows of get 8 bits in blocks along their rows. Conv, LSTM and Attention get 8
    bits for each output channel, gate or column.

    Args:
        call_arguments: What the script passed to `quantize_dynamic`, by name.
        target: The engine that will run the file, a name of `intact.placement.PROFILES`.

    Raises:
        QuantValueError: An argument is wrong, or the model has no product with a constant matrix.
        UnsupportedError: INTact has nothing for an argument's value.
    """
    from intact.graph import load, prune, save
    from intact.ptq import quantize_weights
    from intact.ptq.stages import write_block_gathers, write_dynamic_operators

    notes = Notes("quantize_dynamic")
    check_arguments(notes, call_arguments, DYNAMIC)
    check_extra_options(notes, call_arguments.get("extra_options"), DYNAMIC_OPTIONS)
    check_reduce_range(notes, call_arguments.get("reduce_range"), target)
    weights = (
        weight_format(notes, call_arguments["weight_type"]) if "weight_type" in call_arguments else "int8"
    )
    if weights not in ("int8", "int4"):
        raise UnsupportedError(
            "quantize_dynamic: weight_type", weights, "QInt8, QUInt8, QInt4 or QUInt4", "choose one of these"
        )
    source = model_source(call_arguments["model_input"])
    requested = name_list(
        "quantize_dynamic: op_types_to_quantize", call_arguments.get("op_types_to_quantize")
    )
    if other := [name for name in requested if name not in _QUANTIZED]:
        if len(other) == len(requested):
            raise UnsupportedError(
                "quantize_dynamic: op_types_to_quantize", ", ".join(other)[:60],
                f"one of {', '.join(_QUANTIZED)} among them",
                "use quantize_static with data",
            )  # fmt: skip
        notes.lines.append(f"op_types_to_quantize: {', '.join(other)} stay in float")
    model = load(source)
    nodes = scope(notes, call_arguments, model, constant_only=False)
    if any(node.op_type in _LINEAR for node in model.graph.all_nodes()) and _has_linear(requested):
        options = {"weights": weights, "block": 32, "activations": "dynamic-int8"}
        model = quantize_weights(source, **options, **nodes).model
    write_block_gathers(model, nodes["include"], nodes["exclude"])
    prune(model)  # tables in float
    replaced = write_dynamic_operators(model, nodes["include"], nodes["exclude"])
    if replaced and weights == "int4":
        notes.lines.append(f"weight_type: weights of {', '.join(replaced)} have 8 bits")
    counts = _float_layers(model)
    if words := ", ".join(f"{n} {name}" for name, n in counts.items() if not requested or name in requested):
        notes.lines.append(
            f"{words} stay in float, which onnxruntime quantizes here: quantize_static with data takes them"
        )
    notes.log()
    external = True if call_arguments.get("use_external_data_format") else None
    save(model, call_arguments["model_output"], external=external)


def _has_linear(requested: Sequence[str]) -> bool:
    """Return whether a script asks for linear layers: it names none, or one of theirs."""
    return not requested or not set(_LINEAR).isdisjoint(requested)


def _float_layers(model: Any) -> dict[str, int]:
    """Return how many layers with weights stay in float that ONNX Runtime quantizes, by operator."""
    from intact.graph import Constants

    constants = Constants(model.graph)
    counts: Counter[str] = Counter()
    for node in model.graph.all_nodes():
        position = _DYNAMIC_OPERATORS.get(node.op_type, len(node.inputs))
        weight = node.inputs[position] if position < len(node.inputs) else None
        array = None if weight is None else constants(weight)
        if array is not None and array.dtype.kind == "f":
            counts[node.op_type] += 1
    return dict(counts)


def process_matmul_nbits(quantizer: Any, target: str) -> None:
    """Quantize the constant matrices of a `MatMulNBitsQuantizer`, as its `process` does.

    Args:
        quantizer: The object; its `model` becomes an `ONNXModel` of the result.
        target: The engine that will run the file.

    Raises:
        QuantValueError: The model has no MatMul with a constant matrix.
        UnsupportedError: INTact has nothing for a field's value.
    """
    from onnxruntime.quantization.onnx_model import ONNXModel

    from intact.ptq import quantize_weights

    notes = Notes("MatMulNBitsQuantizer")
    config = quantizer.algo_config
    if config.algorithm not in _METHODS:
        raise UnsupportedError(
            "MatMulNBitsQuantizer: algo_config", config.algorithm, f"one of {', '.join(_METHODS)}",
            "choose another, or run the script without INTACT_ORT_QUANTIZATION",
        )  # fmt: skip
    _check_fields(config)
    options = _block_options(quantizer, config)
    options["include"], options["exclude"] = _nodes(notes, quantizer, config)
    options["formats"] = _formats(quantizer, config, options)
    reader = getattr(config, "calibration_data_reader", None)
    notes.log()
    data = None if reader is None else batches_of(reader)
    result = quantize_weights(quantizer.model.model, data, method=_METHODS[config.algorithm], **options)
    quantizer.model = ONNXModel(result.proto)


def _check_fields(config: Any) -> None:
    """Refuse values of a configuration that INTact has nothing for."""
    for name, values in _DEFAULTS[config.algorithm].items():
        value = getattr(config, name, values[0])
        if value not in values:
            raise UnsupportedError(
                f"MatMulNBitsQuantizer: algo_config.{name}", f"{value!r:.60}", f"{values[0]!r}, the default",
                "leave it out, or run the script without INTACT_ORT_QUANTIZATION",
            )  # fmt: skip
    if config.quant_axes.get("MatMul", 0) != 0:
        raise UnsupportedError(
            "MatMulNBitsQuantizer: quant_axes", f"{config.quant_axes}", "axis 0 of MatMul, of the sum",
            "leave it out",
        )  # fmt: skip
    if other := sorted(config.op_types_to_quantize - {"MatMul"}):
        raise UnsupportedError(
            "MatMulNBitsQuantizer: op_types_to_quantize", ", ".join(other), "MatMul", "leave it out"
        )


def _block_options(quantizer: Any, config: Any) -> dict[str, Any]:
    """Return the format, block, activations and operator."""
    own = config.algorithm in ("DEFAULT", "HQQ")  # other algorithms read the quantizer's
    bits = config.bits if own else 4
    symmetric = config.is_symmetric if config.algorithm == "DEFAULT" else quantizer.is_symmetric and not own
    level = config.accuracy_level if config.algorithm == "DEFAULT" else quantizer.accuracy_level
    is_qdq = config.quant_format.name == "QDQ"
    if level in (2, 3):
        raise UnsupportedError(
            "MatMulNBitsQuantizer: accuracy_level", str(level), "0 or 1 (float32), or 4 (int8)", "take 4"
        )
    return {
        "weights": f"{'int' if symmetric else 'uint'}{bits}",
        "block": config.block_size if own else quantizer.block_size,
        "activations": "dynamic-int8" if level == 4 and not is_qdq else "float",
        "operator": "DequantizeLinear" if is_qdq else "MatMulNBits",
    }


def _nodes(notes: Notes, quantizer: Any, config: Any) -> tuple[list[str], list[str]]:
    """Return the patterns of nodes to quantize, and of those to leave."""
    names = {node.name: node.op_type for node in quantizer.model.model.graph.node}
    exclude = existing(notes, "nodes_to_exclude", sorted(quantizer.nodes_to_exclude), names)
    wanted = existing(notes, "nodes_to_include", sorted(quantizer.nodes_to_include or ()), names)
    if any(names[name] in config.op_types_to_quantize for name in wanted):
        notes.add("nodes_to_include", "all nodes of op_types_to_quantize are quantized, as ONNX Runtime does")
    gemms = [name for name in wanted if names[name] == "Gemm"]
    return [*sorted(config.op_types_to_quantize), *gemms], exclude


def _formats(quantizer: Any, config: Any, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the formats of single nodes that `customized_weight_config` asks for."""
    formats = {}
    for name, entry in (config.customized_weight_config or {}).items():
        where = f"MatMulNBitsQuantizer: customized_weight_config['{name}']"
        for key, value in entry.items():
            if key not in ("bits", "scheme") and not (key == "group_size" and value == options["block"]):
                raise UnsupportedError(where, f"{key}={value!r:.40}", "bits or scheme", "leave it out")
        scheme = entry.get("scheme", "sym" if quantizer.is_symmetric else "asym")
        formats[name] = f"{'int' if scheme == 'sym' else 'uint'}{entry.get('bits', 4)}"
    return formats
