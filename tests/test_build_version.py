"""A wheel's version says which sources it was built from."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def build_version() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_version", ROOT / "packaging/build_version.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree of version 1.2.3 with all that a version follows from, as a source distribution has it."""
    for name in ("src/intact", "csrc", "include", "packaging"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("CMakeLists.txt", "pyproject.toml", "README.md"):
        (tmp_path / name).write_text("text")
    (tmp_path / "src/intact/_version.py").write_text('__version__ = "1.2.3"\n')
    return tmp_path


def commit(tree: Path, tag: str = "") -> None:
    name = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    steps = [["init", "-q"], ["add", "."], [*name, "commit", "-qm", "All", "--allow-empty"]]
    for step in steps + ([["tag", tag]] if tag else []):
        subprocess.run(["git", *step], cwd=tree, check=True)


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def test_a_source_distribution_of_a_release_has_its_version(build_version: ModuleType, tree: Path) -> None:
    assert build_version.version_of(tree) == "1.2.3"


def test_versions_in_development_follow_from_their_sources(build_version: ModuleType, tree: Path) -> None:
    (tree / "src/intact/_version.py").write_text('__version__ = "1.2.4.dev0"\n')
    first = build_version.version_of(tree)
    assert first.startswith("1.2.4.dev0+") and first == build_version.version_of(tree)
    for name in ("csrc/new.cc", "src/intact/new.py"):
        (tree / name).write_text("text")
        assert build_version.version_of(tree) != first
        (tree / name).rename(tree / f"{name}.moved")
        assert build_version.version_of(tree) != first
        (tree / f"{name}.moved").unlink()
    for folder in ("src/intact/lib", "src/intact/include", "src/intact/__pycache__"):
        (tree / folder).mkdir()
        (tree / folder / "built.h").write_text("text")
    (tree / "src/intact/_native.so").write_text("text")
    assert build_version.version_of(tree) == first, "what a build leaves behind is no source"


@needs_git
def test_a_checkout_is_a_release_at_its_tag_alone(build_version: ModuleType, tree: Path) -> None:
    commit(tree)
    assert build_version.version_of(tree).startswith("1.2.3+")
    commit(tree, "v1.2.3")
    assert build_version.version_of(tree) == "1.2.3"
    (tree / "README.md").write_text("changed")
    assert build_version.version_of(tree).startswith("1.2.3+")
