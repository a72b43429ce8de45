"""The list of passes, and `lower`, which runs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from intact.engine.files.limits import check_limits
from intact.engine.heap import tidying
from intact.engine.lower.base.finish import finish
from intact.engine.lower.passes.choices import choose_rows
from intact.engine.lower.passes.constant_calls import CONSTANT_CALLS, part_constant_outputs
from intact.engine.lower.passes.layers import layers_of
from intact.engine.lower.passes.many_axes import AXES
from intact.engine.lower.passes.open_sizes import has_open_sizes, with_model
from intact.engine.lower.passes.peephole import join_steps
from intact.engine.lower.passes.qdq_propagation import (
    CANCEL_PAIRS,
    LOWER_DEQUANTIZERS,
    RAISE_QUANTIZERS,
    STAYS,
    drop_repeats,
    moves_codes,
    share_pairs,
)
from intact.engine.lower.passes.shapes import fold_sizes
from intact.engine.lower.passes.shared_constants import share_constants
from intact.engine.lower.passes.simplify import BOUNDS, IDLE, NAN_GUARDS, NORMS
from intact.engine.lower.passes.stored_weights import store_codes
from intact.engine.lower.rules.select import select
from intact.engine.plan import DYNAMIC, UNQUANTIZED, Plan
from intact.errors import FileFormatError, UnsupportedError
from intact.graph import (
    Model,
    Node,
    Note,
    Pass,
    Source,
    Stage,
    check_graph,
    deciding_inputs,
    has_stored_codes,
    is_dynamic,
    load,
    pipelines,
    run_stages,
    silent,
    specialize,
    upgrade_opset,
)
from intact.placement import read_placement

_QUANTIZING = frozenset({"QuantizeLinear", "DequantizeLinear"})  # the other forms are these by then
_OPSET = 21  # the one form of each operator that the rules read


def _normalize(model: Model) -> list[Note]:
    """QOperator forms and integer operators as Q/DQ; one opset, so that each operator has one form."""
    notes = run_stages(model, pipelines.NORMALIZE)
    upgrade_opset(model, _OPSET)
    return notes


ONE_FORM = Pass("bring operators to one form", _normalize, shapes=True)

_IN_PLAIN_OPERATORS: tuple[Stage, ...] = (
    IDLE,
    BOUNDS,
    Pass("fold sizes", fold_sizes),
    CONSTANT_CALLS,
    AXES,
    *pipelines.LAYERS,
    NORMS,
    NAN_GUARDS,
    Pass("part constant outputs", part_constant_outputs),
    pipelines.OUTPUTS,
)

BEFORE: tuple[Stage, ...] = (ONE_FORM, pipelines.FOUR_BITS, *pipelines.COMPOUNDS, *_IN_PLAIN_OPERATORS)
"""What is done before placement reads the graph."""

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
"""What is done between placement and the choice of steps: every pass leaves a model that means the same."""

ENGINE: tuple[Stage, ...] = (*pipelines.IMPORT, *BEFORE, *AFTER)
"""All that happens to a model before steps are chosen."""


def lower(
    source: Source,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, NDArray[Any]] | None = None,
    *,
    keep_codes: bool = True,
) -> Plan:
    """The plan of a model: integer steps where its Q/DQ pairs say so, float steps and subgraphs elsewhere.

    Args:
        source: A path, the bytes of a file, a ModelProto, or an onnx-ir Model; never changed.
        shapes: Sizes of inputs, by name: the plan is for these alone, and all that follows from them is
            worked out.
        values: What some inputs hold, by name: the plan is for these values alone.
        keep_codes: Find which float weights are codes of the model, which a plan file holds instead.
    Returns:
        A plan that has passed `Plan.check`.
    Raises:
        FileFormatError: The file is damaged.
        UnsupportedError: It is of a version that we do not read.
        QuantValueError: There is no such input, or not of such a shape.
    """
    with tidying():  # nodes and values hold each other, and the weights
        plan, model = _lower_model(source, shapes or {}, values or {})
        return store_codes(plan, model) if keep_codes else plan


_NO_TENSORS = frozenset({"ZipMap", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SplitToSequence",
                         "Optional"})  # fmt: skip
"""Operators that make lists of tensors or numbers."""


def _require_tensors(model: Model) -> None:
    for output in model.graph.outputs:
        node = output.producer()
        if node is not None and node.op_type in _NO_TENSORS:
            lists = node.op_type == "ZipMap"
            raise UnsupportedError(
                f"output '{output.name}'", f"what {node.op_type} makes, which is no tensor",
                "tensors as outputs",
                "convert the pipeline with options={'zipmap': False}" if lists else "let tensors be outputs",
            )  # fmt: skip


def _lower_model(
    source: Source, shapes: Mapping[str, Sequence[int]], values: Mapping[str, NDArray[Any]]
) -> tuple[Plan, Model]:
    """The plan, and the model as placement left it."""
    model = load(source)
    _require_tensors(model)
    stages = (*pipelines.IMPORT, *_before(shapes or _fixed_input_sizes(model), values))
    notes = [str(note) for note in run_stages(model, stages)]
    check_graph(model, stages[-1].name)
    deciding = tuple(deciding_inputs(model))
    stored = {node for node in model.graph.all_nodes() if has_stored_codes(node)}
    if not stored and not any(node.op_type in _QUANTIZING for node in model.graph.all_nodes()):
        notes.append(UNQUANTIZED)
    if any(is_dynamic(node) for node in model.graph.all_nodes() if node not in stored):
        notes.append(DYNAMIC)
    placement = read_placement(model)
    stays: set[str] = set()
    while True:
        moved, propagation_notes = _propagate_pairs(model, stays)
        builder = select(moved, placement.fusions)
        _require_known(model, builder.reasons)
        more = {node.name or "" for node in builder.reasons if moves_codes(node)} - stays
        if not more:
            break
        stays |= more  # codes came to operators that no step moves them through: once more, without
    notes += propagation_notes
    plan, reasons = finish(builder, notes)
    plan = share_constants(choose_rows(join_steps(plan)))
    plan = replace(plan, layers=layers_of(plan, placement, moved, reasons))
    plan = replace(plan, deciding=deciding)
    if has_open_sizes(plan):
        plan = with_model(plan, model)
    plan.check()
    _check_holds(plan)
    return plan, model


_OF_RUNTIME = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training")


def _require_known(model: Model, left: Iterable[Node]) -> None:
    """Refuse nodes that neither a kernel, nor ONNX Runtime, nor anybody who registered them can run.

    Raises:
        UnsupportedError: Names the first, and says how to register it.
    """
    for node in left:
        is_known = node.domain in _OF_RUNTIME or (node.domain or "").startswith(("com.microsoft", "com.ms."))
        if not is_known and node.op_identifier() not in model.functions:
            name = f"{node.domain}::{node.op_type}"
            raise UnsupportedError(
                f"node '{node.name}' ({node.op_type})", f"{name}, which nobody registered",
                "a known operator", f"call intact.engine.custom.register('{name}', its body in Python) first",
            )  # fmt: skip


def _fixed_input_sizes(model: Model) -> dict[str, Sequence[int]]:
    """The sizes of the inputs, where the file fixes all of them: there is nothing to wait for then."""
    fixed: dict[str, Sequence[int]] = {}
    for value in model.graph.inputs:
        sizes = [] if value.shape is None else [size for size in value.shape if isinstance(size, int)]
        if value.shape is None or len(sizes) < len(value.shape):
            return {}
        fixed[value.name or ""] = sizes
    return fixed


def _before(shapes: Mapping[str, Sequence[int]], values: Mapping[str, NDArray[Any]]) -> tuple[Stage, ...]:
    """`BEFORE`, and in it what fixes the sizes of the inputs, and what some of them hold."""
    if not shapes and not values:
        return BEFORE

    def fix(model: Model) -> None:
        specialize(model, shapes, values)

    def open_all(model: Model) -> list[Note]:
        opened = run_stages(model, pipelines.COMPOUNDS)
        if opened:
            fix(model)  # what was one node has sizes of its own to work out
        return opened

    opened = Pass("write out compounds", open_all)
    return (ONE_FORM, silent("fix sizes", fix), pipelines.FOUR_BITS, opened, *_IN_PLAIN_OPERATORS)


def _check_holds(plan: Plan) -> None:
    """Refuse what no plan file could hold, rather than write a file that nobody reads.

    Raises:
        UnsupportedError: Names the tensor or step.
    """
    try:
        check_limits(plan, {name: (a.dtype.name, a.shape) for name, a in plan.constants.items()})
    except FileFormatError as error:
        fix = "change this part of the model, or run the model in ONNX Runtime"
        raise UnsupportedError(error.where, error.got, error.want, fix) from error


def _propagate_pairs(model: Model, stays: set[str]) -> tuple[Model, list[str]]:
    """A copy of `model` after the passes behind placement, and what they say."""
    copy = model.clone()
    for node in copy.graph:
        if node.name in stays:
            node.meta[STAYS] = True
    notes = [str(note) for note in run_stages(copy, AFTER)]
    check_graph(copy, AFTER[-1].name)
    return copy, notes
