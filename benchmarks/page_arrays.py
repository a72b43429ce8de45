"""The arrays that a Markdown page shows as LaTeX matrices, and those that a script prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

BOUND = re.compile(r"\\(begin|end)\{matrix\}")
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?|\bnan\b|\binf\b")


def arrays_on_pages(pages: list[Path]) -> list[list[float]]:
    """The numbers of each outermost matrix."""
    result = []
    for page in pages:
        text, depth, start = page.read_text(errors="replace"), 0, 0
        for bound in BOUND.finditer(text):
            if bound[1] == "begin":
                start = bound.end() if depth == 0 else start
                depth += 1
            else:
                depth -= 1
                if depth == 0:
                    result.append(_numbers(BOUND.sub(" ", text[start : bound.start()])))
    return result


def arrays_in_output(output: str) -> Iterator[list[float]]:
    """The numbers of each array in brackets that has more than one."""
    depth, text = 0, ""
    for character in output:
        depth += character == "["
        text += character if depth else ""
        depth -= character == "]" and depth > 0
        if depth == 0 and text:
            if len(numbers := _numbers(text)) > 1:
                yield numbers
            text = ""


def _numbers(text: str) -> list[float]:
    return [float(number) for number in NUMBER.findall(re.sub(r"\\color\{\w*\}", " ", text))]
