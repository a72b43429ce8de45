"""Build a Q/DQ model in memory from a module with quantizers, which `export` writes and `compile` runs."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from intact import graph
from intact.errors import CalibrationError, QuantValueError
from intact.torch.models.batches import takes_list, tensors_in
from intact.torch.models.modules import compute_weights_once
from intact.torch.nn import TensorQuantizer
from intact.torch.private_torch import pytree
from intact.torch.qdq.block_markers import opset_of_block_layers, write_block_layers
from intact.torch.qdq.run_exporter import evaluating, fixed_size_error, is_dynamic, translate
from intact.torch.training.collect_statistics import quantize_weights

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
    """Return `model` in evaluation mode as a graph with Q/DQ pairs.

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
    quantize_weights(model)  # which warns about ranges of other weights
    with (
        torch.no_grad(),
        evaluating(model),
        compute_weights_once(model),
        _return_tensors_only(model) as outputs,
    ):
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
    model_graph = program.model
    _describe_outputs(model_graph, model, outputs, named=output_names is not None)
    if open_batch and _first_size(*call) == 1 and all(_is_fixed(x) for x in model_graph.graph.inputs):
        # Where torch.export refuses, torch's exporter goes on with the sizes of what it traces: here of two
        # samples, and the example is one.
        raise fixed_size_error(1)
    graph.run_stages(model_graph, graph.pipelines.TORCH)
    if opset is None:
        opset, newer = max(graph.NATIVE_OPSET, graph.opset_of_markers(model_graph)), True
    if newer:
        opset = max(opset, opset_of_block_layers(model_graph))
    write_block_layers(model_graph, opset)
    if newer:
        opset = graph.oldest_opset(model_graph, opset)
    pairs = graph.emit_qdq(model_graph, opset, fold_weights=fold_weights)
    graph.set_opset(model_graph, opset)
    graph.tidy(model_graph)
    return model_graph, pairs


def example_arguments(example: Any, model: nn.Module) -> Call:
    """Return `example` as positional and named arguments: from a tensor, a tuple of them, or a dict of named
    ones.

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


@dataclass
class _OutputNames:
    """Records the outputs of a model when it was traced.

    Attributes:
        names: Names of its tensors, in order; "" where a tensor has none.
        lost: Kinds of objects in its output without tensors that PyTorch knows, with their names.
    """

    names: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


@contextmanager
def _return_tensors_only(model: nn.Module) -> Iterator[_OutputNames]:
    """Make `model` return its tensors only, because a file has no numbers and no None."""
    output_names = _OutputNames()

    def keep_tensors(_module: nn.Module, _args: Any, answer: Any) -> tuple[Tensor, ...]:
        output_names.names, output_names.lost = [], []
        for name, part in _parts_with_names(answer):
            tensors = list(tensors_in(part))
            output_names.names += (
                [name] if len(tensors) == 1 else [name and f"{name}_{i}" for i in range(len(tensors))]
            )
            other_leaves = (
                x for x in pytree.tree_leaves(part) if not isinstance(x, _PLAIN) and not is_dataclass(x)
            )
            output_names.lost += [f"'{name}' ({type(x).__name__})" for x in other_leaves if not callable(x)]
        return tuple(tensors_in(answer))

    hook = model.register_forward_hook(keep_tensors)
    try:
        yield output_names
    finally:
        hook.remove()


_PLAIN = (Tensor, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)


def _parts_with_names(answer: Any) -> list[tuple[str, Any]]:
    """Return the parts of a model's output, in the order of their tensors, with their names in it."""
    if isinstance(answer, Mapping):
        return [(str(name), part) for name, part in answer.items()]
    if hasattr(answer, "_fields"):
        return list(zip(answer._fields, answer, strict=True))
    if is_dataclass(answer) and not isinstance(answer, type):
        return [(item.name, getattr(answer, item.name)) for item in fields(answer)]
    return [("", answer)]


def _describe_outputs(
    model_graph: graph.Model, model: nn.Module, outputs: _OutputNames, *, named: bool
) -> None:
    """Name the outputs, unless the user `named` them, and warn about missing ones."""
    if not named:
        _name_outputs(model_graph, outputs.names)
    if outputs.lost:
        warnings.warn(
            f"{type(model).__name__} answers {', '.join(outputs.lost)}, which are no tensors: the file and"
            " the engine leave them out. Fix: answer tensors, or none of these (use_cache=False of"
            " transformers)",
            stacklevel=4,
        )


def _name_outputs(model: graph.Model, names: Sequence[str]) -> None:
    """Give outputs the names that the model's own answer has for them, where these are free."""
    outputs = list(model.graph.outputs)
    if len(outputs) != len(names) or len(set(map(id, outputs))) != len(outputs):
        return
    used_names = {x.name for x in model.graph.inputs} | {x for x in names if names.count(x) > 1} | {""}
    for output, name in zip(outputs, names, strict=True):
        if name not in used_names and not output.is_graph_input():
            output.name = name
    graph.separate_names(model)


def _is_fixed(x: graph.Value) -> bool:
    return x.shape is None or not len(x.shape) or isinstance(x.shape[0], int)


def _first_size(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Return the size of the batch."""
    leaves = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor) and t.dim()]
    if not leaves:
        raise QuantValueError(
            "example", "no tensor with a dimension", "a batch of inputs", "use dynamic_batch=False"
        )
    return leaves[0].shape[0]


def _dynamic(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Call, dict[str, Any]]:
    """Return a call to trace, and its dynamic shapes: the first dimension of each tensor that has the batch's
    size.

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
