"""Run torch's exporters on models with quantizers.

Both exporters write `intact::fake_quantize` as one marker node, which `intact.graph` turns into a
QuantizeLinear/DequantizeLinear pair. Nothing in a quantizer's forward depends on an export.
"""

from __future__ import annotations

import functools
import io
import itertools
import keyword
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from typing import Any, cast

import torch
from torch import fx, nn
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from intact import graph
from intact.errors import IntactError, UnsupportedError
from intact.free_memory import gc_frozen
from intact.torch.exact import torch_functions
from intact.torch.operators.adaptive_pools import adaptive_translations
from intact.torch.operators.grouped_matmul import grouped_translations
from intact.torch.operators.recurrent import recurrent_translation
from intact.torch.private_torch import (
    BUILD_REGISTRY,
    FOLD_CONSTANT,
    FORMAT_TARGET,
    INSERT_TYPE_PROMOTION,
    PATTERN_CONSTANT,
    REWRITE_RULES,
    OpOverload,
    TracerWarning,
    schema_of,
)
from intact.torch.qdq.block_markers import block_translation
from intact.torch.qdq.operator_translations import operator_translations
from intact.torch.qdq.skip_exporter_work import skip_exporter_work
from intact.torch.tracing.assertions import remove_assertion_nodes
from intact.torch.tracing.concrete_values import concrete_values
from intact.torch.tracing.constant_folding import fold_constants
from intact.torch.tracing.export_program import export_program, hide_export
from intact.torch.tracing.graph_modules import with_forward
from intact.torch.tracing.untranslated_operators import find_untranslated, translate_complex

__all__ = ["cached_registry"]


@contextmanager
def cached_registry() -> Iterator[None]:
    """Let torch's exporter start from a copy of the registry that was built for the same opset."""

    def wrap(original: Any) -> Any:
        def copy_of_registry(kind: Any, *args: Any, **options: Any) -> Any:
            registry = _build(original.__func__, kind, args, tuple(options.items()))
            copy = kind()
            vars(copy).update(vars(registry))
            copy.functions = {target: list(forms) for target, forms in registry.functions.items()}
            return copy

        return classmethod(copy_of_registry)

    with BUILD_REGISTRY.wrapping(wrap):
        yield


@cache
def _build(build: Any, kind: Any, args: tuple[Any, ...], options: tuple[tuple[str, Any], ...]) -> Any:
    return build(kind, *args, **dict(options))


__all__ = ["trace_torchscript", "translate"]

PER_TENSOR_OPSET = 10
"""The oldest opset that torch's TorchScript exporter writes, and the first with QuantizeLinear."""

MAX_TORCHSCRIPT_OPSET = 20
"""The newest opset that it writes."""

_translating: ContextVar[bool] = ContextVar("translating", default=False)

_OPERATOR = torch.ops.intact.fake_quantize.default
_TORCHSCRIPT_NAME = "intact::fake_quantize"
FLAT_WEIGHTS = r"The tensor attributes? .*_flat_weights"
"""Warning of torch.export about recurrent layers, which keep their weights in a list, too."""

_EXPORTER_TALK = (
    FLAT_WEIGHTS,
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
    "You are using the legacy TorchScript-based ONNX export",
    "The feature will be removed",
    "# The axis name: .* will not be used",
)


