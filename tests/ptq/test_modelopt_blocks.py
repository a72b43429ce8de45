"""Configurations of ModelOpt with floats in blocks, ranges of a run and quantizers of attention.

Each is compared with a judge that rounds floats by ml_dtypes, written apart from the package.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.onnx_models import onnx_model

import intact
import intact.trt as trt
from intact import graph
from intact.errors import IntactError, QuantValueError, UnsupportedError
from intact.placement.checks import check
from intact.ptq.modelopt import NAMES
from intact.ptq.modelopt.configurations import configuration_of

RNG = np.random.default_rng(56)
K, N, HEADS, D = 256, 64, 2, 32
GRIDS = {
    8: (127.0, None), 4: (7.0, None), (4, 3): (448.0, ml_dtypes.float8_e4m3fn),
    (2, 1): (6.0, ml_dtypes.float4_e2m1fn), (3, 2): (28.0, ml_dtypes.float6_e3m2fn),
}  # fmt: skip


def round_to(x: np.ndarray, bits: Any) -> np.ndarray:
    most, dtype = GRIDS[bits]
    if dtype is None:
        return np.clip(np.rint(x), -most - 1, most)
    return np.clip(x, -most, most).astype(np.float32).astype(dtype).astype(np.float32)


def judge(x: np.ndarray, fields: Any, amax: float | None = None) -> np.ndarray:
    """Round a matrix as one quantizer says; `amax`: its calibrated range, where that is not its own."""
    if isinstance(fields, list):
        for part in fields:
            x = judge(x, part)
        return x
    if fields.get("enable") is False:
        return x
    bits, sizes = fields["num_bits"], fields.get("block_sizes", {})
    most = np.float32(GRIDS[bits][0])
    own = np.abs(x).max() if amax is None else np.float32(amax)
    if not sizes:
        largest = np.abs(x).max(1, keepdims=True) if fields.get("axis") == 0 else own
        return (round_to(x / (largest / most), bits) * (largest / most)).astype(np.float32)
    width, height = sizes[-1] or x.shape[1], min(sizes.get(-2, 1), len(x))
    tiles = np.abs(x).reshape(len(x) // height, height, -1, width).max((1, 3))
    scale = np.repeat(tiles, height, 0) / most
    if sizes.get("scale_bits") == (8, 0):
        scale = np.float32(2) ** np.ceil(np.log2(scale.astype(np.float64))).astype(np.float32)
    elif sizes.get("scale_bits") == (4, 3):
        coarse = own / (most * np.float32(448))
        scale = np.minimum(scale / coarse, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * coarse
    scale = np.repeat(scale, width, 1)
    return (round_to(x / scale, bits) * scale).astype(np.float32)


def linear_model(
    weight: np.ndarray, *, transposed: bool = False, dtype: type = np.float32
) -> onnx.ModelProto:
    stored = numpy_helper.from_array((weight if transposed else weight.T).astype(dtype), "mlp.up.weight")
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ports = [
        helper.make_tensor_value_info("x", kind, ["b", K]),
        helper.make_tensor_value_info("y", kind, ["b", N]),
    ]
    node = (
        helper.make_node("Gemm", ["x", "mlp.up.weight"], ["y"], name="/mlp/up/Gemm", transB=1)
        if transposed
        else helper.make_node("MatMul", ["x", "mlp.up.weight"], ["y"], name="/mlp/up/MatMul")
    )
    return onnx_model([node], ports[:1], ports[1:], [stored], opset=21)


WEIGHT = (RNG.standard_normal((N, K)) * np.exp(RNG.standard_normal((N, K)))).astype(np.float32)
DATA = [{"x": RNG.standard_normal((8, K)).astype(np.float32)} for _ in range(4)]
X = DATA[0]["x"] * 0.7
ATTENTION = [name for name in NAMES if "KV" in name or "MHA" in name]
PLAIN = ["INT8_DEFAULT_CFG", "INT8_SMOOTHQUANT_CFG", "INT8_WEIGHT_ONLY_CFG", "FP8_DEFAULT_CFG"]
SEARCHED = [name for name in NAMES if "AWQ" in name or "SVD" in name]
JUDGED = [name for name in NAMES if name not in (*ATTENTION, *PLAIN, *SEARCHED)]


def run(path: Path, **feeds: np.ndarray) -> np.ndarray:
    return np.asarray(intact.compile(path)(*feeds.values()))


@pytest.mark.parametrize("name", JUDGED)
@pytest.mark.parametrize("transposed", [False, True])
def test_linear_layers_are_those_of_the_judge(name: str, transposed: bool, tmp_path: Path) -> None:
    result = intact.quantize(linear_model(WEIGHT, transposed=transposed), DATA, modelopt=name, progress=False)
    result.save(tmp_path / "m.onnx")
    config = configuration_of(name)["quant_cfg"]
    weights = next(value for key, value in config.items() if key.endswith("weight_quantizer"))
    inputs = next(
        (value for key, value in config.items() if key.endswith("input_quantizer")), {"enable": False}
    )
    calibrated = (
        None
        if configuration_of(name)["algorithm"] is None
        else max(float(np.abs(batch["x"]).max()) for batch in DATA)
    )
    want = judge(X, inputs, calibrated).astype(np.float64) @ judge(WEIGHT, weights).T.astype(np.float64)
    np.testing.assert_allclose(run(tmp_path / "m.onnx", x=X), want, rtol=0, atol=2e-5 * np.abs(want).max())
    findings = check(graph.load(tmp_path / "m.onnx"), "tensorrt11")
    assert [finding.message for finding in findings if finding.severity == "error"] == []


@pytest.mark.parametrize("name", SEARCHED)
def test_searches_lose_no_more_than_ranges_alone(name: str, tmp_path: Path) -> None:
    rows = WEIGHT.copy()
    rows[:, 3] *= 0.01
    loud = [{"x": batch["x"] * np.where(np.arange(K) == 3, 60, 1).astype(np.float32)} for batch in DATA]
    model, exact = linear_model(rows), loud[0]["x"] @ rows.T
    errors = {}
    for method in (configuration_of(name)["algorithm"], "max"):
        config = configuration_of(name) | {"algorithm": method}
        result = intact.quantize(model, loud, modelopt=config, progress=False)
        result.save(tmp_path / "m.onnx")
        errors[str(method)] = float(np.square(run(tmp_path / "m.onnx", x=loud[0]["x"]) - exact).mean())
    searched, plain = errors.values()
    assert searched <= plain * 1.0001


def test_a_low_rank_product_takes_what_codes_lose(tmp_path: Path) -> None:
    wide = np.outer(RNG.standard_normal(N), RNG.standard_normal(K)).astype(np.float32) * 20 + WEIGHT * 0.1
    errors = {}
    for name in ("NVFP4_AWQ_LITE_CFG", "NVFP4_SVDQUANT_DEFAULT_CFG"):
        intact.quantize(linear_model(wide), DATA, modelopt=name, progress=False).save(tmp_path / "m.onnx")
        errors[name] = np.square(run(tmp_path / "m.onnx", x=X) - X @ wide.T).mean()
    assert errors["NVFP4_SVDQUANT_DEFAULT_CFG"] < errors["NVFP4_AWQ_LITE_CFG"] / 2


def attention_model() -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    ports = [value(name, 1, ["b", HEADS, "t", D]) for name in "qkv"]
    inits = [numpy_helper.from_array(np.float32(D**-0.5), "scale")]
    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "kt"], ["s"], name="/transformer_blocks.0/attn/MatMul"),
        helper.make_node("Mul", ["s", "scale"], ["m"]),
        helper.make_node("Softmax", ["m"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"], name="/transformer_blocks.0/attn/MatMul_1"),
    ]
    return onnx_model(nodes, ports, [value("y", 1, ["b", HEADS, "t", D])], inits, opset=21)


def rows_of(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1, x.shape[-1])


def attention_judge(
    config: dict[str, Any], feeds: dict[str, np.ndarray], seen: list[dict[str, np.ndarray]]
) -> Any:
    def settings(kind: str) -> dict[str, Any]:
        keys = {"q": "*q_bmm", "k": "*k_bmm", "v": "*v_bmm"}
        settings_of_kind = {"enable": False}
        for key, fields in config.items():
            if key.startswith((keys[kind], "*[kv]_bmm" if kind in "kv" else keys[kind])):
                settings_of_kind = fields
        return settings_of_kind

    def hadamard(x: np.ndarray) -> np.ndarray:
        h = np.ones((1, 1))
        while len(h) < D:
            h = np.kron(np.array([[1, 1], [1, -1]]), h)
        return (x @ h / np.sqrt(D)).astype(np.float32)

    def through_quantizer(kind: str) -> np.ndarray:
        fields = settings(kind)
        turn = hadamard if fields.get("rotate") else np.asarray
        x, all_x = turn(feeds[kind]), np.concatenate([turn(part[kind]) for part in seen])
        mean = (
            all_x.mean((0, 2), keepdims=True, dtype=np.float64).astype(np.float32)
            if fields.get("bias")
            else 0
        )
        amax = float(np.abs(all_x - mean).max())
        return judge(rows_of(x - mean), fields, amax).reshape(x.shape) + mean

    q, k, v = map(through_quantizer, "qkv")
    s = np.float64(q) @ np.swapaxes(k, -1, -2) * D**-0.5
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize("name", [name for name in ATTENTION if "MHA" not in name])
def test_attention_is_that_of_the_judge(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    seen = [
        {n: (rng.standard_normal((2, HEADS, 5, D)) + i).astype(np.float32) for i, n in enumerate("qkv")}
        for _ in range(3)
    ]  # fmt: skip
    result = intact.quantize(attention_model(), seen, modelopt=name, progress=False)
    result.save(tmp_path / "m.onnx")
    want = attention_judge(configuration_of(name)["quant_cfg"], seen[1], seen)
    np.testing.assert_allclose(
        run(tmp_path / "m.onnx", **seen[1]), want, atol=5e-6 * np.abs(want).max(), rtol=0
    )
    # far from the float model, so that a quantizer that does nothing is seen
    floats = attention_judge({}, seen[1], seen)
    assert np.abs(floats - want).max() > 1e-3 * np.abs(want).max()


def test_probabilities_and_results_of_attention_get_fp8(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    seen = [{n: rng.standard_normal((2, HEADS, 5, D)).astype(np.float32) for n in "qkv"}]
    result = intact.quantize(attention_model(), seen, modelopt="NVFP4_FP8_MHA_CONFIG", progress=False)
    kinds = {name.rpartition(": ")[2] for name in result.layers}
    assert kinds == {
        "q_bmm_quantizer", "k_bmm_quantizer", "v_bmm_quantizer", "softmax_quantizer", "bmm2_output_quantizer",
    }  # fmt: skip
    result.save(tmp_path / "m.onnx")
    y = run(tmp_path / "m.onnx", **seen[0])
    scale = np.abs(y).max() / 448
    np.testing.assert_allclose(round_to(y / scale, (4, 3)) * scale, y, atol=1e-6)


@pytest.mark.parametrize("name", ["NVFP4_DEFAULT_CFG", "MXFP8_DEFAULT_CFG", "INT4_AWQ_CFG"])
def test_files_are_parsed_by_the_stand_in_for_tensorrt(name: str, tmp_path: Path) -> None:
    intact.quantize(linear_model(WEIGHT), DATA, modelopt=name, progress=False).save(tmp_path / "m.onnx")
    logger = trt.Logger()
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    assert trt.OnnxParser(network, logger).parse((tmp_path / "m.onnx").read_bytes())
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    profile.set_shape("x", (1, K), (8, K), (8, K))
    config.add_optimization_profile(profile)
    engine = builder.build_engine_with_config(network, config)
    np.testing.assert_allclose(
        engine.engine.run({"x": X})["y"], run(tmp_path / "m.onnx", x=X), rtol=1e-5, atol=1e-4
    )


def test_float16_models_keep_their_type(tmp_path: Path) -> None:
    half = linear_model(WEIGHT, dtype=np.float16)
    data = [{"x": batch["x"].astype(np.float16)} for batch in DATA]
    intact.quantize(half, data, modelopt="NVFP4_DEFAULT_CFG", progress=False).save(tmp_path / "m.onnx")
    y = run(tmp_path / "m.onnx", x=X.astype(np.float16))
    assert y.dtype == np.float16
    error = np.square(y.astype(np.float32) - X @ WEIGHT.T).mean() / np.square(X @ WEIGHT.T).mean()
    assert error < 0.05


def test_patterns_choose_layers_by_the_names_of_modules(tmp_path: Path) -> None:
    result = intact.quantize(linear_model(WEIGHT), modelopt="MXFP4_MLP_WEIGHT_ONLY_CFG", progress=False)
    assert list(result.layers) == ["/mlp/up/MatMul"]
    config = configuration_of("MXFP8_DEFAULT_CFG")
    config["quant_cfg"] = {**config["quant_cfg"], "*mlp*": {"enable": False}}
    with pytest.raises(QuantValueError, match="leaves it in float"):
        intact.quantize(linear_model(WEIGHT), modelopt=config, progress=False)


def test_layers_may_differ(tmp_path: Path) -> None:
    config = {
        "quant_cfg": {
            "*weight_quantizer": {"num_bits": 8, "axis": 0},
            "*mlp*weight_quantizer": {"num_bits": (2, 1), "block_sizes": {-1: 32, "scale_bits": (8, 0)}},
            "default": {"enable": False},
        },
        "algorithm": None,
    }
    result = intact.quantize(linear_model(WEIGHT), modelopt=json.loads(json.dumps(config)), progress=False)
    assert list(result.layers.values()) == ["weights fp4 in blocks of 32, inputs float"]


NV = {"num_bits": (2, 1), "block_sizes": {-1: 16, "type": "dynamic", "scale_bits": (4, 3)}}

STORED = {"num_bits": 8, "block_sizes": {-1: 16}}
DOUBLE = {"num_bits": 4, "block_sizes": {-1: 16, "scale_bits": 8, "scale_block_sizes": {-1: 4}}}


@pytest.mark.parametrize(
    ("quantizers", "algorithm", "word"),
    [
        ({"*weight_quantizer": NV | {"unsigned": True}}, "max", "unsigned"),
        ({"*weight_quantizer": NV | {"narrow_range": True}}, "max", "narrow_range"),
        ({"*weight_quantizer": NV | {"calibrator": "histogram"}}, "max", "calibrator"),
        ({"*weight_quantizer": NV | {"bits": 4}}, "max", "bits"),
        ({"*weight_quantizer": NV, "*output_quantizer": NV}, "max", "output_quantizer"),
        ({"*weight_quantizer": NV, "*input_quantizer": NV}, None, "algorithm"),
        ({"*weight_quantizer": NV}, {"method": "awq_lite", "alpha": 1}, "alpha"),
        ({"*weight_quantizer": NV}, {"method": "svdquant", "lowrank": -1}, "lowrank"),
        ({"*weight_quantizer": NV}, "gptq", "gptq"),
        ({"*weight_quantizer": {"num_bits": (2, 1)}, "*input_quantizer": NV}, "max", "num_bits"),
        ({"*weight_quantizer": NV, "*input_quantizer": NV | {"bias": {-1: None}}}, "max", "bias"),
        ({"*weight_quantizer": [NV, NV]}, "max", "second quantizer"),
        ({"*weight_quantizer": NV, "*input_quantizer": STORED}, "max", "stored"),
        ({"*weight_quantizer": DOUBLE}, "max", "scales that are quantized"),
        ({"*q_bmm_quantizer": {"enable": False, "rotate": True}}, "max", "rotate"),
        ({"*[kv]_bmm_quantizer": NV | {"bias": {-2: None, "type": "dynamic"}}}, "max", "bias"),
        ({"nn.GRU": {"*": NV}, "*weight_quantizer": NV}, "max", "nn.GRU"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_by_its_field(quantizers: Any, algorithm: Any, word: str) -> None:
    model = attention_model() if "bmm" in str(quantizers) else linear_model(WEIGHT)
    data = [{n: np.ones((1, HEADS, 3, D), np.float32) for n in "qkv"}] if "bmm" in str(quantizers) else DATA
    config = {"quant_cfg": quantizers | {"default": {"enable": False}}, "algorithm": algorithm}
    with pytest.raises(IntactError) as error:
        intact.quantize(model, data, modelopt=config, progress=False)
    assert word in str(error.value)


def test_missing_data_and_missing_attention_are_said() -> None:
    with pytest.raises(QuantValueError, match="none for stored ranges"):
        intact.quantize(linear_model(WEIGHT), modelopt="NVFP4_DEFAULT_CFG", progress=False)
    with pytest.raises(UnsupportedError, match="no attention is found"):
        intact.quantize(linear_model(WEIGHT), DATA, modelopt="FP8_KV_CFG", progress=False)


def test_blocks_that_do_not_fill_a_layer_leave_it_in_float() -> None:
    config = configuration_of("MXFP8_DEFAULT_CFG")
    odd = {"num_bits": (4, 3), "block_sizes": {-1: 48, "type": "dynamic", "scale_bits": (8, 0)}}
    config["quant_cfg"] = {**config["quant_cfg"], "*input_quantizer": odd}
    with pytest.raises(QuantValueError, match="do not fill its 256 inputs"):
        intact.quantize(linear_model(WEIGHT), modelopt=config, progress=False)
