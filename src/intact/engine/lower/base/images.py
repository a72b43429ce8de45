"""Convolutions over images; those over sequences [n, c, l] are over images [n, c, 1, l]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.fused import Fused
from intact.engine.lower.base.operand import CodesRead
from intact.engine.lower.base.weighted_layer import lower_weighted
from intact.engine.lower.base.weights import Weight
from intact.engine.steps import Dim, Epilogue, Reshape, Step
from intact.graph import Node


@dataclass(frozen=True)
class Image:
    """Describes a convolution over images: input, output, window and name."""

    name: str
    nodes: tuple[str, ...]
    x: str
    y: str
    weight: str
    epilogue: Epilogue
    low: str = ""


def lower_over_images(
    builder: PlanBuilder, fused: Fused, read: CodesRead, weight: Weight, make: Callable[[Image], Step]
) -> list[Node]:
    """Lower a convolution of any kind; one over sequences is over images of height 1."""
    packed = np.moveaxis(weight.codes, 1, -1)
    flat = packed.ndim == 3

    def steps(name: str, y: str, w: str, epilogue: Epilogue, done: tuple[str, ...]) -> list[Step]:
        step_names = name, done
        if not flat:
            return [make(Image(*step_names, read.x, y, w, epilogue, read.low))]
        image, before = as_image(builder, read.x, *step_names)
        residual, more = as_image(builder, epilogue.residual, *step_names) if epilogue.residual else ("", [])
        low, lower = as_image(builder, read.low, *step_names) if read.low else ("", [])
        row = builder.tensors[y]
        output = builder.scratch(f"{y}.image", row.dtype, image_dims(row.shape), row.codes)
        step = make(Image(*step_names, image, output, w, replace(epilogue, residual=residual), low))
        return [*before, *more, *lower, step, Reshape(*step_names, output, y)]

    return lower_weighted(builder, fused, read, weight, packed[:, None] if flat else packed, steps)


def as_image(builder: PlanBuilder, x: str, name: str, done: tuple[str, ...]) -> tuple[str, list[Step]]:
    """Reshape a tensor over sequences [n, c, l] to images [n, c, 1, l]; return it and the step."""
    tensor = builder.tensors[x]
    image = builder.scratch(f"{x}.image", tensor.dtype, image_dims(tensor.shape), tensor.codes)
    return image, [Reshape(name, done, x, image)]


def image_dims(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Return sizes [n, c, l] as [n, c, 1, l]."""
    return (*shape[:2], 1, *shape[2:])


def add_over_images(
    builder: PlanBuilder, node: Node, x: str, y: str, step_of: Callable[[str, str], Step]
) -> None:
    """Add the step from image x to image y; sequences become images of one row, and back."""
    if len(builder.tensors[y].shape) == 4:
        builder.add(step_of(x, y), node)
        return
    name, done = node.name or "", (node.name or "",)
    image, before = as_image(builder, x, name, done)
    output = builder.scratch(f"{y}.image", "float32", image_dims(builder.tensors[y].shape))
    for step in (*before, step_of(image, output), Reshape(name, done, output, y)):
        builder.add(step, node)
