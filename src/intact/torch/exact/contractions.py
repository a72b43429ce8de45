"""Compute einsum and other contractions by the moves and products that the engine makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from intact.graph.rewrites import EinsumProduct, expand_ellipsis, merge_shape, split_products
from intact.torch.exact.elementwise import NoEngineStep

__all__ = ["CONTRACTIONS"]


def einsum(equation: Any, *operands: Any) -> Tensor:
    """Compute `torch.einsum` as `intact.graph` rewrites Einsum: two operands at a time, from the left.

    Raises:
        NoEngineStep: The equation is no such chain of products, or it is given as lists of axes.
    """
    tensors = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    if not isinstance(equation, str) or not all(isinstance(x, Tensor) for x in tensors):
        raise NoEngineStep
    expanded = expand_ellipsis(equation, [x.dim() for x in tensors])
    if expanded is None:
        raise NoEngineStep
    if len(tensors) == 1:
        return _reorder(tensors[0], expanded)
    products = split_products(expanded, _sizes(expanded, tensors))
    if not products:
        raise NoEngineStep
    result: Tensor
    result, *rest = tensors
    for product, other in zip(products, rest, strict=True):
        result = _multiply(product, result, other)
    return result


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Compute `torch.tensordot` as one matrix product, as its exporters write it.

    Raises:
        NoEngineStep: The axes are no numbers.
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        dims = list(range(a.dim() - dims, a.dim())), list(range(dims))
    if not isinstance(dims, (list, tuple)) or len(dims) != 2:
        raise NoEngineStep
    summed_a, summed_b = ([axis % x.dim() for axis in axes] for x, axes in zip((a, b), dims, strict=True))
    own_a, own_b = (
        [i for i in range(x.dim()) if i not in axes] for x, axes in ((a, summed_a), (b, summed_b))
    )
    rows = a.permute([*own_a, *summed_a]).reshape(-1, _count(a, summed_a))
    columns = b.permute([*summed_b, *own_b]).reshape(_count(b, summed_b), -1)
    return torch.mm(rows, columns).reshape([a.shape[i] for i in own_a] + [b.shape[i] for i in own_b])


def inner(input: Tensor, other: Tensor) -> Tensor:
    """Compute `torch.inner`: a product over the last axis of each.

    Raises:
        NoEngineStep: One is a number.
    """
    if not input.dim() or not other.dim():
        raise NoEngineStep
    return tensordot(input, other, ([-1], [-1]))


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Compute `torch.addmv` with each product rounded, as in a file."""
    return input * beta + torch.matmul(mat, vec) * alpha


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute `F.bilinear`: a product with the weight, [outputs, features of 1, features of 2], then one with
    `input2`.
    """
    outputs, features, width = weight.shape
    columns = weight.transpose(0, 1).reshape(features, outputs * width)
    rows = torch.matmul(input1, columns).reshape(*input1.shape[:-1], outputs, width)
    product = torch.matmul(rows, input2.unsqueeze(-1)).squeeze(-1)
    return product if bias is None else product + bias


def _count(x: Tensor, axes: Sequence[int]) -> int:
    return torch.Size([x.shape[axis] for axis in axes]).numel()


def _sizes(equation: str, tensors: Sequence[Tensor]) -> dict[str, int]:
    """Return the size of each letter that has the same one in all operands."""
    sizes: dict[str, set[int]] = {}
    for term, x in zip(equation.partition("->")[0].split(","), tensors, strict=True):
        for axis, size in zip(term, x.shape, strict=True):
            sizes.setdefault(axis, set()).add(size)
    return {axis: next(iter(values)) for axis, values in sizes.items() if len(values) == 1}


def _reorder(x: Tensor, equation: str) -> Tensor:
    """Compute an einsum of one operand: sums, and another order of the axes."""
    term, _, answer = equation.partition("->")
    if len(set(term)) < len(term) or len(set(answer)) < len(answer) or not set(answer) <= set(term):
        raise NoEngineStep
    return _answer(x, term, answer, sums=True)


def _multiply(product: EinsumProduct, a: Tensor, b: Tensor) -> Tensor:
    operands = [_lay_out(x, product, index) for index, x in enumerate((a, b))]
    left, right = (operands[index] for index in product.order)
    is_mul = product.kind == "Mul"
    result = left * right if is_mul else torch.matmul(left, right)
    if product.columns:
        result = result.reshape(*result.shape[:-1], *product.columns)
    return _answer(result, product.output_axes, product.answer, sums=is_mul)


def _lay_out(x: Tensor, product: EinsumProduct, operand: int) -> Tensor:
    """Order an operand's axes as the product reads them."""
    term, wanted = product.terms[operand], product.wanted[operand]
    permutation = [term.index(axis) for axis in wanted if axis in term]
    if permutation != sorted(permutation):
        x = x.permute(permutation)
    for place, axis in enumerate(wanted):
        if axis not in term:
            x = x.unsqueeze(place)
    shape = merge_shape(product, operand)
    return x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(shape)]) if shape else x


def _answer(x: Tensor, axes: str, answer: str, *, sums: bool) -> Tensor:
    """Order the axes as in the answer; missing ones are summed, or have one index."""
    gone = [place for place, axis in enumerate(axes) if axis not in answer]
    axes_left = [axis for axis in axes if axis in answer]
    if gone:
        x = x.sum(gone) if sums else x.squeeze(gone)
    permutation = [axes_left.index(axis) for axis in answer]
    return x if permutation == sorted(permutation) else x.permute(permutation)


CONTRACTIONS: dict[str, Callable[..., Tensor]] = {
    **dict.fromkeys(("mv", "dot", "vdot"), torch.matmul),
    "addmv": addmv, "bilinear": bilinear, "einsum": einsum, "inner": inner, "tensordot": tensordot,
}  # fmt: skip
"""Name of a torch function -> the calls that it consists of."""
