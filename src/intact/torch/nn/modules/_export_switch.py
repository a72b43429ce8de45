"""The export switch of `TensorQuantizer`: one state under the two names that scripts know.

It says nothing that an export has to know: a model with quantizers is written with pairs whether it is on or
off (`intact.torch.qdq.patch_torch_onnx`).
"""

from __future__ import annotations

from torch import nn

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
