"""The export switch of `TensorQuantizer`: one state under the two names that scripts know."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

_state = {"on": False}
_followers: list[Callable[[bool], None]] = []


def follow(switched: Callable[[bool], None]) -> None:
    """Call `switched` with what the switch is set to, whenever it is: `intact.torch.onnx_ops` does."""
    _followers.append(switched)


class ExportSwitch(type(nn.Module)):  # type: ignore[misc]
    """Metaclass whose `use_fb_fake_quant` and `_enable_onnx_export` read and write one switch.

    While it is on, `torch.onnx.export` writes QuantizeLinear/DequantizeLinear pairs, see
    `intact.torch.onnx_ops`.
    """

    @property
    def _enable_onnx_export(cls) -> bool:
        return _state["on"]

    @_enable_onnx_export.setter
    def _enable_onnx_export(cls, value: bool) -> None:
        for switched in _followers:
            switched(bool(value))
        _state["on"] = bool(value)

    @property
    def use_fb_fake_quant(cls) -> bool:
        return _state["on"]

    @use_fb_fake_quant.setter
    def use_fb_fake_quant(cls, value: bool) -> None:
        cls._enable_onnx_export = value
