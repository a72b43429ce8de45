"""torch.fx.symbolic_trace records quantized models: each quantizer is a call of its graph."""

from __future__ import annotations

import pytest
import torch
from torch import fx, nn

import intact
import intact.torch
from intact.errors import UnsupportedError
from intact.torch.nn import TensorQuantizer


class Net(nn.Module):
    """Layers, a residual sum and a Softmax."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(4, 16, 3, padding=1)
        self.block = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.tail = nn.Linear(16, 8)

    def forward(self, x):
        x = self.stem(x)
        x = self.block(x) + x
        return self.tail(torch.softmax(x.mean((2, 3)), -1))


class Branches(nn.Module):
    """A sum of two layers, which has a quantizer in front of it."""

    def __init__(self):
        super().__init__()
        self.stem, self.a = nn.Conv2d(4, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.b, self.tail = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 8, 3)

    def forward(self, x):
        x = self.stem(x)
        return self.tail(torch.relu(self.a(x) + self.b(x)))


DATA = [torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(1)) for _ in range(2)]


def quantized_net():
    model = intact.torch.replace_modules(Net().eval()).model
    intact.torch.calibrate(model, DATA, progress=False)
    return model


MODELS = {
    "graph mode": lambda: intact.quantize(Net().eval(), DATA, progress=False, float_budget=0).model,
    "replaced modules": quantized_net,
}


@pytest.mark.parametrize("name", MODELS)
def test_the_graph_calls_the_quantizers_and_answers_the_same(name):
    torch.manual_seed(0)
    model = MODELS[name]()
    traced = fx.symbolic_trace(model)
    called = [node.target for node in traced.graph.nodes if node.op == "call_module"]
    quantizers = [path for path, module in model.named_modules() if isinstance(module, TensorQuantizer)]
    active = [path for path in quantizers if not model.get_submodule(path)._disabled]
    assert sorted(path for path in called if path in quantizers) == sorted(active)
    with torch.inference_mode():
        torch.testing.assert_close(traced(DATA[0]), model(DATA[0]))


def test_quantizers_between_calls_are_refused_by_name():
    torch.manual_seed(0)
    model = intact.quantize(Branches().eval(), DATA, progress=False, float_budget=0).model
    assert any("add" in name for name, _ in model.named_modules())
    with pytest.raises(UnsupportedError, match=r"symbolic_trace.*torch\.export\.export"):
        fx.symbolic_trace(model)


class Named(nn.Module):
    """Two layers, and arguments that may be left out or are given by name alone."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x, mask=None, *, scale=2.0):
        x = torch.relu(self.a(x))
        if mask is not None:
            x = x * mask
        return self.b(x) * scale


class Rest(Named):
    """Arguments that nobody names."""

    def forward(self, x, *rest, **options):
        return self.b(torch.relu(self.a(x)))


@pytest.mark.parametrize(
    ("kind", "concrete_arguments"),
    [(Named, None), (Named, {"mask": None}), (Named, {"mask": None, "scale": 3.0}), (Rest, None)],
)
def test_arguments_by_name_and_any_arguments_are_recorded_as_in_float(kind, concrete_arguments):
    torch.manual_seed(0)
    x = torch.randn(4, 32)
    model = intact.quantize(kind().eval(), [x], progress=False, float_budget=0).model
    graphs = [
        fx.symbolic_trace(network, concrete_args=concrete_arguments).graph
        for network in (kind().eval(), model)
    ]
    ours, theirs = ([node.name for node in graph.nodes if node.op == "placeholder"] for graph in graphs)
    assert ours == theirs
    called = [node.target for node in graphs[1].nodes if node.op == "call_module"]
    assert "a._input_quantizer" in called
    if concrete_arguments == {"mask": None, "scale": 3.0}:
        with torch.inference_mode():
            got = fx.GraphModule(model, graphs[1])(x, None, 3.0)
            torch.testing.assert_close(got, model(x, scale=3.0))
