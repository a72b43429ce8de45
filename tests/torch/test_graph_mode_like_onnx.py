"""Graph mode where the exporter writes something else than a module's calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import intact
from intact import graph
from intact.engine.compare import compare
from intact.engine.steps import FallbackSubgraph
from intact.torch import export, load_checkpoint, quantize, save_checkpoint

WIDTH, WORDS = 32, 20


class Pooled(nn.Module):
    """The exporter writes the pool as ReduceMean, Squeeze, and others that move what it made."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.pool, self.head = (
            nn.Linear(WIDTH, WIDTH),
            nn.AdaptiveAvgPool1d(1),
            nn.Linear(WIDTH, 4),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.flatten(self.pool(self.body(x).transpose(1, 2)), 1))


class Positions(nn.Module):
    """Both layers add the same positions to the same tensor: the exporter writes one sum, and one pair."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("positions", torch.randn(WORDS, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x + self.positions) * torch.tanh(self.second(x + self.positions))


class Normed(nn.Module):
    """A layer whose weight is made of two parameters."""

    def __init__(self) -> None:
        super().__init__()
        normed = nn.Conv1d(WORDS, WORDS, 3, groups=2)
        self.conv = nn.utils.parametrizations.weight_norm(normed, dim=2)
        self.head = nn.Conv1d(WORDS, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.conv(x)))


class Masked(nn.Module):
    """Attention with a mask of booleans."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (f(x).view(2, WORDS, 2, WIDTH // 2).transpose(1, 2) for f in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).reshape(2, WORDS, WIDTH))


def words() -> Tensor:
    return torch.randn(2, WORDS, WIDTH)


def mask() -> Tensor:
    """Padding, and one row that may attend to nothing."""
    causal_mask = torch.ones(2, 1, WORDS, WORDS, dtype=torch.bool)
    causal_mask[1, :, :, -5:] = False
    causal_mask[1, :, 3] = False
    return causal_mask


def quantize_model(model: nn.Module, *inputs: Tensor) -> Any:
    return quantize(model.eval(), [inputs], method="max", progress=False)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def test_what_a_call_only_moves_is_quantized_behind_it(tmp_path: Path) -> None:
    x = words()
    result = quantize_model(Pooled(), x)
    assert "pool" not in result.report.left
    report = export(result.model, x, tmp_path / "m.onnx", dynamic_batch=False)
    assert report.codes_differing == 0 and not report.not_compared
    gemm = next(node for node in graph.load(tmp_path / "m.onnx").graph if node.op_type == "Gemm")
    assert [_above_moves(value) for value in gemm.inputs[:2]] == ["DequantizeLinear"] * 2


def _above_moves(value: Any) -> str:
    node = value.producer()
    while graph.ops.may_move(node):
        node = node.inputs[0].producer()
    return str(node.op_type)


def test_equal_tensors_that_the_file_has_once_are_compared_for_each_quantizer(tmp_path: Path) -> None:
    x = words()
    report = export(quantize_model(Positions(), x).model, x, tmp_path / "m.onnx", dynamic_batch=False)
    assert not report.not_compared and report.codes_differing == 0
    assert {"first._input_quantizer", "second._input_quantizer"} <= {c.quantizer for c in report.quantizers}


class TestParametrizedLayers:
    def test_weights_that_are_made_of_others_are_quantized_by_channel(self, tmp_path: Path) -> None:
        x = words()
        result = quantize_model(Normed(), x)
        assert not result.report.left
        assert result.model.conv.weight_quantizer.amax.numel() == WORDS
        report = export(result.model, x, tmp_path / "m.onnx", dynamic_batch=False)
        assert (report.pairs, report.folded) == (4, 2)
        assert report.codes_differing == 0 and not report.not_compared

    def test_they_are_trained_and_kept(self, tmp_path: Path) -> None:
        x = words()
        model = quantize_model(Normed(), x).model
        model(x).sum().backward()
        assert all(p.grad is not None and p.grad.any() for p in model.conv.parameters())
        save_checkpoint(model, tmp_path / "m.safetensors")
        restored = load_checkpoint(Normed(), tmp_path / "m.safetensors").eval()
        assert torch.equal(restored(x), model(x))


class TestMasksOfBooleans:
    def test_the_guard_of_empty_rows_is_the_exporters(self, tmp_path: Path) -> None:
        """The engine knows that one, and needs no node for it."""
        x = words(), mask()
        report = export(quantize_model(Masked(), *x).model, x, tmp_path / "m.onnx", dynamic_batch=False)
        assert report.codes_differing == 0
        written = {node.op_type for node in graph.load(tmp_path / "m.onnx").graph}
        assert "IsNaN" in written and "ReduceMax" not in written
        engine = intact.compile(tmp_path / "m.onnx")
        softmax = next(step for step in engine.plan.steps if step.kind == "softmax")
        read = {name for s in engine.plan.steps if isinstance(s, FallbackSubgraph) for name in s.xs}
        assert softmax.y not in read

    def test_answers_are_the_same_with_gradients_and_none_of_these_is_nan(self) -> None:
        x, allowed = words(), mask()
        model = quantize_model(Masked(), x, allowed).model
        answer = model(x, allowed)
        with torch.no_grad():
            assert torch.equal(model(x, allowed), answer)
        answer.sum().backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        assert gradients and all(np.isfinite(g.numpy()).all() for g in gradients)


