"""Graph mode and the ONNX path put their Q/DQ pairs at the same places of a real network, node for node."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from intact import graph
from intact.placement import place
from intact.spec import QuantSpec
from intact.torch import export, quantize
from intact.torch.qdq.run_exporter import translate

_PASSED = {"QuantizeLinear", "DequantizeLinear", "BatchNormalization", "Identity"}
_BIASED = {"Conv", "ConvTranspose", "Gemm"}


def skeleton(model: graph.Model) -> list[tuple[str, list[tuple[Any, int | None]]]]:
    """Every operator with what each input comes from, and the number of the pair it comes through."""
    numbers: dict[Any, int] = {}
    pairs: dict[Any, int] = {}
    constants = graph.Constants(model.graph)

    def origin(value: Any) -> tuple[Any, int | None]:
        pair = None
        while (node := value.producer()) is not None and node.op_type in _PASSED:
            if node.op_type == "DequantizeLinear":
                pair = pairs.setdefault(value, len(pairs))
            value = node.inputs[0]
        if node is None:
            return ("constant" if value.is_initializer() else "input"), pair
        return ("constant" if constants(value) is not None else numbers[node]), pair

    precisions = []
    for node in model.graph:
        if node.op_type in _PASSED or constants(node.outputs[0]) is not None:
            continue
        inputs = node.inputs[:2] if node.op_type in _BIASED else node.inputs
        numbers[node] = len(numbers)
        precisions.append((node.op_type, [origin(v) for v in inputs if v is not None]))
    return precisions


def onnx_path(model: nn.Module, example: torch.Tensor) -> graph.Model:
    """The float export of `model`, with pairs where `placement` wants them."""
    loaded = graph.load(translate(model, (example,), opset=18).model_proto)
    shapes = {v.name: v.shape.numpy() for v in loaded.graph.initializers.values()}
    marks = []
    for site in place(loaded).sites:
        ones = np.ones(() if site.axis is None else shapes[site.value][site.axis], np.float32)
        marks.append(graph.Mark(site.value, site.readers, QuantSpec("int8", axis=site.axis), ones))
    graph.mark(loaded, marks)
    graph.emit_qdq(loaded, 18)
    return loaded


def zoo(shared: Path) -> Any:
    spec = importlib.util.spec_from_file_location("nets", shared / "nets.py")
    assert spec is not None and spec.loader is not None
    nets = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(nets)
    return nets


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_pairs_stand_where_the_onnx_path_puts_them(name: str, shared_folder: Path, tmp_path: Path) -> None:
    nets = zoo(shared_folder)
    torch.manual_seed(0)
    arguments = {"resnet18": (nets.Basic, [2, 2, 2, 2], 1), "resnet50": (nets.Bottleneck, [3, 4, 6, 3], 4)}
    model = nets.ResNet(*arguments[name]).eval()
    example = torch.randn(2, 3, 64, 64)
    quantized = quantize(model, [example], method="max", progress=False).model
    export(quantized, example, tmp_path / "graph_mode.onnx", opset=18, dynamic_batch=False, verify=False)
    ours = skeleton(graph.load(tmp_path / "graph_mode.onnx"))
    theirs = skeleton(onnx_path(model, example))
    assert ours == theirs
    layers, moved = {"resnet18": (21, 1), "resnet50": (54, 0)}[name]
    behind = [(op, [pair is not None for _, pair in inputs]) for op, inputs in ours]
    assert [pairs[1] for op, pairs in behind if op in ("Conv", "Gemm")] == [True] * layers
    # One pair per addition, but for the one whose identity branch takes the codes that a MaxPool moved.
    sums = sorted(sum(pairs) for op, pairs in behind if op == "Add")
    assert sums == [0] * moved + [1] * (len(sums) - moved)
