"""Runs a model and the branches of its Ifs piece by piece, each branch in the runs that take it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from intact.graph import SIDES, Constants, Model, Node, constants_of, inner_graphs, outer_values
from intact.ptq.blocks.layer_stream import LayerStream, Rows, join_rows
from intact.ptq.blocks.linear_layers import LinearLayer, Path
from intact.ptq.data.model_inputs import Feeds

_Streams = tuple[LayerStream, ...]


class BranchStreams:
    """Gives the inputs of layers of a model and of its branches, in the order in which they run.

    Args:
        models: Of the same nodes and branches, computed side by side: with codes, and without. They may
            be changed as for `LayerStream`.
        batches: Of their inputs, checked.
    """

    def __init__(self, models: Sequence[Model], batches: Iterable[Feeds]) -> None:
        inputs = list(batches)
        self.count = len(models)
        self._streams: dict[Path, _Streams | None] = {
            (): tuple(LayerStream(model, (model.graph,), inputs) for model in models)
        }

    def rows(self, layer: LinearLayer) -> Iterator[tuple[Rows, ...]]:
        """Yield what a layer multiplies, in each model, as `join_rows` does.

        Nothing where no batch reaches it: in branches that none takes, in bodies of loops, and in front of
        a layer of the same branch whose inputs were given already.
        """
        streams = self._advance(layer.path, layer.node.name or "")
        if streams is not None:
            name = layer.source.name or ""
            yield from join_rows(zip(*(stream.tensors(name) for stream in streams), strict=True))

    def _advance(self, path: Path, node: str) -> _Streams | None:
        """Run what stands in front of a node, in all models; None where no batch reaches it any more."""
        streams = self._open(path)
        reached = [stream.advance(node) for stream in streams or ()]
        if streams is None or not all(reached):
            return None
        for inner in [inner for inner in self._streams if inner[: len(path)] == path != inner]:
            if inner[len(path)][0] != node:
                del self._streams[inner]  # its If has been passed
        return streams

    def _open(self, path: Path) -> _Streams | None:
        """Return the streams of a graph; None where no batch reaches it."""
        if path not in self._streams:
            *outer, (node, side) = path
            streams = self._advance(tuple(outer), node) if side in SIDES else None
            self._streams[path] = None if streams is None else _enter(streams, node, side)
        return self._streams[path]


def _enter(streams: _Streams, node: str, side: str) -> _Streams | None:
    """Return the streams of a branch, on the batches that take it in all models; None where none does."""
    conditions = zip(*(_conditions(stream, node) for stream in streams), strict=True)
    is_taken = [set(values) == {SIDES[side]} for values in conditions]
    if not any(is_taken):
        return None
    entered = []
    for stream in streams:
        branch, constants = inner_graphs(_node(stream, node))[side], constants_of(stream.graphs)
        names = {value.name or "" for value in outer_values(branch) if value not in constants}
        if not stream.batches[0].keys() >= names:
            return None  # it reads a list of tensors
        feeds = [
            {name: tensors[name] for name in names}
            for tensors, is_in in zip(stream.batches, is_taken, strict=True)
            if is_in
        ]
        entered.append(LayerStream(stream.model, (*stream.graphs, branch), feeds))
    return tuple(entered)


def _conditions(stream: LayerStream, node: str) -> Iterator[bool]:
    """Yield the condition of an If for each batch."""
    (condition,) = _node(stream, node).inputs
    assert condition is not None
    name = condition.name or ""
    for tensors in stream.batches:
        value = tensors[name] if name in tensors else Constants(stream.model.graph)(condition)
        if value is not None:
            yield bool(value.reshape(-1)[0])


def _node(stream: LayerStream, name: str) -> Node:
    return next(node for node in stream.graphs[-1] if node.name == name)
