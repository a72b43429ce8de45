"""Programs whose calls are decomposed one by one give the files that a second trace gives."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from intact import graph
from intact.torch.qdq.run_exporter import translate
from intact.torch.tracing import constant_folding
from intact.torch.tracing.decompose_program import decompose_calls


class Writes(nn.Module):
    """Writes into the outputs of its layers, which others read later."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)

    def forward(self, x):
        y = self.norm(self.conv(x))
        again = y
        torch.relu_(y)
        y += 1
        return nn.functional.adaptive_avg_pool2d(y, 1).flatten(1), again


class WritesBehindDropout(nn.Module):
    """Dropout answers its operand in evaluation mode, so that both are written."""

    def forward(self, x):
        y = x * 2
        z = nn.functional.dropout(y, training=self.training)
        z += 1
        return y, z


class MakesTensor(nn.Module):
    """`torch.tensor` detaches in place what it makes."""

    def forward(self, x):
        return x * torch.tensor([2.0] * 8)


class WritesThroughView(nn.Module):
    """The whole is read behind a write into its first row."""

    def forward(self, x):
        y = x * 2
        y[:1].add_(3)
        return y


class WritesPart(nn.Module):
    """A view from before the write is read behind it."""

    def forward(self, x):
        y = x * 2
        rows = y.flatten(1)
        y.mul_(3)
        return rows + 1, y


IMAGE = (torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)),)


def nodes(model: graph.Model) -> list[str]:
    """The graph as text, without the names that an exporter chooses."""
    numbers: dict[int, str] = {}

    def name(value):
        if value is None or value.is_graph_input():
            return "" if value is None else value.name
        if value.const_value is not None:
            return str(value.const_value.numpy().tolist())
        return numbers.setdefault(id(value), f"v{len(numbers)}")

    return [
        f"{node.op_type} {[name(x) for x in node.inputs]} {sorted(map(str, node.attributes.values()))} "
        f"{[(name(x), str(x.shape), str(x.dtype)) for x in node.outputs]}"
        for node in model.graph
    ]


def count_decompositions(model: nn.Module, monkeypatch, *, one_by_one: bool, sizes) -> list[str]:
    calls = []

    def decompose(program, registry):
        calls.append(decompose_calls(program, registry) if one_by_one else None)
        return calls[-1]

    monkeypatch.setattr(constant_folding, "decompose_calls", decompose)
    translated = translate(model.eval(), IMAGE, opset=18, dynamic_shapes=sizes)
    assert (calls[-1] is not None) == one_by_one
    return nodes(translated.model)


@pytest.mark.parametrize("sizes", [None, ({0: torch.export.Dim("batch")},)], ids=["fixed", "open"])
@pytest.mark.parametrize("kind", [Writes, WritesBehindDropout, MakesTensor])
def test_decomposing_each_call_gives_the_file_of_a_second_trace(kind, sizes, monkeypatch):
    torch.manual_seed(0)
    model = kind()
    want = count_decompositions(model, monkeypatch, one_by_one=False, sizes=sizes)
    assert count_decompositions(model, monkeypatch, one_by_one=True, sizes=sizes) == want


@pytest.mark.parametrize("kind", [WritesThroughView, WritesPart])
def test_a_program_that_reads_parts_of_what_it_wrote_is_traced_again(kind):
    program = torch.export.export(kind(), IMAGE)
    assert decompose_calls(program, registry()) is None


def test_a_program_is_left_alone():
    program = torch.export.export(Writes().eval(), IMAGE)
    before = str(program.graph)
    assert decompose_calls(program, registry()) is not None
    assert str(program.graph) == before


def registry():
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    return ONNXRegistry.from_torchlib(opset_version=18)


def test_the_exporters_table_is_built_once_and_copied_for_each_export(monkeypatch):
    from torch.onnx._internal.exporter import _registration

    from intact.torch.qdq.run_exporter import cached_registry

    with cached_registry():
        _registration.ONNXRegistry.from_torchlib(opset_version=18)
        monkeypatch.setattr(_registration, "_get_overload", lambda name: pytest.fail("built again"))
        first = _registration.ONNXRegistry.from_torchlib(opset_version=18)
        first.register_op(torch.ops.aten.relu.default, lambda x: x)
        second = _registration.ONNXRegistry.from_torchlib(opset_version=18)
    forms = second.get_decomps(torch.ops.aten.relu.default)
    assert forms and not any(form.is_custom for form in forms)
