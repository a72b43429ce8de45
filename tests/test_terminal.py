"""Printed text steers no terminal, wherever it comes from."""

from __future__ import annotations

import pytest

from intact.errors import QuantValueError
from intact.terminal import printable


@pytest.mark.parametrize(
    "text", ["\x1b[2J", "\x9b31m", "a\nb", "\r", "\x7f", "\u202e", "\u2066", "\u2028", "\udc80"]
)
def test_what_does_not_print_is_escaped(text: str) -> None:
    output = printable(text)
    assert output.isprintable() and "\\" in output
    assert printable(output) == output


@pytest.mark.parametrize("text", ["conv1", "[/x]", "größe 三 🙂", "C:\\models", ""])
def test_other_text_is_as_it_was(text: str) -> None:
    assert printable(text) == text


def test_errors_are_one_line_and_keep_the_name_apart() -> None:
    error = QuantValueError("tensor 'a\n\x1b[1m'", "x", "y", "z")
    assert str(error) == r"tensor 'a\n\x1b[1m': got x, want y. Fix: z"
    assert error.where == "tensor 'a\n\x1b[1m'"
