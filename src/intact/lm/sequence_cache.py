"""Keys and values of sequences of tokens, which the engine writes in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine import Engine
from intact.errors import QuantValueError

_FIRST_ROOM = 256
Tokens = Sequence[int] | NDArray[np.integer[Any]]


class SequenceCache:
    """The tokens of some sequences, with what the layers keep of them.

    Args:
        engine: Runs the decoder (`decoder_model`).
        batch: Sequences.
        most: The longest sequence that the model takes.

    Attributes:
        lengths: Tokens of each sequence.
        room: Tokens that each sequence has memory for; it doubles when it ends.
    """

    def __init__(self, engine: Engine, batch: int = 1, *, most: int) -> None:
        self._engine, self._most = engine, most
        self.lengths = [0] * batch
        self.room = min(_FIRST_ROOM, most)
        self._ports = [port for port in engine.inputs if len(port.shape) == 4]
        self._caches = {port.name: self._empty(port.shape, self.room) for port in self._ports}

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and values."""
        return sum(cache.nbytes for cache in self._caches.values())

    def append(self, tokens: Tokens, wanted: Sequence[int] = (-1,), sequence: int = 0) -> NDArray[np.float32]:
        """Append tokens to one sequence.

        Args:
            tokens: Their numbers.
            wanted: Places in `tokens`, from 0 or -1, whose logits are wanted.
            sequence: Which one.
        Returns:
            float32 [wanted, vocabulary]: logits of the token behind each of these.
        Raises:
            QuantValueError: There are no tokens, they are too many, or one is not in the vocabulary.
        """
        ids = np.asarray(tokens, np.int64).reshape(1, -1)
        if ids.size == 0:
            raise QuantValueError("tokens", "none", "one or more", "begin with the first token of a text")
        end = self.lengths[sequence] + ids.size
        self._make_room(end)
        logits = self._run(
            ids, [end - 1], [int(place) % ids.size for place in wanted], slice(sequence, sequence + 1)
        )
        self.lengths[sequence] = end
        return logits

    def append_each(self, tokens: Tokens) -> NDArray[np.float32]:
        """Append one token to every sequence; the logits behind each, [sequences, vocabulary]."""
        ends = [length + 1 for length in self.lengths]
        self._make_room(max(ends))
        ids = np.asarray(tokens, np.int64).reshape(-1, 1)
        logits = self._run(ids, [end - 1 for end in ends], list(range(len(ends))), slice(None))
        self.lengths = ends
        return logits

    def truncate(self, length: int, sequence: int = 0) -> None:
        """Forget the tokens of a sequence behind its first `length` ones."""
        if not 0 <= length <= self.lengths[sequence]:
            raise QuantValueError("length", str(length), f"0 to {self.lengths[sequence]}", "keep no more")
        self.lengths[sequence] = length

    def _run(
        self, ids: NDArray[np.int64], last: list[int], rows: list[int], part: slice
    ) -> NDArray[np.float32]:
        caches = {name: cache[part] for name, cache in self._caches.items()}
        inputs = {
            "tokens": ids, "last": np.array(last, np.int32), "total": np.array(max(last) + 1, np.int32),
            "rows": np.array(rows, np.int64), **caches,
        }  # fmt: skip
        outputs = self._engine.run(inputs, {f"new_{name}": cache for name, cache in caches.items()})
        logits: NDArray[np.float32] = outputs["logits"]
        return logits

    def _make_room(self, length: int) -> None:
        if length > self._most:
            raise QuantValueError(
                "tokens", f"a sequence of {length}", f"at most {self._most}",
                "shorten it, or load the model with a longer context",
            )  # fmt: skip
        if length <= self.room:
            return
        while self.room < length:
            self.room = min(2 * self.room, self._most)
        length_before = max(self.lengths)
        for port in self._ports:
            longer = self._empty(port.shape, self.room)
            longer[:, :, :length_before] = self._caches[port.name][:, :, :length_before]
            self._caches[port.name] = longer

    def _empty(self, shape: Sequence[Any], room: int) -> NDArray[np.float32]:
        return np.zeros((len(self.lengths), shape[1], room, shape[3]), np.float32)
