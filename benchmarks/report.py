"""The page of figures and README's table, rendered from stored results; and how a result is stored.

    python benchmarks/report.py             # writes docs/benchmarks.md and the table in README.md
    python benchmarks/report.py --check     # exit status 1 where they are not what the results say
    python benchmarks/report.py --record import_time --topic torch --title "Importing the package" \\
        -- benchmarks/import_time.py --repeats 15

A result is one file in `results/`, a JSON object: `topic` (a key of TOPICS), `title`, `command`, `machine`,
`date`, `versions` (by package), `columns` and `rows` (texts, as they are shown), `notes` (sentences),
`figures` (texts by name, for README_TABLE), and `printed` (lines of the command's output, as they are).
--record runs a script and stores all that it prints, with this machine, today's date and the versions in use.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from intact.timings import processor

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"
START, END = "<!-- written by benchmarks/report.py -->", "<!-- end -->"
PACKAGES = ("intact-quant", "numpy", "torch", "onnxruntime", "openvino", "nncf", "nvidia-modelopt")
FIELDS = {"topic", "title", "command", "machine", "date", "versions", "columns", "rows", "notes"}
OPTIONAL = {"figures", "printed"}

TOPICS = {
    "exact": "Exactness",
    "engine": "Engine latency",
    "zoo": "Trained networks from PyPI",
    "programs": "Programs that call ONNX Runtime",
    "accuracy": "Accuracy",
    "torch": "PyTorch, calibration and import",
    "lm": "Language models",
    "suites": "Suites of others",
}

README_TABLE = (
    ("Codes of ResNet-20 on 10,000 images that differ: engine and integer reference",
     "{engine_exact[codes]}", "engine_exact"),
    ("Codes that differ: engine and file in ONNX Runtime", "{file_codes[codes]}", "file_codes"),
    ("Architectures whose module and engine are equal in every bit", "{promise[equal]}", "promise"),
    ("Time, as a part of the better of ONNX Runtime and OpenVINO in int8: four networks",
     "{engine_latency_amx[ratio]} (Intel with AMX), {engine_latency_zen4[ratio]} (Zen 4)", "engine_latency"),
    ("Time, as a part of the best of both in int8 and float: trained networks from PyPI",
     "{zoo_amx[ratio]} (Intel with AMX), {zoo_zen4[ratio]} (Zen 4)", "zoo"),
    ("CIFAR-10 top-1 of ResNet-20",
     "{cifar[float]} float, {cifar[auto]} int8, {cifar[qat]} fine-tuned", "cifar"),
    ("Fake quantization in PyTorch on a CPU, in copies of the tensor",
     "{fake_tensor_quant[intact]}; PyTorch's own {fake_tensor_quant[torch]}", "fake_tensor_quant"),
)  # fmt: skip
"""Rows of README's table: a question, figures of results by name, and the script that prints them."""

HEAD = """# Benchmarks

Figures that a command of `benchmarks/` printed. Each has the command, the class of machine, the date on which
it was recorded, and the versions that were recorded with it; "not recorded" means that nobody wrote it down.
They were measured on the code of that date, and other versions differ. Compare figures of one machine only.
A peer is another engine or tool that runs the same network on the same machine.

Run one again with `make bench BENCH=benchmarks/kernels.py`, or all with `make bench`. Some scripts need the
peers (ONNX Runtime, OpenVINO with NNCF) or data: the first lines of each say which. This page is written by
`python benchmarks/report.py` from the files in `benchmarks/results`.
"""

Result = dict[str, Any]


def load_results(folder: Path = RESULTS) -> dict[str, Result]:
    """All stored results by name; a missing, unknown or misplaced field is a ValueError."""
    results = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))
    }
    for name, result in results.items():
        missing, unknown = FIELDS - result.keys(), result.keys() - FIELDS - OPTIONAL
        if missing or unknown:
            raise ValueError(f"{name}.json: missing {sorted(missing)}, unknown {sorted(unknown)}")
        if result["topic"] not in TOPICS:
            raise ValueError(f"{name}.json: topic '{result['topic']}' is none of {', '.join(TOPICS)}")
        if any(len(row) != len(result["columns"]) for row in result["rows"]):
            raise ValueError(f"{name}.json: a row has not one cell for each column")
    return results


def table(columns: list[str], rows: list[list[str]]) -> Iterator[str]:
    for cells in (columns, ["---"] * len(columns), *rows):
        yield f"|{'|'.join(cells)}|" if cells[0] == "---" else f"| {' | '.join(cells)} |"


