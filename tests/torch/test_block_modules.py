"""Modules with weights in blocks: the quantizer of files, one set of bits in modules, files and engines."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

import intact
import intact.torch
from intact import numerics
from intact.errors import CalibrationError, QuantValueError, UnsupportedError
from intact.ptq.blocks import BlockFormat, round_to_nearest
from intact.torch import BlockWeightLinear
from intact.torch.block_weights.module_stream import Gate
from intact.torch.exact import exact_functions

SIZE = 48


class Layer(nn.Module):
    """Three layers that read one tensor, one behind a norm, and a branch on values that no trace follows."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(SIZE, SIZE) for _ in range(3))
        self.norm, self.up, self.down = (
            nn.LayerNorm(SIZE),
            nn.Linear(SIZE, 64, bias=False),
            nn.Linear(64, SIZE),
        )
        self.rare = nn.Linear(SIZE, SIZE)

    def forward(self, x: Tensor) -> Tensor:
        y = x + self.q(x) * torch.tanh(self.k(x)) + self.v(x)
        if y.abs().max() > 1e6:
            y = self.rare(y)
        return y + self.down(torch.relu(self.up(self.norm(y))))


def net(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(Layer(), Layer()).eval()


def batches(count: int = 16, seed: int = 1) -> list[Tensor]:
    """Return inputs whose channels go together, some much larger than others."""
    random, mixer = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(9)
    mix = torch.randn(SIZE, SIZE, generator=mixer) * torch.exp(-torch.arange(SIZE) / 8)[:, None]
    return [torch.randn(2, 8, SIZE, generator=random) @ mix for _ in range(count)]


def relative_error(model: nn.Module, reference: nn.Module) -> float:
    samples = batches(8, seed=5)
    with torch.no_grad():
        pairs = [(model(x), reference(x)) for x in samples]
    return float(sum(((a - b) ** 2).sum() for a, b in pairs) / sum((b**2).sum() for _, b in pairs))


def plain() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(40, 64), nn.Tanh(), nn.Linear(64, 24, bias=False)).eval()


GRIDS = [("int4", 32), ("uint4", 16), ("int3", 32), ("int5", 32), ("int8", 64), ("uint8", 128)]


@pytest.mark.parametrize("activations", ["float", "dynamic-int8"])
@pytest.mark.parametrize(("weights", "block"), GRIDS)
def test_module_file_and_engine_give_the_same_bits(
    tmp_path: Path, weights: str, block: int, activations: str
) -> None:
    result = intact.quantize(plain(), weights=weights, block=block, activations=activations, progress=False)
    x, path = torch.randn(2, 5, 40), tmp_path / "net.onnx"
    with exact_functions(result.model):  # or Tanh is PyTorch's
        y = result.model(x)
    np.testing.assert_array_equal(intact.compile(result, x)(x.numpy()), y.numpy())
    report = intact.torch.export(result.model, x, path)
    assert report.end_to_end is not None and report.end_to_end.values_differing == 0
    np.testing.assert_array_equal(intact.compile(path)(x.numpy()), y.numpy())
    kinds = {node.op_type for node in onnx.load(path).graph.node}
    assert ("MatMulNBits" in kinds) == (activations != "float")


def test_its_codes_are_those_of_the_file() -> None:
    model = plain()
    result = intact.quantize(model, weights="uint4", block=16, method="rtn", progress=False)
    stored = result.model[0].weights
    want = round_to_nearest(model[0].weight.detach().numpy(), BlockFormat("uint4", 16))
    for name in ("codes", "scales", "zero_points"):
        np.testing.assert_array_equal(getattr(stored, name), getattr(want, name))
    np.testing.assert_array_equal(result.model[0].dequantize(), numerics.dequantize_blocks(want))


def test_data_choose_better_codes_than_none() -> None:
    model = net()
    nearest = relative_error(intact.quantize(model, method="rtn", block=16, progress=False).model, model)
    bounds = {"gptq": 0.3, "auto": 0.3}
    for method, bound in bounds.items():
        result = intact.quantize(model, batches(), method=method, block=16, progress=False)
        assert relative_error(result.model, model) < bound * nearest
        assert not any(isinstance(module, Gate) for module in result.model.modules())
        assert len(result.layers) == 12 and not result.in_float
        assert set(result.notes) == {"0.rare", "1.rare"}
        assert all(
            isinstance(result.model.get_submodule(layer.name), BlockWeightLinear) for layer in result.layers
        )
    assert type(model[0].q) is nn.Linear


def test_layers_of_one_tensor_share_their_channel_factors() -> None:
    result = intact.quantize(net(), batches(), method="awq", progress=False)
    factors = [getattr(result.model[0], name).channel_factors for name in "qkv"]
    assert factors[0] is not None and all(torch.equal(factors[0], other) for other in factors)


def test_torch_onnx_export_and_torch_compile(tmp_path: Path) -> None:
    result, x = (
        intact.quantize(plain(), block=32, activations="dynamic-int8", progress=False),
        torch.randn(5, 40),
    )
    torch.onnx.export(result.model, (x,), tmp_path / "net.onnx", dynamo=True, verbose=False)
    with exact_functions(result.model):
        y = result.model(x)
    np.testing.assert_array_equal(intact.compile(tmp_path / "net.onnx")(x.numpy()), y.numpy())
    for backend in ("aot_eager", "intact"):
        compiled = torch.compile(result.model, backend=backend, fullgraph=True)
        torch.testing.assert_close(compiled(x), y, atol=1e-6, rtol=1e-6)


