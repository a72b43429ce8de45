"""Patch `torch.onnx.export` so that models with quantizers become files with Q/DQ pairs, as in 2.2.1.

Importing `intact.torch` puts `export_pairs` in front of both of torch's exporters. It takes models that hold
quantizers, and passes all others on. The switch that scripts set has no effect any more. Code that imported
`torch.onnx.export` before `intact.torch` gets pairs for ``dynamo=False`` only.
"""

from __future__ import annotations

import functools
import inspect
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from intact import graph
from intact.errors import UnsupportedError
from intact.graph.rewrites import GATHERED_MATMUL
from intact.torch.alias import is_aliased
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.operators import fake_quantize as ops
from intact.torch.qdq.block_markers import has_block_layers, opset_of_block_layers, write_block_layers
from intact.torch.qdq.run_exporter import (
    MAX_TORCHSCRIPT_OPSET,
    PER_TENSOR_OPSET,
    evaluating,
    is_dynamic,
    is_translating,
    trace_torchscript,
    translate,
)

__all__ = ["export_pairs"]


def export_pairs(
    model: Any,
    args: Any = (),
    f: str | os.PathLike[str] | io.BytesIO | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    opset_version: int | None = None,
    dynamo: bool | None = None,
    **options: Any,
) -> Any:
    """Export a model with quantizers as `torch.onnx.export` does, with one Q/DQ pair for each quantizer.

    Quantizers without a range get that of the example input for as long as this takes, with a warning.
    Weights stay float in front of their pair, as the old library wrote them; `intact.torch.export` folds
    them, shares pairs, and checks the file.

    Args:
        model, args, f, kwargs: As for `torch.onnx.export`.
        dynamo: As there; None: True, and False with a warning where the dynamo exporter cannot.
        opset_version: 13..25, for ``dynamo=False`` and ranges per tensor 10..25; None: 18. Where that is too
            old for the pairs, the oldest opset that has them is taken, with a warning.
        **options: Further arguments of `torch.onnx.export`.
    Returns:
        The ONNXProgram, with pairs; None for ``dynamo=False``.
    Warns:
        UserWarning: The TorchScript exporter wrote the file, because the dynamo exporter could not.
    """
    opset = graph.NATIVE_OPSET if opset_version is None else opset_version
    oldest = max(graph.MIN_OPSET if dynamo is not False else PER_TENSOR_OPSET, _opset_of_quantizers(model))
    opset = _raise_opset(opset, oldest)
    if opset >= graph.MIN_OPSET:
        graph.check_opset(opset)
    args = args if isinstance(args, tuple) else (args,)
    here = isinstance(model, nn.Module) and not isinstance(model, torch.jit.ScriptModule)
    with ranges_of_example(model, args, kwargs or {}) if here else nullcontext():
        if dynamo is False:
            _write_traced(
                trace_torchscript(model, args, kwargs, min(opset, MAX_TORCHSCRIPT_OPSET), options), opset, f
            )
            return None
        try:
            program = translate(model, args, kwargs, opset=opset, **dict(options))
        except UnsupportedError as error:
            if dynamo or f is None or not here or not options.keys() <= _OF_BOTH:
                raise
            _write_traced(_trace_torchscript_instead(error, model, args, kwargs, opset, options), opset, f)
            return None
    needed = max(graph.opset_of_markers(program.model), opset_of_block_layers(program.model))
    data = _to_bytes(program.model, _raise_opset(opset, needed))
    _write(data, f)
    return program


def _write_traced(model: Any, opset: int, f: Any) -> None:
    """Write the TorchScript exporter's model, with pairs, into `f`."""
    _write(_to_bytes(model, _raise_opset(opset, graph.opset_of_markers(model))), f)


def _opset_of_quantizers(model: Any) -> int:
    """Return the oldest opset whose pairs can express a module's quantizers; 0 where there are none."""
    modules = model.modules() if isinstance(model, nn.Module) else ()
    active = [m for m in modules if isinstance(m, TensorQuantizer) and not m._disabled and m._if_quant]
    return max((_opset_of(quantizer) for quantizer in active), default=0)


def _opset_of(quantizer: TensorQuantizer) -> int:
    channels = graph.MIN_OPSET if quantizer.axis is not None else 0
    return max(channels, graph.FORMAT_OPSETS.get(quantizer.format, 0))


def _raise_opset(opset: int, oldest: int) -> int:
    """Return the opset to write: the oldest one that can hold the pairs, where `opset` is older."""
    if opset < oldest:
        warnings.warn(
            f"opset_version={opset} is too old for the scales or the formats of the model's quantizers, so "
            f"the file has opset {oldest}. Fix: pass opset_version={oldest} or newer",
            stacklevel=_OUTSIDE,
        )
    return max(opset, oldest)


_OUTSIDE = 4
"""Frames from `_raise_opset` to the caller of `torch.onnx.export`."""
_OF_BOTH = {
    "input_names",
    "output_names",
    "dynamic_axes",
    "verbose",
    "export_params",
    "keep_initializers_as_inputs",
}
"""Arguments that both of torch's exporters take."""


