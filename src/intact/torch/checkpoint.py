"""Save and load checkpoints with weights, scales, and the quantizers' configuration and switches.

One safetensors file: the tensors of `state_dict` under their own names, and one JSON document as metadata,
with the digest of both. No code is stored and none is run on loading. Plain ``model.state_dict()`` keeps the
old library's keys and carries tensors alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from intact.errors import FileFormatError, IntactError, QuantValueError, UnsupportedError
from intact.torch.graph_mode.quantized_forward import record_of, restore
from intact.torch.graph_mode.record import GraphModeRecord
from intact.torch.models.modules import unwrap
from intact.torch.module_replacement import apply_conversion, conversion_record
from intact.torch.nn.modules._quantizer_state import config_of, configure
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer, name_quantizers
from intact.torch.sealed_tensors import read_sealed, write_sealed

_KEY, _VERSION = "intact.checkpoint", 1


def save_checkpoint(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Write `model`'s tensors, and the configuration and switches of its quantizers, to `path`.

    Where graph mode placed quantizers, their places are written too.

    Args:
        model: Any module; its quantizers may be calibrated or not. What torch.compile, DataParallel or
            DistributedDataParallel put around it is left out.
        path: Replaced in one step once the file is complete.
    Raises:
        UnsupportedError: The state holds something that is not a tensor.
    """
    model = unwrap(model)
    tensors: dict[str, Tensor] = {}
    for key, value in model.state_dict().items():
        if not isinstance(value, Tensor):
            raise UnsupportedError(
                f"state_dict[{key!r}]",
                type(value).__name__,
                "a tensor",
                "keep other state in a file of its own",
            )
        # A copy of its own for each: the format stores neither strides nor shared memory.
        tensors[key] = value.detach().to("cpu").clone(memory_format=torch.contiguous_format)
    write_sealed(path, _KEY, document_of(model), tensors)


def document_of(model: nn.Module) -> dict[str, Any]:
    """Describe a quantized model without its tensors, as JSON values; `add_quantizers` reads them."""
    quantizers = {n: config_of(m) for n, m in model.named_modules() if isinstance(m, TensorQuantizer)}
    document = {"version": _VERSION, "quantizers": quantizers, "modules": conversion_record(model)}
    if (record := record_of(model)) is not None:
        document["graph"] = record.to_json()
    return document


def load_checkpoint(
    model: nn.Module, path: str | os.PathLike[str], *, custom: Mapping[type, type] | None = None
) -> nn.Module:
    """Bring `model` to the state that `save_checkpoint` wrote, bit for bit, on the devices `model` is on.

    Args:
        model: The float model, whose modules are replaced and whose graph gets its quantizers as they were,
            or an already quantized one; by itself, or in what torch.compile, DataParallel or
            DistributedDataParallel put around it. A quantizer that the model's own code places must be there.
        path: The file.
        custom: Pairs float class -> quantized class, as for `replace_modules`, where the model has some.
    Returns:
        `model`, changed in place. Calibrators start empty: statistics live in ``.calib`` files.
    Raises:
        FileAccessError: The file cannot be read.
        FileFormatError: It is damaged or not a checkpoint of this version.
        QuantValueError: The model lacks a module or quantizer of the file, or has one more.
    """
    document, tensors = _read(path)
    wrapped, model = model, unwrap(model)
    try:
        add_quantizers(model, document, tensors, custom=custom)
    except FileFormatError as error:
        raise error.at(str(path)) from error
    try:
        model.load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        raise QuantValueError(
            str(path),
            str(error).replace("\n", " "),
            "the tensors of this model",
            "load it into the model it is of",
        ) from error
    return wrapped


def add_quantizers(
    model: nn.Module,
    document: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    custom: Mapping[type, type] | None = None,
) -> None:
    """Give `model` the quantizers of a document that `document_of` made; its own tensors stay.

    Args:
        model, custom: As for `load_checkpoint`.
        document: As JSON brings it.
        tensors: By their key in `state_dict`, those of quantizers at least.
    Raises:
        FileFormatError: The document is damaged.
        QuantValueError: As for `load_checkpoint`.
    """
    record = GraphModeRecord.from_json(document["graph"]) if "graph" in document else None
    apply_conversion(model, document["modules"], custom=custom)
    restore(model, record)
    quantizers = {n: m for n, m in model.named_modules() if isinstance(m, TensorQuantizer)}
    if strangers := sorted(quantizers.keys() ^ document["quantizers"].keys()):
        here = strangers[0] in quantizers
        raise QuantValueError(
            strangers[0],
            "a quantizer that the checkpoint lacks" if here else "a quantizer that the model lacks",
            "the same quantizers in model and checkpoint",
            "build the model with the code that the checkpoint was saved from",
        )
    for name, quantizer in quantizers.items():
        owner = model.get_submodule(name.rpartition(".")[0])
        device = next((p.device for p in chain(owner.parameters(), model.parameters())), None)
        prefix = f"{name}."
        stored = {k.removeprefix(prefix): t.to(device) for k, t in tensors.items() if k.startswith(prefix)}
        try:
            configure(quantizer, document["quantizers"][name], stored)
        except (IntactError, KeyError, TypeError, ValueError) as error:
            raise _checkpoint_error(f"configuration of {name}", str(error)) from error
    name_quantizers(model)


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        document, tensors = read_sealed(path, _KEY)
    except ValueError as error:
        raise _checkpoint_error(path, str(error)) from error
    shaped = isinstance(document, dict) and all(
        isinstance(document.get(part), dict) for part in ("quantizers", "modules")
    )
    if not shaped or document.get("version") != _VERSION:
        version = document.get("version") if isinstance(document, dict) else None
        raise _checkpoint_error(path, f"version {version!r}")
    return document, tensors


def _checkpoint_error(path: str | os.PathLike[str], got: str) -> FileFormatError:
    return FileFormatError(
        str(path), got, f"a checkpoint of version {_VERSION} by save_checkpoint", "save the model again"
    )
