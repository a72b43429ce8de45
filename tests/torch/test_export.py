"""`intact.torch.export`: real modules as files, against the modules themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional as F

from intact import graph, numerics
from intact.errors import QuantValueError, UnsupportedError
from intact.graph import Session
from intact.spec import QuantSpec
from intact.torch import ExportReport, export
from intact.torch import nn as quant_nn
from intact.torch.nn import TensorQuantizer
from intact.torch.tensor_quant import QuantDescriptor

OPSETS = range(13, 26)


class SmallResNet(nn.Module):
    """Every kind of layer that the CNNs here have: conv, BN, relu, residual, pools, concat, linear."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = quant_nn.QuantConv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = quant_nn.QuantConv2d(8, 8, 3, padding=1, groups=2)
        self.bn2 = nn.BatchNorm2d(8)
        self.residual_quantizer = TensorQuantizer()
        self.up = quant_nn.QuantConvTranspose2d(8, 4, 2, stride=2)
        self.pool = quant_nn.QuantAdaptiveAvgPool2d(1)
        self.fc = quant_nn.QuantLinear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)) + self.residual_quantizer(x))
        small = F.max_pool2d(x, 2)
        both = torch.cat([F.avg_pool2d(self.up(small), 2), small], 1)
        return self.fc(torch.flatten(self.pool(both), 1))


def calibrate_model(model: nn.Module, *batch: Tensor) -> nn.Module:
    """`model`, its BatchNorm statistics and its ranges taken from `batch`."""
    quantizers = [m for m in model.modules() if isinstance(m, TensorQuantizer)]
    for q in quantizers:
        q.disable_quant()
        q.enable_calib()
    with torch.no_grad():
        model.train()(*batch)
        for q in quantizers:
            q._calibrator.reset()
        model.eval()(*batch)
    for q in quantizers:
        q.disable_calib()
        q.enable_quant()
        if not q._learn_amax:
            q.load_calib_amax()
    return model


@pytest.fixture(scope="module")
def resnet() -> nn.Module:
    torch.manual_seed(1)
    model = SmallResNet()
    for module in model.modules():  # a BatchNorm worth folding
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 3)
            nn.init.uniform_(module.bias, -1, 1)
    return calibrate_model(model, torch.randn(32, 3, 16, 16))


def load(path: Path) -> onnx.ModelProto:
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    return model


def constants(model: onnx.ModelProto) -> dict[str, NDArray]:
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def ops(model: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node]


def axis_of(model: onnx.ModelProto, scale: str) -> int:
    node = next(n for n in model.graph.node if n.op_type == "DequantizeLinear" and n.input[1] == scale)
    return next(a.i for a in node.attribute if a.name == "axis")


def assert_agrees(report: ExportReport) -> None:
    """Design: per layer, on the same input codes, at most 1 apart and within 1e-3 of a boundary."""
    assert report.end_to_end is not None and not report.not_compared
    assert report.codes > 0
    for check in report.quantizers:
        assert check.largest <= 1 and (not check.differing or check.boundary < 1e-3), check
        assert not check.weight or check.differing == 0, check
    assert report.answers_differing == 0


# ---- a CNN at every opset ----


