"""Second moments of what layers read, E[x x^T]: weights are rounded with regard to each other by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact import kernels
from intact.graph import Constants, Model
from intact.ptq.columns import InputsMet, as_rows
from intact.ptq.layer_inputs import Readers

FEW_COLUMNS = 32
"""Of the layers that "auto" rounds so: windows of one channel, 3x3 ones of three."""

_ROWS = 4096  # of inputs of one layer, about: more change next to nothing
_BLOCK = 128  # columns rounded with regard to each other: work and memory stay linear in the weights
_RIDGE = 1e-5  # of each column's sum of squares: what float32 sums cannot tell from the mean


@dataclass
class Moments:
    """Sums over inputs of one layer, by block of columns.

    Attributes:
        rows: How many inputs.
        sums: Of each column, float64 [groups, b] for each block.
        products: Of any two columns, float64 [groups, b, b] for each block.
    """

    rows: int
    sums: list[NDArray[np.float64]]
    products: list[NDArray[np.float64]]

    @classmethod
    def of(cls, columns: NDArray[np.float32]) -> Moments:
        """Those of `columns`, float32 [groups, rows, columns]."""
        both = [kernels.moments(columns, block) for block in blocks_of(columns.shape[2])]
        return cls(columns.shape[1], [sums for sums, _ in both], [products for _, products in both])

    @classmethod
    def joined(cls, groups: Sequence[Moments]) -> Moments:
        """Those of some groups after the other."""
        sums, products = (
            [np.concatenate(blocks) for blocks in zip(*both, strict=True)]
            for both in ([one.sums for one in groups], [one.products for one in groups])
        )
        return cls(groups[0].rows, sums, products)

    def __add__(self, other: Moments) -> Moments:
        sums, products = (
            [a + b for a, b in zip(mine, others, strict=True)]
            for mine, others in ((self.sums, other.sums), (self.products, other.products))
        )
        return Moments(self.rows + other.rows, sums, products)

    def hessians(self, centred: bool) -> list[NDArray[np.float64]]:
        """E[x x^T] of each block; `centred`: the covariance, and what keeps it positive in float32 sums."""
        found = []
        for total, product in zip(self.sums, self.products, strict=True):
            mean = total / self.rows * centred
            ridge = _RIDGE * np.einsum("gbb->gb", product)[:, :, None] * np.eye(product.shape[1])
            found.append((product + ridge) / self.rows - mean[:, :, None] * mean[:, None, :])
        return found


@dataclass(frozen=True)
class _MomentsRead:
    """Takes the moments of one layer's inputs."""

    met: InputsMet

    def __call__(self, x: NDArray) -> Moments:
        return Moments.joined([Moments.of(columns) for columns in self.met(x)])


def blocks_of(columns: int) -> list[slice]:
    return [slice(first, first + _BLOCK) for first in range(0, columns, _BLOCK)]


def rows_of_run(runs: int) -> int:
    """How many inputs of a layer are looked at in each of so many runs, at most."""
    return -(-_ROWS // runs)


def moment_readers(model: Model, shapes: Mapping[str, tuple[int, ...]], rows: int) -> Readers[Moments]:
    """What takes the moments of layers, see `intact.ptq.layer_inputs.measured`.

    Args:
        model: Float.
        shapes: Of the weights of these layers, by name.
        rows: See `rows_of_run`.
    """
    readers: dict[str, dict[str, _MomentsRead]] = {}
    for node in model.graph:
        if (name := node.name or "") in shapes and (x := node.inputs[0]) is not None:
            read = _MomentsRead(InputsMet(node, shapes[name][2:], rows))
            readers.setdefault(x.name or "", {})[name] = read
    return readers


def narrow_layers(
    model: Model, readers: Iterable[tuple[str, int]], most: float
) -> dict[str, tuple[int, ...]]:
    """Shapes of the weights of layers that sum up few products, by the layer's name.

    None where the moments of one run have more than `most` bytes.

    Args:
        model: Float.
        readers: (node name, input index) of those who will read a weight quantized.
    """
    constants = Constants(model.graph)
    wanted, found = {name for name, index in readers if index == 1}, dict[str, tuple[int, ...]]()
    for node in model.graph:
        if (name := node.name or "") in wanted and node.inputs[0] is not None:
            array = constants(node.inputs[1])
            rows = None if array is None else as_rows(node, array)
            if array is not None and rows is not None and rows.shape[2] <= FEW_COLUMNS:
                found[name] = array.shape
                most -= 8 * rows.shape[0] * rows.shape[2] * (rows.shape[2] + 1)
    return found if most >= 0 else {}
