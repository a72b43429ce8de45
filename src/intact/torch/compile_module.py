"""Implement `intact.torch.compile`: build an engine from a module with quantizers, without a file between
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from intact import graph
from intact.engine import Engine
from intact.engine import compile as build
from intact.errors import QuantValueError
from intact.torch.block_weights import BlockQuantizedModule, BlockWeightLinear
from intact.torch.graph_mode import GraphModeResult
from intact.torch.models.batches import device_of, move_to
from intact.torch.models.modules import require_module
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.qdq.qdq_model import Call, example_arguments, qdq_model

__all__ = ["compile", "engine_of"]


def compile(
    model: nn.Module | GraphModeResult | BlockQuantizedModule,
    example: Any = None,
    *,
    dynamic_batch: bool = True,
    dynamic_shapes: Any = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    **options: Any,
) -> Engine:
    """Return the engine that runs a quantized module in int8, as it would run the file that `export` writes.

    Args:
        model: A module whose quantizers have their ranges, or with block weights, or what `quantize`
            returned; left as it is. The engine has weights of its own: one that is trained on is compiled
            again.
        example: One input of the model: a tensor, a tuple of positional or a dict of named arguments.
        dynamic_batch: Leave the first dimension of the inputs that share it open.
        dynamic_shapes: What else stays open, as `torch.export.export` takes it, in place of `dynamic_batch`:
            lengths of sequences, for example.
        shapes: Sizes of inputs, by name: the engine is for these alone.
        **options: `threads`, `deterministic`, `backend`, `tune_seconds` and `timing_cache`, as
            `intact.compile` takes them.
    Returns:
        An engine whose inputs are the tensors of the example, in its order.
    Raises:
        QuantValueError: There is no example, or the module has no quantizers.
        CalibrationError: A quantizer has no range, or is still collecting.
        UnsupportedError: The model cannot be traced.
    """
    if isinstance(model, GraphModeResult | BlockQuantizedModule):
        model = model.model
    require_module(model, "compile")
    if example is None:
        raise QuantValueError(
            "compile: example", "none", "one input, to trace the module with",
            f"call intact.compile(model, example) with what {type(model).__name__} takes: a tensor, a tuple"
            " of positional or a dict of named arguments",
        )  # fmt: skip
    device = device_of(model)
    args, kwargs = example_arguments(example, model)
    call = tuple(move_to(list(args), device)), move_to(kwargs, device)
    sizes = {"dynamic_batch": dynamic_batch, "dynamic_shapes": dynamic_shapes}
    engine = engine_of(model, call, sizes, shapes=shapes, **options)
    if engine is None:
        raise QuantValueError(
            "compile: model", f"{type(model).__name__} with nothing quantized", "a quantized module",
            "quantize first: result = intact.quantize(model, batches), then"
            " intact.compile(result.model, example)",
        )  # fmt: skip
    return engine


def engine_of(model: nn.Module, call: Call, sizes: Mapping[str, Any], **options: Any) -> Engine | None:
    """Return the engine of `model` for calls like `call`; None where nothing in it is, or could be,
    quantized.

    A model whose quantizers are all switched off, as the float budget may leave it, runs in float.

    Args:
        model, call: As for `qdq_model`.
        sizes: What stays open: `dynamic_batch` or `dynamic_shapes` of `qdq_model`.
        **options: As for `intact.engine.compile`.
    Raises:
        CalibrationError, UnsupportedError, QuantValueError: As `compile`.
    """
    with torch.no_grad():
        qdq_graph, pairs = qdq_model(model, call, **sizes)
    if not pairs and not any(isinstance(m, TensorQuantizer | BlockWeightLinear) for m in model.modules()):
        return None
    graph.own_weights(qdq_graph)
    return build(qdq_graph, **options)
