"""Graph mode on models as people bring them: how other packages write forward, and what they answer."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import intact
from intact.errors import QuantValueError
from intact.torch import export, load_checkpoint, quantize, save_checkpoint
from intact.torch.nn import TensorQuantizer


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.body, self.head = (
            nn.Conv2d(3, 16, 3),
            nn.Conv2d(16, 16, 3, padding=1),
            nn.Conv2d(16, 8, 1),
        )

    def features(self, x: Tensor) -> Tensor:
        y = torch.relu(self.stem(x))
        return self.head(torch.relu(self.body(y) + y))

    def forward(self, x: Tensor) -> Any:
        return self.features(x)


@pytest.fixture
def images() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(2, 3, 10, 10)


def quantize_model(model: nn.Module, data: Any) -> Any:
    torch.manual_seed(1)
    return quantize(model.eval(), [data], example=data, progress=False, method="max")


def export_exactly(model: nn.Module, example: Any, path: Any) -> Any:
    report = export(model, example, path)
    assert not report.not_compared and not report.skipped and report.codes
    assert all(q.largest <= 1 and q.boundary <= 1e-3 for q in report.quantizers)
    return report


# ---- what a model answers ----


@dataclass
class Answer:
    features: Tensor
    boxes: list[Tensor]
    note: str = "not a tensor"


class AnswersDataClass(Net):
    def forward(self, x: Tensor) -> Answer:
        y = self.features(x)
        return Answer(y, [y.mean((2, 3))])


class AnswersNumbers(Net):
    def forward(self, x: Tensor) -> dict[str, Any]:
        y = self.features(x)
        return {"features": y, "stride": 8, "aux": None, "pooled": (y.mean((2, 3)), "mean")}


@pytest.mark.parametrize("kind", [AnswersDataClass, AnswersNumbers])
def test_tensors_are_found_beside_what_is_none(kind, images, tmp_path):
    result = quantize_model(kind(), images)
    assert not result.report.replaced
    export_exactly(result.model, images, tmp_path / "model.onnx")
    answer = result.model(images)
    ours = answer.features if kind is AnswersDataClass else answer["features"]
    engine = intact.compile(result.model, images)
    assert len(engine.plan.outputs) == 2
    assert np.allclose(engine.run({engine.inputs[0].name: images.numpy()})[engine.plan.outputs[0]],
                       ours.detach(), atol=1e-4)  # fmt: skip


def test_an_answer_without_tensors_is_named(images):
    class Silent(Net):
        def forward(self, x: Tensor) -> str:
            return str(self.features(x).shape)

    assert "holds no tensor" in quantize(Silent().eval(), example=images).report.replaced[""]


# ---- what a model is given ----


class TakesDict(Net):
    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return self.features(batch["image"]) + self.features(batch["other"])


def test_a_dict_may_be_the_only_argument(images, tmp_path):
    batch = {"image": images, "other": images.flip(0)}
    result = quantize(TakesDict().eval(), [batch], progress=False, method="max")
    assert not result.report.replaced
    export_exactly(result.model, (batch,), tmp_path / "model.onnx")


class TakesAnything(Net):
    def forward(self, *inputs: Tensor, **more: Tensor) -> Tensor:
        return self.features(inputs[0]) + self.features(more["other"] if more else inputs[1])


@pytest.mark.parametrize("named", [False, True])
def test_forward_may_take_any_number_of_arguments(named, images, tmp_path):
    model = TakesAnything().eval()
    example = (images, images.flip(0))
    report = quantize(model, example=example, progress=False)
    intact.torch.calibrate(report.model, [(example,)], method="max", progress=False)
    export_exactly(report.model, example, tmp_path / "model.onnx")
    engine = intact.compile(tmp_path / "model.onnx")
    assert all("batch" in map(str, port.shape) for port in engine.inputs)


# ---- what is around a model, and in it ----


@pytest.mark.parametrize("wrap", [lambda m: torch.compile(m, backend="eager"), nn.DataParallel])
def test_what_is_around_a_module_is_taken_off(wrap, images, tmp_path):
    result = quantize_model(wrap(Net()), images)
    assert isinstance(result.model, Net)
    assert {"stem", "body", "head"} <= set(result.report.modules)
    export_exactly(result.model, images, tmp_path / "model.onnx")


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_torchscript_is_refused_by_name(images):
    with pytest.raises(QuantValueError, match="quantize: model: got TorchScript"):
        quantize(torch.jit.trace(Net().eval(), images), example=images)
    model = Net().eval()
    model.body = torch.jit.script(model.body)
    with pytest.raises(QuantValueError, match="quantize: body: got TorchScript"):
        quantize(model, example=images)


class Random(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.stem(x))
        return self.head(torch.relu(self.body(F.dropout(y, 0.5)) + y + torch.randn(16, 1, 1)))


def test_a_model_that_draws_numbers_is_traced_and_draws_on(images):
    model = Random().eval()
    torch.manual_seed(5)
    after = torch.rand(1)
    torch.manual_seed(5)
    result = quantize(model, example=images, progress=False)
    assert torch.equal(torch.rand(1), after)
    assert not result.report.replaced
    assert any("add" in name for name in result.report.quantizers)


class Shares(nn.Module):
    """An activation that many hold, as ultralytics' convolutions do."""

    act = nn.SiLU()

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.silu = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 1), self.act

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.silu(self.first(x)).chunk(2, 1)
        return self.second(torch.cat([b, a], 1)) + x


