"""Drop rows of products that later steps discard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from math import prod

from intact.engine.plan import Plan
from intact.engine.steps import (
    BlockFloatLinear,
    BlockLinear,
    ChosenBlockLinear,
    ChosenLinear,
    GatherRows,
    Linear,
    Reshape,
    Step,
)
from intact.engine.steps.base.block_constants import BlockConstants
from intact.engine.steps.base.wiring import reads, writes
from intact.engine.steps.products.chosen_block_linear import PANEL

_Layer = Linear | BlockLinear | BlockFloatLinear


def choose_rows(plan: Plan) -> Plan:
    """Compute only the columns that a GatherRows reads.

    Before: ``Linear -> Reshape -> GatherRows``, of each row the columns of one of several matrices; weights
    may have blocks.

    After: ``ChosenLinear``, or ``ChosenBlockLinear``, which multiplies rows by those alone.

    Guards: nobody else reads what stands in between; a tuple is one index, which counts the matrices; there
    are fewer of them for each row than matrices, where that is known; codes are bytes, and nothing is added.
    Of blocks codes have no zero points, and matrices whole panels.
    """
    readers = Counter(name for step in plan.steps for name in reads(step)) + Counter(plan.outputs)
    makers = {name: step for step in plan.steps for name in writes(step)}

    def only(name: str) -> Step | None:
        return makers.get(name) if readers[name] == 1 else None

    steps, gone, notes = list[Step](), set[str](), list(plan.notes)
    for step in plan.steps:
        above = _above(step, only)
        if isinstance(step, GatherRows) and above is not None and _chooses(plan, above[0], step):
            layer, moved = above
            notes.append(f"choose rows: {layer.name} multiplies by the matrices that {step.name} keeps")
            nodes = tuple(dict.fromkeys(layer.nodes + moved.nodes + step.nodes))
            steps.append(_step_of_choice(layer, step, nodes))
            gone.update((step.x, layer.y))
        else:
            steps.append(step)
    remaining = tuple(step for step in steps if not gone.intersection(writes(step)))
    tensors = {name: tensor for name, tensor in plan.tensors.items() if name not in gone}
    return replace(plan, steps=remaining, tensors=tensors, notes=tuple(notes))


def _step_of_choice(layer: _Layer, step: GatherRows, nodes: tuple[str, ...]) -> Step:
    (groups,) = step.sizes
    assert isinstance(groups, int), "as `_chooses` asks for"
    if isinstance(layer, Linear):
        chosen = layer.x, step.index, step.y, layer.weight, groups, layer.epilogue
        return ChosenLinear(layer.name, nodes, *chosen)
    ranges = (layer.x_scales, layer.x_block) if isinstance(layer, BlockLinear) else ("", 0)
    blocks = {field.name: getattr(layer, field.name) for field in fields(BlockConstants)}
    return ChosenBlockLinear(
        layer.name, nodes, layer.x, step.index, step.y, groups, *ranges, layer.bias, **blocks
    )


def _above(step: Step, only: Callable[[str], Step | None]) -> tuple[_Layer, Reshape] | None:
    """Return the layer whose output is laid out for `step` alone."""
    moved = only(step.x) if isinstance(step, GatherRows) else None
    layer = only(moved.x) if isinstance(moved, Reshape) else None
    return (layer, moved) if isinstance(layer, _Layer) and isinstance(moved, Reshape) else None


def _chooses(plan: Plan, layer: _Layer, step: GatherRows) -> bool:
    out, width = len(plan.constants[layer.weight]), plan.tensors[step.x].shape[1]
    groups = step.sizes[0]
    if (
        len(step.sizes) != 1
        or not isinstance(width, int)
        or not isinstance(groups, int)
        or groups * width != out
    ):
        return False
    rows, index = plan.tensors[layer.x].shape[:-1], plan.tensors.get(step.index)
    sizes = [n for n in rows if isinstance(n, int)]
    many = index.shape[0] if index is not None else len(plan.constants[step.index])
    if len(sizes) == len(rows) and isinstance(many, int) and many > prod(sizes) * groups:
        return False
    if isinstance(layer, Linear):
        return not (layer.low or layer.epilogue.residual)
    has_codes = isinstance(layer, BlockLinear)
    return width % PANEL == 0 and not (has_codes and (plan.tensors[layer.x].dtype != "int8"))
