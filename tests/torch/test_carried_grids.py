"""Tensors that quantizers return carry their grid, so that products in modules of users are the engine's."""

from __future__ import annotations

import copy
import pickle
import weakref

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import intact
from intact.torch import nn as quant_nn
from intact.torch.exact.grid_tensor import GridTensor
from intact.torch.nn import TensorQuantizer
from intact.torch.nn.modules import _utils
from intact.torch.tensor_quant import QuantDescriptor

ROW, COLUMN, WHOLE = {"axis": 0}, {"axis": 1}, {}
ROWS, IMAGE = (4, 9, 64), (2, 16, 8, 8)


class CustomLinear(nn.Linear, _utils.QuantMixin):  # as the guide of pytorch_quantization writes it
    default_quant_desc_input = quant_nn.QuantLinear.default_quant_desc_input
    default_quant_desc_weight = quant_nn.QuantLinear.default_quant_desc_weight

    def __init__(self, inputs, outputs, bias=True, **kwargs):
        super().__init__(inputs, outputs, bias)
        self.init_quantizer(*_utils.pop_quant_desc_in_kwargs(self.__class__, **kwargs))

    def forward(self, x):
        return F.linear(self._input_quantizer(x), self._weight_quantizer(self.weight), bias=self.bias)


class Function(nn.Module):
    """A function of a grid_rows input, and of a grid_rows parameter or second activation."""

    def __init__(self, function, shape, grid):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(shape) * 0.2) if shape else None
        self.bias = nn.Parameter(torch.randn(64))
        self.x_quantizer, self.other_quantizer = (
            TensorQuantizer(QuantDescriptor()),
            TensorQuantizer(QuantDescriptor(**grid)),
        )
        self.function = function

    def forward(self, x):
        other = x * 1.3 - 0.1 if self.weight is None else self.weight
        return self.function(self.x_quantizer(x), self.other_quantizer(other), self.bias)


def calibrate_by_the_guides_loop(model, batches):
    quantizers = [module for name, module in model.named_modules() if name.endswith("_quantizer")]
    for quantizer in quantizers:
        quantizer.enable_calib()
        quantizer.disable_quant()
    with torch.no_grad():
        for x in batches:
            model(x)
    for quantizer in quantizers:
        quantizer.load_calib_amax()
        quantizer.disable_calib()
        quantizer.enable_quant()


