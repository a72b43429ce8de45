"""Implicit quantization: ranges from a calibrator, and int8 or float for each layer by measuring both.

Three engines are compared: every layer in int8 that has ranges, none, and a mixture without the layers that
were faster in float. The fastest is taken; where `builder_optimization_level` is 0, the first. Times go into
the timing cache and are taken from it, so that a second build with the cache makes the same choice, and the
same bytes, without running anything.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from glob import escape
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact import numerics, ptq
from intact.calib import TrtCache
from intact.engine import Engine, Plan
from intact.engine.lower import lower
from intact.errors import CalibrationError
from intact.graph import Model, Node, node_seconds, to_bytes
from intact.ptq.mixed import BudgetProgram
from intact.ptq.stages import NothingToQuantizeError
from intact.spec import INT8, QuantSpec
from intact.timings import processor
from intact.trt.base.enums import BuilderFlag, DataType
from intact.trt.building.build_observers import OBSERVERS
from intact.trt.building.build_record import LayerChoice
from intact.trt.building.calibrators import table_of
from intact.trt.building.config import IBuilderConfig, ITimingCache
from intact.trt.network import INetworkDefinition
from intact.trt.plugins.split_at_plugins import before_plugins

PIN_FLAGS = (
    BuilderFlag.OBEY_PRECISION_CONSTRAINTS, BuilderFlag.PREFER_PRECISION_CONSTRAINTS, BuilderFlag.STRICT_TYPES
)  # fmt: skip
RUNS = 9
"""Runs of which the median counts."""


def implicit_plan(
    network: INetworkDefinition, config: IBuilderConfig, model: Any
) -> tuple[dict[str, LayerChoice], Plan, set[str]]:
    """Choose the fastest plan for the ranges and pins.

    Return the reason for each layer, the plan, and the tensors that it reads as floats.

    Args:
        network: Without Quantize layers.
        config: With a calibrator, or ranges set on tensors.
        model: The network as an onnx-ir model.
    Raises:
        CalibrationError: There are no ranges for any layer.
    """
    floats = [
        layer.name for layer in network.layers if layer.precision_is_set and layer.precision != DataType.INT8
    ]
    integers = {
        layer.name for layer in network.layers if layer.precision_is_set and layer.precision == DataType.INT8
    }

    def quantize(exclude: list[str]) -> ptq.FromCache:
        patterns = [escape(name) for name in (*floats, *exclude)]
        return ptq.quantize_from_cache(model, TrtCache(scales), profile="tensorrt", exclude=patterns)

    try:
        scales = _scales(network, config, model)
        done = quantize([])
        if floats and any(map(config.get_flag, PIN_FLAGS)):
            while more := _in_the_way(model, done.result.model, floats, integers):
                floats += more
                done = quantize([])
        for observer in OBSERVERS:
            observer.on_build(model, TrtCache(scales), floats)
    except (CalibrationError, NothingToQuantizeError) as error:
        if config.int8_calibrator is not None and isinstance(error, CalibrationError):
            raise
        network.warn(f"INT8 is not used: no layer can be quantized with the ranges there are ({error.got})")
        return {}, lower(model), nodes_on_floats(model)
    for name in done.missing:
        network.warn(
            f"Missing scale and zero-point for tensor {name}, expect fall back to non-int8 implementation "
            "for any layer consuming or producing given tensor"
        )
    if config.builder_optimization_level == 0:  # TensorRT takes the first kernel there, and times nothing
        plan = lower(done.result.model)
        why = "int8 where there are ranges: builder_optimization_level 0 times nothing"
        choices = {
            layer.name: LayerChoice("int8" if layer.precision == "int8" else "float32", why=why)
            for layer in plan.layers
        }
        return choices, plan, nodes_on_floats(done.result.model)
    times = _Times(config, model, _feeds(network, config))
    return _Chooser(network, config, model, times, integers).choose(done, quantize)


def nodes_on_floats(model: Model) -> set[str]:
    """Find nodes that read no quantized activation; the same step may still quantize their outputs."""
    quantized = {v for node in model.graph if _is_dequantized(node) for v in node.outputs}
    return {node.name for node in model.graph if node.name and quantized.isdisjoint(node.inputs)}


def _is_dequantized(node: Node) -> bool:
    source = node.inputs[0].producer() if node.op_type == "DequantizeLinear" and node.inputs[0] else None
    return source is not None and source.op_type == "QuantizeLinear"


def _in_the_way(model: Model, quantized: Model, floats: list[str], integers: set[str]) -> list[str]:
    """Find layers for which a tensor is quantized that a layer pinned to float reads, too.

    Before: ``x -> Q -> DQ -> Sigmoid (pinned), Mul``.  After, with Mul in float: ``x -> Sigmoid, Mul``.
    """
    pinned = set(floats)
    broken = pinned - nodes_on_floats(quantized)
    read = {v for node in model.graph if node.name in broken for v in node.inputs if v is not None}
    readers = (
        node.name for node in model.graph if not read.isdisjoint(v for v in node.inputs if v is not None)
    )
    return [name for name in readers if name and name not in pinned | integers]


def _scales(network: INetworkDefinition, config: IBuilderConfig, model: Any) -> dict[str, np.float32]:
    calibrator = config.int8_calibrator
    profile = config.get_calibration_profile() or next(iter(config.profiles), None)
    usual = {} if profile is None else {name: shapes[1] for name, shapes in profile.shapes.items()}
    scales = {} if calibrator is None else dict(table_of(calibrator, network, model, usual).scales)
    for tensor in network.tensors:
        if tensor.dynamic_range is not None:  # the user's word overrides calibration
            scales[tensor.name] = np.float32(
                numerics.scale_from_amax(max(map(abs, tensor.dynamic_range)), QuantSpec(INT8))
            )
    if not scales:
        raise NothingToQuantizeError(
            "implicit quantization", "no range of any tensor", "a calibrator or set_dynamic_range",
            "set config.int8_calibrator",
        )  # fmt: skip
    return scales


def _feeds(network: INetworkDefinition, config: IBuilderConfig) -> dict[str, NDArray]:
    """Return inputs to measure with: noise in the shape that the first profile says is usual."""
    profile = config.profiles[0] if config.profiles else None
    feeds = {}
    for tensor in network.inputs:
        shapes = profile.get_shape(tensor.name) if profile else []
        shape = shapes[1] if shapes else tuple(max(n, 1) for n in tensor.shape)
        noise = np.random.default_rng(0).standard_normal(shape)
        feeds[tensor.name] = noise.astype(tensor.dtype.numpy)
    return feeds


class _Times:
    """Seconds by name, measured once; the timing cache keeps them for this model on this kind of machine."""

    def __init__(self, config: IBuilderConfig, model: Any, feeds: dict[str, NDArray]) -> None:
        cache = config.get_timing_cache()
        if cache is None:
            cache = ITimingCache()
            config.set_timing_cache(cache)
        shapes = ",".join(f"{name}{array.shape}" for name, array in feeds.items())
        digest = hashlib.sha256(to_bytes(model) + shapes.encode()).hexdigest()[:16]
        self._known = cache.timings.of(f"{platform.machine()}, {processor()}")
        self._prefix, self.feeds = f"{digest} ", feeds

    def of(self, names: list[str], measure: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Return the seconds of `names`; where one of them is unknown, measure all of them together."""
        if any(self._prefix + name not in self._known for name in names):
            seconds = measure()
            self._known.update({self._prefix + name: seconds.get(name, 0.0) for name in names})
        return {name: self._known[self._prefix + name] for name in names}


