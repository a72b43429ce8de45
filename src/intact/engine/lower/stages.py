"""The stages of `lower`, in order: from a file to a checked plan.

To add one, write ``stage(state: Lowering) -> None`` and give it a line of `STAGES`. What changes the graph
belongs into a list of `pipeline` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.files.limits import check_limits
from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.finish import finish
from intact.engine.lower.passes.fuse_steps import join_steps
from intact.engine.lower.passes.hoist_numbers import hoist_numbers
from intact.engine.lower.passes.open_shapes import has_open_sizes, with_model
from intact.engine.lower.passes.plan_layers import layers_of
from intact.engine.lower.passes.qdq_propagation import STAYS, moves_codes
from intact.engine.lower.passes.skip_unread_rows import choose_rows
from intact.engine.lower.passes.stored_weights import store_codes
from intact.engine.lower.passes.tied_tables import share_constants, tie_tables
from intact.engine.lower.pipeline import AFTER, before_placement
from intact.engine.lower.rules.select import select
from intact.engine.plan import DYNAMIC, UNQUANTIZED, Plan
from intact.errors import FileFormatError, UnsupportedError
from intact.free_memory import tidying
from intact.graph import (
    Model,
    Node,
    Source,
    check_graph,
    deciding_inputs,
    has_stored_codes,
    is_dynamic,
    is_op,
    load,
    naming_errors,
    ops,
    pipelines,
    run_stages,
    subgraphs,
)
from intact.placement import Placement, read_placement

_QUANTIZING = frozenset({"QuantizeLinear", "DequantizeLinear"})  # the other forms are these by then
_NO_TENSORS = frozenset({"ZipMap", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SplitToSequence",
                         "Optional"})  # fmt: skip
"""Operators that make lists of tensors or numbers."""
_OF_RUNTIME = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training")


@dataclass
class Lowering:
    """A model on its way through `STAGES`, which fill this in from top to bottom.

    Attributes:
        source, shapes, values: As for `lower`.
        graph_model: The model, as placement reads it.
        notes: What rewrites and passes did.
        placement: What its pairs make run in int8.
        propagated: A copy in which Q and DQ moved, which steps are chosen from.
        propagation_notes: What moved.
        builder: The steps that were chosen, and why nodes have none.
        reasons: Why nodes run in ONNX Runtime.
        unfinished_plan: The plan.
    """

    source: Source
    shapes: Mapping[str, Sequence[int]]
    values: Mapping[str, NDArray[Any]]
    graph_model: Model | None = None
    notes: list[str] = field(default_factory=list)
    placement: Placement | None = None
    propagated: Model | None = None
    propagation_notes: list[str] = field(default_factory=list)
    builder: PlanBuilder | None = None
    reasons: dict[str, str] = field(default_factory=dict)
    unfinished_plan: Plan | None = None

    @property
    def model(self) -> Model:
        """The model, behind the first stage."""
        assert self.graph_model is not None
        return self.graph_model

    @property
    def plan(self) -> Plan:
        """The plan, behind the stage that makes it."""
        assert self.unfinished_plan is not None
        return self.unfinished_plan


@dataclass(frozen=True)
class LoweringStage:
    """One step of `lower`.

    Attributes:
        name: An imperative clause.
        run: Fills in or changes the state.
    """

    name: str
    run: Callable[[Lowering], None]


def _load(state: Lowering) -> None:
    state.graph_model = load(state.source)


def _require_tensors(state: Lowering) -> None:
    for output in state.model.graph.outputs:
        node = output.producer()
        if node is not None and node.op_type in _NO_TENSORS:
            lists = node.op_type == "ZipMap"
            raise UnsupportedError(
                f"output '{output.name}'", f"what {node.op_type} makes, which is no tensor",
                "tensors as outputs",
                "convert the pipeline with options={'zipmap': False}" if lists else "let tensors be outputs",
            )  # fmt: skip


def _rewrite(state: Lowering) -> None:
    shapes = state.shapes or _fixed_input_sizes(state.model)
    stages = (*pipelines.IMPORT, *before_placement(shapes, state.values))
    state.notes += [str(note) for note in run_stages(state.model, stages)]
    check_graph(state.model, stages[-1].name)


def _fixed_input_sizes(model: Model) -> dict[str, Sequence[int]]:
    """Return the sizes of the inputs, where the file fixes all of them."""
    fixed: dict[str, Sequence[int]] = {}
    for value in model.graph.inputs:
        sizes = [] if value.shape is None else [size for size in value.shape if isinstance(size, int)]
        if value.shape is None or len(sizes) < len(value.shape):
            return {}
        fixed[value.name or ""] = sizes
    return fixed


def _note_quantization(state: Lowering) -> None:
    """Note where nothing is quantized."""
    nodes = list(state.model.graph.all_nodes())
    stored = {node for node in nodes if has_stored_codes(node)}
    if not stored and not any(node.op_type in _QUANTIZING for node in nodes):
        state.notes.append(UNQUANTIZED)


def _read_placement(state: Lowering) -> None:
    state.placement = read_placement(state.model)


def _select_steps(state: Lowering) -> None:
    """Choose steps, again where codes came to operators that no step moves them through: without those."""
    assert state.placement is not None
    stays: set[str] = set()
    while True:
        state.propagated, state.propagation_notes = _propagate_pairs(state.model, stays)
        state.builder = select(state.propagated, state.placement.fusions)
        _require_known(state.model, state.builder.reasons)
        more = {node.name or "" for node in state.builder.reasons if moves_codes(node)} - stays
        if not more:
            break
        stays |= more
    state.notes += state.propagation_notes
    if any(is_dynamic(node) and not has_stored_codes(node) for node in _foreign_nodes(state)):
        state.notes.append(DYNAMIC)


def _foreign_nodes(state: Lowering) -> Iterator[Node]:
    """Yield the nodes that ONNX Runtime always runs: branches that an input selects are lowered later."""
    assert state.propagated is not None and state.builder is not None
    has_selected = bool(deciding_inputs(state.model))
    for node in state.propagated.graph:
        if node not in state.builder.done:
            yield node
            if not (has_selected and is_op(node, "If")):
                yield from (inner for graph in subgraphs(node) for inner in graph.all_nodes())


def _propagate_pairs(model: Model, stays: set[str]) -> tuple[Model, list[str]]:
    """Run the passes behind placement on a copy of `model`; return it and their notes."""
    copy = model.clone()
    for node in copy.graph:
        if node.name in stays:
            node.meta[STAYS] = True
    notes = [str(note) for note in run_stages(copy, AFTER)]
    check_graph(copy, AFTER[-1].name)
    return copy, notes


def _require_known(model: Model, left: Mapping[Node, str]) -> None:
    """Refuse nodes that no kernel, no ONNX Runtime operator and no registered operator can run.

    Args:
        model: The model.
        left: Nodes without a kernel, and why they have none.
    Raises:
        UnsupportedError: Names the first, and says how to register it, or why no step runs it.
    """
    for node, why in left.items():
        is_known = node.domain in _OF_RUNTIME or (node.domain or "").startswith(("com.microsoft", "com.ms."))
        if not is_known and node.op_identifier() not in model.functions:
            name = f"{node.domain}::{node.op_type}"
            if ops.record_of(node) is not None:
                raise UnsupportedError(
                    f"node '{node.name}' ({name})", f"no step: {why}", "what a step of it runs",
                    "nothing else runs this operator: quantize the model again, or report it",
                )  # fmt: skip
            raise UnsupportedError(
                f"node '{node.name}' ({node.op_type})", f"{name}, which nobody registered",
                "a known operator", f"call intact.engine.custom.register('{name}', its body in Python) first",
            )  # fmt: skip


def _finish(state: Lowering) -> None:
    """Put steps, and subgraphs for ONNX Runtime, in order."""
    assert state.builder is not None
    state.unfinished_plan, state.reasons = finish(state.builder, state.notes)


def _on_plan(change: Callable[[Plan], Plan]) -> Callable[[Lowering], None]:
    def run(state: Lowering) -> None:
        state.unfinished_plan = change(state.plan)

    return run


def _name_layers(state: Lowering) -> None:
    assert state.placement is not None and state.propagated is not None
    layers = layers_of(state.plan, state.placement, state.propagated, state.reasons)
    state.unfinished_plan = replace(state.plan, layers=layers, deciding=tuple(deciding_inputs(state.model)))


def _keep_model(state: Lowering) -> None:
    """Let a plan that is open in sizes hold its model, from which it is made again for some."""
    if has_open_sizes(state.plan):
        state.unfinished_plan = with_model(state.plan, state.model)


def _check_plan(state: Lowering) -> None:
    state.plan.check()
    _check_holds(state.plan)


def _check_holds(plan: Plan) -> None:
    """Refuse a plan that no file could hold, rather than write an unreadable one.

    Raises:
        UnsupportedError: Names the tensor or step.
    """
    try:
        check_limits(plan, {name: (a.dtype.name, a.shape) for name, a in plan.constants.items()})
    except FileFormatError as error:
        fix = "change this part of the model, or run the model in ONNX Runtime"
        raise UnsupportedError(error.where, error.got, error.want, fix) from error


STAGES = (
    LoweringStage("load", _load),
    LoweringStage("require tensors as outputs", _require_tensors),
    LoweringStage("rewrite the graph", _rewrite),
    LoweringStage("note what is quantized", _note_quantization),
    LoweringStage("read the placement of pairs", _read_placement),
    LoweringStage("move pairs and select steps", _select_steps),
    LoweringStage("order steps and subgraphs", _finish),
    LoweringStage("fuse steps", _on_plan(join_steps)),
    LoweringStage("compute in front of transposes", _on_plan(hoist_numbers)),
    LoweringStage("skip rows that nobody reads", _on_plan(choose_rows)),
    LoweringStage("share constants", _on_plan(share_constants)),
    LoweringStage("gather rows of weights", _on_plan(tie_tables)),
    LoweringStage("name layers", _name_layers),
    LoweringStage("keep the model for open sizes", _keep_model),
    LoweringStage("check the plan", _check_plan),
)
"""Stages of `lower`, in order."""


def lower(
    source: Source,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, NDArray[Any]] | None = None,
    *,
    keep_codes: bool = True,
) -> Plan:
    """Lower a model to a plan: integer steps where its Q/DQ pairs say so, float steps and subgraphs
    elsewhere.

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
    # Nodes and values hold each other, and the weights. Scales far apart leave float32, which rules look at.
    with tidying(), np.errstate(all="ignore"):
        state = Lowering(source, shapes or {}, values or {})
        for stage in STAGES:
            with naming_errors(f"model: '{stage.name}'"):
                stage.run(state)
        plan = store_codes(state.plan, state.model) if keep_codes else state.plan
        del state, stage  # the graphs, which are collected where this block ends
    return plan
