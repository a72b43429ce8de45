"""A program that runs the same model, as comparisons ask it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class NotCompared(Exception):
    """The peer cannot say something; the text says why."""


class Peer(Protocol):
    """Answers what a model does. Each method may raise `NotCompared`.

    Attributes:
        name: Of the program, with its version.
        rounds_activations: It computes products with codes on rounded activations.
    """

    name: str
    rounds_activations: bool

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, with those that it puts around it."""

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return the text that a conversation is for the model."""

    def log_probabilities(self, tokens: Sequence[int]) -> NDArray[np.float64]:
        """Return the logarithms of probabilities of the token behind a sequence, [vocabulary]."""

    def greedy(self, tokens: Sequence[int], count: int) -> list[int]:
        """Return the most likely tokens behind a sequence, one after the other, until one ends the answer."""

    def vector(self, text: str) -> NDArray[np.float64]:
        """Return the vector of a text."""

    def close(self) -> None:
        """Free what it holds."""
