"""Every rule on the smallest tensor that it is about, and on one that it is not."""

from __future__ import annotations

import numpy as np
import pytest

from intact.graph import load
from intact.ptq.analysis import analyze
from intact.ptq.analysis.accuracy_findings import TensorEvidence, findings_of
from intact.ptq.analysis.tensor_observations import TensorObservation, channel_axis_of
from intact.spec import QuantSpec

INT8, UINT8 = QuantSpec("int8"), QuantSpec("uint8", symmetric=False)


def observe_batches(
    *runs: np.ndarray, amax: float | None = None, spec: QuantSpec = INT8, axis: int | None = 1
) -> TensorObservation:
    top = np.float32(max(float(np.abs(x).max()) for x in runs) if amax is None else amax)
    item = TensorObservation(spec, (-top, top), axis)
    for x in runs:
        item.add(x.astype(np.float32), len(x))
    return item


def kinds(
    recorded: TensorObservation,
    share: float = 0.0,
    later: TensorObservation | None = None,
    weight: bool = False,
) -> dict[str, str]:
    return {
        item.kind: item.says
        for item in findings_of([TensorEvidence("t", recorded, later, share, weight=weight)])
    }


@pytest.fixture
def noise() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (16, 64, 5, 5)).astype(np.float32)


def test_a_tensor_like_any_other_is_not_mentioned(noise) -> None:
    assert kinds(observe_batches(noise), later=observe_batches(noise, noise), share=0.19) == {}


def test_statistics_are_those_of_the_values(noise) -> None:
    recorded = observe_batches(noise[:8], noise[8:])
    np.testing.assert_array_equal(recorded.reach, np.abs(noise).max(axis=(0, 2, 3)))
    assert (recorded.count, recorded.beyond, recorded.channels, len(recorded.peaks)) == (
        noise.size,
        0,
        64,
        16,
    )
    assert (recorded.low, recorded.high) == (noise.min(), noise.max())
    np.testing.assert_allclose(recorded.peaks, np.abs(noise).max(axis=(1, 2, 3)))
    scale = np.abs(noise).max() / np.float32(127)
    lost = np.rint(noise / scale).astype(np.float64) * scale - noise
    assert recorded.relative_error == pytest.approx(
        (lost**2).sum() / (noise.astype(np.float64) ** 2).sum(), rel=1e-6
    )
    np.testing.assert_allclose(recorded.errors, (lost**2).sum(axis=(0, 2, 3)), rtol=1e-5)


def test_a_number_of_channels_that_changes_is_none() -> None:
    recorded = observe_batches(np.ones((2, 3)), 2 * np.ones((2, 4)))
    assert (recorded.channels, recorded.low, recorded.high, recorded.count) == (1, 0, 2, 14)


def test_what_matters_is_what_helps_when_left_in_float(noise) -> None:
    def finding_texts(share: float, gain: float | None) -> list[str]:
        return [
            item.says
            for item in findings_of([TensorEvidence("t", observe_batches(noise), None, share, gain)])
        ]

    assert finding_texts(0.1, 0.6) == [
        "brings 10% of the error of the outputs; left in float alone it takes off 60%"
    ]
    assert finding_texts(0.6, -0.2) == finding_texts(0.1, 0.1) == finding_texts(0.1, None) == []
    looks = [
        TensorEvidence(n, observe_batches(noise), None, share, gain)
        for n, share, gain in (("a", 0.3, 0.1), ("b", 0.2, 0.9))
    ]
    assert [item.tensor for item in findings_of(looks)] == ["b", "a"]


def test_one_tensor_brings_much(noise) -> None:
    assert kinds(observe_batches(noise), share=0.42) == {"dominant": "brings 42% of the error of the outputs"}
    (finding,) = findings_of([TensorEvidence("w", observe_batches(noise), None, 0.42, weight=True)])
    assert "--rounding" in finding.advice
    (finding,) = findings_of([TensorEvidence("x", observe_batches(noise), None, 0.42)])
    assert finding.advice == "16 bits (--bits16 'x'), or leave its layers in float (--exclude)"
    assert str(finding).startswith("x: brings 42% of the error")
    (finding,) = findings_of([TensorEvidence("x", observe_batches(noise), None, 0.42, wide=False)])
    assert finding.advice == "leave its layers in float (--exclude)", "an engine that reads 8 bits alone"


