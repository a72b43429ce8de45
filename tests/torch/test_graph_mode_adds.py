"""Sums and activations that the ONNX path quantizes, in graph mode: the same pairs at the same operators."""

from __future__ import annotations

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
from intact.torch import export, quantize

WIDTH, WORDS = 32, 20
COMPUTING = ("Add", "Mul", "Sub", "Sigmoid", "MatMul", "Gemm", "Conv")


def words(width: int = WIDTH) -> Tensor:
    return torch.randn(2, WORDS, width, generator=torch.Generator().manual_seed(1))


def pairs(file: Path) -> Counter[str]:
    """Operators, each with the inputs that come through a pair: "Add[qq]"."""
    found: Counter[str] = Counter()
    for node in graph.load(file).graph:
        if node.op_type in COMPUTING:
            inputs = node.inputs[:2] if node.op_type in ("Conv", "Gemm") else node.inputs
            found[f"{node.op_type}[{''.join('q' if _is_paired(v) else '.' for v in inputs)}]"] += 1
    return found


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
    assert not report.not_compared and all(one.largest <= 1 for one in report.quantizers)
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
