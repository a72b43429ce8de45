"""Save and restore the quantizers of transformers' models by `save_pretrained` and `from_pretrained`.

transformers asks a quantizer, registered under the name in a model's `quantization_config`, to prepare the
model before its weights are loaded. Ours writes there what `save_checkpoint` stores besides tensors.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

import torch
from torch import nn

from intact.errors import FileFormatError, IntactError
from intact.torch.checkpoint import add_quantizers, document_of
from intact.torch.models.modules import quantized_callbacks, unwrap

__all__ = ["describe", "install", "prepare", "remember"]

METHOD = "intact"
"""The name in a model's `quantization_config`."""

_REGISTRY = "transformers.quantizers.auto"

_TYPES = {
    str(kind).removeprefix("torch."): kind
    for kind in (torch.float32, torch.float64, torch.float16, torch.bfloat16)
}


def install() -> None:
    """Register the quantizer with transformers: now, or at its first import."""
    if remember not in quantized_callbacks:
        quantized_callbacks.append(remember)
    if _REGISTRY in sys.modules:
        _classes()
    elif not any(isinstance(finder, _AtImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AtImport())


def remember(model: nn.Module) -> None:
    """Make `save_pretrained` of a quantized `model` of transformers write its quantizers, too."""
    base = getattr(sys.modules.get("transformers.modeling_utils"), "PreTrainedModel", None)
    if base is None or not isinstance(model := unwrap(model), base):
        return
    config, quantizer = _classes()
    pretrained: Any = model
    pretrained.hf_quantizer = quantizer(config())


class _AtImport(MetaPathFinder):
    """Registers the quantizer after the first import of transformers' registry."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != _REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        run, loader = spec.loader.exec_module, spec.loader

        def exec_module(module: Any) -> None:
            run(module)
            _classes()

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def prepare(model: nn.Module, document: Mapping[str, Any]) -> None:
    """Give a float `model` on the meta device the quantizers of `describe`, and room for their tensors.

    Raises:
        FileFormatError, QuantValueError: As `load_checkpoint`.
    """
    try:
        tensors = {
            str(name): torch.empty(shape, dtype=_TYPES[kind], device="meta")
            for name, (kind, *shape) in document["tensors"].items()
        }
        add_quantizers(model, document, tensors)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, IntactError):
            raise
        raise FileFormatError(
            "quantization_config", f"{type(error).__name__}: {error}", "what save_pretrained wrote",
            "save the model again",
        ) from error  # fmt: skip
    model.load_state_dict(tensors, strict=False)  # makes room for biases, too


def describe(model: nn.Module) -> dict[str, Any]:
    """Return `document_of`, with types and shapes of tensors that the float model may lack: ranges and
    biases.
    """
    document = document_of(model)
    bias_names = {*(f"{path}.bias" for path in document["modules"])}
    tensors = {
        name: [str(x.dtype).removeprefix("torch."), *x.shape]
        for name, x in model.state_dict().items()
        if name in bias_names or name.rpartition(".")[0] in document["quantizers"]
    }
    return document | {"tensors": tensors}


@functools.cache
def _classes() -> tuple[Any, Any]:
    """Return the configuration and the quantizer: subclasses of transformers' own, registered with it."""
    registry: Any = importlib.import_module(_REGISTRY)
    bases: Any = importlib.import_module("transformers.quantizers.base")
    configs: Any = importlib.import_module("transformers.utils.quantization_config")

    @registry.register_quantization_config(METHOD)
    class IntactConfig(configs.QuantizationConfigMixin):
        """Configuration of a checkpoint's quantizers: their places and descriptors."""

        def __init__(self, document: dict[str, Any] | None = None, **_: Any) -> None:
            self.quant_method, self.document = METHOD, document or {}

    @registry.register_quantizer(METHOD)
    class IntactQuantizer(bases.HfQuantizer):
        """Adds quantizers before weights and ranges are loaded, and writes them when a model is saved."""

        is_trainable = is_qat_trainable = True

        def is_serializable(self, *_: Any, **__: Any) -> bool:
            return True

        def get_state_dict_and_metadata(self, model: Any, *_: Any, **__: Any) -> tuple[None, dict[str, str]]:
            own: Any = unwrap(model)
            self.quantization_config = own.config.quantization_config = IntactConfig(describe(own))
            return None, {}

        def _process_model_before_weight_loading(self, model: Any, **_: Any) -> None:
            prepare(model, self.quantization_config.document)

    return IntactConfig, IntactQuantizer
