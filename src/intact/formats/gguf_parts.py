"""GGUF models in several files, as `llama-gguf-split` writes them: read as one."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from intact.errors import FileFormatError
from intact.formats.gguf_fields import GgufField
from intact.formats.gguf_file import Bytes, GgufFile, GgufTensor, Tensor
from intact.formats.regrid import take_rows
from intact.numerics import BlockWeights

NUMBER, COUNT, TENSORS = "split.no", "split.count", "split.tensors.count"
SPLIT_KEYS = (NUMBER, COUNT, TENSORS)
_NAME = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)
_MOST_PARTS = 1024
_SPLIT_AGAIN = "give the parts the names that llama-gguf-split gave them, or split the model again"


def open_gguf(path: str | os.PathLike[str]) -> GgufFile | GgufParts:
    """Open a GGUF file, with the other parts of its model where it is the first of several.

    Raises:
        FileFormatError: A part is missing, damaged, or belongs to another model.
        FileAccessError: A file cannot be read.
    """
    first = GgufFile(path)
    count, name = _integer(first, COUNT, 1), _NAME.fullmatch(Path(path).name)
    if count > 1:
        return GgufParts([first, *_other_parts(first, Path(path), count)])
    if name is not None and int(name["count"]) > 1:
        raise FileFormatError(
            first.where, f"a name of part {int(name['number'])} of {int(name['count'])}, but no {COUNT}",
            "one number of parts in both", _SPLIT_AGAIN,
        )  # fmt: skip
    return first


def first_parts(folder: Path) -> list[Path]:
    """Return the GGUF files of a folder, of models in several files the first part alone."""
    files = sorted(folder.glob("*.gguf"))
    names = [(file, _NAME.fullmatch(file.name)) for file in files]
    stems = {(match["stem"], match["count"]) for _, match in names if match and int(match["number"]) == 1}
    return [
        file for file, match in names
        if match is None or int(match["number"]) == 1 or (match["stem"], match["count"]) not in stems
    ]  # fmt: skip


class GgufParts:
    """Reads the files of one model as `GgufFile` reads one.

    Args:
        parts: All files in their order.

    Attributes:
        where, version: Of the first.
        metadata: Every key of the first, which holds all.
        tensors: Those of all files.

    Raises:
        FileFormatError: A part belongs to another model, or a tensor is in two.
    """

    def __init__(self, parts: Sequence[GgufFile]) -> None:
        self.where, self.version, self.metadata = parts[0].where, parts[0].version, parts[0].metadata
        self._owners: dict[str, GgufFile] = {}
        self.tensors: dict[str, GgufTensor] = {}
        for number, part in enumerate(parts):
            self._check_keys(part, number, len(parts))
            for name, tensor in part.tensors.items():
                if name in self._owners:
                    raise FileFormatError(
                        part.where, f"the tensor '{name:.80}', which {self._owners[name].where} has, too",
                        "each tensor in one part", "take all parts from one model",
                    )  # fmt: skip
                self._owners[name], self.tensors[name] = part, tensor
        count = _integer(parts[0], TENSORS, len(self.tensors))
        if count != len(self.tensors):
            raise FileFormatError(
                self.where, f"{TENSORS} = {count}, but {len(self.tensors)} tensors in {len(parts)} files",
                "all tensors", "take all parts from one model",
            )  # fmt: skip

    def raw(self, name: str) -> Bytes:
        """Return the bytes of a tensor, as `GgufFile.raw`."""
        return self._owners.get(name, next(iter(self._owners.values()))).raw(name)

    def read(self, name: str) -> Tensor:
        """Return a tensor, as `GgufFile.read`."""
        return self._owners.get(name, next(iter(self._owners.values()))).read(name)

    def _check_keys(self, part: GgufFile, number: int, count: int) -> None:
        """Refuse a part that says something else of the model than the first."""
        wanted = {NUMBER: number, COUNT: count, TENSORS: _integer(part, TENSORS, len(part.tensors))}
        if TENSORS in self.metadata and TENSORS in part.metadata:
            wanted[TENSORS] = _integer_of(self.metadata[TENSORS], -1)
        for key, value in wanted.items():
            if _integer(part, key, -1) != value and (key != TENSORS or key in part.metadata):
                raise FileFormatError(
                    part.where, f"{key} = {_value(part, key)}, but part {number + 1} of {count} has {value}",
                    "parts of one model", _SPLIT_AGAIN,
                )  # fmt: skip
        for key, field in part.metadata.items():
            if key in SPLIT_KEYS or field == self.metadata.get(key):
                continue
            first = "no such key" if key not in self.metadata else f"{self.metadata[key].value!r:.60}"
            raise FileFormatError(
                part.where, f"{key} = {field.value!r:.60}, but {self.where} has {first}",
                "parts of one model", "take all parts from one model",
            )  # fmt: skip


def _other_parts(first: GgufFile, path: Path, count: int) -> list[GgufFile]:
    """Open the parts behind the first, which lie beside it.

    Raises:
        FileFormatError: The name does not say where they are, or one is missing.
    """
    number, match = _integer(first, NUMBER, -1), _NAME.fullmatch(path.name)
    if match is None or (int(match["number"]), int(match["count"])) != (number + 1, count):
        want = f"-{number + 1:05}-of-{count:05}.gguf at the end of its name"
        raise FileFormatError(
            first.where, f"{NUMBER} = {number} and {COUNT} = {count}, but the name '{path.name:.120}'",
            want, _SPLIT_AGAIN,
        )  # fmt: skip
    if count > _MOST_PARTS:
        raise FileFormatError(first.where, f"{COUNT} = {count}", f"at most {_MOST_PARTS}", _SPLIT_AGAIN)
    names = [f"{match['stem']}-{part:05}-of-{count:05}.gguf" for part in range(1, count + 1)]
    if number != 0:
        raise FileFormatError(
            first.where, f"part {number + 1} of {count}", "the first part", f"give '{names[0]}'"
        )
    missing = [name for name in names if not (path.parent / name).is_file()]
    if missing:
        raise FileFormatError(
            first.where, f"no '{missing[0]}'" + (f" and {len(missing) - 1} more" if missing[1:] else ""),
            f"all {count} parts of the model", "put the missing files beside it",
        )  # fmt: skip
    return [GgufFile(path.parent / name) for name in names[1:]]


def _integer(file: GgufFile, key: str, default: int) -> int:
    field = file.metadata.get(key)
    return default if field is None else _integer_of(field, -1)


def _integer_of(field: GgufField, otherwise: int) -> int:
    value = field.value
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _value(file: GgufFile, key: str) -> str:
    return f"{file.metadata[key].value!r:.40}" if key in file.metadata else "nothing"


INTERLEAVED = ("llama", "mistral", "smollm3", "granite")
"""Architectures whose pairs of a rotation are neighbours in GGUF files, and halves of a head elsewhere."""

_HEADS = {"attn_q": "head_count", "attn_k": "head_count_kv"}


def with_halves(file: GgufFile | GgufParts, name: str, tensor: Tensor) -> Tensor:
    """Return a tensor with the rows of each head in the order of Hugging Face: the halves of all pairs apart.

    Tensors other than queries and keys, and those of other architectures, are returned as they are.

    Source: llama.cpp's convert_hf_to_gguf.py, `permute`.

    Args:
        file: Whose architecture counts.
        name: Of the tensor.
        tensor: Shape [rows, ...], numbers or block weights.
    """
    fields = {key: field.value for key, field in file.metadata.items()}
    family, part = fields.get("general.architecture"), name.rsplit(".", 2)
    key = _HEADS.get(part[-2]) if len(part) == 3 and part[0].startswith("blk.") else None
    if family not in INTERLEAVED or key is None:
        return tensor
    count = fields.get(f"{family}.attention.{key}", fields.get(f"{family}.attention.head_count"))
    if isinstance(count, list):  # one for each layer
        layer = part[0].removeprefix("blk.")
        count = count[int(layer)] if layer.isdecimal() and int(layer) < len(count) else None
    rows = tensor.shape[0] if len(tensor.shape) else 0
    if not isinstance(count, int) or count < 1 or rows % (2 * count):
        return tensor
    order = np.arange(rows).reshape(count, rows // (2 * count), 2).swapaxes(1, 2).reshape(-1)
    return take_rows(tensor, order) if isinstance(tensor, BlockWeights) else tensor[order]
