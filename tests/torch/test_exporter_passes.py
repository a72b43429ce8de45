"""Skipped work of torch's exporter leaves its output unchanged."""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch import fx, nn
from torch.fx import proxy
from torch.onnx._internal.fx.passes import type_promotion
from torch.overrides import _get_current_function_mode_stack

import intact
from intact.torch.private_torch import DECOMPOSE_WITH_REGISTRY
from intact.torch.qdq import run_exporter
from intact.torch.qdq.run_exporter import translate
from intact.torch.tracing import export_program
from intact.torch.tracing.user_frames import NOT_THE_USERS, user_frames

rewriter = pytest.importorskip("onnxscript.rewriter._matcher")


class Net(nn.Module):
    """Layers, two types in one sum, an integer that divides, and what rules of onnxscript look for."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.tail = nn.Linear(4, 5)

    def forward(self, x, mask):
        x = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        x = self.tail(x) + mask
        return x * 2 + mask / 3 + torch.where(x > 0, x, 1).reshape(-1, 5).reshape(-1, 5, 1).squeeze(-1)


CALL = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(5)


def lines(model) -> list[str]:
    """The nodes of an ONNX graph."""
    return [
        f"{[v and v.name for v in node.inputs]} {node.op_type} {dict(node.attributes)} "
        f"{[(v.name, v.dtype, v.shape) for v in node.outputs]}"
        for node in model.graph
    ]


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().eval()


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_file_is_the_one_of_the_whole_passes(monkeypatch, net, dynamic):
    shapes = {"dynamic_shapes": ({0: torch.export.Dim("batch")}, None)} if dynamic else {}
    short = lines(translate(net, CALL, opset=18, **shapes).model)
    monkeypatch.setattr(run_exporter, "skip_exporter_work", nullcontext)
    monkeypatch.setattr(export_program, "user_frames", nullcontext)
    assert short == lines(translate(net, CALL, opset=18, **shapes).model)


def test_rules_are_tried_where_their_last_operator_is(monkeypatch, net):
    original, tried = rewriter.SimplePatternMatcher.match, []

    def match(matcher, model, graph, node, **options):
        tried.append((matcher.pattern.output_nodes[0], node))
        return original(matcher, model, graph, node, **options)

    monkeypatch.setattr(rewriter.SimplePatternMatcher, "match", match)
    translate(net, CALL, opset=18)
    assert tried
    assert all(last.op.matches(node.op_type) for last, node in tried)


def test_only_calls_whose_types_change_run_again(monkeypatch, net):
    original, run = fx.Interpreter.run_node, []

    def run_node(interpreter, node):
        if isinstance(interpreter, type_promotion._TypePromotionInterpreter):
            run.append(node)
        return original(interpreter, node)

    monkeypatch.setattr(fx.Interpreter, "run_node", run_node)
    translate(net, CALL, opset=18)
    again = [str(node.target) for node in run if node.op == "call_function"]
    assert again
    assert not any("conv2d" in name or "relu" in name or "linear" in name for name in again)


def test_no_pass_over_the_program_is_watched(monkeypatch, net):
    seen = []

    def find(program, registry):
        seen.extend(type(mode).__module__ for mode in _get_current_function_mode_stack())
        return original(program, registry)

    passes = import_module(DECOMPOSE_WITH_REGISTRY.module)
    original = passes.decompose_with_registry
    monkeypatch.setattr(passes, "decompose_with_registry", find)
    monkeypatch.setattr(run_exporter, "fold_constants", nullcontext)
    translate(net, CALL, opset=18)
    assert not any(name.startswith("intact.torch.tracing.assertions") for name in seen)


def test_traces_note_the_users_frames(net):
    with user_frames():
        program = torch.export.export(net, CALL, strict=False)
    conv = next(node for node in program.graph.nodes if "conv2d" in str(node.target))
    assert f'File "{__file__}"' in conv.stack_trace
    assert not any(f'File "{place}' in conv.stack_trace for place in NOT_THE_USERS)


def test_no_file_of_the_package_is_the_users():
    """Wherever in the package a frame's code stands: not beside what traces alone."""
    folder = Path(intact.__file__).parent
    namespace = {"proxy": proxy}
    for place in ("engine/build.py", "ptq/quantize_model.py", "torch/qdq/export.py"):
        with user_frames():
            exec(compile("found = proxy.CapturedTraceback.extract()", folder / place, "exec"), namespace)
        files = [frame.filename for frame in namespace["found"].summary()]
        assert __file__ in files and not any(file.startswith(str(folder)) for file in files)
