"""Drawings by their coordinates."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from intact.report.svg import HEIGHT, WIDTH, bar, histogram


def draw(counts: list[int], left: list[float], **ranges: tuple[float, float]) -> ElementTree.Element:
    width = left[1] - left[0] if len(left) > 1 else 1.0
    return ElementTree.fromstring(
        histogram(
            np.array(left), width, np.array(counts), ranges, label="a & <b>", chosen=next(iter(ranges), "")
        )
    )


def path(svg: ElementTree.Element, kind: str) -> str:
    (path,) = (item.attrib["d"] for item in svg.iter("path") if item.attrib["class"].split()[0] == kind)
    return path


def test_it_is_well_formed_and_says_what_it_shows() -> None:
    svg = draw([3, 5], [0.0, 1.0], kept=(0.0, 1.5))
    assert (svg.tag, svg.attrib["aria-label"], svg.attrib["role"]) == ("svg", "a & <b>", "img")
    assert svg.attrib["viewBox"] == f"0 0 {WIDTH} {HEIGHT}"


def test_bars_stand_on_the_axis_and_equal_neighbours_are_one_step() -> None:
    outline = path(draw([10, 10, 0, 100], [0.0, 1.0, 2.0, 3.0]), "bars")
    heights = [int(y) for y in re.findall(r"V(\d+)", outline)]
    base = HEIGHT - 20
    ten, none, hundred, end = heights
    assert none == end == base and hundred < ten < base, "one step for the two of ten"
    assert outline.startswith(f"M34 {base}") and outline.endswith("Z")


def test_heights_are_logarithms() -> None:
    outline = path(draw([1, 10, 100, 1000], [0.0, 1.0, 2.0, 3.0]), "bars")
    ints, ten, hundred, thousand, _ = (int(y) for y in re.findall(r"V(\d+)", outline))
    steps = [ints - ten, ten - hundred, hundred - thousand]
    assert max(steps) - min(steps) <= 1 and min(steps) > 20


def test_a_range_is_a_line_at_each_end_but_for_zero() -> None:
    svg = draw([4, 4], [-1.0, 0.0], kept=(-0.5, 0.5))
    left, right = (int(x) for x in re.findall(r"M(\d+)", path(svg, "line")))
    bars = [int(x) for x in re.findall(r"[MH](\d+)", path(svg, "bars"))]
    middle = (bars[0] + bars[-1]) / 2
    assert left < middle < right and abs((middle - left) - (right - middle)) <= 2
    assert path(draw([4, 4], [0.0, 1.0], kept=(0.0, 1.5)), "line").count("M") == 1


def test_empty_bins_at_the_ends_take_no_room() -> None:
    bare, framed = draw([4, 9], [3.0, 4.0]), draw([0, 4, 9, 0, 0], [2.0, 3.0, 4.0, 5.0, 6.0])
    assert path(bare, "bars") == path(framed, "bars")
    one_sided = draw([0, 0, 4, 9], [-2.0, -1.0, 0.0, 1.0], kept=(-2.0, 2.0))
    assert path(one_sided, "bars").startswith("M34 ") and path(one_sided, "line").count("M") == 1


def test_a_range_beyond_all_values_is_still_in_the_drawing() -> None:
    x = int(re.findall(r"M(\d+)", path(draw([4], [0.0], kept=(-9.0, 9.0)), "line"))[-1])
    assert 400 < x <= WIDTH


@pytest.mark.parametrize(
    ("counts", "left"), [([], []), ([0], [0.0]), ([7], [0.0]), ([5, 2**62], [0.0, 1e-30])]
)
def test_whatever_was_counted_can_be_drawn(counts: list[int], left: list[float]) -> None:
    numbers = [float(n) for n in re.findall(r"-?[\d.]+", path(draw(counts, left), "bars"))]
    assert all(0 <= n <= WIDTH for n in numbers)


@pytest.mark.parametrize(("part", "length"), [(0.0, 0), (0.25, 25), (1.0, 100), (3.0, 100), (-1.0, 0)])
def test_a_bar_is_as_long_as_its_part(part: float, length: int) -> None:
    (shape,) = ElementTree.fromstring(bar(part)).iter("path")
    assert shape.attrib["d"] == f"M0 0h{length}v8H0"
