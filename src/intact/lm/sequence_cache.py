"""Keys and values of sequences of tokens, which the engine writes in place."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine import Engine
from intact.errors import QuantValueError

STATE_ROWS = "state_rows"
"""Input of a decoder: tokens whose hidden states are wanted."""
LONGEST = 8192
"""Positions by default, at most: tables of angles are as long."""
_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0
"""MAP_NORESERVE, which Python names from 3.13 on: addresses are not counted as memory."""
_FIRST_ROOM = 256
_REPEATED = 128
"""Tokens that run together where states are made again."""
Tokens = Sequence[int] | NDArray[np.integer[Any]]


class SequenceCache:
    """The tokens of some sequences, with what the layers keep of them.

    Addresses are reserved for the longest sequences at once, and the system gives memory for what is written:
    a cache grows in place, dense, so that pages can be huge.

    States of fixed size hold all tokens at once. Before several tokens come, those of the sequence are
    copied: forgetting some of these goes back to the copy. Where that is too late, tokens run again from the
    first on.

    Args:
        engine: Runs the decoder (`decoder_model`).
        batch: Sequences.
        most: The longest sequence that the model takes.

    Attributes:
        tokens: Those of each sequence.
        room: Tokens that each sequence has memory for; it grows by a quarter when it ends.
        token_bytes: What the layers keep of a token.
        state_bytes: What they keep of a sequence, however long.
    """

    def __init__(self, engine: Engine, batch: int = 1, *, most: int) -> None:
        self._engine, self._most = engine, most
        self.tokens: list[list[int]] = [[] for _ in range(batch)]
        caches = [port for port in engine.inputs if len(port.shape) == 4]
        self._ports = [port for port in caches if not isinstance(port.shape[2], int)]
        self._free_inputs = {port.name for port in engine.inputs} - {port.name for port in caches}
        dtype = next(iter({port.dtype for port in self._ports}), "float32")
        elements = sum(int(port.shape[1]) * int(port.shape[3]) for port in self._ports)
        self.token_bytes = np.dtype(dtype).itemsize * elements
        self._states = {
            port.name: np.zeros((batch, *map(int, port.shape[1:])), port.dtype)
            for port in caches if port not in self._ports
        }  # fmt: skip
        self.state_bytes = sum(array[0].nbytes for array in self._states.values()) if batch else 0
        self._marks: dict[
            int, tuple[int, dict[str, NDArray[Any]]]
        ] = {}  # copies of states, and their lengths
        self._memory = _reserve(self.token_bytes * batch * most).view(dtype)
        self.room = min(_FIRST_ROOM, most)
        self._caches = self._lay_out()

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and values, with those of the room behind them, and of states."""
        return len(self.tokens) * (self.room * self.token_bytes + self.state_bytes)

    @property
    def lengths(self) -> list[int]:
        """Tokens of each sequence, counted."""
        return [len(tokens) for tokens in self.tokens]

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
        return self._append(tokens, sequence, wanted, ())["logits"]

    def append_states(self, tokens: Tokens, sequence: int = 0) -> NDArray[np.float32]:
        """Append tokens to one sequence; return the hidden states behind each, float32 [tokens, hidden].

        Args:
            tokens: One or more.
            sequence: Index of the sequence.
        Raises:
            QuantValueError: As `append`, or the model was saved before models had states.
        """
        if STATE_ROWS not in self._free_inputs:
            raise QuantValueError("model", "no hidden states", "some", "quantize the model again")
        return self._append(tokens, sequence, (), range(len(tokens)))["states"]

    def append_each(self, tokens: Tokens) -> NDArray[np.float32]:
        """Append one token to each of the first sequences, at whatever lengths they are.

        Args:
            tokens: One for each of them; further sequences wait.
        Returns:
            float32 [tokens, vocabulary]: logits behind each.
        Raises:
            QuantValueError: As `append`, or there are more tokens than sequences.
        """
        ids = np.asarray(tokens, np.int64).reshape(-1, 1)
        if not 1 <= len(ids) <= len(self.tokens):
            raise QuantValueError(
                "tokens", str(len(ids)), f"1 to {len(self.tokens)}", "give one for each sequence"
            )
        last = self.lengths[: len(ids)]
        self._make_room(max(last) + 1)
        outputs = self._run(ids, last, range(len(ids)), (), slice(0, len(ids)))
        for stored, token in zip(self.tokens, ids[:, 0].tolist(), strict=False):
            stored.append(token)
        return outputs["logits"]

    def copy(self, source: int, target: int, length: int | None = None) -> None:
        """Replace a sequence by the first tokens of another one.

        Args:
            source: The sequence that is read.
            target: The sequence that is replaced.
            length: Tokens that are copied; None: all.
        Raises:
            QuantValueError: The source is shorter than `length`.
        """
        most = len(self.tokens[source])
        count = most if length is None else length
        if not 0 <= count <= most:
            raise QuantValueError("length", str(count), f"0 to {most}", "copy no more")
        for cache in self._caches.values():
            cache[target, :, :count] = cache[source, :, :count]
        tokens = self.tokens[source][:count]
        mark = self._marks.get(source)
        if self._states and count < most and mark is not None and mark[0] <= count:
            self._put_states(target, mark[1])
            self._resume(target, tokens, mark[0])
        elif self._states and count < most:
            self._put_states(target, None)
            self._resume(target, tokens, 0)
        else:
            for state in self._states.values():
                state[target] = state[source]
            self._marks.pop(target, None)
            self.tokens[target] = tokens

    def swap(self, first: int, second: int) -> None:
        """Exchange the tokens and states of two sequences.

        Args:
            first, second: Their indices; equal ones change nothing.
        """
        short, long = sorted((first, second), key=lambda sequence: len(self.tokens[sequence]))
        if short == long:
            return
        shared, most = len(self.tokens[short]), len(self.tokens[long])
        for cache in self._caches.values():
            stored = cache[short, :, :shared].copy()
            cache[short, :, :most] = cache[long, :, :most]
            cache[long, :, :shared] = stored
        for state in self._states.values():
            state[[short, long]] = state[[long, short]]
        marks = {sequence: self._marks.pop(sequence) for sequence in (short, long) if sequence in self._marks}
        self._marks |= {long if sequence == short else short: mark for sequence, mark in marks.items()}
        self.tokens[short], self.tokens[long] = self.tokens[long], self.tokens[short]

    def truncate(self, length: int, sequence: int = 0) -> None:
        """Forget the tokens of a sequence behind its first `length` ones.

        Args:
            length: Tokens that stay.
            sequence: Its row in the cache.
        Raises:
            QuantValueError: The sequence is shorter than that.
        """
        most = len(self.tokens[sequence])
        if not 0 <= length <= most:
            raise QuantValueError("length", str(length), f"0 to {most}", "keep no more")
        if not self._states or length == most:
            del self.tokens[sequence][length:]
            return
        begin, states = self._mark_before(sequence, length)
        self._put_states(sequence, states)
        self._resume(sequence, self.tokens[sequence][:length], begin)

    def _mark_before(self, sequence: int, length: int) -> tuple[int, dict[str, NDArray[Any]] | None]:
        """Return the length of the last copy of a sequence's states that is short enough, and it."""
        mark = self._marks.get(sequence)
        return (0, None) if mark is None or mark[0] > length else mark

    def _put_states(self, sequence: int, states: dict[str, NDArray[Any]] | None) -> None:
        """Replace the states of a sequence; None: by those of no token."""
        for name, state in self._states.items():
            state[sequence] = 0 if states is None else states[name]

    def _resume(self, sequence: int, tokens: list[int], begin: int) -> None:
        """Run the tokens of a sequence again from `begin` on, whose states are those of the tokens before."""
        self.tokens[sequence] = tokens[:begin]
        if begin == 0:
            self._marks.pop(sequence, None)
        for start in range(begin, len(tokens), _REPEATED):
            self._append(tokens[start : min(start + _REPEATED, len(tokens))], sequence, (), ())

    def rewind(self, prompt: Sequence[int], sequence: int = 0) -> int:
        """Forget the tokens of a sequence from the first on that a prompt does not have.

        Args:
            prompt: Tokens of the text that will follow.
            sequence: Index of the sequence.
        Returns:
            Tokens of the prompt that need not run: all but the last, at most, behind which logits are wanted.
        """
        count = shared_prefix(prompt[:-1], self.tokens[sequence])
        if self._states and count < len(self.tokens[sequence]):
            count = self._mark_before(sequence, count)[0]
        self.truncate(count, sequence)
        return count

    def _append(
        self, tokens: Tokens, sequence: int, wanted: Sequence[int], states: Sequence[int]
    ) -> dict[str, NDArray[np.float32]]:
        ids = np.asarray(tokens, np.int64).reshape(1, -1)
        if ids.size == 0:
            raise QuantValueError("tokens", "none", "one or more", "begin with the first token of a text")
        end = len(self.tokens[sequence]) + ids.size
        self._make_room(end)
        if self._states and ids.size > 1:
            copies = {name: state[sequence].copy() for name, state in self._states.items()}
            self._marks[sequence] = (len(self.tokens[sequence]), copies)
        rows = [int(place) % ids.size for place in wanted]
        outputs = self._run(ids, [end - 1], rows, states, slice(sequence, sequence + 1))
        self.tokens[sequence] += ids[0].tolist()
        return outputs

    def _run(
        self, ids: NDArray[np.int64], last: list[int], rows: Sequence[int], states: Sequence[int], part: slice
    ) -> dict[str, NDArray[np.float32]]:
        """Run tokens [sequences, tokens] of the sequences in `part`; return logits and states."""
        caches = {name: cache[part] for name, cache in (self._caches | self._states).items()}
        inputs = {
            "tokens": ids, "last": np.array(last, np.int32), "total": np.array(max(last) + 1, np.int32),
            "rows": np.array(rows, np.int64), STATE_ROWS: np.array(states, np.int64),
        }  # fmt: skip
        inputs = {name: array for name, array in inputs.items() if name in self._free_inputs}
        return self._engine.run(inputs | caches, {f"new_{name}": cache for name, cache in caches.items()})

    def _make_room(self, length: int) -> None:
        if length > self._most:
            raise QuantValueError(
                "tokens", f"a sequence of {length}", f"at most {self._most}",
                "shorten it, or load the model with a longer context",
            )  # fmt: skip
        if length <= self.room:
            return
        self.room = min(max(length, self.room + self.room // 4), self._most)
        before, self._caches = self._caches, self._lay_out()
        for name in reversed(before):  # each lies behind where it was, and in front of what moved already
            old, new = before[name], self._caches[name]
            for sequence, head in reversed(list(np.ndindex(old.shape[:2]))):
                count = len(self.tokens[sequence])
                new[sequence, head, :count] = old[sequence, head, :count]

    def _lay_out(self) -> dict[str, NDArray[Any]]:
        """Return arrays [sequences, heads, room, size] in the memory, side by side."""
        shapes = [
            (len(self.tokens), int(port.shape[1]), self.room, int(port.shape[3])) for port in self._ports
        ]
        if not shapes:
            return {}
        ends = np.cumsum([prod(shape) for shape in shapes])
        parts = np.split(self._memory[: ends[-1]], ends[:-1])
        return {
            port.name: part.reshape(shape)
            for port, part, shape in zip(self._ports, parts, shapes, strict=True)
        }


def shared_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many tokens two sequences begin with alike."""
    count = min(len(first), len(second))
    differing = np.flatnonzero(np.asarray(first[:count]) != np.asarray(second[:count]))
    return int(differing[0]) if differing.size else count


def _reserve(nbytes: int) -> NDArray[np.uint8]:
    """Return zeros that take no memory before they are written."""
    if not nbytes or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.zeros(nbytes, np.uint8)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    try:
        memory = mmap.mmap(-1, nbytes, flags)
    except OSError as error:
        raise QuantValueError(
            "the cache", f"{nbytes:,} bytes of addresses that the system refuses ({error})", "fewer",
            "load the model with fewer positions, or take fewer sequences",
        ) from None  # fmt: skip
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)
