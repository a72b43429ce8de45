"""Modules of a built model become quantized: what stays, what is left and why, and what is refused."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from intact.errors import QuantValueError, UnsupportedError
from intact.torch import nn as quant_nn
from intact.torch import quant_modules
from intact.torch.checkpoint import load_checkpoint, save_checkpoint
from intact.torch.module_replacement import apply_conversion, conversion_record, replace_modules
from intact.torch.nn.modules import _utils
from intact.torch.tensor_quant import QuantDescriptor


class MyConv(nn.Conv2d):
    """Whatever its forward does, it is its own."""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.own = MyConv(4, 4, 1)
        self.blocks = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.AvgPool2d(2))
        self.table = nn.Embedding(3, 4)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        x = self.blocks(self.own(self.conv(x))).mean((2, 3))
        return self.fc(x + self.table.weight[0])


@pytest.fixture
def net() -> Net:
    return Net().eval()


def test_report_and_default_choice(net):
    report = replace_modules(net)
    assert report.model is net
    assert report.replaced == {
        "conv": "QuantConv2d",
        "blocks.0": "QuantConv2d",
        "blocks.3": "QuantAvgPool2d",
        "fc": "QuantLinear",
    }
    assert report.left == {
        "own": "MyConv is a subclass of Conv2d; name its quantized class in custom",
        "table": "Embedding has no quantized class",
    }
    assert str(report).splitlines() == [
        "4 modules replaced, 2 left",
        "  conv: QuantConv2d",
        "  blocks.0: QuantConv2d",
        "  blocks.3: QuantAvgPool2d",
        "  fc: QuantLinear",
        "  own: left, MyConv is a subclass of Conv2d; name its quantized class in custom",
        "  table: left, Embedding has no quantized class",
    ]


def test_the_model_keeps_its_objects_and_its_state(net):
    x, before = torch.randn(2, 3, 12, 12), copy.deepcopy(net)
    objects, parameters, keys = list(net.modules()), list(net.parameters()), list(net.state_dict())
    replace_modules(net)
    assert [m for m in net.modules() if not isinstance(m, quant_nn.TensorQuantizer)] == objects
    assert all(a is b for a, b in zip(net.parameters(), parameters, strict=True))
    assert list(net.state_dict()) == keys
    assert not torch.equal(net(x), before(x))
    torch.testing.assert_close(net(x), before(x), rtol=0.1, atol=0.1)
    for module in net.modules():
        if isinstance(module, quant_nn.TensorQuantizer):
            module.disable()
    assert torch.equal(net(x), before(x))


def test_training_mode_and_dtype_stay():
    for training in (True, False):
        module = nn.Sequential(nn.Linear(3, 2, dtype=torch.float64)).train(training)
        replace_modules(module, quant_desc_input=QuantDescriptor(amax=1.0))
        assert all(m.training == training for m in module.modules())
        assert module(torch.zeros(1, 3, dtype=torch.float64)).dtype == torch.float64


def test_quantizers_are_on_the_device_of_the_module():
    module = nn.Sequential(nn.Linear(3, 2, device="meta"), nn.AvgPool1d(2))
    replace_modules(module, quant_desc_input=QuantDescriptor(amax=1.0))
    assert {b.device.type for b in module.buffers()} == {"meta"}


def test_hooks_and_weight_norm_stay():
    module = nn.Sequential(nn.Linear(3, 2), parametrizations.weight_norm(nn.Linear(2, 2)))
    seen = []
    module[0].register_forward_hook(lambda m, args, out: seen.append(type(m).__name__))
    replace_modules(module, exclude="1")
    module(torch.randn(1, 3))
    assert seen == ["QuantLinear"]


def test_shared_modules_and_parameters_stay_shared():
    shared = nn.Linear(3, 3)
    tied = nn.Linear(3, 3)
    tied.weight = shared.weight
    module = nn.ModuleDict({"a": shared, "b": shared, "tied": tied})
    report = replace_modules(module)
    assert list(report.replaced) == ["a", "tied"]
    assert module["a"] is module["b"]
    assert module["tied"].weight is module["a"].weight
    # Every name of a module counts: to exclude one is to exclude it.
    module = nn.ModuleDict({"a": nn.Linear(3, 3)})
    module["b"] = module["a"]
    assert replace_modules(module, exclude="b").left == {"a": "excluded by 'b'"}


def test_the_model_itself():
    module = nn.Linear(3, 2)
    report = replace_modules(module)
    assert report.replaced == {"": "QuantLinear"}
    assert type(module) is quant_nn.QuantLinear
    assert "(the model itself): QuantLinear" in str(report)


def test_out_of_place_leaves_the_model_alone(net):
    report = replace_modules(net, inplace=False)
    assert report.model is not net
    assert type(net.fc) is nn.Linear
    assert type(report.model.fc) is quant_nn.QuantLinear


@pytest.mark.parametrize(
    ("include", "exclude", "replaced"),
    [
        ("blocks", None, ["blocks.0", "blocks.3"]),
        (["conv", "fc"], None, ["conv", "fc"]),
        ("*.0", None, ["blocks.0"]),
        (None, "blocks", ["conv", "fc"]),
        ("blocks", "blocks.3", ["blocks.0"]),
        ("[cf]*", "conv", ["fc"]),
        ("*", None, ["conv", "blocks.0", "blocks.3", "fc"]),
    ],
)
def test_patterns(net, include, exclude, replaced):
    assert list(replace_modules(net, include, exclude).replaced) == replaced


def test_patterns_give_reasons(net):
    left = replace_modules(net, include=["blocks", "fc"], exclude="f?").left
    assert left["conv"] == "not in include"
    assert left["fc"] == "excluded by 'f?'"


def test_a_pattern_that_matches_nothing_is_refused(net):
    with pytest.raises(QuantValueError, match="replace_modules exclude: 'layer9': got no module that fits"):
        replace_modules(net, exclude=["conv", "layer9"])
    assert type(net.conv) is nn.Conv2d
    with pytest.raises(QuantValueError, match="want names or patterns, as strings"):
        replace_modules(net, include=[net.conv])


def test_descriptors_for_every_module(net):
    desc_input, desc_weight = QuantDescriptor(calib_method="histogram"), QuantDescriptor(num_bits=4, axis=0)
    replace_modules(net, quant_desc_input=desc_input, quant_desc_weight=desc_weight)
    assert net.fc.input_quantizer._calibrator is not None
    assert (net.fc.weight_quantizer.num_bits, net.fc.weight_quantizer.axis) == (4, 0)
    assert net.conv.weight_quantizer.num_bits == 4
    for unfit in (8, QuantDescriptor(fake_quant=False)):
        with pytest.raises(QuantValueError, match="a QuantDescriptor with fake_quant=True"):
            replace_modules(Net(), quant_desc_input=unfit)


def test_quantizers_know_their_path(net):
    replace_modules(net, quant_desc_input=QuantDescriptor(num_bits=8, unsigned=True))
    with pytest.raises(TypeError, match=r"conv\._input_quantizer"):
        net(torch.full((1, 3, 12, 12), -1.0))


def test_a_second_call_changes_nothing(net):
    replace_modules(net)
    quantizer = net.conv.input_quantizer
    report = replace_modules(net)
    assert report.replaced == {}
    assert report.left["conv"] == "is quantized already"
    assert net.conv.input_quantizer is quantizer


def test_parametrized_modules_are_refused_before_anything_changes():
    module = nn.Sequential(nn.Linear(3, 3), parametrizations.spectral_norm(nn.Linear(3, 3)))
    with pytest.raises(UnsupportedError, match=r"module '1': got a parametrized Linear \(weight\)") as caught:
        replace_modules(module)
    assert "remove_parametrizations" in caught.value.fix
    assert type(module[0]) is nn.Linear
    report = replace_modules(module, exclude="1")
    assert report.replaced == {"0": "QuantLinear"}
    assert report.left == {"1": "excluded by '1'"}


def test_what_cannot_be_quantized_is_left_with_its_reason():
    module = nn.ModuleDict({"lstm": nn.LSTM(4, 5, proj_size=2), "patched": nn.Linear(2, 2)})
    module["patched"].forward = lambda x: x
    assert replace_modules(module).left == {
        "lstm": "proj_size=2",
        "patched": "its forward was replaced on the instance",
    }


class QuantMyConv(MyConv, _utils.QuantMixin):
    def forward(self, x):
        return self._conv_forward(self._input_quantizer(x), self._weight_quantizer(self.weight), self.bias)


def test_custom_pairs(net):
    custom = {nn.MaxPool2d: quant_nn.QuantMaxPool2d, MyConv: QuantMyConv}
    report = replace_modules(net, custom=custom)
    assert report.replaced["own"] == "QuantMyConv"
    assert report.replaced["blocks.2"] == "QuantMaxPool2d"
    assert net(torch.randn(1, 3, 12, 12)).shape == (1, 2)
    record = conversion_record(net)
    fresh = apply_conversion(Net(), record, custom=custom)
    assert conversion_record(fresh) == record
    with pytest.raises(QuantValueError, match="QuantMyConv' for MyConv"):
        apply_conversion(Net(), record)


def test_custom_class_must_derive_from_the_float_class(net):
    with pytest.raises(UnsupportedError, match=r"custom\[MyConv\]: got QuantConv2d with bases"):
        replace_modules(net, custom={MyConv: quant_nn.QuantConv2d})


def test_fused_transformer_inference_does_not_bypass_the_quantizers():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        before = layer(x)
        report = replace_modules(layer)
        assert report.replaced == {"linear1": "QuantLinear", "linear2": "QuantLinear"}
        assert not torch.equal(layer(x), before)
        for module in (layer.linear1, layer.linear2):
            module.input_quantizer.disable()
            module.weight_quantizer.disable()
        torch.testing.assert_close(layer(x), before)


def test_works_while_torch_nn_is_patched():
    net = Net()
    quant_modules.initialize()
    try:
        assert "conv" in replace_modules(net).replaced
    finally:
        quant_modules.deactivate()


def test_record_is_plain_data_and_round_trips(net):
    net.extra = nn.LSTM(3, 4, num_layers=2)
    replace_modules(net, exclude="fc")
    record = json.loads(json.dumps(conversion_record(net)))
    assert record["conv"] == "QuantConv2d"
    assert record["extra"] == "QuantLSTM"
    assert "fc" not in record
    fresh = Net()
    fresh.extra = nn.LSTM(3, 4, num_layers=2)
    assert apply_conversion(fresh, record) is fresh
    assert conversion_record(fresh) == record
    assert len(fresh.extra._input_quantizers) == 2
    quantizer = fresh.conv.input_quantizer
    apply_conversion(fresh, record)
    assert fresh.conv.input_quantizer is quantizer


def test_checkpoint_converts_recurrent_and_custom_modules(net, tmp_path):
    custom = {MyConv: QuantMyConv}
    model = nn.ModuleDict({"net": net, "lstm": nn.LSTM(3, 4, bidirectional=True)})
    replace_modules(model, custom=custom)
    model["lstm"]._input_quantizers[1].amax = 2.0
    save_checkpoint(model.eval(), tmp_path / "model.safetensors")
    fresh = nn.ModuleDict({"net": Net(), "lstm": nn.LSTM(3, 4, bidirectional=True)}).eval()
    load_checkpoint(fresh, tmp_path / "model.safetensors", custom=custom)
    assert repr(fresh) == repr(model)
    x, sequence = torch.randn(1, 3, 12, 12), torch.randn(2, 1, 3)
    assert torch.equal(fresh["net"](x), model["net"](x))
    assert torch.equal(fresh["lstm"](sequence)[0], model["lstm"](sequence)[0])


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"conv": "os.system"}, "conversion record of 'conv': got 'os.system' for Conv2d"),
        ({"conv": "QuantLinear"}, "conversion record of 'conv': got 'QuantLinear' for Conv2d"),
        ({"conv": ["QuantConv2d"]}, "for Conv2d"),
        ({"fc": "QuantLinear", "head": "QuantLinear"}, "'head': got 'QuantLinear' for no module"),
    ],
    ids=["unknown class", "wrong class", "no name", "no module"],
)
def test_bad_records_are_refused_before_anything_changes(net, record, message):
    with pytest.raises(QuantValueError) as caught:
        apply_conversion(net, record)
    assert message in str(caught.value)
    assert conversion_record(net) == {}
