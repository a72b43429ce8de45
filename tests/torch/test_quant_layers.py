"""Convolutions, linear, pools and instance norms: the float function of fake-quantized operands, exactly."""

from __future__ import annotations

import copy
import inspect

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from intact import numerics
from intact.errors import QuantValueError, UnsupportedError
from intact.spec import INT8, QuantSpec
from intact.torch import nn as quant_nn
from intact.torch import tensor_quant
from intact.torch.nn.modules import _utils, quant_conv
from intact.torch.tensor_quant import QuantDescriptor

LAYERS = {
    "Conv1d": ((4, 6, 3), {"groups": 2, "padding": 1}, (2, 4, 9)),
    "Conv2d": ((4, 6, 3), {"groups": 2, "stride": 2, "padding": 1}, (2, 4, 9, 8)),
    "Conv3d": ((2, 3, 2), {"bias": False}, (1, 2, 4, 5, 3)),
    "ConvTranspose1d": ((4, 6, 3), {"groups": 2, "stride": 2}, (2, 4, 9)),
    "ConvTranspose2d": ((4, 6, 3), {"groups": 2, "dilation": 2, "output_padding": 1}, (2, 4, 5, 6)),
    "ConvTranspose3d": ((2, 3, 2), {"bias": False}, (1, 2, 3, 4, 3)),
    "Linear": ((5, 7), {}, (3, 2, 5)),
}
INPUT_ONLY = {
    **{f"MaxPool{d}d": ((2,), {"padding": 1}, (2, 3, 9, 8, 7)[: 2 + d]) for d in (1, 2, 3)},
    **{f"AvgPool{d}d": ((3, 2), {"ceil_mode": True}, (2, 3, 9, 8, 7)[: 2 + d]) for d in (1, 2, 3)},
    **{f"AdaptiveAvgPool{d}d": ((2,), {}, (2, 3, 9, 8, 7)[: 2 + d]) for d in (1, 2, 3)},
    **{f"InstanceNorm{d}d": ((3,), {"affine": True}, (2, 3, 9, 8, 7)[: 2 + d]) for d in (1, 2, 3)},
}
WEIGHT_AXIS = {name: 1 if "Transpose" in name else 0 for name in LAYERS}


def fake_quantize_int8(x: torch.Tensor, axis: int | None = None) -> torch.Tensor:
    """`x` fake-quantized to int8 with the range of its own values, by numerics."""
    array, spec = x.detach().numpy(), QuantSpec(INT8, axis=axis)
    scale = numerics.scale_from_amax(numerics.absmax(array, axis), spec)
    return torch.from_numpy(numerics.fake_quantize(array, scale, 0, spec))


def build(name: str, cases: dict) -> tuple[nn.Module, nn.Module, torch.Tensor]:
    """The quantized module, a float one with the same parameters, and an input."""
    args, kwargs, shape = cases[name]
    module = getattr(quant_nn, f"Quant{name}")(*args, **kwargs)
    twin = getattr(nn, name)(*args, **kwargs)
    twin.load_state_dict(module.state_dict())  # the keys are the same
    return module, twin, torch.randn(shape)


@pytest.mark.parametrize("name", LAYERS)
def test_layer_is_the_float_layer_of_quantized_operands(name):
    module, twin, x = build(name, LAYERS)
    with torch.no_grad():
        twin.weight.copy_(fake_quantize_int8(module.weight, WEIGHT_AXIS[name]))
    assert torch.equal(module(x), twin(fake_quantize_int8(x)))


@pytest.mark.parametrize("name", INPUT_ONLY)
def test_module_without_weights_is_the_float_module_of_a_quantized_input(name):
    module, twin, x = build(name, INPUT_ONLY)
    assert torch.equal(module(x), twin(fake_quantize_int8(x)))


@pytest.mark.parametrize("name", [*LAYERS, *INPUT_ONLY])
def test_disabled_quantizers_leave_the_float_module(name):
    module, twin, x = build(name, LAYERS | INPUT_ONLY)
    for child in module.children():
        child.disable()
    assert torch.equal(module(x), twin(x))


@pytest.mark.parametrize("name", LAYERS)
def test_weight_codes(name):
    module, _, _ = build(name, LAYERS)
    axis = WEIGHT_AXIS[name]
    weight, spec = module.weight.detach().numpy(), QuantSpec(INT8, axis=axis)
    scale = numerics.scale_from_amax(numerics.absmax(weight, axis), spec)
    codes = numerics.quantize(weight, scale, 0, spec)
    quantized_weight = module.weight_quantizer(module.weight).detach().numpy()
    np.testing.assert_array_equal(numerics.quantize(quantized_weight, scale, 0, spec), codes)
    assert np.abs(codes).max() == 127
    assert module.quantized_weights().keys() == {"weight"}
    assert torch.equal(module.quantized_weights()["weight"], torch.from_numpy(quantized_weight))


