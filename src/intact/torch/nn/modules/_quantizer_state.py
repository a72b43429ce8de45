"""The text and the state that a `TensorQuantizer` has beside its tensors."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch

from intact.errors import IntactError
from intact.spec import Format, QuantSpec
from intact.torch.descriptor import QuantDescriptor
from intact.torch.operators import fake_quantize as ops
from intact.torch.operators import learned_ranges
from intact.torch.utils.quant_logging import LOGGER

TensorQuantizer: TypeAlias = Any  # its module imports this one

_RANGE = ("_amax", "_amin")
_TENSORS = (*_RANGE, "_pre_quant_scale")
_CONFIGURATION = (
    "num_bits",
    "axis",
    "unsigned",
    "narrow_range",
    "symmetric",
    "fake_quant",
    "learn_amax",
    "scale_amax",
    "calib_method",
)
_SWITCHES = ("disabled", "if_quant", "if_clip", "if_calib")


def describe(quantizer: TensorQuantizer) -> str:
    """Return the old library's one-line description, digit for digit."""
    if quantizer._disabled:
        return "disabled"
    words = ["unsigned " if quantizer._unsigned else "", f"{quantizer._num_bits}bit"]
    words.append(" narrow" if quantizer._narrow_range else "")
    words.append(" fake" if quantizer._fake_quant else "")
    words.append("" if quantizer._symmetric else " asymmetric")
    axis = quantizer._axis
    shown = f"({axis})" if isinstance(axis, int) else axis
    words.append(" per-tensor" if axis is None else f" axis={shown}")
    words.append(f" amax={_short(quantizer, '_amax')}")
    words.append(f" amin={_short(quantizer, '_amin')}" if hasattr(quantizer, "_amin") else "")
    words.append(f" *{quantizer._scale_amax}" if quantizer._scale_amax else "")
    if hasattr(quantizer, "_pre_quant_scale"):
        words.append(f" pre_quant_scale={_short(quantizer, '_pre_quant_scale')}")
    words.append(" learned" if quantizer._learn_amax else "")
    words.append(f"={quantizer._learn_amax}" if isinstance(quantizer._learn_amax, str) else "")
    words.append(f" calibrator={quantizer._calibrator!s}" if quantizer._calibrator is not None else "")
    words.append(" quant" if quantizer._if_quant else "")
    words.append(" clip" if quantizer._if_clip else "")
    words.append(" calib" if quantizer._if_calib else "")
    return "".join(words)


def _short(quantizer: TensorQuantizer, name: str) -> str:
    if not hasattr(quantizer, name):
        return "dynamic"
    values = getattr(quantizer, name)
    if values.numel() == 1:
        return f"{values.item():.4f}"
    return f"[{values.min().item():.4f}, {values.max().item():.4f}]({values.numel()})"


def make_room(quantizer: TensorQuantizer, state_dict: dict[str, Any], prefix: str) -> None:
    """Register the tensors that `state_dict` has and `quantizer` lacks, on the device of what it has.

    The reverse, a quantizer with a range and a state without one, is left to PyTorch's own strict check.
    """
    tensors = [*quantizer.buffers(), *quantizer.parameters()]
    for name in _TENSORS:
        stored = state_dict.get(prefix + name)
        if isinstance(stored, torch.Tensor) and not hasattr(quantizer, name):
            device = tensors[0].device if tensors else stored.device
            hold(quantizer, name, torch.empty_like(stored, device=device))
        elif stored is None and hasattr(quantizer, name):
            LOGGER.error("%s: there is no %s in the state that is being loaded.", prefix[:-1], name)


def hold(quantizer: TensorQuantizer, name: str, value: torch.Tensor) -> None:
    """Register `value` under `name`, one of the tensors in a state: a parameter where it is learned."""
    if isinstance(quantizer._learn_amax, str) and name in _RANGE:
        quantizer.register_parameter(name, torch.nn.Parameter(value))
    else:
        quantizer.register_buffer(name, value)


def check_learnable(quantizer: TensorQuantizer, kind: str) -> None:
    """Refuse a kind of learned range that `quantizer` cannot have.

    Raises:
        UnsupportedError: The grid of `quantizer` cannot be learned as `kind` says.
    """
    try:
        QuantDescriptor(
            name=quantizer._name, **_descriptor_arguments(config_of(quantizer)) | {"learn_amax": kind}
        )
    except IntactError as error:
        raise error.at(f"quantizer '{quantizer._where()}'") from None


