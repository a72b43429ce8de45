"""`intact.torch.operators.learned_ranges`: gradients of LSQ, LSQ+ and PACT by the papers, in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from intact import numerics
from intact.calib import Histogram, range_of
from intact.spec import Format, QuantSpec
from intact.torch.operators import fake_quantize as ops
from intact.torch.operators import learned_ranges

EXACT = {"rtol": 1e-12, "atol": 1e-12}


def grid(format: str, narrow: bool = False) -> tuple[float, float]:
    spec = QuantSpec(format, narrow=narrow)
    return float(spec.qmin), float(spec.qmax)


def case(shape: tuple[int, ...], *, step: Tensor, seed: int, lowest: float = -1.0) -> tuple[Tensor, Tensor]:
    """Reals beyond both ends of a grid with `step`, none at a tie or an end of it, and a gradient: float64.

    The reals are float32 numbers, so that the operator, which computes in float32, sees the same ones.
    """
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
    codes = torch.randint(-24, 25, shape, generator=generator).double()
    x = ((codes + 0.1 + 0.3 * uniform) * step).float().double()
    x = x if lowest < 0 else x.abs()
    return x, torch.randn(shape, generator=generator, dtype=torch.float64)


def sum_like(t: Tensor, like: Tensor) -> Tensor:
    return t.sum_to_size(like.shape) if like.dim() else t.sum()


def esser(x: Tensor, g: Tensor, s: Tensor, n: float, p: float, features: int) -> tuple[Tensor, Tensor]:
    """Gradients to x and s: Esser et al. 2020, equations 3 and 5, times the factor of section 2.2."""
    v = x / s
    inside = (v > n) & (v < p)
    by_step = torch.where(inside, v.round() - v, torch.where(v <= n, n, p))
    return g * inside, sum_like(g * by_step, s) / math.sqrt(features * p)


def bhalgat(x: Tensor, g: Tensor, s: Tensor, b: Tensor, n: float, p: float) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to x, s and b, without a factor: Bhalgat et al. 2020, equations 4 and 5."""
    v = (x - b) / s
    inside = (v > n) & (v < p)
    by_step = torch.where(inside, v.round() - v, torch.where(v <= n, n, p))
    return g * inside, sum_like(g * by_step, s), sum_like(g * ~inside, b)


def range_gradients(
    x: Tensor, g: Tensor, high: Tensor, low: Tensor | None = None, **call: Any
) -> list[Tensor]:
    """Gradients to x, amax and amin of the operator."""
    ends = [end.clone().requires_grad_() for end in (high, low) if end is not None]
    x = x.clone().requires_grad_()
    learned_ranges.fake_quantize(x, *ends, **call).backward(g)
    return [t.grad for t in (x, *ends)]


# ---- symmetric grids ----

STEPS = {
    "tensor": (torch.tensor(2.0**-3, dtype=torch.float64), None),
    "axis 0": (2.0 ** torch.tensor([-3.0, 0, -5]).double().reshape(3, 1, 1, 1), [0]),
    "axis 1": (2.0 ** torch.tensor([-3.0, 0, -5, 2]).double().reshape(1, 4, 1, 1), [1]),
}
GRIDS = [("int4", False), ("int2", False), ("int4", True), ("uint4", False), ("uint2", False)]


@pytest.mark.rule("N18")
@pytest.mark.parametrize(("format", "narrow"), GRIDS)
@pytest.mark.parametrize("where", STEPS)
def test_lsq_is_the_papers_formula(where: str, format: str, narrow: bool) -> None:
    step, axis = STEPS[where]
    n, p = grid(format, narrow)
    x, g = case((3, 4, 5, 5), step=step, seed=1, lowest=n)
    call = {"format": format, "narrow": narrow, "axis": axis, "features": 100}
    to_x, to_amax = range_gradients(x, g, p * step, kind="lsq", **call)
    want_x, want_step = esser(x, g, step, n, p, 100)
    torch.testing.assert_close(to_x, want_x, **EXACT)
    torch.testing.assert_close(to_amax, p * want_step, **EXACT)


@pytest.mark.parametrize(("momentum", "lr"), [(0.0, 1e-3), (0.9, 1e-4)])
def test_sgd_moves_the_step_as_the_paper_moves_it(momentum: float, lr: float) -> None:
    step = torch.tensor(0.11, dtype=torch.float64, requires_grad=True)
    amax = (7 * step.detach()).requires_grad_()
    ours, papers = (torch.optim.SGD([t], lr=lr, momentum=momentum) for t in (amax, step))
    started = step.item()
    for seed in range(20):
        x, g = case((8, 6), step=torch.tensor(0.11).double(), seed=seed)
        ours.zero_grad()
        learned_ranges.fake_quantize(x, amax, kind="lsq", format="int4", features=6).backward(g)
        step.grad = esser(x, g, step.detach(), -8, 7, 6)[1]
        ours.step(), papers.step()
        torch.testing.assert_close(amax / 7, step, rtol=1e-5, atol=1e-6)
    assert abs(step.item() - started) > 1e-3