@pytest.mark.parametrize("name", LAYERS)
def test_calibrated_amax_has_one_range_per_index_of_the_axis(name):
    module, _, x = build(name, LAYERS)
    for quantizer in (module.input_quantizer, module.weight_quantizer):
        quantizer.enable_calib()
        quantizer.disable_quant()
    module(x)
    for quantizer in (module.input_quantizer, module.weight_quantizer):
        quantizer.load_calib_amax()
        quantizer.enable_quant()
    want = [1] * module.weight.dim()
    want[WEIGHT_AXIS[name]] = module.weight.shape[WEIGHT_AXIS[name]]
    assert list(module.weight_quantizer.amax.shape) == want
    assert module.input_quantizer.amax.shape == ()
    keys = set(module.state_dict())
    assert {"weight", "_input_quantizer._amax", "_weight_quantizer._amax"} <= keys
    twin = copy.deepcopy(module)
    assert torch.equal(twin(x), module(x))
    fresh = build(name, LAYERS)[0]
    fresh.load_state_dict(module.state_dict())
    assert torch.equal(fresh(x), module(x))


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_pass_straight_through(name):
    module, twin, x = build(name, LAYERS)
    x.requires_grad_()
    y = module(x)
    grad = torch.randn_like(y)
    y.backward(grad)
    with torch.no_grad():
        twin.weight.copy_(fake_quantize_int8(module.weight, WEIGHT_AXIS[name]))
    z = fake_quantize_int8(x).requires_grad_()
    twin(z).backward(grad)
    torch.testing.assert_close(x.grad, z.grad)  # every |x| <= amax: the mask is all ones
    torch.testing.assert_close(module.weight.grad, twin.weight.grad)


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("name", ["Conv1d", "Conv2d", "Conv3d"])
def test_padding_pads_the_quantized_input(name, mode):
    dims = int(name[4])
    kwargs = {"padding": tuple(range(1, dims + 1)), "padding_mode": mode}
    module = getattr(quant_nn, name)(2, 3, 3, **kwargs)
    twin = getattr(nn, name)(2, 3, 3, **kwargs)
    with torch.no_grad():
        twin.weight.copy_(fake_quantize_int8(module.weight, 0))
        twin.bias.copy_(module.bias)
    x = torch.randn((1, 2, 6, 7, 8)[: 2 + dims])
    assert torch.equal(module(x), twin(fake_quantize_int8(x)))


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_padding_by_name(padding):
    module = quant_nn.QuantConv2d(2, 3, 3, padding=padding)
    x = torch.randn(1, 2, 6, 7)
    want = F.conv2d(fake_quantize_int8(x), fake_quantize_int8(module.weight, 0), module.bias, padding=padding)
    assert torch.equal(module(x), want)


def test_transposed_convolution_output_size():
    down = nn.Conv2d(4, 4, 3, stride=2, padding=1)
    up = quant_nn.QuantConvTranspose2d(4, 4, 3, stride=2, padding=1)
    x = torch.randn(1, 4, 12, 12)
    h = down(x)
    assert up(h).shape[2:] == (11, 11)
    assert up(h, output_size=x.shape).shape == x.shape
    with pytest.raises(ValueError, match="requested an output size"):
        up(h, output_size=(30, 30))


def test_transposed_convolution_pads_with_zeros_only():
    with pytest.raises(ValueError, match="zeros"):
        quant_nn.QuantConvTranspose2d(2, 2, 3, padding_mode="reflect")


def test_groups_of_a_transposed_convolution_share_the_range_of_an_index():
    module = quant_nn.QuantConvTranspose1d(4, 6, 1, groups=2, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.arange(12.0).reshape(4, 3, 1))
    quantized_weight = module.weight_quantizer(module.weight).detach()
    amax = torch.tensor([9.0, 10.0, 11.0]).reshape(1, 3, 1)  # over the inputs of both groups
    want = tensor_quant.legacy_fake_tensor_quant(module.weight.detach(), amax)
    assert torch.equal(quantized_weight, want)


def test_float64_and_half_keep_their_dtype():
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        module = quant_nn.QuantLinear(4, 3, dtype=dtype)
        assert module(torch.randn(2, 4, dtype=dtype)).dtype == dtype


def test_a_name_without_quant_is_the_same_class():
    for name in [
        *LAYERS,
        "MaxPool2d",
        "AvgPool1d",
        "AdaptiveAvgPool3d",
        "LSTM",
        "LSTMCell",
        "GRU",
        "GRUCell",
    ]:
        assert getattr(quant_nn, name) is getattr(quant_nn, f"Quant{name}")
    assert not hasattr(quant_nn, "InstanceNorm2d")


def test_exported_names_are_classes_in_their_place():
    for name in quant_nn.__all__:
        value = getattr(quant_nn, name)
        assert inspect.isclass(value)
        assert getattr(inspect.getmodule(value), value.__name__) is value


