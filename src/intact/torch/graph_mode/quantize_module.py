"""Implement `intact.torch.quantize`: insert quantizers into a float module where the placement wants them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from glob import escape
from itertools import chain
from typing import Any

import torch
from torch import nn

from intact.errors import IntactError, QuantValueError, UnsupportedError
from intact.graph import ops
from intact.patterns import check_patterns, ends_of_path, exact, require_fitting
from intact.placement import WIDE, Placement, float_steps, in_formats, profile_of
from intact.progress import waiting
from intact.ptq.measure import outputs_in_any_order
from intact.spec import Format
from intact.torch import nn as quant_nn
from intact.torch.descriptor import FLOAT_FORMATS, QuantDescriptor
from intact.torch.graph_mode.analysis import Analysis, analyse
from intact.torch.graph_mode.quantized_forward import add_quantizer, install, record_of
from intact.torch.graph_mode.quantizer_plan import QuantizerPlan, make_plan
from intact.torch.graph_mode.record import record_from
from intact.torch.graph_mode.recurrent_layers import LAYERS
from intact.torch.graph_mode.report import GraphModeReport, GraphModeResult, training_modules
from intact.torch.graph_mode.trace_records import Untraceable
from intact.torch.models.batches import arguments_of, device_of, move_to, tensors_in
from intact.torch.models.modules import deep_copy, quantized_callbacks, require_module, unwrap
from intact.torch.module_replacement import DEFAULT_CLASSES, convert, convertible, finish
from intact.torch.nn.modules._utils import QuantizedModule, QuantMixin
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer, name_quantizers
from intact.torch.private_torch import ConvNd
from intact.torch.qdq.compare_engine import LazyComparison
from intact.torch.qdq.qdq_model import example_arguments
from intact.torch.training.calibration import calibrate
from intact.torch.training.collect_statistics import enabled_quantizers, working_quantizers
from intact.torch.training.range_choice import Method

_POOLS: dict[type, type[QuantizedModule]] = {
    nn.MaxPool1d: quant_nn.QuantMaxPool1d,
    nn.MaxPool2d: quant_nn.QuantMaxPool2d,
    nn.MaxPool3d: quant_nn.QuantMaxPool3d,
}
_FUSED = (quant_nn.FusedQuantLSTM, quant_nn.FusedQuantGRU, quant_nn.FusedQuantRNN)
_RECURRENT: dict[type, type[QuantizedModule]] = dict(zip(LAYERS, _FUSED, strict=True))
_INSIDE = {**DEFAULT_CLASSES, **_RECURRENT}
"""Quantized classes of modules that are inside of a module which is one call."""

_CLASSES = {**_INSIDE, **_POOLS}
_AGREEMENT = 1e-3
_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Einsum", "Add", "Concat", *ops.RECURRENT)
_SHOWN = 3
"""Number of calls that stay in float an error lists."""


def quantize(
    model: nn.Module,
    data: Iterable[Any] | None = None,
    *,
    example: Any = None,
    method: Method = "auto",
    profile: str = "intact",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    activations: str | None = None,
    weights: str = "int8",
    symmetric: bool = True,
    float_budget: float | None = None,
    inplace: bool = False,
    **options: Any,
) -> GraphModeResult:
    """Place quantizers in a float module by the rules that place Q/DQ pairs in an ONNX file.

    The model is exported once, in evaluation mode; `intact.placement` decides on the exported graph, and its
    tensors are found again between the calls that the model's code makes: weighted layers, residual
    additions, concatenations, pools, products and attention included. The module goes on running its own
    code, in both modes and for any sizes; submodules, parameters, names and methods stay. A submodule that
    cannot be traced stays one call, and the modules inside are exchanged as `replace_modules` does.

    Args:
        model: A float module; in any mode, on any device. What torch.compile or DataParallel put around it
            is left out of the result.
        data: Batches for `calibrate`; None: place only.
        example: One input: a tensor, a tuple of positional or a dict of named arguments. None: of a list of
            batches the one of the longest samples, of other data the first. What the model does with it is
            what gets quantizers; a later run that makes another number of these calls (an optional argument
            more) raises QuantValueError. Sizes of it that the model's code leaves open decide nothing.
        method: As for `calibrate`.
        profile: The engine that will run the model: "intact", "tensorrt", "onnxruntime", "openvino".
        include, exclude: Shell patterns of modules' paths and types ("Conv2d"), of functions' names
            ("layer1.0.add"), or of ONNX operators ("Add"). A pattern that matches a module covers everything
            inside it, and "a -> b" all that stands on a path from a to b, these included. The layers of a
            recurrent module are called "encoder/LSTM", "encoder/LSTM_1".
        activations, weights: Formats: "int8", "uint8" (with a zero point), "int16", "fp8e4m3", ... None: what
            the profile's engine does best with, "uint8" for "intact" and "int8" for the others.
        symmetric: False: activations have a zero point.
        float_budget: Where 8 bits leave an output below 26 dB on the batches that `calibrate` holds (below
            40, where recurrent layers alone get more), what loses most for its time gets 16 bits or stays in
            float, as in `intact.quantize`: at most so much more time, as predicted, as a part of the whole.
            None: 0.4 for "intact" with bytes, and more where that takes an output to 25 dB; else 0.
        inplace: False: leave `model` alone and quantize a deep copy.
        **options: Passed on to `calibrate`; `correct_bias` is "auto" here, as it is for files.
    Returns:
        The module, a report, the placement and the calibration.
    Raises:
        QuantValueError: (a ValueError) Neither `data` nor `example`, a model that has quantizers, an unknown
            format or profile, or a budget below 0.
        CalibrationError: As `calibrate`.
    """
    require_module(model, "quantize")
    model = _unwrap_python(model)
    _refuse_quantized(model)
    grid = activations or profile_of(profile).grid
    args, kwargs, data = _first_call(model, data, example)
    # Not above: what quantizes files comes with it.
    from intact.torch.graph_mode.mixed_precision import check_budget, spend_budget

    budget = check_budget(float_budget, profile, {grid, weights})
    model = model if inplace else deep_copy(model)
    include, exclude = _patterns(model, "include", include), _patterns(model, "exclude", exclude)
    job = _Job(model, (_descriptor(grid, symmetric), _format_of(weights, "weights")), include, exclude)
    analysis: Analysis | None = None
    progress = bool(options.get("progress", True))
    try:
        with waiting("trace the model", progress):
            analysis = analyse(model, args, kwargs, profile=profile, include=include, exclude=exclude)
    except (Untraceable, UnsupportedError) as error:
        reason = error.reason if isinstance(error, Untraceable) else f"it cannot be exported: {error}"
        report, placement = job.replace_all(reason), None
    except Exception as error:
        error.add_note(_describe_call(args, kwargs))
        raise
    else:
        report, placement = job.place(analysis, grid, weights)
    job.require_fitting(analysis)
    report = replace(report, compare=LazyComparison(model, (args, kwargs)))
    _name_and_announce(model)
    if data is None:
        return GraphModeResult(model, report, placement)
    _refuse_idle(model, report)
    unordered = () if analysis is None else outputs_in_any_order(analysis.placed)
    options = {"unreached": "disable", "correct_bias": "auto", "unordered": unordered} | options
    before = set(enabled_quantizers(model))
    calibration = calibrate(model, data, method=method, **options)
    report.left.update(dict.fromkeys(before - set(enabled_quantizers(model)), "no batch reached it"))
    if analysis is not None and budget:
        again = {"method": method} | {n: v for n, v in options.items() if n not in _CALIBRATE_ONLY}
        with waiting("look for what loses most", progress):
            choose, has_gate = partial(calibration.apply, **again), float_budget is None
            spent = spend_budget(analysis, job.plan, calibration, budget, choose, has_gate=has_gate)
        placement = spent.apply_to_placement(placement or analysis.placement)
        report = replace(spent.apply_to_report(report), float_steps=float_steps(analysis.placed, placement))
    return GraphModeResult(model, report.of_active(working_quantizers(model)), placement, calibration)


_FORMS = "write ((a, b), labels) for two arguments, ([a, b], labels) for a list, or name them: {'x': a}"


def _describe_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return a note on the call that failed, with its arguments' types: "model(Tensor, mask=Tensor)"."""
    kinds = [type(x).__name__ for x in args] + [f"{name}={type(x).__name__}" for name, x in kwargs.items()]
    return f"intact.quantize calls model({', '.join(kinds)}) for what it was given: {_FORMS}"