def test_a_custom_module_of_the_guide_is_its_engine(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(*(part for _ in range(4) for part in (CustomLinear(128, 128), nn.ReLU()))).eval()
    calibrate_by_the_guides_loop(model, [torch.randn(32, 128) for _ in range(2)])
    x = torch.randn(32, 128)
    torch.onnx.export(model, (x,), tmp_path / "custom.onnx", opset_version=13, dynamo=False)
    engine = intact.compile(tmp_path / "custom.onnx", threads=1)
    assert np.array_equal(model(x).detach().numpy(), engine(x.numpy()))


FUNCTIONS = {
    "linear": (ROWS, (64, 64), ROW, lambda x, w, b: F.linear(x, w, b)),
    "linear by names": (ROWS, (64, 64), ROW, lambda x, w, b: F.linear(input=x, weight=w, bias=b)),
    "product and bias": (ROWS, (64, 64), ROW, lambda x, w, b: x @ w.t() + b),
    "view": (ROWS, (64, 64), ROW, lambda x, w, b: F.linear(x.reshape(-1, 64), w, b).view(4, 9, 64)),
    "transpose": (ROWS, (32, 9), ROW, lambda x, w, b: F.linear(x.transpose(1, 2).contiguous(), w)),
    "relu": (ROWS, (64, 64), ROW, lambda x, w, b: F.linear(F.relu(x), w, b)),
    "part of the weight": (ROWS, (128, 64), ROW, lambda x, w, b: F.linear(x, w.chunk(2)[1], b)),
    "weight as a matrix": (IMAGE, (8, 16, 1, 1), ROW, lambda x, w, b: F.linear(
        x.movedim(1, 3), w.flatten(1))),
    "joined weights": (ROWS, (64, 64), ROW, lambda x, w, b: F.linear(x, torch.cat([w, w]))),
    "parts": (ROWS, (64, 64), ROW, lambda x, w, b: F.linear(x.unbind(1)[1], w, b)),
    "addmm": ((9, 64), (64, 64), COLUMN, lambda x, w, b: torch.addmm(b, x, w)),
    "baddbmm": (ROWS, None, WHOLE, lambda x, y, b: torch.baddbmm(b[:9], x, y.transpose(1, 2))),
    "mv": ((9, 64), (64,), WHOLE, lambda x, w, b: torch.mv(x, w)),
    "dot": ((64,), (64,), WHOLE, lambda x, w, b: torch.dot(x, w)),
    "dot of a scale each": ((64,), (64,), ROW, lambda x, w, b: torch.dot(x, w)),
    "matmul of a vector": (ROWS, (64,), WHOLE, lambda x, w, b: torch.matmul(x, w)),
    "bmm": (ROWS, None, WHOLE, lambda x, y, b: torch.bmm(x, y.transpose(1, 2))),
    "conv1d": ((2, 16, 9), (8, 16, 3), ROW, lambda x, w, b: F.conv1d(x, w, b[:8], padding=1)),
    "conv2d": (IMAGE, (8, 4, 3, 3), ROW, lambda x, w, b: F.conv2d(x, w, b[:8], stride=2, groups=4)),
    "conv2d same": (IMAGE, (8, 16, 3, 3), ROW, lambda x, w, b: F.conv2d(x, w, b[:8], padding="same")),
    "conv2d of a pool": (IMAGE, (8, 16, 3, 3), ROW, lambda x, w, b: F.conv2d(F.max_pool2d(x, 2), w)),
    "convolution": (IMAGE, (8, 16, 3, 3), ROW, lambda x, w, b: torch.convolution(
        x, w, b[:8], (1, 1), (0, 0), (1, 1), False, (0, 0), 1)),
    "conv_transpose2d": (IMAGE, (16, 8, 3, 3), COLUMN, lambda x, w, b: F.conv_transpose2d(
        x, w, b[:8], 2, 1, 1)),
    "einsum with a weight": (ROWS, (64, 64), ROW, lambda x, w, b: torch.einsum("...d,od->...o", x, w)),
    "einsum of heads": (ROWS, None, WHOLE, lambda x, y, b: torch.einsum(
        "bqhd,bkhd->bhqk", x.view(4, 9, 4, 16), y.view(4, 9, 4, 16))),
    "tensordot": (ROWS, (64, 64), COLUMN, lambda x, w, b: torch.tensordot(x, w, 1)),
    "attention": (ROWS, None, WHOLE, lambda x, y, b: F.scaled_dot_product_attention(x, y, y)),
}  # fmt: skip


@pytest.mark.rule("N65")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_quantized_tensors_are_the_engines(tmp_path, name):
    shape, weight, grid, function = FUNCTIONS[name]
    torch.manual_seed(1)
    model = Function(function, weight, grid).eval()
    calibrate_by_the_guides_loop(model, [torch.randn(shape) for _ in range(2)])
    x = torch.randn(shape)
    torch.onnx.export(model, (x,), tmp_path / "function.onnx", opset_version=17, dynamo=False)
    y = model(x)
    with torch.inference_mode():
        assert torch.equal(model(x), y)
    assert type(y) is Tensor
    assert np.array_equal(
        y.detach().numpy(), intact.compile(tmp_path / "function.onnx", threads=1)(x.numpy())
    )


def test_a_quantized_pool_hands_its_grid_on(weight):
    pool = quant_nn.QuantMaxPool1d(2, quant_desc_input=QuantDescriptor(amax=3.0)).eval()
    assert type(pool(torch.randn(2, 4, 128))) is GridTensor


@pytest.fixture
def grid_rows():
    torch.manual_seed(2)
    quantizer = TensorQuantizer(QuantDescriptor(amax=3.0)).eval()
    return quantizer(torch.randn(8, 64))


@pytest.fixture
def weight():
    return TensorQuantizer(QuantDescriptor(axis=0)).eval()(torch.randn(16, 64))


def is_exact(x, weight):
    """Return whether a product is that of integers, which float sums in another order are not."""
    wide = (x.double() @ weight.double().t()).float()
    scale = torch.tensor(3.0) / 127 * (weight.abs().amax(1) / 127)
    numbers = (x / (torch.tensor(3.0) / 127)).round() @ (
        weight / (weight.abs().amax(1) / 127)[:, None]
    ).round().t()
    product = F.linear(x, weight)
    assert torch.allclose(product, wide, atol=1e-5)
    return torch.equal(product, numbers * scale)


def test_moves_keep_the_grid_and_other_functions_lose_it(grid_rows):
    moves = [grid_rows.view(2, 4, 64), grid_rows[1:], grid_rows.t(), grid_rows.clone(), grid_rows.detach()]
    for moved in (*moves, torch.cat([grid_rows, grid_rows]), F.pad(grid_rows, (1, 1)), *grid_rows.split(2)):
        assert type(moved) is GridTensor
    changes = [grid_rows + 1, grid_rows * 2, F.relu(grid_rows), -grid_rows, grid_rows.half(), grid_rows.sum()]
    for changed in (*changes, F.pad(grid_rows, (1, 1), value=1.0)):
        assert type(changed) is Tensor


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(0.1),
        lambda x: x.view(-1)[0].fill_(0.1),
        lambda x: x.__setitem__(0, 0.1),
        lambda x: x.data.mul_(1.1),
        lambda x: x.numpy().__setitem__(0, 0.1),
        lambda x: torch.add(x, 0.1, out=x),
        lambda x: x.detach().as_strided((1,), (1,)).fill_(0.1),
    ],
)
def test_a_tensor_that_was_written_to_is_multiplied_as_it_is(weight, write, inference):
    with torch.inference_mode(inference):
        grid_rows = TensorQuantizer(QuantDescriptor(amax=3.0)).eval()(torch.randn(8, 64))
        assert is_exact(grid_rows, weight)
        write(grid_rows)
        plain = torch.empty(8, 64).copy_(grid_rows)
        assert torch.allclose(
            F.linear(grid_rows, weight), plain @ torch.empty(16, 64).copy_(weight).t(), atol=1e-5
        )


