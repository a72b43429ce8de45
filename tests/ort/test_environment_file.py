"""`intact ort`: an environment is switched on by one file and off again; the status shows all models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.ort.door_models import batches
from tests.ort.test_door import session_of, swap

import intact.ort
from intact.cli import main
from intact.ort import environment_file
from intact.ort.session_methods import registry


def call(*words: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["ort", *words])
    return int(caught.value.code or 0)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of packages of an environment."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.setattr(environment_file.sysconfig, "get_paths", lambda: {"purelib": str(folder)})
    return folder


def test_little_is_loaded_before_the_first_session() -> None:
    heavy = [
        "intact.ort.served_model",
        "intact.ort.records",
        "intact.processes.limited_worker",
        "intact.graph",
    ]
    code = (
        "import sys, onnxruntime, intact.ort; intact.ort.install();"
        f"print([name for name in {heavy} if name in sys.modules], intact.ort.is_installed())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True"


def test_enable_writes_one_file_and_disable_removes_it(
    packages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("enable") == 0
    assert [path.name for path in packages.iterdir()] == ["intact-ort.pth"]
    assert "intact-ort.pth" in capsys.readouterr().out
    assert call("enable") == 0, "twice is once"
    assert call("disable") == 0
    assert list(packages.iterdir()) == []
    assert call("disable") == 0
    assert "there was no file" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("has_intact", [True, False], ids=["with INTact", "INTact is gone"])
@pytest.mark.parametrize("switch", ["", "off"])
def test_programs_of_the_environment_are_watched(packages: Path, has_intact: bool, switch: str) -> None:
    environment_file.enable()
    code = f"""
import site, sys
site.addsitedir({str(packages)!r})
assert "intact" not in sys.modules and "onnxruntime" not in sys.modules
if not {has_intact}:
    sys.modules["intact"] = None
import onnxruntime
print(hasattr(onnxruntime.InferenceSession.run, "__wrapped__"), onnxruntime.__spec__.loader is not None)
"""
    source = Path(intact.ort.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], text=True, capture_output=True, check=True,
        env={**os.environ, "INTACT_ORT": switch, "PYTHONPATH": str(source)},
    )  # fmt: skip
    assert done.stdout.split() == [str(has_intact and not switch), "True"]
    assert done.stderr == ""


@pytest.mark.usefixtures("door")
def test_status_shows_models_and_reasons(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert call("status") == 0
    assert "no program has run a model yet" in capsys.readouterr().out
    session = session_of(model)
    swap(session)
    session.run(None, {"x": batches(1)[0]})
    for served in registry.models():
        served.save_record()
        served.save_record()
    assert call("status", "--page", str(tmp_path / "page.html")) == 0
    text = capsys.readouterr().out
    assert "layers.onnx" in text and "int8" in text and "dB" in text
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "layers.onnx" in page
    assert call("status", "--json") == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert (record["state"], record["runs"], record["engine_runs"]) == ("int8", 7, 1), "counted once"