@dataclass
class _Chooser:
    network: INetworkDefinition
    config: IBuilderConfig
    model: Any
    times: _Times
    integers: set[str]
    _engines: dict[str, Engine] = field(default_factory=dict)

    def choose(
        self, done: ptq.FromCache, quantize: Callable[[list[str]], ptq.FromCache]
    ) -> tuple[dict[str, LayerChoice], Plan, set[str]]:
        """Return the fastest of three plans: all int8, int8 without its slow layers, and no int8."""
        models = {"int8": done.result.model, "float": self.model}
        plans = {"int8": lower(models["int8"])}
        int8, floats = self._layer_times(plans["int8"])
        layers = [la for la in plans["int8"].layers if la.precision == "int8" and la.name in int8]
        rows = (
            {"int8": (int8[la.name],)}
            | ({} if self.integers.intersection(la.nodes) else {"float": (floats[la.name],)})
            for la in layers
        )
        program = BudgetProgram.of_rows(layers, ("int8", "float"), ("seconds",), rows)
        exclude = [node for la in program.items_with("float", program.solve("seconds")) for node in la.nodes]
        if exclude:
            with suppress(CalibrationError, NothingToQuantizeError):  # where no layer is left for int8
                models["mixed"] = quantize(exclude).result.model
                plans["mixed"] = lower(models["mixed"])
        if not self.integers:
            plans["float"] = lower(self.model)
        whole = self._whole_times(plans)
        best = min(plans, key=lambda name: whole[f"plan {name}"])
        choices = self._choices(plans[best], int8, floats, whole, best)
        return choices, plans[best], nodes_on_floats(models[best])

    def _engine(self, name: str, plan: Plan) -> Engine:
        """Return the engine of a candidate, made once: its weights are packed only then."""
        if name not in self._engines:
            self._engines[name] = Engine(plan)
        return self._engines[name]

    def _layer_times(self, plan: Plan) -> tuple[dict[str, float], dict[str, float]]:
        """Measure the seconds of each int8 layer, and of its nodes in float."""
        layers = [layer for layer in plan.layers if layer.precision == "int8"]
        keys = [f"{kind} {layer.name}" for layer in layers for kind in ("int8", "float")]

        def measure() -> dict[str, float]:
            nodes = {node: layer.name for layer in layers for node in layer.nodes}
            seconds_by_key = dict.fromkeys(keys, 0.0)
            steps = {step.name: step for step in plan.steps}
            for timing in self._engine("int8", plan).profile(self.times.feeds, runs=RUNS).timings:
                step = steps.get(timing.name)
                name = next((nodes[n] for n in (step.nodes if step else ()) if n in nodes), None)
                if name is not None:
                    seconds_by_key[f"int8 {name}"] += timing.seconds
            for node, seconds in node_seconds(before_plugins(self.model), self.times.feeds, RUNS).items():
                if node in nodes:
                    seconds_by_key[f"float {nodes[node]}"] += seconds
            return seconds_by_key

        seconds_by_key = self.times.of(keys, measure)
        return tuple({la.name: seconds_by_key[f"{k} {la.name}"] for la in layers} for k in ("int8", "float"))  # type: ignore[return-value]

    def _whole_times(self, plans: dict[str, Plan]) -> dict[str, float]:
        def measure() -> dict[str, float]:
            engines = {name: self._engine(name, plan) for name, plan in plans.items()}
            seconds_by_plan: dict[str, list[float]] = {name: [] for name in plans}
            for turn in range(RUNS + 2):  # in turns, so that a slow moment of the machine meets all
                for name, engine in engines.items():
                    start = perf_counter()
                    engine.run(self.times.feeds)
                    if turn >= 2:
                        seconds_by_plan[name].append(perf_counter() - start)
            return {f"plan {name}": float(np.median(seconds)) for name, seconds in seconds_by_plan.items()}

        return self.times.of([f"plan {name}" for name in plans], measure)

    def _choices(
        self, plan: Plan, int8: dict[str, float], floats: dict[str, float], whole: dict[str, float], best: str
    ) -> dict[str, LayerChoice]:  # fmt: skip
        seconds = ", ".join(f"{name[5:]} {1e3 * s:.3f} ms" for name, s in whole.items())
        choices = {}
        pinned = {layer.name for layer in self.network.layers if layer.precision_is_set}
        for layer in plan.layers:
            why = "pinned" if pinned.intersection(layer.nodes) else f"the {best} engine is fastest: {seconds}"
            precision = "int8" if layer.precision == "int8" else "float32"
            times = [1e3 * t[layer.name] if layer.name in t else None for t in (int8, floats)]
            choices[layer.name] = LayerChoice(precision, times[0], times[1], why)
        return choices
