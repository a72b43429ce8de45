"""The rewrites and passes that bring a model to the form that steps are chosen from, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from intact.engine.lower.passes.constant_calls import CONSTANT_CALLS, part_constant_outputs
from intact.engine.lower.passes.fold_sizes import fold_sizes
from intact.engine.lower.passes.integer_products import BIASES, INTEGER_PRODUCTS
from intact.engine.lower.passes.merge_axes import AXES
from intact.engine.lower.passes.qdq_propagation import (
    CANCEL_PAIRS,
    LOWER_DEQUANTIZERS,
    RAISE_QUANTIZERS,
    drop_repeats,
    share_pairs,
)
from intact.engine.lower.passes.repeated_names import part_repeated_names
from intact.engine.lower.passes.simplify import BOUNDS, IDLE, NAN_GUARDS, NORMS
from intact.graph import (
    Model,
    Note,
    Pass,
    Stage,
    pipelines,
    run_stages,
    silent,
    specialize,
    upgrade_opset,
)

_OPSET = 21  # the one form of each operator that the rules read


def _normalize(model: Model) -> list[Note]:
    """Rewrite QOperator forms and integer operators as Q/DQ, at one opset, so that each operator has one
    form."""
    notes = run_stages(model, pipelines.NORMALIZE)
    upgrade_opset(model, _OPSET)
    return notes


ONE_FORM = Pass("bring operators to one form", _normalize, shapes=True)

OF_BRANCHES = Pass("bring operators of branches to one form", pipelines.normalize, shapes=True)
"""For branches that stand in place of their If: passes see the main graph alone."""

PART_NAMES = Pass("part sizes that are called alike", part_repeated_names, shapes=True)

_IN_PLAIN_OPERATORS: tuple[Stage, ...] = (
    IDLE,
    BOUNDS,
    Pass("fold sizes", fold_sizes),
    CONSTANT_CALLS,
    INTEGER_PRODUCTS,
    BIASES,
    AXES,
    *pipelines.LAYERS,
    NORMS,
    NAN_GUARDS,
    Pass("part constant outputs", part_constant_outputs),
    pipelines.OUTPUTS,
)

BEFORE: tuple[Stage, ...] = (
    PART_NAMES,
    ONE_FORM,
    pipelines.FOUR_BITS,
    *pipelines.ENGINE_COMPOUNDS,
    *_IN_PLAIN_OPERATORS,
)
"""Passes that run before placement reads the graph."""

AFTER: tuple[Stage, ...] = (
    Pass("share pairs", share_pairs),
    RAISE_QUANTIZERS,
    CANCEL_PAIRS,
    LOWER_DEQUANTIZERS,
    replace(CANCEL_PAIRS, name="cancel pairs again"),
    Pass("share pairs again", share_pairs),
    Pass("drop repeats", drop_repeats),
    pipelines.PRUNE,
)
"""Passes between placement and the choice of steps. Each leaves an equivalent model."""

ENGINE: tuple[Stage, ...] = (*pipelines.IMPORT, *BEFORE, *AFTER)
"""All that happens to a model before steps are chosen."""


def before_placement(
    shapes: Mapping[str, Sequence[int]], values: Mapping[str, NDArray[Any]]
) -> tuple[Stage, ...]:
    """Return `BEFORE` with the stages that fix the sizes of the inputs, and the values of some."""
    if not shapes and not values:
        return BEFORE

    def fix(model: Model) -> None:
        specialize(model, shapes, values)

    def decompose_all(model: Model) -> list[Note]:
        decomposed = run_stages(model, pipelines.ENGINE_COMPOUNDS)
        if decomposed:
            fix(model)  # what was one node has sizes of its own to work out
        return decomposed

    decomposed = Pass("write out compounds", decompose_all)
    of_branches = (OF_BRANCHES,) if values else ()
    fixed = silent("fix sizes", fix)
    return (ONE_FORM, fixed, *of_branches, pipelines.FOUR_BITS, decomposed, *_IN_PLAIN_OPERATORS)
