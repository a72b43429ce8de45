"""Models that are GraphModules: of torch.fx, of torch.export, of torchvision's feature extractors.

Annotations are no strings here: torch.fx pickles no code with such.
"""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

import intact
from intact.errors import StaleRangeWarning
from intact.torch import export, load_checkpoint, quantize, save_checkpoint
from intact.torch.graph_mode.quantized_forward import RunsQuantized

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec.*is deprecated")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.inner = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.head = nn.Conv2d(16, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.stem(x))
        return F.dropout(self.head(torch.relu(x + torch.relu(self.inner(x)))), 0.5, self.training)


class Several(nn.Module):
    """Functions that graph mode knows by name, whichever way they are written."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm, self.inner = nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.Conv2d(16, 16, 1)
        self.gate, self.head = nn.SiLU(inplace=True), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.gate(self.norm(self.stem(x)))
        y = self.inner(x)
        y += x
        y = y.flatten(2).transpose(1, 2)
        return self.head(F.gelu(F.scaled_dot_product_attention(y, y, y)))


class Around(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.last = fx.symbolic_trace(Net().eval()), nn.Conv2d(8, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.body(x)))


class Extractor(fx.GraphModule):
    """A graph for training and one for evaluation, as torchvision's."""

    def __init__(self, root: nn.Module, graphs: dict[bool, fx.Graph]) -> None:
        super().__init__(root, graphs[False])
        self.graphs = graphs

    def train(self, mode: bool = True) -> "Extractor":
        self.graph = self.graphs[mode]
        return super().train(mode)

    def __deepcopy__(self, memo: Any) -> "Extractor":
        root = copy.deepcopy(nn.ModuleDict(self.named_children()), memo)
        return Extractor(root, copy.deepcopy(self.graphs))

    channel = 0

    @property
    def width(self) -> int:
        return len(self.graph.nodes)

    def first(self, x: Tensor) -> Tensor:
        return self.forward(x)[:, self.channel]


def extractor(model: nn.Module) -> "Extractor":
    graphs = {mode: fx.Tracer().trace(model.train(mode)) for mode in (True, False)}
    return Extractor(model.eval(), graphs)


MODELS: dict[str, Callable[[Tensor], nn.Module]] = {
    "torch.fx": lambda x: fx.symbolic_trace(Net().eval()),
    "torch.export": lambda x: torch.export.export(Net().eval(), (x,)).module(),
    "an extractor": lambda x: extractor(Net()),
    "inside": lambda x: Around(),
}


@pytest.fixture
def images() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(2, 3, 10, 10)


def quantize_model(model: nn.Module, images: Tensor) -> Any:
    torch.manual_seed(1)
    return quantize(model, [images], example=images, progress=False, method="max")


@pytest.mark.parametrize("name", MODELS)
def test_files_and_engines_have_all_quantizers(name: str, images: Tensor, tmp_path: Path) -> None:
    torch.manual_seed(2)
    result = quantize_model(MODELS[name](images), images)
    report = export(result.model, images, tmp_path / "m.onnx")
    assert report.pairs == len(result.report.quantizers) and not report.not_compared
    assert report.codes and not report.codes_differing and not report.end_to_end.values_differing
    outputs = intact.compile(result.model, images)(images.numpy())
    assert np.allclose(outputs, result.model(images).detach(), atol=1e-3)


def test_operators_of_an_exported_program_are_the_functions_that_code_calls(images: Tensor) -> None:
    torch.manual_seed(2)
    own = Several().eval()
    program = torch.export.export(own, (images,)).module()
    plain, result = quantize_model(own, images), quantize_model(program, images)
    assert [row["fused"] for row in result.explain()] == [row["fused"] for row in plain.explain()]
    assert all(row["precision"] == "int8" for row in result.explain() if row["op_type"] != "Softmax")
    assert len(result.report.quantizers) == len(plain.report.quantizers)
    assert not result.report.replaced and not result.report.left
    assert torch.allclose(result.model(images), plain.model(images), atol=0.05)
    assert {"conv2d_quantizer", "conv2d_1_quantizer", "linear_quantizer"} <= result.report.quantizers.keys()


@pytest.mark.parametrize("name", ["torch.fx", "torch.export", "inside"])
def test_programs_of_torch_have_them(name: str, images: Tensor) -> None:
    result = quantize_model(MODELS[name](images), images)
    program = torch.export.export(result.model, (images,))
    calls = [node for node in program.graph.nodes if node.target is torch.ops.intact.fake_quantize.default]
    assert len(calls) == len(result.report.quantizers)


@pytest.mark.parametrize("name", ["torch.fx", "an extractor", "inside"])
@pytest.mark.parametrize("way", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_and_pickles_quantize(way: Callable[[Any], Any], name: str, images: Tensor) -> None:
    torch.manual_seed(2)
    model = quantize_model(MODELS[name](images), images).model
    output = way(model)
    assert isinstance(output, RunsQuantized) and torch.equal(output(images), model(images))
    with torch.no_grad():
        for parameter in output.parameters():
            parameter.mul_(2)
    with pytest.warns(StaleRangeWarning):  # ranges of weights are as they were
        assert not torch.equal(output(images), model(images))


def test_a_copy_of_an_exported_program_quantizes(images: Tensor) -> None:
    model = quantize_model(MODELS["torch.export"](images), images).model
    assert torch.equal(copy.deepcopy(model)(images), model(images))


def test_checkpoints_are_loaded_into_the_float_module(images: Tensor, tmp_path: Path) -> None:
    torch.manual_seed(2)
    result = quantize_model(MODELS["torch.fx"](images), images)
    save_checkpoint(result.model, tmp_path / "m.safetensors")
    restored = load_checkpoint(MODELS["torch.fx"](images), tmp_path / "m.safetensors").eval()
    assert torch.equal(restored(images), result.model(images))


def test_each_mode_has_its_graph(images: Tensor) -> None:
    torch.manual_seed(2)
    model = quantize_model(extractor(Net()), images).model
    wanted, other = model(images), copy.deepcopy(model)
    assert model.train() is model and (model(images) == 0).float().mean() > 0.2  # dropout
    assert torch.equal(other(images), wanted)  # a copy has code of its own
    assert torch.equal(model.eval()(images), wanted)
    assert torch.equal(model.first(images), wanted[:, 0])  # a method of the user's class
    assert "dropout" in model.code and len(model.graph.nodes) == model.width > 6
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        model.nonsense  # noqa: B018


def test_layers_that_were_exchanged_keep_their_names(images: Tensor, tmp_path: Path) -> None:
    model = fx.symbolic_trace(Net().eval())
    intact.torch.replace_modules(model)
    intact.torch.calibrate(model, [images])
    report = export(model, images, tmp_path / "m.onnx")
    assert report.pairs and report.codes and not report.not_compared
