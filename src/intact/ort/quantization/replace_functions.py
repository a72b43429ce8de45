"""Puts INTact's functions in the place of those of `onnxruntime.quantization`, while a policy asks for it."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

Replacements = list[tuple[Any, dict[str, Callable[..., Any]]]]
"""Owners of attributes, with what takes their place, by name."""

Target = Callable[[], str]
"""Gives the engine that files are for, "off" where ONNX Runtime's own functions quantize."""


def patch_functions(package: ModuleType, target_of_policy: Target) -> Replacements:
    """Return what takes the place of functions of `onnxruntime.quantization`.

    Args:
        package: The package, loaded.
        target_of_policy: Is asked in each call.
    """
    module = sys.modules[f"{package.__name__}.quantize"]
    functions = {
        "quantize_static": _replace_function(module.quantize_static, "static", target_of_policy),
        "quantize_dynamic": _replace_function(module.quantize_dynamic, "weights", target_of_policy),
        "quantize": _replace_quantize(module, target_of_policy),
    }
    return [(package, functions), (module, functions)]


def patch_matmul_nbits(module: ModuleType, target_of_policy: Target) -> Replacements:
    """Return what takes the place of methods of `MatMulNBitsQuantizer`.

    Args:
        module: `onnxruntime.quantization.matmul_nbits_quantizer`, loaded.
        target_of_policy: Is asked in each call.
    """
    process = module.MatMulNBitsQuantizer.process

    @functools.wraps(process)
    def process_model(self: Any) -> None:
        target = target_of_policy()
        if target == "off":
            process(self)
            return
        from intact.ort.quantization.weights import process_matmul_nbits

        process_matmul_nbits(self, target)

    return [(module.MatMulNBitsQuantizer, {"process": process_model})]


def _replace_function(
    original: Callable[..., Any], module_name: str, target_of_policy: Target
) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> None:
        target = target_of_policy()
        if target == "off":
            original(*args, **kwargs)
            return
        _call(
            module_name,
            original.__name__,
            inspect.signature(original).bind(*args, **kwargs).arguments,
            target,
        )

    return call


def _replace_quantize(module: ModuleType, target_of_policy: Target) -> Callable[..., Any]:
    """Return a function for `quantize`: a field of a configuration that has its default was left out."""
    original = module.quantize
    functions = {
        module.StaticQuantConfig: ("static", "quantize_static"),
        module.DynamicQuantConfig: ("weights", "quantize_dynamic"),
    }

    @functools.wraps(original)
    def quantize(*args: Any, **kwargs: Any) -> None:
        target = target_of_policy()
        arguments = inspect.signature(original).bind(*args, **kwargs).arguments
        config = arguments.get("quant_config")
        kind = next((kind for kind in functions if isinstance(config, kind)), None)
        if target == "off" or kind is None:
            original(*args, **kwargs)  # weights alone: MatMulNBitsQuantizer, or an error
            return
        call_arguments = {name: arguments[name] for name in ("model_input", "model_output")}
        _call(*functions[kind], {**call_arguments, **_fields_besides_defaults(config, kind)}, target)

    return quantize


def _fields_besides_defaults(config: Any, kind: type) -> dict[str, Any]:
    """Return the fields of a configuration that differ from the defaults of its class."""
    defaults = inspect.signature(kind).parameters
    fields = {name: getattr(config, name) for name in defaults if hasattr(config, name)}
    return {
        name: value for name, value in fields.items()
        if value != defaults[name].default and not (defaults[name].default is None and not value)
    }  # fmt: skip


def _call(module_name: str, function: str, call_arguments: Mapping[str, Any], target: str) -> None:
    from importlib import import_module

    getattr(import_module(f"intact.ort.quantization.{module_name}"), function)(call_arguments, target)
