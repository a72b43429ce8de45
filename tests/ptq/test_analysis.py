"""`analyze`: each figure against the same thing computed another way."""

from __future__ import annotations

import json
import math
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import intact
from intact.errors import QuantValueError
from intact.graph import Session, load
from intact.kernels import fake_quantize
from intact.numerics import scale_from_amax
from intact.ptq import calibrate, quantize
from intact.ptq.analysis import SensitivityAnalysis, analyze, sensitivity_trials
from intact.ptq.analysis.model_segments import segments_of
from intact.ptq.analysis.sensitivity_trials import Sweep, Trial
from intact.spec import QuantSpec

PLAIN = {"method": "max", "equalization": False, "bias_correction": False, "rounding": False,
         "progress": False}  # fmt: skip


def error(got: np.ndarray, want: np.ndarray) -> float:
    got, want = got.astype(np.float64), want.astype(np.float64)
    return float(((got - want) ** 2).sum() / (want**2).sum())


def by_name(result: SensitivityAnalysis) -> dict[str, tuple[float, float]]:
    return {part.name: (part.alone, part.without) for part in result.parts}


@pytest.mark.parametrize("order", ["p b", "b p"])
def test_corrected_biases_of_additions_are_part_of_what_is_measured(build, order: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 32)).astype(np.float32) + 3
    w, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((32, 16), (16,)))
    nodes = [("MatMul", "x w", "p"), ("Add", order, "y")]
    model = build(nodes, {"x": ["N", 32]}, {"y": ["N", 16]}, w=w, b=b)
    options = {"method": "max", "equalization": False, "bias_correction": True, "rounding": False}
    options |= {"progress": False}
    quantized = quantize(model, x, **options)
    assert quantized.corrected
    want = error(Session(quantized.proto.SerializeToString()).run({"x": x})["y"], x @ w + b)
    assert analyze(model, x, **options).error == pytest.approx(want, rel=1e-3)
    plain = analyze(model, x, **options | {"bias_correction": False})
    assert plain.error > 1.2 * want


def test_a_single_product_is_what_numpy_says(build) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((32, 32), (32, 16)))
    model = build([("MatMul", "x w", "y")], {"x": ["N", 32]}, {"y": ["N", 16]}, w=w)
    analysis = analyze(model, x, activations="int8", scale_bits=None, **PLAIN)

    def round_to_int8(a: np.ndarray, axis: int | None) -> np.ndarray:
        spec = QuantSpec("int8", axis=axis)
        amax = np.abs(a).max(axis=None if axis is None else 0)
        return fake_quantize(a, scale_from_amax(amax, spec), np.zeros(amax.shape, np.int32), spec)

    only_x, only_w = round_to_int8(x, None) @ w, x @ round_to_int8(w, 1)
    want = {
        "x": (error(only_x, x @ w), error(only_w, x @ w)),
        "w": (error(only_w, x @ w), error(only_x, x @ w)),
    }
    for name, figures in by_name(analysis).items():
        assert figures == pytest.approx(want[name], rel=1e-4)
    assert analysis.error == pytest.approx(
        error(round_to_int8(x, None) @ round_to_int8(w, 1), x @ w), rel=1e-4
    )
    local = {part.name: part.local for part in analysis.parts}
    assert local == pytest.approx(
        {"x": error(round_to_int8(x, None), x), "w": error(round_to_int8(w, 1), w)}, rel=1e-5
    )
    shares = [part.share for part in analysis.parts]
    assert sum(shares) == pytest.approx(1)
    assert shares[0] / shares[1] == pytest.approx(analysis.parts[0].alone / analysis.parts[1].alone)
    assert [(part.kind, part.formats, part.layers) for part in analysis.parts] == [
        ("activation", "int8", ("n_y",)), ("weight", "int8", ("n_y",)),
    ]  # fmt: skip


def test_the_whole_is_what_quantize_measures(cnn, images) -> None:
    result, built = analyze(cnn, images, progress=False), quantize(cnn, images, progress=False)
    assert built.corrected, "corrected biases are among what is analyzed"
    assert result.sqnr["y"] == pytest.approx(built.sqnr["y"], abs=0.01)
    assert result.segments > 1 and all(part.measured for part in result.parts)
    assert result.trials == 2 * len(result.parts)


def test_a_layer_alone_is_a_model_in_which_all_others_are_excluded(cnn, images) -> None:
    analysis = analyze(cnn, images, by="layer", **PLAIN)
    names = [part.name for part in analysis.parts]
    assert names == ["n_c1", "n_c2", "n_c3", "n_pool", "n_flat", "n_y"]
    for layer in ("n_c1", "n_c2"):
        alone = quantize(cnn, images, exclude=[name for name in names if name != layer], **PLAIN)
        floats, codes = (Session(model) for model in (load(cnn), alone.model))
        want = error(codes.run({"x": images})["y"], floats.run({"x": images})["y"])
        (item,) = (part for part in analysis.parts if part.name == layer)
        assert item.alone == pytest.approx(want, rel=1e-2) and item.formats == "int8 + uint8"


