"""Documents do not rot: their Python runs, their links and paths exist, their doctests pass."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
WITH_PYTHON = [path for path in DOCUMENTS if "```python" in path.read_text(encoding="utf-8")]
LIGHT_ROOMS = ("numerics", "calib", "kernels", "report")
IDS = [str(path.relative_to(ROOT)) for path in DOCUMENTS]


def light_modules() -> list[str]:
    """Every module whose doctests need no framework."""
    package = ROOT / "src" / "intact"
    files = [*package.glob("*.py"), *(f for room in LIGHT_ROOMS for f in (package / room).rglob("*.py"))]
    names = (".".join(f.relative_to(package.parent).with_suffix("").parts) for f in files)
    return sorted(name.removesuffix(".__init__") for name in names if not name.endswith("__main__"))


@pytest.mark.parametrize("name", light_modules())
def test_doctests(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_some_doctests_were_found() -> None:
    tests = doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module("intact.atomic"))
    assert any(test.examples for test in tests)


@pytest.mark.parametrize("path", DOCUMENTS, ids=IDS)
def test_links_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (path.parent / target).exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", WITH_PYTHON, ids=lambda path: path.name)
def test_python_blocks_run(path: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    # In a process of its own: a page may register names or switch modes for good.
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    if path.name == "README.md":
        assert {p.name for p in tmp_path.iterdir()} == {"model.calib", "model.onnx"}


def test_the_readme_draws_the_tree_that_is_there() -> None:
    drawn = (ROOT / "README.md").read_text(encoding="utf-8").split("src/intact/\n")[1].split("\ncsrc/")[0]
    rooms = set(re.findall(r"^  (\w+)/", drawn, re.MULTILINE))
    assert rooms == {p.parent.name for p in (ROOT / "src" / "intact").glob("*/__init__.py")}


def test_the_readme_names_scripts_that_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b((?:benchmarks|examples)/\w[\w./-]*)", text))
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
    assert len(named) >= 5


def test_the_readme_names_make_targets_that_exist() -> None:
    asked = set(re.findall(r"\bmake ([\w-]+)", (ROOT / "README.md").read_text(encoding="utf-8")))
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert asked <= known and len(asked) >= 3


def test_the_architecture_names_files_that_exist() -> None:
    """The table of concepts: each is where it says."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \|.*\| (.*) \|$", text, re.MULTILINE)
    named = [path for row in rows for path in re.findall(r"`([\w/]+\.py|[\w/]+/<\w+>\S*)`", row)]
    known = [path.partition("<")[0].replace("csrc/", "../../csrc/") for path in named]
    assert len(rows) <= 12 and len(named) >= len(rows)
    assert [path for path in known if not (ROOT / "src/intact" / path).exists()] == []
