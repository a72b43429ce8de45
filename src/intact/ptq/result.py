"""The result of `quantize`, and its summary."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Protocol, TypeVar

from intact import graph, placement
from intact.calib import Calibration
from intact.graph import Model
from intact.placement import Placement
from intact.processes import cached_property
from intact.ptq.data.model_inputs import Feeds

Value = TypeVar("Value")


class RunComparison(Protocol):
    """Describes how the engine of a model, the integer reference and its file agree on samples.

    `intact.engine.compare.RunComparison` is one; engines are no part of this package.
    """

    @property
    def sentences(self) -> tuple[str, ...]:
        """One sentence for each comparison."""

    def as_record(self) -> dict[str, Any]:
        """Return the counts as a JSON object."""


@dataclass(repr=False)
class QuantizedModel:
    """Holds the quantized model and what was measured on the way; `print` shows a summary.

    Attributes:
        model: The graph with its Q/DQ pairs.
        placement: Where they stand, what fuses with what, and why.
        calibration: The statistics, from which other ranges can be chosen without data.
        methods: By tensor, the method that chose its range.
        ranges: By tensor, the (smallest, largest) real that was chosen to be kept.
        errors: Squared error of the outputs relative to their square, on the hold-out samples, of everything
            that was compared (of what was clearly worse, on some of them); empty where nothing was measured.
        chosen: The configuration of ranges that was taken.
        sqnr: Signal to quantization noise ratio of every output on the hold-out samples, in dB.
        least_sqnr: The least of these ratios; an output that a Concat makes counts as its parts.
        unseen_sqnr: The ratio of every output on samples that ranges were not chosen with: each half of some
            hold-out samples, with the ranges of all other data; empty where there are too few samples.
        extra_time: What 16 bits and float take more than 8 bits, as a part of the predicted time.
        top1: (rows whose largest value stays where float has it, rows) of every output [rows, scores] on the
            hold-out samples, which are some of the calibration data.
        top1_expected: The share of rows, 0 to 1, whose largest value is expected to stay there in data like
            those of calibration, by their margins (`intact.ptq.measure.top1_margin`); of outputs with 16 rows
            or more.
        corrected: Whether biases were corrected.
        equalized: Whether channels were equalized.
        not_equalized: Which convolutions cannot be, and why; empty where there are none.
        smoothed: The tensors whose channels were brought to like ranges.
        bits16: The tensors that have 16 bits, and why.
        in_float: The tensors that were left in float, with the layers that read them, and why.
        dynamic: The layers that get the ranges of their inputs while the model runs, and why.
        warnings: What should be looked at.
        notes: What was rewritten before placement.
        branches: What was made of the branches of Ifs, by "<node>.then_branch" or "<node>.else_branch": their
            pairs are in `model`, everything else of them is here.
        samples: Some runs of the calibration data, inputs by name; empty where only statistics were given.
        compare: Compares the engine of `model` on samples, when that is first asked for;
            `intact.quantize` sets it. None: reports say that nothing was compared.
    """

    model: Model
    placement: Placement
    calibration: Calibration
    methods: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    chosen: str = ""
    sqnr: dict[str, float] = field(default_factory=dict)
    least_sqnr: float = float("inf")
    unseen_sqnr: dict[str, float] = field(default_factory=dict)
    extra_time: float = 0.0
    top1: dict[str, tuple[int, int]] = field(default_factory=dict)
    top1_expected: dict[str, float] = field(default_factory=dict)
    corrected: bool = False
    equalized: bool = False
    not_equalized: str = ""
    smoothed: list[str] = field(default_factory=list)
    bits16: dict[str, str] = field(default_factory=dict)
    in_float: dict[str, str] = field(default_factory=dict)
    dynamic: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    branches: dict[str, QuantizedModel] = field(default_factory=dict)
    samples: tuple[Feeds, ...] = ()
    compare: Callable[[Model, Sequence[Feeds]], RunComparison] | None = None

    def __repr__(self) -> str:
        rows = summary(self)
        width = max(len(label) for label, _ in rows)
        lines = [f"{label:<{width}}  {figure}" for label, figure in rows]
        return "\n".join([*lines, *self.statements, *(f"warning: {line}" for line in warnings_of(self))])

    @property
    def parts(self) -> dict[str, QuantizedModel]:
        """The result itself under "", and those of all branches by name."""
        parts = {"": self}
        for name, branch in self.branches.items():
            parts |= {f"{name}/{inner}" if inner else name: part for inner, part in branch.parts.items()}
        return parts

    @property
    def float_steps(self) -> dict[str, int]:
        """Steps that another runtime may round differently, by kind; see `intact.placement.float_steps`."""
        return placement.float_steps(self.model, self.placement)

    @cached_property
    def comparison(self) -> RunComparison | None:
        """The comparison of the engine on `samples`, which runs when it is first asked for."""
        return None if self.compare is None else self.compare(self.model, self.samples)

    @property
    def statements(self) -> tuple[str, ...]:
        """Sentences on what was compared, and on what other runtimes may round otherwise (numerics N33)."""
        compared = _NOT_COMPARED if self.comparison is None else self.comparison.sentences
        return *compared, placement.in_other_runtimes(self.float_steps)

    @property
    def agreement(self) -> str:
        """All of `statements` in one line."""
        return "; ".join(self.statements)

    @property
    def proto(self) -> Any:
        """The model as an `onnx.ModelProto`."""
        return graph.to_proto(self.model)

    def save(self, path: str | os.PathLike[str], *, external: bool | None = None) -> None:
        """Write the file: whole or not at all, the same bytes for the same work; see `intact.graph.save`.

        Args:
            path: Of the file.
            external: Put weights above 1 KiB into a file beside it; None: only where they exceed 2 GiB.
        Raises:
            FileAccessError: The path cannot be written; an old file stays as it is.
        """
        graph.save(self.model, path, external=external)

    def explain(self) -> list[dict[str, Any]]:
        """Return a row for each layer: int8 or float, what it fuses with, and why."""
        return [row for part in self.parts.values() for row in placement.explain(part.placement)]


_NOT_COMPARED = (
    "engine and integer reference were not compared: `intact.quantize` and `intact verify` do it",
)


def summary(result: QuantizedModel) -> list[tuple[str, str]]:
    """Return (label, figure) rows; those of branches name the branch."""
    parts = result.parts
    layers = layers_of(result)
    sqnr, top1 = across(result, lambda part: part.sqnr), across(result, lambda part: part.top1)
    expected = across(result, lambda part: part.top1_expected)
    bits16 = sum(len(part.bits16) for part in parts.values())
    tensors = sum(len(part.ranges) for part in parts.values())
    in_float = sum(len(part.in_float) for part in parts.values())
    more = result.extra_time  # of branches nobody knows which one runs
    unseen = across(result, lambda part: part.unseen_sqnr)
    dynamic = sum(len(part.dynamic) for part in parts.values())
    return [
        ("layers in int8", f"{layers['int8']:,}"),
        ("layers in float", f"{layers['float']:,}"),
        *((f"SQNR of {name}", f"{db:.1f} dB") for name, db in sqnr.items()),
        *((f"SQNR of {name} with ranges of other samples", f"{db:.1f} dB") for name, db in unseen.items()),
        *((f"error of {name}", f"{_percent(db):.2g}% of its size") for name, db in sqnr.items()),
        *((f"same largest score in {name}", f"{same} of {of} rows") for name, (same, of) in top1.items()),
        *((f"expected to stay in {name}", f"{share:.1%} of rows") for name, share in expected.items()),
        ("biases corrected", "yes" if result.corrected else "no"),
        ("channels equalized", "yes" if result.equalized else "no"),
        ("tensors smoothed", f"{len(result.smoothed):,}"),
        *([("tensors with 16 bits", f"{bits16:,} of {tensors:,}")] if bits16 else []),
        *([("layers with dynamic ranges", f"{dynamic:,}")] if dynamic else []),
        *([("tensors left in float", f"{in_float:,} of {tensors + in_float:,}")] if in_float else []),
        *([("more time for these, predicted", f"{more:.0%}")] if more else []),
    ]


def layers_of(result: QuantizedModel) -> Counter[str]:
    """Count layers by precision, those of branches included."""
    return Counter(layer.precision for part in result.parts.values() for layer in part.placement.layers)


def across(result: QuantizedModel, of: Callable[[QuantizedModel], Mapping[str, Value]]) -> dict[str, Value]:
    """Collect a mapping of the main graph and of the branches under names that include the branch.

    Args:
        result: With its branches.
        of: Gives the mapping of one of them.
    """
    return {
        within(name, key): value for name, part in result.parts.items() for key, value in of(part).items()
    }


def warnings_of(result: QuantizedModel) -> list[str]:
    """Return the warnings of the main graph and the branches."""
    return [within(name, line) for name, part in result.parts.items() for line in part.warnings]


def within(part: str, text: str) -> str:
    """Prefix a name or a line with the branch that it belongs to."""
    return f"{part}: {text}" if part else text


def _percent(db: float) -> float:
    """Return an SQNR as people read it: 20 dB is an error of a tenth, 40 dB of a hundredth; finite but for
    -inf.
    """
    exponent = min(-db / 20, 300.0) if isfinite(db) else -db
    return float(100 * 10.0**exponent)
