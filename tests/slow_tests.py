"""The list of slow tests, slow_tests.txt: written from what pytest measured, read by conftest.

    python -m pytest -n 2 --durations=0 --durations-min=0.5 > run.log
    python -m tests.slow_tests run.log

A test is slow where its cases take more than `MOST_SECONDS` together: `make check` leaves them out and
stays below five minutes on two cores. They still run in `make test`.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

LIST = Path(__file__).with_name("slow_tests.txt")
MOST_SECONDS = 2.0
_LINE = re.compile(r"^([\d.]+)s (?:call|setup)\s+(tests/\S+?\.py::[\w:]+)")


def slow_tests() -> frozenset[str]:
    """Return the names of slow tests, as pytest gives them, without parameters."""
    return frozenset(LIST.read_text(encoding="utf-8").split())


def seconds_of(log: str) -> Counter[str]:
    """Return the seconds of each test in pytest's output, all cases together."""
    seconds = Counter[str]()
    for line in log.splitlines():
        if match := _LINE.match(line):
            seconds[match[2]] += float(match[1])  # type: ignore[assignment]
    return seconds


def main() -> None:
    """Write the list from the log that is named."""
    seconds = seconds_of(Path(sys.argv[1]).read_text(encoding="utf-8"))
    slow = sorted(name for name, total in seconds.items() if total > MOST_SECONDS)
    LIST.write_text("\n".join(slow) + "\n", encoding="utf-8")
    print(f"{len(slow)} slow tests, {sum(seconds[name] for name in slow):,.0f} of {seconds.total():,.0f} s")


if __name__ == "__main__":
    main()
