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
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "changes" / "README.md"])
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
        assert {p.name for p in tmp_path.iterdir()} == {"model.onnx"}


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= 6144


def test_the_architecture_draws_the_tree_that_is_there() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    drawn = text.split("src/intact/\n")[1].split("\ncsrc/")[0]
    rooms = set(re.findall(r"^  (\w+)/", drawn, re.MULTILINE))
    assert rooms == {p.parent.name for p in (ROOT / "src" / "intact").glob("*/__init__.py")}


@pytest.mark.parametrize("path", DOCUMENTS, ids=IDS)
def test_pages_name_scripts_that_exist(path: Path) -> None:
    named = set(re.findall(r"\b((?:benchmarks|examples)/\w[\w./-]*\w)", path.read_text(encoding="utf-8")))
    assert [script for script in sorted(named) if not (ROOT / script).exists()] == []


def commands(path: Path) -> str:
    """The code blocks and code spans of a page."""
    blocks = re.split(r"^```(.*)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    spans = [span for text in blocks[::4] for span in re.findall(r"`[^`\n]+`", text)]
    return "\n".join([*blocks[2::4], *spans])


@pytest.mark.parametrize("path", DOCUMENTS, ids=IDS)
def test_pages_name_make_targets_that_exist(path: Path) -> None:
    requested = set(re.findall(r"(?:^\s*|`)make ([\w-]+)", commands(path), re.MULTILINE))
    expected = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert requested <= expected


def test_the_readme_states_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^make ([\w-]+)", text, re.MULTILINE)) == {"quickstart", "test"}


def test_the_glossary_has_at_most_12_words() -> None:
    """A word of the field needs no line; a word of ours is better replaced by one of the field."""
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^\| (?!word)(\w[\w ]*) \|", text, re.MULTILINE)
    assert 0 < len(words) <= 12 and words == sorted(words, key=str.lower)


def test_the_architecture_names_files_that_exist() -> None:
    """The table of concepts: each is where it says."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \|.*\| (.*) \|$", text, re.MULTILINE)
    named = [path for row in rows for path in re.findall(r"`([\w/]+\.py|[\w/]+/<\w+>\S*)`", row)]
    paths = [path.partition("<")[0].replace("csrc/", "../../csrc/") for path in named]
    assert len(rows) <= 12 and len(named) >= len(rows)
    assert [path for path in paths if not (ROOT / "src/intact" / path).exists()] == []


def test_the_index_of_decisions_has_every_title_once() -> None:
    folder = ROOT / "docs/decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    titles = {
        p.name: p.read_text("utf-8").partition("\n")[0].removeprefix("# ") for p in folder.glob("0*.md")
    }
    listed = re.findall(r"^- \[(.*)\]\((0\S+\.md)\)$", index, re.MULTILINE)
    assert len(listed) == len(titles) and {name: title for title, name in listed} == titles
    assert [name for name, title in titles.items() if not title.startswith(f"{int(name[:4])}. ")] == []


def test_sources_name_decisions_that_exist() -> None:
    sources = [path for folder in ("src", "csrc", "include") for path in (ROOT / folder).rglob("*")]
    texts = {path: path.read_text("utf-8") for path in sources if path.suffix in {".py", ".h", ".hpp", ".cc"}}
    pages = {
        page for text in texts.values() for page in re.findall(r"docs/(decisions/\d{4}-[\w-]+\.md)", text)
    }
    assert pages and {page for page in pages if not (ROOT / "docs" / page).exists()} == set()
