"""Soft rounding is the papers': AdaRound's (Nagel et al. 2020), and what QDrop drops (Wei et al. 2022)."""

import numpy as np
import pytest
import torch

from intact.torch.reconstruction.adaround import (
    SoftRounding,
    beta_at,
    inverse_rectified_sigmoid,
    rectified_sigmoid,
)
from intact.torch.reconstruction.block_data import random_mask


def test_the_rectified_sigmoid_is_the_papers() -> None:
    v = torch.linspace(-6, 6, 25, dtype=torch.float64)
    want = np.clip(1.2 / (1 + np.exp(-v.numpy())) - 0.1, 0, 1)
    torch.testing.assert_close(rectified_sigmoid(v), torch.from_numpy(want), rtol=1e-14, atol=1e-14)
    inside = (want > 0) & (want < 1)
    back = inverse_rectified_sigmoid(torch.from_numpy(want))
    torch.testing.assert_close(back[inside], v[inside], rtol=1e-9, atol=1e-9)


def test_the_regularizer_is_the_papers() -> None:
    soft = SoftRounding(torch.tensor([0.2, 1.5, -0.75]), torch.tensor(1.0), -8, 7)
    h = np.array([0.2, 0.5, 0.25])
    assert float(soft.regularizer(4.0).detach()) == pytest.approx(np.mean(1 - np.abs(2 * h - 1) ** 4))


def test_beta_falls_from_20_to_2_after_the_warm_up() -> None:
    assert beta_at(0.19) is None
    betas = [beta_at(p) for p in (0.2, 0.4, 0.6, 0.8, 1.0)]
    assert betas[0] == 20
    assert betas[2] == pytest.approx(11)
    assert betas[-1] == pytest.approx(2)
    assert betas == sorted(betas, reverse=True)


def test_soft_weights_start_at_the_float_weights_and_end_on_a_neighbour() -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(5, 7, generator=generator)
    scale = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5]).reshape(5, 1)
    soft = SoftRounding(weight, scale, -8.0, 7.0)
    reached = ((weight / scale) >= -8) & ((weight / scale) <= 7)
    torch.testing.assert_close(soft()[reached], weight[reached])
    with torch.no_grad():
        soft.v.copy_(torch.randn(5, 7, generator=generator) * 4)
    steps = soft.codes() - weight / scale
    assert bool((steps[reached].abs() <= 1).all())
    assert bool((soft.codes() >= -8).all())
    assert bool((soft.codes() <= 7).all())
    assert torch.equal(soft.weight(), soft.codes() * scale)


def test_a_scale_for_every_block_of_a_weight_does_as_well() -> None:
    weight = torch.tensor([[0.3, 0.6, 12.0, 29.0]])
    soft = SoftRounding(weight, torch.tensor([[0.5, 0.5, 10.0, 10.0]]), -8.0, 7.0)
    torch.testing.assert_close(soft(), weight)
    assert soft.codes().tolist() == [[1, 1, 1, 3]]


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_dropping_takes_the_share_whatever_the_layout(share: float) -> None:
    like = torch.zeros(16, 8, 9, 7).to(memory_format=torch.channels_last)
    mask = random_mask(like, share, torch.Generator().manual_seed(1))
    assert mask.stride() == like.stride()
    assert set(mask.unique().tolist()) <= {0.0, 1.0}
    assert float(mask.mean()) == pytest.approx(share, abs=0.02)
