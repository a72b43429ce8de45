"""The guide's own way: `torch.onnx.export`, with and without the export switch."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from intact import numerics
from intact.graph import Session
from intact.spec import QuantSpec
from intact.torch import nn as quant_nn
from intact.torch import quant_modules
from intact.torch.nn import TensorQuantizer
from intact.torch.tensor_quant import QuantDescriptor


@pytest.fixture(autouse=True)
def _switch_off_again() -> Iterator[None]:
    yield
    TensorQuantizer.use_fb_fake_quant = False


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = quant_nn.QuantConv2d(3, 4, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(4)
        self.fc = quant_nn.QuantLinear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.relu(self.bn(self.conv(x))).mean((2, 3)))


def calibrated_net() -> Net:
    model = Net().eval()
    for name, amax in {"conv": 3.0, "fc": 1.0}.items():
        layer = model.get_submodule(name)
        layer.input_quantizer.amax = amax
        layer.weight_quantizer.amax = (
            layer.weight.detach().abs().amax(tuple(range(1, layer.weight.dim())), keepdim=True)
        )
    return model


def check(data: bytes, model: nn.Module, x: Tensor, *, opset: int) -> onnx.ModelProto:
    file = onnx.load_from_string(data)
    onnx.checker.check_model(file, full_check=True)
    assert [(i.domain, i.version) for i in file.opset_import] == [("", opset)]
    ops = [n.op_type for n in file.graph.node]
    assert ops.count("QuantizeLinear") == ops.count("DequantizeLinear") == 4
    session = Session(data)
    got = session.run({session.inputs[0]: x.numpy()})[session.outputs[0]]
    with torch.no_grad():
        np.testing.assert_allclose(got, model(x).numpy(), atol=1e-5)
    return file


@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])
@pytest.mark.parametrize("opset", [13, 17])
def test_the_context_writes_pairs(opset: int, dynamo: bool, tmp_path: Path) -> None:
    model, x, path = calibrated_net(), torch.randn(2, 3, 8, 8), tmp_path / "net.onnx"
    with quant_modules.enable_onnx_export():
        torch.onnx.export(
            model, x, path, opset_version=opset, dynamo=dynamo, input_names=["actual_input_1"],
            output_names=["output1"],
        )  # fmt: skip
    file = check(path.read_bytes(), model, x, opset=opset)
    assert (file.graph.input[0].name, file.graph.output[0].name) == ("actual_input_1", "output1")
    stored = {t.name: numpy_helper.to_array(t) for t in file.graph.initializer}
    np.testing.assert_array_equal(stored["conv.weight"], model.conv.weight.detach().numpy())
    want = numerics.scale_from_amax(model.conv.weight_quantizer.amax.numpy().reshape(-1), QuantSpec("int8"))
    np.testing.assert_array_equal(stored["conv.weight.scale"], want)


def test_the_class_attribute_writes_pairs(tmp_path: Path) -> None:
    model, x, path = calibrated_net(), torch.randn(2, 3, 8, 8), tmp_path / "net.onnx"
    TensorQuantizer.use_fb_fake_quant = True
    program = torch.onnx.export(model, (x,), str(path), opset_version=13)
    check(path.read_bytes(), model, x, opset=13)
    assert program.model.opset_imports[""] == 13


def test_a_buffer_can_be_written_and_no_opset_asked() -> None:
    model, x, buffer = calibrated_net(), torch.randn(2, 3, 8, 8), io.BytesIO()
    with quant_modules.enable_onnx_export():
        torch.onnx.export(model, x, buffer)
    check(buffer.getvalue(), model, x, opset=18)


@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])
def test_missing_ranges_come_from_the_example_with_a_warning(dynamo: bool, tmp_path: Path) -> None:
    model, x, path = Net().eval(), torch.randn(2, 3, 8, 8), tmp_path / "net.onnx"
    with (
        quant_modules.enable_onnx_export(),
        pytest.warns(UserWarning, match=r"conv\._input_quantizer, .* and 1 more: no amax, so it is taken"),
    ):
        torch.onnx.export(model, x, path, opset_version=13, dynamo=dynamo)
    assert not any(hasattr(m, "_amax") for m in model.modules())  # the model is as it was
    for module in model.modules():
        if isinstance(module, TensorQuantizer):
            module.enable_calib()
    model(x)
    for module in model.modules():
        if isinstance(module, TensorQuantizer):
            module.disable_calib()
            module.load_calib_amax()
    check(path.read_bytes(), model, x, opset=13)


def test_a_disabled_quantizer_takes_no_range(tmp_path: Path) -> None:
    model = calibrated_net()
    model.fc = quant_nn.QuantLinear(4, 2)
    model.fc.input_quantizer.disable()
    model.fc.weight_quantizer.disable()
    with quant_modules.enable_onnx_export():
        torch.onnx.export(model, torch.randn(2, 3, 8, 8), tmp_path / "net.onnx", opset_version=13)
    assert not hasattr(model.fc.input_quantizer, "_amax")


@pytest.mark.parametrize("dynamo", [True, False])
def test_scales_per_channel_below_opset_13_are_written_for_13(tmp_path: Path, dynamo: bool) -> None:
    model, x, path = calibrated_net(), torch.randn(2, 3, 8, 8), tmp_path / "net.onnx"
    with pytest.warns(UserWarning, match="opset_version=10 is too old.*so the file has opset 13"):
        torch.onnx.export(model, x, path, opset_version=10, dynamo=dynamo)
    check(path.read_bytes(), model, x, opset=13)


def test_scales_per_tensor_are_written_for_opset_10(tmp_path: Path) -> None:
    desc = QuantDescriptor(amax=1.5)
    model = nn.Sequential(quant_nn.QuantLinear(3, 4, quant_desc_input=desc, quant_desc_weight=desc)).eval()
    torch.onnx.export(model, torch.randn(2, 3), tmp_path / "net.onnx", opset_version=10, dynamo=False)
    proto = onnx.load(tmp_path / "net.onnx")
    assert proto.opset_import[0].version == 10
    assert [n.op_type for n in proto.graph.node].count("QuantizeLinear") == 2


@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])
def test_each_quantizer_has_a_pair_of_its_own_and_no_switch_is_needed(tmp_path: Path, dynamo: bool) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (quant_nn.TensorQuantizer(QuantDescriptor(amax=2.0)) for _ in range(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.first(x).relu() + self.second(x)

    torch.onnx.export(Two().eval(), torch.randn(2, 3), tmp_path / "net.onnx", dynamo=dynamo)
    types = [n.op_type for n in onnx.load(tmp_path / "net.onnx").graph.node]
    assert types.count("QuantizeLinear") == types.count("DequantizeLinear") == 2


def test_an_error_leaves_the_switch_off_and_no_file(tmp_path: Path) -> None:
    model = calibrated_net()
    model.fc.input_quantizer._amax.fill_(float("nan"))
    with pytest.raises(ValueError, match=r"fc\._input_quantizer: amax"), quant_modules.enable_onnx_export():
        torch.onnx.export(model, torch.randn(2, 3, 8, 8), tmp_path / "net.onnx", opset_version=13)
    assert not quant_nn.TensorQuantizer.use_fb_fake_quant
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's, of its own exporter
def test_a_model_without_quantizers_is_exported_by_torch(tmp_path: Path) -> None:
    torch.onnx.export(
        nn.Linear(3, 2), torch.randn(1, 3), tmp_path / "net.onnx", dynamo=False, opset_version=12
    )
    assert onnx.load(tmp_path / "net.onnx").producer_name == "pytorch"