def translate(
    model: nn.Module | torch.export.ExportedProgram,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    opset: int,
    **options: Any,
) -> Any:
    """Run torch's dynamo exporter, and return an ONNXProgram whose `model` (onnx-ir) holds markers.

    Args:
        model, args, kwargs: As for `torch.onnx.export`.
        opset: The opset that is wanted in the end; below 18 the result has 18, for `graph.set_opset`.
        **options: Further arguments of `torch.onnx.export`.
    Raises:
        UnsupportedError: The model cannot be traced, or an operator has no ONNX form.
        QuantValueError: Two inputs or outputs have one name.
    """
    table = {
        _OPERATOR: _marker_function(),
        **recurrent_translation(),
        **operator_translations(),
        **adaptive_translations(),
        **grouped_translations(),
        **block_translation(),
        **(options.pop("custom_translation_table", None) or {}),
    }
    options.setdefault("verbose", False)
    if args and not kwargs and isinstance(args[-1], dict):
        args = (*args, {})  # otherwise torch.onnx.export takes the model's last argument for named ones
    errors: list[Exception] = []
    model = with_forward(model)
    for flags in (
        (_hide_onnx_export, nullcontext, hide_export) if _is_of_graph_mode(model) else (nullcontext,)
    ):
        try:
            with (
                _quiet_exporter(), _trace_helpers(model), _allow_keyword_names(), _unify_number_types(),
                translate_complex(), remove_assertion_nodes(), fold_constants(), _fold_exactly(),
                _exact_rewrites(), flags(), cached_registry(), skip_exporter_work(), gc_frozen(),
            ):  # fmt: skip
                program: Any = torch.onnx.export(
                    model, args, kwargs=dict(kwargs or {}), dynamo=True, custom_translation_table=table,
                    opset_version=max(opset, graph.NATIVE_OPSET), **options,
                )  # fmt: skip
        except IntactError:
            raise
        except Exception as error:  # of passes behind the exporter, too
            errors.append(error)
        else:
            graph.hold_constants(program.model)
            graph.separate_names(program.model)
            return program
    raise _intact_error(errors[0], model) from errors[0]


@contextmanager
def _trace_helpers(model: nn.Module | torch.export.ExportedProgram) -> Iterator[None]:
    """Trace `model` in torch.export with our helpers, which later passes over the program do not see."""
    torch_export = torch.export.export

    @functools.wraps(torch_export)
    def export(*args: Any, **kwargs: Any) -> Any:
        return export_program(*args, export=torch_export, **kwargs)

    if isinstance(model, torch.export.ExportedProgram):
        yield
        return
    torch.export.export = export
    try:
        with concrete_values(model):
            yield
    finally:
        torch.export.export = torch_export


def is_dynamic(quantizer: Any) -> bool:
    """Return whether a `TensorQuantizer` computes its range from each batch."""
    return bool(quantizer._if_quant and quantizer._is_dynamic)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Set `model` to evaluation mode inside the context, and restore every module's mode."""
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

    calls = itertools.count()

    def fake_quantize(x, amax, amin=None, format="int8", axis=None, narrow=False):  # type: ignore[no-untyped-def]
        axes = {} if axis is None else {"axis": list(axis)}
        return marker(x, amax, amin, format=format, narrow=int(narrow), call=next(calls), **axes)

    return fake_quantize


def trace_torchscript(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, opset: int, options: dict[str, Any]
) -> Any:
    """Run torch's TorchScript exporter, and return a model (onnx-ir) of `opset`, 10 or newer, that holds
    markers.
    """
    buffer = io.BytesIO()
    torch.onnx.utils.register_custom_op_symbolic(_TORCHSCRIPT_NAME, _symbolic, PER_TENSOR_OPSET)
    try:
        with _quiet_exporter():
            torch.onnx.export(
                model, args, cast(Any, buffer), kwargs=dict(kwargs or {}), dynamo=False, opset_version=opset,
                custom_opsets={**(options.pop("custom_opsets", None) or {}), "intact": 1}, **options,
            )  # fmt: skip
    finally:
        torch.onnx.utils.unregister_custom_op_symbolic(_TORCHSCRIPT_NAME, PER_TENSOR_OPSET)
    return graph.parse_model(buffer.getvalue(), "torch.onnx.export(dynamo=False)")


@torch.onnx.symbolic_helper.parse_args("v", "v", "v", "s", "is", "b")
def _symbolic(g: Any, x: Any, amax: Any, amin: Any, format: str, axis: list[int] | None, narrow: bool) -> Any:
    inputs = [x, amax] if amin.node().mustBeNone() else [x, amax, amin]
    axes = {"axis_i": axis} if axis else {}
    marker = g.op("intact::FakeQuantize", *inputs, format_s=format, narrow_i=int(narrow), **axes)
    marker.setType(x.type())
    return marker


_EXPORTER_LOGS = (
    "torch.onnx._internal.exporter._registration",  # "torchvision is not installed"
    "onnxscript.optimizer._constant_folding",  # "Evaluation failed", of what stays an operator
    "torch.fx.experimental.symbolic_shapes",  # the whole graph, beside the error that names the line
)


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Silence warnings of torch's exporters about their own code, and keep those about the model."""
    token = _translating.set(True)
    logs = [logging.getLogger(name) for name in _EXPORTER_LOGS]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for message in _EXPORTER_TALK:
                warnings.filterwarnings("ignore", message=message)
            warnings.filterwarnings(
                "ignore", category=TracerWarning, module=r"intact\."
            )  # our operator reads sizes, which do not change within a file
            with torch_functions():
                yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
        _translating.reset(token)