class Cuts(nn.Module):
    """One call cuts keys, queries and values; the product with values is too small for int8."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).reshape(2, 4, 3, WIDTH).permute(2, 0, 1, 3).unbind(0)
        weights = torch.softmax(0.2 * q @ k.transpose(1, 2), -1)
        return self.out(weights @ v)


def test_parts_of_a_tensor_that_are_read_in_float_stay_in_float(tmp_path: Path) -> None:
    x = torch.randn(2, 4, WIDTH)
    result = quantize_model(Cuts(), x)
    assert "K = 4" in result.report.left["matmul_1"]
    export(result.model, x, tmp_path / "m.onnx", dynamic_batch=False)
    products = [
        node for node in graph.load(tmp_path / "m.onnx").graph
        if node.op_type == "MatMul" and node.inputs[1].producer().op_type != "DequantizeLinear"
    ]  # fmt: skip
    quantized_inputs = [[_above_moves(v) == "DequantizeLinear" for v in node.inputs] for node in products]
    assert quantized_inputs.count([False, False]) == 1, "weights @ v"
    engine = intact.compile(result.model, x, dynamic_batch=False)
    assert np.allclose(engine(x.numpy()), result.model(x).detach(), atol=1e-4)


class TellsExport(nn.Module):
    """As segmentation_models_pytorch's PSPNet: another way to the same pool while it is exported."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.pool, self.last = nn.Conv2d(3, 16, 3), nn.AdaptiveAvgPool2d(2), nn.Conv2d(16, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.first(x))
        z = F.interpolate(y, size=(2, 2), mode="area") if torch.onnx.is_in_onnx_export() else self.pool(y)
        return self.last(F.interpolate(z, scale_factor=4) + y)


def test_the_file_makes_the_calls_that_were_quantized(tmp_path: Path) -> None:
    x = torch.randn(2, 3, 10, 10)
    result = quantize_model(TellsExport(), x)
    report = export(result.model, x, tmp_path / "m.onnx", dynamic_batch=False)
    assert not report.not_compared and report.codes_differing == 0
    pool = next(node for node in graph.load(tmp_path / "m.onnx").graph if node.op_type == "AveragePool")
    assert pool.inputs[0].producer().op_type == "DequantizeLinear"


class Mixes(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.convs = nn.ModuleList([nn.Conv2d(16, 16, 1) for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        *parts, last = self.convs
        return last(self.function(*(conv(x) for conv in parts)))


MIXES = {
    "addcmul": (lambda x, y, z: torch.addcmul(x, y, z, value=0.5), {"addcmul.mul", "addcmul.add"}),
    "addcmul, 1": (lambda x, y, z: x.addcmul(y, z), {"addcmul.mul", "addcmul.add"}),
    "addcdiv": (lambda x, y, z: torch.addcdiv(x, y, z.abs() + 1.5, value=0.5), {"addcdiv.add"}),
    "lerp": (lambda x, y, z: torch.lerp(x + z, y, 0.3), {"lerp.add"}),
    "lerp, near the end": (lambda x, y, z: torch.lerp(x + z, y, 0.7), set()),
    "addcmul_": (lambda x, y, z: x.addcmul_(y, z, value=0.5), {"addcmul.mul", "addcmul.add"}),
    "addcdiv_": (lambda x, y, z: x.addcdiv_(y, z.abs() + 1.5), {"addcdiv.add"}),
    "lerp_": (lambda x, y, z: (x + z).lerp_(y, 0.3), {"lerp.add"}),
}


@pytest.mark.parametrize("name", MIXES)
def test_functions_of_several_products_are_seen_into(name: str, tmp_path: Path) -> None:
    function, inside = MIXES[name]
    x, model = torch.randn(2, 16, 6, 6), Mixes(function).eval()
    result = quantize_model(model, x)
    assert not {call for call in result.report.left if "lerp" in call or "addc" in call}
    for call in inside:
        assert any(quantizer.startswith(call.replace(".", "_")) for quantizer in result.report.quantizers), (
            call
        )
    with torch.no_grad():
        wanted, got = model(x), result.model(x)
    assert (wanted - got).norm() < 0.05 * wanted.norm()
    report = export(result.model, x, tmp_path / "m.onnx")
    assert not report.not_compared and report.codes_differing == 0
    written, engine = graph.load(tmp_path / "m.onnx"), intact.compile(tmp_path / "m.onnx")
    assert compare(written, engine, [{engine.inputs[0].name: x.numpy()}]).exact
    apart = engine(x.numpy()) - got.numpy()  # an Add of codes rounds at other ties than one of floats
    assert np.linalg.norm(apart) < 0.01 * np.linalg.norm(got.numpy())
    assert "Where" not in {node.op_type for node in graph.load(tmp_path / "m.onnx").graph}


def _into_a_part(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    whole = x * 1
    whole[:, :8].addcmul_(y[:, :8], z[:, :8])
    return whole.lerp_(y, 0.7) + torch.addcmul(x, y, z)


def test_who_writes_into_a_part_writes_into_the_whole(tmp_path: Path) -> None:
    x, model = torch.randn(2, 16, 6, 6), Mixes(_into_a_part).eval()
    result = quantize_model(model, x)
    assert any(name.startswith("addcmul_add") for name in result.report.quantizers)
    with torch.no_grad():
        wanted, got = model(x), result.model(x)
    assert (wanted - got).norm() < 0.05 * wanted.norm()
    report = export(result.model, x, tmp_path / "m.onnx")
    assert not report.not_compared and report.codes_differing == 0
