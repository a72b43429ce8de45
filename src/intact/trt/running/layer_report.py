"""Describes what a plan runs in the JSON forms of TensorRT's engine inspector and of trtexec.

Readers of these forms (NVIDIA's trex, Polygraphy's runner of trtexec) find the fields that they look for:
source are samples/common/sampleReporting.cpp of TensorRT 10.13 and 11.1, and the engines that trex ships.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from statistics import median
from typing import Any

import numpy as np

from intact.engine import Plan
from intact.engine.steps import Step, constants, reads, writes
from intact.layer import Layer
from intact.trt.base.operation_enums import LayerType, layer_type_of

FORMATS = {
    "float32": "Row major linear FP32", "float64": "Row major linear FP32",
    "float16": "Row major linear FP16 format",
    "bfloat16": "Row major linear BFloat16 format", "int8": "Row major Int8 format",
    "uint8": "Row major linear UInt8 format", "int32": "Row major linear Int32",
    "int64": "Row major linear Int64 format", "bool": "Row major linear BOOL",
}  # fmt: skip
"""TensorRT's words for dense tensors, by type of element."""

_COUNTED = {"int8": "Int8", "uint8": "Int8", "float16": "Half", "float32": "Float", "int32": "Int32"}
_REFORMATS = ("quantize", "dequantize")


@dataclass
class EngineLayer:
    """Holds what runs as one layer: a record of the plan with its steps, or a step that no record names.

    Attributes:
        name: Of the layer, as profiles name it too.
        steps: In order.
        record: What `explain` says of it; None of a step by itself.
    """

    name: str
    steps: list[Step] = field(default_factory=list)
    record: Layer | None = None


def engine_layers(plan: Plan) -> list[EngineLayer]:
    """Return the layers of a plan in the order in which they run; records without a step are left out."""
    records = {node: record for record in plan.layers for node in record.nodes}
    layers: dict[str, EngineLayer] = {}
    for step in plan.steps:
        record = next((records[node] for node in step.nodes if node in records), None)
        name = step.name if record is None else record.name
        layers.setdefault(name, EngineLayer(name, record=record)).steps.append(step)
    return list(layers.values())


def describe_layer(plan: Plan, layer: EngineLayer) -> dict[str, Any]:
    """Return what the inspector says of a layer beside its name: tensors, parameters and weights."""
    steps, tensors = layer.steps, plan.tensors
    written = {name for step in steps for name in writes(step)}
    outside = {name for step in plan.steps if step not in steps for name in reads(step)} | {*plan.outputs}
    inputs = [n for step in steps for n in reads(step) if n in tensors and n not in written]
    outputs = [n for step in steps for n in writes(step) if n in outside] or [*writes(steps[-1])][:1]
    kind = _parameter_type(layer)
    return {
        "Inputs": [_tensor(plan, name) for name in dict.fromkeys(inputs)],
        "Outputs": [_tensor(plan, name) for name in dict.fromkeys(outputs)],
        "ParameterType": kind, **_parameters(plan, layer, kind), **_weights(plan, steps),
        "TacticName": " + ".join(dict.fromkeys(step.kind for step in steps)),
        "TacticValue": "0x0000000000000000", "StreamId": 0,
        "Metadata": "\x1e".join(f"[ONNX Layer: {node}]" for step in steps for node in step.nodes),
    }  # fmt: skip


def profile_rows(plan: Plan, seconds: Sequence[Mapping[str, float]]) -> list[dict[str, Any]]:
    """Return the profile as trtexec exports it: the count of runs, then a row for each layer.

    Args:
        plan: What ran.
        seconds: For each run, the seconds of each step by name.
    """
    totals = {
        layer.name: [sum(run.get(step.name, 0.0) for step in layer.steps) * 1e3 for run in seconds]
        for layer in engine_layers(plan)
    }
    whole = sum(map(sum, totals.values())) or 1.0
    rows = [
        {"name": name, "timeMs": sum(times), "averageMs": sum(times) / len(times), "medianMs": median(times),
         "percentage": 100 * sum(times) / whole}
        for name, times in totals.items()
    ]  # fmt: skip
    return [{"count": len(seconds)}, *rows]


def time_rows(starts: Sequence[float], seconds: Sequence[float]) -> list[dict[str, float]]:
    """Return the runs as trtexec exports them; copies between host and device take no time here.

    Args:
        starts: When each run began, in seconds from the first one.
        seconds: How long it took.
    """
    rows = []
    for start, latency in zip(starts, seconds, strict=True):
        begin, end, took = 1e3 * start, 1e3 * (start + latency), 1e3 * latency
        rows.append({
            "startEnqMs": begin, "endEnqMs": begin, "startH2dMs": begin, "endH2dMs": begin,
            "startComputeMs": begin, "endComputeMs": end, "startD2hMs": end, "endD2hMs": end,
            "h2dMs": 0.0, "computeMs": took, "d2hMs": 0.0, "latencyMs": took,
        })  # fmt: skip
    return rows


