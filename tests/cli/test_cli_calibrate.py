"""``intact calibrate``: collect, look again, merge."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from intact.calib import METHODS, Calibration, Range

TENSORS = ["x", "r1", "r2", "pooled"]


@pytest.fixture
def halves(run, net: Path, samples: Path, tmp_path: Path) -> list[Path]:
    """Statistics of the first and of the last eight samples."""
    data, files = np.load(samples), []
    for index, part in enumerate((data[:8], data[8:])):
        np.save(tmp_path / f"{index}.npy", part)
        files.append(tmp_path / f"{index}.calib")
        run("calibrate", net, "--data", tmp_path / f"{index}.npy", "-o", files[-1], "--no-progress")
    return files


def rows(shown: str) -> dict[str, list[str]]:
    cells = [[c.strip() for c in line.split("│")[1:-1]] for line in shown.splitlines() if "│" in line]
    return {name: values for name, *values in cells}


def test_statistics_and_every_methods_ranges(run, net: Path, samples: Path, tmp_path: Path) -> None:
    out = tmp_path / "net.calib"
    status, shown, err = run("calibrate", net, "--data", samples, "-o", out, "--no-progress")
    assert (status, err) == (0, "")
    assert f"wrote {out}: 4 tensors" in shown
    assert list(rows(shown)) == TENSORS
    assert all(len(values) == len(METHODS) for values in rows(shown).values())
    calibration = Calibration.load(out)
    assert list(calibration) == TENSORS
    assert rows(shown)["x"][0] == f"{np.abs(np.load(samples)).max():.6g}"


def test_another_method_later_without_data(run, halves: list[Path]) -> None:
    status, shown, _ = run("calibrate", "--from", halves[0], "--method", "percentile", "--percentile", 50)
    assert status == 0
    median = float(rows(shown)["x"][0])
    assert 0.5 < median < 0.9, "half of the magnitudes of a normal distribution lie below 0.67"


def test_two_halves_merge_to_the_whole(
    run, net: Path, samples: Path, halves: list[Path], tmp_path: Path
) -> None:
    merged, whole = tmp_path / "merged.calib", tmp_path / "whole.calib"
    status, shown, _ = run("calibrate", "--from", *halves, "--merge", "-o", merged, "--json")
    run("calibrate", net, "--data", samples, "-o", whole, "--no-progress")
    assert status == 0
    assert dict(Calibration.load(merged)) == dict(Calibration.load(whole))
    output = json.loads(shown)
    assert output["out"] == str(merged) and list(output["ranges"]) == TENSORS
    assert len(output["provenance"]) == 2


def test_asymmetric_ranges_have_two_ends(run, halves: list[Path]) -> None:
    words = ("--asymmetric", "--format", "uint8", "--method", "max", "--json")
    ranges = json.loads(run("calibrate", "--from", halves[0], *words)[1])["ranges"]
    assert ranges["r1"]["max"][0] == 0 < ranges["r1"]["max"][1]
    assert ranges["x"]["max"][0] < 0
    assert " .. " in rows(run("calibrate", "--from", halves[0], "--asymmetric")[1])["x"][0]


def test_a_range_knows_the_method_max_alone(run, tmp_path: Path) -> None:
    ends = Range()
    ends.collect(np.float32([-2, 1]))
    Calibration({"[odd] name": ends}).save(tmp_path / "ends.calib")
    assert rows(run("calibrate", "--from", tmp_path / "ends.calib")[1]) == {
        "[odd] name": ["2", *["-"] * (len(METHODS) - 1)]
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("{net}",), "intact: --data: got nothing, want a folder of images"),
        (("{net}", "{net}", "--data", "{samples}"), "intact: files: got"),
        (("{net}", "--merge", "--data", "{samples}"), "intact: files: got"),
        (("--from", "{a}", "{b}"), "intact: --from: got 2 files, want one, or --merge"),
        (("--from", "{a}", "--data", "{samples}"), "intact: --data: got '{samples}', want no data"),
        (("--from", "{a}", "--method", "best"), "intact: --method: got 'best'"),
        (("--from", "{a}", "--format", "int99"), "intact: format: got 'int99'"),
        (("--from", "{a}", "{other}", "--merge"), "intact: merge: got 5 tensors that only one"),
        (("--from", "{net}"), "intact: file '{net}': got"),
        (("{a}", "--data", "{samples}"), "intact: {a}: got"),
    ],
    ids=[
        "no-data", "two-models", "merge-a-model", "two-files", "data-too", "method", "format",
        "other-model", "model-as-calib", "calib-as-model",
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_status_2_and_no_file(
    run, net: Path, samples: Path, halves: list[Path], tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    calibration = Calibration()
    calibration.collect("another", np.float32([1]))
    calibration.save(tmp_path / "other.calib")
    files = {
        "net": net,
        "samples": samples,
        "a": halves[0],
        "b": halves[1],
        "other": tmp_path / "other.calib",
    }
    out = tmp_path / "out.calib"
    status, _, err = run("calibrate", *(w.format(**files) for w in words), "-o", out, "--no-progress")
    assert status == 2
    assert err.startswith(message.format(**files)) and err.count("\n") == 1
    assert not out.exists()
