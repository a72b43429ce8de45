"""The page of a tuning run, and its plot."""

from __future__ import annotations

import re

from intact.report.html_page import render
from intact.report.svg import Point, scatter
from intact.report.tuning_page import tuning_page
from intact.tuning import TunedLayer, TuneResult, TuneTrial

TRIALS = (
    TuneTrial({}, 1e-3, 1e-3, 1.1e-3, 90.0, False),
    TuneTrial({"<b>": "float"}, 1e-4, 1.5e-3, 1.4e-3, 91.0, True),
)
LAYERS = (
    TunedLayer("/a", ("/a",), {"uint8": 1e-4, "float": 0.0}, {"uint8": 0.0, "float": 2e-4}, "uint8"),
    TunedLayer("<b>", ("<b>",), {"uint8": 9e-4, "float": 0.0}, {"uint8": 0.0}, "float"),
)
RESULT = TuneResult(
    None, {}, LAYERS, TRIALS, TRIALS[1], ((1e-3, 1e-3), (3e-3, 0.0)), ("uint8", "float"), 91.2, 3e-3, 90.9,
    {"k": "v"},
)  # fmt: skip


def test_the_page_says_what_was_chosen_and_why() -> None:
    text = render(tuning_page(RESULT, "net"))
    assert "keeps the target" in text
    assert "91.2" in text
    assert "1 uint8, 1 float" in text
    assert "+200.0 µs" in text
    assert text.index("&lt;b&gt;") < text.index("/a<")  # the layer with the largest error first
    assert "<b>" not in text
    assert text.count("<circle") == len(RESULT.front) + len(TRIALS)


def test_a_target_that_is_missed_is_said() -> None:
    missed = TuneResult(
        None, {}, LAYERS, TRIALS[:1], TRIALS[0], (), ("uint8", "float"), 91.2, 3e-3, 90.9
    )  # fmt: skip
    assert "does not keep" in render(tuning_page(missed, "net"))


def test_dots_lie_where_their_numbers_are() -> None:
    drawn = scatter([Point(0, 0, "r0", "a"), Point(10, 5, "r1", "<b>"), Point(5, 2.5, "r1", "c")])
    places = [(int(x), int(y)) for x, y in re.findall(r'cx="(\d+)" cy="(\d+)"', drawn)]
    (left, bottom), (right, top), (middle, half) = places
    assert left < middle < right
    assert abs(2 * middle - left - right) <= 1
    assert bottom > half > top
    assert "&lt;b&gt;" in drawn


def test_one_dot_or_none_can_be_drawn() -> None:
    assert scatter([Point(3, 3, "r0", "")]).count("<circle") == 1
    assert "<circle" not in scatter([])