@pytest.mark.slow
@pytest.mark.parametrize("opset", OPSETS)
def test_a_cnn_exports_at_every_opset(opset: int, resnet: nn.Module, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    report = export(resnet, torch.randn(8, 3, 16, 16), path, opset=opset)
    assert_agrees(report)
    model = load(path)
    assert [(i.domain, i.version) for i in model.opset_import] == [("", opset)]
    assert report.opset == opset and report.size == path.stat().st_size
    assert (report.pairs, report.folded) == (9, 4)


@pytest.fixture(scope="module")
def files(resnet: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, x = tmp_path_factory.mktemp("files"), torch.randn(8, 3, 16, 16)
    paths = {name: folder / f"{name}.onnx" for name in ("folded", "float", "again")}
    for name, path in paths.items():
        assert_agrees(export(resnet, x, path, opset=13, fold_weights=name != "float"))
    return paths


def test_weight_codes_equal_the_modules(files: dict[str, Path], resnet: nn.Module) -> None:
    stored = constants(load(files["folded"]))
    for name, axis in {"conv1": 0, "conv2": 0, "up": 1, "fc": 0}.items():
        layer = resnet.get_submodule(name)
        spec = QuantSpec("int8", axis=axis)
        w = layer.weight.detach().numpy()
        scale = numerics.scale_from_amax(layer.weight_quantizer.amax.numpy().reshape(-1), spec)
        np.testing.assert_array_equal(stored[f"{name}.weight.scale"], scale)
        codes = stored[f"{name}.weight.codes"]
        assert codes.dtype == np.int8
        np.testing.assert_array_equal(codes, numerics.quantize(w, scale, 0, spec))
        assert axis_of(load(files["folded"]), f"{name}.weight.scale") == axis


def test_batchnorm_is_not_folded_into_a_quantized_weight(files: dict[str, Path], resnet: nn.Module) -> None:
    for file in ("folded", "float"):
        assert ops(load(files[file])).count("BatchNormalization") == 2
    stored = constants(load(files["float"]))["conv1.weight"]
    np.testing.assert_array_equal(stored, resnet.conv1.weight.detach().numpy())


def test_folded_and_float_weights_give_one_result(files: dict[str, Path]) -> None:
    x = np.random.default_rng(0).normal(size=(4, 3, 16, 16)).astype(np.float32)
    a, b = (Session(files[n].read_bytes()).run({"x": x}) for n in ("folded", "float"))
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])
    counts = [ops(load(files[n])).count("QuantizeLinear") for n in ("folded", "float")]
    assert counts == [5, 9]


def test_the_same_model_gives_the_same_bytes(files: dict[str, Path]) -> None:
    assert files["folded"].read_bytes() == files["again"].read_bytes()


def test_the_file_holds_no_paths_of_this_machine(files: dict[str, Path]) -> None:
    data = files["folded"].read_bytes()
    assert b"stack_trace" not in data and b".py" not in data


def test_readers_of_one_tensor_share_a_pair(files: dict[str, Path]) -> None:
    """conv2 and the residual branch read one tensor, with one range."""
    model = load(files["folded"])
    relu = next(n.output[0] for n in model.graph.node if n.op_type == "Relu")
    assert [n.op_type for n in model.graph.node if relu in n.input] == ["QuantizeLinear"]


@pytest.mark.parametrize("batch", [1, 7])
def test_the_batch_is_open(batch: int, files: dict[str, Path], resnet: nn.Module) -> None:
    model = load(files["folded"])
    sizes = [v.type.tensor_type.shape.dim[0].dim_param for v in (*model.graph.input, *model.graph.output)]
    assert sizes == ["batch", "batch"]
    x = torch.randn(batch, 3, 16, 16)
    got = next(iter(Session(files["folded"].read_bytes()).run({"x": x.numpy()}).values()))
    with torch.no_grad():
        np.testing.assert_allclose(got, resnet(x).numpy(), atol=0.05)
    assert got.shape == (batch, 5)


def test_an_example_of_one_sample_leaves_the_batch_open(tmp_path: Path) -> None:
    model = calibrate_model(nn.Sequential(quant_nn.QuantLinear(4, 3)), torch.randn(8, 4))
    path = tmp_path / "m.onnx"
    assert_agrees(export(model, torch.randn(1, 4), path))
    assert Session(path.read_bytes()).run({"input": np.zeros((6, 4), np.float32)}).popitem()[1].shape == (
        6,
        3,
    )


def test_a_fixed_batch_and_names(tmp_path: Path) -> None:
    model = calibrate_model(nn.Sequential(quant_nn.QuantLinear(4, 3)), torch.randn(8, 4))
    path = tmp_path / "m.onnx"
    export(
        model, torch.randn(2, 4), path, dynamic_batch=False, input_names=["image"], output_names=["logits"]
    )
    graph = load(path).graph
    assert (graph.input[0].name, graph.output[0].name) == ("image", "logits")
    assert [d.dim_value for d in graph.input[0].type.tensor_type.shape.dim] == [2, 4]


def test_code_for_one_sample_is_told_from_what_cannot_be_written(tmp_path: Path) -> None:
    class One(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = quant_nn.QuantLinear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.layer(x.view(1, -1)))

    model = calibrate_model(One(), torch.randn(1, 4))
    with pytest.raises(UnsupportedError, match=r"fixes the first size .* to 1, .*\n?.*dynamic_batch=False"):
        export(model, torch.randn(1, 4), tmp_path / "m.onnx")
    assert_agrees(export(model, torch.randn(1, 4), tmp_path / "m.onnx", dynamic_batch=False))


