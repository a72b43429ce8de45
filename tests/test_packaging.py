"""Files that build and publish INTact name files, targets and versions that exist."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def commands(path: Path) -> str:
    """Every shell command of a workflow."""
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return "\n".join(step.get("run", "") for job in jobs.values() for step in job["steps"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_scripts_and_targets_that_exist(path: Path) -> None:
    text = commands(path)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"\bmake ([\w-]+)", text)) <= targets
    assert all((ROOT / name).exists() for name in re.findall(r"\.ci/[\w.]+", text))


def test_ci_runs_what_a_submission_must_pass() -> None:
    assert "bash .ci/run" in commands(ROOT / ".github/workflows/ci.yml")


def test_wheels_are_tried_with_tests_that_exist() -> None:
    inputs = "\n".join(PROJECT["tool"]["cibuildwheel"]["test-command"])
    named = re.findall(r"\{project\}/(\S+)", inputs)
    assert len(named) >= 3 and [name for name in named if not (ROOT / name).exists()] == []


def test_wheels_are_built_on_every_platform_that_has_onnx_runtime() -> None:
    """Each runner builds for its own architecture: x86-64 and Arm on Linux, Arm on macOS."""
    jobs = yaml.safe_load((ROOT / ".github/workflows/wheels.yml").read_text("utf-8"))["jobs"]
    runners = {entry["os"] for entry in jobs["wheels"]["strategy"]["matrix"]["include"]}
    assert {"ubuntu-24.04", "ubuntu-24.04-arm", "macos-14"} <= runners
    assert PROJECT["tool"]["cibuildwheel"]["archs"] == ["auto64"]


def test_one_wheel_serves_all_pythons_from_the_first_with_a_stable_abi() -> None:
    assert PROJECT["tool"]["scikit-build"]["wheel"]["py-api"] == "cp312"
    assert "nanobind_add_module(_native STABLE_ABI" in (ROOT / "CMakeLists.txt").read_text("utf-8")
    built = [pattern.partition("-")[0] for pattern in PROJECT["tool"]["cibuildwheel"]["build"]]
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=").replace(".", "")
    assert built[:2] == [f"cp{oldest}", "cp312"], "older ones have a wheel of their own, and come first"


def test_torch_finds_the_backend_where_the_package_says_it_is() -> None:
    pytest.importorskip("torch")
    declared = PROJECT["project"]["entry-points"]["torch_dynamo_backends"]
    assert callable(EntryPoint("intact", declared["intact"], "torch_dynamo_backends").load())
    assert declared["intact"] in (ROOT / "Makefile").read_text("utf-8"), "`make dev` says so too"


def site_pages(entry: Any) -> list[str]:
    """Every page in the site's navigation."""
    if isinstance(entry, str):
        return [entry]
    return [
        page for item in (entry.values() if isinstance(entry, dict) else entry) for page in site_pages(item)
    ]


def test_the_site_shows_every_page_once() -> None:
    shown = site_pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"])
    there = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert len(set(shown)) == len(shown)
    assert {page for page in shown if not page.startswith("project/")} == there


def test_the_reference_shows_names_that_exist() -> None:
    """mkdocstrings says so too, but a build of the site takes a minute."""
    for page in (ROOT / "docs/reference").glob("*.md"):
        for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE):
            at = ROOT / "src" / name.replace(".", "/")
            modules = at.with_suffix(".py"), at / "__init__.py", at.parent.with_suffix(".py")  # of a function
            assert any(module.exists() for module in modules), name
