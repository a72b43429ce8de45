"""Measures the errors of a quantized model's outputs on hold-out samples, without labels."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.graph import BoundInputs, Model, Session, ops
from intact.ptq.data.parallel_runs import THREADS, in_order
from intact.ptq.measure.holdout_samples import HoldoutSample
from intact.ptq.measure.measured_outputs import outputs_to_measure
from intact.ptq.measure.top1_margin import Top1Agreement, Top1Reference, top1_references
from intact.signal_to_noise import signal_to_noise

OutputParts = tuple[int, tuple[int, ...]]
"""(axis, sizes along it) of the parts of an output."""

_Place = tuple[slice, ...]


class Errors(dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]):
    """Maps each output to (sums of squared errors, sums of squares), one entry for each of its parts.

    Attributes:
        answers: What became of the rows of each output [rows, scores], in the same runs.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.answers: dict[str, Top1Agreement] = {}


_HOPELESS = 1.5
"""Times the least error: a candidate that has more over the first runs is not measured on the others."""

FIX = "quantize for another opset or with other formats, or exclude the node that it names"


class Evaluator:
    """Runs a quantized model on hold-out samples, repeatedly, with different ranges or biases.

    Args:
        model: With Q/DQ pairs.
        runs: With the float model's outputs.
        overridable: Names of initializers that `errors` may be given.
    """

    def __init__(self, model: Model, runs: Sequence[HoldoutSample], overridable: Sequence[str] = ()) -> None:
        outputs_measured = outputs_to_measure(model)
        there = {value.name for node in model.graph for value in node.outputs}
        inner = [name for name in (runs[0].outputs if runs else ()) if name in there]
        self._parts, self._unordered = parts_of(model, inner), outputs_measured.unordered
        self._runs = runs
        self._references: dict[int, dict[str, OutputReference]] = {}
        self._answers: dict[int, dict[str, Top1Reference]] = {}
        self._refer_to(runs)
        # Constants are computed once, not in every run of every configuration; the pairs stay as they are.
        self._session = Session(
            model, extra=inner, overridable=overridable, folded=True, threads=THREADS, fix=FIX
        )

    def best(
        self, candidates: Mapping[str, Mapping[str, NDArray]], unless_halved: str = ""
    ) -> tuple[str, dict[str, Errors]]:
        """Return the candidate that changes the outputs least (the first of equals), and the errors of all.

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

        def weighted_error(name: str, squares: Errors | None = None) -> float:
            return relative_error(errors[name], squares) / (2 if name == plain else 1)

        def measure(some: Sequence[str], runs: Sequence[HoldoutSample], slack: float = 1.0) -> list[str]:
            """Add `runs` to the errors of `some`; those that stay within `slack` times the least.

            The plain one is measured to the end all the same.
            """
            errors_so_far: dict[str, float] = {}
            for name in some:
                bound = slack * min(errors_so_far.values(), default=float("inf"))
                squares = errors[next(iter(errors_so_far))] if errors_so_far and name != plain else None
                for run_errors in self._each(candidates[name], runs):
                    errors[name] = sum_errors([run_errors], errors[name])
                    if squares is not None and weighted_error(name, squares) > bound:
                        break
                else:
                    errors_so_far[name] = weighted_error(name)
            least = slack * min(errors_so_far.values())
            return [name for name in order if errors_so_far.get(name, float("inf")) <= least]

        # The one that is hardest to beat goes first: in the beginning the plain one.
        some = sorted(order, key=lambda name: name != plain)
        if len(some) > 2 and few < len(runs):
            better = sorted(measure(some, runs[:few], _HOPELESS), key=weighted_error)[:2]
            some = sorted((name for name in order if name in better or name == plain), key=weighted_error)
            runs = runs[few:]
        chosen = min(measure(some, runs), key=weighted_error)
        return chosen, {name: errors[same] for name, same in names.items()}

    def _refer_to(self, runs: Iterable[HoldoutSample]) -> None:
        """Prepare what the outputs of `runs` are compared with."""
        for sample in runs:
            if (key := id(sample)) in self._references:
                continue
            self._references[key] = output_references(sample.outputs, self._parts, self._unordered)
            self._answers[key] = top1_references(sample.outputs)

    def errors_of(self, overrides: Mapping[str, NDArray], runs: Sequence[HoldoutSample]) -> Errors:
        """Sum squared errors and squares over `runs`, which live as long as the evaluator."""
        self._refer_to(runs)
        return sum_errors(self._each(overrides, runs))

    def errors(self, overrides: Mapping[str, NDArray] | None = None, least: Errors | None = None) -> Errors:
        """Sum squared errors and squares of every measured tensor over all runs.

        Args:
            overrides: Values of overridable initializers.
            least: Errors on all runs: what is worse than these is not measured to the end.
        """
        total, bound = Errors(), float("inf") if least is None else relative_error(least)
        for run_errors in self._each(overrides or {}, self._runs):
            total = sum_errors([run_errors], total)
            if least is not None and relative_error(total, least) > bound:
                break
        return total

    def _each(self, overrides: Mapping[str, NDArray], runs: Sequence[HoldoutSample]) -> Iterator[Errors]:
        """Yield the errors of each of `runs`, in order."""
        bound = self._session.bind_inputs(overrides)
        return in_order(lambda sample: self._of_run(bound, sample), runs)

    def _of_run(self, bound: BoundInputs, sample: HoldoutSample) -> Errors:
        errors, references, answers = Errors(), self._references[id(sample)], self._answers[id(sample)]
        for name, got in bound.stream(sample.feeds):
            if name in references:
                errors[name] = references[name].errors_of(got)
                if name in answers:
                    errors.answers[name] = answers[name].compare(got)
        return errors


def sum_errors(parts: Iterable[Errors], start: Errors | None = None) -> Errors:
    """Add `parts` to `start`, in order.

    Args:
        parts: Errors of runs.
        start: Errors that they are added to; None: zeros.
    """
    total = Errors(start or {})
    total.answers = dict(start.answers) if start is not None else {}
    for errors in parts:
        for name, (error, square) in errors.items():
            before = total.get(name, (0.0, 0.0))
            total[name] = before[0] + error, before[1] + square
        for name, answers in errors.answers.items():
            total.answers[name] = total.answers.get(name, Top1Agreement()) + answers
    return total


def _distinct(candidates: Mapping[str, Mapping[str, NDArray]]) -> dict[str, str]:
    """Map each candidate to the first candidate with the same values."""
    first_names: dict[bytes, str] = {}
    return {
        name: first_names.setdefault(b"".join(a.tobytes() for a in values.values()), name)
        for name, values in candidates.items()
    }


def relative_error(errors: Errors, squares: Errors | None = None) -> float:
    """Return one number to compare by: squared error over square, averaged over parts, then over outputs.

    Args:
        errors: Of some runs.
        squares: Whose squares are meant, of more runs, for example: the number is then what the errors of
            these runs are at least. None: those of `errors`.
    """
    ratios = [
        float(np.mean(errors[name][0] / np.where(square > 0, square, 1))) if name in errors else 0.0
        for name, (_, square) in (errors if squares is None else squares).items()
    ]
    return float(np.mean(ratios)) if ratios else 0.0


def sqnr(errors: Errors) -> dict[str, float]:
    """Return the signal to quantization noise ratio of every output in dB; inf where nothing is lost."""
    return {
        name: signal_to_noise(float(square.sum()), float(error.sum()))
        for name, (error, square) in errors.items()
    }


def lowest_sqnr(errors: Errors) -> float:
    """Return the lowest of these ratios over the parts of all outputs, in dB; inf where none has a signal."""
    ratios = [e / s for error, square in errors.values() for e, s in zip(error, square, strict=True) if s > 0]
    largest = float(max(ratios, default=0.0))
    return signal_to_noise(1.0, largest if largest > 0 else 0.0)


def parts_of(model: Model, inner: Collection[str] = ()) -> dict[str, OutputParts]:
    """Return (axis, sizes along it) for outputs that a Concat joins from unlike parts.

    `inner`: tensors that are looked at, too.

    Boxes in pixels and scores below 1, for example: one sum over both would not see the scores. Only where
    all sizes are known.
    """
    parts = {}
    inner_values = (value for node in model.graph for value in node.outputs if value.name in inner)
    for output in (*model.graph.outputs, *inner_values):
        node = output.producer()
        if node is None or not isinstance(op := ops.read(node), ops.Concat):
            continue
        shapes = [list(value.shape) if value is not None and value.shape else [] for value in node.inputs]
        sizes = [shape[op.axis] if -len(shape) <= op.axis < len(shape) else None for shape in shapes]
        if all(isinstance(size, int) for size in sizes):
            parts[output.name or ""] = op.axis, tuple(size for size in sizes if isinstance(size, int))
    return parts


@dataclass(frozen=True)
class OutputReference:
    """Holds what the float model gives for one output in one run.

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
    def of(cls, value: NDArray, parts: OutputParts | None, unordered: bool = False) -> OutputReference:
        """Build the reference of an output; `parts` is its entry of `parts_of`.

        Args:
            value: The float model's output, any shape.
            parts: The entry of `parts_of`; None: the output is one part.
            unordered: Whether rows may come in any order.
        """
        places, real = _places(value.shape, parts), value.astype(np.float64)
        is_finite = np.isfinite(real)
        if not (finite := bool(is_finite.all())):
            real = np.where(is_finite, real, 0)
        return cls(value, places, _sums(real * real, places), finite, unordered)

    def errors_of(self, got: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (sums of squared errors of `got`, sums of squares), float64 [parts] each.

        Where rows are more or fewer, or may be in another order, each is compared to the nearest one. Of
        another shape otherwise, all is lost; NaN and infinities count as 0.
        """
        if self.unordered or got.shape != self.value.shape:
            matched = align_rows(got, self.value, unordered=self.unordered)
            if matched is None and got.shape != self.value.shape:
                return self.squares, self.squares
            got = got if matched is None else matched
        if self.finite:
            difference = np.subtract(got, self.value, dtype=np.float64)
            errors = _sums(difference * difference, self.parts)
            if np.isfinite(errors).all():
                return errors, self.squares
        real, got_real = self.value.astype(np.float64), got.astype(np.float64)
        is_finite = np.isfinite(real)
        difference = np.where(
            is_finite, np.where(np.isfinite(got_real), got_real, 0) - np.where(is_finite, real, 0), 0
        )
        return _sums(difference * difference, self.parts), self.squares


def output_references(
    outputs: Mapping[str, NDArray], parts: Mapping[str, OutputParts], unordered: Container[str] = ()
) -> dict[str, OutputReference]:
    """Build the reference of each real output.

    Args:
        outputs: By name.
        parts: What `parts_of` finds in the model.
        unordered: Those whose rows may come in another order.
    """
    real = {name: array for name, array in outputs.items() if array.dtype.kind == "f"}
    return {name: OutputReference.of(a, parts.get(name), name in unordered) for name, a in real.items()}


def _places(shape: tuple[int, ...], parts: OutputParts | None) -> tuple[_Place, ...]:
    """Return the slices of the parts; the whole where there are none, or where sizes differ from those
    expected.
    """
    if parts is None or sum(parts[1]) != shape[parts[0]]:
        return ((),)
    (axis, sizes), places, start = parts, list[_Place](), 0
    before = (slice(None),) * (axis % len(shape))
    for size in sizes:
        places.append((*before, slice(start, start + size)))
        start += size
    return tuple(places)


def _sums(values: NDArray[np.float64], places: Sequence[_Place]) -> NDArray[np.float64]:
    return np.array([values[place].sum() for place in places])


_MOST = 2**25
"""Numbers that are subtracted at most: 1,000 rows of 30 from as many take 0.1 s."""


def align_rows(got: NDArray, want: NDArray, *, unordered: bool = False) -> NDArray | None:
    """Return `got` in the shape of `want`: each row of `want` is replaced by the nearest row of `got`.

    A row is zeros where these are nearer. The result is None where other axes differ in size, or there are
    too many rows.

    Args:
        got, want: Reals. Rows lie along the axis in whose size they differ.
        unordered: Whether equal sizes may be in another order: rows of the first axis above 1 but the last.
    """
    axis = _axis_of_rows(got.shape, want.shape, unordered)
    if axis is None or got.size * want.shape[axis] > _MOST:
        return None
    ours, theirs = (np.moveaxis(_finite(a), axis, 0) for a in (got, want))
    rows, own_rows = (a.reshape(len(a), math.prod(a.shape[1:])) for a in (theirs, ours))
    aligned = np.zeros_like(rows)
    for number, row in enumerate(rows):
        places = _nearest(own_rows, row, number if got.shape == want.shape else None)
        if places is not None:
            aligned[number] = own_rows[places]
    return np.moveaxis(aligned.reshape(theirs.shape), 0, axis)


def _axis_of_rows(got: tuple[int, ...], want: tuple[int, ...], unordered: bool) -> int | None:
    if len(got) != len(want):
        return None
    differ = [axis for axis, (a, b) in enumerate(zip(got, want, strict=True)) if a != b]
    if not differ and unordered:
        differ = [axis for axis, size in enumerate(want[:-1]) if size > 1][:1]
    return differ[0] if len(differ) == 1 else None


def _nearest(rows: NDArray[np.float64], row: NDArray[np.float64], same: int | None) -> int | None:
    """Return the index of the nearest row, preferring `same` among equals; None where zeros are nearer."""
    if not len(rows):
        return None
    distances = np.square(rows - row).sum(1)
    place = int(distances.argmin())
    if same is not None and distances[same] <= distances[place]:
        place = same
    return place if distances[place] < np.square(row).sum() else None


def _finite(array: NDArray) -> NDArray[np.float64]:
    real = array.astype(np.float64)
    return np.where(np.isfinite(real), real, 0)
