"""The recipes of CONTRIBUTING.md, and copies of the sources that they are applied to."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

import intact

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r'^```(\w+) title="([^"]+)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """Edit of one file by a recipe: its whole text, or hunks of a diff."""

    path: str
    is_diff: bool
    text: str


def read_recipes() -> dict[str, list[Block]]:
    """The blocks of each recipe, by what it adds: "a kernel"."""
    _, *parts = re.split(r"^## Add (.*)$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), flags=re.MULTILINE)
    return {
        name: [Block(path, kind == "diff", text) for kind, path, text in _BLOCK.findall(text)]
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


RECIPES = read_recipes()


def apply_patch(text: str, diff: str, where: str) -> str:
    """`text` with every hunk applied at the one place that it fits."""
    for hunk in re.split(r"^@@.*\n", diff, flags=re.MULTILINE):
        lines = hunk.splitlines()
        before, after = (
            "".join(f"{line[1:]}\n" for line in lines if line[:1] in remaining)
            for remaining in ((" ", "-"), (" ", "+"))
        )
        assert {line[:1] for line in lines} <= {" ", "+", "-"}, f"{where}: {hunk}"
        assert text.count(before) == 1, f"{where} has {text.count(before)} places like\n{before}"
        text = text.replace(before, after)
    return text


def apply(blocks: list[Block], tree: Path) -> None:
    """Do what a recipe says, in a copy of the sources."""
    for block in blocks:
        path = tree / block.path
        assert path.exists() == block.is_diff, f"{block.path}: a new file that is there, or a diff of none"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            apply_patch(path.read_text("utf-8"), block.text, block.path) if block.is_diff else block.text,
            "utf-8",
        )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what recipes change: the package that runs here, the native sources, what tests share."""
    package = Path(intact.__file__).parent
    shutil.copytree(package, tmp_path / "src/intact", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "csrc", tmp_path / "csrc")
    shared = [ROOT / "CMakeLists.txt", ROOT / "tests/numerics/test_function.py", *ROOT.glob("tests/*.txt")]
    shared += [path for path in ROOT.glob("tests/*.py") if not path.name.startswith("test_")]
    for path in (*shared, *ROOT.glob("tests/*/conftest.py")):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return tmp_path