def test_state_is_saved_as_codes() -> None:
    first, second = (
        intact.quantize(plain(), batches_of_40(), method="auto", block=8, progress=False).model
        for _ in range(2)
    )
    state = first.state_dict()
    assert {"0.codes", "0.scales", "0.bias", "0.channel_factors", "2.codes"} <= state.keys()
    with torch.no_grad():
        second[2].scales.zero_()
    second.load_state_dict(state)
    x = torch.randn(3, 40)
    assert torch.equal(second(x), first(x))
    assert torch.equal(copy.deepcopy(first)(x), first(x))


def batches_of_40() -> list[Tensor]:
    torch.manual_seed(3)
    return [torch.randn(8, 40) * torch.linspace(0.1, 5, 40) for _ in range(6)]


def test_half_precision_is_cast_around_the_product(tmp_path: Path) -> None:
    result = intact.quantize(plain(), block=32, activations="dynamic-int8", progress=False)
    model, x = result.model[:1], torch.randn(3, 40).half()
    y = model(x)
    assert y.dtype == torch.float16
    intact.torch.export(model, x, tmp_path / "half.onnx")
    np.testing.assert_array_equal(intact.compile(tmp_path / "half.onnx")(x.numpy()), y.numpy())


def test_encoder_layers_call_their_linear_layers() -> None:
    """PyTorch's fused function reads weights that are gone."""
    layer = nn.TransformerEncoderLayer(SIZE, 4, 64, batch_first=True)
    encoder, x = nn.TransformerEncoder(layer, 2).eval(), batches(1)[0]
    for model in (
        intact.torch.quantize_dynamic(encoder),
        intact.quantize(encoder, batches(4), method="gptq", weights="int8", progress=False).model,
    ):
        assert type(model.layers[0].linear1) is BlockWeightLinear
        mask = torch.zeros(2, 8, dtype=torch.bool)
        torch.testing.assert_close(model(x, src_key_padding_mask=mask), encoder(x), atol=0.1, rtol=0)


def test_what_stays_in_float_and_why() -> None:
    model = net()
    model[1].down.register_forward_hook(lambda *_: None)
    result = intact.quantize(model, block=16, exclude=["0"], progress=False)
    assert result.in_float["0.q"] == "excluded" and result.in_float["1.down"] == "it has hooks"
    assert [layer.name for layer in result.layers] == ["1.q", "1.k", "1.v", "1.up", "1.rare"]
    tied = nn.ModuleDict({"a": nn.Linear(16, 16)})
    tied["b"] = tied["a"]
    result = intact.quantize(tied, block=16, progress=False)
    assert result.model["a"] is result.model["b"] and type(result.model["a"]) is BlockWeightLinear
    assert type(intact.quantize(nn.Linear(16, 16), block=16, progress=False).model) is BlockWeightLinear


def test_an_error_of_the_model_leaves_it_as_it_was() -> None:
    class Failing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)

        def forward(self, x: Tensor, fails: Tensor) -> Tensor:
            y = self.first(x)
            if fails:
                raise ZeroDivisionError("in the second batch")
            return self.second(y)

    model, x = Failing(), batches(1)[0]
    data = [(x, torch.tensor(False)), (x, torch.tensor(True))]
    with pytest.raises(ZeroDivisionError, match="second batch"):
        intact.quantize(model, data, method="gptq", inplace=True, progress=False)
    assert type(model.first) is nn.Linear and type(model.second) is nn.Linear


def test_what_it_refuses() -> None:
    with pytest.raises(QuantValueError, match="none for method 'gptq'"):
        intact.quantize(net(), method="gptq", progress=False)
    with pytest.raises(QuantValueError, match="no linear layer"):
        intact.quantize(nn.ReLU(), block=32, progress=False)
    with pytest.raises(QuantValueError, match="multiple of 8"):
        intact.quantize(net(), block=12, activations="dynamic-int8", progress=False)
    with pytest.raises(QuantValueError, match="a module has no file"):
        intact.quantize(net(), operator="MatMulNBits", progress=False)
    with pytest.raises(QuantValueError, match="no batches"):
        intact.quantize(net(), [], method="awq", progress=False)
    with pytest.raises(QuantValueError, match=r"module '1\.up'"):
        model = net()
        with torch.no_grad():
            model[1].up.weight[0, 0] = torch.inf
        intact.quantize(model, block=32, progress=False)
    with pytest.raises(CalibrationError, match=r"0\.q"):
        intact.quantize(net(), [torch.full((2, SIZE), torch.nan)], method="awq", progress=False)
    result = intact.quantize(plain(), weights="int5", block=24, progress=False)
    with pytest.raises(UnsupportedError, match="layer '0'"):
        intact.torch.export(result.model, torch.randn(2, 40), "unused.onnx", opset=17)


@pytest.mark.parametrize("has_data", [False, True])
def test_bits_within_a_budget(has_data: bool) -> None:
    model = net()
    with torch.no_grad():
        model[0].down.weight[:, ::16] *= 30
    result = intact.quantize(
        model, batches(8) if has_data else None, block=16, method="rtn" if not has_data else "gptq",
        bits_budget=6.0, progress=False,
    )  # fmt: skip
    formats = {layer.name: layer.format for layer in result.layers}
    assert len(set(formats.values())) > 1 and len(formats) == 12
    mean = sum((int(layer.format[3:]) + 1) * np.prod(layer.shape) for layer in result.layers)
    assert 5.5 < mean / sum(np.prod(layer.shape) for layer in result.layers) <= 6.0
    if has_data:
        assert formats["0.q"] == formats["0.k"] == formats["0.v"]
    uniform = intact.quantize(model, weights="int5", block=16, method="rtn", progress=False)
    assert relative_error(result.model, model) < relative_error(uniform.model, model)
