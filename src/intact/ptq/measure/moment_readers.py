"""Readers that compute second moments of layer inputs while the model runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from numpy.typing import NDArray

from intact.graph import Constants, Model
from intact.ptq.measure.layer_inputs import Readers
from intact.ptq.measure.running_sums import Moments
from intact.ptq.measure.weight_rows import InputRows, as_rows

FEW_COLUMNS = 32
"""Of the layers that "auto" rounds so: windows of one channel, 3x3 ones of three."""

_ROWS = 4096  # of inputs of one layer, about: more change next to nothing


@dataclass(frozen=True)
class _MomentReader:
    """Computes the moments of one layer's inputs."""

    met: InputRows

    def __call__(self, x: NDArray) -> Moments:
        return Moments.concatenate([Moments.of(columns) for columns in self.met(x)])


def rows_of_run(runs: int) -> int:
    """Return how many input rows of a layer are used in each of `runs` runs, at most."""
    return -(-_ROWS // runs)


def moment_readers(model: Model, shapes: Mapping[str, tuple[int, ...]], rows: int) -> Readers[Moments]:
    """Return readers that compute the moments of layers (see `read_layer_inputs`).

    Args:
        model: Float.
        shapes: Of the weights of these layers, by name.
        rows: See `rows_of_run`.
    """
    readers: dict[str, dict[str, _MomentReader]] = {}
    for node in model.graph:
        if (name := node.name or "") in shapes and (x := node.inputs[0]) is not None:
            read = _MomentReader(InputRows(node, shapes[name][2:], rows))
            readers.setdefault(x.name or "", {})[name] = read
    return readers


def narrow_layers(
    model: Model, readers: Iterable[tuple[str, int]], most: float
) -> dict[str, tuple[int, ...]]:
    """Return the weight shapes of layers that sum few products, by layer name.

    None where the moments of one run have more than `most` bytes.

    Args:
        model: Float.
        readers: (node name, input index) of those who will read a weight quantized.
    """
    constants = Constants(model.graph)
    names, shapes = {name for name, index in readers if index == 1}, dict[str, tuple[int, ...]]()
    for node in model.graph:
        if (name := node.name or "") in names and node.inputs[0] is not None:
            array = constants(node.inputs[1])
            rows = None if array is None else as_rows(node, array)
            if array is not None and rows is not None and rows.shape[2] <= FEW_COLUMNS:
                shapes[name] = array.shape
                most -= 8 * rows.shape[0] * rows.shape[2] * (rows.shape[2] + 1)
    return shapes if most >= 0 else {}
