"""A state dict of `pytorch_quantization` and a float file become a Q/DQ file with the checkpoint's ranges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.onnx_models import onnx_model

from intact.errors import IntactError
from intact.graph import Session, to_bytes
from intact.trt.migration import migrate, read_checkpoint

torch = pytest.importorskip("torch")


@pytest.fixture
def module() -> torch.nn.Module:
    """A convolution, BatchNorm and a linear layer, with ranges that are not those of their weights."""
    from intact.torch import nn as quant_nn

    torch.manual_seed(0)
    conv, norm = quant_nn.QuantConv2d(3, 32, 3, padding=1), torch.nn.BatchNorm2d(32)
    linear = quant_nn.QuantLinear(32, 5)
    torch.nn.init.uniform_(norm.weight, 0.5, 2.0)
    norm.running_mean.uniform_(-1, 1)
    for layer, amax in ((conv, 3.0), (linear, 1.5)):
        weight = layer.weight.detach().abs()
        shape = (-1, *[1] * (weight.dim() - 1))
        layer._weight_quantizer.amax = 0.8 * weight.flatten(1).amax(1).reshape(shape)
        layer._input_quantizer.amax = torch.tensor(amax)
    pool = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    return torch.nn.Sequential(conv, norm, torch.nn.ReLU(), pool, linear).eval()


def float_file(module: torch.nn.Module, path: Path, *, folded: bool = False) -> Path:
    """Write the module in float, as exporters do: BatchNorm by itself, or in the convolution's weight."""
    conv, norm, _, _, linear = module
    tensors = {"w": conv.weight, "b": conv.bias, "w2": linear.weight, "b2": linear.bias}
    tensors |= {"g": norm.weight, "h": norm.bias, "m": norm.running_mean, "v": norm.running_var}
    arrays = {name: tensor.detach().numpy().copy() for name, tensor in tensors.items()}
    make = onnx.helper.make_node
    nodes = [make("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1])]
    if folded:
        gain = arrays["g"] / np.sqrt(arrays["v"] + norm.eps)
        arrays["w"] *= gain[:, None, None, None]
        arrays["b"] = (arrays["b"] - arrays["m"]) * gain + arrays["h"]
        nodes[0].output[0] = "n"
    else:
        names = ["c", "g", "h", "m", "v"]
        nodes.append(make("BatchNormalization", names, ["n"], name="norm", epsilon=norm.eps))
    nodes += [
        make("Relu", ["n"], ["r"], name="relu"), make("GlobalAveragePool", ["r"], ["p"], name="pool"),
        make("Flatten", ["p"], ["f"], name="flat"),
        make("Gemm", ["f", "w2", "b2"], ["y"], name="linear", transB=1),
    ]  # fmt: skip
    onnx.save(onnx_model(nodes, {"x": [2, 3, 6, 6]}, {"y": [2, 5]}, arrays), path)
    return path


@pytest.mark.parametrize("folded", [False, True])
def test_the_file_answers_as_the_module(module: torch.nn.Module, tmp_path: Path, folded: bool) -> None:
    torch.save({"state_dict": module.state_dict()}, tmp_path / "qat.pth")
    recipe = read_checkpoint(tmp_path / "qat.pth", float_file(module, tmp_path / "m.onnx", folded=folded))
    assert recipe.cache.scales["x"] == np.float32(3 / 127) and len(recipe.weights) == 2
    done = migrate(recipe)
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype(np.float32)
    (y,) = Session(to_bytes(done.model)).run({"x": x}).values()
    with torch.no_grad():
        wanted = module(torch.from_numpy(x)).numpy()
    assert np.abs(y - wanted).max() < 1e-4 * np.abs(wanted).max()
    assert not done.answers.is_equal, "the builder's own ranges of weights are others"


def test_a_file_of_another_model_is_refused(module: torch.nn.Module, tmp_path: Path) -> None:
    torch.save(module.state_dict(), tmp_path / "qat.pth")
    with torch.no_grad():
        module[4].weight[0, 0] += 1
    with pytest.raises(IntactError, match="layer '4' of"):
        read_checkpoint(tmp_path / "qat.pth", float_file(module, tmp_path / "m.onnx"))


def test_a_state_dict_without_ranges_is_refused(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / "plain.pth")
    with pytest.raises(IntactError, match="_weight_quantizer"):
        read_checkpoint(tmp_path / "plain.pth", tmp_path / "m.onnx")
