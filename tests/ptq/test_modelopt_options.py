"""Configurations of NVIDIA's ModelOpt: each is read as options of `quantize`, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.onnx_models import onnx_model

import intact
from intact.errors import IntactError
from intact.ptq import modelopt_onnx_options, modelopt_options
from intact.ptq.modelopt_options import NAMES

OFF: dict[str, Any] = {"enable": False}
DEFAULTS = {
    "nn.BatchNorm1d": {"*": OFF}, "nn.LeakyReLU": {"*": OFF}, "*lm_head*": OFF, "*router*": OFF,
    "output.*": OFF, "default": OFF,
}  # fmt: skip
"""Quantizers that ModelOpt switches off in all of its configurations."""

INT8, FP8, INT4 = (
    {"num_bits": 8},
    {"num_bits": (4, 3), "axis": None},
    {"num_bits": 4, "block_sizes": {-1: 128}},
)
READ: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "INT8_DEFAULT_CFG": (INT8 | {"axis": 0}, INT8 | {"axis": None}, "max"),
    "INT8_SMOOTHQUANT_CFG": (INT8 | {"axis": 0}, INT8 | {"axis": None}, "smoothquant"),
    "INT8_WEIGHT_ONLY_CFG": (INT8 | {"axis": 0}, OFF, "max"),
    "FP8_DEFAULT_CFG": (FP8, FP8, "max"),
    "INT4_BLOCKWISE_WEIGHT_ONLY_CFG": (INT4 | {"enable": True}, OFF, "max"),
    "INT4_AWQ_CFG": (
        {"num_bits": 4, "block_sizes": {-1: 128, "type": "static"}}, OFF,
        {"method": "awq_lite", "alpha_step": 0.1},
    ),
}  # fmt: skip


def config(weights: Any, inputs: Any, algorithm: Any = "max", **further: Any) -> dict[str, Any]:
    quantizers = {"*weight_quantizer": weights, "*input_quantizer": inputs, **further, **DEFAULTS}
    return {"quant_cfg": quantizers, "algorithm": algorithm}


def through_json(content: Any) -> Any:
    """Return what JSON makes of a configuration: keys are text, tuples are lists."""
    return json.loads(json.dumps(content))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_read(name: str) -> None:
    if name not in READ:
        assert modelopt_options(name).options == {"modelopt": name}
    else:
        by_name = modelopt_options(name).options
        assert by_name == modelopt_options(config(*READ[name])).options
        assert by_name == modelopt_options(through_json(config(*READ[name]))).options


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (config({"num_bits": (3, 2)}, OFF), "num_bits"),
        (config(INT8 | {"axis": 1}, INT8), "weight_quantizer: axis"),
        (config(INT8, INT8 | {"axis": 0}), "input_quantizer: axis"),
        (config(INT4, INT8), "block_sizes"),
        (config(INT8 | {"narrow_range": True}, INT8), "narrow_range"),
        (config(INT8 | {"rotate": True}, INT8), "rotate"),
        (config(INT8 | {"calibrator": "histogram"}, INT8), "calibrator"),
        (config(INT8, INT8, {"method": "smoothquant", "alpha": 0.5}), "alpha"),
        (config(INT8, INT8, **{"nn.GRU": {"*": {"num_bits": 4}}}), "nn.GRU"),
        (config(INT8 | {"bits": 8}, INT8), "bits"),
        (config(INT8, INT8) | {"compress": True}, "compress"),
        ({}, "quant_cfg"), ("INT9_CFG", "INT9_CFG"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_by_its_field(content: Any, names: str) -> None:
    with pytest.raises(IntactError) as error:
        modelopt_options(content)
    assert names in str(error.value)


def test_layers_that_are_switched_off_are_excluded_where_the_model_has_them() -> None:
    content = config(INT8, INT8, **{"nn.Conv2d": {"*": OFF}, "*mlp*weight_quantizer": INT8})
    read = modelopt_options(content, names=["/lm_head/MatMul", "/mlp/MatMul"])
    assert read.options["exclude"] == ("Conv", "*lm_head*") and read.options["include"] == ("*mlp*",)
    assert "exclude" not in modelopt_options(config(INT8, INT8), names=["/conv/Conv"]).options


INT8_OPTIONS = {
    "weights": "int8", "activations": "int8", "per_channel": True, "method": "entropy", "profile": "tensorrt",
}  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ({}, INT8_OPTIONS),
        (
            {"quantize_mode": "fp8", "calibration_method": "max", "log_level": "INFO"},
            {"weights": "fp8e4m3", "activations": "fp8e4m3", "per_channel": False, "method": "max",
             "profile": "tensorrt"},
        ),
        (
            {"quantize_mode": "int4", "calibration_method": "rtn_dq", "block_size": 64,
             "use_zero_point": True},
            {"weights": "uint4", "activations": "float", "block": 64, "method": "rtn"},
        ),
        (
            {"nodes_to_exclude": ["/head/.*"], "op_types_to_quantize": ["Conv"],
             "high_precision_dtype": "fp32"},
            INT8_OPTIONS | {"include": ("Conv",), "exclude": ("/head/*",)},
        ),
    ],
)  # fmt: skip
def test_arguments_of_the_onnx_quantizer_are_read(arguments: dict[str, Any], options: dict[str, Any]) -> None:
    assert modelopt_onnx_options(**arguments).options == options


@pytest.mark.parametrize(
    "arguments",
    [
        {"quantize_mode": "nvfp4"}, {"calibration_method": "awq_clip"}, {"calibration_cache_path": "c"},
        {"high_precision_dtype": "fp16"}, {"disable_mha_qdq": True}, {"trt_plugins": ["a.so"]},
        {"nodes_to_exclude": ["conv(1|2)"]}, {"block_size": 32}, {"unheard": 1}, {"direct_io_types": True},
        {"passes": ["other"]}, {"quantize_mode": "int4", "calibration_method": "awq_full"},
    ],
)  # fmt: skip
def test_arguments_that_cannot_be_followed_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(IntactError, match=next(reversed(arguments))):
        modelopt_onnx_options(**arguments)


@pytest.mark.parametrize("name", READ)
def test_a_model_is_quantized_with_each(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight = onnx.numpy_helper.from_array(rng.standard_normal((128, 8)).astype(np.float32), "w")
    values = [
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [4, s])
        for n, s in (("x", 128), ("y", 8))
    ]
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"], name="fc")
    model = onnx_model([node], values[:1], values[1:], [weight], opset=21)
    data = [{"x": rng.standard_normal((4, 128)).astype(np.float32)} for _ in range(4)]
    result = intact.quantize(model, data, progress=False, **modelopt_options(name).options)
    result.save(tmp_path / "out.onnx")
    kinds = {initializer.data_type for initializer in onnx.load(tmp_path / "out.onnx").graph.initializer}
    wanted = {"INT8": "INT8", "FP8": "FLOAT8E4M3FN", "INT4": "INT4"}[name.split("_")[0]]
    assert getattr(onnx.TensorProto, wanted) in kinds
