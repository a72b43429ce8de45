"""Graph mode on small nets: where quantizers stand, what they are called, and what stays as it was."""

from __future__ import annotations

import copy
import functools
import pickle
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import intact
from intact.errors import QuantValueError
from intact.torch import calibrate, export, load_checkpoint, quantize, save_checkpoint
from intact.torch import nn as quant_nn
from intact.torch.training.collect_statistics import enabled_quantizers


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.bn = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv2(F.relu(self.bn(self.conv1(x)))) + x)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.blocks = nn.Sequential(Block(16), Block(16))
        self.head = nn.Linear(16, 20)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(F.relu(self.stem(x)))
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 16, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(16, 16, 2, 2)
        self.out = nn.Conv2d(32, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = F.relu(self.down(x))
        return self.out(torch.cat([a, F.relu(self.up(self.pool(a)))], 1))


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.Parameter(torch.randn(32, 3, 3, 3))
        self.weight = nn.Parameter(torch.randn(20, 32))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(F.conv2d(x, self.filters, padding=1))
        return F.linear(y.mean((2, 3)), self.weight)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        return self.o(torch.softmax(q @ k.transpose(1, 2), -1) @ v)


class Branch(nn.Module):
    """Chooses by the data: no trace can follow it."""

    def __init__(self) -> None:
        super().__init__()
        self.positive, self.negative = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        return self.positive(x) if x.sum() > 0 else self.negative(x)


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.branch, self.last = nn.Linear(16, 32), Branch(), nn.Linear(32, 20)

    def forward(self, x: Tensor, mask: Tensor | None = None, gain: float = 1.0) -> Tensor:
        y = F.dropout(F.relu(self.first(x)), 0.5, self.training)
        if mask is not None:
            y = y * mask
        return self.last(self.branch(y)) * gain


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm, self.out = (
            nn.Linear(16, 32),
            nn.LSTM(32, 32, batch_first=True),
            nn.Linear(32, 20),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.lstm(self.embed(x))[0][:, -1])


class Looping(nn.Module):
    """A model whose own forward cannot be traced."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(1 + int(x.sum() > 0)):
            x = self.layer(x)
        return x


IMAGE, ROWS, WORDS = (2, 3, 16, 16), (2, 16), (2, 32, 32)
NETS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "residual": (Residual, IMAGE), "unet": (UNet, IMAGE), "functional": (Functional, IMAGE),
    "attention": (Attention, WORDS), "mixed": (Mixed, ROWS), "recurrent": (Recurrent, (2, 8, 16)),
}  # fmt: skip


def active(model: nn.Module) -> dict[str, quant_nn.TensorQuantizer]:
    return {
        n: m for n, m in model.named_modules() if isinstance(m, quant_nn.TensorQuantizer) and not m._disabled
    }


def make_net(net: str) -> tuple[nn.Module, Tensor]:
    kind, shape = NETS[net]
    return kind().eval(), torch.randn(shape)


@functools.cache
def _quantize_once(net: str, **options: Any) -> tuple[Any, Tensor]:
    torch.manual_seed(0)
    model, x = make_net(net)
    return quantize(model, [x], method="max", progress=False, **options), x


def quantize_net(net: str, **options: Any) -> tuple[Any, Tensor]:
    """A result of its own for every test; an export takes a second, so each is made once."""
    result, x = _quantize_once(net, **options)
    return replace(result, model=copy.deepcopy(result.model)), x


def weights(model: nn.Module) -> Iterator[str]:
    return (n for n in active(model) if n.endswith("_weight_quantizer"))


class TestPlacement:
    def test_one_quantizer_serves_the_identity_branch_and_the_convolution_beside_it(self) -> None:
        result, _ = quantize_net("residual")
        assert {n for n in active(result.model) if not n.endswith("_weight_quantizer")} == {
            "stem._input_quantizer",
            "blocks.0.add_quantizer",
            "blocks.0.conv2._input_quantizer",
            "blocks.1.add_quantizer",
            "blocks.1.conv2._input_quantizer",
            "adaptive_avg_pool2d_quantizer",
            "flatten_quantizer",
        }
        assert "identity branch of Add 'blocks.1.add'" in result.report.quantizers["blocks.1.add_quantizer"]

    def test_inputs_of_a_concatenation_share_one_quantizer(self) -> None:
        result, x = quantize_net("unet", profile="openvino")
        assert result.model.out._input_quantizer._disabled
        calls = []
        result.model.cat_quantizer.register_forward_hook(lambda *_: calls.append(1))
        result.model(x)
        assert len(calls) == 2

    def test_an_input_that_others_read_too_has_a_quantizer_of_its_own(self) -> None:
        """`cat_quantizer_0` is for what the pooling reads too; the other input shares that of the whole."""
        result, x = quantize_net("unet")
        seen: dict[int, list[float]] = {0: [], 1: []}
        for number, amounts in seen.items():
            quantizer = getattr(result.model, f"cat_quantizer_{number}")
            quantizer.register_forward_hook(lambda _, args, __, to=amounts: to.append(args[0].numel()))
        result.model(x)
        (part,) = seen[0]
        assert sorted(seen[1]) == [part, 2 * part], "the other part and the whole"
        assert result.model.out._input_quantizer._disabled

    def test_functions_get_quantizers_on_data_and_weights(self) -> None:
        result, _ = quantize_net("functional")
        assert set(active(result.model)) == {
            "conv2d_quantizer", "filters_quantizer", "mean_quantizer", "linear_quantizer", "weight_quantizer",
        }  # fmt: skip
        assert result.model.filters_quantizer.amax.shape == (32, 1, 1, 1)
        assert torch.equal(result.model.weight_quantizer.amax.flatten() > 0, torch.ones(20, dtype=torch.bool))
        assert not {"filters_quantizer", "weight_quantizer"} & set(result.calibration.calibration)

    def test_products_of_activations_are_quantized_on_both_sides(self) -> None:
        result, _ = quantize_net("attention")
        assert {n for n in active(result.model) if not n.endswith("_weight_quantizer")} == {
            "q_input_quantizer", "matmul_quantizer", "transpose_quantizer",
            "matmul_1_quantizer_0", "matmul_1_quantizer_1", "o._input_quantizer",
        }  # fmt: skip

    def test_patterns_keep_modules_and_functions_in_float(self) -> None:
        result, _ = quantize_net("residual", exclude=("blocks.0", "head"))
        assert list(weights(result.model)) == [
            "stem._weight_quantizer", "blocks.1.conv1._weight_quantizer", "blocks.1.conv2._weight_quantizer",
        ]  # fmt: skip
        assert result.report.left["head"] == "kept in float: it matches 'head' of exclude"
        only, _ = quantize_net("residual", include=("blocks.1.*",))
        assert all(name.startswith("blocks.1.") for name in weights(only.model))

    def test_formats_reach_the_quantizers(self) -> None:
        result, _ = quantize_net("residual", activations="uint8", weights="int4")
        assert result.model.stem._input_quantizer.format == "uint8"
        assert not result.model.stem._input_quantizer.symmetric
        assert result.model.stem._weight_quantizer.num_bits == 4

    @pytest.mark.parametrize("activations", ["int16", "fp8e4m3"])
    def test_explain_says_what_other_formats_make_of_layers(self, activations: str) -> None:
        weights = "fp8e4m3" if "fp8" in activations else "int8"
        result, x = quantize_net("residual", activations=activations, weights=weights)
        rows = result.explain()
        listed = [(row["op_type"], row["precision"]) for row in rows if row["op_type"] == "Conv"]
        plan = intact.compile(result.model, x).plan
        assert listed == [
            (layer.op_type, layer.precision) for layer in plan.layers if layer.op_type == "Conv"
        ]
        reason = "codes of 16 bits" if activations == "int16" else "comes in float8e4m3fn"
        assert all(reason in row["reason"] for row in rows if row["op_type"] == "Conv")


class TestModel:
    @pytest.mark.parametrize("net", [net for net in NETS if net != "mixed"])
    def test_exported_file_computes_the_modules_codes(self, net: str, tmp_path: Path) -> None:
        result, x = quantize_net(net)
        report = export(result.model, x, tmp_path / "m.onnx")
        assert report.codes_differing == 0
        assert report.codes > 0
        assert not report.not_compared

    @pytest.mark.parametrize("net", NETS)
    def test_names_copies_and_gradients(self, net: str) -> None:
        result, x = quantize_net(net)
        assert isinstance(result.model, NETS[net][0])
        assert set(NETS[net][0]().state_dict()) <= set(result.model.state_dict())
        expected = result.model(x)
        assert torch.equal(copy.deepcopy(result.model)(x), expected)
        assert torch.equal(pickle.loads(pickle.dumps(result.model))(x), expected)
        result.model.train()
        result.model(x).sum().backward()
        reached = [n for n, p in result.model.named_parameters() if p.grad is not None]
        missed = {n for n, _ in result.model.named_parameters()} - set(reached)
        assert all(n.startswith("branch.") for n in missed)

    @pytest.mark.parametrize("net", NETS)
    def test_checkpoint_restores_a_float_model_without_data(self, net: str, tmp_path: Path) -> None:
        result, x = quantize_net(net)
        save_checkpoint(result.model, tmp_path / "m.safetensors")
        restored = load_checkpoint(NETS[net][0](), tmp_path / "m.safetensors").eval()
        assert torch.equal(restored(x), result.model(x))
        load_checkpoint(restored, tmp_path / "m.safetensors")
        assert torch.equal(restored(x), result.model(x))

    def test_batch_norm_and_dropout_follow_the_mode(self) -> None:
        result, x = quantize_net("residual")
        before = result.model.blocks[0].bn.running_mean.clone()
        result.model(x)
        assert torch.equal(result.model.blocks[0].bn.running_mean, before)
        result.model.train()
        result.model(x)
        assert not torch.equal(result.model.blocks[0].bn.running_mean, before)
        mixed, x = quantize_net("mixed")
        assert torch.equal(mixed.model(x), mixed.model(x))
        mixed.model.train()
        assert not torch.equal(mixed.model(x), mixed.model(x))

    def test_placing_and_calibrating_apart_give_the_same(self) -> None:
        model, x = make_net("residual")
        placed = quantize(model, example=x)
        assert type(model) is Residual, "the model that was given is left alone"
        assert placed.calibration is None
        calibrate(placed.model, [x], method="max", correct_bias="auto", progress=False)
        at_once = quantize(model, [x], method="max", progress=False)
        assert torch.equal(placed.model(x), at_once.model(x))

    def test_biases_are_corrected_beside_functions(self) -> None:
        """Calls of the correction are no calls of the model."""
        torch.manual_seed(0)
        batches = [torch.randn(4, 3, 8, 8).exp() for _ in range(2)]
        result = quantize(Gated(), batches, weights="int4", progress=False)
        assert result.calibration is not None
        assert result.calibration.corrected
        plain = quantize(Gated(), batches, weights="int4", correct_bias=False, progress=False)
        assert not plain.calibration.corrected

    def test_inplace_keeps_the_object(self) -> None:
        model, x = make_net("unet")
        assert quantize(model, iter([x]), inplace=True, progress=False).model is model
        assert type(model).__name__ == "QuantizedUNet"


class TestWhatCannotBeTraced:
    def test_a_submodule_is_replaced_inside_and_named_with_the_reason(self) -> None:
        result, _ = quantize_net("mixed")
        assert list(result.report.replaced) == ["branch"]
        why = result.report.replaced["branch"]
        assert re.match(
            r"it cannot be traced at test_graph_mode.py:\d+, `return self.positive\(x\) if x", why
        )
        assert "GuardOnDataDependentSymNode: Could not guard on data-dependent expression" in why
        assert isinstance(result.model.branch.positive, quant_nn.QuantLinear)
        unreached = [n for n, why in result.report.left.items() if why == "no batch reached it"]
        assert len(unreached) == 1 and unreached[0].startswith("branch.")
        assert "branch: modules replaced inside, it cannot be traced" in str(result.report)

    def test_recurrent_cells_are_modules(self) -> None:
        class Step(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.embed, self.cell, self.out = nn.Linear(16, 32), nn.GRUCell(32, 32), nn.Linear(32, 20)

            def forward(self, x: Tensor) -> Tensor:
                return self.out(self.cell(self.embed(x)))

        result = quantize(Step().eval(), [torch.randn(2, 16)], progress=False)
        assert result.report.replaced == {"cell": "GRUCell is one call of PyTorch"}
        assert isinstance(result.model.cell, quant_nn.QuantGRUCell)

    def test_a_whole_model_falls_back_with_the_line_that_stopped_it(self) -> None:
        result = quantize(Looping().eval(), [torch.randn(2, 32)], progress=False)
        assert re.match(
            r"it cannot be traced at test_graph_mode.py:\d+, `for _ in range\(1 \+ int\(x.sum\(\) > 0\)\):`",
            result.report.replaced[""],
        )
        assert result.placement is None and result.explain() == []
        assert all(isinstance(m, quant_nn.QuantLinear) for m in result.model.children())


class TestErrors:
    def test_a_model_with_quantizers(self) -> None:
        result, x = quantize_net("unet")
        with pytest.raises(QuantValueError, match="quantize: model: got a model with quantizers"):
            quantize(result.model, [x])

    def test_no_input(self) -> None:
        with pytest.raises(QuantValueError, match="quantize: got neither data nor example, want an input"):
            quantize(Residual())
        with pytest.raises(QuantValueError, match="quantize: data: got no batches"):
            quantize(Residual(), [])

    def test_unknown_format(self) -> None:
        with pytest.raises(QuantValueError, match="quantize: weights: "):
            quantize(Residual(), example=torch.zeros(IMAGE), weights="int99")

    def test_a_checkpoint_of_other_code(self, tmp_path: Path) -> None:
        result, x = quantize_net("functional")
        save_checkpoint(result.model, tmp_path / "m.safetensors")
        restored = load_checkpoint(OtherCode(), tmp_path / "m.safetensors")
        with pytest.raises(QuantValueError) as caught:
            restored(x)
        assert str(caught.value) == (
            "graph mode: forward of 'the model': got 0 calls of 'conv2d', want 1, as when the model was"
            " quantized. Fix: build the model with the code that was quantized, and pass an example with the"
            " same arguments to intact.torch.quantize"
        )


class Gated(nn.Module):
    """Convolutions, and functions that a mean of errors calls, too."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.gate = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.conv(x))
        return x * torch.sigmoid(self.gate(x.mean((2, 3), keepdim=True)))


class OtherCode(nn.Module):
    """Has the parameters of `Functional` and does something else."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.Parameter(torch.randn(32, 3, 3, 3))
        self.weight = nn.Parameter(torch.randn(20, 32))

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3)) @ self.weight[:, :3].T


@pytest.mark.parametrize("profile, unsigned", [("intact", True), ("tensorrt", False)])
def test_activations_take_the_grid_of_the_profile(profile: str, unsigned: bool) -> None:
    batches = [torch.randn(2, 3, 8, 8) for _ in range(2)]
    model = quantize(Residual(), batches, profile=profile, progress=False).model
    quantizers = enabled_quantizers(model)
    assert {q.unsigned for name, q in quantizers.items() if "weight" not in name} == {unsigned}
    assert {q.unsigned for name, q in quantizers.items() if "weight" in name} == {False}
    quantized_model = quantize(Residual(), batches, profile=profile, activations="int8", progress=False).model
    assert not any(q.unsigned for q in enabled_quantizers(quantized_model).values())


def test_a_module_whose_name_looks_like_a_pattern_is_excluded_alone() -> None:
    model = nn.Sequential()
    model.add_module("block[0]", nn.Conv2d(3, 4, 3))
    model.add_module("block0", nn.Conv2d(4, 4, 3))
    result = quantize(model.eval(), [torch.randn(2, 3, 9, 9)], exclude=["block[0]"], progress=False)
    assert {layer.name: layer.precision for layer in result.placement.layers if layer.op_type == "Conv"} == {
        "block[0]": "float", "block0": "int8",
    }  # fmt: skip


@pytest.mark.parametrize("argument", ["include", "exclude"])
def test_patterns_that_fit_nothing_are_refused_with_the_nearest_names(argument: str) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3)).eval()
    with pytest.raises(QuantValueError, match=f"quantize: {argument}: 'Convv'.*'Conv"):
        quantize(model, [torch.randn(2, 3, 9, 9)], progress=False, **{argument: ["0", "Convv"]})