def describe_profile(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines that ``--dumpProfile`` prints for `profile_rows`."""
    count, layers = rows[0]["count"], rows[1:]
    whole = sum(row["timeMs"] for row in layers)
    lines = [
        f"=== Profile ({count} iterations ) ===",
        "   Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer",
    ]
    totals = {"timeMs": whole, "averageMs": whole / count, "percentage": 100.0, "name": "Total"}
    totals["medianMs"] = sum(row["medianMs"] for row in layers)
    for row in (*(row for row in layers if row["timeMs"]), totals):
        figures = (
            f"{row['timeMs']:11.2f}{row['averageMs']:13.4f}{row['medianMs']:13.4f}{row['percentage']:10.1f}"
        )
        lines.append(f"{figures}   {row['name']}")
    return lines


def describe_performance(seconds: Sequence[float], wall: float, percentages: Sequence[float]) -> list[str]:
    """Return the lines of trtexec's summary, from which Polygraphy's runner reads the latency.

    Args:
        seconds: Of each run.
        wall: Of all runs together.
        percentages: Of the runs that were faster than the figures that are told.
    """
    times = sorted(1e3 * s for s in seconds)
    shares = {p: times[min(len(times) - 1, int(p / 100 * len(times)))] for p in percentages}
    figures = {"min": times[0], "max": times[-1], "mean": sum(times) / len(times), "median": median(times)}
    parts = [f"{name} = {value:.6g} ms" for name, value in figures.items()]
    parts += [f"percentile({p:g}%) = {value:.6g} ms" for p, value in shares.items()]
    return [
        "=== Performance summary ===",
        f"Throughput: {len(times) / wall:.6g} qps",
        f"Latency: {', '.join(parts)}",
    ]


def output_rows(outputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return outputs as trtexec exports them: names, dimensions as "1x3", values in one list."""
    return [
        {"name": name, "dimensions": "x".join(map(str, array.shape)), "values": array.reshape(-1).tolist()}
        for name, array in ((name, np.asarray(value)) for name, value in outputs.items())
    ]


def _tensor(plan: Plan, name: str) -> dict[str, Any]:
    tensor = plan.tensors[name]
    shape = tensor.shape or ()
    return {
        "Name": name, "Dimensions": [n if isinstance(n, int) else -1 for n in shape],
        "Format/Datatype": FORMATS.get(str(tensor.stored_dtype), "Unknown format"),
    }  # fmt: skip


def _parameter_type(layer: EngineLayer) -> str:
    if layer.record is None:
        return "Reformat" if layer.steps[0].kind in _REFORMATS else "NoOp"
    kind = layer_type_of(layer.record.op_type)
    if kind is LayerType.OTHER:
        return layer.record.op_type
    return "".join(word.capitalize() for word in kind.name.split("_"))


def _parameters(plan: Plan, layer: EngineLayer, kind: str) -> dict[str, Any]:
    """Return the parameters of a convolution, which readers count with."""
    step = next((step for step in layer.steps if hasattr(step, "weight") and hasattr(step, "strides")), None)
    weight = plan.constants.get(str(getattr(step, "weight", "")))
    if kind != "Convolution" or step is None or weight is None or weight.ndim != 4:
        return {}
    pads: tuple[int, ...] = tuple(getattr(step, "pads", (0, 0, 0, 0)))
    fused = layer.record.fused if layer.record is not None else ""
    return {
        "Kernel": list(weight.shape[1:3]), "PaddingMode": "kEXPLICIT_ROUND_DOWN",
        "PrePadding": list(pads[:2]), "PostPadding": list(pads[2:]),
        "Stride": list(getattr(step, "strides", (1, 1))),
        "Dilation": list(getattr(step, "dilations", (1, 1))), "OutMaps": weight.shape[0],
        "Groups": getattr(step, "groups", 1), "HasReLU": int("+Relu" in fused),
        "Activation": "RELU" if "+Relu" in fused else "NONE",
    }  # fmt: skip


def _weights(plan: Plan, steps: Sequence[Step]) -> dict[str, Any]:
    """Return type and number of the weights; of a layer without any, nothing."""
    arrays = [plan.constants[name] for step in steps for name in constants(step) if name in plan.constants]
    shapes = [array for array in arrays if array.ndim >= 2]
    if not shapes:
        return {}
    largest = max(shapes, key=lambda array: prod(array.shape))
    biases = [array for array in arrays if array.ndim == 1 and str(array.dtype) in ("int32", "float32")]
    bias = {"Bias": _count(biases[0])} if biases else {}
    return {"Weights": _count(largest), **bias, "HasBias": int(bool(bias))}


def _count(array: Any) -> dict[str, Any]:
    return {"Type": _COUNTED.get(str(array.dtype), "Float"), "Count": int(array.size)}
