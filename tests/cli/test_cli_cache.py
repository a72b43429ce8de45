"""``intact cache``: from TensorRT's calibration caches to Q/DQ files, back, and compared."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from intact.calib import TrtCache
from intact.graph import load, quantization_of
from intact.placement import check

CONSTANT = "(Unnamed Layer* 3) [Constant]_output"
NAMES = ["x", "c1", "r1", "p1", "c2", "sum", "r2", "pooled", "flat", "logits", "prob"]
"""TensorRT calibrates before it fuses: a cache has every tensor."""


@pytest.fixture
def table() -> TrtCache:
    """A cache of the network with arbitrary scales: not all of them are a float32 divided by 127."""
    scales = np.random.default_rng(0).uniform(0.01, 0.2, len(NAMES)).astype(np.float32)
    result = dict(zip(NAMES, scales, strict=True))
    return TrtCache(result | {"p1": result["r1"], CONSTANT: np.float32(0.5)})


@pytest.fixture
def cache(table: TrtCache, tmp_path: Path) -> Path:
    table.save(tmp_path / "calibration.cache")
    return tmp_path / "calibration.cache"


def scales(file: Path) -> dict[str, np.float32]:
    graph = load(file).graph
    quantizations = [q for node in graph for value in node.outputs if (q := quantization_of(value))]
    return {
        q.source.name: np.float32(q.scale) for q in quantizations if q.source is not None and q.source.name
    }


def save(proto: onnx.ModelProto, weights: dict[str, np.ndarray], file: Path) -> None:
    for name, array in weights.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(np.float32), name))
    onnx.save(proto, file)


def test_a_cache_becomes_an_explicit_file_with_its_very_scales(
    run, cache: Path, table: TrtCache, net: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.onnx"
    status, shown, err = run("cache", "to-onnx", cache, net, "-o", out)
    assert (status, err) == (0, "")
    assert scales(out) == {name: table.scales[name] for name in ("x", "r1", "r2", "pooled")}
    assert f"1 in the cache, and no tensor of the model:\n  {CONSTANT}\n" in shown
    assert shown.endswith(f"wrote {out}: 4 tensors with their scales from {cache}\n")
    assert [f for f in check(load(out)) if f.severity == "error"] == []
    onnx.checker.check_model(onnx.load(out), full_check=True)


@pytest.mark.parametrize("seed", range(3))
def test_every_scale_survives_the_way_there_and_back(run, net: Path, tmp_path: Path, seed: int) -> None:
    drawn = np.random.default_rng(seed).uniform(1e-6, 1, len(NAMES)).astype(np.float32)
    table = TrtCache(dict(zip(NAMES, drawn, strict=True)))
    table.save(tmp_path / "a.cache")
    run("cache", "to-onnx", tmp_path / "a.cache", net, "-o", tmp_path / "out.onnx")
    assert run("cache", "from-onnx", tmp_path / "out.onnx", "-o", tmp_path / "b.cache")[0] == 0
    back = TrtCache.load(tmp_path / "b.cache").scales
    for name in ("x", "r1", "r2", "pooled"):
        assert back[name] == table.scales[name]
    assert back["p1"] == back["r1"] and back["flat"] == back["pooled"], "moved codes keep their scale"


def test_what_the_cache_lacks_is_not_quantized(
    run, cache: Path, table: TrtCache, net: Path, tmp_path: Path
) -> None:
    TrtCache({n: s for n, s in table.scales.items() if n not in ("r1", "p1")}).save(cache)
    out = tmp_path / "out.onnx"
    status, shown, _ = run("cache", "to-onnx", cache, net, "-o", out, "--json")
    assert status == 0
    output = json.loads(shown)
    assert output["not_in_model"] == [CONSTANT] and "r1" in output["not_in_cache"]
    assert set(scales(out)) == {"x", "r2", "pooled"} and output["pairs"] == 3
    layers = json.loads(run("explain", out, "--json")[1])["layers"]
    assert next(row for row in layers if row["layer"] == "/conv2")["precision"] == "float"


@pytest.mark.parametrize("seed", range(4))
def test_tensors_that_share_a_scale_get_the_widest_of_the_cache(run, tmp_path: Path, seed: int) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        net (float[n, 3, 8, 8] x) => (float[n, 16, 8, 8] y)
        {
            a = Conv <kernel_shape = [1, 1]> (x, wa)
            b = Conv <kernel_shape = [1, 1]> (x, wb)
            joined = Concat <axis = 1> (a, b)
            y = Conv <kernel_shape = [1, 1]> (joined, wy)
        }"""
    )
    shapes = {"wa": (16, 3, 1, 1), "wb": (16, 3, 1, 1), "wy": (16, 32, 1, 1)}
    save(proto, {name: np.ones(shape) for name, shape in shapes.items()}, tmp_path / "net.onnx")
    rng = np.random.default_rng(seed)
    drawn = dict(zip(["x", "a", "b", "joined"], rng.uniform(0.01, 1, 4).astype(np.float32), strict=True))
    TrtCache(drawn).save(tmp_path / "a.cache")
    out = tmp_path / "out.onnx"
    assert run("cache", "to-onnx", tmp_path / "a.cache", tmp_path / "net.onnx", "-o", out)[0] == 0
    widest = max(drawn["a"], drawn["b"])
    assert scales(out) == {"x": drawn["x"], "a": widest, "b": widest}


