"""Switches of a `TensorQuantizer`: pass, collect, clip, quantize; and of the class: export."""

from __future__ import annotations

from typing import Any

from torch import nn

from intact.errors import QuantValueError
from intact.torch.nn.modules.clip import Clip

_state = {"on": False}


def set_switch(on: bool) -> None:
    """Set the switch."""
    _state["on"] = bool(on)


def is_on() -> bool:
    """Return the setting of the switch."""
    return _state["on"]


class ExportSwitch(type(nn.Module)):  # type: ignore[misc]
    """Metaclass whose `use_fb_fake_quant` and `_enable_onnx_export` read and write one switch."""

    @property
    def _enable_onnx_export(cls) -> bool:
        return is_on()

    @_enable_onnx_export.setter
    def _enable_onnx_export(cls, value: bool) -> None:
        set_switch(value)

    @property
    def use_fb_fake_quant(cls) -> bool:
        return is_on()

    @use_fb_fake_quant.setter
    def use_fb_fake_quant(cls, value: bool) -> None:
        set_switch(value)


class Switches:
    """The switches of a `TensorQuantizer`, which has the attributes that they set."""

    clip: Clip
    _calibrator: Any  # a `_Calibrator`, or None
    _learn_amax: bool | str
    _disabled: bool
    _if_quant: bool
    _if_clip: bool
    _if_calib: bool

    def _where(self) -> str:
        """Return its name, for messages."""
        raise NotImplementedError

    @property
    def _enable_onnx_export(self) -> bool:
        """The one export switch, which is the class's; scripts read and set it on a quantizer, too."""
        return is_on()

    @_enable_onnx_export.setter
    def _enable_onnx_export(self, value: bool) -> None:
        set_switch(value)

    def enable(self) -> None:
        """Let the quantizer act again."""
        self._disabled = False

    def disable(self) -> None:
        """Pass every tensor through."""
        self._disabled = True

    def enable_quant(self) -> None:
        """Quantize."""
        self._if_quant = True

    def disable_quant(self) -> None:
        """Do not quantize."""
        self._if_quant = False

    def enable_calib(self) -> None:
        """Show tensors to the calibrator."""
        if self._calibrator is None:
            raise QuantValueError(
                self._where(), "no calibrator", "a calibrator for enable_calib", "choose a calib_method"
            )
        self._if_calib = True

    def disable_calib(self) -> None:
        """Stop showing tensors to the calibrator."""
        self._if_calib = False

    def enable_clip(self) -> None:
        """Clip to the learned range, and learn it."""
        self._need_clip("enable_clip")
        self._if_clip = True
        self.clip.clip_value_min.requires_grad_(True)
        self.clip.clip_value_max.requires_grad_(True)

    def disable_clip(self) -> None:
        """Stop learning the range."""
        self._need_clip("disable_clip")
        self._if_clip = False
        self.clip.clip_value_min.requires_grad_(False)
        self.clip.clip_value_max.requires_grad_(False)

    def _need_clip(self, action: str) -> None:
        if self._learn_amax is not True:
            raise QuantValueError(
                self._where(),
                f"{action} with learn_amax={self._learn_amax!r}",
                "a quantizer with a learned clip",
                "build it from QuantDescriptor(learn_amax=True)",
            )
