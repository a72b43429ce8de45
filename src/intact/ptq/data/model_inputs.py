"""Describes the inputs of a model, and checks arrays against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.graph import Model
from intact.limits import BATCH_BYTES
from intact.numerics import REAL_DTYPES
from intact.string_arrays import as_strings, without_bfloat16

Feeds = dict[str, NDArray]
"""The arrays of one run, by input name."""


@dataclass(frozen=True)
class Input:
    """Describes one input of a model.

    Attributes:
        name: Its name.
        dtype: Of its elements; object of strings.
        shape: One entry per dimension: its size, or its name or None where it is open; None where even the
            rank is.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str | None, ...] | None


def inputs_of(model: Model) -> list[Input]:
    """Return the inputs that a caller must feed, in order: not those with a default in the file.

    Raises:
        QuantValueError: One is no tensor, or there is none.
    """
    inputs = []
    for value in model.graph.inputs:
        if value.name in model.graph.initializers:
            continue
        if value.dtype is None:
            raise QuantValueError(
                f"input '{value.name}'", "no tensor (a sequence, map or optional)", "tensors",
                "calibrate a model whose inputs are tensors",
            )  # fmt: skip
        shape = None
        if value.shape is not None:
            shape = tuple(n if isinstance(n, int) else n.value for n in value.shape)
        inputs.append(Input(value.name or "", np.dtype(value.dtype.numpy()), shape))
    if not inputs:
        raise QuantValueError("model", "no input", "at least one", "there is nothing to calibrate with data")
    return inputs


def feeds_of(item: Any, inputs: Sequence[Input], where: str) -> Feeds:
    """Return `item`, one batch as a user gives it, as checked arrays by input name.

    Args:
        item: An array (or anything that NumPy makes one of, a torch tensor too); a tuple or list that begins
            with the inputs; or a dict by input name. What a batch holds beyond the inputs, labels for
            example, is left alone.
        inputs: The model's.
        where: The batch, in words, for errors.
    Raises:
        QuantValueError: An input is missing, or an array does not fit it; names batch and input.
    """
    if isinstance(item, Mapping):
        named: Mapping[str, Any] = item
    elif isinstance(item, (tuple, list)):
        named = dict(zip((model_input.name for model_input in inputs), item, strict=False))
    else:
        named = {inputs[0].name: item}
    if missing := [model_input.name for model_input in inputs if model_input.name not in named]:
        raise QuantValueError(
            f"{where}: input '{missing[0]}'",
            f"no array for it among {sorted(map(str, named))}",
            f"an array for each of {[model_input.name for model_input in inputs]}",
            "give dicts by input name, or tuples in the order of the inputs",
        )
    feeds = {
        model_input.name: _check_array(
            named[model_input.name], model_input, f"{where}: input '{model_input.name}'"
        )
        for model_input in inputs
    }
    _require_elements(feeds, where)
    return feeds


def _require_elements(feeds: Feeds, where: str) -> None:
    """Refuse batches without elements; single inputs may be empty, such as the keys of an empty past."""
    alone = all(array.size == 0 for array in feeds.values())
    for name, array in feeds.items():
        if array.size == 0 and (alone or array.shape[0] == 0):
            raise QuantValueError(
                f"{where}: input '{name}'", f"shape {array.shape}", "at least one element",
                "leave empty batches out",
            )  # fmt: skip


def as_array(value: Any, where: str) -> NDArray:
    """Return `value` as an array, whatever NumPy makes one of, a torch tensor too.

    Raises:
        QuantValueError: It makes none of it; names `where`.
    """
    try:
        return np.asarray(without_bfloat16(value.detach().cpu()) if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError) as error:  # lists of unlike lengths, tensors without values
        raise QuantValueError(
            where, f"a {type(value).__name__} ('{error}')", "an array", "give what NumPy makes an array of"
        ) from error


def _check_array(value: Any, model_input: Input, where: str) -> NDArray:
    array = as_array(value, where)
    if model_input.dtype.kind == "O":
        array = as_strings(array, where)
    BATCH_BYTES.check(array.nbytes, where, QuantValueError)
    if array.dtype != model_input.dtype and not _can_convert(array, model_input.dtype):
        raise QuantValueError(
            where,
            f"dtype {array.dtype}",
            f"{model_input.dtype}",
            "convert the data, and normalize it as the model was trained with"
            if model_input.dtype.kind == "f"
            else "convert the data",
        )
    if model_input.shape is not None:
        fits = array.ndim == len(model_input.shape) and all(
            not isinstance(want, int) or n == want
            for n, want in zip(array.shape[1:], model_input.shape[1:], strict=True)
        )
        if not fits:
            raise QuantValueError(
                where,
                f"shape {array.shape}",
                f"{_format_shape(model_input.shape)}",
                "add the batch axis"
                if array.ndim == len(model_input.shape) - 1
                else "bring the data to that shape",
            )
    return np.ascontiguousarray(array, model_input.dtype).reshape(array.shape)  # which makes one axis of none


def _can_convert(array: NDArray, dtype: np.dtype[Any]) -> bool:
    """Return whether `array` converts to `dtype` without loss of meaning: real to real, integers in range,
    masks.
    """
    if array.dtype.kind == "b":
        return dtype.kind in "iu" or dtype.name in REAL_DTYPES
    if dtype.kind == "b":
        return array.dtype.kind in "iu" and bool(((array == 0) | (array == 1)).all())
    if array.dtype.name in REAL_DTYPES and dtype.name in REAL_DTYPES:
        return True
    if array.dtype.kind not in "iu" or dtype.kind not in "iu":
        return False
    ends = np.iinfo(dtype)
    return not array.size or (int(array.min()) >= ends.min and int(array.max()) <= ends.max)


def _format_shape(shape: tuple[int | str | None, ...]) -> str:
    return "[" + ", ".join("?" if n is None else str(n) for n in shape) + "]"