@pytest.mark.parametrize("by", ["tensor", "layer"])
def test_cutting_the_model_changes_nothing(cnn, images, by, monkeypatch) -> None:
    cut = analyze(cnn, images, by=by, progress=False)
    monkeypatch.setattr(sensitivity_trials, "segments_of", partial(segments_of, most=1))
    whole = analyze(cnn, images, by=by, progress=False)
    assert (cut.segments, whole.segments) == (3, 1)
    for name, figures in by_name(cut).items():
        # Runtimes fuse and add in other orders, which flips single codes.
        assert figures == pytest.approx(by_name(whole)[name], rel=0.1)


def test_a_chain_of_segments_is_the_model(cnn, images) -> None:
    model = load(cnn)
    reads = [(node.name, 0) for node in model.graph]
    segments = segments_of(model, reads, most=3)
    assert len(segments) == 3
    assert set().union(*(segment.reads for segment in segments)) == set(reads)
    assert sum(len(segment.reads) for segment in segments) == len(reads)
    values = {"x": images}
    for segment in segments:
        values |= Session(segment.model).run({name: values[name] for name in segment.inputs})
    np.testing.assert_allclose(values["y"], Session(model).run({"x": images})["y"], rtol=1e-5, atol=1e-6)
    for before, after in pairwise(segments):
        assert set(after.inputs) == set(before.outputs) and len(after.inputs) <= 2


def test_a_model_with_subgraphs_is_one_segment(build) -> None:
    def branch(name: str, factor: float) -> onnx.GraphProto:
        result = build([("Mul", f"h k_{name}", f"o_{name}")], {"h": [1, 32]}, {f"o_{name}": [1, 32]},
                     **{f"k_{name}": np.float32([factor])})  # fmt: skip
        del result.graph.input[:]
        return result.graph

    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal((32, 32)).astype(np.float32) for name in ("w1", "w2")}
    model = build(
        [("MatMul", "x w1", "h"),
         ("If", "which", "o", {"then_branch": branch("a", 2.0), "else_branch": branch("b", 3.0)}),
         ("MatMul", "o w2", "y")],
        {"x": [1, 32], "which": []}, {"y": [1, 32]}, types={"which": TensorProto.BOOL}, **weights,
    )  # fmt: skip
    data = [
        {"x": rng.standard_normal((1, 32)).astype(np.float32), "which": np.array(i % 2 == 0)}
        for i in range(8)
    ]
    analysis = analyze(model, data, progress=False)
    assert analysis.segments == 1 and {"x", "w1", "w2"} <= {part.name for part in analysis.parts}


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    ranks = (np.argsort(np.argsort(values)) for values in (a, b))
    return float(np.corrcoef(*ranks)[0, 1])


@pytest.mark.parametrize("profile", ["intact", "tensorrt"])
def test_shares_are_close_to_those_of_all_subsets(build, profile) -> None:
    """Shapley values (1953): the mean of what each adds, over all orders; here of the squared error."""
    rng = np.random.default_rng(3)
    w = {f"w{i}": (rng.standard_normal((16, 16)) / 4).astype(np.float32) for i in range(3)}
    model = build(
        [("MatMul", "x w0", "a"), ("Relu", "a", "b"), ("MatMul", "b w1", "c"), ("Relu", "c", "d"),
         ("MatMul", "d w2", "y")],
        {"x": ["N", 16]}, {"y": ["N", 16]}, **w,
    )  # fmt: skip
    x = (rng.standard_normal((64, 16)) * np.linspace(0.2, 3, 16)).astype(np.float32)
    swept: list[Sweep] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Sweep, "measure", lambda self, *rest, old=Sweep.measure: swept.append(self) or old(self, *rest)
        )
        analysis = analyze(model, x, profile=profile, **PLAIN)
    reads = [frozenset([(f"n_{layer}", i)]) for layer in "acy" for i in (0, 1)]
    subsets = [s for k in range(7) for s in combinations(range(6), k)]
    trials = [Trial(frozenset().union(*(reads[i] for i in s))) for s in subsets]
    errors = dict(zip(subsets, swept[0].measure(trials), strict=True))
    whole = errors[tuple(range(6))]
    assert errors[()] < 1e-9 * whole and whole == pytest.approx(analysis.error)
    shapley = np.zeros(6)
    for s, i in ((s, i) for s in subsets for i in range(6) if i not in s):
        chance = math.factorial(len(s)) * math.factorial(5 - len(s)) / math.factorial(6)
        shapley[i] += chance * (errors[tuple(sorted((*s, i)))] - errors[s]) / whole
    assert [part.name for part in analysis.parts] == ["x", "w0", "b", "w1", "d", "w2"]
    shares = np.array([part.share for part in analysis.parts])
    assert 0.8 < analysis.added < 1.25
    assert np.abs(shares - shapley).max() < 0.06
    assert spearman(shares, shapley) > 0.8


