"""Scenes for the detector: digits pasted on textures, and the score of its detections.

The digits are scikit-learn's (1,797 of 8x8 pixels, from the UCI repository): the first 1,300 are
for training and calibration, the others for tests. Everything drawn is a function of a seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

SIZE, MOST = 64, 4
"""Of the detector's images, and of the digits on one."""

TRAIN_DIGITS = 1300
IOU_THRESHOLDS = np.arange(0.5, 1.0, 0.05)


@dataclass
class Scenes:
    """Images [N, 3, 64, 64] in -1..1, and for each digit its image, class and box (x1, y1, x2, y2)."""

    x: Tensor
    image: np.ndarray
    kind: np.ndarray
    box: np.ndarray


def scenes(count: int, seed: int, *, train: bool) -> Scenes:
    """`count` images with 1 to 4 digits of 12 to 30 pixels, of any colour, on smooth coloured noise."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    part = slice(0, TRAIN_DIGITS) if train else slice(TRAIN_DIGITS, None)
    pixels = torch.from_numpy(digits.images[part]).float()[:, None] / 16
    kinds = digits.target[part]
    rng = np.random.default_rng(seed)
    coarse = [torch.from_numpy(rng.random((count, 3, n, n), np.float32)) for n in (4, 16)]
    smooth = [F.interpolate(c, (SIZE, SIZE), mode="bilinear") for c in coarse]
    noise = torch.from_numpy(rng.standard_normal((count, 3, SIZE, SIZE), np.float32))
    x = 1.4 * smooth[0] + 0.6 * smooth[1] - 1.0 + 0.05 * noise
    image, kind, box = [], [], []
    for i in range(count):
        chosen: list[tuple[int, int, int]] = []
        for _ in range(rng.integers(1, MOST + 1)):
            side = int(rng.integers(12, 31))
            left, top = (int(p) for p in rng.integers(0, SIZE - side + 1, 2))
            if any(abs(left - a) < max(side, c) and abs(top - b) < max(side, c) for a, b, c in chosen):
                continue
            chosen.append((left, top, side))
            which = rng.integers(len(kinds))
            glyph = F.interpolate(pixels[which : which + 1], (side, side), mode="bilinear")[0]
            place = x[i, :, top : top + side, left : left + side]
            colour = torch.from_numpy(rng.uniform(-1, 1, (3, 1, 1)).astype(np.float32))
            colour = colour + torch.where(colour > place.mean((1, 2), keepdim=True), 0.6, -0.6)
            place.copy_(place * (1 - glyph) + colour * glyph)
            image.append(i)
            kind.append(kinds[which])
            box.append((left, top, left + side, top + side))
    return Scenes(x.clamp(-1, 1), np.array(image), np.array(kind), np.array(box, np.float32))


def mean_average_precision(outputs: np.ndarray, truth: Scenes, least: float = 0.05) -> float:
    """mAP over IoU thresholds 0.5, 0.55, ... 0.95 in percent, as COCO defines it (all points of the curve).

    Args:
        outputs: Of `Detector`, [N, 14, cells]: boxes in pixels, probabilities.
        truth: The same N images.
        least: Probabilities below are no detections.
    """
    result = []
    for kind in range(outputs.shape[1] - 4):
        per_image = [_suppress_non_maxima(out[:4].T, out[4 + kind], least) for out in outputs]
        mine = truth.kind == kind
        targets = [truth.box[mine & (truth.image == i)] for i in range(len(outputs))]
        result.append([_average_precision(per_image, targets, t) for t in IOU_THRESHOLDS])
    return 100 * float(np.mean(result))


def overlaps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Intersection over union of boxes [N, 4] and [M, 4]: [N, M]."""
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    pair = np.prod(np.clip(high - low, 0, None), 2)
    areas = [np.prod(np.clip(c[:, 2:] - c[:, :2], 0, None), 1) for c in (a, b)]
    return pair / np.maximum(areas[0][:, None] + areas[1][None] - pair, 1e-9)


def _suppress_non_maxima(
    boxes: np.ndarray, scores: np.ndarray, least: float
) -> tuple[np.ndarray, np.ndarray]:
    """Boxes and scores that survive non-maximum suppression at an IoU of 0.6, best first."""
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] >= least]
    boxes, scores = boxes[order], scores[order]
    near, remaining = overlaps(boxes, boxes) > 0.6, []
    for i in range(len(boxes)):
        if not near[i, remaining].any():
            remaining.append(i)
    return boxes[remaining], scores[remaining]


def _average_precision(
    result: list[tuple[np.ndarray, np.ndarray]], targets: list[np.ndarray], threshold: float
) -> float:
    """Area under the precision that no higher recall exceeds."""
    scores, hits = [], []
    for (boxes, confidence), expected in zip(result, targets, strict=True):
        overlap, free = overlaps(boxes, expected), np.ones(len(expected), bool)
        for row, score in zip(overlap, confidence, strict=True):
            best = int(np.argmax(np.where(free, row, -1))) if free.any() else -1
            hit = best >= 0 and row[best] >= threshold
            if hit:
                free[best] = False
            scores.append(score)
            hits.append(hit)
    order = np.argsort(-np.array(scores), kind="stable")
    right = np.cumsum(np.array(hits, bool)[order])
    precision = right / np.arange(1, len(right) + 1)
    recall = right / max(sum(map(len, targets)), 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    return float(np.sum(np.diff(recall, prepend=0) * envelope))
