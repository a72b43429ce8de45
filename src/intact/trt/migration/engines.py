"""Builds the implicit int8 engine and that of the Q/DQ file, and measures how their answers differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine import Engine, Plan
from intact.engine.compare import Distance
from intact.engine.lower import lower
from intact.engine.steps import writes
from intact.errors import FileFormatError, UnsupportedError
from intact.graph import Source, load
from intact.layer import Layer
from intact.trt.base.enums import BuilderFlag, DataType, NetworkDefinitionCreationFlag
from intact.trt.base.host_interfaces import ILogger, LogSeverity
from intact.trt.builder import Builder
from intact.trt.building.calibrators import calibrator_of_cache
from intact.trt.building.data_dependent_shapes import WholeEngine, engine_of
from intact.trt.building.onnx_parser import OnnxParser
from intact.trt.migration.implicit_recipe import ImplicitRecipe

Feeds = Mapping[str, NDArray]
TAPPED = 2
"""Batches in which every layer is compared; it takes memory for all tensors at once."""


class _Messages(ILogger):
    """Keeps the errors of a build."""

    def __init__(self) -> None:
        self.errors = list[str]()

    def log(self, severity: LogSeverity, msg: str) -> None:
        """Keep errors, drop the rest."""
        if severity in (LogSeverity.ERROR, LogSeverity.INTERNAL_ERROR):
            self.errors.append(msg)


@dataclass
class LayerAnswer:
    """Holds what became of one layer.

    Attributes:
        name: Of its first node.
        fused: What it does in one kernel.
        before, after: What it runs in, in the implicit engine and in the file: "int8" or "float"; "" where
            the implicit engine has no such layer.
        reason: Why it runs so in the file.
        difference: Between the outputs of both engines.
        loss_before, loss_after: Of its output, against the float model.
    """

    name: str
    fused: str
    before: str
    after: str
    reason: str
    difference: Distance = field(default_factory=Distance)
    loss_before: Distance = field(default_factory=Distance)
    loss_after: Distance = field(default_factory=Distance)


@dataclass
class OutputAnswer:
    """Holds how far the engines are apart in one output.

    Attributes:
        name: Of the output.
        difference: Between the implicit engine and the file.
        loss_before, loss_after: Of both against the float model.
    """

    name: str
    difference: Distance = field(default_factory=Distance)
    loss_before: Distance = field(default_factory=Distance)
    loss_after: Distance = field(default_factory=Distance)


@dataclass
class Answers:
    """Holds everything that was measured.

    Attributes:
        layers: In the order of the file's plan.
        outputs: In the model's order.
        samples: Batches that were run.
    """

    layers: list[LayerAnswer]
    outputs: list[OutputAnswer]
    samples: int = 0

    @property
    def largest(self) -> float:
        """The largest difference of any output."""
        return max((output.difference.largest for output in self.outputs), default=0.0)

    @property
    def is_equal(self) -> bool:
        """Return whether all outputs were equal to the bit."""
        return not any(output.difference.differing for output in self.outputs)


@dataclass
class Engines:
    """Holds the three engines that are compared.

    Attributes:
        implicit: Built as TensorRT 8 and 10 build: ranges by tensor, int8 wherever they allow it.
        explicit: Built from the Q/DQ file in a strongly typed network.
        float: The float model.
    """

    implicit: Engine | WholeEngine
    explicit: Engine | WholeEngine
    float: Engine | WholeEngine

    def measure(self, batches: Sequence[Feeds]) -> Answers:
        """Run all three on `batches`, in every layer for the first ones."""
        plans = self.implicit.plan, self.explicit.plan
        before = {node: layer for layer in plans[0].layers for node in layer.nodes}
        layers = [_layer_answer(layer, before) for layer in plans[1].layers]
        answers = Answers(layers, [OutputAnswer(name) for name in plans[1].outputs])
        for number, feeds in enumerate(batches):
            runs = [engine.run(feeds) for engine in (self.implicit, self.explicit, self.float)]
            for output in answers.outputs:
                _add(output, *(run[output.name] for run in runs))
            engines = (self.implicit, self.explicit, self.float)
            if number < TAPPED and all(isinstance(engine, Engine) for engine in engines):
                self._measure_layers(answers, feeds)
            answers.samples += 1
        return answers

    def _measure_layers(self, answers: Answers, feeds: Feeds) -> None:
        values = [_layer_values(engine, feeds) for engine in (self.implicit, self.explicit, self.float)]
        for layer, source in zip(answers.layers, self.explicit.plan.layers, strict=True):
            arrays = [side.get(source.nodes[-1]) for side in values]
            if all(a is not None and a.shape == arrays[0].shape for a in arrays):  # type: ignore[union-attr]
                _add(layer, *arrays)  # type: ignore[arg-type]


def build_engines(recipe: ImplicitRecipe, qdq: Source) -> Engines:
    """Build the engines of a recipe and of the Q/DQ file that was made of it.

    Raises:
        UnsupportedError: A network does not build; has the words of parser or builder.
    """
    plans = _build(recipe.model, recipe), _build(qdq, None), lower(load(recipe.model))
    return Engines(*(engine_of(plan, None, None) for plan in plans))


def _build(model: Source, recipe: ImplicitRecipe | None) -> Plan:
    """Build a model as a script would: implicit int8 with a recipe, strongly typed without one."""
    logger = _Messages()
    builder = Builder(logger)
    typed = 0 if recipe is not None else 1 << int(NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    network, config = builder.create_network(typed), builder.create_builder_config()
    parser = OnnxParser(network, logger)
    parsed = parser.parse(model) if isinstance(model, bytes) else parser._parse(model, None)
    if parsed and recipe is not None:
        config.set_flag(BuilderFlag.INT8)
        # int8 wherever ranges allow it: times of this CPU decide nothing
        config.builder_optimization_level = 0
        config.int8_calibrator = calibrator_of_cache(recipe.cache)
        config.set_flag(BuilderFlag.PREFER_PRECISION_CONSTRAINTS)
        for layer in network.layers:
            if layer.name in recipe.floats:
                layer.precision = DataType.FLOAT
    plan = builder._plan(network, config) if parsed else None
    if plan is None:
        what = "the Q/DQ file" if recipe is None else "the float model with its ranges"
        raise UnsupportedError(
            what, "; ".join(logger.errors[:3]) or "no engine", "a network that builds",
            "intact check says what stands in the way",
        )  # fmt: skip
    return plan


def _layer_answer(layer: Layer, before: Mapping[str, Layer]) -> LayerAnswer:
    old = next((before[node] for node in layer.nodes if node in before), None)
    precision = "" if old is None else old.precision
    return LayerAnswer(layer.name, layer.fused, precision, layer.precision, layer.reason)


def _layer_values(engine: Any, feeds: Feeds) -> dict[str, NDArray]:
    """Return the last output of every step as reals, by the step's last node."""
    plan = engine.plan_for({name: array.shape for name, array in feeds.items()}, feeds)
    arrays = engine.tap(feeds)
    values = dict[str, NDArray]()
    for step in plan.steps:
        names = [name for name in writes(step) if name in arrays]
        if step.nodes and names:
            codes, array = plan.tensors[names[0]].codes, arrays[names[0]]
            if codes is not None:
                grid = np.float32(codes.scale), np.int32(codes.zero_point)
                array = numerics.dequantize(array, *grid, codes.spec)
            values[step.nodes[-1]] = array
    return values


def _add(answer: LayerAnswer | OutputAnswer, before: NDArray, after: NDArray, real: NDArray) -> None:
    if before.shape != after.shape or before.shape != real.shape:
        raise FileFormatError(
            f"output '{answer.name}'", f"{after.shape} instead of {before.shape}", "equal shapes",
            "shapes of this network depend on values: give inputs on which they do not",
        )  # fmt: skip
    answer.difference.add(before, after)
    answer.loss_before.add(real, before)
    answer.loss_after.add(real, after)
