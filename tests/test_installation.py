"""Another project's distribution `intact` in the same folder is told when INTact is imported."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import intact
from intact._installation import require_own_folder
from intact.errors import DISTRIBUTION, ClashingInstallationError, IntactError

ROOT = Path(__file__).parents[1]


def _install(folder: Path, name: str, files: str, record: str = "RECORD") -> Path:
    (folder / "intact").mkdir(exist_ok=True)
    (folder / name).mkdir()
    (folder / name / record).write_text(files)
    return folder / "intact"


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("intact-1.2.1.dist-info", "RECORD"),
        ("Intact-1.2.1.dist-info", "RECORD"),
        ("intact-1.2.1-py3.11.egg-info", "installed-files.txt"),
        ("intact-1.2.1.dist-info", "nothing-known"),
    ],
)
def test_the_other_project_in_the_same_folder_is_refused(tmp_path: Path, name: str, record: str) -> None:
    package = _install(tmp_path, name, "intact/__init__.py,,\nintact/editor.py,,\n", record)
    with pytest.raises(ClashingInstallationError, match="pip uninstall -y intact intact-quant") as caught:
        require_own_folder(package)
    assert isinstance(caught.value, ImportError) and isinstance(caught.value, IntactError)
    assert name in str(caught.value)


def test_own_metadata_are_no_clash(tmp_path: Path) -> None:
    package = _install(tmp_path, "intact_quant-0.2.dist-info", "intact/__init__.py,,\n")
    _install(tmp_path, "intact-0.1.dist-info", "intact/__init__.py,,\nintact/numerics/affine.py,,\n")
    _install(tmp_path, "intactness-3.dist-info", "intactness.py,,\n")
    require_own_folder(package)


def test_a_package_without_a_folder_is_no_clash(tmp_path: Path) -> None:
    require_own_folder(tmp_path / "packed.zip" / "intact")


def test_import_itself_says_so(tmp_path: Path) -> None:
    package = _install(tmp_path, "intact-1.2.1.dist-info", "intact/editor.py,,\n")
    source = Path(intact.__file__).parent
    for path in source.glob("*.py"):
        shutil.copy(path, package / path.name)
    shutil.copytree(source / "processes", package / "processes")
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import intact"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "ClashingInstallationError" in done.stderr and "another project" in done.stderr


def test_every_place_calls_the_distribution_by_its_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == DISTRIBUTION
    extras = [item for expected in project["optional-dependencies"].values() for item in expected]
    assert not [extra for extra in extras if extra.startswith("intact[")]
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.py"), ROOT / "Makefile"]
    wrong = [
        path for path in pages
        if any(text in path.read_text("utf-8") for text in ("install intact[", "install 'intact[",
               "install intact==", "dist/intact-"))
    ]  # fmt: skip
    assert wrong == []
