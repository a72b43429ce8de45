"""Choose ranges of a model's quantizers from statistics: by one method, a method per name, or "auto"."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch
from torch import Tensor

from intact.calib import METHODS, Ends, Histogram, Range, ZeroRangeWarning, range_of
from intact.errors import IntactError, QuantValueError
from intact.numerics import ZERO_RANGE
from intact.patterns import exact, nearest
from intact.spec import QuantSpec
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer

Stats = Histogram | Range
Method = str | Mapping[str, str]
_CHANNELS = 256  # a histogram is 64 KiB per channel: this many weights' histograms exist at a time


def method_by_name(method: Method, names: Iterable[str]) -> dict[str, str]:
    """Return the method for each name.

    Args:
        method: One for all, or by name pattern: ``*`` and ``?`` as in file names; a pattern that fits a
            module covers the quantizers inside it; the first that fits decides; "auto" for the rest.
        names: The quantizers' paths.
    Raises:
        QuantValueError: There is no such method, or a pattern fits no name.
    """
    names = list(names)
    untyped: object = method  # of callers without a type checker, too
    if not isinstance(untyped, str | Mapping):
        require_method(repr(untyped), "auto")
    patterns = {"*": method} if isinstance(method, str) else dict(method)
    module_paths = {place for name in names for place in _around(name)}
    exact_patterns = {pattern: exact(pattern, module_paths) for pattern in patterns}
    for pattern, pattern_method in patterns.items():
        require_method(pattern_method, "auto")
        if not any(_fits(name, exact_patterns[pattern]) for name in names):
            raise QuantValueError(
                "method",
                f"pattern {pattern!r}, which fits no quantizer of data",
                f"patterns that fit names such as {nearest(pattern, names)}",
                "correct the pattern; weights have the argument weight_method",
            )
    return {n: next((m for p, m in patterns.items() if _fits(n, exact_patterns[p])), "auto") for n in names}


def require_method(method: str, *further: str) -> None:
    """Raise for an unknown method.

    Raises:
        QuantValueError: `method` is neither one of `METHODS` nor among `further`.
    """
    allowed = (*METHODS, *further)
    if method not in allowed:
        raise QuantValueError("method", repr(method), f"one of {allowed}", "choose one of these")


def keepdims(tensor: Tensor, spec: QuantSpec) -> tuple[int, ...]:
    """Return the shape of the range of `tensor`: its kept axes, the others of size 1; () per-tensor."""
    kept_axes = {a % tensor.dim() for a in spec.axes}
    return tuple(n if a in kept_axes else 1 for a, n in enumerate(tensor.shape)) if kept_axes else ()


def _fits(name: str, pattern: str) -> bool:
    return any(fnmatchcase(place, pattern) for place in _around(name))


def _around(name: str) -> list[str]:
    """Return a path, and those of the modules around it."""
    parts = name.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def weight_range(name: str, weight: Tensor, spec: QuantSpec, method: str, options: dict[str, Any]) -> Ends:
    """Return the range of a weight by `method`, in the granule shape; several axes always have "max"."""
    try:
        if method == "max" or not isinstance(spec.axis, int):
            return _range_of_part(weight, spec, method, **options)
        pieces = torch.split(weight, _CHANNELS, spec.axis)
        parts = [_range_of_part(piece, spec, method, **options) for piece in pieces]
    except IntactError as error:
        raise error.at(f"quantizer '{name}'") from None
    lows, highs = zip(*parts, strict=True)
    return np.concatenate(lows), np.concatenate(highs)


def _range_of_part(part: Tensor, spec: QuantSpec, method: str, **options: Any) -> Ends:
    simple = method == "max" or isinstance(spec.axis, tuple)
    axis: Any = spec.axis
    stats: Stats = Range(axis) if simple else Histogram(axis)
    # float32 is what the kernels compute in; a NumPy view of bfloat16 would need ml_dtypes here.
    stats.collect(part.detach().to("cpu", torch.float32).numpy(), threads=torch.get_num_threads())
    return range_of(stats, spec, "max" if simple else method, **options)


def set_range(quantizer: TensorQuantizer, ends: Ends, shape: tuple[int, ...] | None) -> None:
    """Set the range of `quantizer`, in the shape of its present range, or else in `shape`, or as it comes."""
    low, high = (torch.tensor(end, dtype=torch.float32) for end in ends)
    before = getattr(quantizer, "_amax", None)
    if before is not None and before.numel() == high.numel():
        shape = tuple(before.shape)
    if shape is not None:
        low, high = low.reshape(shape), high.reshape(shape)
    if quantizer.symmetric:
        quantizer.amax = high
    else:
        quantizer.set_range(low, high)
    if quantizer._learn_amax is True:
        quantizer.init_learn_amax()


def warn_if_zero(name: str, quantizer: TensorQuantizer) -> None:
    """Warn where a range is zero, so that the scale is 1."""
    peak = quantizer._amax if quantizer.symmetric else torch.maximum(-quantizer._amin, quantizer._amax)
    idle = int((peak <= float(ZERO_RANGE)).sum())
    if idle:
        size = peak.numel()
        what = "its tensor is" if size == 1 else f"{idle} of {size} channels of its tensor are"
        warnings.warn(
            f"quantizer '{name}': {what} zero throughout; the scale there is 1", ZeroRangeWarning, 4
        )
