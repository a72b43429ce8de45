"""Experts in graph mode: rows that are sorted by expert, or that choose the matrices to multiply by."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import intact
from intact import graph
from intact.errors import UnsupportedError
from intact.graph import Session
from intact.torch import export
from intact.torch.graph_mode.record import GraphModeRecord
from intact.torch.operators.grouped_matmul import WholeProducts
from intact.torch.qdq.run_exporter import translate
from intact.torch.tracing.changed_calls import ChangedCalls

EXPERTS, CHOSEN = 4, 2


class Experts(nn.Module):
    """A router, and two products of each row's experts; one stores its matrices the other way round."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(32, EXPERTS)
        self.up = nn.Parameter(torch.randn(EXPERTS, 48, 32) / 6)
        self.down = nn.Parameter(torch.randn(EXPERTS, 48, 32) / 7)

    def route(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weights, experts = self.router(x).softmax(-1).topk(CHOSEN, -1)
        return weights.reshape(-1), experts.reshape(-1)


class Sorted(Experts):
    """As transformers does it by default."""

    def forward(self, x: Tensor) -> Tensor:
        weights, experts = self.route(x)
        experts, order = torch.sort(experts)
        number = torch.histc(experts.float(), bins=EXPERTS, min=0, max=EXPERTS - 1)
        ends = torch.cumsum(number, 0, dtype=torch.int32)
        y = F.grouped_mm(x[order // CHOSEN], self.up.transpose(1, 2), offs=ends)
        y = F.grouped_mm(F.silu(y), self.down, offs=ends) * weights[order][:, None]
        back = torch.empty_like(order)
        back[order] = torch.arange(order.shape[0])
        return y[back].view(-1, CHOSEN, 32).sum(1)


class Gathered(Experts):
    """As transformers does it on demand, and gpt-fast: a matrix for each row."""

    def forward(self, x: Tensor) -> Tensor:
        weights, experts = self.route(x)
        rows = x.repeat_interleave(CHOSEN, 0)
        y = F.silu(torch.bmm(self.up[experts], rows.unsqueeze(-1)).squeeze(-1))
        y = torch.bmm(y.unsqueeze(1), self.down[experts]).squeeze(1) * weights[:, None]
        return y.view(-1, CHOSEN, 32).sum(1)


class ByEinsum(Experts):
    """One row for the matrices of all its experts."""

    def forward(self, x: Tensor) -> Tensor:
        weights, experts = self.router(x).softmax(-1).topk(CHOSEN, -1)
        y = F.silu(torch.einsum("ti,taoi->tao", x, self.up[experts]))
        return torch.einsum("tao,taoi->tai", y, self.down[experts]).mul(weights[..., None]).sum(1)


KINDS = pytest.mark.parametrize("kind", [Sorted, Gathered, ByEinsum])


def quantize_kind(kind: type[nn.Module]):
    torch.manual_seed(0)
    model, x = kind().eval(), torch.randn(24, 32)
    return model, x, intact.quantize(model, [x], method="max", progress=False)


@KINDS
def test_both_operands_are_quantized_and_the_engine_runs_them_in_integers(kind, tmp_path):
    model, x, result = quantize_kind(kind)
    assert not result.report.left
    shapes = {
        tuple(quantizer.amax.shape)
        for name in result.report.quantizers
        if len(axes := np.atleast_1d((quantizer := result.model.get_submodule(name)).axis)) == 2
        and axes[0] == 0
    }
    wide = (EXPERTS, 1, 48) if kind is Sorted else (EXPERTS, 48, 1)
    assert shapes == {wide, (EXPERTS, 1, 32)}, "a scale for each expert's column"
    report = export(result.model, x, tmp_path / "model.onnx")
    assert report.codes_differing == 0 and not report.not_compared and report.folded == 3
    engine = intact.compile(tmp_path / "model.onnx")
    for batch in (x, torch.randn(7, 32), torch.randn(1, 32)):
        ours = result.model(batch).detach().numpy()
        assert np.allclose(engine(batch.numpy()), ours, atol=1e-5)
        reference = intact.compile(tmp_path / "model.onnx", backend="reference")
        assert np.array_equal(engine(batch.numpy()), reference(batch.numpy()))
        real = model(batch).detach().numpy()
        assert np.linalg.norm(ours - real) < 0.05 * np.linalg.norm(real)
    plan = intact.compile(tmp_path / "model.onnx", shapes={engine.inputs[0].name: (24, 32)}).plan
    assert all(step.native for step in plan.steps)
    assert sum("linear" in step.kind for step in plan.steps) == 3
    assert not [step for step in plan.steps if step.kind.startswith("float_")]


@KINDS
def test_they_learn_and_are_loaded_again(kind):
    _, x, result = quantize_kind(kind)
    result.model.train()
    result.model(x).square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in result.model.parameters())
    record = result.model._graph_record
    assert GraphModeRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


@pytest.mark.parametrize("kind", [Sorted, Gathered])
def test_pytorchs_own_exporter_writes_them_too(kind, tmp_path):
    _, x, result = quantize_kind(kind)
    torch.onnx.export(result.model, (x,), tmp_path / "model.onnx", opset_version=18, verbose=False)
    session = Session((tmp_path / "model.onnx").read_bytes())
    (outputs,) = session.run({session.inputs[0]: x.numpy()}).values()
    assert np.allclose(outputs, result.model(x).detach(), atol=1e-5)


def run_file(model: nn.Module, *read: Tensor) -> list[np.ndarray]:
    session = Session(graph.to_bytes(translate(model.eval(), read, opset=18).model))
    outputs = session.run({name: x.numpy() for name, x in zip(session.inputs, read, strict=True)})
    return [outputs[name] for name in session.outputs]


class Grouped(nn.Module):
    """Products of groups, one of them of no rows, and of matrices that are no constants."""

    def forward(self, rows: Tensor, matrices: Tensor, ends: Tensor, batches: Tensor) -> tuple[Tensor, Tensor]:
        return torch._grouped_mm(rows, matrices, offs=ends), torch._grouped_mm(batches, matrices)


def test_groups_are_multiplied_as_pytorch_does():
    torch.manual_seed(0)
    ends = torch.tensor([3, 3, 9], dtype=torch.int32)
    read = torch.randn(9, 16), torch.randn(3, 16, 8), ends, torch.randn(3, 5, 16)
    want = Grouped()(*read)
    with ChangedCalls(WholeProducts()):
        ours = Grouped()(*read)
    file = run_file(Grouped(), *read)
    for a, b, c in zip(want, ours, file, strict=True):
        assert torch.allclose(a, b, atol=1e-5) and np.allclose(a, c, atol=1e-5)


@pytest.mark.parametrize(("bins", "low", "high"), [(4, 0, 3), (5, -1.0, 1.5), (1, 0, 0), (1, 0, 2)])
def test_counts_are_those_of_histc(bins, low, high):
    class Counts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.histc(x, bins, low, high)

    x = torch.tensor([0.0, 1.0, 2.0, 3.0, 3.0, -1.0, 1.5, -2.0, 4.0, 0.5, 1.0])
    if low == high:
        x = torch.zeros(6)
    (output,) = run_file(Counts(), x)
    assert np.array_equal(output, torch.histc(x, bins, low, high))


class Looping(Experts):
    """As transformers does it where it is asked to be eager."""

    def forward(self, x: Tensor) -> Tensor:
        weights, experts = self.route(x)
        output = torch.zeros_like(x)
        for expert in experts.unique():
            (place,) = torch.where(experts == expert)
            y = F.silu(x[place // CHOSEN] @ self.up[expert].t()) @ self.down[expert]
            output.index_add_(0, place // CHOSEN, y * weights[place][:, None])
        return output


def test_loops_over_experts_are_refused_and_a_way_out_is_named(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(24, 32)
    model = intact.torch.replace_modules(Looping().eval()).model
    intact.torch.calibrate(model, [x], progress=False)
    with pytest.raises(UnsupportedError, match=r"values of its input.*grouped_mm"):
        export(model, x, tmp_path / "model.onnx")
