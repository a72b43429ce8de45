"""Operators that say in one node what several others say, written out: rules and kernels know those."""

from __future__ import annotations

import onnx_ir as ir

from intact.graph.core.invariants import check_after
from intact.graph.core.notes import Note
from intact.graph.core.prune import prune
from intact.graph.infer.inference import refresh_shapes
from intact.graph.rewrites.attention import open_attentions
from intact.graph.rewrites.einsum import open_einsums
from intact.graph.rewrites.finishing import finish_layers
from intact.graph.rewrites.fused import open_fused
from intact.graph.rewrites.loops import open_loops
from intact.graph.rewrites.ml import open_ml
from intact.graph.rewrites.pads import join_pads
from intact.graph.rewrites.rotary import open_rotary
from intact.graph.rewrites.sequences import open_sequences
from intact.graph.rewrites.stacks import join_stacks


def in_known_forms(model: ir.Model) -> list[Note]:
    """Bring a float model to the forms that rules read, in place: compounds written out, layers joined.

    What nobody reads is dropped: rules would place, and evaluators ask for, tensors that no run makes.

    Args:
        model: Of opset 13 or newer.
    Returns:
        One note for each change.
    """
    prune(model)
    notes = []
    for one in (open_compounds, join_pads, finish_layers, join_stacks):
        notes += one(model)
        check_after(model, one.__name__)
    prune(model)
    return notes


def open_compounds(model: ir.Model) -> list[Note]:
    """Write out Loops over cells, sequences, operators of ai.onnx.ml and ONNX Runtime, RotaryEmbedding,
    Attention and Einsum, in place; infer shapes.

    Args:
        model: Of opset 13 or newer.
    Returns:
        One note for each that was written out, or that could not be.
    """
    notes = [*open_loops(model), *open_sequences(model), *open_ml(model), *open_fused(model)]
    notes += [*open_rotary(model), *open_attentions(model)]
    if opened := open_einsums(model):
        refresh_shapes(model)
    return [*notes, *opened]
