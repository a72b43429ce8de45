"""Tensors of codes and of floats alike, as steps in floats read and write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from intact.engine.cpu.binding import Binding
from intact.engine.steps import Shape, Tensor
from intact.kernels import Real, View


def operand_of(binding: Binding, name: str) -> Real:
    """A tensor or a constant as floats."""
    if name in binding.plan.constants:
        return Real(binding.constant(name))
    return as_operand(binding.view(name), binding.tensor(name))


def as_operand(view: View, tensor: Tensor) -> Real:
    """Memory as floats, through the grid of a tensor that has codes."""
    if (codes := tensor.codes) is None:
        return Real(view)
    low, high = codes.byte_range
    return Real(view, codes.scale, codes.zero_point + codes.offset, low, high)


def spread(binding: Binding, name: str, shape: Shape) -> Real:
    """A tensor under a larger shape: axes of size 1 and missing ones get strides of 0."""
    operand = operand_of(binding, name)
    sizes, strides = tuple(operand.view.sizes), tuple(operand.view.strides)
    missing = len(shape) - len(sizes)
    sizes, strides = (1,) * missing + sizes, (0,) * missing + strides
    still = [0 if n == 1 else s for n, s in zip(sizes, strides, strict=True)]
    return replace(operand, view=operand.view.part(operand.view.offset, shape, still))


def transpose_operand(operand: Real, order: Sequence[int]) -> Real:
    """Its axes in another order."""
    sizes, strides = ([axes[i] for i in order] for axes in (operand.view.sizes, operand.view.strides))
    return replace(operand, view=operand.view.part(operand.view.offset, sizes, strides))


def constant_or_none(binding: Binding, name: str) -> View | None:
    """A constant of the plan; None where a step names none."""
    return binding.constant(name) if name else None