def test_quantizers_keep_their_names_in_files_of_models_that_share_modules(images, tmp_path):
    result = quantize_model(nn.Sequential(nn.Conv2d(3, 16, 3), Shares.act, Shares(), Shares()), images)
    report = export_exactly(result.model, images, tmp_path / "model.onnx")
    names = {name for name, _ in result.model.named_modules()}
    assert any(check.quantizer.startswith("2.") for check in report.quantizers)
    assert all(check.quantizer in names for check in report.quantizers)


class SkipsThroughNothing(Net):
    """As timm's GhostNet: an empty Sequential, which is False where somebody asks."""

    def __init__(self) -> None:
        super().__init__()
        self.shortcut = nn.Sequential()

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.stem(x))
        return self.head(torch.relu(self.body(y) + self.shortcut(y)))


def test_an_empty_sequential_hands_on(images, tmp_path):
    export_exactly(quantize_model(SkipsThroughNothing(), images).model, images, tmp_path / "model.onnx")


class WritesIntoParts(nn.Module):
    """As torchvision's SwinTransformer V2 takes the keys' bias away."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        bias = self.qkv.bias.clone()
        bias[32:64].zero_()
        q, k, v = F.linear(x, self.qkv.weight, bias).chunk(3, -1)
        return self.out(torch.softmax(q @ k.transpose(-1, -2), -1) @ v)


def test_parts_that_are_written_into_are_parts(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(2, 20, 32)
    model = WritesIntoParts().eval()
    result = quantize_model(model, x)
    assert not result.report.replaced
    assert "qkv.weight_quantizer" in result.report.quantizers
    with torch.no_grad():
        wanted, got = model(x), result.model(x)
    assert (wanted - got).norm() < 0.05 * wanted.norm()
    export_exactly(result.model, x, tmp_path / "model.onnx")


class Unfolds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(64, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(F.unfold(torch.relu(self.first(x)), 2, stride=2).unflatten(2, (5, 5)))


def test_windows_are_taken_at_any_batch(images, tmp_path):
    """The exporter computes indices of two axes from sizes; nobody told their shape before."""
    result = quantize_model(Unfolds(), images)
    export_exactly(result.model, images, tmp_path / "model.onnx")
    engine = intact.compile(tmp_path / "model.onnx")
    for x in (images, images[:1]):
        assert np.allclose(engine(x.numpy()), result.model(x).detach(), atol=1e-4)


class Einsums(nn.Module):
    """Attention as lucidrains writes it, and a gate as audio models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.gate, self.out = nn.Linear(64, 192), nn.GLU(-1), nn.Linear(32, 64)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 32)).unbind(2)
        weights = torch.einsum("bihd,bjhd->bhij", q, k).softmax(-1)
        y = torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2)
        return self.out(self.gate(y))


