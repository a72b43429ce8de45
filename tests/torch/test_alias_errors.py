"""Under the old library's name: its errors, options of older torch, and opsets that are too old."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import intact.torch
from intact.torch import nn as quant_nn
from intact.torch import tensor_quant
from intact.torch.nn import functional as F
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer


@pytest.fixture
def alias_package() -> Iterator[None]:
    intact.torch.alias()
    yield
    for name in [n for n in sys.modules if n.split(".")[0] == "pytorch_quantization"]:
        del sys.modules[name]


def test_e5m2_is_a_format_of_ours_alone(alias_package) -> None:
    with pytest.raises(TypeError, match=r"\(4, 3\)"):
        tensor_quant.QuantDescriptor(num_bits=(5, 2))
    with pytest.raises(TypeError, match=r"got E=5, M=2, want E=4, M=3\."):
        tensor_quant.scaled_e4m3(torch.ones(2), None, 5, 2)
    assert tensor_quant.QuantDescriptor(num_bits=(4, 3)).num_bits == (4, 3)
    del sys.modules["pytorch_quantization"]
    assert tensor_quant.QuantDescriptor(num_bits=(5, 2)).num_bits == (5, 2)


@pytest.mark.parametrize(
    "bound", [torch.tensor(0.3), torch.zeros(2), np.zeros(2)], ids=["0-d", "1-d", "array"]
)
def test_learned_bounds_of_clip_are_numbers(alias_package, bound) -> None:
    for learned in ({"learn_min": True}, {"learn_max": True}):
        with pytest.raises(ValueError, match="must be scalar"):
            quant_nn.Clip(bound, bound, **learned)
    assert quant_nn.Clip(bound, bound).clip_value_min.requires_grad is False
    assert quant_nn.Clip(0.3, 0.7, learn_min=True).clip_value_min.requires_grad


def test_bounds_that_broadcast_cannot_be_learned(alias_package) -> None:
    x, high = torch.ones(3, 7, requires_grad=True), torch.full((3, 1), 2.0)
    F.clip(x, torch.zeros(3, 1), high).sum().backward()
    assert (x.grad == 1).all()
    learned = F.clip(x, torch.zeros(3, 1, requires_grad=True), high)
    with pytest.raises(ValueError, match="can only be scalar"):
        learned.sum().backward()


def quantized_linear(bits: object, axis: int | None) -> nn.Module:
    layer = quant_nn.QuantLinear(
        4, 4, quant_desc_input=tensor_quant.QuantDescriptor(num_bits=bits, amax=1.0),
        quant_desc_weight=tensor_quant.QuantDescriptor(num_bits=bits, axis=axis),
    )  # fmt: skip
    amax = layer.weight.detach().abs().amax(None if axis is None else (1,), keepdim=axis is not None)
    layer._weight_quantizer.amax = amax
    return layer.eval()


def opset_of(data: io.BytesIO) -> int:
    model = onnx.load_from_string(data.getvalue())
    onnx.checker.check_model(model)
    return {entry.domain: entry.version for entry in model.opset_import}[""]


@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize(
    ("bits", "axis", "requested_axis", "written"),
    [(8, 0, 10, 13), ((4, 3), None, 17, 19), (16, None, 13, 21), (4, None, 13, 21)],
    ids=["channels", "fp8", "int16", "int4"],
)
def test_an_opset_that_is_too_old_becomes_the_oldest_that_holds_the_pairs(
    dynamo: bool, bits: object, axis: int | None, requested_axis: int, written: int
) -> None:
    data = io.BytesIO()
    with pytest.warns(UserWarning, match=f"opset_version={requested_axis} is too old.*opset {written}"):
        torch.onnx.export(
            quantized_linear(bits, axis), torch.ones(2, 4), data, opset_version=requested_axis, dynamo=dynamo,
            enable_onnx_checker=False,
        )  # fmt: skip
    assert opset_of(data) == written


def test_an_opset_that_holds_the_pairs_stays() -> None:
    for axis, expected_line in ((None, 10), (0, 13)):
        data = io.BytesIO()
        torch.onnx.export(
            quantized_linear(8, axis), torch.ones(2, 4), data, opset_version=expected_line, dynamo=False
        )
        assert opset_of(data) == expected_line


@pytest.mark.filterwarnings("ignore")  # torch says that its own functions are old
def test_a_traced_module_gets_the_opset_of_its_pairs() -> None:
    traced = torch.jit.trace(quantized_linear(8, 0), torch.ones(2, 4))
    data = io.BytesIO()
    with pytest.warns(UserWarning, match="so the file has opset 13"):
        torch.onnx.export(traced, (torch.ones(2, 4),), data, opset_version=11, dynamo=False)
    assert opset_of(data) == 13


def test_disabled_quantizers_ask_for_no_opset() -> None:
    layer = quantized_linear(8, 0)
    for module in layer.modules():
        if isinstance(module, TensorQuantizer):
            module.disable()
    data = io.BytesIO()
    torch.onnx.export(layer, torch.ones(2, 4), data, opset_version=10, dynamo=False)
    assert opset_of(data) == 10


@pytest.mark.filterwarnings("ignore")  # torch says that its own functions are old
def test_options_of_older_torch_are_taken_under_the_old_name_alone(alias_package) -> None:
    data = io.BytesIO()
    options = {"enable_onnx_checker": False, "use_external_data_format": False}
    torch.onnx.export(quantized_linear(8, None), torch.ones(2, 4), data, **options)
    torch.onnx.export(nn.Linear(4, 4).eval(), torch.ones(2, 4), io.BytesIO(), dynamo=False, **options)
    del sys.modules["pytorch_quantization"]
    with pytest.raises(TypeError, match="enable_onnx_checker"):
        torch.onnx.export(nn.Linear(4, 4), torch.ones(2, 4), io.BytesIO(), **options)