def _is_of_graph_mode(model: Any) -> bool:
    return isinstance(model, nn.Module) and any(
        getattr(m, "_graph_record", None) is not None for m in model.modules()
    )


@contextmanager
def _hide_onnx_export() -> Iterator[None]:
    """Make `torch.onnx.is_in_onnx_export` return False inside the context.

    Code that branches on it would make other calls than those that graph mode quantized.
    """
    is_in_onnx_export = torch.onnx.is_in_onnx_export
    torch.onnx.is_in_onnx_export = lambda: False
    try:
        yield
    finally:
        torch.onnx.is_in_onnx_export = is_in_onnx_export


@contextmanager
def _fold_exactly() -> Iterator[None]:
    """Fold functions of parameters to the bits that module and engine compute.

    ``-exp(A_log)`` and ``logit_scale.exp()`` are constants in a file. Products stay operators: an engine
    starts their sums at the bias behind them, which an exporter that folds node by node does not see.
    """

    def wrap(original: Any) -> Any:
        def evaluate(self: Any, domain: str, op: str, version: int, *args: Any, **kwargs: Any) -> Any:
            if not domain and op == "MatMul":
                return None
            value = None if domain else graph.float_value(op, kwargs, args)
            return original(self, domain, op, version, *args, **kwargs) if value is None else value

        return evaluate

    with FOLD_CONSTANT.wrapping(wrap):
        yield


