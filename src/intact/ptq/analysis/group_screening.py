"""Group screening: trials of groups of tensors, then of the worst group's members, within a budget.

Sequential bifurcation (Bettonvil and Kleijnen 1997, "Searching for important factors in simulation models
with many factors: sequential bifurcation", European Journal of Operational Research 96): a group whose error
is small is left whole, one whose error is large is halved. It finds k tensors that matter among n in about
``k log2(n)`` trials where errors add up, as squared errors of rounding do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_NEAR = 0.25
"""Of the worst group's error."""


@dataclass(frozen=True)
class ScreenedGroup:
    """Holds the measured error of neighbouring units that were quantized together.

    Attributes:
        start, stop: Which.
        error: Of the outputs, with them alone quantized.
    """

    start: int
    stop: int
    error: float

    @property
    def size(self) -> int:
        """The number of units."""
        return self.stop - self.start


def screen_groups(
    count: int, budget: int, measure: Callable[[Sequence[range]], Sequence[float]]
) -> list[ScreenedGroup]:
    """Divide units 0 to `count` - 1 into measured groups; each has one unit where `budget` trials suffice.

    Args:
        count: Of units, 1 or more.
        budget: At most so many trials, 1 or more.
        measure: The error of the outputs with each of these groups alone quantized.
    """
    first = count if count <= budget else max(1, budget // 3)
    edges = [count * index // first for index in range(first + 1)]
    groups = _measure_groups(list(map(range, edges, edges[1:])), measure)
    left = budget - first
    while left >= 2 and (large := [group for group in groups if group.size > 1]):
        # All that come near the worst at once: each round is one pass along the model.
        worst = sorted(large, key=lambda group: (-group.error, group.start))
        split = [group for group in worst if group.error >= _NEAR * worst[0].error][: left // 2]
        halves = [half for group in split for half in _halves(group)]
        groups = [group for group in groups if group not in split] + _measure_groups(halves, measure)
        left -= len(halves)
    return sorted(groups, key=lambda group: group.start)


def _halves(group: ScreenedGroup) -> tuple[range, range]:
    middle = (group.start + group.stop) // 2
    return range(group.start, middle), range(middle, group.stop)


def _measure_groups(
    ranges: Sequence[range], measure: Callable[[Sequence[range]], Sequence[float]]
) -> list[ScreenedGroup]:
    return [ScreenedGroup(r.start, r.stop, error) for r, error in zip(ranges, measure(ranges), strict=True)]
