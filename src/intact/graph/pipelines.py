"""The lists of rewrites and passes that bring a model to the form that its reader wants, in order.

`intact.engine.lower.pipeline` has the engine's; `intact build --notes` prints what each of them did.
"""

from __future__ import annotations

from functools import partial

import onnx_ir as ir

from intact.graph.core.edit import settle
from intact.graph.core.prune import lift_constants, move_constants_first, prune
from intact.graph.core.scene import Note
from intact.graph.infer.data_dependent_shapes import forget_sizes_of_outputs, forget_sizes_of_read_outputs
from intact.graph.infer.fold_dequantizers import fold_dequantizers
from intact.graph.qdq.batchnorm import BATCHNORM as BATCHNORM
from intact.graph.qdq.code_bounds import CODE_BOUNDS
from intact.graph.qdq.contrib_pairs import CONTRIB_PAIRS, TENSORRT_PAIRS
from intact.graph.qdq.dynamic_layers import DYNAMIC_STATES as DYNAMIC_STATES
from intact.graph.qdq.int4_codes import FOUR_BITS as FOUR_BITS
from intact.graph.qdq.integer_layers import INT8_WEIGHTS, INTEGER
from intact.graph.qdq.qoperators import QOPERATORS
from intact.graph.qdq.strip_qdq import strip_dynamic
from intact.graph.qdq.tensorrt.dynamic_pairs import BLOCK_PAIRS
from intact.graph.qdq.weight_moves import move_stored_weights
from intact.graph.rewrites.decompose_attention import ATTENTION as ATTENTION
from intact.graph.rewrites.decompose_contrib import (
    FLOAT_EXPERTS as FLOAT_EXPERTS,
)
from intact.graph.rewrites.decompose_contrib import (
    FUSED,
    FUSED_ATTENTION_BESIDE_CACHES,
    require_portable,
)
from intact.graph.rewrites.einsum import EINSUM
from intact.graph.rewrites.fuse_maxima import FUSE_PADS, FUSE_STACKED_MAX
from intact.graph.rewrites.gathered_codes import GATHERED_CODES
from intact.graph.rewrites.hoist_epilogue import HOIST_EPILOGUE
from intact.graph.rewrites.inline_functions import inline_functions
from intact.graph.rewrites.inline_sequences import SEQUENCES
from intact.graph.rewrites.long_indices import LONG_INDICES
from intact.graph.rewrites.matmul_operands import GATHERED_MATMUL, VECTOR_PRODUCTS
from intact.graph.rewrites.recurrence.loops import LOOPS
from intact.graph.rewrites.rewrite import Pass, Stage, run_stages, silent
from intact.graph.rewrites.rotary_embedding import ROTARY
from intact.graph.rewrites.sklearn_operators import ML
from intact.graph.rewrites.widen_float16 import widen_float16

INLINE = Pass("write out functions of the file", inline_functions, shapes=True)
READ_OUTPUTS = Pass("open the sizes of outputs that are read", forget_sizes_of_read_outputs, shapes=True)
OUTPUTS = Pass("open the sizes of outputs", forget_sizes_of_outputs)
SETTLE = silent("settle what constants are", settle)
FLOAT16 = Pass("compute float16 as float32", widen_float16)
FOLD_DEQUANTIZERS = Pass("compute dequantizers within loops", fold_dequantizers)
CONSTANTS_FIRST = silent("put constants first", move_constants_first)
WEIGHT_MOVES = Pass("move codes of weights", move_stored_weights)
STRIP_DYNAMIC = Pass("make layers that quantize as they run float", strip_dynamic, shapes=True)
STRIP_DYNAMIC_DATA = Pass(
    "make layers that quantize their data as they run float", partial(strip_dynamic, keeps_codes=True),
    shapes=True,
)  # fmt: skip
PORTABLE = silent("refuse layouts of one machine", require_portable)
LIFT_CONSTANTS = silent("lift constants", lift_constants)
PRUNE = silent("drop what nobody reads", prune)

