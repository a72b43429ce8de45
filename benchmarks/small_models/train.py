"""Makes the weights beside it: nothing but CIFAR-10 and scikit-learn's digits goes into them.

    INTACT_SHARED=<the shared data> python benchmarks/small_models/train.py mobilenet vit detector

SGD (the ViT: AdamW), one-cycle learning rate, crops and mirrored images for CIFAR-10, 8,192 scenes for
the detector; from random weights. The last 5,000 training images, and 500 scenes, judge the result: the test
images are never looked at. All here were made with `--bfloat16`: the detector in 62 CPU seconds, mAP 80.6 on
those scenes, whose digits it was trained on; the MobileNet in 12 CPU minutes, 80.16% of those images right;
the ViT in 8, 68.82%.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[1]))
from cifar import Images, log, shared_folder

from small_models.networks import FOLDER, NETS, Detector
from small_models.scenes import Scenes, mean_average_precision, scenes

HELD = 5000
Batches = Iterator[tuple[Tensor, Tensor]]
STEPS = {"mobilenet": 3000, "vit": 3500, "detector": 1500}
BATCH = {"mobilenet": 128, "vit": 128, "detector": 64}
SMALL = {"mobilenet": 0.6}
"""The share of the steps, from the first, whose images are 24 pixels wide: half the time."""

LR = {"mobilenet": 0.25, "vit": 2e-3, "detector": 0.1}


def augment(x: Tensor, y: Tensor, steps: int, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Crops of images padded by 4, half of them mirrored."""
    padded = F.pad(x, (4, 4, 4, 4), mode="reflect")
    rows = torch.arange(32)
    order = torch.randperm(len(x))
    for i in range(steps):
        if (i + 1) * batch // len(x) > i * batch // len(x):
            order = torch.randperm(len(x))
        chosen = order[torch.arange(i * batch, (i + 1) * batch) % len(x)]
        down, right = (torch.randint(0, 9, (batch, 1)) + rows for _ in range(2))
        mirrored = torch.rand(batch) < 0.5
        right[mirrored] = right[mirrored].flip(1)
        crops = padded[chosen[:, None, None], :, down[:, :, None], right[:, None, :]]  # [batch, 32, 32, 3]
        yield crops.permute(0, 3, 1, 2), y[chosen]


def classifier_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x).float(), y, label_smoothing=0.05)


