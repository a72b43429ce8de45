"""Edges of a trace: one operator that changes nothing, and one node of ours in ONNX."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from intact.torch.graph_mode.input_markers import mark_input, marker_translation
from intact.torch.qdq.run_exporter import translate


class Crossed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return mark_input(mark_input(x.transpose(0, 1), 7) + 1, 8)


def test_an_edge_changes_nothing() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(Crossed()(x), x.T + 1) and Crossed()(x).is_contiguous()


def test_each_edge_is_one_node_with_its_number() -> None:
    program = torch.export.export(Crossed(), (torch.zeros(2, 3),), strict=False)
    translated = translate(program, (), opset=18, custom_translation_table=marker_translation()).model
    edges = [node for node in translated.graph if node.op_type == "Edge"]
    assert [(node.domain, node.attributes["id"].as_int()) for node in edges] == [("intact", 7), ("intact", 8)]
    assert list(edges[0].outputs[0].shape) == [3, 2]
