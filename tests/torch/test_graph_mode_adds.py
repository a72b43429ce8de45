"""Sums and activations that the ONNX path quantizes, in graph mode: the same pairs at the same operators."""

from __future__ import annotations

import pickle
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import intact
from intact import graph
from intact.errors import QuantValueError, UnsupportedError
from intact.torch import export, load_checkpoint, quantize, save_checkpoint

WIDTH, WORDS = 32, 20
COMPUTING = ("Add", "Mul", "Sub", "Sigmoid", "MatMul", "Gemm", "Conv")


def words(width: int = WIDTH) -> Tensor:
    return torch.randn(2, WORDS, width, generator=torch.Generator().manual_seed(1))


def pairs(file: Path) -> Counter[str]:
    """Operators, each with the inputs that come through a pair: "Add[qq]"."""
    kinds: Counter[str] = Counter()
    for node in graph.load(file).graph:
        if node.op_type in COMPUTING:
            inputs = node.inputs[:2] if node.op_type in ("Conv", "Gemm") else node.inputs
            kinds[f"{node.op_type}[{''.join('q' if _is_paired(v) else '.' for v in inputs)}]"] += 1
    return kinds


def _is_paired(value: Any) -> bool:
    node = value.producer()
    while node is not None and node.op_type != "DequantizeLinear" and graph.ops.may_move(node):
        node = node.inputs[0].producer()
    return node is not None and node.op_type == "DequantizeLinear"


def check_pairs(model: nn.Module, inputs: tuple[Tensor, ...], folder: Path) -> Any:
    """Graph mode's file has the pairs of the ONNX path's; what graph mode answered."""
    model = model.eval()
    result = quantize(model, [inputs], method="max", progress=False, float_budget=0, correct_bias=False)
    report = export(result.model, inputs, folder / "ours.onnx", dynamic_batch=False)
    assert not report.not_compared and all(quantizer.largest <= 1 for quantizer in report.quantizers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about itself
        torch.onnx.export(model, inputs, folder / "float.onnx", opset_version=18, dynamo=True, verbose=False)
    names = [value.name for value in graph.load(folder / "float.onnx").graph.inputs]
    data = [dict(zip(names, (x.numpy() for x in inputs), strict=True))]
    intact.quantize(
        folder / "float.onnx", data, method="max", progress=False, float_budget=0, equalization=False
    ).save(folder / "theirs.onnx")
    assert pairs(folder / "ours.onnx") == pairs(folder / "theirs.onnx")
    return result


def check_training(model: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """20 steps towards fixed numbers lower the loss."""
    model.train()
    optimizer, losses = torch.optim.Adam(model.parameters(), 1e-3), []
    target = torch.randn(model(*inputs).shape, generator=torch.Generator().manual_seed(2))
    for _ in range(20):
        optimizer.zero_grad()
        loss = F.mse_loss(model(*inputs), target)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    model.eval()
    assert losses[-1] < losses[0]


class Conditioned(nn.Module):
    """As an adaLN block: every layer applies SiLU to the same condition, of which the file holds one."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Linear(WIDTH, WIDTH)
        self.scales = nn.ModuleList([nn.Sequential(nn.SiLU(), nn.Linear(WIDTH, WIDTH)) for _ in range(3)])
        self.body = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(3)])

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        t = self.time(t)
        for scale, layer in zip(self.scales, self.body, strict=True):
            x = x + layer(x) * (1 + scale(t))
        return x


class Gated(nn.Module):
    """SiLU of a sum that others read too: its product runs in int8 by itself."""

    def __init__(self, *, inplace: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(3)])
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers[0](x)
        for layer in self.layers[1:]:
            copied = x * 1 if self.inplace else x
            x = layer(F.silu(copied, inplace=self.inplace)) + x
        return self.layers[0](x)


class TestActivations:
    def test_equal_calls_are_placed_as_the_one_that_the_file_has(self, tmp_path: Path) -> None:
        inputs = words(), torch.randn(2, 1, WIDTH, generator=torch.Generator().manual_seed(3))
        result = check_pairs(Conditioned(), inputs, tmp_path)
        assert not any("the tensor is inside" in why for why in result.report.left.values())
        check_training(result.model, inputs)

    @pytest.mark.parametrize("inplace", [False, True], ids=["another tensor", "in place"])
    def test_both_factors_of_silu_are_quantized(self, inplace: bool, tmp_path: Path) -> None:
        result = check_pairs(Gated(inplace=inplace), (words(),), tmp_path)
        assert any("silu_mul" in name for name in result.report.quantizers)
        check_training(result.model, (words(),))

    def test_silu_that_changes_what_others_read_stays_one_call(self) -> None:
        class Changes(Gated):
            def forward(self, x: Tensor) -> Tensor:
                x = self.layers[0](x)
                F.silu(x, inplace=True)
                return self.layers[2](self.layers[1](x) + x)

        model, x = Changes().eval(), words()
        result = quantize(model, [x], progress=False)
        assert not any("silu" in name for name in result.report.quantizers)
        assert (result.model(x) - model(x)).norm() < 0.05 * model(x).norm()


class Masked(nn.Module):
    """Adds a mask where it is exported, and noise where it is trained, in front of what it always adds."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.head = (nn.Linear(WIDTH, n * WIDTH) for n in (3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x = x + 0.01 * torch.randn_like(x)
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(-1, -2) * WIDTH**-0.5
        if torch.compiler.is_exporting():
            scores = scores + torch.zeros(WORDS, WORDS)
        y = self.out(scores.softmax(-1) @ v) + x
        return self.head(y) + y


class Skips(nn.Module):
    """Stochastic depth: training leaves out whole layers, whose code makes other calls when it is trained."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                return self.head(self.body(x) + 2 * x - x)
            return self.head(self.body(x) + x)

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([self.Layer() for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            if not self.training or torch.rand(()) < 0.5:
                x = layer(x)
        return x * 1.5


class Padded(nn.Module):
    """Multiplies by a mask of booleans, as models of speech do behind each layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(3)])

    def forward(self, x: Tensor, allowed: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x * allowed)
            x *= allowed
        return self.layers[0](x)


