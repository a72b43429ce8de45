"""Counts the public TensorRT scripts that run as they are: each by itself, on host-memory stand-ins.

    python benchmarks/public_scripts.py FOLDER [--match 02-API/Layer] [--dialect 8.x] [--recorded]

FOLDER is a checkout of somebody's scripts; every .py file below it that imports `tensorrt` is run with
``python -m intact.trt`` in its own folder. ``--recorded`` compares what a script prints, case by case, with
the log beside it (``log-NAME.py.log``): lines of numbers within a tolerance, addresses and versions left out.
Cases that differ are run once more on the inputs that the log shows: many scripts draw theirs without a seed.
``--pages`` counts the scripts that print an array which the Markdown page beside them shows as a matrix.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from page_arrays import arrays_in_output as arrays_in
from page_arrays import arrays_on_pages

CASE = re.compile(r"=+ Start \[(.*)")
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?|\bnan\b|\binf\b|-inf\b")
LEFT_OUT = re.compile(
    r"^\[\d\d/\d\d/\d{4}|^\[TensorRT-Cookbook\]|Public members of|Callback members|Callable methods|"
    r"Non-callable attributions|Usage coverage|used members|uncovered members|"
    r"-only members|Class/Object difference|^Members of"
)
TOLERANCE = 2e-3
REPLAY = Path(__file__).with_name("stand_ins") / "recorded_inputs.py"


@dataclass
class Outcome:
    """Result of one script.

    Attributes:
        script: Its path below the folder.
        state: "ran", "failed", "silent" (an error in the log, and status 0) or "late".
        last: The last line that it printed.
        cases: By case of its log: whether what was printed is as recorded.
        fed: The cases among them that were as recorded on the inputs of the log alone.
        page: Whether an array that it printed is on the page beside it; None: the page shows none.
    """

    script: str
    state: str
    last: str = ""
    cases: dict[str, bool] = field(default_factory=dict)
    fed: list[str] = field(default_factory=list)
    page: bool | None = None


def scripts_in(folder: Path, match: str) -> list[Path]:
    """The Python files that import `tensorrt`."""
    scripts = (p for p in sorted(folder.rglob("*.py")) if match in str(p))
    return [
        p
        for p in scripts
        if re.search(r"^\s*(import|from) tensorrt\w*\b", p.read_text(errors="replace"), re.M)
    ]


def run(
    script: Path, folder: Path, dialect: str, seconds: float, paths: list[str], log: Path | None = None
) -> tuple[Outcome, str]:
    """Run one script, on the inputs of `log` if that is given; what became of it, and its standard output."""
    how = ["-m", "intact.trt"] if log is None else [str(REPLAY), str(log)]
    environment = {**os.environ, "INTACT_TRT_DIALECT": dialect, "TRT_COOKBOOK_PATH": str(folder)}
    environment["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
    name = str(script.relative_to(folder))
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", *how, script.name],
            cwd=script.parent, env=environment, capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Outcome(name, "late"), ""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "[TRT] [E]" in line]
    state = "failed" if done.returncode else "silent" if errors else "ran"
    last = "" if state == "ran" else errors[0] if errors else (lines or [""])[-1]
    return Outcome(name, state, last.strip()), done.stdout


def cases_of(text: str) -> dict[str, list[str]]:
    """The lines that each case printed, by the case's title."""
    cases: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if started := CASE.match(line):
            title = started[1]
            while title in cases:
                title += "'"
            current = cases.setdefault(title, [])
        elif line.startswith("=") and "End   [" in line:
            current = []
        elif line.strip() and not LEFT_OUT.search(line):
            current.append(" ".join(line.split()))
    return cases


def agree(expected: list[str], got: list[str]) -> bool:
    """Return whether the words are the same, and the numbers close."""
    a, b = " ".join(expected), " ".join(got)
    words = [re.sub(r"[\[\]\s,.]+", " ", NUMBER.sub("#", text)).strip() for text in (a, b)]
    numbers = [[float(n) for n in NUMBER.findall(text)] for text in (a, b)]
    return words[0] == words[1] and close(*numbers)


