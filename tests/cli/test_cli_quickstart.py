"""The main job, end to end, as a user runs it: small here, whole under `make quickstart`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from intact.calib import METHODS, Calibration
from intact.cli import main

pytest.importorskip("torch")

ROWS = ["float", *METHODS, "auto", "QAT", "2 bits, max", "2 bits, AdaRound", "2 bits, QAT"]
FILES = {"model.onnx", "model.plan", "model.calib", "report.html"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten bright and ten dark noise images, 12x12: a folder per class."""
    root = tmp_path_factory.mktemp("data") / "brightness"
    rng = np.random.default_rng(0)
    for name, low in (("bright", 150), ("dark", 0)):
        (root / name).mkdir(parents=True)
        for index in range(10):
            pixels = rng.integers(low, low + 100, (12, 12, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(root / name / f"{index}.png")
    return root


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in ("quickstart", "--no-progress", *words)])
    return int(stopped.value.code or 0)


@pytest.mark.slow
def test_a_folder_of_images_becomes_tables_and_four_files(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    out = tmp_path / "made" / "out"
    assert run("--data", folder, "--out", out, "--epochs", 2, "--threads", 1) == 0
    shown = capfd.readouterr().out
    assert {p.name for p in out.iterdir()} == FILES
    rows = re.findall(
        r"│ (\w[\w, ]*?) +│ +([\d.]+)% │ +([\d.]+)% │ +(?:[\d.inf]+ dB)? │ +[\d,]+ bytes │", shown
    )
    assert [name for name, *_ in rows] == ROWS
    assert rows[0][2] == "100.00", "float agrees with itself"
    assert re.search(r"top-1, end to end: +0 of 4 differ", shown)

    assert re.search(r"codes, engine against integer reference +│ +0 of [\d,]+ differ", shown)
    assert re.search(r"batch of 1, 1 thread +│ +[\d.]+ ms, float [\d.]+ ms: [\d.]+ times as fast", shown)

    session = onnxruntime.InferenceSession(out / "model.onnx")
    (logits,) = session.run(None, {session.get_inputs()[0].name: np.zeros((3, 3, 32, 32), np.float32)})
    assert logits.shape == (3, 2), "two classes, and a batch of another size"

    calibration = Calibration.load(out / "model.calib")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "blocks.0.add_quantizer" in calibration
    assert [name for name in calibration if name not in page] == []
    assert [record["samples"] for record in calibration.provenance] == [16]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_files(folder: Path, tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("first", "second")]
    for out in runs:
        assert run("--data", folder, "--out", out, "--epochs", 1, "--threads", 1) == 0
    for name in ("model.onnx", "model.calib", "model.plan"):
        assert (runs[0] / name).read_bytes() == (runs[1] / name).read_bytes()


def test_bad_data_is_one_line_and_writes_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("--data", tmp_path / "nowhere", "--out", tmp_path / "out") == 2
    err = capfd.readouterr().err
    assert err.startswith("intact: data: got '") and err.count("\n") == 1
    assert not (tmp_path / "out").exists()