def test_masks_of_booleans_are_quantized_as_what_they_are_multiplied_as(tmp_path: Path) -> None:
    allowed = torch.ones(2, WORDS, 1, dtype=torch.bool)
    allowed[1, 12:] = False
    result = check_pairs(Padded(), (words(), allowed), tmp_path)
    assert not any("the tensor is inside" in why for why in result.report.left.values())
    check_training(result.model, (words(), allowed))


class TestNumbersOfCalls:
    def test_sums_are_known_by_their_place_where_another_run_makes_more(self, tmp_path: Path) -> None:
        result = check_pairs(Masked(), (words(),), tmp_path)
        assert not any("another number" in why for why in result.report.left.values())
        assert {name for name in result.report.quantizers if name.startswith("add_forward")}
        check_training(result.model, (words(),))
        report = export(result.model, words(), tmp_path / "trained.onnx")
        assert not report.not_compared and report.codes_differing == 0

    def test_they_are_kept(self, tmp_path: Path) -> None:
        x = words()
        model = quantize(Masked().eval(), [x], progress=False).model
        save_checkpoint(model, tmp_path / "m.safetensors")
        assert torch.equal(load_checkpoint(Masked(), tmp_path / "m.safetensors").eval()(x), model(x))
        assert torch.equal(pickle.loads(pickle.dumps(model))(x), model(x))

    def test_another_number_at_the_place_of_a_quantizer_is_an_error(self) -> None:
        x = words()
        model = quantize(Masked().eval(), [x], progress=False).model
        scope = model._scope
        (add, site), call_count = next((key, n) for key, n in scope.call_counts.items() if key[0] == "add")
        scope.call_counts[add, site] = call_count + 1
        with pytest.raises(QuantValueError, match=f"got {call_count} calls of 'add', want {call_count + 1}"):
            model(x)

    def test_torch_compile_runs_the_calls_of_the_trace(self) -> None:
        x = words()
        model = quantize(Masked().eval(), [x], progress=False).model
        compiled = torch.compile(model, backend="eager")
        assert torch.allclose(compiled(x), model(x), atol=1e-5)

    def test_it_knows_them_behind_a_graph_break(self) -> None:
        class Breaks(Masked):
            def forward(self, x: Tensor) -> Tensor:
                x = x * 2
                torch._dynamo.graph_break()
                y = super().forward(x) + x
                torch._dynamo.graph_break()
                if torch.compiler.is_exporting():
                    y = y + 0 * x
                return self.head(y + x)

        x = words()
        model = quantize(Breaks().eval(), [x], progress=False).model
        with torch.no_grad():  # torch warns about gradients behind a graph break
            assert torch.allclose(torch.compile(model, backend="eager")(x), model(x), atol=1e-5)

    def test_layers_that_training_leaves_out_are_seen(self) -> None:
        result = quantize(Skips().eval(), [words()], progress=False)
        model = result.model.train()
        for _ in range(8):
            model(words()).sum().backward()
        assert model.layers[1].body._weight_quantizer.amax is not None


class OtherWay(Masked):
    """The way that it goes while it is exported was never run: its mask has no shape that can be added."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_exporting():
            x = x + torch.zeros(WORDS + 1, 1)
        return self.head(torch.relu(self.out(x)) + x) + x


def test_code_that_cannot_be_exported_as_it_asks_to_be_is_as_it_runs(tmp_path: Path) -> None:
    x = words()
    with pytest.raises(UnsupportedError):
        export(OtherWay().eval(), x, tmp_path / "float.onnx")
    result = quantize(OtherWay().eval(), [x], progress=False)
    assert not result.report.replaced and "add_quantizer_0" in result.report.quantizers
    check_training(result.model, (x,))
    report = export(result.model, x, tmp_path / "m.onnx")
    assert not report.not_compared and report.codes_differing == 0
    assert not torch.compiler.is_exporting() and torch.compiler.is_exporting.__name__ == "is_exporting"