def _name_and_announce(model: nn.Module) -> None:
    """Give each quantizer its path as its name, and run the callbacks for models that have quantizers."""
    name_quantizers(model)
    for callback in quantized_callbacks:
        callback(model)


def _patterns(model: nn.Module, argument: str, patterns: Sequence[str]) -> tuple[str, ...]:
    """Return patterns for ``fnmatch``, in which the path of a module means itself.

    A pattern of types is followed by the paths of the modules of these types.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    expanded: list[str] = []
    for user_pattern in check_patterns(f"quantize: {argument}", patterns):
        pattern = exact(user_pattern, set(modules))
        expanded.append(pattern)
        if user_pattern not in modules:
            expanded += [
                escape(path)
                for path, module in modules.items()
                if path and fnmatchcase(type(module).__name__, pattern)
            ]
    return tuple(dict.fromkeys(expanded))


_CALIBRATE_ONLY = ("num_batches", "unreached", "forward", "unordered", "progress")
"""Options of `calibrate` that the choice of ranges does not take."""


def _unwrap_python(model: nn.Module) -> nn.Module:
    """Return the user's module without the wrappers of torch.compile, DataParallel or
    DistributedDataParallel.

    Raises:
        QuantValueError: A module in it is TorchScript.
    """
    model = unwrap(model)
    for path, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise QuantValueError(
                f"quantize: {path or 'model'}", "TorchScript, whose calls nobody sees", "modules in Python",
                "quantize the module that was scripted, or export the model to ONNX and quantize that",
            )  # fmt: skip
    return model


def _refuse_quantized(model: nn.Module) -> None:
    present = next((n for n, m in model.named_modules() if isinstance(m, TensorQuantizer)), None)
    if present is not None or record_of(model) is not None:
        raise QuantValueError(
            "quantize: model", f"a model with quantizers ('{present}')", "a float model",
            "pass the model before replace_modules, or go on with calibrate",
        )  # fmt: skip


def _refuse_idle(model: nn.Module, report: GraphModeReport) -> None:
    """Raise for a model in which nothing is quantized, before calibration."""
    if any(isinstance(m, TensorQuantizer) and not m._disabled for m in model.modules()):
        return
    why = "; ".join(f"'{name}': {reason}" for name, reason in list(report.left.items())[:_SHOWN])
    raise QuantValueError(
        "quantize: model", f"nothing that runs in int8 ({why or 'it has no layers'})", "at least one layer",
        "change what is named, or pass an example and no data: the report says all that stays in float",
    )  # fmt: skip


def _first_call(
    model: nn.Module, data: Iterable[Any] | None, example: Any
) -> tuple[tuple[Any, ...], dict[str, Any], Iterable[Any] | None]:
    """Return one call of the model, and the data with nothing taken from it."""
    device = device_of(model)
    if example is not None:
        args, kwargs = example_arguments(example, model)
        return tuple(move_to(list(args), device)), move_to(kwargs, device), data
    if data is None:
        raise QuantValueError(
            "quantize", "neither data nor example", "an input to trace the model with",
            "pass batches as data, or one input as example",
        )  # fmt: skip
    stream = iter(data)
    first = next(stream, None)
    if first is None:
        raise QuantValueError("quantize: data", "no batches", "at least one", "pass batches of inputs")
    traced = max(data, key=_elements) if isinstance(data, (list, tuple)) else first
    args, kwargs = arguments_of(traced, model)
    return args, kwargs, chain([first], stream) if stream is data else data


def _elements(batch: Any) -> tuple[float, int]:
    """Return how many elements of a batch there are for each sample, and how many in all."""
    tensors = list(tensors_in(batch))
    return sum(x.numel() / max(len(x), 1) if x.dim() else 1 for x in tensors), sum(x.numel() for x in tensors)


def _format_of(name: str, where: str) -> dict[str, Any]:
    """Return a format's name as arguments of QuantDescriptor."""
    try:
        form = Format.parse(name)
    except IntactError as error:
        raise error.at(f"quantize: {where}") from None
    bits = {v: k for k, v in FLOAT_FORMATS.items()}.get(form.name, form.bits)
    return {"num_bits": bits, "unsigned": not form.signed}