def _trace_torchscript_instead(
    error: UnsupportedError, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None,
    opset: int, options: dict[str, Any],
) -> Any:  # fmt: skip
    """Export by TorchScript a model that the dynamo exporter refused with `error`."""
    try:
        traced = trace_torchscript(model, args, kwargs, min(opset, MAX_TORCHSCRIPT_OPSET), dict(options))
    except Exception:  # whatever the old exporter says, the new one's reason is what users can act on
        raise error from None
    warnings.warn(
        f"torch.onnx.export: the TorchScript exporter wrote the file, because the dynamo exporter could not:"
        f" {error}. Fix: run the file with other sizes, as it has the branches that the example took; pass"
        " dynamo=False to have it without this warning",
        stacklevel=4,
    )
    return traced


def _to_bytes(model: Any, opset: int) -> bytes:
    if opset >= graph.MIN_OPSET:
        write_block_layers(model, opset)
        GATHERED_MATMUL(model)  # otherwise a scale for each column of each matrix would have no axis
    if opset >= graph.MIN_OPSET > model.opset_imports.get("", opset):
        graph.upgrade_opset(model, opset)
    graph.emit_qdq(model, opset, fold_weights=False, share=False)
    if opset >= graph.MIN_OPSET:  # an older one is what the model has
        graph.set_opset(model, opset)
    graph.tidy(model)
    return graph.to_bytes(model)


def _write(data: bytes, f: str | os.PathLike[str] | io.BytesIO | None) -> None:
    if isinstance(f, io.BytesIO):
        f.write(data)
    elif f is not None:
        graph.write_model(data, f)


# ---- in front of torch's exporters ----

REMOVED_OPTIONS = frozenset({
    "_retain_param_name", "enable_onnx_checker", "example_outputs", "strip_doc_string",
    "use_external_data_format",
}) - inspect.signature(torch.onnx.export).parameters.keys()  # fmt: skip
"""Options that scripts pass to older versions of torch, and that no longer affect the file."""


def _has_quantizers(model: Any) -> bool:
    """Return whether a model has quantizers, or layers with block weights."""
    if has_block_layers(model):
        return True
    if isinstance(model, torch.export.ExportedProgram):
        return any(node.target is torch.ops.intact.fake_quantize.default for node in model.graph.nodes)
    if isinstance(model, torch.jit.ScriptModule):
        return "intact::fake_quantize" in str(model.inlined_graph)
    return isinstance(model, nn.Module) and any(isinstance(m, TensorQuantizer) for m in model.modules())


def _in_front_of(export: Callable[..., Any], **always: Any) -> Callable[..., Any]:
    """Return a function that calls `export_pairs` for a model with quantizers, and `export` for others."""

    @functools.wraps(export)
    def either(model: Any, *args: Any, **kwargs: Any) -> Any:
        if is_translating():
            return export(model, *args, **kwargs)
        quantized = _has_quantizers(model)
        if quantized or is_aliased():
            kwargs = {name: value for name, value in kwargs.items() if name not in REMOVED_OPTIONS}
        if not quantized:
            return export(model, *args, **kwargs)
        return export_pairs(model, *args, **{**kwargs, **always})

    return either


def install() -> None:
    """Put `export_pairs` in front of torch's exporters, once."""
    exporters: Any = torch.onnx.utils
    if not hasattr(torch.onnx.export, "__wrapped__"):
        torch.onnx.export = _in_front_of(torch.onnx.export)
        # `torch.onnx.export` calls this for dynamo=False, also where it was imported earlier.
        module: Any = sys.modules[exporters.export.__module__]
        module.export = exporters.export = _in_front_of(exporters.export, dynamo=False)


# ---- ranges of the example ----


@contextmanager
def ranges_of_example(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[None]:
    """Set the range of every active quantizer without one to that of its example input, inside the
    context.
    """
    missing = {
        name: q
        for name, q in model.named_modules()
        if isinstance(q, TensorQuantizer) and is_dynamic(q) and not q._disabled
    }
    observed: dict[nn.Module, tuple[Tensor, Tensor]] = {}
    hooks = [q.register_forward_pre_hook(_observer(observed)) for q in missing.values()]
    try:
        if missing:
            with torch.no_grad(), evaluating(model):
                model(*args, **kwargs)
    finally:
        for hook in hooks:
            hook.remove()
    names = [name for name, q in missing.items() if q in observed]
    for name in names:
        low, high = observed[missing[name]]
        if missing[name].symmetric:
            missing[name].amax = torch.maximum(low.abs(), high.abs())
        else:
            missing[name].set_range(low, high)
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        warnings.warn(
            f"{', '.join(names[:3])}{more}: no amax, so it is taken from the example input of the export. "
            "Fix: calibrate the model on real data first",
            stacklevel=3,
        )
    try:
        yield
    finally:
        for name in names:
            for buffer in ("_amin", "_amax"):
                missing[name]._buffers.pop(buffer, None)


def _observer(
    observed: dict[nn.Module, tuple[Tensor, Tensor]],
) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    def observe(quantizer: Any, inputs: tuple[Any, ...]) -> None:
        x = inputs[0]
        if quantizer.pre_quant_scale is not None:
            x = x * quantizer.pre_quant_scale
        low, high = ops.min_max(x, ops.positive_axes(quantizer.axis, x.dim()))
        if quantizer in observed:
            low, high = (
                torch.minimum(low, observed[quantizer][0]),
                torch.maximum(high, observed[quantizer][1]),
            )
        observed[quantizer] = low, high

    return observe


install()
