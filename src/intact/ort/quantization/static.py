"""`quantize_static` of scripts, by `intact.ptq.quantize`: a Q/DQ file, or one of QLinear operators."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from intact.errors import QuantValueError, UnsupportedError
from intact.ort.quantization.arguments import (
    STATIC,
    STATIC_OPTIONS,
    Notes,
    check_arguments,
    check_extra_options,
    check_reduce_range,
    existing,
    format_name,
    name_list,
    weight_format,
)

FUNCTION = "quantize_static"
_CLAMPING_GRID = {"activations": "uint8", "symmetric": False, "scale_bits": None}
"""Of files with QLinear operators: a grid that begins at 0 and ends at 6 does what Relu and Clip do."""
_METHODS = {"MinMax": "max", "Entropy": "entropy", "Percentile": "percentile"}


def quantize_static(call_arguments: Mapping[str, Any], target: str) -> None:
    """Quantize a model with the data of a script's reader, and write the file.

    Args:
        call_arguments: What the script passed to `quantize_static`, by name;
            what it left out is INTact's choice.
        target: The engine that will run the file, a name of `intact.placement.PROFILES`.

    Raises:
        QuantValueError: An argument is wrong.
        UnsupportedError: INTact has nothing for an argument's value.
    """
    from intact.graph import load
    from intact.ptq import calibrate, quantize

    notes = Notes(FUNCTION)
    check_arguments(notes, call_arguments, STATIC)
    extra = check_extra_options(notes, call_arguments.get("extra_options"), STATIC_OPTIONS)
    source = model_source(call_arguments["model_input"])
    model = load(source)
    options = {
        "float_budget": 0.0,
        "dynamic_ranges": False,  # the script says which types its layers get
        **_formats(notes, call_arguments, extra, target),
        **scope(notes, call_arguments, model, constant_only=bool(extra.get("MatMulConstBOnly"))),
        **_calibration(notes, call_arguments, extra),
    }
    overrides = {
        **_tensor_overrides(notes, model, extra.get("TensorQuantOverrides") or {}),
        **_float_outputs(notes, model, extra.get("OpTypesToExcludeOutputQuantization")),
        **_channel_axes(notes, call_arguments, model, extra.get("QDQOpTypePerChannelSupportToAxis") or {}),
    }
    operators = _wants_operators(notes, call_arguments)
    if operators:
        target = "onnxruntime"  # pairs stand where its operators have them
        options = {**_CLAMPING_GRID, **options}
    data = _data(call_arguments, extra)
    notes.log()
    if isinstance(data, list):  # of the model as it is: `quantize` may balance its channels first
        scope_of_nodes = {name: options[name] for name in ("include", "exclude")}
        calibrate(source, data, profile=target, **scope_of_nodes).save(
            call_arguments["calibration_cache_path"]
        )
    result = quantize(source, data, profile=target, overrides=overrides or None, **options)
    external = True if call_arguments.get("use_external_data_format") else None
    if operators:
        _save_operators(result, call_arguments["model_output"])
    else:
        result.save(call_arguments["model_output"], external=external)


def _wants_operators(notes: Notes, call_arguments: Mapping[str, Any]) -> bool:
    """Return whether the file shall hold QLinear operators; anything but a `QuantFormat` means pairs."""
    name = getattr(call_arguments.get("quant_format"), "name", None)
    if "quant_format" in call_arguments and name is None:
        notes.lines.append(
            f"quant_format {call_arguments['quant_format']!r:.30} is no QuantFormat: the file has Q/DQ pairs"
        )
    return name == "QOperator"


def model_source(model: Any) -> Any:
    """Return a source that `intact.graph.load` takes: a path, or a ModelProto."""
    return os.fspath(model) if isinstance(model, str | os.PathLike) else model


def scope(
    notes: Notes, call_arguments: Mapping[str, Any], model: Any, *, constant_only: bool
) -> dict[str, list[str]]:  # fmt: skip
    """Return `include` and `exclude` for the nodes and operator types that a script names.

    Args:
        notes: Of the call.
        call_arguments: Its arguments.
        model: The graph of the float model.
        constant_only: Leave products of two activations in float.

    Raises:
        QuantValueError: No node of the model is left.
    """
    from intact.graph import Constants

    nodes = list(model.graph.all_nodes())
    types = {node.name or "": node.op_type for node in nodes}
    requested = {
        name: name_list(f"{notes.function}: {name}", call_arguments.get(name))
        for name in ("op_types_to_quantize", "nodes_to_quantize", "nodes_to_exclude")
    }
    op_types = [name for name in requested["op_types_to_quantize"] if name in set(types.values())]
    names = existing(notes, "nodes_to_quantize", requested["nodes_to_quantize"], types)
    exclude = existing(notes, "nodes_to_exclude", requested["nodes_to_exclude"], types)
    if constant_only:
        constants = Constants(model.graph)
        exclude += [
            node.name or "" for node in nodes
            if node.op_type == "MatMul" and node.inputs[1] is not None and constants(node.inputs[1]) is None
        ]  # fmt: skip
    if requested["nodes_to_quantize"]:
        include = [name for name in names if not requested["op_types_to_quantize"] or types[name] in op_types]
    else:
        include = op_types
    if not include and (requested["op_types_to_quantize"] or requested["nodes_to_quantize"]):
        raise QuantValueError(
            f"{notes.function}: op_types_to_quantize, nodes_to_quantize", "nothing that the model has",
            f"operators among {sorted(set(types.values()))[:12]}", "correct the names",
        )  # fmt: skip
    return {"include": include, "exclude": list(dict.fromkeys(exclude))}


def batches_of(reader: Any, stride: Any = None) -> Iterator[dict[str, Any]]:
    """Yield the inputs of a `CalibrationDataReader`, arrays by name, until it gives None.

    Args:
        reader: An object with `get_next`.
        stride: Samples that are read at a time, by `set_range`; None: all.

    Raises:
        QuantValueError: It has no `get_next`.
    """
    if not callable(getattr(reader, "get_next", None)):
        raise QuantValueError(
            "calibration_data_reader", f"a {type(reader).__name__}", "an object with get_next()",
            "pass a CalibrationDataReader",
        )  # fmt: skip
    for start in range(0, len(reader), stride) if stride else (None,):
        if start is not None:
            reader.set_range(start_index=start, end_index=start + stride)
        while (feeds := reader.get_next()) is not None:
            yield {name: np.asarray(values) for name, values in feeds.items()}


def _formats(
    notes: Notes, call_arguments: Mapping[str, Any], extra: Mapping[str, Any], target: str
) -> dict[str, Any]:  # fmt: skip
    """Return formats of activations and weights, and whether grids are symmetric."""
    options: dict[str, Any] = {}
    if "activation_type" in call_arguments:
        options["activations"] = format_name(
            f"{FUNCTION}: activation_type", call_arguments["activation_type"]
        )
    if "weight_type" in call_arguments:
        options["weights"] = weight_format(notes, call_arguments["weight_type"])
    if "per_channel" in call_arguments:
        options["per_channel"] = bool(call_arguments["per_channel"])
    for name in ("ActivationSymmetric", "CalibTensorRangeSymmetric"):
        if name in extra and (extra[name] or name == "ActivationSymmetric"):
            options["symmetric"] = bool(extra[name])
    if extra.get("SmoothQuant"):
        options["equalization"] = True
    check_reduce_range(notes, call_arguments.get("reduce_range"), target)
    return options


def _calibration(notes: Notes, call_arguments: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the method of choosing ranges."""
    if "calibrate_method" not in call_arguments:
        if "CalibPercentile" in extra:
            notes.add("extra_options['CalibPercentile']", "calibrate_method is not Percentile")
        return {}
    name = getattr(call_arguments["calibrate_method"], "name", str(call_arguments["calibrate_method"]))
    if name not in _METHODS:
        raise UnsupportedError(
            f"{FUNCTION}: calibrate_method",
            name,
            " or ".join(_METHODS),
            "choose one of these, or leave it out",
        )
    options: dict[str, Any] = {"method": _METHODS[name]}
    if name == "Percentile":
        options["percentile"] = float(extra.get("CalibPercentile", 99.999))  # ONNX Runtime's default
    elif "CalibPercentile" in extra:
        notes.add("extra_options['CalibPercentile']", "calibrate_method is not Percentile")
    return options