def close(expected: list[float], got: list[float]) -> bool:
    """Return whether there are as many numbers, each within the tolerance."""
    return len(expected) == len(got) and all(
        x == y or (x != x and y != y) or abs(x - y) <= TOLERANCE * max(1.0, abs(x))
        for x, y in zip(expected, got, strict=True)
    )


def on_page(script: Path, output: str) -> bool | None:
    """Return whether a printed array is on the page beside a script; None where the page shows none."""
    matrices = arrays_on_pages(sorted(script.parent.glob("*.md")))
    if not matrices:
        return None
    return any(close(matrix, array) for array in arrays_in(output) for matrix in matrices)


def log_of(script: Path) -> Path:
    """Return the path of the recorded output of a script."""
    return script.with_name(f"log-{script.name}.log")


def compare(script: Path, printed: str) -> dict[str, bool]:
    """By case of the log beside a script: whether `printed` agrees."""
    log = log_of(script)
    if not log.is_file():
        return {}
    expected, got = cases_of(log.read_text(errors="replace")), cases_of(printed)
    return {title: title in got and agree(lines, got[title]) for title, lines in expected.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--match", default="", help="only paths with this text")
    parser.add_argument("--dialect", default="10.x", choices=["8.x", "10.x", "11.x"])
    parser.add_argument("--recorded", action="store_true", help="compare with the logs beside the scripts")
    parser.add_argument("--pages", action="store_true", help="look for what is printed on the pages beside")
    parser.add_argument("--seconds", type=float, default=120.0, help="limit for one script")
    parser.add_argument("--path", action="append", default=[], help="folders for PYTHONPATH")
    parser.add_argument("--print", action="store_true", help="print what each script printed, too")
    requested = parser.parse_args()
    folder = requested.folder.resolve()
    outcomes = []
    for script in scripts_in(folder, requested.match):
        outcome, printed = run(script, folder, requested.dialect, requested.seconds, requested.path)
        if requested.recorded:
            outcome.cases = compare(script, printed)
            if outcome.state in ("ran", "silent") and not all(outcome.cases.values()):
                again = run(
                    script, folder, requested.dialect, requested.seconds, requested.path, log_of(script)
                )[1]
                result = compare(script, again)
                outcome.fed = [case for case, ok in outcome.cases.items() if not ok and result[case]]
                outcome.cases.update(dict.fromkeys(outcome.fed, True))
        if requested.pages and outcome.state == "ran":
            outcome.page = on_page(script, printed)
        outcomes.append(outcome)
        cases = f" {sum(outcome.cases.values())}/{len(outcome.cases)}" if outcome.cases else ""
        wrong = " wrong: " + ", ".join(c for c, ok in outcome.cases.items() if not ok) if cases else ""
        print(f"{outcome.state:7}{cases:7} {outcome.script}  {outcome.last[:200]}{wrong}", flush=True)
        if outcome.page is False:
            print("        no array that it printed is on its page")
        if requested.print:
            print(printed)
    counts = {s: sum(o.state == s for o in outcomes) for s in ("ran", "silent", "failed", "late")}
    print(f"{len(outcomes)} scripts: " + ", ".join(f"{n} {state}" for state, n in counts.items()))
    if requested.recorded:
        right = [ok for o in outcomes for ok in o.cases.values()]
        fed = sum(len(o.fed) for o in outcomes)
        print(f"{len(right)} recorded cases: {sum(right)} as recorded, {fed} of them on the log's inputs")
    if requested.pages:
        looked = [o.page for o in outcomes if o.page is not None]
        print(f"{len(looked)} ran beside pages with matrices: {sum(looked)} printed one of those")


if __name__ == "__main__":
    main()