@pytest.mark.rule("N18")
@pytest.mark.parametrize(("format", "narrow"), GRIDS)
def test_pact_is_the_derivative_of_the_clip(format: str, narrow: bool) -> None:
    step, axis = STEPS["axis 1"]
    n, p = grid(format, narrow)
    x, g = case((3, 4, 5, 5), step=step, seed=2, lowest=n)
    to_x, to_amax = range_gradients(x, g, p * step, kind="pact", format=format, narrow=narrow, axis=axis)
    high = (p * step).clone().requires_grad_()
    torch.clamp(x, high * (n / p), high).backward(g)
    torch.testing.assert_close(to_amax, high.grad, **EXACT)
    torch.testing.assert_close(to_x, g * ((x > n * step) & (x < p * step)), **EXACT)


def test_pact_counts_what_is_at_the_end() -> None:
    x = torch.tensor([0.0, 0.5, 0.9375, 2.0], dtype=torch.float64)
    to_x, to_amax = range_gradients(x, torch.ones_like(x), torch.tensor(0.9375), kind="pact", format="uint4")
    assert (to_x.tolist(), to_amax.item()) == ([0, 1, 0, 0], 2)  # Choi et al. 2018, equation 3


# ---- asymmetric grids ----


@pytest.mark.rule("N18")
@pytest.mark.parametrize("format", ["int4", "uint4", "uint2", "int8"])
@pytest.mark.parametrize("where", STEPS)
def test_lsq_plus_is_the_papers_formula(where: str, format: str) -> None:
    step, axis = STEPS[where]
    n, p = grid(format)
    zero_point = n + 1  # b = -zero_point * s: a whole number of steps
    low, high = (n - zero_point) * step, (p - zero_point) * step
    x, g = case((3, 4, 5, 5), step=step * (p - n) / 15, seed=3)
    to_x, to_high, to_low = range_gradients(
        x, g, high, low, kind="lsq+", format=format, axis=axis, features=7
    )
    want_x, by_step, by_offset = bhalgat(x, g, step, -zero_point * step, n, p)
    factor = 1 / math.sqrt(7 * p)
    torch.testing.assert_close(to_x, want_x, **EXACT)
    torch.testing.assert_close(to_high, factor * (p * by_step + by_offset), **EXACT)
    torch.testing.assert_close(to_low, factor * (n * by_step + by_offset), **EXACT)


def test_pact_gives_each_end_what_it_clips() -> None:
    step = torch.tensor(2.0**-3, dtype=torch.float64)
    x, g = case((40,), step=step, seed=4)
    low, high = -5 * step, 10 * step
    _, to_high, to_low = range_gradients(x, g, high, low, kind="pact", format="uint4")
    torch.testing.assert_close(to_high, g[x >= high].sum(), **EXACT)
    torch.testing.assert_close(to_low, g[x <= low].sum(), **EXACT)


# ---- what comes out, and where no gradient is wanted ----


