"""Which layers' second moments are taken, and what takes them while the model runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from numpy.typing import NDArray

from intact.graph import Constants, Model
from intact.ptq.measure.layer_inputs import Readers
from intact.ptq.measure.second_moments import Moments
from intact.ptq.measure.weight_rows import InputsMet, as_rows

FEW_COLUMNS = 32
"""Of the layers that "auto" rounds so: windows of one channel, 3x3 ones of three."""

_ROWS = 4096  # of inputs of one layer, about: more change next to nothing


@dataclass(frozen=True)
class _MomentsRead:
    """Takes the moments of one layer's inputs."""

    met: InputsMet

    def __call__(self, x: NDArray) -> Moments:
        return Moments.joined([Moments.of(columns) for columns in self.met(x)])


def rows_of_run(runs: int) -> int:
    """How many inputs of a layer are looked at in each of so many runs, at most."""
    return -(-_ROWS // runs)


def moment_readers(model: Model, shapes: Mapping[str, tuple[int, ...]], rows: int) -> Readers[Moments]:
    """What takes the moments of layers, see `intact.ptq.measure.layer_inputs.measured`.

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