def section(result: Result) -> Iterator[str]:
    """One result: what was measured, the figures, and where they come from."""
    yield f"### {result['title']}\n"
    for note in result["notes"]:
        yield f"{note}\n"
    if result["columns"]:
        yield from table(result["columns"], result["rows"])
        yield ""
    if result.get("printed"):
        yield "\n".join(("```text", *result["printed"], "```\n"))
    versions = ", ".join(f"{package} {version}" for package, version in result["versions"].items())
    yield (
        f"Printed by `{result['command']}`. Machine: {result['machine']}. Recorded: {result['date']}. "
        f"Versions: {versions or 'not recorded'}.\n"
    )


def render_page(results: dict[str, Result]) -> str:
    lines = [HEAD, "## Scripts\n", *table(["script", "measures"], script_summaries()), ""]
    for topic, title in TOPICS.items():
        chosen = [result for result in results.values() if result["topic"] == topic]
        if chosen:
            lines += [f"## {title}\n", *(line for result in chosen for line in section(result))]
    return "\n".join(lines).rstrip() + "\n"


def script_summaries() -> list[list[str]]:
    """Every script and package of `benchmarks/` that runs by itself, with what its docstring begins with."""
    folder = ROOT / "benchmarks"
    scripts = {
        path: path.read_text(encoding="utf-8")
        for path in [*folder.glob("*.py"), *folder.glob("*/__main__.py")]
    }
    return [
        [f"`{path.relative_to(folder).as_posix().removesuffix('/__main__.py')}`", summary(text)]
        for path, text in sorted(scripts.items())
        if "\nif __name__ ==" in text and path != Path(__file__)
    ]


def summary(text: str) -> str:
    """The first paragraph of a module's docstring, as a cell of a table."""
    paragraph = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
    return " ".join(paragraph.split()).replace("|", "\\|")


def render_readme_table(results: dict[str, Result]) -> str:
    figures = {name: result.get("figures", {}) for name, result in results.items()}
    rows = [
        [question, answer.format(**figures), f"`{script}.py`"] for question, answer, script in README_TABLE
    ]
    return "\n".join(table(["measured", "result", "by `benchmarks/`"], rows))


def render_readme(text: str, results: dict[str, Result]) -> str:
    """README with its table rendered anew, between the two markers."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{render_readme_table(results)}\n\n{END}{after}"


def run_and_record(name: str, topic: str, title: str, words: list[str]) -> None:
    """Run a script of `benchmarks/` and store what it prints as `results/NAME.json`."""
    done = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    result = {
        "topic": topic, "title": title, "command": shlex.join(["python", *words]),
        "machine": f"{processor()}, {os.cpu_count()} processors",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "versions": versions_here(),
        "columns": [], "rows": [], "notes": [], "printed": done.stdout.rstrip().splitlines(),
    }  # fmt: skip
    write_result(RESULTS / f"{name}.json", result)


def versions_here() -> dict[str, str]:
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def write_result(path: Path, result: Result) -> None:
    """One field a line, and one row a line, so that a change of a figure is a change of its line."""
    fields = []
    for name, value in result.items():
        text = json.dumps(value, ensure_ascii=False)
        if name in ("rows", "notes", "printed") and value:
            inner = ",\n    ".join(json.dumps(item, ensure_ascii=False) for item in value)
            text = f"[\n    {inner}\n  ]"
        fields.append(f"  {json.dumps(name)}: {text}")
    path.write_text("{\n" + ",\n".join(fields) + "\n}\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 where it would")
    parser.add_argument("--record", metavar="NAME", help="run SCRIPT, store what it prints, then render")
    parser.add_argument("--topic", choices=TOPICS, help="of --record: the section of the page")
    parser.add_argument("--title", help="of --record: the result's heading")
    parser.add_argument("script", nargs="*", help="of --record, behind --: the script and its arguments")
    args = parser.parse_args()
    if args.record:
        if not (args.topic and args.title and args.script):
            parser.error("--record needs --topic, --title and, behind --, a script")
        run_and_record(args.record, args.topic, args.title, args.script)
    results = load_results()
    expected = {
        PAGE: render_page(results),
        README: render_readme(README.read_text(encoding="utf-8"), results),
    }
    changed = [path for path, text in expected.items() if path.read_text(encoding="utf-8") != text]
    for path in changed:
        print(f"{path.relative_to(ROOT)} {'differs' if args.check else 'written'}")
        if not args.check:
            path.write_text(expected[path], encoding="utf-8")
    return 1 if args.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
