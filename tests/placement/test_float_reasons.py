"""Reasons why operators stay in float say what is known of them."""

from __future__ import annotations

import pytest

from intact.graph.ops import BOOK
from intact.placement.rules.float_reasons import float_reason


@pytest.mark.parametrize("domain", sorted({domain for domain, _ in BOOK}))
def test_no_operator_of_the_book_is_called_unknown(domain: str) -> None:
    names = [name for own, name in BOOK if own == domain]
    assert [name for name in names if "not known here" in float_reason(name, domain)] == []


def test_operators_of_nobody_are_called_unknown() -> None:
    assert "'com.example'" in float_reason("Relu", "com.example")
    assert float_reason("Relu", "ai.onnx") == float_reason("Relu", "")
