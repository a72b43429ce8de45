"""A module with quantizers as a Q/DQ model in memory: what `export` writes and `compile` runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from intact import graph
from intact.errors import CalibrationError, QuantValueError
from intact.torch._batches import takes_list, tensors_in
from intact.torch.nn import TensorQuantizer
from intact.torch.onnx_ops import evaluating, fixed_size, is_dynamic, translate

__all__ = ["Call", "example_arguments", "qdq_model"]

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and named arguments of a module."""


def qdq_model(
    model: nn.Module,
    call: Call,
    *,
    opset: int | None = None,
    newer: bool = False,
    fold_weights: bool = True,
    dynamic_batch: bool = True,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> tuple[graph.Model, list[graph.Pair]]:
    """`model` in evaluation mode as a graph with Q/DQ pairs.

    Args:
        model: Calibrated: every active quantizer has its range.
        call: One call of it.
        opset: Of the graph; None: the oldest that the exporter writes and that has the quantizers' formats.
        newer: Take the oldest opset from `opset` on that has every operator of the model.
        fold_weights, dynamic_batch, input_names, output_names: As for `intact.torch.export`.
        dynamic_shapes: What stays open, as for `torch.export.export`, in place of `dynamic_batch`.
    Returns:
        The graph, which may share memory with the module's parameters, and one record per quantizer call.
    Raises:
        CalibrationError, UnsupportedError, QuantValueError: As `intact.torch.export`.
    """
    _refuse_unready(model)
    with torch.no_grad(), evaluating(model), _answering_tensors(model):
        open_batch = dynamic_batch and dynamic_shapes is None
        trace, shapes = _dynamic(model, *call) if open_batch else (call, dynamic_shapes)
        program = translate(
            model,
            *trace,
            opset=graph.NATIVE_OPSET if opset is None else opset,
            dynamic_shapes=shapes,
            input_names=input_names,
            output_names=output_names,
        )
    made = program.model
    if open_batch and _first_size(*call) == 1 and all(_is_fixed(x) for x in made.graph.inputs):
        # Where torch.export refuses, torch's exporter goes on with the sizes of what it traces: here of two
        # samples, and the example is one.
        raise fixed_size(1)
    graph.open_compounds(made)
    graph.open_chosen(made)
    if opset is None:
        opset = max(graph.NATIVE_OPSET, graph.opset_of_markers(made))
    elif newer:
        opset = graph.oldest_opset(made, opset)
    pairs = graph.emit_qdq(made, opset, fold_weights=fold_weights)
    graph.set_opset(made, opset)
    graph.tidy(made)
    return made, pairs


def example_arguments(example: Any, model: nn.Module) -> Call:
    """`example` as positional and named arguments: a tensor, a tuple of them, or a dict of named ones.

    A list of tensors is one argument where the forward of `model` says so by an annotation.
    """
    if isinstance(example, Mapping):
        return (), dict(example)
    if isinstance(example, (tuple, list)) and not takes_list(model, example):
        return tuple(example), {}
    return (example,), {}


def _refuse_unready(model: nn.Module) -> None:
    for name, quantizer in model.named_modules():
        if not isinstance(quantizer, TensorQuantizer) or quantizer._disabled:
            continue
        if quantizer._if_calib:
            raise CalibrationError(
                name, "a quantizer that is still collecting", "calibration finished",
                "call disable_calib() and load_calib_amax(), or intact.torch.calibrate",
            )  # fmt: skip
        if is_dynamic(quantizer):
            raise CalibrationError(
                name, "no amax: its range is that of each batch (dynamic quantization)", "a calibrated range",
                "run intact.torch.calibrate, set amax, or disable this quantizer",
            )  # fmt: skip
        if quantizer._if_quant and not quantizer.fake_quant:
            raise QuantValueError(
                name, "fake_quant=False: it returns codes", "a quantizer that returns floats",
                "build it from QuantDescriptor(fake_quant=True)",
            )  # fmt: skip


@contextmanager
def _answering_tensors(model: nn.Module) -> Iterator[None]:
    """`model` answers its tensors and nothing else: a file has no numbers and no None."""
    hook = model.register_forward_hook(lambda _module, _args, answer: tuple(tensors_in(answer)))
    try:
        yield
    finally:
        hook.remove()


def _is_fixed(x: graph.Value) -> bool:
    return x.shape is None or not len(x.shape) or isinstance(x.shape[0], int)


def _first_size(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """The size of the batch."""
    leaves = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor) and t.dim()]
    if not leaves:
        raise QuantValueError(
            "example", "no tensor with a dimension", "a batch of inputs", "use dynamic_batch=False"
        )
    return leaves[0].shape[0]


def _dynamic(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Call, dict[str, Any]]:
    """A call to trace, and the shapes that stay open in it: the first dimension, where it is the batch's.

    torch.export takes a size of 1 for a constant, so that an example of one sample is traced as two.
    """
    size, batch = _first_size(args, kwargs), torch.export.Dim("batch")

    def is_batched(x: Any) -> bool:
        return isinstance(x, Tensor) and x.dim() > 0 and x.shape[0] == size

    def double(x: Any) -> Any:
        return torch.cat([x, x]) if is_batched(x) and size == 1 else x

    def open_first(x: Any) -> dict[int, Any] | None:
        return {0: batch} if is_batched(x) else None

    trace = pytree.tree_map(double, (args, kwargs))
    named = inspect.signature(model.forward).bind(*args, **kwargs).arguments  # as torch.export names them
    return trace, pytree.tree_map(open_first, dict(named))
