"""The export switch of `TensorQuantizer`: one state under the two names that scripts know."""

from __future__ import annotations

from torch import nn

_state = {"on": False}


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
        from intact.torch.onnx_ops import set_export_switch

        set_export_switch(bool(value))
        _state["on"] = bool(value)

    @property
    def use_fb_fake_quant(cls) -> bool:
        return _state["on"]

    @use_fb_fake_quant.setter
    def use_fb_fake_quant(cls, value: bool) -> None:
        cls._enable_onnx_export = value