def test_a_few_channels_reach_far(noise) -> None:
    noise[:, :3] *= 40
    result = kinds(observe_batches(noise))
    assert result["outlier channels"].startswith("3 of 64 channels reach up to 4")
    noise[:, 3:40] *= 40
    assert "outlier channels" not in kinds(observe_batches(noise)), "many are no outliers"


def test_a_few_channels_are_cut_off(noise) -> None:
    noise[:, 5] *= 4
    result = kinds(observe_batches(noise, amax=1.0))
    assert result["clipped channels"].startswith("1 of 64 channels carries ")
    assert (
        result["saturation"]
        == f"{(np.abs(noise) > 127.5 / 127).mean():.2%} of its values lie beyond the range"
    )


def test_later_data_go_beyond(noise) -> None:
    result = kinds(observe_batches(noise), later=observe_batches(3 * noise, amax=1.0))
    assert result.keys() == {"range too short"} and "(3, the range 1)" in result["range too short"]
    rare = noise.copy()
    rare[0, 0, 0, 0] = 1.2
    assert kinds(observe_batches(noise), later=observe_batches(rare, amax=1.0)).keys() == {"range too short"}


def test_one_sample_sets_the_range(noise) -> None:
    noise[3, 7, 2, 2] = 2.5
    assert kinds(observe_batches(noise)) == {"unstable range": "one sample of 16 reaches 2.5, the next one 1"}


def test_half_of_the_codes_stand_for_nothing(noise) -> None:
    assert kinds(observe_batches(np.abs(noise))).keys() == {"one-sided"}
    assert kinds(observe_batches(np.where(noise < 0, 0.05 * noise, noise))).keys() == {"one-sided"}
    item = TensorObservation(UINT8, (np.float32(0), np.float32(1)), 1)
    item.add(np.abs(noise), 16)
    assert kinds(item) == {}


def test_channels_that_are_dead(noise) -> None:
    noise[:, [4, 9]] = 0
    assert kinds(observe_batches(noise)) == {"dead channels": "2 of 64 channels are 0 in all samples"}
    assert kinds(observe_batches(noise), weight=True) == {"dead channels": "2 of 64 channels are 0"}


def test_a_weight_with_one_scale_for_unlike_channels(noise) -> None:
    noise[:, 0] *= 40
    assert kinds(observe_batches(noise), weight=True).keys() == {"outlier channels"}
    by_channel = TensorObservation(
        QuantSpec("int8", axis=1), (-np.ones(64, np.float32), np.ones(64, np.float32)), 1
    )
    by_channel.add(noise, 0)
    assert kinds(by_channel, weight=True) == {}


def test_channels_lie_where_the_readers_have_them(build, cnn) -> None:
    values = {v.name: v for node in load(cnn).graph for v in (*node.inputs, *node.outputs)}
    assert [channel_axis_of(values[name]) for name in ("x", "r1", "r3", "flat")] == [1, 1, 1, -1]


def test_findings_of_a_model_name_the_tensor_and_the_channels(build) -> None:
    rng = np.random.default_rng(0)
    w1 = (rng.standard_normal((16, 3, 3, 3)) * 0.2).astype(np.float32)
    w1[0] *= 60
    w1[15] = 0
    w2 = (rng.standard_normal((4, 16, 3, 3)) * 0.1).astype(np.float32)
    w2[:, 0] /= 60
    model = build(
        [("Conv", "x w1", "c"), ("Tanh", "c", "t"), ("Conv", "c w2", "y")],
        {"x": ["N", 3, 12, 12]}, {"y": ["N", 4, 8, 8], "t": ["N", 16, 10, 10]}, w1=w1, w2=w2,
    )  # fmt: skip
    data = rng.standard_normal((16, 3, 12, 12)).astype(np.float32)
    analysis = analyze(model, data, later=3 * data, equalization=False, progress=False)
    output = {(finding.kind, finding.tensor): finding for finding in analysis.findings}
    assert output["outlier channels", "c"].says.startswith("1 of 16 channels reaches")
    assert output["dead channels", "c"].says == "1 of 16 channels is 0 in all samples"
    assert output["dead channels", "w1"].says == "1 of 16 channels is 0"
    assert {"x", "c"} <= {tensor for kind, tensor in output if kind == "range too short"}
    assert analysis.findings[0].kind == "dominant" and analysis.ranked[0].name == analysis.findings[0].tensor
    assert "left in float alone it takes off" in analysis.findings[0].says
