"""Move Q up and DQ down through nodes that only move data, and drop pairs that meet.

Every rewrite makes of a valid model one that means the same, code by code.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.grids import FloatGrid, Grid, Grids
from intact.graph import Model, Node, Note, Outcome, Rewrite, Scene, Value, is_op, ops
from intact.numerics import dequantize, quantize

STAYS = "intact.stays"
"""In a node's meta: no step moves codes as it does, so that they shall not pass there."""


class Propagation:
    """One graph while Q and DQ are moved in it."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.constants = scene, scene.constants
        self.grids = Grids(self.constants)

    def grid(self, node: Node | None) -> Grid | None:
        """Return the grid of a Q or DQ whose codes kernels know; None for anything else."""
        grid = self.any_grid(node)
        return grid if isinstance(grid, Grid) else None

    def any_grid(self, node: Node | None) -> Grid | FloatGrid | None:
        """Return the grid of a Q or DQ; None for anything else."""
        return self.grids.any_of(node) if node is not None and is_op(node, *_PAIR) else None

    def data(self, node: Node, *, fills: bool = False) -> list[int] | None:
        """Return the inputs that `node` moves; None where it does more than that, unless it `fills` a rim."""
        if not ops.may_move(node) or STAYS in node.meta:
            return None
        indices = list(ops.data_inputs(node))
        if any(node.inputs[i] is None or node.inputs[i] in self.constants for i in indices):
            return None
        if fills and self.fill(node) is not None:
            return indices
        return None if ops.quantized_before(node, self.constants) else indices

    def fill(self, node: Node) -> np.float32 | None:
        """Return the number, other than 0, that a Pad fills with; None for others."""
        number = ops.Pad.of(node).fill(node, self.constants) if is_op(node, "Pad") else None
        return None if not number or np.isnan(number) else np.float32(number)

    def fill_code(self, node: Node, grid: Grid, *, exact: bool) -> NDArray[np.generic] | None:
        """Return the code of that number on a grid; None where there is none, or not of it `exact`ly."""
        number = self.fill(node)
        if number is None:
            return None
        code = quantize(number, *grid.affine, grid.spec)
        if exact and dequantize(code, *grid.affine, grid.spec) != number:
            return None
        return np.asarray(code, np.int8 if grid.signed else np.uint8)


def moves_codes(node: Node) -> bool:
    """Return whether codes pass through `node`, which only moves data."""
    types = {value.dtype.name for value in node.outputs if value.dtype is not None}
    return ops.may_move(node) and bool(types & {"INT8", "UINT8"})


_PAIR = ("QuantizeLinear", "DequantizeLinear")


def share_pairs(model: Model) -> list[Note]:
    """Share one Q for every tensor and grid, and one DQ for every tensor of codes.

    Before: ``a = DQ(Q(x, s)), b = DQ(Q(x, s))``.  After: ``a = b = DQ(Q(x, s))``.
    """
    walk, count = Propagation(Scene(model.graph)), 0
    seen: dict[tuple[Value | None, str, Grid | FloatGrid], Value] = {}
    for node in list(model.graph):
        grid = walk.any_grid(node)
        if grid is None or node.inputs[0] in walk.constants:
            continue
        first = seen.setdefault((node.inputs[0], node.op_type, grid), node.outputs[0])
        if first is not node.outputs[0] and not node.outputs[0].is_graph_output():
            walk.scene.replace(node, first)
            count += 1
    return [Note("", f"{count} Q or DQ were doubles of others")] if count else []


def _raise_quantizers(node: Node, scene: Scene) -> Outcome:
    """Move quantizers in front of operators that only move data.

    Before: ``Q(Transpose(x))``, read as codes alone.  After: ``Transpose(Q(x))``.

    Guards: nobody reads the floats; all readers want one grid; the operator only moves data, or is a Pad,
    whose fill is quantized as well.
    """
    walk = Propagation(scene)
    indices = walk.data(node, fills=True)
    if indices is None or not (quantizers := _quantizers(walk, node)):
        return None
    _raise(walk, node, indices, quantizers)
    return "moves codes, Q stands before it"


def _quantizers(walk: Propagation, node: Node) -> list[Node]:
    """Return the Q behind each used output, where only Qs of one grid read it."""
    quantizers: list[Node] = []
    for output in node.outputs:
        if output.is_graph_output():
            return []
        readers = list(output.uses())
        if not readers and len(node.outputs) > 1:
            continue
        if len(readers) != 1 or readers[0].idx or not is_op(readers[0].node, "QuantizeLinear"):
            return []
        if readers[0].node.graph is not walk.scene.graph:
            return []
        quantizers.append(readers[0].node)
    grids = {walk.grid(q) for q in quantizers}
    return quantizers if len(grids) == 1 and None not in grids else []


def _raise(walk: Propagation, node: Node, indices: list[int], quantizers: list[Node]) -> None:
    model, first = quantizers[0].outputs[0], quantizers[0]
    insert = walk.scene.inserter(node)
    quantized: dict[Value, Value] = {}
    for index in indices:
        x = node.inputs[index]
        assert x is not None
        if x not in quantized:
            quantized[x] = insert.node(
                "QuantizeLinear", [x, *first.inputs[1:]], f"{x.name}.codes",
                dtype=model.dtype, shape=x.shape, **ops.copy_attributes(first),
            )  # fmt: skip
        node.replace_input_with(index, quantized[x])
    _fill_with_code(walk, node, first)
    for output in node.outputs:  # those too that nobody reads
        output.type = model.type
    for quantizer in quantizers:
        floats = quantizer.inputs[0]
        assert floats is not None
        walk.scene.replace(quantizer, floats)


def _fill_with_code(walk: Propagation, node: Node, pair: Node) -> None:
    """Let a Pad of codes fill with the code of its number, which is 0.0 by default."""
    if node.op_type != "Pad":
        return
    grid = walk.grid(pair)
    assert grid is not None
    code = walk.fill_code(node, grid, exact=False)
    node.resize_inputs(max(3, len(node.inputs)))
    if code is not None:
        insert = walk.scene.inserter(node)
        node.replace_input_with(2, insert.constant(f"{node.name}.fill", code))
        return
    zero = pair.inputs[2] if len(pair.inputs) > 2 else None
    node.replace_input_with(2, zero)


def _lower_dequantizers(node: Node, scene: Scene) -> Outcome:
    """Move dequantizers behind operators that only move data.

    Before: ``Transpose(DQ(q))``.  After: ``DQ(Transpose(q))``.

    Guards: everything that is moved has one grid; the operator only moves data, or is a Pad whose fill lies
    on that grid.
    """
    walk = Propagation(scene)
    indices = walk.data(node, fills=True)
    if indices is None:
        return None
    pairs = [value.producer() for i in indices if (value := node.inputs[i]) is not None]
    grids = {walk.grid(p) if p is not None and p.op_type == _PAIR[1] else None for p in pairs}
    grid = grids.pop()
    if grids or grid is None or pairs[0] is None:
        return None
    if walk.fill(node) is not None and walk.fill_code(node, grid, exact=True) is None:
        return None
    _lower(walk, node, indices, pairs[0])
    return "moves codes, DQ stands behind it"


def _lower(walk: Propagation, node: Node, indices: list[int], pair: Node) -> None:
    codes = pair.inputs[0]
    assert codes is not None
    for index in indices:
        value = node.inputs[index]
        producer = value.producer() if value is not None else None
        assert producer is not None and producer.inputs[0] is not None
        node.replace_input_with(index, producer.inputs[0])
    _fill_with_code(walk, node, pair)
    for output in node.outputs:
        if not output.uses() and not output.is_graph_output():
            output.type = codes.type
            continue
        insert = walk.scene.inserter(node, after=True)
        real = insert.node(
            "DequantizeLinear", [output, *pair.inputs[1:]], f"{output.name}.real",
            dtype=output.dtype, shape=output.shape, **ops.copy_attributes(pair),
        )  # fmt: skip
        producer = real.producer()
        assert producer is not None
        output.replace_all_uses_with(real, replace_graph_outputs=True)
        producer.replace_input_with(0, output)
        output.type = codes.type
        output.name, real.name = walk.scene.names(f"{output.name}.codes"), output.name


def _cancel_pair(node: Node, scene: Scene) -> Outcome:
    """Cancel a Q/DQ pair on one grid.

    Before: ``Q(DQ(q, s), s)``.  After: ``q``: quantizing what a code means gives that code back."""
    walk, x = Propagation(scene), node.inputs[0]
    above = x.producer() if x is not None else None
    if above is None or not is_op(above, "DequantizeLinear") or above.inputs[0] is None:
        return None
    grid = walk.any_grid(node)
    if grid is None or grid != walk.any_grid(above):
        return None
    scene.replace(node, above.inputs[0])
    return "vanishes, for its codes are there already"


def drop_repeats(model: Model) -> list[Note]:
    """Drop a pair that repeats the rounding of the one above it.

    Before: ``DQ(Q(Transpose(DQ(q, s)), s))``, of 16 bits.  After: ``Transpose(DQ(q, s))``.

    Floats that lie on a grid stay as they are when they are brought to it once more (N13). Codes of 8 bits
    pass through such operators themselves.
    """
    walk, notes = Propagation(Scene(model.graph)), list[Note]()
    on: dict[Value | None, FloatGrid] = {}  # what lies on which grid
    for node in list(model.graph):
        if is_op(node, _PAIR[1]):
            grid, x = walk.any_grid(node), _source(walk, node)
            if isinstance(grid, FloatGrid) and on.get(x) == grid and not node.outputs[0].is_graph_output():
                assert x is not None
                walk.scene.replace(node, x)
                notes.append(
                    Note(node.name or node.op_type, "vanishes, for its floats lie on its grid already")
                )
            elif isinstance(grid, FloatGrid):
                on[node.outputs[0]] = grid
        elif (indices := walk.data(node)) is not None:
            grids = {on.get(node.inputs[index]) for index in indices}
            if len(grids) == 1 and (moved := grids.pop()) is not None:
                on.update(dict.fromkeys(node.outputs, moved))
    return notes


def _source(walk: Propagation, node: Node) -> Value | None:
    """Return the input of the Q in front of a DQ of the same grid."""
    codes = node.inputs[0]
    above = codes.producer() if codes is not None else None
    if above is None or not is_op(above, _PAIR[0]) or walk.any_grid(above) != walk.any_grid(node):
        return None
    return above.inputs[0]


RAISE_QUANTIZERS = Rewrite("raise Q", _raise_quantizers, (), matches=ops.may_move, backwards=True)
LOWER_DEQUANTIZERS = Rewrite("lower DQ", _lower_dequantizers, (), matches=ops.may_move)
CANCEL_PAIRS = Rewrite("cancel pairs", _cancel_pair, ("QuantizeLinear",))