def test_a_small_budget_measures_groups_and_keeps_their_sum(cnn, images) -> None:
    every, few = (analyze(cnn, images, budget=budget, **PLAIN) for budget in (100, 5))
    assert few.trials < every.trials and not all(part.measured for part in few.parts)
    assert [part.name for part in few.parts] == [part.name for part in every.parts]
    assert few.added == pytest.approx(every.added, rel=0.2)
    figures = by_name(every)
    for part in few.parts:
        if part.measured:
            assert (part.alone, part.without) == pytest.approx(figures[part.name])
        else:
            assert part.without == pytest.approx(max(few.error - part.alone, 0))


def test_equal_inputs_give_equal_files(cnn, images, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.json", "b.json")]
    for file in files:
        intact.analyze(cnn, images, progress=False).save(file)
    assert files[0].read_bytes() == files[1].read_bytes()
    output = json.loads(files[0].read_text())
    assert output["version"] == 1 and len(output["parts"]) == 9 and output["sqnr_db"]["y"] > 40
    item = output["parts"][0]
    assert item["name"] == "x" and item["sqnr_db_alone"] == pytest.approx(-10 * math.log10(item["alone"]))


def test_fewer_runs_are_the_first_of_those_that_are_held(build) -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((64, 16)).astype(np.float32)
    model = build([("MatMul", "x w", "y")], {"x": [1, 64]}, {"y": [1, 16]}, w=w)
    x = rng.standard_normal((12, 64)).astype(np.float32)
    every, few = (analyze(model, x, runs=runs, **PLAIN) for runs in (None, 3))
    assert (every.runs, few.runs) == (12, 3) and few.error != every.error
    assert few.error == pytest.approx(every.error, rel=0.5)


def test_every_setting_of_quantize_is_one_of_analyze(cnn, images) -> None:
    analysis = analyze(
        cnn, images, profile="tensorrt", weights="int8", per_channel=False, rounding=True, method="mse",
        exclude=["n_y"], overrides={"r2": {"activations": "int16"}}, progress=False,
    )  # fmt: skip
    formats = {part.name: part.formats for part in analysis.parts}
    assert formats["r2"] == "int16" and "w4" not in formats and formats["x"] == "int8"
    assert analysis.settings["profile"] == "tensorrt" and analysis.settings["method"] == "mse"
    result = quantize(
        cnn, images, profile="tensorrt", per_channel=False, rounding=True, method="mse", exclude=["n_y"],
        overrides={"r2": {"activations": "int16"}}, progress=False,
    )  # fmt: skip
    assert analysis.sqnr["y"] == pytest.approx(result.sqnr["y"], abs=0.05)


def test_tensors_of_16_bits_are_analyzed_as_such(cnn, images) -> None:
    options = {"bits16": ["pool", "n_y"], "progress": False}
    result, built = analyze(cnn, images, **options), quantize(cnn, images, **options)
    assert built.bits16 and result.sqnr["y"] == pytest.approx(built.sqnr["y"], abs=0.01)
    formats = {part.name: part.formats for part in result.parts}
    assert all(formats[name].endswith("int16") for name in built.bits16)
    assert not any(
        "--bits16" in finding.advice
        for finding in analyze(cnn, images, profile="tensorrt", progress=False).findings
    )


def test_what_cannot_be_analyzed_is_refused_in_words(cnn, images, build) -> None:
    with pytest.raises(QuantValueError, match="budget: got 0, want at least 1"):
        analyze(cnn, images, budget=0)
    with pytest.raises(QuantValueError, match="runs: got 0, want at least 1"):
        analyze(cnn, images, runs=0)
    with pytest.raises(QuantValueError, match=r"later data: .* want"):
        analyze(cnn, images, later=images[:, :2], progress=False)
    with pytest.raises(QuantValueError, match="by: got 'node', want 'tensor' or 'layer'"):
        analyze(cnn, images, by="node")
    with pytest.raises(QuantValueError, match="analyze: data: got statistics of an earlier run"):
        analyze(cnn, calibrate(cnn, images, progress=False))
    with pytest.raises(QuantValueError, match="no layer that can be quantized"):
        analyze(cnn, images, exclude=["*"])
    rng = np.random.default_rng(0)
    w = rng.standard_normal((32, 32)).astype(np.float32)
    argmax = build(
        [("MatMul", "x w", "s"), ("ArgMax", "s", "y", {"axis": 1})], {"x": ["N", 32]}, {"y": ["N", 1]},
        types={"y": TensorProto.INT64}, w=w,
    )  # fmt: skip
    with pytest.raises(QuantValueError, match="model: got no real output"):
        analyze(argmax, rng.standard_normal((16, 32)).astype(np.float32), progress=False)
