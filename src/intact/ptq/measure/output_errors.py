"""What quantization does to a model's outputs, measured on a few held runs without labels."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.graph import BoundInputs, Model, Session, ops
from intact.ptq.data.parallel_runs import THREADS, in_order
from intact.ptq.measure.holdout_samples import Held
from intact.ptq.measure.match_rows import with_rows_of
from intact.ptq.measure.measured_outputs import measured_outputs
from intact.ptq.measure.top1_margin import Answers, answers_of

OutputParts = tuple[int, tuple[int, ...]]
"""(axis, sizes along it) of the parts of an output."""

_Place = tuple[slice, ...]


class Errors(dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]):
    """(sums of squared errors, sums of squares) by output, one for each part of it, see `parts_of`.

    Attributes:
        answers: What became of the rows of each output [rows, scores], in the same runs.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.answers: dict[str, Answers] = {}


_HOPELESS = 1.5
"""Times the least error: a candidate that has more over the first runs is not measured on the others."""

FIX = "quantize for another opset or with other formats, or exclude the node that it names"


class Evaluator:
    """Runs a quantized model on held runs, again and again with other ranges or biases.

    Args:
        model: With Q/DQ pairs.
        runs: With the float model's outputs.
        overridable: Names of initializers that `errors` may be given.
    """

    def __init__(self, model: Model, runs: Sequence[Held], overridable: Sequence[str] = ()) -> None:
        measured = measured_outputs(model)
        there = {value.name for node in model.graph for value in node.outputs}
        inner = [name for name in (runs[0].outputs if runs else ()) if name in there]
        parts = parts_of(model, inner)
        self._runs = runs
        self._wanted = {id(held): wanted_of(held.outputs, parts, measured.unordered) for held in runs}
        self._answers = {id(held): answers_of(held.outputs) for held in runs}
        # Constants are computed once, not in every run of every configuration; the pairs stay as they are.
        self._session = Session(
            model, extra=inner, overridable=overridable, folded=True, threads=THREADS, fix=FIX
        )

    def best(
        self, candidates: Mapping[str, Mapping[str, NDArray]], unless_halved: str = ""
    ) -> tuple[str, dict[str, Errors]]:
        """The candidate that changes the outputs least, the first of equals; and the errors of all.

        All are measured on a quarter of the runs, at least two, and on the rest the better two that are near
        each other. One that cannot be chosen any more is not measured to the end: errors only add up.

        Args:
            candidates: Values of overridable initializers, by the candidate's name.
            unless_halved: One that is taken unless another has less than half its error; always measured on
                all, as a few runs may hold no more than one that it is bad for.
        """
        names = _distinct(candidates)
        order, plain = list(dict.fromkeys(names.values())), names.get(unless_halved)
        few, runs = max(2, len(self._runs) // 4), self._runs
        errors = {name: Errors() for name in order}

        def weighed(name: str, squares: Errors | None = None) -> float:
            return relative(errors[name], squares) / (2 if name == plain else 1)

        def measure(some: Sequence[str], runs: Sequence[Held], slack: float = 1.0) -> list[str]:
            """Add `runs` to the errors of `some`; those that stay within `slack` times the least.

            The plain one is measured to the end all the same.
            """
            found: dict[str, float] = {}
            for name in some:
                bound = slack * min(found.values(), default=float("inf"))
                squares = errors[next(iter(found))] if found and name != plain else None
                for one in self._each(candidates[name], runs):
                    errors[name] = summed([one], errors[name])
                    if squares is not None and weighed(name, squares) > bound:
                        break
                else:
                    found[name] = weighed(name)
            least = slack * min(found.values())
            return [name for name in order if found.get(name, float("inf")) <= least]

        # The one that is hardest to beat goes first: in the beginning the plain one.
        some = sorted(order, key=lambda name: name != plain)
        if len(some) > 2 and few < len(runs):
            better = sorted(measure(some, runs[:few], _HOPELESS), key=weighed)[:2]
            some = sorted((name for name in order if name in better or name == plain), key=weighed)
            runs = runs[few:]
        chosen = min(measure(some, runs), key=weighed)
        return chosen, {name: errors[same] for name, same in names.items()}

    def errors(self, overrides: Mapping[str, NDArray] | None = None, least: Errors | None = None) -> Errors:
        """Squared errors and squares of the parts of every real tensor that is measured, over all runs.

        Args:
            overrides: Values of overridable initializers.
            least: Errors on all runs: what is worse than these is not measured to the end.
        """
        found, bound = Errors(), float("inf") if least is None else relative(least)
        for one in self._each(overrides or {}, self._runs):
            found = summed([one], found)
            if least is not None and relative(found, least) > bound:
                break
        return found

    def _each(self, overrides: Mapping[str, NDArray], runs: Sequence[Held]) -> Iterator[Errors]:
        """The errors of each of `runs`, in their order."""
        bound = self._session.bound(overrides)
        return in_order(lambda held: self._of_run(bound, held), runs)

    def _of_run(self, bound: BoundInputs, held: Held) -> Errors:
        found, wanted, answers = Errors(), self._wanted[id(held)], self._answers[id(held)]
        for name, got in bound.stream(held.feeds):
            if name in wanted:
                found[name] = wanted[name].errors_of(got)
                if name in answers:
                    found.answers[name] = answers[name].kept_by(got)
        return found


def summed(found: Iterable[Errors], start: Errors | None = None) -> Errors:
    """`start` and all of `found`, added in their order."""
    total = Errors(start or {})
    total.answers = dict(start.answers) if start is not None else {}
    for errors in found:
        for name, (error, square) in errors.items():
            before = total.get(name, (0.0, 0.0))
            total[name] = before[0] + error, before[1] + square
        for name, answers in errors.answers.items():
            total.answers[name] = total.answers.get(name, Answers()) + answers
    return total


def _distinct(candidates: Mapping[str, Mapping[str, NDArray]]) -> dict[str, str]:
    """For each candidate the first one that is the same."""
    seen: dict[bytes, str] = {}
    return {
        name: seen.setdefault(b"".join(a.tobytes() for a in values.values()), name)
        for name, values in candidates.items()
    }


def relative(errors: Errors, squares: Errors | None = None) -> float:
    """One number to compare by: squared error relative to square, its mean over parts, and over outputs.

    Args:
        errors: Of some runs.
        squares: Whose squares are meant, of more runs, for example: the number is then what the errors of
            these runs are at least. None: those of `errors`.
    """
    found = [
        float(np.mean(errors[name][0] / np.where(square > 0, square, 1))) if name in errors else 0.0
        for name, (_, square) in (errors if squares is None else squares).items()
    ]
    return float(np.mean(found)) if found else 0.0


def sqnr(errors: Errors) -> dict[str, float]:
    """Signal to quantization noise ratio of every output, in dB; inf where nothing is lost."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            name: float(10 * np.log10(square.sum() / error.sum())) if error.any() else float("inf")
            for name, (error, square) in errors.items()
        }


def worst(errors: Errors) -> float:
    """The least of these ratios over the parts of all outputs, in dB; inf where none has a signal."""
    found = [e / s for error, square in errors.values() for e, s in zip(error, square, strict=True) if s > 0]
    largest = max(found, default=0.0)
    return float(-10 * np.log10(largest)) if largest > 0 else float("inf")


def parts_of(model: Model, inner: Collection[str] = ()) -> dict[str, OutputParts]:
    """(axis, sizes along it) of what a Concat joins: outputs that put unlike things side by side.

    `inner`: tensors that are looked at, too.

    Boxes in pixels and scores below 1, for example: one sum over both would not see the scores. Only where
    all sizes are known.
    """
    found = {}
    made = (value for node in model.graph for value in node.outputs if value.name in inner)
    for output in (*model.graph.outputs, *made):
        node = output.producer()
        if node is None or not isinstance(said := ops.read(node), ops.Concat):
            continue
        shapes = [list(value.shape) if value is not None and value.shape else [] for value in node.inputs]
        sizes = [shape[said.axis] if -len(shape) <= said.axis < len(shape) else None for shape in shapes]
        if all(isinstance(size, int) for size in sizes):
            found[output.name or ""] = said.axis, tuple(size for size in sizes if isinstance(size, int))
    return found


@dataclass(frozen=True)
class WantedOutput:
    """What the float model says of one output in one run.

    Attributes:
        value: The output.
        parts: The places of its parts.
        squares: The sum of squares of each, float64 [parts].
        finite: Whether all of it is finite: a mask of -inf, for example, says nothing about accuracy.
        unordered: Whether its rows may come in another order (`measured_outputs`).
    """

    value: NDArray
    parts: tuple[_Place, ...]
    squares: NDArray[np.float64]
    finite: bool
    unordered: bool = False

    @classmethod
    def of(cls, value: NDArray, parts: OutputParts | None, unordered: bool = False) -> WantedOutput:
        """`parts`: its entry of `parts_of`."""
        places, real = _places(value.shape, parts), value.astype(np.float64)
        known = np.isfinite(real)
        if not (finite := bool(known.all())):
            real = np.where(known, real, 0)
        return cls(value, places, _sums(real * real, places), finite, unordered)

    def errors_of(self, got: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(sums of squared errors of `got`, sums of squares), float64 [parts] each.

        Where rows are more or fewer, or may be in another order, each is compared to the nearest one. Of
        another shape otherwise, all is lost; NaN and infinities count as 0.
        """
        if self.unordered or got.shape != self.value.shape:
            matched = with_rows_of(got, self.value, unordered=self.unordered)
            if matched is None and got.shape != self.value.shape:
                return self.squares, self.squares
            got = got if matched is None else matched
        if self.finite:
            difference = np.subtract(got, self.value, dtype=np.float64)
            errors = _sums(difference * difference, self.parts)
            if np.isfinite(errors).all():
                return errors, self.squares
        real, found = self.value.astype(np.float64), got.astype(np.float64)
        known = np.isfinite(real)
        difference = np.where(known, np.where(np.isfinite(found), found, 0) - np.where(known, real, 0), 0)
        return _sums(difference * difference, self.parts), self.squares


def wanted_of(
    outputs: Mapping[str, NDArray], parts: Mapping[str, OutputParts], unordered: Container[str] = ()
) -> dict[str, WantedOutput]:
    """What the float model says of each real output.

    Args:
        outputs: By name.
        parts: What `parts_of` finds in the model.
        unordered: Those whose rows may come in another order.
    """
    real = {name: array for name, array in outputs.items() if array.dtype.kind == "f"}
    return {name: WantedOutput.of(a, parts.get(name), name in unordered) for name, a in real.items()}


def _places(shape: tuple[int, ...], parts: OutputParts | None) -> tuple[_Place, ...]:
    """Where the parts lie; the whole where there are none, or others than were foreseen."""
    if parts is None or sum(parts[1]) != shape[parts[0]]:
        return ((),)
    (axis, sizes), found, start = parts, list[_Place](), 0
    before = (slice(None),) * (axis % len(shape))
    for size in sizes:
        found.append((*before, slice(start, start + size)))
        start += size
    return tuple(found)


def _sums(values: NDArray[np.float64], places: Sequence[_Place]) -> NDArray[np.float64]:
    return np.array([values[place].sum() for place in places])