NORMALIZE: tuple[Stage, ...] = (
    silent("write out functions once more", INLINE), FOLD_DEQUANTIZERS, CONSTANTS_FIRST, *CONTRIB_PAIRS,
    TENSORRT_PAIRS, *BLOCK_PAIRS, QOPERATORS,
    INTEGER, CODE_BOUNDS, GATHERED_CODES, WEIGHT_MOVES, INT8_WEIGHTS,
)  # fmt: skip
"""A quantized file in Q/DQ form: no operator on codes, no pair of ONNX Runtime's, weights as int8.

Functions are written out and constants stand first, where no pass puts their readers before them.
"""

IMPORT: tuple[Stage, ...] = (INLINE, READ_OUTPUTS, SETTLE, FLOAT16)
"""Passes that every reader of a file runs first."""

COMPOUNDS: tuple[Stage, ...] = (LOOPS, SEQUENCES, ML, *FUSED, ROTARY, ATTENTION, EINSUM)
"""Operators that say in one node what several others say, written out: rules and kernels know those."""

ENGINE_COMPOUNDS: tuple[Stage, ...] = tuple(
    FUSED_ATTENTION_BESIDE_CACHES if stage is FUSED[-1] else stage
    for stage in (*COMPOUNDS, VECTOR_PRODUCTS)
    if stage is not FLOAT_EXPERTS
)
"""The same for the engine, which has steps for some of them."""

LAYERS: tuple[Stage, ...] = (FUSE_PADS, HOIST_EPILOGUE, FUSE_STACKED_MAX)
"""Layers joined with what belongs to them."""

KNOWN_FORMS: tuple[Stage, ...] = (PRUNE, *COMPOUNDS, *LAYERS, PRUNE)
"""A float model of opset 13 or newer in the forms that rules read.

What nobody reads is dropped: rules would place, and evaluators ask for, tensors that no run makes.
"""

PTQ: tuple[Stage, ...] = (*IMPORT, PORTABLE, *NORMALIZE, STRIP_DYNAMIC_DATA)
"""A file to be quantized. Behind these its Q/DQ pairs go; `FLOAT` follows, and on its opset `KNOWN_FORMS`.

Layers with weights in blocks of codes keep them: floats, or codes of 8 bits, would take more bytes. Recurrent
layers with dynamic states stay until `DYNAMIC_STATES`, for engines that do not read them.
"""

FLOAT: tuple[Stage, ...] = (BATCHNORM, LIFT_CONSTANTS)
"""A float model before anything is placed."""

EXPLAIN: tuple[Stage, ...] = (*NORMALIZE, STRIP_DYNAMIC)
"""A file that is only looked at; a float one is brought to `KNOWN_FORMS` then."""

CACHE: tuple[Stage, ...] = NORMALIZE
"""A model whose tensors a calibration cache names."""

TORCH: tuple[Stage, ...] = (LONG_INDICES, *COMPOUNDS, GATHERED_MATMUL)
"""A graph of torch's exporter with marked tensors."""


def normalize(model: ir.Model, *, keeps_blocks: bool = False) -> list[Note]:
    """Bring the older forms of a quantized model to Q/DQ form, in place: `NORMALIZE`.

    Opset 13 is the least where an operator on codes is rewritten, for the axis of per-channel scales, and 21
    for pairs of 16 bits. int32 biases behind a DequantizeLinear stay (`quantized_bias_of`).

    Args:
        model: A quantized model.
        keeps_blocks: Leave TensorRT's dynamic quantizers and MXFP8 weights as they are.
    Returns:
        One note per rewritten node, and per operator on codes that stays, with the reason.
    """
    stages = NORMALIZE if not keeps_blocks else tuple(s for s in NORMALIZE if s not in BLOCK_PAIRS)
    return run_stages(model, stages)