@pytest.mark.parametrize("low", [None, -0.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_forward_is_the_ordinary_operator(low: float | None, dtype: torch.dtype) -> None:
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(5)).to(dtype)
    high = torch.tensor(1.3, requires_grad=True)
    amin = None if low is None else torch.tensor(low)
    got = learned_ranges.fake_quantize(x, high, amin, kind="lsq+", format="int4")
    assert got.requires_grad and got.dtype == dtype
    assert torch.equal(got, ops.fake_quantize(x, high.detach(), amin, format="int4"))
    got.sum().backward()
    assert high.grad.dtype == torch.float32 and bool(high.grad.isfinite())


def test_memory_order_changes_nothing() -> None:
    x, g = case((2, 3, 4, 5), step=torch.tensor(0.125), seed=6)
    want = range_gradients(x, g, torch.tensor(0.875).double(), kind="lsq", format="int4")
    turned = range_gradients(x.contiguous(memory_format=torch.channels_last), g, torch.tensor(0.875).double(),
                     kind="lsq", format="int4")  # fmt: skip
    strided = range_gradients(x.transpose(0, 3), g.transpose(0, 3), torch.tensor(0.875).double(),
                      kind="lsq", format="int4")  # fmt: skip
    for got in (turned, [strided[0].transpose(0, 3), strided[1]]):
        for actual, other in zip(got, want, strict=True):
            torch.testing.assert_close(actual, other, **EXACT)


@pytest.mark.parametrize("device_path", [False, True], ids=["kernel", "composed"])
def test_both_masks_are_open_at_the_ends(device_path: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.tensor([[-2.0, -1.0, 0.5, 1.0, 3.0], [-2.5, -2.0, 0.5, 1.9, 2.0]])
    low, high = torch.tensor([[-1.0], [-2.0]]), torch.tensor([[1.0], [2.0]])
    # What every device but the CPU runs, and the CPU in 64 bits.
    terms = learned_ranges._terms_composed if device_path else learned_ranges._terms
    to_x, inside, beyond, shift = terms(torch.ones_like(x), x, x.round(), low, high)
    assert to_x.tolist() == [[0, 0, 1, 0, 0], [0, 0, 1, 1, 0]]
    torch.testing.assert_close(inside.float(), torch.tensor([[-0.5], [-0.4]]))
    assert beyond.tolist() == [[1], [-2]] and shift.tolist() == [[4], [3]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("axis", [None, 0, 1, 3])
def test_the_kernel_gives_the_gradients_of_the_composed_way(axis: int | None, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 5, 40, 9, generator=generator).to(dtype).to(memory_format=torch.channels_last)
    grad = torch.randn(x.shape, generator=generator).to(dtype)
    shape = [n if a == axis else 1 for a, n in enumerate(x.shape)]
    high = torch.rand(shape, generator=generator) + 0.5
    ends = (grad, x, (4 * x).round() / 4, -high, high)
    for got, want in zip(learned_ranges._terms(*ends), learned_ranges._terms_composed(*ends), strict=True):
        assert got.shape == want.shape
        torch.testing.assert_close(got.double(), want.double(), rtol=2e-5, atol=2e-4)


def test_a_range_that_left_the_positive_acts_as_the_smallest_and_can_come_back() -> None:
    x = torch.tensor([-1.0, 0.5, 2.0])
    amax = torch.tensor(-0.25, requires_grad=True)
    y = learned_ranges.fake_quantize(x, amax, kind="lsq", format="int4")
    assert torch.equal(y, ops.fake_quantize(x, torch.tensor(learned_ranges.SMALLEST), format="int4"))
    (y * torch.tensor([1.0, -1, -1])).sum().backward()  # wants larger magnitudes
    assert amax.grad.item() < 0


def test_it_compiles_whole() -> None:
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(7))
    grads = []
    for wrap in (lambda f: f, lambda f: torch.compile(f, fullgraph=True, backend="aot_eager")):
        amax = torch.full((4, 1), 1.5, requires_grad=True)
        call = wrap(lambda x, a: learned_ranges.fake_quantize(x, a, kind="lsq", format="int4", axis=[0]))
        call(x, amax).square().sum().backward()
        grads.append(amax.grad)
    torch._dynamo.reset()
    assert torch.equal(*grads)


# ---- N, and where to start ----


def test_features_are_those_that_share_a_range_without_the_batch() -> None:
    x = torch.zeros(6, 4, 5, 5)
    count = learned_ranges.features_of
    assert [count(x, (), True), count(x, (0,), True), count(x, (), False), count(x, (1,), False)] == [
        600, 100, 100, 25
    ]  # fmt: skip
    assert count(torch.zeros(9), (), False) == 9


@pytest.mark.parametrize("axis", [None, 0])
def test_lsq_starts_at_twice_the_mean_over_the_root_of_p(axis: int | None) -> None:
    x = torch.randn(3, 40, generator=torch.Generator().manual_seed(8)) * torch.tensor([[1.0], [4], [0.1]])
    low, high = learned_ranges.start(x, QuantSpec("int4", axis=axis), "lsq", True)
    mean = x.double().abs().mean() if axis is None else x.double().abs().mean(1)
    np.testing.assert_allclose(high / 7, 2 * mean.numpy() / math.sqrt(7), rtol=1e-6)
    np.testing.assert_array_equal(low, -high)


def test_lsq_plus_starts_weights_at_three_deviations() -> None:
    x = 0.3 + torch.randn(500, generator=torch.Generator().manual_seed(9))
    high = learned_ranges.start(x, QuantSpec("int4"), "lsq+", True)[1]
    mean, deviation = x.double().mean(), x.double().std(correction=0)
    want = max(abs(mean - 3 * deviation), abs(mean + 3 * deviation)) / 8
    np.testing.assert_allclose(high / 7, want, rtol=1e-6)
    plain = learned_ranges.start(x, QuantSpec("int4"), "lsq", False)[1]
    assert learned_ranges.start(x, QuantSpec("int4"), "lsq+", False)[1] == plain != high


def test_lsq_plus_starts_asymmetric_activations_at_the_least_squared_error() -> None:
    x = torch.randn(900, generator=torch.Generator().manual_seed(10)).exp() - 0.4
    spec = QuantSpec("uint4", symmetric=False)
    low, high = learned_ranges.start(x, spec, "lsq+", False)

    def error(low: Any, high: Any) -> float:
        scale, zero = numerics.affine_from_range(low, high, spec)
        return float(np.square(numerics.fake_quantize(x.numpy(), scale, zero, spec) - x.numpy()).mean())

    assert error(low, high) < 0.9 * error(x.min().numpy(), x.max().numpy())
    counts = Histogram()
    counts.collect(x.numpy())
    assert (low, high) == range_of(counts, spec, "mse")


def test_a_dead_channel_starts_above_zero() -> None:
    high = learned_ranges.start(torch.zeros(2, 3), QuantSpec("int4", axis=0), "lsq", True)[1]
    assert (numerics.scale_from_amax(high, QuantSpec(Format.parse("int4"), axis=0)) < 1).all()
