"""`LargestScores`: how many answers change that are the place of the largest score, by few rows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

MOST_DIMENSIONS = 3
"""Outputs with more are maps: edges of their areas always move by a pixel, and their values are read."""
_DECISIVE = 0.5
"""The median probability of the largest score, below which float itself is not sure of its answers."""
_MOST_ROWS = 50_000
_LEAST_NEAREST = 50
"""Rows of the least leads whose errors are compared, where a quarter of the rows are fewer."""
_LEAST_PROBABILITY = 1e-9
_PRODUCTS = frozenset({"MatMul", "Gemm"})


def linear_outputs(source: str | os.PathLike[str] | bytes) -> list[str]:
    """Return the outputs of an ONNX file that a linear layer gives: they may be scores before Softmax.

    Args:
        source: The path of the file, or its bytes.
    """
    from intact.graph import load, ops

    names = []
    for output in load(source).graph.outputs:
        node = output.producer()
        while node is not None and (node.op_type in ops.MOVING or node.op_type == "Cast"):
            node = _producer(node.inputs[0])
        if node is not None and node.op_type == "Add":  # a bias
            makers = [_producer(value) for value in node.inputs]
            node = next((maker for maker in makers if maker and maker.op_type in _PRODUCTS), None)
        if node is not None and node.op_type in _PRODUCTS:
            names.append(str(output.name))
    return names


def _producer(value: Any) -> Any:
    return None if value is None else value.producer()


def is_distribution(rows: Array) -> bool:
    """Return whether all rows are probabilities: not negative, with a sum of 1."""
    sums = rows.sum(axis=1, dtype=np.float64)
    return bool(rows.min() >= -1e-6 and np.abs(sums - 1).max() <= 1e-2)


class LargestScores:
    """Collects rows of scores, and estimates in how many of them the largest one moves.

    A score that falls behind the second one changes an answer: a class, a letter, a token. Few runs have few
    such changes. Each row's lead over the second score is therefore compared with the errors of the quarter
    of rows whose leads are least, as rows of large leads have other errors. The class that most rows have,
    such as the blank between letters, is no answer: its rows do not count.
    """

    def __init__(self) -> None:
        self._leads: list[Array] = []
        self._errors: list[Array] = []
        self._probabilities: list[Array] = []
        self._classes: Counter[int] = Counter()
        self._rows = 0

    def add(self, reference: Array, candidate: Array, may_be_logits: bool) -> None:
        """Compare rows of float and of the engine where they are scores.

        Args:
            reference, candidate: An output, [..., classes].
            may_be_logits: A linear layer gives it; else only logarithms of probabilities, or these, count.
        """
        if reference.ndim > MOST_DIMENSIONS or reference.ndim < 2 or reference.shape[-1] < 2:
            return
        rows = reference.reshape(-1, reference.shape[-1]).astype(np.float64)
        if not rows.size or self._rows >= _MOST_ROWS or not np.isfinite(rows).all():
            return
        scores = candidate.reshape(rows.shape).astype(np.float64)
        if is_distribution(rows):
            rows, scores = (np.log(np.maximum(part, _LEAST_PROBABILITY)) for part in (rows, scores))
        totals = np.exp(rows - rows.max(axis=1, keepdims=True)).sum(axis=1)
        if not may_be_logits and np.abs(rows.max(axis=1) + np.log(totals)).max() > 1e-2:
            return
        index = np.arange(len(rows))
        first, second = np.argsort(-rows, axis=1)[:, :2].T
        leads = rows[index, first] - rows[index, second]
        self._leads.append(leads)
        self._errors.append(scores[index, first] - scores[index, second] - leads)
        self._probabilities.append(1 / totals)
        self._classes.update(first.tolist())
        self._rows += len(rows)

    def merge(self, collected: Iterable[LargestScores]) -> LargestScores:
        """Return these and `collected` together."""
        total = LargestScores()
        for scores in (self, *collected):
            total._leads += scores._leads
            total._errors += scores._errors
            total._probabilities += scores._probabilities
            total._classes += scores._classes
            total._rows += scores._rows
        return total

    def changes(self) -> tuple[float, int]:
        """Return (answers that change, answers): the expected number of them in these rows.

        (0, 0) where there are no scores, or where float itself is not sure of most answers.
        """
        if not self._rows or float(np.median(np.concatenate(self._probabilities))) < _DECISIVE:
            return 0.0, 0
        leads, errors = np.concatenate(self._leads), np.abs(np.concatenate(self._errors))
        nearest = np.argsort(leads, kind="stable")[: max(_LEAST_NEAREST, len(leads) // 4)]
        errors = np.sort(errors[nearest])
        # An error of a lead's size goes against it in half of the cases.
        larger = len(errors) - np.searchsorted(errors, leads, "right")
        _, most = self._classes.most_common(1)[0]
        answers = self._rows - most if 2 * most > self._rows else self._rows
        return float(larger.sum()) / (2 * len(errors)), answers