def draw_scenes(steps: int, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Scenes and their targets, see `targets_of`: the same 8,192, their colours exchanged at random."""
    result = scenes(8192, 2, train=True)
    targets = targets_of(result)
    for _ in range(steps):
        chosen, colours = torch.randint(len(targets), (batch,)), torch.randperm(3)
        yield result.x[chosen][:, colours], targets[chosen]


def targets_of(result: Scenes) -> Tensor:
    """[N, 5, 64]: box and class of the digit that a cell is near the middle of; class -1 where of none."""
    cells = Detector.SIZE // Detector.STRIDE
    out = torch.zeros(len(result.x), 5, cells, cells)
    out[:, 4] = -1
    for image, kind, box in zip(result.image, result.kind, torch.from_numpy(result.box), strict=True):
        middle = (box[:2] + box[2:]) / 2
        for row in range(cells):
            for column in range(cells):
                centre = Detector.STRIDE * (torch.tensor([column, row]) + 0.5)
                if (centre - middle).abs().max() <= 0.75 * Detector.STRIDE:
                    out[image, :4, row, column], out[image, 4, row, column] = box, kind
    return out.flatten(2)


def detector_loss(model: Detector, x: Tensor, targets: Tensor) -> Tensor:
    """Focal loss of the classes and generalized IoU of the boxes, for each cell that holds a digit."""
    boxes, logits = (out.float() for out in model.raw(x))
    holds = targets[:, 4] >= 0
    expected = F.one_hot(targets[:, 4].clamp(min=0).long(), model.CLASSES).transpose(1, 2) * holds[:, None]
    p = torch.sigmoid(logits)
    entropy = F.binary_cross_entropy_with_logits(logits, expected.float(), reduction="none")
    focal = (expected - p).abs() ** 2 * entropy
    mine, true = boxes.transpose(1, 2)[holds], targets[:, :4].transpose(1, 2)[holds]
    low, high = torch.maximum(mine[:, :2], true[:, :2]), torch.minimum(mine[:, 2:], true[:, 2:])
    pair = (high - low).clamp(min=0).prod(1)
    union = (mine[:, 2:] - mine[:, :2]).prod(1) + (true[:, 2:] - true[:, :2]).prod(1) - pair
    hull = torch.maximum(mine[:, 2:], true[:, 2:]) - torch.minimum(mine[:, :2], true[:, :2])
    area = hull.prod(1)
    distance = 1 - pair / union + (area - union) / area
    return (focal.sum() + distance.sum()) / holds.sum().clamp(min=1)


def train(name: str, batches: Batches, loss: Callable[..., Tensor], options: argparse.Namespace) -> nn.Module:
    """The network `name`, trained on `batches` as this file's description says."""
    model, steps = NETS[name]().train(), options.steps or STEPS[name]
    matrices, vectors = (
        [p for p in model.parameters() if (p.dim() > 1) == expected] for expected in (True, False)
    )
    groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    if name == "vit":
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(groups, LR[name], weight_decay=0.05)
    else:
        model = model.to(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(groups, LR[name], momentum=0.9, nesterov=True, weight_decay=5e-4)
    started = time.process_time()
    for step, (x, y) in enumerate(batches):
        share = step / steps
        for group in optimizer.param_groups:
            group["lr"] = LR[name] * one_cycle(share)
        if share < SMALL.get(name, 0):
            x = F.interpolate(x, (24, 24), mode="bilinear", antialias=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bfloat16):
            value = loss(model, x, y)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        if step % 50 == 0:
            spent = time.process_time() - started
            log(f"{name} {step}/{steps}: loss {float(value.detach()):.3f}, {spent:.0f} s")
    return model.eval()


def one_cycle(share: float) -> float:
    """The learning rate as a share of the highest: up for 15% of the steps, then down half a cosine."""
    rate = share / 0.15 if share < 0.15 else (1 + math.cos(math.pi * (share - 0.15) / 0.85)) / 2
    return max(rate, 0.002)


@torch.no_grad()
def judge(model: nn.Module, x: Tensor, y: Tensor | Scenes) -> float:
    out = torch.cat([model(part) for part in x.split(500)])
    if isinstance(y, Scenes):
        return mean_average_precision(out.numpy(), y)
    return 100 * float((out.argmax(1) == y).double().mean())


def state_to_store(model: nn.Module) -> dict[str, Tensor]:
    """Its state in float16; counters of BatchNorm are left as they are."""
    state = {key: x.detach().contiguous() for key, x in model.state_dict().items()}
    return {key: x.half() if x.is_floating_point() else x for key, x in state.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("nets", nargs="+", choices=NETS)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.nets:
        torch.manual_seed(0)
        steps, batch = options.steps or STEPS[name], BATCH[name]
        if name == "detector":
            holdout = scenes(500, 1, train=True)
            model = train(name, draw_scenes(steps, batch), detector_loss, options)
            score = judge(model, holdout.x, holdout)
        else:
            shared = shared_folder("small_models/train.py")
            if shared is None:
                return
            data = Images(shared / "data" / "cifar10_train.npz", 50_000)
            x, y = data.x[:-HELD], data.y[:-HELD]
            model = train(name, augment(x, y, steps, batch), classifier_loss, options)
            score = judge(model, data.x[-HELD:], data.y[-HELD:])
        options.out.mkdir(exist_ok=True)
        save_file(state_to_store(model), options.out / f"{name}.safetensors")
        print(f"{name}: {score:.2f} on what was held out", flush=True)


if __name__ == "__main__":
    main()
