"""Opens calibration data as a stream of checked batches; nothing is kept in memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import CalibrationError, FileFormatError, QuantValueError, require_path
from intact.ptq.data import user_scripts
from intact.ptq.data.images import Images
from intact.ptq.data.model_inputs import Feeds, Input, as_array, feeds_of
from intact.ptq.data.npy_files import Npz, read_npy
from intact.spec import is_whole
from intact.terminal import printable

BATCH_SIZE = 8
"""Samples per batch where the data have none of their own: images, and arrays of samples."""


@dataclass(frozen=True)
class Source:
    """Holds a stream of batches for a model, with its length and origin.

    Attributes:
        batches: Checked feeds, one dict per batch; read once.
        total: How many, where that is known.
        name: The data in words, for provenance and errors.
        prepared: How images are prepared, in words; "" for other data.
    """

    batches: Iterator[Feeds]
    total: int | None
    name: str
    prepared: str = ""


def open_data(
    data: Any, inputs: Sequence[Input], *, batch_size: int | None = None, num_batches: int | None = None
) -> Source:
    """Open `data` as batches for a model with `inputs`.

    Args:
        data: One of

            - the path of a folder of images, or `Images`, which also says how they are prepared;
            - the path of an .npy file (samples along the first axis, for a model with one input) or an .npz
              file (one array per input, by its name, or as ``numpy.savez(file, first, second)`` calls them);
            - the path of a .py file with a function ``load_data()`` that returns any of the other kinds. The
              file is EXECUTED: it is the user's own code, never one from elsewhere;
            - an array of samples, or several for several inputs: a dict by input name, or a tuple in their
              order; lists of samples that differ in size are one batch each;
            - an iterable of batches: arrays, tuples or lists that begin with the inputs, or dicts by name.
              Their sizes may differ where the model leaves them open.
        inputs: The model's.
        batch_size: Samples per batch, for images and arrays; None: 8.
        num_batches: Use at most this many.
    Raises:
        QuantValueError: `data` is of no such kind, or does not fit the model; names file and input.
        CalibrationError: A file or folder holds nothing.
        FileFormatError: A file is damaged; names it.
    """
    size = BATCH_SIZE if batch_size is None else batch_size
    for name, number in (("batch_size", size), ("num_batches", 1 if num_batches is None else num_batches)):
        if not is_whole(number) or number < 1:
            raise QuantValueError(
                name,
                f"{number!r:.60}",
                "at least 1",
                "leave it out, or give a positive number",
            )
    source = _open_source(data, inputs, size)
    if num_batches is not None:
        total = num_batches if source.total is None else min(num_batches, source.total)
        source = replace(source, batches=islice(source.batches, min(num_batches, sys.maxsize)), total=total)
    return replace(source, batches=_not_empty(source), name=printable(source.name))


def _open_source(data: Any, inputs: Sequence[Input], size: int) -> Source:
    if isinstance(data, Images):
        count, name = len(data.paths()), f"images in {Path(data.folder).name}"
        return Source(data.batches(inputs, size), -(-count // size), name, data.described(inputs))
    if isinstance(data, (str, os.PathLike)):
        return _from_path(Path(data), inputs, size)
    if _is_array(data, inputs):
        return _samples({inputs[0].name: data}, inputs, size, "data")
    if isinstance(data, Mapping):
        return _samples(data, inputs, size, "data")
    if _is_by_position(data, inputs):
        return _samples(
            dict(zip((model_input.name for model_input in inputs), data, strict=True)), inputs, size, "data"
        )
    if not isinstance(data, Iterable):
        raise QuantValueError(
            "data",
            f"a {type(data).__name__}",
            "a folder of images, an .npy, .npz or .py file, an array, or an iterable of batches",
            "give one of these",
        )
    return _batches(data, inputs, len(data) if isinstance(data, Sized) else None, type(data).__name__)


def _is_by_position(data: Any, inputs: Sequence[Input]) -> bool:
    """Return whether `data` are one array for each of several inputs: as batches they would hold one input
    each.
    """
    alike = isinstance(data, (tuple, list)) and len(data) == len(inputs) > 1
    return alike and all(hasattr(item, "shape") for item in data)


def _from_path(path: Path, inputs: Sequence[Input], size: int) -> Source:
    require_path(path)
    if path.is_dir():
        return _open_source(Images(path), inputs, size)
    if not path.is_file():
        got = "neither file nor folder" if path.exists() else "nothing there"
        raise FileFormatError(f"data '{path}'", got, "a file or a folder", "check the path")
    if path.suffix == ".py":
        return _from_script(path, inputs, size)
    if path.suffix == ".npy":
        return _samples({inputs[0].name: read_npy(path)}, inputs, size, f"file '{path}'", path.name)
    if path.suffix == ".npz":
        return _samples(_read_npz(path, inputs), inputs, size, f"file '{path}'", path.name)
    raise QuantValueError(
        f"data '{path}'",
        f"a file that ends in '{path.suffix}'",
        "a folder of images, or an .npy, .npz or .py file",
        "convert the data, or give a .py file whose load_data() returns batches",
    )


def _from_script(path: Path, inputs: Sequence[Input], size: int) -> Source:
    where = f"load_data() of '{path}'"
    data = user_scripts.call(path, "load_data", "the data")
    if isinstance(data, (str, os.PathLike)) and Path(data).suffix == ".py":
        raise QuantValueError(where, f"'{data}'", "the data, or where they are", "return them")
    whole = isinstance(data, (Images, str, os.PathLike, Mapping)) or _is_array(data, inputs)
    whole = whole or _is_by_position(data, inputs)
    if not whole and isinstance(data, Iterable):
        total = len(data) if isinstance(data, Sized) else None
        return _batches(
            user_scripts.iterate_user_code(data, where, path), inputs, total, path.name, f"{where}: "
        )
    try:
        return _open_source(data, inputs, size)
    except QuantValueError as error:
        raise error.at(where) from error


def _batches(
    data: Iterable[Any], inputs: Sequence[Input], total: int | None, name: str, where: str = ""
) -> Source:
    batches = (feeds_of(item, inputs, f"{where}batch {number} of data") for number, item in enumerate(data))
    return Source(batches, total, name)


def _read_npz(path: Path, inputs: Sequence[Input]) -> dict[str, NDArray]:
    """Return the arrays of the file by input name; a lone one belongs to a lone input, whatever its name."""
    with Npz(path) as packed:
        unnamed = [f"arr_{place}" for place in range(len(inputs))]  # as numpy.savez calls them
        if len(packed.names) == len(inputs) == 1 or sorted(packed.names) == sorted(unnamed):
            names = packed.names if len(inputs) == 1 else unnamed
            return {model_input.name: packed[name] for model_input, name in zip(inputs, names, strict=True)}
        _require_all(packed.names, inputs, f"file '{path}'")
        return {model_input.name: packed[model_input.name] for model_input in inputs}


def _require_all(names: Iterable[Any], inputs: Sequence[Input], where: str) -> None:
    available = list(names)
    if missing := [model_input.name for model_input in inputs if model_input.name not in available]:
        raise QuantValueError(
            f"{where}: input '{missing[0]}'",
            f"no array for it among {sorted(map(str, available))}",
            f"an array for each of {[model_input.name for model_input in inputs]}",
            "name the arrays as the model's inputs are named",
        )


def _is_array(data: Any, inputs: Sequence[Input]) -> bool:
    """Return whether `data` is one array of samples: of NumPy, or of a framework whose arrays NumPy reads."""
    if isinstance(data, np.ndarray):
        return True
    shape = inputs[0].shape
    like = all(hasattr(data, name) for name in ("__array__", "shape", "dtype"))
    return like and (shape is None or len(data.shape) == len(shape))


def _samples(
    arrays: Mapping[str, Any], inputs: Sequence[Input], size: int, where: str, name: str = ""
) -> Source:
    """Return batches of arrays whose first axis counts samples; an input may say how many a batch has."""
    _require_all(arrays, inputs, where)
    if (single := _samples_of_unequal_size(arrays, inputs, where)) is not None:
        return _batches(single, inputs, len(single), name or "samples")
    chosen = {
        model_input.name: as_array(arrays[model_input.name], f"{where}: input '{model_input.name}'")
        for model_input in inputs
    }
    common = {
        i.name: chosen.pop(i.name).reshape((1,) * len(i.shape or ()))
        for i in inputs
        if _is_common(i, chosen[i.name])
    }
    counts = {n: a.shape[0] if a.ndim else 0 for n, a in chosen.items()}
    if len(set(counts.values())) > 1:
        raise QuantValueError(
            where,
            f"{counts} samples",
            "as many for every input",
            "let the first axis of every array count samples",
        )
    count = next(iter(counts.values()), 1)
    scalars = {i.name for i in inputs if i.shape == () and i.name in chosen}  # a number for each sample
    fixed = [i.shape[0] for i in inputs if i.shape and isinstance(i.shape[0], int) and i.name in chosen]
    size = 1 if scalars else max(min(size, *fixed), 1) if fixed else size
    batches = (
        feeds_of(
            {n: a[start] if n in scalars else a[start : start + size] for n, a in chosen.items()} | common,
            inputs, where,
        )
        for start in range(0, count, size)
    )  # fmt: skip
    return Source(batches, -(-count // size), name or "arrays")


def _is_common(model_input: Input, array: NDArray) -> bool:
    """Return whether an array is one number, for all batches of an input that takes one number."""
    takes_one = model_input.shape == () or (array.ndim == 0 and model_input.shape == (1,))
    return array.size == 1 and takes_one


def _samples_of_unequal_size(
    arrays: Mapping[str, Any], inputs: Sequence[Input], where: str
) -> list[Feeds] | None:
    """Return one batch per sample, for lists of samples that differ in size; None for anything else."""
    lists = [arrays[model_input.name] for model_input in inputs]
    if not all(isinstance(samples, (tuple, list)) and samples for samples in lists):
        return None
    if len({len(samples) for samples in lists}) != 1:
        return None
    columns = [[as_array(item, f"{where}: input '{model_input.name}'") for item in samples]
               for model_input, samples in zip(inputs, lists, strict=True)]  # fmt: skip
    if all(len({item.shape for item in column}) == 1 for column in columns):
        return None
    lone = [model_input.shape is not None and column[0].ndim == len(model_input.shape) - 1
            for model_input, column in zip(inputs, columns, strict=True)]  # fmt: skip
    return [
        {
            model_input.name: item[None] if alone else item
            for model_input, item, alone in zip(inputs, row, lone, strict=True)
        }
        for row in zip(*columns, strict=True)
    ]


def _not_empty(source: Source) -> Iterator[Feeds]:
    empty = True
    for feeds in source.batches:
        empty = False
        yield feeds
    if empty:
        raise CalibrationError(
            f"data ({source.name})",
            "no batch",
            "at least one",
            "check that the data are read, and not used up",
        )
