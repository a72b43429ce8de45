"""The changelog has the package's version, and a release can collect the fragments in changes/."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import intact

ROOT = Path(__file__).parents[1]
AREAS = {
    area["directory"]: area["name"]
    for area in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["towncrier"]["type"]
}
FRAGMENTS = sorted(path for path in (ROOT / "changes").glob("*.md") if path.name != "README.md")


def fault(name: str, text: str) -> str | None:
    """Return the fault of one fragment, or None."""
    area = re.fullmatch(r"[a-z0-9-]+\.(\w+)\.md", name)
    if area is None or area[1] not in AREAS:
        return f"{name}: want NAME.AREA.md, AREA one of {', '.join(AREAS)}"
    if not text.strip() or "\n\n" in text.strip() or text.startswith(("-", "#")):
        return f"{name}: want one entry as plain text, without a dash or a heading"
    if area[1] != "numerics" and len(text.split()) > 25:
        return f"{name}: {len(text.split())} words, want 25 at most"
    return None


def test_the_newest_version_of_the_changelog_is_the_package_s() -> None:
    versions = re.findall(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert versions[0] == intact.__version__ or intact.__version__.endswith(".dev0")
    assert len(set(versions)) == len(versions)


def test_the_page_names_every_area() -> None:
    page = (ROOT / "changes/README.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([\w ]+)", page, re.MULTILINE)
    assert {area: heading.strip() for area, heading in rows} == AREAS


def test_fragments_are_entries_of_an_area() -> None:
    assert [reason for path in FRAGMENTS if (reason := fault(path.name, path.read_text("utf-8")))] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tied.speed.md", "Faster."), ("tied.md", "Faster."), ("Tied.onnx.md", "Faster."), ("a.onnx.md", ""),
        ("a.onnx.md", "- Faster."), ("a.onnx.md", "One.\n\nTwo."), ("a.cli.md", "word " * 26),
    ],
)  # fmt: skip
def test_a_wrong_fragment_is_found(name: str, text: str) -> None:
    assert fault(name, text)


def test_a_right_fragment_is_none() -> None:
    assert fault("tied-embeddings.onnx.md", "Tied embeddings are quantized once.\n") is None
    assert fault("nan.numerics.md", "word " * 40) is None


def test_towncrier_collects_fragments_by_area(tmp_path: Path) -> None:
    pytest.importorskip("towncrier")
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "changes").mkdir()
    shutil.copy(ROOT / "changes/template.md.jinja", tmp_path / "changes")
    (tmp_path / "changes/b.engine.md").write_text("Engines are smaller.\n", encoding="utf-8")
    (tmp_path / "changes/a.onnx.md").write_text("Files are read.\n", encoding="utf-8")
    words = ["build", "--keep", "--version", "9.9.9", "--date", "2030-01-31", "--config", "pyproject.toml"]
    subprocess.run([sys.executable, "-m", "towncrier", *words], cwd=tmp_path, check=True, capture_output=True)
    text = (tmp_path / "CHANGELOG.md").read_text("utf-8")
    entry = (
        "\n## 9.9.9 (2030-01-31)\n\n### ONNX\n\n- Files are read.\n\n### Engine\n\n- Engines are smaller.\n"
    )
    before, result, after = text.partition(entry)
    newest = re.search(r"^## .*$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert result and before.rstrip().endswith("-->") and after.lstrip().startswith(newest[0])