def _data(call_arguments: Mapping[str, Any], extra: Mapping[str, Any]) -> Any:
    """Return batches; where the script's cache holds statistics, these in their place."""
    from intact.calib import Calibration

    reader, path = call_arguments.get("calibration_data_reader"), call_arguments.get("calibration_cache_path")
    if path is not None and Path(path).is_file():
        return Calibration.load(path)
    if reader is None:
        raise QuantValueError(
            f"{FUNCTION}: calibration_data_reader", "None", "a reader, or a calibration_cache_path of INTact",
            "pass a CalibrationDataReader",
        )  # fmt: skip
    batches = batches_of(reader, extra.get("CalibStridedMinMax"))
    return batches if path is None else list(batches)


def _tensor_overrides(notes: Notes, model: Any, overrides: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return overrides by tensor for `TensorQuantOverrides`; refuse keys that INTact has nothing for."""
    tensors = {
        value.name for node in model.graph.all_nodes() for value in (*node.inputs, *node.outputs) if value
    }
    entries = {}
    for tensor, settings in overrides.items():
        where = f"{notes.function}: extra_options['TensorQuantOverrides']['{tensor}']"
        if tensor not in tensors:
            raise QuantValueError(where, "no such tensor", "a tensor of the model", "correct the name")
        if not isinstance(settings, list | tuple) or len(settings) != 1:
            raise UnsupportedError(
                where, f"{len(settings) if hasattr(settings, '__len__') else settings!r:.40} entries",
                "a list of one dict: one grid for the tensor", "leave the channels to INTact",
            )  # fmt: skip
        entries[tensor] = _override(where, settings[0])
    return entries


def _override(where: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    known_names = {"quant_type", "scale", "zero_point", "symmetric", "rmin", "rmax"}
    if unknown := [
        key for key, value in settings.items() if key not in known_names and value not in (None, False)
    ]:
        raise UnsupportedError(where, f"'{unknown[0]}'", f"keys among {sorted(known_names)}", "leave it out")
    if "quant_type" in settings:
        entry["activations"] = format_name(where, settings["quant_type"])
    if "scale" in settings:
        entry["scale"] = float(np.asarray(settings["scale"]))
        entry["zero_point"] = int(np.asarray(settings.get("zero_point", 0)))
    if "symmetric" in settings:
        entry["symmetric"] = bool(settings["symmetric"])
    if ("rmin" in settings) != ("rmax" in settings):
        raise UnsupportedError(where, "one end of a range", "rmin and rmax", "give both")
    if "rmin" in settings:
        entry["range"] = [float(np.asarray(settings["rmin"])), float(np.asarray(settings["rmax"]))]
    return entry


def _float_outputs(notes: Notes, model: Any, op_types: Any) -> dict[str, dict[str, Any]]:
    """Return overrides that leave the outputs of operator types in float."""
    names = set(name_list(f"{notes.function}: extra_options['OpTypesToExcludeOutputQuantization']", op_types))
    return {
        value.name: {"activations": "float"}
        for node in model.graph.all_nodes() if node.op_type in names
        for value in node.outputs if value.name and value.uses()
    }  # fmt: skip


def _channel_axes(
    notes: Notes, call_arguments: Mapping[str, Any], model: Any, axes: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """Return overrides for the axes of weights by operator type."""
    if axes and call_arguments.get("per_channel") is False:
        notes.add("extra_options['QDQOpTypePerChannelSupportToAxis']", "per_channel is False")
        return {}
    types = {node.op_type for node in model.graph.all_nodes()}
    return {op_type: {"axis": int(axis)} for op_type, axis in axes.items() if op_type in types}


def _save_operators(result: Any, path: Any) -> None:
    """Write the file with QLinear operators: ONNX Runtime's own fusion of the Q/DQ pairs, kept in a file."""
    import onnxruntime

    with tempfile.TemporaryDirectory(prefix="intact.ort.") as folder:
        pairs = Path(folder) / "pairs.onnx"
        result.save(pairs)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = os.fspath(path)
        options.log_severity_level = 3
        onnxruntime.InferenceSession(
            os.fspath(pairs), options, providers=["CPUExecutionProvider"],
            disabled_optimizers=["ConvActivationFusion", "GemmActivationFusion"],  # pairs stay
        )  # fmt: skip