def learn(quantizer: TensorQuantizer, kind: str) -> None:
    """Turn the range of `quantizer`, where it has one, into parameters that are learned as `kind` says."""
    quantizer._learn_amax = kind
    for name in _RANGE:
        if hasattr(quantizer, name):
            value = getattr(quantizer, name).detach()
            delattr(quantizer, name)
            hold(quantizer, name, value)


def fix(quantizer: TensorQuantizer) -> None:
    """Make the range that `learn` made parameters a fixed one again, at its value."""
    quantizer._learn_amax = False
    for name in _RANGE:
        if hasattr(quantizer, name):
            value = getattr(quantizer, name).detach()
            delattr(quantizer, name)
            hold(quantizer, name, value)


def start(quantizer: TensorQuantizer, inputs: torch.Tensor) -> None:
    """Set the range at which the paper of the quantizer's kind starts for `inputs`, where it gives one."""
    spec = QuantSpec(
        Format.parse(quantizer.format),
        axis=quantizer._axis,
        symmetric=quantizer._symmetric,
        narrow=quantizer._narrow_range,
    )
    is_weight = isinstance(inputs, torch.nn.Parameter)
    ends = learned_ranges.start(inputs, spec, quantizer._learn_amax, is_weight)
    if ends is None:
        return
    kept_axes = ops.positive_axes(quantizer._axis, inputs.dim())
    shape = [n if a in kept_axes else 1 for a, n in enumerate(inputs.shape)] if kept_axes else []
    shape = list(quantizer._amax.shape) if hasattr(quantizer, "_amax") else shape
    low, high = (torch.tensor(end, device=inputs.device).reshape(shape) for end in ends)
    if not quantizer._symmetric:
        quantizer._set_buffer("_amin", low)
    quantizer._set_buffer("_amax", high)


def complete(quantizer: TensorQuantizer) -> None:
    """Add the attributes that a quantizer pickled by the old library lacks, in place."""
    attributes = dict(quantizer.__dict__)
    calibrator = attributes.get("_calibrator")
    method = {"HistogramCalibrator": "histogram", "MergeableCalibrator": "mergeable"}
    fresh = {"_name": None, "_symmetric": True, "_calib_method": method.get(type(calibrator).__name__, "max")}
    quantizer.__dict__.update({key: value for key, value in fresh.items() if key not in attributes})
    scale = attributes.get("_scale")
    quantizer.__dict__["_scale"] = scale if isinstance(scale, torch.Tensor) else None


def config_of(quantizer: TensorQuantizer) -> dict[str, Any]:
    """Return everything about `quantizer` that is not a tensor, as JSON values; `configure` takes it."""
    config = {key: getattr(quantizer, f"_{key}") for key in (*_CONFIGURATION, *_SWITCHES)}
    config["axis"] = list(config["axis"]) if isinstance(config["axis"], tuple) else config["axis"]
    config["num_bits"] = (
        list(config["num_bits"]) if isinstance(config["num_bits"], tuple) else config["num_bits"]
    )
    return config


def configure(quantizer: TensorQuantizer, config: dict[str, Any], stored: dict[str, torch.Tensor]) -> None:
    """Configure `quantizer` as `config_of` described, with the buffers that are in `stored` and no others."""
    switches = {key: bool(config[key]) for key in _SWITCHES}
    fresh = type(quantizer)(QuantDescriptor(name=quantizer._name, **_descriptor_arguments(config)))
    for key in (*_CONFIGURATION, "calibrator"):
        setattr(quantizer, f"_{key}", getattr(fresh, f"_{key}"))
    for key, value in switches.items():
        setattr(quantizer, f"_{key}", value)
    for name in _TENSORS:
        if hasattr(quantizer, name):
            delattr(quantizer, name)
        if name in stored:
            hold(quantizer, name, stored[name])
    if hasattr(quantizer, "clip") and quantizer._learn_amax is not True:
        del quantizer.clip
    if quantizer._learn_amax is True:
        if not hasattr(quantizer, "clip"):
            quantizer.clip = fresh.clip
        quantizer.clip.requires_grad_(quantizer._if_clip)


def _descriptor_arguments(config: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a `QuantDescriptor` that are in `config`."""
    values = {key: value for key, value in config.items() if key not in _SWITCHES}
    for key in ("num_bits", "axis"):
        values[key] = tuple(values[key]) if isinstance(values[key], list) else values[key]
    return values
