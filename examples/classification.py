"""Train and evaluate an image classifier: what the guide takes from torchvision's reference scripts."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler, SequentialSampler

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageFolder(Dataset):
    """Images in one folder per class, the classes in the order of their folders' names.

    Args:
        root: The folder of folders.
        size: Height and width of the square that is cut from the middle.
        augment: Mirror half of the images, at random.

    An item is an image [3, size, size], normalized with ImageNet's mean and deviation, and its class.
    """

    def __init__(self, root: str | Path, size: int = 224, augment: bool = False) -> None:
        folders = sorted(path for path in Path(root).iterdir() if path.is_dir())
        self.classes = [folder.name for folder in folders]
        self.files = [
            (file, label) for label, folder in enumerate(folders) for file in sorted(folder.iterdir())
        ]
        self.size, self.augment = size, augment

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        from PIL import Image, ImageOps

        file, label = self.files[index]
        with Image.open(file) as image:
            square = ImageOps.fit(image.convert("RGB"), (self.size, self.size), centering=(0.5, 0.5))
        pixels = np.asarray(square, np.float32) / 255
        if self.augment and random.random() < 0.5:
            pixels = pixels[:, ::-1]
        normal = (pixels - np.float32(MEAN)) / np.float32(STD)
        return torch.from_numpy(np.ascontiguousarray(normal.transpose(2, 0, 1))), label


def load_data(
    traindir: str | Path, valdir: str | Path, cache_dataset: bool, distributed: bool, size: int = 224
) -> tuple[ImageFolder, ImageFolder, Sampler, Sampler]:
    """Datasets and samplers for training and for testing; without a cache, for one process."""
    if cache_dataset or distributed:
        raise ValueError(f"this example has no {cache_dataset=} and no {distributed=}")
    train, test = ImageFolder(traindir, size, augment=True), ImageFolder(valdir, size)
    return train, test, RandomSampler(train), SequentialSampler(test)


def train_one_epoch(
    model: nn.Module,
    criterion: nn.Module,
    optimizer: torch.optim.Optimizer,
    data_loader: DataLoader,
    device: str,
    epoch: int,
    print_freq: int,
) -> None:
    """One pass over `data_loader`, with a line of progress every `print_freq` batches."""
    model.train()
    for index, (images, labels) in enumerate(data_loader):
        loss = criterion(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if index % print_freq == 0:
            print(f"Epoch: [{epoch}] {index}/{len(data_loader)} loss {loss.item():.4f}")


def evaluate(
    model: nn.Module, criterion: nn.Module, data_loader: DataLoader, device: str, print_freq: int = 100
) -> float:
    """Top-1 in percent over `data_loader`, with a line of progress every `print_freq` batches."""
    model.eval()
    right = seen = 0
    with torch.inference_mode():
        for index, (images, labels) in enumerate(data_loader):
            output, labels = model(images.to(device)), labels.to(device)
            right += int((output.argmax(1) == labels).sum())
            seen += len(labels)
            if index % print_freq == 0:
                loss = criterion(output, labels).item()
                print(f"Test: {index}/{len(data_loader)} loss {loss:.4f} Acc@1 {100 * right / seen:.3f}")
    print(f" * Acc@1 {100 * right / seen:.3f}")
    return 100 * right / seen
