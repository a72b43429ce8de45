"""Decompose functions of PyTorch that do several things at once into the calls that they consist of.

The exporter writes them as these operators, too. Placement decides about each. A model runs them decomposed
only where a quantizer stands inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

Run = Callable[..., Any]
"""``run(function, *arguments)`` makes one of the calls."""


def attention(
    run: Run,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Decompose `scaled_dot_product_attention`: ``softmax(query @ key^T * scale + mask) @ value``."""
    if enable_gqa and key.shape[-3] != query.shape[-3]:
        key = run(torch.repeat_interleave, key, query.shape[-3] // key.shape[-3], -3)
        value = run(torch.repeat_interleave, value, query.shape[-3] // value.shape[-3], -3)
    if is_causal:
        ones = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device)
        attn_mask = ones.tril()
    # Half of the scale on each side, against overflow: as PyTorch and its exporter do it.
    root = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    scores = run(
        torch.matmul,
        run(torch.mul, query, root),
        run(torch.mul, run(torch.transpose, key, -2, -1), root),
    )
    allowed = attn_mask if attn_mask is not None and attn_mask.dtype == torch.bool else None
    if allowed is not None:
        attn_mask = _as_float(allowed, query)
    if attn_mask is not None:
        scores = run(torch.add, scores, attn_mask)
    weights = run(torch.softmax, scores, -1)
    if allowed is not None:
        zero = torch.zeros((), dtype=query.dtype, device=query.device)
        weights = run(torch.where, _fully_masked(allowed, weights), zero, weights)
    if dropout_p:
        weights = run(torch.dropout, weights, dropout_p, True)
    return run(torch.matmul, weights, value)  # type: ignore[no-any-return]


def _as_float(mask: Tensor, like: Tensor) -> Tensor:
    """Return 0 where `mask` is true, and elsewhere -inf as the exporter writes it.

    In training it is the smallest number instead, because the gradient of a row of -inf would be NaN. The
    outputs are the same: `exp` of both is 0.
    """
    low = torch.finfo(like.dtype).min if torch.is_grad_enabled() else -math.inf
    ends = torch.tensor([low, 0.0], dtype=like.dtype, device=like.device)
    return torch.where(mask, ends[1], ends[0])


def _fully_masked(mask: Tensor, weights: Tensor) -> Tensor:
    """Return the rows that may attend to nothing.

    Without gradients it asks as the exporter does, a pattern that engines know.
    """
    return torch.logical_not(mask.any(-1, keepdim=True)) if torch.is_grad_enabled() else torch.isnan(weights)


def gelu(run: Run, input: Tensor, approximate: str = "none") -> Tensor:
    """Decompose `gelu`: ``input * (0.5 * (1 + erf(input / sqrt(2))))``; the tanh approximation stays one
    call.
    """
    if approximate != "none":
        return run(F.gelu, input, approximate=approximate)  # type: ignore[no-any-return]
    half = torch.tensor(0.5, dtype=input.dtype, device=input.device)
    share = run(torch.add, run(torch.erf, run(torch.div, input, math.sqrt(2))), 1)
    return run(torch.mul, input, run(torch.mul, half, share))  # type: ignore[no-any-return]


def glu(run: Run, input: Tensor, dim: int = -1) -> Tensor:
    """Decompose `glu`: the first half times the sigmoid of the second."""
    values, gates = run(torch.chunk, input, 2, dim)
    return run(torch.mul, values, run(torch.sigmoid, gates))  # type: ignore[no-any-return]


def silu(run: Run, input: Tensor, inplace: bool = False) -> Tensor:
    """Decompose `silu`: ``input * sigmoid(input)``."""
    return run(torch.mul, input, run(torch.sigmoid, input))  # type: ignore[no-any-return]


def addcmul(
    run: Run, input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1, into: bool = False
) -> Tensor:
    """Decompose `addcmul`: ``input + value * tensor1 * tensor2``.

    With `into`, it is `addcmul_`, which writes into `input`.
    """
    scaled = tensor1 if value == 1 else run(torch.mul, tensor1, value)
    return run(_ADD[into], input, run(torch.mul, scaled, tensor2))  # type: ignore[no-any-return]


def addcdiv(
    run: Run, input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1, into: bool = False
) -> Tensor:
    """Decompose `addcdiv`: ``input + value * (tensor1 / tensor2)``. With `into`, it is `addcdiv_`."""
    share = run(torch.div, tensor1, tensor2)
    scaled = share if value == 1 else run(torch.mul, share, value)
    return run(_ADD[into], input, scaled)  # type: ignore[no-any-return]


def lerp(run: Run, input: Tensor, end: Tensor, weight: float | Tensor, *, into: bool = False) -> Tensor:
    """Decompose `lerp`, from the nearer end as PyTorch computes it. With `into`, it is `lerp_`.

    It stays one call with a tensor of weights, and where the tensor that it writes into is the farther end.
    """
    if isinstance(weight, Tensor) or (into and abs(weight) >= 0.5):
        whole = Tensor.lerp_ if into else torch.lerp
        return run(whole, input, end, weight)  # type: ignore[no-any-return]
    way = run(torch.sub, end, input)
    if abs(weight) < 0.5:
        return run(_ADD[into], input, run(torch.mul, way, weight))  # type: ignore[no-any-return]
    return run(torch.sub, end, run(torch.mul, way, 1 - weight))  # type: ignore[no-any-return]


_ADD = (torch.add, Tensor.add_)


DECOMPOSITIONS: dict[str, Callable[..., Any]] = {
    "scaled_dot_product_attention": attention,
    "gelu": gelu,
    "glu": glu,
    "silu": silu,
    "addcmul": addcmul,
    "addcdiv": addcdiv,
    "lerp": lerp,
}
"""Name of a function -> its decomposition."""


_INTO = frozenset({"addcmul", "addcdiv", "lerp"})
_INPLACE = frozenset({"silu"})
"""Functions with an argument `inplace` or a name with "_". They are decomposed as if they wrote into
nothing.
"""


def is_decomposed(function: str, writes: bool, kwargs: Mapping[str, Any], *, careful: bool = False) -> bool:
    """Return whether a call of `function` is decomposed.

    Args:
        function: Its name.
        writes: Whether it writes into its first operand.
        kwargs: Its named arguments.
        careful: Whether other names may refer to a tensor that the call changes in place.
    """
    if careful and function in _INPLACE:
        return False
    return function in (_INTO | _INPLACE if writes else DECOMPOSITIONS) and kwargs.get("out") is None


def takes_into(function: str) -> bool:
    """Return whether the decomposition of `function` takes the argument `into`."""
    return function in _INTO


def _body(function: Any) -> FunctionType:
    """Return `function` without its check for `__torch_function__` overrides, so that its inner calls are
    seen.
    """
    globals_without_check = {**function.__globals__, "has_torch_function": lambda _: False}
    return FunctionType(function.__code__, globals_without_check, function.__name__, function.__defaults__)


BODIES = {"multi_head_attention_forward": _body(F.multi_head_attention_forward)}
"""Name of a function that PyTorch writes in Python -> that code, with visible inner calls."""
