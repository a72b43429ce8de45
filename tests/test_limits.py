"""Limits: one table in code and page, overridden by the environment, refused with the variable's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from intact.errors import FileFormatError, QuantValueError
from intact.limits import LIMITS, THREADS, Limit

PAGE = Path(__file__).parents[1] / "docs" / "limits.md"


def row(limit: Limit) -> str:
    return f"| `{limit.variable}` | {limit.default:,} {limit.unit} | {limit.why} |"


def test_the_page_has_the_table() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert rows == [row(limit) for limit in LIMITS.values()]


def test_a_limit_refuses_what_lies_above_it_and_says_how_to_lift_it(monkeypatch: pytest.MonkeyPatch) -> None:
    THREADS.check(1024, "threads")
    with pytest.raises(FileFormatError, match="INTACT_LIMIT_THREADS=1025"):
        THREADS.check(1025, "threads")
    monkeypatch.setenv("INTACT_LIMIT_THREADS", "1025")
    THREADS.check(1025, "threads")


@pytest.mark.parametrize("inputs", ["0", "-1", "many", "1e3", "9" * 30, "٣"])
def test_a_limit_in_the_environment_is_a_whole_number(inputs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTACT_LIMIT_THREADS", inputs)
    with pytest.raises(QuantValueError, match="INTACT_LIMIT_THREADS"):
        THREADS.check(1, "threads")