class _AlwaysZero:
    """An attribute that reads as 0, whatever its objects store."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: Any, kind: type | None = None) -> float:
        return 0.0

    def __set__(self, owner: Any, value: float) -> None:
        vars(owner)[self._name] = value


@contextmanager
def _exact_rewrites() -> Iterator[None]:
    """Keep onnxscript's rewriter from changing numbers.

    It takes 1e-8 for 0 and 1.00001 for 1, so that sums with an epsilon disappear. It also folds the
    BatchNormalization behind a layer in float into weights that the module does not have.
    """
    constant, tolerances = PATTERN_CONSTANT.find(), ("_rel_tol", "_abs_tol")
    exact_rules = tuple(rule for rule in REWRITE_RULES.find() or () if "FuseBatchNorm" not in _name_of(rule))
    if constant is None or not exact_rules:
        yield
        return
    for name in tolerances:
        setattr(constant, name, _AlwaysZero(name))
    try:
        with REWRITE_RULES.wrapping(lambda rules: exact_rules):
            yield
    finally:
        for name in tolerances:
            delattr(constant, name)


def _name_of(rule: Any) -> str:
    return str(getattr(rule, "name", ""))


@contextmanager
def _allow_keyword_names() -> Iterator[None]:
    """Allow modules and parameters with names such as "in", for which torch.fx generates ``self.in.weight``.

    torch.fx quotes "0-conv", but not Python's keywords.
    """
    with FORMAT_TARGET.wrapping(lambda original: _attribute_code):
        yield


def _attribute_code(base: str, target: str) -> str:
    """Return code for the attribute `target`, a path, of the value of the code `base`."""
    for name in target.split("."):
        plain = name.isidentifier() and not keyword.iskeyword(name)
        base = f"{base}.{name}" if plain else f"getattr({base}, {name!r})"
    return base


@contextmanager
def _unify_number_types() -> Iterator[None]:
    """Allow bounds of an integer and a fraction, ``x.clamp(-0.5, 4)``, and numbers for tensors.

    The exporter makes a tensor only of the integer, and then finds no operator that takes one of each.
    """

    def wrap(original: Any) -> Any:
        def insert(graph_module: fx.GraphModule) -> None:
            for part in graph_module.modules():
                for node in list(part.graph.nodes) if isinstance(part, fx.GraphModule) else ():
                    _make_floats(node)
                    _make_tensors(node)
            original(graph_module)

        return insert

    with INSERT_TYPE_PROMOTION.wrapping(wrap):
        yield


def _make_floats(node: fx.Node) -> None:
    """Make the numbers that a call reads beside its tensors floats, where one of them is."""
    if not isinstance(node.target, OpOverload):
        return
    types = [str(argument.type) for argument in schema_of(node.target).arguments]
    places = [i for i in range(len(node.args)) if types[i] in ("number", "Optional[number]")]
    numbers = {type(node.args[i]) for i in places}
    if {int, float} <= numbers and types[0] == "Tensor":
        for i in places:
            if isinstance(node.args[i], int):
                node.update_arg(i, float(node.args[i]))  # type: ignore[arg-type]


def _make_tensors(node: fx.Node) -> None:
    """Make a tensor of each number that stands in a tensor's place: ``1.0 - mask`` of an integer mask.

    The exporter's promotion of types calls the operator again, which takes a number there from no one but
    Python.
    """
    value = node.meta.get("val")
    if not isinstance(node.target, OpOverload) or not isinstance(value, torch.Tensor):
        return
    for place, argument in enumerate(schema_of(node.target).arguments[: len(node.args)]):
        number = node.args[place]
        if str(argument.type) != "Tensor" or not isinstance(number, (bool, int, float)):
            continue
        dtype = value.dtype if value.dtype != torch.bool else torch.tensor(number).dtype
        with node.graph.inserting_before(node):
            tensor = node.graph.call_function(
                torch.ops.aten.scalar_tensor.default, (number,), {"dtype": dtype}
            )
        places = {key: node.meta[key] for key in ("nn_module_stack", "stack_trace") if key in node.meta}
        tensor.meta = places | {"val": value.new_empty((), dtype=dtype)}
        node.update_arg(place, tensor)


_FIXED_SIZE = re.compile(r"Eq\(s\d+, (\d+)\)")


def fixed_size_error(size: Any) -> UnsupportedError:
    """Return the error for a model whose code works for one batch size only."""
    return UnsupportedError(
        "model",
        f"code that fixes the first size of its inputs to {size}, as x.view({size}, -1) does",
        "code for batches of any size: that size is left open",
        "give dynamic_batch=False, or write x.shape[0] there",
    )


_EXPERTS = (
    ": rows that go to experts are one torch.nn.functional.grouped_mm; of transformers, call"
    " model.set_experts_implementation('grouped_mm') where it loops over experts"
)


def _data_dependent_error(reason: str, model: Any) -> UnsupportedError:
    """Return the error for a model whose calls or sizes depend on values, such as a loop over experts."""
    modules = list(model.named_modules()) if isinstance(model, nn.Module) else []
    kinds = {kind for _, module in modules for kind in type(module).__mro__}
    names = " ".join([*(path for path, _ in modules), *(kind.__name__ for kind in kinds)])
    names_experts = re.search("expert|moe", names, re.IGNORECASE)
    return UnsupportedError(
        "model",
        f"code that depends on values of its input: '{reason}' from torch's exporter",
        "calls and sizes that are the same for all values",
        "write that part without conditions and loops on values" + (_EXPERTS if names_experts else ""),
    )


def is_translating() -> bool:
    """Return whether torch's exporters run for `translate` or `trace_torchscript`, which handle
    quantizers.
    """
    return _translating.get()


def _intact_error(error: BaseException, model: Any) -> IntactError:
    """Return the IntactError inside of torch's error, or else an UnsupportedError with its innermost
    cause.
    """
    cause: BaseException = error
    while not isinstance(cause, IntactError) and (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    if isinstance(cause, IntactError):
        return cause
    reason = " ".join(str(cause).split())[:400]
    if (stuck := find_untranslated(error)) is not None:
        at = f" at {stuck.line}" if stuck.line else ""
        return UnsupportedError(
            f"module '{stuck.module}'" if stuck.module else "model",
            f"a call of {stuck.operator}{at}, which torch's exporter cannot write ({type(cause).__name__})",
            "operators that ONNX has",
            "write it with other functions, or leave it out of what is exported; the module runs and trains"
            " with it. torch.onnx.export takes a translation of yours as custom_translation_table",
        )
    if (fixed := _FIXED_SIZE.search(reason)) is not None:
        return fixed_size_error(fixed[1])
    if isinstance(cause, GuardOnDataDependentSymNode):
        return _data_dependent_error(reason, model)
    return UnsupportedError(
        "model",
        f"'{type(cause).__name__}: {reason}' from torch's exporter",
        "a model that torch.export can trace, with operators that ONNX has",
        "try dynamic_batch=False, or rewrite the part that the message names",
    )
