"""What a model wants to be fed, and whether an array is that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.dlpack import without_bfloat16
from intact.errors import QuantValueError
from intact.graph import Model
from intact.limits import BATCH_BYTES
from intact.numerics import REAL_DTYPES
from intact.string_arrays import as_strings

Feeds = dict[str, NDArray]
"""The arrays of one run, by input name."""


@dataclass(frozen=True)
class Input:
    """One input of a model.

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
    """The inputs that a caller must feed, in order: not those with a default in the file.

    Raises:
        QuantValueError: One is no tensor, or there is none.
    """
    found = []
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
        found.append(Input(value.name or "", np.dtype(value.dtype.numpy()), shape))
    if not found:
        raise QuantValueError("model", "no input", "at least one", "there is nothing to calibrate with data")
    return found


def feeds_of(item: Any, inputs: Sequence[Input], where: str) -> Feeds:
    """`item`, one batch as a user gives it, as checked arrays by input name.

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
        named = dict(zip((one.name for one in inputs), item, strict=False))
    else:
        named = {inputs[0].name: item}
    if missing := [one.name for one in inputs if one.name not in named]:
        raise QuantValueError(
            f"{where}: input '{missing[0]}'",
            f"no array for it among {sorted(map(str, named))}",
            f"an array for each of {[one.name for one in inputs]}",
            "give dicts by input name, or tuples in the order of the inputs",
        )
    found = {one.name: _fitted(named[one.name], one, f"{where}: input '{one.name}'") for one in inputs}
    _require_elements(found, where)
    return found


def _require_elements(feeds: Feeds, where: str) -> None:
    """An input may be empty beside others, as the keys of a past that has not begun; a batch may not."""
    alone = all(array.size == 0 for array in feeds.values())
    for name, array in feeds.items():
        if array.size == 0 and (alone or array.shape[0] == 0):
            raise QuantValueError(
                f"{where}: input '{name}'", f"shape {array.shape}", "at least one element",
                "leave empty batches out",
            )  # fmt: skip


def as_array(value: Any, where: str) -> NDArray:
    """`value` as an array, whatever NumPy makes one of, a torch tensor too.

    Raises:
        QuantValueError: It makes none of it; names `where`.
    """
    try:
        return np.asarray(without_bfloat16(value.detach().cpu()) if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError) as error:  # lists of unlike lengths, tensors without values
        raise QuantValueError(
            where, f"a {type(value).__name__} ('{error}')", "an array", "give what NumPy makes an array of"
        ) from error


def _fitted(value: Any, one: Input, where: str) -> NDArray:
    array = as_array(value, where)
    if one.dtype.kind == "O":
        array = as_strings(array, where)
    BATCH_BYTES.check(array.nbytes, where, QuantValueError)
    if array.dtype != one.dtype and not _converts(array, one.dtype):
        raise QuantValueError(
            where,
            f"dtype {array.dtype}",
            f"{one.dtype}",
            "convert the data, and normalize it as the model was trained with" if one.dtype.kind == "f"
            else "convert the data",
        )  # fmt: skip
    if one.shape is not None:
        fits = array.ndim == len(one.shape) and all(
            not isinstance(want, int) or n == want
            for n, want in zip(array.shape[1:], one.shape[1:], strict=True)
        )
        if not fits:
            raise QuantValueError(
                where,
                f"shape {array.shape}",
                f"{_shown(one.shape)}",
                "add the batch axis" if array.ndim == len(one.shape) - 1 else "bring the data to that shape",
            )
    return np.ascontiguousarray(array, one.dtype).reshape(array.shape)  # which makes one axis of none


def _converts(array: NDArray, wanted: np.dtype[Any]) -> bool:
    """Reals to reals, integers to integers that hold them, masks to 0 and 1: what needs no decision."""
    if array.dtype.kind == "b":
        return wanted.kind in "iu" or wanted.name in REAL_DTYPES
    if wanted.kind == "b":
        return array.dtype.kind in "iu" and bool(((array == 0) | (array == 1)).all())
    if array.dtype.name in REAL_DTYPES and wanted.name in REAL_DTYPES:
        return True
    if array.dtype.kind not in "iu" or wanted.kind not in "iu":
        return False
    ends = np.iinfo(wanted)
    return not array.size or (int(array.min()) >= ends.min and int(array.max()) <= ends.max)


def _shown(shape: tuple[int | str | None, ...]) -> str:
    return "[" + ", ".join("?" if n is None else str(n) for n in shape) + "]"
