"""One Q/DQ model run in every way that we have: which codes and which answers differ, and where it begins.

The integer reference is what the engine must equal, on every code. The file in ONNX Runtime, without
optimizations, computes in float what the integers stand for: it may fall on the other side of a rounding
boundary now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.engine import Engine
from intact.engine.plan import Plan
from intact.engine.reference import evaluate
from intact.engine.steps import Codes
from intact.engine.wiring import writes
from intact.graph import Model, Session, to_proto
from intact.spec import INT8, UINT8, QuantSpec

Feeds = Mapping[str, NDArray]
Runner = Callable[[Feeds], Sequence[NDArray]]
"""Another way to run the model: the outputs, in the model's order."""


@dataclass
class Counts:
    """How far two ways to run a model are apart in one tensor, or in its answers.

    Attributes:
        compared: How many codes, numbers or answers were compared.
        differing: How many differ.
        largest: The largest difference.
    """

    compared: int = 0
    differing: int = 0
    largest: float = 0.0

    def add(self, a: NDArray, b: NDArray) -> None:
        """Count two arrays, element by element; NaN equals NaN."""
        a, b = a.astype(np.float64), b.astype(np.float64)
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        self.compared += apart.size
        self.differing += int(np.count_nonzero(apart))
        self.largest = max(self.largest, float(apart.max(initial=0.0)))


@dataclass
class TensorCounts:
    """One tensor of the plan.

    Attributes:
        tensor: Its name.
        layer: The step that makes it; "" for an input.
        codes: Whether codes were compared, or reals.
        engine: The engine against the integer reference.
        file: The file in ONNX Runtime against it; nothing compared where the file has no such tensor.
    """

    tensor: str
    layer: str
    codes: bool
    engine: Counts = field(default_factory=Counts)
    file: Counts = field(default_factory=Counts)


@dataclass
class Comparison:
    """What `compare` found.

    Attributes:
        tensors: In the plan's order.
        samples: Rows of all batches.
        traced: Rows of the batches in which every tensor was compared.
        answers: Top-1 answers of the first output, by who against whom, over all batches.
    """

    tensors: list[TensorCounts]
    samples: int = 0
    traced: int = 0
    answers: dict[str, Counts] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether the engine is the integer reference, on every code and number."""
        return not any(t.engine.differing for t in self.tensors)

    def first(self, side: str) -> TensorCounts | None:
        """Where "engine" or "file" first departs from the integer reference; None: nowhere."""
        return next((t for t in self.tensors if getattr(t, side).differing), None)

    def total(self, side: str) -> Counts:
        """All codes together."""
        found = [getattr(t, side) for t in self.tensors if t.codes]
        return Counts(
            sum(c.compared for c in found), sum(c.differing for c in found),
            max((c.largest for c in found), default=0.0),
        )  # fmt: skip


def compare(
    model: Model,
    engine: Engine,
    batches: Iterable[Feeds],
    *,
    traced: int = 1,
    threads: int = 1,
    others: Mapping[str, Runner] | None = None,
) -> Comparison:
    """Run `model` in ONNX Runtime, in the integer reference and in `engine`, and count what differs.

    Args:
        model: The Q/DQ model, as in its file.
        engine: The engine that was built from it.
        batches: Feeds by input name.
        traced: In so many of the first batches every tensor is compared, and the integer reference runs,
            which takes its time. In the others, the outputs of engine, file and `others`.
        threads: For ONNX Runtime.
        others: More ways to run it, whose answers are compared with the engine's: a module.
    """
    plan = engine.plan
    present = {value.name for node in model.graph for value in node.outputs}
    inner = [name for name in plan.tensors if name in present]
    data = bytes(to_proto(model).SerializeToString())
    session = Session(data, threads=threads)
    watched = Session(data, extra=inner, threads=threads)
    result = Comparison(_tensors(plan))
    for number, feeds in enumerate(batches):
        if number < traced:
            made = _trace(result, plan, engine, watched, feeds)
        else:
            made = {"engine": _first(plan, engine.run(feeds)), "file": _first(plan, session.run(feeds))}
        made |= {name: run(feeds)[0] for name, run in (others or {}).items()}
        result.samples += len(made["engine"]) if made["engine"].ndim else 1
        _answers(result, made)
    return result


def _tensors(plan: Plan) -> list[TensorCounts]:
    order = [(name, "") for name in plan.inputs]
    order += [(name, step.name) for step in plan.steps for name in writes(step)]
    return [TensorCounts(name, layer, plan.tensors[name].codes is not None) for name, layer in order]


def _trace(
    result: Comparison, plan: Plan, engine: Engine, watched: Session, feeds: Feeds
) -> dict[str, NDArray]:
    """Compare every tensor of one batch; the first outputs of all three."""
    reference, ours, file = evaluate(plan, feeds), engine.tap(feeds), watched.run(feeds)
    for tensor in result.tensors:
        name = tensor.tensor
        codes = plan.tensors[name].codes
        tensor.engine.add(ours[name], reference[name])
        if name in file:
            made = file[name] if codes is None else _codes(file[name], codes)
            tensor.file.add(made.reshape(reference[name].shape), reference[name])
    sides = {"reference": reference, "engine": ours, "file": file}
    found = {side: _first(plan, tensors) for side, tensors in sides.items()}
    result.traced += len(found["engine"]) if found["engine"].ndim else 1
    return found


def _codes(real: NDArray, codes: Codes) -> NDArray:
    """The codes of a real tensor; a tensor that is codes already (an output of the file) as it is."""
    if real.dtype.kind in "iu":
        return real
    spec = QuantSpec(INT8 if codes.signed else UINT8)
    if codes.zero_point:
        spec = QuantSpec(spec.format, symmetric=False)
    return numerics.quantize(real, np.float32(codes.scale), np.int32(codes.zero_point), spec)


def _first(plan: Plan, tensors: Mapping[str, Any]) -> NDArray:
    found: NDArray = tensors[plan.outputs[0]]
    return found


def _answers(result: Comparison, made: Mapping[str, NDArray]) -> None:
    """Count top-1 answers, where the output has classes along its last axis."""
    if made["engine"].ndim < 2 or made["engine"].shape[-1] < 2:
        return
    answers = {side: array.reshape(-1, array.shape[-1]).argmax(1) for side, array in made.items()}
    for side, answer in answers.items():
        if side != "engine":
            result.answers.setdefault(side, Counts()).add(answers["engine"], answer)
