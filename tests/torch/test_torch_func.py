"""Quantized modules under the transforms of `torch.func`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, func, nn

from intact.torch import quantize
from intact.torch.operators import fake_quantize as ops

Grid = dict[str, Any]
GRIDS: dict[str, Grid] = {
    "int8": {"amax": torch.tensor(2.0)},
    "uint8 with a zero point": {"amax": torch.tensor(2.0), "amin": torch.tensor(-1.0), "format": "uint8"},
    "per channel": {"amax": torch.tensor([[0.5], [2.0], [1.0]])},
    "fp8": {"amax": torch.tensor(2.0), "format": "fp8e4m3"},
}


def values() -> Tensor:
    x = torch.randn(3, 40, generator=torch.Generator().manual_seed(0))
    x[0, :4] = torch.tensor([2.0, -2.0, torch.inf, -torch.inf])
    return x


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own, for jvp
@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS.keys())
def test_values_and_gradients_are_those_of_autograd(grid: Grid) -> None:
    x, cotangent = values(), torch.randn(3, 40, generator=torch.Generator().manual_seed(1))
    want = values().requires_grad_()
    real = ops.fake_quantize(want, **grid)
    real.backward(cotangent)
    output, pull = func.vjp(lambda x: ops.fake_quantize(x, **grid), x)
    _, pushed = func.jvp(lambda x: ops.fake_quantize(x, **grid), (x,), (cotangent,))
    assert want.grad is not None and want.grad.any()
    torch.testing.assert_close(output, real.detach(), rtol=0, atol=0)
    torch.testing.assert_close(pull(cotangent)[0], want.grad, rtol=0, atol=0)
    torch.testing.assert_close(pushed, want.grad, rtol=0, atol=0)  # a diagonal Jacobian is its own transpose


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4)).eval()
    return quantize(model, [torch.randn(4, 3, 8, 8)], method="max", progress=False).model


def images() -> Tensor:
    return torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(2))


def test_vmap_runs_a_model_for_each_sample(net: nn.Module) -> None:
    x = images()
    torch.testing.assert_close(torch.vmap(net)(x[:, None])[:, 0], net(x))


def test_vmap_runs_an_ensemble_with_ranges_of_its_own(net: nn.Module) -> None:
    parameters, buffers = func.stack_module_state([net, net])
    buffers = {name: torch.stack([x[0], x[1] / 2]) for name, x in buffers.items()}

    def run(p: Any, b: Any, x: Tensor) -> Tensor:
        return func.functional_call(net, (p, b), (x,))  # type: ignore[no-any-return]

    outputs = torch.vmap(run, (0, 0, None))(parameters, buffers, images())
    for index, sample in enumerate(outputs):
        own = run(
            {n: p[index] for n, p in parameters.items()}, {n: b[index] for n, b in buffers.items()}, images()
        )
        torch.testing.assert_close(sample, own)


def test_gradients_of_each_sample_add_up_to_those_of_the_batch(net: nn.Module) -> None:
    parameters = {name: p.detach() for name, p in net.named_parameters()}

    def loss(p: dict[str, Tensor], x: Tensor) -> Tensor:
        return func.functional_call(net, p, (x,)).square().sum()  # type: ignore[no-any-return]

    each: Callable[..., Any] = torch.vmap(func.grad(lambda p, x: loss(p, x[None])), (None, 0))
    net.zero_grad()
    net(images()).square().sum().backward()
    for name, gradient in each(parameters, images()).items():
        torch.testing.assert_close(gradient.sum(0), net.get_parameter(name).grad, rtol=1e-4, atol=1e-4)
