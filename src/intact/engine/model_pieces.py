"""Split ONNX models in a plan file into pieces, so that the file holds equal weights once.

A plan with parts in ONNX Runtime holds a model for each of them, and the whole model where sizes are open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.codec import format_error

LEAST = 1024
"""Bytes of the smallest weight that is worth a piece."""
MOST = 16
"""Limit on bytes written as pieces, as a multiple of the file's arrays: a file is read into memory."""

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Piece:
    """Bytes ``[begin, end)`` of the file's array `array`."""

    array: str
    begin: int
    end: int


@dataclass(frozen=True, eq=False)
class Joined:
    """A model whose bytes are those of several arrays.

    Attributes:
        pieces: Where its bytes are, in order.
        own: Those that no other array has.
    """

    pieces: tuple[Piece, ...]
    own: Bytes


@dataclass(frozen=True, eq=False)
class Views:
    """The pieces of a model, as views of a mapped file."""

    pieces: tuple[Bytes, ...]

    def widen(self, shape: tuple[int, ...]) -> Bytes:
        """Join the pieces into the model's bytes: a new array, uint8 of `shape`."""
        return np.concatenate(self.pieces).reshape(shape)


def join_models(models: Mapping[str, Bytes], arrays: Mapping[str, NDArray[Any]]) -> dict[str, Joined]:
    """Split models into pieces whose weights stand in other arrays of the file.

    Args:
        models: By the name of the file's array of each: serialized ONNX models, uint8 of rank 1.
        arrays: The file's other arrays.
    Returns:
        By the same names: models of which another array, or an earlier model, has some weights.
    """
    if not models:
        return {}
    weights = _Known(models, arrays)
    joined = {
        name: split_model
        for name, data in models.items()
        if len((split_model := weights.split(name, data)).pieces) > 1
    }
    written = [array.nbytes for array in arrays.values()]
    written += [joined[name].own.nbytes if name in joined else data.nbytes for name, data in models.items()]
    return joined if sum(models[name].nbytes for name in joined) <= MOST * sum(written) else {}


class _Known:
    """Index of the file's arrays by the weights that they hold."""

    def __init__(self, models: Mapping[str, Bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
        from intact.graph import raw_weights  # plans without models are saved without ONNX

        self._weights = {name: raw_weights(data.tobytes(), LEAST) for name, data in models.items()}
        sizes = {len(weight) for weights in self._weights.values() for weight in weights}
        self._places: dict[bytes, tuple[str, int]] = {}
        for name, array in arrays.items():
            if array.nbytes in sizes:
                self._places.setdefault(_digest(np.ascontiguousarray(array).data), (name, 0))

    def split(self, name: str, data: Bytes) -> Joined:
        """Split the model `name` into pieces: its weights that stand in the file, and the bytes between
        them."""
        whole, pieces, own = data.tobytes(), list[Piece](), list[bytes]()
        at = seen = own_bytes = (
            0  # what is in pieces, where the next weight is looked for, and bytes of `own`
        )
        for weight in self._weights[name]:
            begin = whole.find(weight, seen)
            if begin < 0:
                continue  # it stands in another place than weights do: it stays between pieces
            seen = begin + len(weight)
            array, place = self._places.setdefault(_digest(weight), (name, own_bytes + begin - at))
            if (array, place) == (name, own_bytes + begin - at):
                continue
            if begin > at:
                pieces.append(Piece(name, own_bytes, own_bytes + begin - at))
                own.append(whole[at:begin])
                own_bytes += begin - at
            pieces.append(Piece(array, place, place + len(weight)))
            at = seen
        if len(whole) > at:
            pieces.append(Piece(name, own_bytes, own_bytes + len(whole) - at))
            own.append(whole[at:])
        return Joined(tuple(pieces), np.frombuffer(b"".join(own), np.uint8))


def _digest(data: Any) -> bytes:
    return blake2b(data, digest_size=16).digest()


def views_of(where: str, name: str, size: int, pieces: Sequence[Piece], arrays: Mapping[str, Bytes]) -> Views:
    """Return the pieces of a model, as listed in a file.

    Args:
        where: The file, for errors.
        name, size: The constant, and its bytes.
        pieces: Of it.
        arrays: The file's.
    Raises:
        FileFormatError: A piece lies in no array, or together they have another size.
    """
    for piece in pieces:
        most = arrays[piece.array].size if piece.array in arrays else 0
        if not 0 <= piece.begin < piece.end <= most:
            raise format_error(f"{where}: '{name}'", piece, "bytes of an array of the file")
    if not pieces or sum(piece.end - piece.begin for piece in pieces) != size:
        raise format_error(
            f"{where}: '{name}'", f"pieces of another size than {size}", f"{size} bytes in all"
        )
    return Views(tuple(arrays[piece.array][piece.begin : piece.end] for piece in pieces))
