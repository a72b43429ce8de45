"""`TensorQuantizer`: the module that quantizes one tensor, with its calibrator and its switches."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from intact.errors import CalibrationError, IntactError, UnsupportedError
from intact.spec import Format
from intact.torch import calib
from intact.torch.descriptor import QuantDescriptor, format_name
from intact.torch.exact.grid_tensor import GridTensor, carry_grid, plain_tensor
from intact.torch.nn.modules import _quantizer_state
from intact.torch.nn.modules._stale_ranges import WatchedWeight, watch_weight
from intact.torch.nn.modules._switches import ExportSwitch, Switches
from intact.torch.nn.modules.clip import Clip
from intact.torch.operators import fake_quantize as ops
from intact.torch.operators import learned_ranges
from intact.torch.private_torch import DisableTorchFunction, is_in_functorch, whole_batch
from intact.torch.tensor_quant import refuse_negative, tensor_quant
from intact.torch.utils.quant_logging import LOGGER

__all__ = ["TensorQuantizer", "name_quantizers"]

_ORDINARY = (Tensor, nn.Parameter, GridTensor)


def _unseen_by_modes(inputs: Tensor) -> AbstractContextManager[None]:
    """Return a context in which no function mode sees the quantizer's own arithmetic, a dozen calls.

    Tracers see it, and so do the classes of tensors that are not PyTorch's or ours.
    """
    return DisableTorchFunction() if type(inputs) in _ORDINARY and not ops.is_tracing() else nullcontext()


class TensorQuantizer(Switches, nn.Module, metaclass=ExportSwitch):
    """Quantizes the tensor that passes through it.

    Args:
        quant_desc: Grid, granularity and range; see `QuantDescriptor`.
        disabled: True: pass everything through (but `pre_quant_scale`, which always applies).
        if_quant: Quantize.
        if_clip: Clip to the learned bounds first; needs ``learn_amax=True``.
        if_calib: Show the tensor to the calibrator.

    The order of `forward`: times `pre_quant_scale`; disabled: return; collect; clip; quantize. Without an
    amax the range is that of each batch (dynamic quantization); where that holds NaN or infinity the result
    is NaN, which a GradScaler knows what to do with.

    A quantizer that several tensors pass through has one range, of them all; files and engines have it, too.

    `state_dict` holds ``_amax`` (``_amin`` besides for an asymmetric range), ``_pre_quant_scale`` and
    ``clip.*``, as the old library's did; configuration and switches travel in `intact.torch.save_checkpoint`.
    A range learned as "lsq", "lsq+" or "pact" is ``_amax`` itself, and ``_amin``: parameters, then.
    """

    _amax: Tensor
    _amin: Tensor
    _pre_quant_scale: Tensor
    _watched: WatchedWeight | None = None

    def __init__(
        self,
        quant_desc: QuantDescriptor | None = None,
        disabled: bool = False,
        if_quant: bool = True,
        if_clip: bool = False,
        if_calib: bool = False,
    ) -> None:
        super().__init__()
        desc = quant_desc if quant_desc is not None else QuantDescriptor()
        self._name: str | None = desc.name
        self._num_bits = desc.num_bits
        self._fake_quant = desc.fake_quant
        self._axis = desc.axis
        self._scale_amax = desc.scale_amax
        self._learn_amax = desc.learn_amax
        self._unsigned = desc.unsigned
        self._narrow_range = desc.narrow_range
        self._symmetric = desc.symmetric
        self._calib_method = desc.calib_method
        self._scale: Tensor | None = None
        self._disabled = disabled
        self._if_quant = if_quant
        self._if_clip = False
        self._if_calib = if_calib
        if desc.amax is not None:
            self._set_buffer("_amax", desc.amax)
        if self._learn_amax is True:
            bound = 1.0 if desc.amax is None else float(np.max(desc.amax))
            self.clip = Clip(-bound, bound, learn_min=True, learn_max=True)
        if if_clip or self._learn_amax is True:
            self.enable_clip()
        self._calibrator = calib.create(desc.calib_method, self._num_bits, self._axis, self._unsigned)

    # ---- what it is ----
    # Reading what is not there gives None and an INFO record: torch.jit.trace reads every property.

    @property
    def num_bits(self) -> int | tuple[int, int]:
        return self._num_bits

    @num_bits.setter
    def num_bits(self, value: int | tuple[int, int]) -> None:
        self._num_bits = QuantDescriptor(num_bits=value).num_bits
        if self._calibrator is not None:
            self._calibrator._num_bits = self._num_bits

    @property
    def unsigned(self) -> bool:
        return self._unsigned

    @unsigned.setter
    def unsigned(self, value: bool) -> None:
        self._unsigned = bool(value)
        if self._calibrator is not None:
            self._calibrator._unsigned = self._unsigned

    @property
    def narrow_range(self) -> bool:
        return self._narrow_range

    @narrow_range.setter
    def narrow_range(self, value: bool) -> None:
        self._narrow_range = bool(value)

    @property
    def axis(self) -> int | tuple[int, ...] | None:
        return self._axis

    @property
    def fake_quant(self) -> bool:
        return self._fake_quant

    @property
    def symmetric(self) -> bool:
        """False: the range has two ends, and codes have a zero point."""
        return self._symmetric

    @property
    def format(self) -> str:
        """Name of the grid in `intact.spec`: "int8", "uint4", "fp8e4m3", ..."""
        return format_name(self._num_bits, self._unsigned)

    @property
    def maxbound(self) -> float:
        """Largest code: 127 for int8, 255 for uint8, 448 for E4M3."""
        return Format.parse(self.format).qmax

    @property
    def scale(self) -> Tensor | None:
        """The ``qmax / amax`` of the last call in non-fake mode (the old library's "scale")."""
        if self._fake_quant:
            LOGGER.info("%s: fake quantize mode doesn't use scale explicitly!", self._where())
        if self._scale is None:
            LOGGER.info("%s: accessing scale before quantizing any tensor!", self._where())
        return self._scale

    @property
    def step_size(self) -> Tensor | None:
        """``amax / maxbound``: the real size of one code; None without an amax."""
        if not hasattr(self, "_amax"):
            LOGGER.info("%s: step_size is undefined under dynamic amax mode!", self._where())
            return None
        return self._amax / self.maxbound

    # ---- its range ----

    @property
    def amax(self) -> Tensor | None:
        """Largest magnitude, shape () or that of the input with reduced axes of size 1; None when dynamic."""
        if not hasattr(self, "_amax"):
            LOGGER.info("%s: amax is not registered: the range of each batch is used.", self._where())
            return None
        return self._amax

    @amax.setter
    def amax(self, value: Any) -> None:
        if value is None:
            LOGGER.error("%s: setting amax to None is meaningless.", self._where())
        else:
            self._set_buffer("_amax", value)

    @property
    def pre_quant_scale(self) -> Tensor | None:
        """Factor on the input, before everything else and even when disabled (SmoothQuant), or None."""
        return getattr(self, "_pre_quant_scale", None)

    @pre_quant_scale.setter
    def pre_quant_scale(self, value: Any) -> None:
        if value is None:
            LOGGER.error("%s: setting pre_quant_scale to None is meaningless.", self._where())
        else:
            self._set_buffer("_pre_quant_scale", value)

    def set_range(self, rmin: Any, rmax: Any) -> None:
        """Set both ends of an asymmetric range, each a number or a tensor of the amax's shape."""
        if self._symmetric:
            raise UnsupportedError(
                self._where(), "a range with two ends", "amax, as the quantizer is symmetric", "set amax"
            )
        self._set_buffer("_amin", rmin)
        self._set_buffer("_amax", rmax)

    def _set_buffer(self, name: str, value: Any) -> None:
        value = torch.as_tensor(value, dtype=torch.float32).detach()
        if not hasattr(self, name):
            _quantizer_state.hold(self, name, value.clone())
            return
        buffer = getattr(self, name)
        if buffer.shape != value.shape:
            raise CalibrationError(
                f"{self._where()}.{name[1:]}",
                f"shape {tuple(value.shape)}; Changing shape when setting amax is not allowed.",
                f"shape {tuple(buffer.shape)}",
                "create a new quantizer for another granularity",
            )
        with torch.no_grad():
            buffer.copy_(value)

    # ---- calibration ----

    def load_calib_amax(self, *args: Any, strict: bool = True, **kwargs: Any) -> None:
        """Take the range that the calibrator computes; arguments go to its `compute_amax`.

        A max calibrator has no choice of method and ignores them, so that one call serves a model that mixes
        calibrators.

        Raises:
            CalibrationError: (a RuntimeError) The calibrator has seen no tensor; with ``strict=False`` the
                range becomes NaN and a warning is logged instead.
        """
        if self._calibrator is None:
            raise CalibrationError(
                self._where(), "Calibrator not created.", "a calibrator", "choose a calib_method"
            )
        if isinstance(self._calibrator, calib.MaxCalibrator):
            args, kwargs = (), {}
        compute = self._calibrator.compute_amax if self._symmetric else self._calibrator.compute_range
        try:
            bounds = compute(*args, **kwargs)
        except IntactError as error:
            raise error.at(self._where()) from None
        if bounds is None:
            if strict:
                raise CalibrationError(
                    self._where(),
                    "no statistics: Calibrator returned None",
                    "a calibrator that has seen a tensor",
                    "run data through the model after enable_calib, or pass strict=False",
                )
            LOGGER.warning("%s: no statistics were collected; set amax to NaN!", self._where())
            bounds = torch.tensor(math.nan)
        low, high = (None, bounds) if isinstance(bounds, Tensor) else bounds
        self._load_range(low, high)

    def _load_range(self, low: Tensor | None, high: Tensor) -> None:
        for name, value in (("_amin", low), ("_amax", high)):
            if value is None:
                continue
            if bool((value.abs() <= ops.TINY).all()):
                LOGGER.warning("%s: every value seen was zero; the scale is 1.", self._where())
            self._set_buffer(name, value)
        LOGGER.info("%s: load calibrated amax, shape=%s.", self._where(), tuple(high.shape))

    def init_learn_amax(self, inputs: Tensor | None = None) -> None:
        """Start the learned range: at the calibrated amax, the maximum over channels for a learned clip.

        Args:
            inputs: For "lsq" and "lsq+": start where their papers do for this tensor, a weight if it is a
                Parameter, else activations, [batch, ...]. See `intact.torch.operators.learned_ranges.start`.
        """
        if not self._learn_amax:
            raise CalibrationError(
                self._where(),
                "init_learn_amax with learn_amax=False",
                "a quantizer with a learned range",
                "build it from QuantDescriptor(learn_amax=True)",
            )
        if isinstance(self._learn_amax, str) and inputs is not None:
            _quantizer_state.start(self, inputs)
        if not hasattr(self, "_amax"):
            raise CalibrationError(
                self._where(), "no amax", "a calibrated amax to start from", "call load_calib_amax first"
            )
        if self._learn_amax is not True:
            return
        start = self._amax.max()
        with torch.no_grad():
            self.clip.clip_value_min.copy_(-start)
            self.clip.clip_value_max.copy_(start)

    # ---- forward ----

    def forward(self, inputs: Tensor) -> Tensor:
        if hasattr(self, "_pre_quant_scale"):
            inputs = inputs * self._pre_quant_scale.to(inputs.dtype)
        if self._disabled:
            return inputs
        untyped: Any = inputs
        if isinstance(untyped, fx.Proxy):  # torch.fx.symbolic_trace: its graph calls the quantizer
            path = untyped.tracer.path_of_module(self)  # type: ignore[attr-defined]
            return untyped.tracer.create_proxy("call_module", path, (untyped,), {})  # type: ignore[return-value]
        if torch.compiler.is_compiling():
            return self._steps(inputs)
        try:
            return self._steps(inputs)
        except IntactError as error:
            raise error.at(self._where()) from None

    def _steps(self, inputs: Tensor) -> Tensor:
        if self._if_calib:
            with _unseen_by_modes(inputs):
                self._collect(inputs.detach())
        # A learned range clips exactly once, also where it is not being learned at the moment.
        if self._if_clip or (self._learn_amax is True and self._if_quant):
            inputs = self.clip(inputs)
        if not self._if_quant:
            return inputs
        with _unseen_by_modes(inputs) if self._fake_quant else nullcontext():
            return self._quantize(inputs)

    def _collect(self, inputs: Tensor) -> None:
        """Show a tensor to the calibrator; inside of `torch.vmap` that of all samples."""
        if not torch.compiler.is_compiling() and is_in_functorch():
            batch = whole_batch(inputs)
            if batch is not inputs and self._axis is not None:
                raise UnsupportedError(
                    "calibration in torch.vmap", f"ranges along axis {self._axis}", "one range for a tensor",
                    "call the layer outside of torch.vmap, on the whole batch",
                )  # fmt: skip
            inputs = batch
        self._calibrator.collect(inputs)

    def _quantize(self, inputs: Tensor) -> Tensor:
        inputs = plain_tensor(inputs)
        low, high = (None, self._get_amax(inputs)) if self._symmetric else self._get_range(inputs)
        if self._unsigned and self._symmetric:
            high = refuse_negative(inputs, high)
        axes = self._axes_for(inputs, high)
        if not self._fake_quant:
            bits = self._num_bits
            if isinstance(bits, tuple):
                raise UnsupportedError(
                    "fake_quant",
                    "False with a float format",
                    "fake_quant=True: a float format has no integer codes",
                    "use fake_quant=True",
                )
            if axes and high.numel() != 1:
                high = high.reshape([n if a in axes else 1 for a, n in enumerate(inputs.shape)])
            codes, self._scale = tensor_quant(inputs, high, bits, self._unsigned, self._narrow_range)
            return codes
        is_dynamic = self._is_dynamic
        lost = ops.nonfinite_granules(low, high) if is_dynamic else None
        if lost is not None:
            low, high = None if low is None else low.masked_fill(lost, -1), high.masked_fill(lost, 1)
        format = self.format
        grid: Any = {"format": format, "axis": axes, "narrow": self._narrow_range}
        if isinstance(self._learn_amax, str) and not is_dynamic:
            features = learned_ranges.features_of(inputs, axes or (), isinstance(inputs, nn.Parameter))
            grid |= {"kind": self._learn_amax, "features": features}
            out = learned_ranges.fake_quantize(inputs, high, low, **grid)
            high, low = learned_ranges.usable(high, low)
        else:
            out = ops.fake_quantize(inputs, high, low, **grid)
        if lost is not None:
            return out.masked_fill(lost, math.nan)
        if self.training:
            return out
        if not is_dynamic and self._learn_amax is not True and not torch.compiler.is_compiling():
            watch_weight(self, inputs, out)
        return carry_grid(out, inputs, high, low, format, axes, self._narrow_range)

    @property
    def _is_dynamic(self) -> bool:
        """Return whether each batch has a range of its own."""
        return self._learn_amax is not True and not hasattr(self, "_amax")

    def _get_amax(self, inputs: Tensor) -> Tensor:
        """Return the amax to quantize `inputs` with: learned, stored, or that of `inputs`."""
        if self._learn_amax is True:
            amax = torch.maximum(-self.clip.clip_value_min, self.clip.clip_value_max).detach()
        elif hasattr(self, "_amax"):
            amax = self._amax
        else:
            low, high = ops.min_max(inputs, ops.positive_axes(self._axis, inputs.dim()))
            amax = torch.maximum(low.abs(), high.abs())
        return amax if self._scale_amax is None else amax * self._scale_amax

    def _get_range(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return both ends of the range to quantize `inputs` with: stored, or those of `inputs`."""
        if hasattr(self, "_amax"):
            low, high = self._amin, self._amax
        else:
            low, high = ops.min_max(inputs, ops.positive_axes(self._axis, inputs.dim()))
        if self._scale_amax is not None:
            low, high = low * self._scale_amax, high * self._scale_amax
        return low, high

    def _axes_for(self, inputs: Tensor, amax: Tensor) -> list[int] | None:
        """Return the kept axes: the quantizer's own, unless the user gave an amax that broadcasts along
        others."""
        own, seen = ops.positive_axes(self._axis, inputs.dim()), ops.broadcast_axes(amax.shape, inputs.dim())
        if amax.dim() == 0:
            return None
        return own if set(seen) <= set(own) or amax.dim() == len(own) else seen

    # ---- printing and loading ----

    def _where(self) -> str:
        return self._name or "TensorQuantizer"

    def extra_repr(self) -> str:
        return _quantizer_state.describe(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        _quantizer_state.complete(self)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        _quantizer_state.make_room(self, state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *args)


def name_quantizers(model: nn.Module) -> None:
    """Give every quantizer of `model` its module path, for messages."""
    for name, module in model.named_modules():
        if isinstance(module, TensorQuantizer):
            module._name = name