def test_einsum_and_glu_are_seen_into(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(2, 24, 64)
    result = quantize_model(Einsums(), x)
    layers = {layer.name: layer.precision for layer in result.placement.layers if layer.op_type == "MatMul"}
    assert len([name for name in layers if "einsum" in name]) == 2 and set(layers.values()) == {"int8"}
    assert any(name.startswith("gate.glu_mul") for name in result.report.quantizers)
    export_exactly(result.model, x, tmp_path / "model.onnx")
    engine = intact.compile(tmp_path / "model.onnx")
    assert all(step.native for step in engine.plan.steps)
    assert np.allclose(engine(x.numpy()), result.model(x).detach(), atol=1e-4)
    result.model.train()(x).square().mean().backward()
    assert all(p.grad is not None for p in result.model.parameters())


def test_a_model_of_bfloat16_is_exported_as_it_is_and_in_float(images, tmp_path):
    model = quantize_model(Net().to(torch.bfloat16), images.bfloat16()).model
    export(model, images.bfloat16(), tmp_path / "bfloat16.onnx")
    assert (tmp_path / "bfloat16.onnx").exists()
    export_exactly(model.float(), images, tmp_path / "model.onnx")


class OddNames(nn.Module):
    """Names that are none of Python's, as configurations of networks give them."""

    def __init__(self) -> None:
        super().__init__()
        self.add_module("0-stem", nn.Conv2d(3, 16, 3))
        self.add_module("class", nn.Conv2d(16, 16, 1))
        inner = nn.Sequential(OrderedDict({"a b": nn.Conv2d(16, 16, 1), 'say "x"': nn.ReLU()}))
        self.parts = nn.ModuleDict({"in": inner, "a-b": nn.Conv2d(16, 16, 1), "a_b": nn.Conv2d(16, 16, 1)})
        self.register_parameter("is-scale", nn.Parameter(torch.ones(16, 1, 1)))
        self.register_parameter("def", nn.Parameter(torch.randn(8, 16, 1, 1)))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(getattr(self, "0-stem")(x))
        y = getattr(self, "class")(y) + y
        for part in self.parts.values():
            y = part(y + y.flip(1))
        return F.conv2d(y * getattr(self, "is-scale"), getattr(self, "def"))


def test_modules_and_parameters_may_have_any_names(images, tmp_path):
    result = quantize_model(OddNames(), images)
    assert not result.report.replaced
    assert set(result.report.modules) == {"0-stem", "class", "parts.in.a b", "parts.a-b", "parts.a_b"}
    assert "def_quantizer" in result.report.quantizers
    report = export_exactly(result.model, images, tmp_path / "model.onnx")
    assert {"0-stem._weight_quantizer", "parts.in.a b._input_quantizer"} <= {
        check.quantizer for check in report.quantizers
    }
    with torch.no_grad():
        wanted = result.model(images)
    assert np.allclose(intact.compile(result.model, images)(images.numpy()), wanted, atol=1e-4)
    save_checkpoint(result.model, tmp_path / "model.safetensors")
    assert torch.equal(load_checkpoint(OddNames().eval(), tmp_path / "model.safetensors")(images), wanted)


@pytest.mark.filterwarnings("error")
def test_generators_of_other_devices_are_left_alone(images, monkeypatch):
    """PyTorch warns of code that asks for all of many GPUs without need."""
    forked: list[tuple[str, list[Any]]] = []
    own = torch.random.fork_rng

    def fork(devices: Any = None, *args: Any, device_type: str = "cuda", **kwargs: Any) -> Any:
        forked.append((device_type, devices))
        return own(devices, *args, device_type=device_type, **kwargs)

    monkeypatch.setattr(torch.random, "fork_rng", fork)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    quantize(Random().eval(), example=images, progress=False)
    assert forked and all(devices == [] for _, devices in forked)


# ---- a method that an instance runs as its forward ----


class ChoosesItsForward(Net):
    """As timm's FasterNet and RepVGG-like networks: which method runs is decided for each instance."""

    def __init__(self) -> None:
        super().__init__()
        self.forward = self.forward_scaled

    def forward(self, x: Tensor) -> Tensor:
        raise AssertionError("the instance runs another method")

    def forward_scaled(self, x: Tensor) -> Tensor:
        return self.features(x) * 0.5


@pytest.mark.parametrize("outer", [False, True], ids=["the model", "a part of it"])
def test_a_method_of_its_own_as_forward_is_seen_into(outer, images, tmp_path):
    model = nn.Sequential(ChoosesItsForward(), nn.Tanh()) if outer else ChoosesItsForward()
    result = quantize_model(model, images)
    assert not result.report.replaced and len(result.report.quantizers) > 4
    export_exactly(result.model, images, tmp_path / "q.onnx")
    with torch.no_grad():
        y = result.model(images)
        for other in (copy.deepcopy(result.model), pickle.loads(pickle.dumps(result.model))):
            assert torch.equal(other(images), y)
            for quantizer in other.modules():
                if isinstance(quantizer, TensorQuantizer):
                    quantizer.disable()
            assert not torch.equal(other(images), y)  # it runs its own quantizers, not those of the first
        assert torch.equal(result.model(images), y)


class BoundsTwice(nn.Module):
    """Bounds that are tensors, for two readers of one: the exporter makes a Clip of each Max and Min."""

    low: Tensor
    high: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("low", torch.tensor(-0.5))
        self.register_buffer("high", torch.tensor(0.75))
        self.stem, self.left, self.right = (nn.Conv2d(n, 16, 1) for n in (3, 16, 16))

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        return self.left(y.clamp(self.low, self.high)) + self.right(y.clamp(self.low, self.high))


def test_bounds_that_the_exporter_joins_for_two_readers_are_in_the_file(images, tmp_path):
    export_exactly(quantize_model(BoundsTwice(), images).model, images, tmp_path / "q.onnx")
