"""Calibration: names, provenance, merging, and ranges that name their tensor."""

import numpy as np
import pytest

from intact import __version__
from intact.calib import Calibration, Histogram, Range, ZeroRangeWarning, amax_of, range_of
from intact.errors import CalibrationError
from intact.spec import QuantSpec


def collect(x, source="test"):
    calibration = Calibration()
    calibration.collect("input", x)
    calibration.collect("conv.weight", x, axis=0)
    calibration["range"] = Range((0, 1))
    calibration["range"].collect(x)
    calibration.record(source=source, batches=1, samples=len(x))
    return calibration


@pytest.fixture
def x(rng):
    return rng.standard_normal((4, 6, 8)).astype(np.float32)


def test_an_ordered_mapping(x):
    calibration = collect(x)
    assert list(calibration) == ["input", "conv.weight", "range"] and len(calibration) == 3
    assert isinstance(calibration["conv.weight"], Histogram) and calibration["conv.weight"].axis == 0
    del calibration["range"]
    assert "range" not in calibration
    assert repr(calibration) == "Calibration(2 tensors, provenance of 1 runs)"


def test_provenance_says_who_and_what(x):
    calibration = collect(x)
    calibration.record(source="more", model="resnet")
    assert calibration.provenance == [
        {"tool": f"intact {__version__}", "source": "test", "batches": 1, "samples": 4},
        {"tool": f"intact {__version__}", "source": "more", "batches": 0, "samples": 0, "model": "resnet"},
    ]


def test_any_tree_of_merges_gives_the_same_file(x, tmp_path):
    def parts():
        return [collect(x * (i + 1), f"part {i}") for i in range(4)]

    a, b, c, d = parts()
    a.merge(b, c, d).save(tmp_path / "left.calib")
    a, b, c, d = parts()
    d.merge(c).merge(b.merge(a)).save(tmp_path / "tree.calib")
    assert (tmp_path / "left.calib").read_bytes() == (tmp_path / "tree.calib").read_bytes()
    whole = Calibration.load(tmp_path / "tree.calib")
    assert whole["input"].count == 4 * x.size
    assert [r["source"] for r in whole.provenance] == ["part 0", "part 1", "part 2", "part 3"]


def test_merging_leaves_the_other_as_it_was(x):
    item, other = collect(x), collect(10 * x)
    item.merge(other)
    assert other == collect(10 * x)


def test_merging_other_tensors_is_refused(x):
    other = collect(x)
    other["extra"] = Range()
    with pytest.raises(CalibrationError) as error:
        collect(x).merge(other)
    assert str(error.value) == (
        "merge: got 1 tensors that only one of the two has: 'extra', want the same tensors in both. Fix: "
        "collect the same model with the same quantizers enabled in every run"
    )


@pytest.mark.parametrize(
    ("stats", "message"),
    [
        (Histogram(), "tensor 'range': merge: got a Histogram, want a Range"),
        (Range(1), "tensor 'range': axis: got statistics with axis 1, want axis (0, 1)"),
    ],
    ids=["kind", "axis"],
)
def test_merging_what_does_not_fit_names_the_tensor_and_changes_nothing(stats, message, x):
    item, other = collect(x), collect(x)
    other["range"] = stats
    with pytest.raises(CalibrationError) as error:
        item.merge(other)
    assert str(error.value).startswith(message)
    assert item == collect(x)


def test_a_bad_tensor_is_named(x):
    x[0, 0, 0] = np.nan
    with pytest.raises(CalibrationError) as error:
        Calibration().collect("layer1.input", x)
    assert str(error.value).startswith(
        "tensor 'layer1.input': x: got 1 NaN and 0 infinities among 192 values of shape (4, 6, 8)"
    )


def test_only_statistics_go_in():
    with pytest.raises(CalibrationError) as error:
        Calibration()["x"] = np.zeros(3)
    assert str(error.value) == (
        "tensor 'x': got a ndarray, want a Histogram or a Range. Fix: collect into one of the two"
    )


def test_ranges_and_amax_of_every_tensor(x):
    calibration = collect(x)
    del calibration["range"]
    specs = {"input": QuantSpec("uint8", symmetric=False), "conv.weight": QuantSpec(axis=0)}
    ranges = calibration.ranges(specs, "mse")
    assert ranges["input"] == range_of(calibration["input"], specs["input"], "mse")
    amax = calibration.amax({"conv.weight": specs["conv.weight"]}, "entropy", variant="gtc2017")
    assert list(amax) == ["conv.weight"]
    expected = amax_of(calibration["conv.weight"], specs["conv.weight"], "entropy", variant="gtc2017")
    assert (amax["conv.weight"] == expected).all()
    assert calibration.amax(QuantSpec())["input"] == np.abs(x).max()


def test_methods_name_the_tensor(x):
    calibration = collect(x)
    with pytest.raises(CalibrationError, match="tensor 'range': statistics: got a Range for method 'mse'"):
        calibration.ranges(QuantSpec(), "mse")
    calibration = Calibration({"empty": Histogram()})
    with pytest.raises(CalibrationError, match="tensor 'empty': statistics: got nothing collected"):
        calibration.amax(QuantSpec())
    with pytest.raises(CalibrationError, match="tensor 'empty': spec: got int8 per-tensor asymmetric"):
        calibration.amax(QuantSpec(symmetric=False))


@pytest.mark.rule("N7")
@pytest.mark.parametrize(
    ("rows", "axis", "message"),
    [
        ([[0.0, 0.0]], None, "tensor 'dead': every value is zero or almost; its scale is 1"),
        (
            [[0.0, 1e-9], [1.0, 0.0]],
            0,
            "tensor 'dead': every value is zero or almost in 1 of 2 channels; their scale is 1",
        ),
    ],
    ids=["per-tensor", "per-channel"],
)
def test_a_range_of_zero_warns_with_the_name(rows, axis, message):
    calibration = Calibration()
    calibration.collect("dead", np.float32(rows), axis=axis)
    with pytest.warns(ZeroRangeWarning) as warned:
        calibration.amax(QuantSpec(axis=axis))
    assert [str(w.message) for w in warned] == [message]
    assert warned[0].filename == __file__
