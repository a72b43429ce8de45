from __future__ import annotations

import numpy as np
import pytest
import torch

from intact.torch import nn as quant_nn
from intact.torch import quantize
from intact.torch.quickstart.data import LabelledImages
from intact.torch.quickstart.net import ResidualNet
from intact.torch.quickstart.train import (
    Batches,
    Normalized,
    answers,
    default_epochs,
    default_threads,
    train,
)


@pytest.fixture
def images(rng: np.random.Generator) -> LabelledImages:
    """Two classes that differ in brightness: learned in a few steps."""
    y = np.arange(60, dtype=np.int64) % 2
    x = (rng.integers(0, 90, (60, 3, 8, 8)) + 120 * y[:, None, None, None]).astype(np.uint8)
    return LabelledImages("bright or dark", ("dark", "bright"), x[:40], y[:40], x[40:], y[40:])


def test_normalized_images_have_mean_0_and_deviation_1(images: LabelledImages) -> None:
    x = Normalized(images)(images.train_x)
    torch.testing.assert_close(x.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std((0, 2, 3)), torch.ones(3), atol=1e-3, rtol=0)


def test_a_constant_channel_stays_finite(images: LabelledImages) -> None:
    images.train_x[:, 1] = 7
    assert Normalized(images)(images.train_x).isfinite().all()


def test_batches_hold_every_image_once_in_an_order_of_the_seed(images: LabelledImages) -> None:
    prepare = Normalized(images)
    first, again, other = (Batches(images, prepare, seed, batch=8) for seed in (1, 1, 2))
    labels = [torch.cat([y for _, y in batches]) for batches in (first, again, other)]
    assert len(first) == 5 and len(labels[0]) == 40
    assert torch.equal(labels[0], labels[1]) and not torch.equal(labels[0], labels[2])
    assert int(labels[0].sum()) == int(images.train_y.sum())
    assert not torch.equal(labels[0], torch.cat([y for _, y in first])), "the second pass has its own order"


def test_few_images_are_one_batch(images: LabelledImages) -> None:
    assert [len(y) for _, y in Batches(images, Normalized(images), seed=0)] == [40]


@pytest.mark.parametrize("epochs", [1, 4], ids=["one-step", "four-steps"])
def test_training_is_decided_by_its_seed(images: LabelledImages, epochs: int) -> None:
    prepare = Normalized(images)
    nets = [train(images, prepare, epochs, seed) for seed in (3, 3, 4)]
    logits = [answers(net, images.test_x, prepare) for net in nets]
    assert torch.equal(logits[0], logits[1])
    assert not torch.equal(logits[0], logits[2])


def test_training_learns(images: LabelledImages) -> None:
    prepare = Normalized(images)
    chosen = answers(train(images, prepare, 12, seed=0), images.test_x, prepare, batch=7).argmax(1)
    assert torch.equal(chosen, torch.from_numpy(images.test_y))


@pytest.mark.parametrize(("count", "epochs"), [(20, 40), (1200, 40), (12_000, 4), (50_000, 1)])
def test_the_larger_the_set_the_fewer_the_epochs(images: LabelledImages, count: int, epochs: int) -> None:
    many = LabelledImages(
        "many", images.classes, images.train_x, np.zeros(count, np.int64), images.test_x, images.test_y
    )
    assert default_epochs(many) == epochs


def test_small_images_take_one_thread(images: LabelledImages) -> None:
    assert default_threads(images) == 1
    large = np.zeros((1, 3, 32, 32), np.uint8)
    assert (
        default_threads(LabelledImages("large", (), large, images.train_y, large, images.test_y))
        == torch.get_num_threads()
    )


def test_graph_mode_finds_the_shortcuts_and_the_pool() -> None:
    net = ResidualNet(channels=1, classes=10, width=4).eval()
    result = quantize(net, example=torch.zeros(1, 1, 8, 8))
    assert not any(isinstance(m, quant_nn.TensorQuantizer) for m in net.modules())
    assert not result.report.left
    assert all(isinstance(block.add_quantizer, quant_nn.TensorQuantizer) for block in result.model.blocks)
    layers = [m for m in result.model.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
    assert len(layers) == 10
    assert all(hasattr(m, "_input_quantizer") and hasattr(m, "_weight_quantizer") for m in layers)
    assert isinstance(result.model.pool, quant_nn.QuantAdaptiveAvgPool2d)
    for name, parameter in net.named_parameters():
        assert torch.equal(parameter, result.model.get_parameter(name))
