"""How `intact::fake_quantize` leaves PyTorch for ONNX, and the switch that changes `torch.onnx.export`.

Both of torch's exporters write the operator as one marker node, which `intact.graph` turns into a
QuantizeLinear/DequantizeLinear pair. Nothing in a quantizer's forward knows of an export.
"""

from __future__ import annotations

import io
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from intact import graph
from intact.errors import IntactError, UnsupportedError
from intact.torch import ops
from intact.torch.nn.modules._export_switch import follow
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer

__all__ = ["export_pairs", "set_export_switch", "translate"]

_OPERATOR = torch.ops.intact.fake_quantize.default
_TORCHSCRIPT_NAME = "intact::fake_quantize"
_EXPORTER_TALK = (
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
    "You are using the legacy TorchScript-based ONNX export",
    "The feature will be removed",
    "# The axis name: batch will not be used",
)
_switch: dict[str, Callable[..., Any]] = {}  # holds torch's own export while ours stands in for it


def translate(
    model: nn.Module | torch.export.ExportedProgram,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    opset: int,
    **options: Any,
) -> Any:
    """Run torch's dynamo exporter: an ONNXProgram whose `model` (onnx-ir) holds markers.

    Args:
        model, args, kwargs: As for `torch.onnx.export`.
        opset: The opset that is wanted in the end; below 18 the result has 18, for `graph.set_opset`.
        **options: Further arguments of `torch.onnx.export`.
    Raises:
        UnsupportedError: The model cannot be traced, or an operator has no ONNX form.
        QuantValueError: Two inputs or outputs have one name.
    """
    table = {_OPERATOR: _marker_function(), **(options.pop("custom_translation_table", None) or {})}
    options.setdefault("verbose", False)
    try:
        with _quiet_exporter():
            program = _torch_export()(
                model, args, kwargs=dict(kwargs or {}), dynamo=True, custom_translation_table=table,
                opset_version=max(opset, graph.NATIVE_OPSET), **options,
            )  # fmt: skip
    except torch.onnx.OnnxExporterError as error:
        raise _own_error(error) from error
    graph.separate_names(program.model)
    return program


def export_pairs(
    model: Any,
    args: Any = (),
    f: str | os.PathLike[str] | io.BytesIO | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    **options: Any,
) -> Any:
    """`torch.onnx.export` for a model with quantizers; stands in for it while the export switch is on.

    Quantizers without a range take it from the example input, with a warning. Weights stay float in front
    of their pair, as the old library wrote them; `intact.torch.export` folds them, and checks the file.

    Args:
        model, args, f, kwargs, dynamo: As for `torch.onnx.export`.
        opset_version: 13..25; None: 18.
        **options: Further arguments of `torch.onnx.export`.
    Returns:
        The ONNXProgram, with pairs; None for ``dynamo=False``.
    """
    opset = graph.NATIVE_OPSET if opset_version is None else opset_version
    graph.check_opset(opset)
    args = args if isinstance(args, tuple) else (args,)
    if isinstance(model, nn.Module):
        take_missing_ranges(model, args, kwargs or {})
    if not dynamo:
        _write(_lowered(_trace_torchscript(model, args, kwargs, opset, options), opset), f)
        return None
    program = translate(model, args, kwargs, opset=opset, **options)
    data = _lowered(program.model, opset)
    _write(data, f)
    return program


def _lowered(model: Any, opset: int) -> bytes:
    graph.emit_qdq(model, opset, fold_weights=False)
    graph.set_opset(model, opset)
    graph.tidy(model)
    return graph.to_bytes(model)


def _write(data: bytes, f: str | os.PathLike[str] | io.BytesIO | None) -> None:
    if isinstance(f, io.BytesIO):
        f.write(data)
    elif f is not None:
        graph.write_model(data, f)


# ---- the switch ----


def set_export_switch(on: bool) -> None:
    """Let `torch.onnx.export` be `export_pairs`, or itself again. Idempotent.

    The example input's values, from which a quantizer without a range takes it, are known before torch
    traces the model and nowhere else: hence the exchange of the function.
    """
    if on and not _switch:
        _switch["export"] = torch.onnx.export
        torch.onnx.export = export_pairs
    elif not on and _switch:
        torch.onnx.export = _switch.pop("export")


follow(set_export_switch)


def _torch_export() -> Callable[..., Any]:
    return _switch.get("export", torch.onnx.export)


