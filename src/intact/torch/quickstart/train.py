"""Trains a float network in seconds, and evaluates networks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from intact.torch.quickstart.data import LabelledImages, Track, without_progress
from intact.torch.quickstart.net import ResidualNet

BATCH = 50
LEARNING_RATE = 0.1
PASSES = 48_000  # images seen while training: what takes the 8x8 digits to a plateau
MAX_EPOCHS = 40
SMALL_IMAGE = 16 * 16
"""Pixels up to which a second thread costs more than it brings; on a busy machine, many times more."""


class Normalized:
    """Images as float32 of zero mean and unit deviation per channel, both measured on the train images."""

    def __init__(self, images: LabelledImages) -> None:
        channels = torch.from_numpy(images.train_x).transpose(0, 1).flatten(1).float().div(255)
        self.mean = channels.mean(1).view(-1, 1, 1)
        self.deviation = channels.std(1).clamp(min=1e-3).view(-1, 1, 1)

    def __call__(self, pixels: np.ndarray) -> Tensor:
        """Convert uint8 [N, C, H, W] to float32 [N, C, H, W]."""
        return (torch.from_numpy(pixels).float().div(255) - self.mean) / self.deviation


class Batches:
    """Batches (inputs, labels) of the train images in an order that a seed decides, shifted by up to a pixel.

    A new order and new shifts in every pass; the last, smaller batch is left out, since batch
    normalization over a handful of images helps nobody.
    """

    def __init__(self, images: LabelledImages, prepare: Normalized, seed: int, batch: int = BATCH) -> None:
        self._images, self._prepare, self._batch = images, prepare, min(batch, len(images.train_y))
        self._rng = np.random.default_rng(seed)

    def __len__(self) -> int:
        return len(self._images.train_y) // self._batch

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = self._rng.permutation(len(self._images.train_y))
        for start in range(0, len(self) * self._batch, self._batch):
            chosen = order[start : start + self._batch]
            down, right = (int(step) for step in self._rng.integers(-1, 2, 2))
            shifted = torch.roll(self._prepare(self._images.train_x[chosen]), (down, right), (2, 3))
            yield shifted, torch.from_numpy(self._images.train_y[chosen])


def default_epochs(images: LabelledImages) -> int:
    """Return the number of passes over the train images: many over a small set, one over a large."""
    return max(1, min(MAX_EPOCHS, round(PASSES / len(images.train_y))))


def default_threads(images: LabelledImages) -> int:
    """Return the number of threads for `images`: one for small ones, else as many as torch takes."""
    return 1 if images.train_x[0, 0].size <= SMALL_IMAGE else torch.get_num_threads()


def train(
    images: LabelledImages, prepare: Normalized, epochs: int, seed: int, track: Track = without_progress
) -> ResidualNet:
    """Train a `ResidualNet` in float on the train images; return it in eval mode."""
    torch.manual_seed(seed)
    net = ResidualNet(images.train_x.shape[1], len(images.classes))
    batches = Batches(images, prepare, seed)
    optimizer = torch.optim.SGD(
        net.parameters(), LEARNING_RATE, momentum=0.9, weight_decay=5e-4, nesterov=True
    )
    steps = epochs * len(batches)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
    every_step = (pair for _ in range(epochs) for pair in batches)
    for inputs, labels in track(every_step, "training in float", steps):
        loss = nn.functional.cross_entropy(net(inputs), labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return net.eval()


@torch.no_grad()
def answers(net: nn.Module, images: np.ndarray, prepare: Normalized, batch: int = 256) -> Tensor:
    """Return logits of `net` in eval mode, [images, classes]."""
    net.eval()
    return torch.cat([net(prepare(images[i : i + batch])) for i in range(0, len(images), batch)])