def test_default_descriptors_belong_to_one_class():
    classes = [value for value in vars(quant_nn).values() if isinstance(value, type)]
    classes = [cls for cls in classes if issubclass(cls, _utils.QuantizedModule)]
    before = {cls: cls.default_quant_desc_input for cls in classes}
    desc = QuantDescriptor(num_bits=4, calib_method="histogram")
    try:
        quant_nn.QuantConv2d.set_default_quant_desc_input(desc)
        changed = [cls for cls in classes if cls.default_quant_desc_input is not before[cls]]
        assert set(changed) == {quant_nn.QuantConv2d}
        assert quant_nn.QuantConv2d(1, 1, 1).input_quantizer.num_bits == 4
        assert quant_nn.QuantConv1d(1, 1, 1).input_quantizer.num_bits == 8
    finally:
        quant_nn.QuantConv2d.set_default_quant_desc_input(before[quant_nn.QuantConv2d])
    weight = quant_nn.QuantLinear.default_quant_desc_weight
    try:
        quant_nn.QuantLinear.set_default_quant_desc_weight(desc)
        assert quant_nn.QuantLinear(2, 2).weight_quantizer.num_bits == 4
        assert quant_nn.QuantConv2d(1, 1, 1).weight_quantizer.num_bits == 8
    finally:
        quant_nn.QuantLinear.set_default_quant_desc_weight(weight)


def test_repr_names_both_quantizers():
    text = repr(quant_nn.QuantConv2d(3, 64, 7))
    assert text.startswith("QuantConv2d(\n  3, 64, kernel_size=(7, 7), stride=(1, 1)\n")
    assert "(_input_quantizer): TensorQuantizer(8bit fake per-tensor amax=dynamic" in text
    assert "(_weight_quantizer): TensorQuantizer(8bit fake axis=(0) amax=dynamic" in text


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: quant_nn.QuantConv2d(1, 1, 1, quant_desc=None),
            "QuantConv2d: got Unused keys: ['quant_desc']",
        ),
        (lambda: quant_nn.QuantLSTM(2, 3, bits=4), "QuantLSTM: got Unused keys: ['bits']"),
        (
            lambda: quant_nn.QuantMaxPool2d(2, quant_desc_weight=QuantDescriptor()),
            "QuantMaxPool2d: got Unused keys: ['quant_desc_weight']",
        ),
    ],
    ids=["conv", "lstm", "pool"],
)
def test_unknown_keys_are_refused(build, message):
    with pytest.raises(UnsupportedError, match="Unused keys") as caught:
        build()
    assert isinstance(caught.value, TypeError)
    assert str(caught.value).startswith(message)


def test_only_fake_quantization_is_supported():
    with pytest.raises(QuantValueError, match="Only fake quantization is supported!") as caught:
        quant_nn.QuantLinear(2, 2, quant_desc_weight=QuantDescriptor(fake_quant=False))
    assert isinstance(caught.value, ValueError)
    assert caught.value.where == "QuantLinear"


@pytest.mark.parametrize(
    "call",
    [
        lambda: quant_nn.QuantLinear(2, 2, quant_desc_input=8),
        lambda: quant_nn.QuantLinear.set_default_quant_desc_input("int8"),
        lambda: quant_nn.QuantLinear.set_default_quant_desc_weight(None),
    ],
    ids=["argument", "input default", "weight default"],
)
def test_what_is_no_descriptor_is_refused(call):
    with pytest.raises(QuantValueError, match="is not an instance of QuantDescriptor"):
        call()


def test_a_subclass_with_a_constructor_of_its_own():
    class Stem(quant_nn.QuantConv2d):
        def __init__(self, width):
            super().__init__(3, width, 3, padding=1)

    module = Stem(4)
    assert module(torch.randn(1, 3, 5, 5)).shape == (1, 4, 5, 5)
    assert module.input_quantizer.num_bits == 8


def test_works_under_compile_and_autocast():
    module = quant_nn.QuantConv2d(2, 3, 3)
    x = torch.randn(1, 2, 6, 6)
    torch.testing.assert_close(torch.compile(module, backend="eager", fullgraph=True)(x), module(x))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert module(x).dtype == torch.bfloat16


@pytest.mark.parametrize(
    "name", ["QuantConv2d", "QuantLinear", "QuantMaxPool2d", "QuantInstanceNorm1d", "QuantLSTM"]
)
def test_signatures_are_those_of_the_float_classes(name):
    shown = inspect.signature(getattr(quant_nn, name).__init__).parameters
    base = nn.RNNBase if name == "QuantLSTM" else getattr(nn, name.removeprefix("Quant"))
    floats = set(inspect.signature(base.__init__).parameters) - {"device", "dtype", "mode"}
    assert floats <= set(shown) and set(shown) - floats == {"kwargs"}
    assert list(shown)[:2] == [
        "self",
        list(inspect.signature(base.__init__).parameters)[1 + (name == "QuantLSTM")],
    ]


def test_the_two_mix_ins_are_told_apart():
    conv, pool = quant_nn.QuantConv2d(3, 4, 1), quant_nn.QuantMaxPool2d(2)
    assert isinstance(conv, _utils.QuantMixin) and not isinstance(conv, _utils.QuantInputMixin)
    assert isinstance(pool, _utils.QuantInputMixin) and not isinstance(pool, _utils.QuantMixin)
    assert isinstance(conv, quant_conv._QuantConvNd)
