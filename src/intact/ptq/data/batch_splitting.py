"""Splits batches into runs of a model, one sample at a time where samples are independent.

One sample at a time is not only small: the numbers are then the same, bit for bit, whatever batches the
data came in. A matrix product of one row and the same row among eight may round differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.graph import Session
from intact.ptq.data.model_inputs import Feeds, Input

Kind = Literal["rows", "whole", "probe"]
_TOLERANCE = 1e-3


class BatchSplitter:
    """Splits batches into runs.

    A model with a fixed batch size N gets N samples at a time. With an open one, the first batch of two or
    more samples is tried: where each sample alone gives the outputs that it gives among others, samples run
    alone; otherwise batches run as they come (the first axis is no batch axis, or samples are mixed).

    Args:
        session: The model.
        outputs: Names of those of the session's outputs that errors are measured on; tensors are compared.
        inputs: The model's inputs.
    """

    def __init__(self, session: Session, outputs: Sequence[str], inputs: Sequence[Input]) -> None:
        self._session, self._outputs = session, [name for name in outputs if name in session.outputs]
        self._kind, self._size = _first_axis(inputs)
        self._rest: list[Feeds] = []
        self.stacks = False
        """True where samples that run alone may also run together, along the first axis of every output."""

    def runs(self, batches: Iterable[Feeds]) -> Iterator[tuple[int, Feeds]]:
        """Yield (batch number, feeds of one run), in order.

        Raises:
            QuantValueError: There are fewer samples than the fixed batch size, or the inputs of a batch
                have different numbers of them.
        """
        produced = False
        number = -1
        for number, feeds in enumerate(batches):
            for run in self._cut(feeds, number):
                produced = True
                yield number, run
        if not produced and number >= 0:
            count = sum(_rows(feeds) for feeds in self._rest)
            raise QuantValueError(
                "data", f"{count} samples", f"{self._size}, the model's fixed batch size, or more",
                "give more samples, or export the model with an open batch size",
            )  # fmt: skip

    def _cut(self, feeds: Feeds, number: int) -> Iterator[Feeds]:
        if self._kind != "whole" and len({_rows(feeds, name) for name in feeds}) != 1:
            counts = {name: _rows(feeds, name) for name in feeds}
            raise QuantValueError(
                f"batch {number} of data", f"{counts} samples", "as many for every input", "check the data"
            )
        if self._kind == "probe" and _rows(feeds) > 1:
            self._kind = "rows" if self._is_independent(feeds) else "whole"
        if self._kind != "rows":
            yield feeds
            return
        self._rest.append(feeds)
        while sum(_rows(rest) for rest in self._rest) >= self._size:
            yield self._take()

    def _take(self) -> Feeds:
        """Return the next `size` samples."""
        parts, missing = [], self._size
        while missing:
            feeds = self._rest[0]
            parts.append({name: array[:missing] for name, array in feeds.items()})
            missing -= _rows(parts[-1])
            if _rows(parts[-1]) == _rows(feeds):
                self._rest.pop(0)
            else:
                self._rest[0] = {name: array[_rows(parts[-1]) :] for name, array in feeds.items()}
        if len(parts) == 1:
            return parts[0]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _is_independent(self, feeds: Feeds) -> bool:
        pair, first, second = (
            {name: array[start:stop] for name, array in feeds.items()}
            for start, stop in ((0, 2), (0, 1), (1, 2))
        )
        try:
            together, *alone = (dict(self._session.stream(f, self._outputs)) for f in (pair, first, second))
        except TypeError:  # a sample alone, or two of more, do not run
            return False
        first_outputs, second_outputs = alone
        axes = [
            _concatenation_axis(outputs, first_outputs.get(name), second_outputs.get(name))
            for name, outputs in together.items()
        ]
        self.stacks = all(axis == 0 for axis in axes)
        return None not in axes


def _first_axis(inputs: Sequence[Input]) -> tuple[Kind, int]:
    """Classify the first axes of the inputs: how batches may be split, and into how many samples."""
    if any(not model_input.shape for model_input in inputs):
        return "whole", 1
    sizes = {model_input.shape[0] for model_input in inputs if model_input.shape}
    if len(sizes) != 1:
        return "whole", 1
    size = sizes.pop()
    return ("rows", size) if isinstance(size, int) else ("probe", 1)


def _concatenation_axis(together: NDArray, first: NDArray | None, second: NDArray | None) -> int | None:
    """Return the axis along which `together` is `first` and then `second`, but for rounding; or None."""
    if first is None or second is None or not together.ndim == first.ndim == second.ndim:
        return None
    for axis in range(together.ndim):
        shapes = [a.shape[:axis] + a.shape[axis + 1 :] for a in (together, first, second)]
        if first.shape[axis] + second.shape[axis] != together.shape[axis] or len(set(shapes)) != 1:
            continue
        if _close(together, np.concatenate([first, second], axis)):
            return axis
    return None


def _close(a: NDArray, b: NDArray) -> bool:
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    bound = _TOLERANCE * float(np.max(np.abs(a), initial=0, where=np.isfinite(a)))
    return bool(np.allclose(a, b, rtol=0, atol=bound, equal_nan=True))


def _rows(feeds: Feeds, name: str | None = None) -> int:
    array = feeds[next(iter(feeds)) if name is None else name]
    return int(array.shape[0]) if array.ndim else 0
