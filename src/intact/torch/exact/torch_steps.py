"""Record which functions of a run PyTorch computes itself although their last bits are its own."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from intact.torch.exact.tensor_grids import MOVES

__all__ = ["note_torch_step", "record_torch_steps"]

_local = threading.local()


@contextmanager
def record_torch_steps() -> Iterator[Counter[str]]:
    """Count such functions by name inside the context, in this thread."""
    before = getattr(_local, "counter", None)
    counter: Counter[str] = Counter()
    _local.counter = counter
    try:
        yield counter
    finally:
        _local.counter = before


def note_torch_step(name: str, operands: Iterable[Any]) -> None:
    """Count a function that PyTorch computes on `operands`, unless IEEE 754 decides its results."""
    counter: Counter[str] | None = getattr(_local, "counter", None)
    if counter is None or name in MOVES:
        return
    types = {x.dtype for x in operands if isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())}
    narrow = types & _NARROW
    if narrow and (name in _ARITHMETIC or name not in _ROUNDED_ONCE):
        counter[f"functions in {str(next(iter(narrow))).removeprefix('torch.')}"] += 1
    elif types and name not in _ROUNDED_ONCE:
        counter[name] += 1


_ARITHMETIC = frozenset({
    "add", "deg2rad", "diff", "div", "divide", "iadd", "imul", "isub", "itruediv", "leaky_relu", "mul",
    "multiply", "pow", "prelu", "radd", "reciprocal", "rmul", "rsub", "rtruediv", "square", "sub",
    "subtract", "true_divide", "truediv",
})  # fmt: skip
"""Functions that round once, which in float16 is another number than in float32."""

_NARROW = {torch.float16, torch.bfloat16}
"""Types that engines compute in float32 (N14)."""


_ROUNDED_ONCE = MOVES | frozenset({
    "abs", "absolute", "add", "all", "allclose", "alpha_dropout", "amax", "amin", "aminmax", "any", "argmax",
    "argmin", "argsort", "argwhere", "as_strided", "as_subclass", "atleast_1d", "bernoulli", "bincount",
    "block_diag", "bool", "broadcast_tensors", "bucketize", "ceil", "clamp", "clamp_max", "clamp_min",
    "clip", "column_stack", "combinations", "conj", "conj_physical", "constant_pad_nd", "contains", "copy",
    "copysign", "count_nonzero", "cpu", "cummax", "cummin", "data", "deg2rad", "device", "diag",
    "diag_embed", "diagflat", "diagonal_copy", "diagonal_scatter", "diff", "dim", "div", "divide", "double",
    "dropout1d", "dropout2d", "dropout3d", "dsplit", "dstack", "dtype", "element_size", "embedding",
    "empty_like", "eq", "equal", "expand_copy", "feature_alpha_dropout", "feature_dropout", "fill", "fix",
    "fliplr", "flipud", "floor", "floor_divide", "floordiv", "fmax", "fmin", "fmod", "format", "frac",
    "full_like", "ge", "get", "get_device", "grad", "grad_fn", "greater", "greater_equal", "gt", "half",
    "hardshrink", "hardtanh", "hash", "heaviside", "hsplit", "iadd", "imag", "imul", "index_copy",
    "index_fill", "index_put", "int", "is_complex", "is_contiguous", "is_cuda", "is_floating_point",
    "is_inference", "is_leaf", "is_meta", "is_mkldnn", "is_nonzero", "is_quantized", "is_same_size",
    "is_signed", "is_sparse", "isclose", "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf",
    "isreal", "isub", "item", "itemsize", "iter", "itruediv", "kthvalue", "layout", "le", "leaky_relu",
    "len", "less", "less_equal", "lift_fresh", "logical_and", "logical_not", "logical_or", "logical_xor",
    "long", "lt", "masked_fill", "masked_scatter", "masked_select", "max", "maximum", "median", "meshgrid",
    "min", "minimum", "mode", "msort", "mul", "multinomial", "multiply", "name", "names", "nan_to_num",
    "nanmedian", "native_dropout", "nbytes", "ndim", "ndimension", "ne", "neg", "negative", "nelement",
    "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros", "nextafter", "nonzero", "normal",
    "not_equal", "numel", "numpy", "one_hot", "ones_like", "positive", "pow", "prelu", "put", "radd",
    "rand_like", "randint_like", "randn_like", "real", "reciprocal", "relu", "relu6", "repr",
    "requires_grad", "requires_grad_", "resolve_conj", "resolve_neg", "result_type", "reversed", "rmul",
    "round", "rrelu", "rsub", "rtruediv", "scatter", "searchsorted", "select_scatter", "setitem", "sgn",
    "shape", "sign", "signbit", "size", "slice_scatter", "softshrink", "sort", "square", "storage_offset",
    "stride", "sub", "subtract", "take", "threshold", "tolist", "topk", "tril", "triu", "true_divide",
    "truediv", "trunc", "type", "type_as", "unfold_copy", "unique", "unique_consecutive", "view_as_complex",
    "view_as_real", "where", "zeros_like",
})  # fmt: skip
"""Functions that move or compare elements, or round one operation of two numbers once, by `function_of`."""