def _descriptor(name: str, symmetric: bool) -> QuantDescriptor:
    form = _format_of(name, "activations")
    return QuantDescriptor(**form, symmetric=symmetric and not form["unsigned"])


def _why_too_wide(module: nn.Module) -> str:
    """Return why a convolution or recurrent layer in float64 stays in float; "" for others."""
    if not isinstance(module, ConvNd | nn.RNNBase | nn.RNNCellBase):
        return ""
    return WIDE if any(x.dtype == torch.float64 for x in module.parameters(recurse=False)) else ""


class _Job:
    """Quantizes one model."""

    def __init__(
        self, model: nn.Module, descriptors: tuple[QuantDescriptor, dict[str, Any]],
        include: Sequence[str], exclude: Sequence[str],
    ) -> None:  # fmt: skip
        self._model, (self._activation, self._weight) = model, descriptors
        self._include, self._exclude = tuple(include), tuple(exclude)
        self._modules: dict[str, str] = {}
        named = list(model.named_modules(remove_duplicate=False))
        self._paths = [*(name for name, _ in named), *(type(module).__name__ for _, module in named)]
        self.plan = QuantizerPlan()

    def require_fitting(self, analysis: Analysis | None) -> None:
        """Raise for patterns that match no module, call or operator."""
        names = dict.fromkeys(self._paths)
        if analysis is not None:
            names |= dict.fromkeys(node.name or "" for node in analysis.placed.graph)
            names |= dict.fromkeys(call.label for call in analysis.owners.values())
            names |= dict.fromkeys(node.op_type for node in analysis.placed.graph)
        known_names = [name for name in names if name]
        for argument, patterns_given in (("include", self._include), ("exclude", self._exclude)):
            patterns = [
                p for p in patterns_given if analysis is None or not ends_of_path(p, names)
            ]  # `analyse` did these
            require_fitting(f"quantize: {argument}", patterns, known_names, "module, call or operator")

    def replace_all(self, reason: str) -> GraphModeReport:
        """Replace modules, and insert nothing between calls."""
        left = self._replace_inside("")
        finish(self._model)
        return GraphModeReport(self._modules, {}, {"": reason}, left, training=training_modules(self._model))

    def place(self, analysis: Analysis, activations: str, weights: str) -> tuple[GraphModeReport, Placement]:
        """Insert quantizers where the placement says so, and return it with the layers' formats."""
        placement = in_formats(analysis.placement, analysis.placed, activations, weights)
        self.plan = plan = make_plan(self._model, analysis, self._why_not)
        left = dict(plan.left)
        for path in analysis.traced.leaves:
            left |= self._replace_inside(path)
        for path in plan.modules:
            self._convert(path)
            if path in plan.layers:
                self._switch_off(path, plan.layers[path])
            elif path not in plan.own_input:
                self._model.get_submodule(path)._input_quantizer.disable()  # type: ignore[operator, union-attr]
        for item in plan.inserted:
            descriptor = self._weight_of(item.axis) if item.is_weight else self._activation
            add_quantizer(self._model, item, descriptor)
        install(self._model, record_from(plan.inserted, analysis.traced.calls))
        finish(self._model)
        left |= self._float_layers(analysis)
        left |= {
            call: f"torch's exporter cannot write {operator}: it runs here, and in no file or engine"
            for call, operator in analysis.untranslated.items()
        }
        if analysis.traced.stopped:
            left[""] = f"nothing is placed from the line on at which tracing ends: {analysis.traced.stopped}"
        steps = float_steps(analysis.placed, placement)
        report = GraphModeReport(
            self._modules, plan.reasons, analysis.traced.leaves, left, float_steps=steps,
            training=training_modules(self._model),
        )  # fmt: skip
        return report, placement

    def _why_not(self, path: str) -> str | None:
        quant_class, reason = convertible(self._model.get_submodule(path), _CLASSES)
        return None if quant_class is not None else reason or "it has no quantized class"

    def _convert(self, path: str) -> None:
        module = self._model.get_submodule(path)
        quant_class, _ = convertible(module, _CLASSES)
        assert quant_class is not None, path
        weight = None
        if issubclass(quant_class, QuantMixin):
            weight = self._weight_of(quant_class.default_quant_desc_weight.axis)
        convert(self._model, module, quant_class, self._activation, weight)
        self._modules[path] = quant_class.__name__

    def _switch_off(self, path: str, used: set[str]) -> None:
        """Disable the quantizers inside of a recurrent module that are not used."""
        for name, module in self._model.get_submodule(path).named_modules():
            if isinstance(module, TensorQuantizer) and name not in used:
                module.disable()

    def _weight_of(self, axis: int | tuple[int, ...] | None) -> QuantDescriptor:
        return QuantDescriptor(**self._weight, axis=axis)

    def _replace_inside(self, path: str) -> dict[str, str]:
        """Replace the module at `path` and those inside; return what stays in float and why."""
        left = {}
        for name, module in list(self._model.get_submodule(path).named_modules(prefix=path)):
            quant_class, reason = convertible(module, _INSIDE)
            if quant_class is None:
                if reason and not isinstance(module, QuantizedModule):
                    left[name] = reason
            elif why := self._why_excluded(name, type(module).__name__) or _why_too_wide(module):
                left[name] = why
            else:
                self._convert(name)
        return left

    def _why_excluded(self, path: str, kind: str) -> str:
        places = [path[:i] for i, c in enumerate(path + ".") if c == "."]

        def hit(patterns: Iterable[str]) -> str | None:
            return next((p for p in patterns if any(fnmatchcase(x, p) for x in (*places, kind))), None)

        if (pattern := hit(self._exclude)) is not None:
            return f"it matches '{pattern}' of exclude"
        return "it matches nothing of include" if self._include and hit(self._include) is None else ""

    def _float_layers(self, analysis: Analysis) -> dict[str, str]:
        """Return layers with a weight or a product that the placement left in float, by the name of their
        call.
        """
        return {
            analysis.label(layer.name, layer.op_type): layer.reason
            for layer in analysis.placement.layers
            if layer.precision == "float" and layer.op_type in _LAYERS
        }