def take_missing_ranges(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Run the example once and give every active quantizer without a range that of what it saw."""
    missing = {
        name: q
        for name, q in model.named_modules()
        if isinstance(q, TensorQuantizer) and is_dynamic(q) and not q._disabled
    }
    seen: dict[nn.Module, tuple[Tensor, Tensor]] = {}
    hooks = [q.register_forward_pre_hook(_observer(seen)) for q in missing.values()]
    try:
        if missing:
            with torch.no_grad(), evaluating(model):
                model(*args, **kwargs)
    finally:
        for hook in hooks:
            hook.remove()
    taken = [name for name, q in missing.items() if q in seen]
    for name in taken:
        low, high = seen[missing[name]]
        if missing[name].symmetric:
            missing[name].amax = torch.maximum(low.abs(), high.abs())
        else:
            missing[name].set_range(low, high)
    if taken:
        more = f" and {len(taken) - 3} more" if len(taken) > 3 else ""
        warnings.warn(
            f"{', '.join(taken[:3])}{more}: no amax, so it is taken from the example input of the export. "
            "Fix: calibrate the model on real data first",
            stacklevel=3,
        )


def is_dynamic(quantizer: Any) -> bool:
    """Whether a `TensorQuantizer` computes its range from each batch."""
    return quantizer._if_quant and not hasattr(quantizer, "_amax") and not quantizer._learn_amax


def _observer(seen: dict[nn.Module, tuple[Tensor, Tensor]]) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    def observe(quantizer: Any, inputs: tuple[Any, ...]) -> None:
        x = inputs[0]
        if quantizer.pre_quant_scale is not None:
            x = x * quantizer.pre_quant_scale
        low, high = ops.min_max(x, ops.kept_axes(quantizer.axis, x.dim()))
        if quantizer in seen:
            low, high = torch.minimum(low, seen[quantizer][0]), torch.maximum(high, seen[quantizer][1])
        seen[quantizer] = low, high

    return observe


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """`model` in evaluation mode, every module's own mode restored afterwards."""
    training = [m for m in model.modules() if m.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


# ---- the two exporters ----


def _marker_function() -> Callable[..., Any]:
    import onnxscript  # a second of import time, that training does not pay

    opset = onnxscript.values.Opset("intact", 1)
    marker = onnxscript.values.Op(opset, "FakeQuantize", graph.marker_schema())

    def fake_quantize(x, amax, amin=None, format="int8", axis=None, narrow=False):  # type: ignore[no-untyped-def]
        given = {} if axis is None else {"axis": list(axis)}
        return marker(x, amax, amin, format=format, narrow=int(narrow), **given)

    return fake_quantize


def _trace_torchscript(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, opset: int, options: dict[str, Any]
) -> Any:
    buffer = io.BytesIO()
    torch.onnx.utils.register_custom_op_symbolic(_TORCHSCRIPT_NAME, _symbolic, graph.MIN_OPSET)
    try:
        with _quiet_exporter():
            _torch_export()(
                model, args, buffer, kwargs=dict(kwargs or {}), dynamo=False, opset_version=opset,
                custom_opsets={"intact": 1}, **options,
            )  # fmt: skip
    finally:
        torch.onnx.utils.unregister_custom_op_symbolic(_TORCHSCRIPT_NAME, graph.MIN_OPSET)
    return graph.parse_model(buffer.getvalue(), "torch.onnx.export(dynamo=False)")


@torch.onnx.symbolic_helper.parse_args("v", "v", "v", "s", "is", "b")
def _symbolic(g: Any, x: Any, amax: Any, amin: Any, format: str, axis: list[int] | None, narrow: bool) -> Any:
    inputs = [x, amax] if amin.node().mustBeNone() else [x, amax, amin]
    given = {"axis_i": axis} if axis else {}
    marker = g.op("intact::FakeQuantize", *inputs, format_s=format, narrow_i=int(narrow), **given)
    marker.setType(x.type())
    return marker


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Silence what torch 2.13's exporters say about their own code, not what they say about the model."""
    log = logging.getLogger("torch.onnx._internal.exporter._registration")  # "torchvision is not installed"
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for message in _EXPORTER_TALK:
                warnings.filterwarnings("ignore", message=message)
            warnings.filterwarnings(
                "ignore", category=torch.jit._trace.TracerWarning, module=r"intact\."
            )  # our operator's face looks at sizes, which do not change within a file
            yield
    finally:
        log.setLevel(level)


def _own_error(error: BaseException) -> IntactError:
    """The IntactError that lies under torch's error, else an UnsupportedError with its innermost cause."""
    cause: BaseException = error
    while not isinstance(cause, IntactError) and (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    if isinstance(cause, IntactError):
        return cause
    reason = " ".join(str(cause).split())[:400]
    return UnsupportedError(
        "model",
        f"'{type(cause).__name__}: {reason}' from torch's exporter",
        "a model that torch.export can trace, with operators that ONNX has",
        "try dynamic_batch=False, or rewrite the part that the message names",
    )
