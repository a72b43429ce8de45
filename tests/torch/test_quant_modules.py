"""`initialize` and `deactivate`: torch.nn's names, patched and restored; the export switch."""

from __future__ import annotations

import types

import pytest
import torch
from torch import nn

from intact.errors import QuantValueError
from intact.torch import nn as quant_nn
from intact.torch import quant_modules

REPLACED = [
    *(
        f"{family}{d}d"
        for family in ("Conv", "ConvTranspose", "AvgPool", "AdaptiveAvgPool")
        for d in (1, 2, 3)
    ),
    *("Linear", "LSTM", "LSTMCell"),
]
FLOAT = {name: getattr(nn, name) for name in [*REPLACED, "MaxPool2d", "InstanceNorm2d", "GRU"]}


@pytest.fixture(autouse=True)
def _restore():
    yield
    quant_modules.deactivate()
    assert {name: getattr(nn, name) for name in FLOAT} == FLOAT


def names_of_patched_layers() -> set[str]:
    return {name for name, cls in FLOAT.items() if getattr(nn, name) is not cls}


def test_default_map():
    quant_modules.initialize()
    assert names_of_patched_layers() == set(REPLACED)
    assert all(getattr(nn, name) is getattr(quant_nn, f"Quant{name}") for name in REPLACED)
    assert {entry.mod_name for entry in quant_modules._DEFAULT_QUANT_MAP} == set(REPLACED)
    assert all(entry.orig_mod is torch.nn for entry in quant_modules._DEFAULT_QUANT_MAP)


def test_models_built_while_patched_are_quantized():
    quant_modules.initialize()
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    quant_modules.deactivate()
    assert [type(m).__name__ for m in model] == [
        "QuantConv2d",
        "QuantAdaptiveAvgPool2d",
        "Flatten",
        "QuantLinear",
    ]
    assert model(torch.randn(1, 3, 6, 6)).shape == (1, 2)
    assert type(nn.Linear(1, 1)) is FLOAT["Linear"]


def test_float_module_list():
    quant_modules.initialize(float_module_list=["Linear", "LSTM"])
    assert names_of_patched_layers() == set(REPLACED) - {"Linear", "LSTM"}


def test_custom_quant_modules():
    mine = types.SimpleNamespace(Layer=nn.Identity)
    custom = [(nn, "GRU", quant_nn.QuantGRU), (mine, "Layer", quant_nn.QuantLinear)]
    quant_modules.initialize(custom_quant_modules=custom)
    assert nn.GRU is quant_nn.QuantGRU
    assert mine.Layer is quant_nn.QuantLinear
    quant_modules.deactivate()
    assert mine.Layer is nn.Identity


def test_initialize_twice_and_deactivate_twice():
    quant_modules.initialize()
    quant_modules.initialize(float_module_list=["Conv2d"])
    assert names_of_patched_layers() == set(REPLACED) - {"Conv2d"}
    quant_modules.deactivate()
    quant_modules.deactivate()
    assert names_of_patched_layers() == set()


def test_a_custom_entry_may_replace_a_default_one():
    class Mine(quant_nn.QuantLinear):
        pass

    quant_modules.initialize(custom_quant_modules=[(nn, "Linear", Mine)])
    assert nn.Linear is Mine
    quant_modules.deactivate()
    assert nn.Linear is FLOAT["Linear"]


def test_the_helper_object_has_the_steps_apart():
    helper = quant_modules._quant_module_helper_object
    assert isinstance(helper, quant_modules.QuantModuleReplacementHelper)
    helper.prepare_state(float_module_list=["Linear"])
    assert names_of_patched_layers() == set()
    helper.apply_quant_modules()
    assert names_of_patched_layers() == set(REPLACED) - {"Linear"}
    helper.restore_float_modules()
    assert names_of_patched_layers() == set()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"float_module_list": ["Linaer"]}, r"float_module_list: got \['Linaer'\]"),
        ({"custom_quant_modules": [(nn, "Gru", quant_nn.QuantGRU)]}, "custom_quant_modules: got .*'Gru'"),
        ({"custom_quant_modules": [(nn, "GRU")]}, "custom_quant_modules: got "),
        ({"custom_quant_modules": [(nn, "GRU", "QuantGRU")]}, "replacement class"),
    ],
    ids=["misspelt name", "no such class", "pair", "no class"],
)
def test_bad_arguments_change_nothing(kwargs, message):
    with pytest.raises(QuantValueError, match=message):
        quant_modules.initialize(**kwargs)
    assert names_of_patched_layers() == set()


def test_export_switch_is_restored_after_an_error():
    switch = quant_nn.TensorQuantizer
    assert switch._enable_onnx_export is False
    with pytest.raises(RuntimeError, match="inside"), quant_modules.enable_onnx_export():
        assert switch._enable_onnx_export is True
        raise RuntimeError("inside")
    assert switch._enable_onnx_export is False


def test_export_switch_goes_back_to_what_it_was():
    switch = quant_nn.TensorQuantizer
    switch.use_fb_fake_quant = True
    try:
        with quant_modules.enable_onnx_export():
            assert switch.use_fb_fake_quant is True
        assert switch._enable_onnx_export is True
    finally:
        switch.use_fb_fake_quant = False


def test_a_custom_entry_counts_although_its_name_stays_float():
    quant_modules.initialize(["Linear"], [(torch.nn, "Linear", quant_nn.QuantLinear)])
    assert nn.Linear is quant_nn.QuantLinear


def test_an_entry_of_ones_own_in_the_default_map():
    class QuantSpecial(quant_nn.QuantLinear):
        pass

    module = types.ModuleType("special")
    module.Special = nn.Linear
    entry = quant_modules._quant_entry(module, "Special", QuantSpecial)
    quant_modules._DEFAULT_QUANT_MAP.append(entry)
    try:
        quant_modules.initialize()
        assert module.Special is QuantSpecial
        originals = quant_modules._quant_module_helper_object.orginal_func_map
        assert (module, "Special", FLOAT["Linear"]) in originals
    finally:
        quant_modules._DEFAULT_QUANT_MAP.remove(entry)
    quant_modules.deactivate()
    assert module.Special is FLOAT["Linear"]