@pytest.mark.parametrize("name", ["embedding", "layer.weight", "linear"])
def test_an_output_may_be_called_as_an_inner_tensor_is(name: str, tmp_path: Path) -> None:
    class Embedded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.layer = nn.Embedding(5, 4), quant_nn.QuantLinear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.layer(self.embedding(x)))

    tokens = torch.tensor([[0, 1], [2, 4]])
    model = calibrate_model(Embedded(), tokens)
    assert_agrees(export(model, tokens, tmp_path / "m.onnx", output_names=[name]))
    (output,) = load(tmp_path / "m.onnx").graph.output
    assert output.name == name


def test_inputs_and_outputs_of_one_name_are_refused(tmp_path: Path) -> None:
    model = calibrate_model(nn.Sequential(quant_nn.QuantLinear(4, 3)), torch.randn(8, 4))
    with pytest.raises(QuantValueError, match=r"name 'x': got two inputs or outputs .* change input_names"):
        export(model, torch.randn(2, 4), tmp_path / "m.onnx", input_names=["x"], output_names=["x"])


# ---- layers ----


class Tokens(nn.Module):
    """A Linear on 3-d input, which the exporter writes as MatMul with a transposed weight."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = quant_nn.QuantLinear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


@pytest.mark.parametrize("fold", [True, False], ids=["folded", "float"])
def test_a_linear_on_3d_input_keeps_its_channels(fold: bool, tmp_path: Path) -> None:
    model = calibrate_model(Tokens(), torch.randn(8, 5, 6))
    path = tmp_path / "m.onnx"
    assert_agrees(export(model, torch.randn(3, 5, 6), path, fold_weights=fold))
    file = load(path)
    assert "Transpose" not in ops(file)
    assert axis_of(file, "fc.weight.scale") == 1
    stored = constants(file)["fc.weight.codes" if fold else "fc.weight.real"]
    assert stored.shape == (6, 4)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [13, 17, 21])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_recurrent_layer_exports(kind: str, opset: int, tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = getattr(quant_nn, f"Quant{kind}")(
                5, 4, num_layers=2, batch_first=True, bidirectional=True
            )

        def forward(self, x: Tensor) -> Tensor:
            return self.rnn(x)[0][:, -1]

    model = calibrate_model(Net(), torch.randn(16, 3, 5))
    path = tmp_path / "m.onnx"
    report = export(model, torch.randn(4, 3, 5), path, opset=opset)
    assert_agrees(report)
    weights = [c for c in report.quantizers if c.weight]
    assert [c.quantizer for c in weights] == [f"rnn._weight_quantizers.{i}" for i in range(4)]
    assert report.folded == 4  # once each, not once per time step
    assert sum(name.endswith(".codes") for name in constants(load(path))) == 4


def one_layer(**descriptor: Any) -> nn.Module:
    desc = QuantDescriptor(**descriptor)
    return nn.Sequential(nn.ReLU(), quant_nn.QuantConv2d(3, 4, 3, quant_desc_input=desc))


def test_an_unsigned_input_is_uint8_with_zero_point_0(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = calibrate_model(one_layer(num_bits=8, unsigned=True), torch.randn(8, 3, 6, 6))
    assert_agrees(export(model, torch.randn(4, 3, 6, 6), path))
    zero_point = constants(load(path))["1._input_quantizer.zero_point"]
    assert (zero_point.dtype, zero_point) == (np.uint8, 0)


def test_an_asymmetric_input_has_a_zero_point(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    desc = QuantDescriptor(num_bits=8, symmetric=False)
    model = calibrate_model(quant_nn.QuantLinear(6, 4, quant_desc_input=desc), torch.rand(16, 6) * 3 - 1)
    assert_agrees(export(model, torch.rand(8, 6) * 3 - 1, path))
    stored = constants(load(path))
    q = model.input_quantizer
    scale, zero_point = numerics.affine_from_range(q._amin, q._amax, QuantSpec("int8", symmetric=False))
    assert zero_point != 0
    assert stored["_input_quantizer.zero_point"] == zero_point
    assert stored["_input_quantizer.scale"] == scale


def test_a_narrow_input_is_clipped_and_never_uses_the_dropped_code(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = calibrate_model(
        nn.Sequential(TensorQuantizer(QuantDescriptor(narrow_range=True))), torch.randn(8, 5)
    )
    assert_agrees(export(model, 100 * torch.randn(4, 5), path))
    assert ops(load(path)) == ["Clip", "QuantizeLinear", "DequantizeLinear"]
    x = np.float32([[-1e9, -3, 0, 3, 1e9]])
    got = Session(path.read_bytes()).run({"input": x}).popitem()[1]
    np.testing.assert_array_equal(got, model(torch.from_numpy(x)).numpy())
    assert got[0, 0] == -got[0, 4]


def test_pre_quant_scale_is_a_mul(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = nn.Sequential(quant_nn.QuantLinear(4, 3))
    model[0].input_quantizer.pre_quant_scale = torch.tensor([0.5, 1.0, 2.0, 4.0])
    model = calibrate_model(model, torch.randn(8, 4))
    assert_agrees(export(model, torch.randn(4, 4), path))
    assert ops(load(path))[:3] == ["Mul", "QuantizeLinear", "DequantizeLinear"]


def test_a_learned_range_is_a_clip(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = nn.Sequential(
        quant_nn.QuantLinear(4, 3, quant_desc_input=QuantDescriptor(learn_amax=True, amax=1.5))
    )
    model = calibrate_model(model, torch.randn(8, 4))
    assert_agrees(export(model, 2 * torch.randn(4, 4), path))
    stored = constants(load(path))
    assert stored["0._input_quantizer.scale"] == numerics.scale_from_amax(1.5, QuantSpec("int8"))
    assert {"Clip", "Max", "Min"} & set(ops(load(path)))


@pytest.mark.parametrize(
    ("descriptor", "opset", "dtype"),
    [
        ({"num_bits": 16}, 21, onnx.TensorProto.INT16),
        ({"num_bits": 16, "unsigned": True}, 21, onnx.TensorProto.UINT16),
        ({"num_bits": 4}, 21, onnx.TensorProto.INT4),
        ({"num_bits": (4, 3)}, 19, onnx.TensorProto.FLOAT8E4M3FN),
    ],
    ids=["int16", "uint16", "int4", "fp8"],
)
def test_other_formats_export_where_they_exist_and_are_refused_below(
    descriptor: dict[str, Any], opset: int, dtype: int, tmp_path: Path
) -> None:
    path = tmp_path / "m.onnx"
    model = calibrate_model(one_layer(**descriptor), torch.randn(8, 3, 6, 6))
    assert_agrees(export(model, torch.randn(4, 3, 6, 6), path, opset=opset))
    zero_points = {t.name: t.data_type for t in load(path).graph.initializer}
    assert zero_points["1._input_quantizer.zero_point"] == dtype
    with pytest.raises(
        UnsupportedError, match=rf"^1\._input_quantizer: format: .*want opset {opset} or newer"
    ):
        export(model, torch.randn(4, 3, 6, 6), tmp_path / "low.onnx", opset=opset - 1)
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_an_operator_newer_than_the_default_chooses_the_opset(tmp_path: Path) -> None:
    x = torch.randn(2, 8, 9)  # 2 channels of 2x2 patches, at 3x3 places of 4x4 pixels
    model = calibrate_model(nn.Sequential(quant_nn.QuantLinear(9, 9), nn.Fold(4, 2)), x)
    with pytest.raises(UnsupportedError, match="Col2Im as it is since opset 18"):
        export(model, x, tmp_path / "m.onnx", opset=17)
    report = export(model, x, tmp_path / "m.onnx")
    assert_agrees(report)
    assert report.opset == load(tmp_path / "m.onnx").opset_import[0].version == 18


@pytest.mark.parametrize("opset", [13, 19])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=["float16", "float64"])
def test_other_dtypes_agree(dtype: torch.dtype, opset: int, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = calibrate_model(nn.Sequential(quant_nn.QuantLinear(8, 3)), torch.randn(16, 8)).to(dtype)
    report = export(model, torch.randn(8, 8, dtype=dtype), path, opset=opset)
    assert all(c.differing == 0 for c in report.quantizers)
    assert "Cast" in ops(load(path))


def test_bfloat16_exports_and_says_that_it_is_not_verified(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = calibrate_model(nn.Sequential(quant_nn.QuantLinear(8, 3)), torch.randn(16, 8)).to(torch.bfloat16)
    report = export(model, torch.randn(8, 8, dtype=torch.bfloat16), path)
    assert "not verified: ONNX Runtime takes no bfloat16" in str(report)
    load(path)


def test_a_disabled_quantizer_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = calibrate_model(nn.Sequential(quant_nn.QuantLinear(4, 3)), torch.randn(8, 4))
    model[0].input_quantizer.disable()
    report = export(model, torch.randn(4, 4), path)
    assert (report.pairs, report.folded) == (1, 1)


def test_named_arguments_and_several_inputs(tmp_path: Path) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = quant_nn.QuantLinear(4, 3), quant_nn.QuantLinear(2, 3)

        def forward(self, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
            return self.a(left) + self.b(right), torch.relu(left)

    model = calibrate_model(Two(), torch.randn(8, 4), torch.randn(8, 2))
    path = tmp_path / "m.onnx"
    left, right = torch.randn(4, 4), torch.randn(4, 2)
    for example in ((left, right), {"left": left, "right": right}):
        assert_agrees(export(model, example, path))
        inputs = load(path).graph.input
        assert [i.name for i in inputs] == ["left", "right"]
        assert [i.type.tensor_type.shape.dim[0].dim_param for i in inputs] == ["batch", "batch"]


def test_export_leaves_the_model_as_it_was(resnet: nn.Module, tmp_path: Path) -> None:
    resnet.train()
    resnet.bn1.eval()
    before = {k: v.clone() for k, v in resnet.state_dict().items()}
    export(resnet, torch.randn(2, 3, 16, 16), tmp_path / "m.onnx", verify=False)
    assert resnet.training and resnet.bn2.training and not resnet.bn1.training
    assert all(torch.equal(before[k], v) for k, v in resnet.state_dict().items())
    resnet.eval()


# ---- verification ----


def test_verification_counts_every_sample(resnet: nn.Module, tmp_path: Path) -> None:
    data = [(torch.randn(n, 3, 16, 16), torch.zeros(n)) for n in (4, 4, 2)]
    report = export(resnet, data[0][0], tmp_path / "m.onnx", verify=data)
    assert report.end_to_end.samples == report.end_to_end.answers == 10
    assert_agrees(report)


def test_verification_names_every_quantizer(resnet: nn.Module, tmp_path: Path) -> None:
    report = export(resnet, torch.randn(2, 3, 16, 16), tmp_path / "m.onnx")
    names = {n for n, m in resnet.named_modules() if isinstance(m, TensorQuantizer)}
    assert {c.quantizer for c in report.quantizers} == names
    assert {c.quantizer for c in report.quantizers if c.weight} == {n for n in names if "weight" in n}
    text = str(report)
    assert "Q/DQ pairs" in text and "top-1" in text and "codes, per layer" in text


def test_verification_sees_a_file_that_differs(
    resnet: nn.Module, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    honest: Callable[[ir.Model], bytes] = graph.to_bytes

    def with_a_wrong_row(model: ir.Model) -> bytes:
        value = model.graph.initializers["fc.weight.codes"]
        codes = value.const_value.numpy().copy()
        codes[0] = -codes[0]
        value.const_value = ir.Tensor(codes, name=value.name)
        return honest(model)

    monkeypatch.setattr(graph, "to_bytes", with_a_wrong_row)
    report = export(resnet, torch.randn(16, 3, 16, 16), tmp_path / "m.onnx")
    stored = constants(load(tmp_path / "m.onnx"))["fc.weight.codes"]
    wrong = {c.quantizer: c.differing for c in report.quantizers if c.differing}
    assert wrong == {"fc._weight_quantizer": np.count_nonzero(stored[0])}
    assert report.end_to_end.max_abs_diff > 0.01


def test_no_batches_to_verify_is_an_error(resnet: nn.Module, tmp_path: Path) -> None:
    with pytest.raises(QuantValueError, match="verify: got no batches, want at least one"):
        export(resnet, torch.randn(2, 3, 16, 16), tmp_path / "m.onnx", verify=[])