def test_a_scale_of_zero_becomes_one_and_is_listed(
    run, cache: Path, table: TrtCache, net: Path, tmp_path: Path
) -> None:
    TrtCache(dict(table.scales) | {"pooled": np.float32(0)}).save(cache)
    out = tmp_path / "out.onnx"
    status, shown, err = run("cache", "to-onnx", cache, net, "-o", out)
    assert (status, err) == (0, "")
    assert scales(out)["pooled"] == 1
    assert "1 with scale 0 in the cache (zero throughout): their scale is 1:\n  pooled\n" in shown


def test_a_quantized_file_becomes_a_cache(run, int8: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.cache"
    words = ("--algorithm", "MinMaxCalibration", "--trt-version", "100300")
    status, shown, err = run("cache", "from-onnx", int8, "-o", out, *words)
    assert (status, err, shown) == (0, "", f"wrote {out}: 6 tensors\n")
    cache = TrtCache.load(out)
    assert (cache.version, cache.algorithm) == ("100300", "MinMaxCalibration")
    assert list(cache.scales) == ["x", "r1", "p1", "r2", "pooled", "flat"]
    assert {name: cache.scales[name] for name in scales(int8)} == scales(int8)


def test_what_a_cache_cannot_say_is_left_out_with_a_reason(
    run, net: Path, samples: Path, tmp_path: Path
) -> None:
    quantized, out = tmp_path / "affine.onnx", tmp_path / "out.cache"
    off = ("--bias-correction", "off", "--equalization", "off", "--no-progress")
    (tmp_path / "overrides.yaml").write_text("x: {symmetric: false}\n")
    run("quantize", net, "--data", samples, "-o", quantized, *off, "--activations", "int8", "--method", "max",
        "--overrides", tmp_path / "overrides.yaml")  # fmt: skip
    status, shown, _ = run("cache", "from-onnx", quantized, "-o", out, "--json")
    assert status == 0
    assert json.loads(shown)["left_out"] == {
        "x": "int8 per-tensor asymmetric; a cache has symmetric int8 with one scale per tensor"
    }
    assert "x" not in TrtCache.load(out).scales


def test_equal_caches_are_status_0(run, cache: Path, int8: Path, tmp_path: Path) -> None:
    assert run("cache", "diff", cache, cache) == (0, "12 tensors in both, 0 with other scales\n", "")
    run("cache", "from-onnx", int8, "-o", tmp_path / "int8.cache")
    assert run("cache", "diff", tmp_path / "int8.cache", int8)[0] == 0


def test_other_scales_and_other_names_are_status_1(run, cache: Path, table: TrtCache, tmp_path: Path) -> None:
    other = tmp_path / "other.cache"
    changed = {n: s for n, s in table.scales.items() if n != CONSTANT} | {"new": np.float32(1)}
    TrtCache(changed | {"x": np.float32(2 * table.scales["x"])}).save(other)
    status, shown, err = run("cache", "diff", cache, other)
    assert (status, err) == (1, "")
    assert f"1 only in {cache}:\n  {CONSTANT}\n1 only in {other}:\n  new\n" in shown
    row = next(line for line in shown.splitlines() if line.startswith("│"))
    assert [c.strip() for c in row.split("│")][1::3] == ["x", "2"]
    output = json.loads(run("cache", "diff", cache, other, "--json")[1])
    assert output["only_a"] == [CONSTANT] and output["only_b"] == ["new"] and output["shared"] == 11
    assert output["differing"] == {"x": {"a": float(table.scales["x"]), "b": float(2 * table.scales["x"])}}


def test_a_float_model_is_compared_by_name(run, cache: Path, net: Path) -> None:
    status, shown, _ = run("cache", "diff", cache, net, "--json")
    output = json.loads(shown)
    assert status == 1
    assert (output["only_a"], output["only_b"], output["differing"]) == ([CONSTANT], [], {})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("to-onnx", "{bad}", "{net}", "-o", "{out}"), "intact: file '{bad}': line 2: entry: got 'x: what'"),
        (("to-onnx", "{cache}", "{bad}", "-o", "{out}"), "intact: {bad}: got "),
        (("to-onnx", "{cache}", "{int8}", "-o", "{out}"), "intact: model: got a graph that has Q/DQ pairs"),
        (("to-onnx", "{cache}", "{net}", "-o", "{out}", "--profile", "tpu"), "intact: profile: got 'tpu'"),
        (("to-onnx", "{strange}", "{net}", "-o", "{out}"), "intact: file '{strange}': got no scale of"),
        (("from-onnx", "{net}", "-o", "{out}"), "intact: file '{net}': got no activation"),
        (("from-onnx", "{int8}", "-o", "{out}", "--algorithm", "Max"), "intact: algorithm: got 'Max'"),
        (("from-onnx", "{int8}", "-o", "{out}", "--trt-version", "8.6"), "intact: header: got 'TRT-8.6-"),
        (("diff", "{bad}", "{net}"), "intact: file '{bad}': line 2"),
        (("diff", "{cache}", "{text}"), "intact: {text}: got "),
    ],
    ids=[
        "damaged-cache", "no-model", "quantized-model", "profile", "other-cache", "float-model", "algorithm",
        "version", "diff-damaged", "diff-neither",
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_status_2_and_no_file(
    run, cache: Path, net: Path, int8: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    named = {n: tmp_path / n for n in ("bad", "text", "strange", "out")}
    files = {"cache": cache, "net": net, "int8": int8, **named}
    files["bad"].write_text("TRT-8601-EntropyCalibration2\nx: what\n")
    files["text"].write_text("neither a cache nor a model")
    TrtCache({"strange": np.float32(1)}).save(files["strange"])
    status, _, err = run("cache", *(word.format(**files) for word in words))
    assert status == 2
    assert err.startswith(message.format(**files)) and err.count("\n") == 1
    assert not files["out"].exists()


def test_behind_a_folded_batchnorm_the_scale_of_its_output_counts(run, tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        net (float[n, 3, 8, 8] x) => (float[n, 16, 8, 8] y)
        {
            raw = Conv <kernel_shape = [1, 1]> (x, wa)
            normalized = BatchNormalization (raw, ones, zeros, zeros, ones)
            y = Conv <kernel_shape = [1, 1]> (normalized, wy)
        }"""
    )
    weights = {"wa": np.ones((16, 3, 1, 1)), "wy": np.ones((16, 16, 1, 1))}
    save(proto, weights | {"ones": np.ones(16), "zeros": np.zeros(16)}, tmp_path / "net.onnx")
    drawn = {"x": np.float32(0.1), "raw": np.float32(0.2), "normalized": np.float32(0.3)}
    TrtCache(drawn).save(tmp_path / "a.cache")
    out = tmp_path / "out.onnx"
    assert run("cache", "to-onnx", tmp_path / "a.cache", tmp_path / "net.onnx", "-o", out)[0] == 0
    assert scales(out) == {"x": drawn["x"], "normalized": drawn["normalized"]}


def test_a_tensor_with_two_scales_is_left_out(run, tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 17]>
    net (float[n, 4] x) => (float[n, 4] y)
    <float half = {0.5}, float quarter = {0.25}, int8 zero = {0}>
    {
        xq = QuantizeLinear (x, half, zero)
        xr = DequantizeLinear (xq, half, zero)
        xq2 = QuantizeLinear (x, quarter, zero)
        xr2 = DequantizeLinear (xq2, quarter, zero)
        s = Add (xr, xr2)
        sq = QuantizeLinear (s, half, zero)
        y = DequantizeLinear (sq, half, zero)
    }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "two.onnx")
    status, shown, _ = run("cache", "from-onnx", tmp_path / "two.onnx", "-o", tmp_path / "out.cache")
    assert status == 0
    assert "1 left out:\n  x: its readers have 2 different scales; a cache has one per tensor\n" in shown
    assert dict(TrtCache.load(tmp_path / "out.cache").scales) == {"s": np.float32(0.5)}