def test_reading_the_memory_changes_no_bit(grid_rows, weight):
    before = F.linear(grid_rows, weight)
    assert grid_rows.numpy().shape == (8, 64) and grid_rows.data_ptr()
    assert torch.equal(F.linear(grid_rows, weight), before)


def test_x_plus_equals_stays_the_same_object(grid_rows):
    same = grid_rows
    grid_rows += 1
    assert grid_rows is same


def test_gradients_are_those_of_the_float_functions():
    quantizer, x = TensorQuantizer(QuantDescriptor(amax=3.0)), torch.randn(8, 64, requires_grad=True)
    weight = torch.randn(16, 64, requires_grad=True)
    gradients = []
    for training in (True, False):
        quantizer.train(training)
        product = F.linear(quantizer(x).view(2, 4, 64), quantizer(weight))
        gradients.append(torch.autograd.grad(product.square().sum(), (x, weight)))
    assert all(type(grad) is Tensor for grad in gradients[1])
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-3) for a, b in zip(*gradients, strict=True))


def test_training_mode_calibration_and_graphs_get_ordinary_tensors():
    quantizer, x = TensorQuantizer(QuantDescriptor(amax=3.0)), torch.randn(8, 64)
    assert type(quantizer(x)) is Tensor
    quantizer.eval()
    assert type(quantizer(x)) is GridTensor
    assert type(quantizer(x.double())) is Tensor
    program = torch.export.export(quantizer, (x,))
    assert type(program.module()(x)) is Tensor
    assert type(torch.vmap(quantizer)(x)) is Tensor
    for function in (lambda x: x * 2, lambda x: F.linear(x, x)):
        assert torch.allclose(
            torch.vmap(function)(quantizer(x)[None]), function(torch.empty(8, 64).copy_(quantizer(x)))[None]
        )


def test_copies_and_pickles_are_ordinary_tensors(grid_rows, tmp_path):
    torch.save(grid_rows, tmp_path / "x.pt")
    copies = copy.deepcopy(grid_rows), pickle.loads(pickle.dumps(grid_rows)), torch.load(tmp_path / "x.pt")
    assert all(type(x) is Tensor and torch.equal(x, grid_rows) for x in copies)
    assert repr(grid_rows).startswith("tensor(")
    model = nn.Linear(64, 8)
    model.weight = nn.Parameter(grid_rows)
    twin = copy.deepcopy(model)
    assert isinstance(twin.weight, nn.Parameter) and type(twin.weight) is nn.Parameter
    assert [*dict(model.named_parameters())] == ["weight", "bias"]
    torch.save(model.state_dict(), tmp_path / "model.pt")
    assert torch.equal(torch.load(tmp_path / "model.pt")["weight"], grid_rows)


def test_nothing_keeps_a_quantized_tensor_alive():
    quantizer = TensorQuantizer(QuantDescriptor(amax=3.0)).eval()
    grid_rows = quantizer(torch.randn(8, 64))
    moved, product = grid_rows.view(-1, 8), F.linear(grid_rows, grid_rows)
    references = [weakref.ref(x) for x in (grid_rows, moved, product)]
    del grid_rows, moved, product
    assert [reference() for reference in references] == [None] * 3


@pytest.mark.slow
def test_a_compiled_function_takes_a_quantized_tensor(grid_rows, weight):
    def product(x, w):
        return F.linear(x.view(2, 4, 64), w).relu()

    compiled = torch.compile(product, backend="eager", fullgraph=True)
    assert torch.allclose(compiled(grid_rows, weight), product(grid_rows, weight), atol=1e-5)
