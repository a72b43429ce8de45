"""`onnxruntime.quantization` of scripts, with INTact's results where a policy asks for it."""

from __future__ import annotations

import inspect
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import helper
from onnxruntime import quantization as ort_quantization
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    DynamicQuantConfig,
    QuantFormat,
    QuantType,
    StaticQuantConfig,
    matmul_nbits_quantizer,
)
from tests.onnx_models import onnx_model

import intact.ort
from intact.calib import Calibration
from intact.errors import IntactError, QuantValueError, UnsupportedError
from intact.ort import policies
from intact.ort.quantization import arguments
from intact.placement import PROFILES

pytestmark = pytest.mark.usefixtures("quantization")
WIDTH = 64
Files = tuple[Path, Path]


class Reader(CalibrationDataReader):
    """Gives batches of noise, and may be read in ranges."""

    def __init__(self, count: int = 6) -> None:
        self.batches = [{"x": x} for x in batches(count)]
        self.ranges: list[tuple[int, int]] = []
        self.waiting = iter(self.batches)

    def get_next(self) -> Any:
        return next(self.waiting, None)

    def __len__(self) -> int:
        return len(self.batches)

    def set_range(self, start_index: int, end_index: int) -> None:
        self.ranges.append((start_index, end_index))
        self.waiting = iter(self.batches[start_index:end_index])


def batches(count: int, seed: int = 1) -> list[NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((8, 3, 16, 16)).astype(np.float32) for _ in range(count)]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A model of three convolutions, a linear layer and a product of activations, and a path to write."""
    rng = np.random.default_rng(0)
    weights = {
        "w1": rng.standard_normal((16, 3, 3, 3)) / 5,
        "w2": rng.standard_normal((16, 16, 3, 3)) / 12 * np.geomspace(1, 0.01, 16)[:, None, None, None],
        "w3": rng.standard_normal((WIDTH, 16, 3, 3)) / 12 * np.geomspace(1, 100, 16)[None, :, None, None],
        "w4": rng.standard_normal((WIDTH, WIDTH)) / 8,
    }  # fmt: skip
    same = [1, 1, 1, 1]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a1"], name="conv1", pads=same),
        helper.make_node("Relu", ["a1"], ["r1"], name="relu1"),
        helper.make_node("Conv", ["r1", "w2"], ["a2"], name="conv2", pads=same),
        helper.make_node("Relu", ["a2"], ["r2"], name="relu2"),
        helper.make_node("Conv", ["r2", "w3"], ["a3"], name="conv3", pads=same),
        helper.make_node("GlobalAveragePool", ["a3"], ["pooled"], name="pool"),
        helper.make_node("Flatten", ["pooled"], ["flat"], name="flatten"),
        helper.make_node("MatMul", ["flat", "w4"], ["scores"], name="linear"),
        helper.make_node("Transpose", ["flat"], ["turned"], name="transpose", perm=[1, 0]),
        helper.make_node("MatMul", ["scores", "turned"], ["y"], name="product"),
    ]
    model = onnx_model(
        nodes, {"x": ["n", 3, 16, 16]}, {"y": None},
        {name: array.astype(np.float32) for name, array in weights.items()},
    )  # fmt: skip
    onnx.save(model, tmp_path / "float.onnx")
    return tmp_path / "float.onnx", tmp_path / "quantized.onnx"


def decibels(files: Files) -> float:
    """Return what ONNX Runtime's answers to the two files have in common."""
    reference, answers = (
        np.concatenate([_session(path).run(None, {"x": x})[0].ravel() for x in batches(4, seed=2)])
        for path in files
    )
    return float(10 * np.log10(np.sum(reference**2) / np.sum((reference - answers) ** 2)))


def _session(path: Path) -> Any:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def nodes_of(path: Path) -> dict[str, onnx.NodeProto]:
    return {node.name: node for node in onnx.load(path).graph.node}


def op_types(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def read_in_codes(path: Path, node: str) -> bool:
    """Return whether a node of a file reads a DequantizeLinear."""
    nodes = nodes_of(path)
    written = {
        name for other in nodes.values() if other.op_type == "DequantizeLinear" for name in other.output
    }
    return nodes[node].input[0] in written


# --- what there is --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "meanings"),
    [
        (ort_quantization.quantize_static, arguments.STATIC),
        (ort_quantization.quantize_dynamic, arguments.DYNAMIC),
        (StaticQuantConfig, arguments.STATIC),
        (DynamicQuantConfig, arguments.DYNAMIC),
        (matmul_nbits_quantizer.MatMulNBitsQuantizer, arguments.MATMUL_NBITS),
    ],
)
def test_each_argument_of_this_onnxruntime_has_a_meaning(
    function: Callable[..., Any], meanings: dict[str, str]
) -> None:
    assert set(inspect.signature(function).parameters) <= set(meanings)


def test_each_extra_option_that_onnxruntime_reads_has_a_meaning() -> None:
    """Its modules read them by name."""
    folder = Path(ort_quantization.__file__).parent
    text = "\n".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    read = set(re.findall(r"extra_options(?:\.get\(|\[)\"([\w.]+)\"", text))
    read |= set(re.findall(r"\(\"(Calib\w+)\", \"\w+\"\)", text))
    options = {*arguments.STATIC_OPTIONS, *arguments.DYNAMIC_OPTIONS, *arguments.REFUSED}
    assert len(read) > 15
    assert {
        name for name in read if not name.islower()
    } <= options  # calibrators have their own, in lower case


def test_the_policy_names_the_profiles() -> None:
    assert set(policies.TARGETS) == {"off", *PROFILES}
    with pytest.raises(QuantValueError, match="quantization"):
        intact.ort.policy(quantization="int8")


def test_fields_of_weight_only_configurations_are_known() -> None:
    """Each is read, or has only its default: a new one of a later version is noticed here."""
    read = {"algorithm", "quant_format", "op_types_to_quantize", "quant_axes", "customized_weight_config",
            "block_size", "is_symmetric", "accuracy_level", "bits", "calibration_data_reader"}  # fmt: skip
    from intact.ort.quantization.weights import _DEFAULTS

    for name in ("RTN", "KQuant", "GPTQ", "HQQ", "Default"):
        config = getattr(matmul_nbits_quantizer, f"{name}WeightOnlyQuantConfig")()
        assert set(vars(config)) <= {*read, *_DEFAULTS[config.algorithm]}, name


# --- quantize_static ------------------------------------------------------------------------------------


def test_a_file_for_onnxruntime_is_closer_than_onnxruntimes_own(files: Files, tmp_path: Path) -> None:
    ort_quantization.quantize_static(*files, Reader())
    ours = decibels(files)
    intact.ort.policy(quantization="off")
    ort_quantization.quantize_static(files[0], tmp_path / "theirs.onnx", Reader())
    assert ours > 30 and ours > decibels((files[0], tmp_path / "theirs.onnx"))


def test_off_is_onnxruntimes_own_file(files: Files, tmp_path: Path) -> None:
    intact.ort.policy(quantization="off")
    ort_quantization.quantize_static(*files, Reader())
    intact.ort.uninstall()
    ort_quantization.quantize_static(files[0], tmp_path / "theirs.onnx", Reader())
    assert files[1].read_bytes() == (tmp_path / "theirs.onnx").read_bytes()


def test_operators_are_those_of_onnxruntime(files: Files, caplog: Any) -> None:
    ort_quantization.quantize_static(*files, Reader(), quant_format=QuantFormat.QOperator)
    assert op_types(files[1]).count("QLinearConv") >= 2 and "Relu" not in op_types(files[1])
    assert decibels(files) > 30
    ort_quantization.quantize_static(*files, Reader(), quant_format="QOperator")  # as a script of theirs does
    assert "QLinearConv" not in op_types(files[1]) and "no QuantFormat" in caplog.text


def test_nodes_and_operators_that_a_script_names_decide(files: Files, caplog: Any) -> None:
    ort_quantization.quantize_static(
        *files, Reader(), op_types_to_quantize=["Conv", "Attention"],
        nodes_to_exclude=["conv2", "no such node"],
    )  # fmt: skip
    assert [read_in_codes(files[1], name) for name in ("conv1", "conv2", "linear")] == [True, False, False]
    assert "nodes_to_exclude: not in the model: no such node" in caplog.text
    ort_quantization.quantize_static(
        *files, Reader(), nodes_to_quantize=["conv2", "linear"], op_types_to_quantize=["Conv"]
    )
    assert [read_in_codes(files[1], name) for name in ("conv1", "conv2", "linear")] == [False, True, False]


def test_a_scope_without_a_node_is_refused(files: Files) -> None:
    with pytest.raises(QuantValueError, match="nothing that the model has"):
        ort_quantization.quantize_static(*files, Reader(), op_types_to_quantize=["LSTM"])


@pytest.mark.parametrize(
    ("quant_type", "element"),
    [(QuantType.QUInt8, onnx.TensorProto.UINT8), (QuantType.QInt8, onnx.TensorProto.INT8),
     (QuantType.QInt16, onnx.TensorProto.INT16)],
)  # fmt: skip
def test_activations_have_the_type_that_was_asked_for(files: Files, quant_type: Any, element: int) -> None:
    ort_quantization.quantize_static(*files, Reader(), activation_type=quant_type)
    points = {
        node.input[2] for node in onnx.load(files[1]).graph.node if node.op_type == "QuantizeLinear"
    }  # fmt: skip
    types = {t.data_type for t in onnx.load(files[1]).graph.initializer if t.name in points}
    assert types == {element} and decibels(files) > 25


def test_one_scale_for_each_weight_where_a_script_says_so(files: Files) -> None:
    sizes = []
    for per_channel in (False, True):
        ort_quantization.quantize_static(*files, Reader(), per_channel=per_channel)
        scales = {t.name: t.dims for t in onnx.load(files[1]).graph.initializer}
        sizes.append(list(scales["w2.scale"]))
    assert sizes == [[], [16]]


def test_methods_choose_other_ranges(files: Files) -> None:
    scales = []
    for method, extra in (
        (CalibrationMethod.MinMax, {}), (CalibrationMethod.Entropy, {}),
        (CalibrationMethod.Percentile, {"CalibPercentile": 99.0}),
        (CalibrationMethod.Percentile, {"CalibPercentile": 90.0}),
    ):  # fmt: skip
        ort_quantization.quantize_static(*files, Reader(), calibrate_method=method, extra_options=extra)
        tensors = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(files[1]).graph.initializer}
        scales.append(float(tensors["x.scale"]))
    assert scales[0] > scales[2] > scales[3] and scales[0] >= scales[1]


def test_tensors_get_the_grids_that_a_script_gives(files: Files) -> None:
    overrides = {"x": [{"quant_type": QuantType.QUInt8, "scale": 0.0625, "zero_point": 120}]}
    ort_quantization.quantize_static(
        *files, Reader(),
        extra_options={"TensorQuantOverrides": overrides, "OpTypesToExcludeOutputQuantization": ["Relu"]},
    )  # fmt: skip
    tensors = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(files[1]).graph.initializer}
    assert float(tensors["x.scale"]) == 0.0625 and int(tensors["x.zero_point"]) == 120
    assert read_in_codes(files[1], "conv1") and not read_in_codes(files[1], "conv2")


def test_products_of_activations_stay_in_float_where_a_script_says_so(files: Files) -> None:
    ort_quantization.quantize_static(*files, Reader(), extra_options={"MatMulConstBOnly": True})
    assert not read_in_codes(files[1], "product") and read_in_codes(files[1], "conv2")


def test_a_reader_is_read_in_ranges_where_a_script_says_so(files: Files) -> None:
    reader = Reader()
    ort_quantization.quantize_static(*files, reader, extra_options={"CalibStridedMinMax": 2})
    assert reader.ranges == [(0, 2), (2, 4), (4, 6)] and decibels(files) > 30


@pytest.mark.skipif(
    "calibration_cache_path" not in inspect.signature(ort_quantization.quantize_static).parameters,
    reason="this onnxruntime is older than the argument",
)
def test_statistics_are_kept_under_the_path_that_a_script_gives(files: Files, tmp_path: Path) -> None:
    cache = tmp_path / "statistics"
    ort_quantization.quantize_static(*files, Reader(), calibration_cache_path=cache)
    assert decibels(files) > 30
    ort_quantization.quantize_static(*files, calibration_cache_path=cache)
    intact.quantize(files[0], Calibration.load(cache)).save(tmp_path / "again.onnx")
    assert files[1].read_bytes() == (tmp_path / "again.onnx").read_bytes()
    with pytest.raises(QuantValueError, match="calibration_data_reader"):
        ort_quantization.quantize_static(*files)


def test_weights_lie_in_a_file_of_their_own_where_a_script_says_so(files: Files, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    ort_quantization.quantize_static(*files, Reader(), use_external_data_format=True)
    assert len(set(tmp_path.iterdir()) - before) == 2 and decibels(files) > 30


def test_what_changes_nothing_is_said_once(files: Files, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, logger="intact.ort"):
        ort_quantization.quantize_static(
            *files, Reader(), reduce_range=True, weight_type=QuantType.QUInt8,
            calibration_providers=["CPUExecutionProvider"], extra_options={"DedicatedQDQPair": True},
        )  # fmt: skip
    lines = [record.getMessage() for record in caplog.records if record.name == "intact.ort"]
    assert len(lines) == 1
    for name in ("reduce_range", "weight_type", "calibration_providers", "DedicatedQDQPair"):
        assert name in lines[0]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"extra_options": {"CalibMovingAverage": True}}, "CalibMovingAverage"),
        ({"extra_options": {"WeightSymmetric": False}}, "WeightSymmetric"),
        ({"extra_options": {"MinimumRealRange": 0.1}}, "MinimumRealRange"),
        ({"extra_options": {"NoSuchOption": 1}}, "NoSuchOption"),
        ({"extra_options": ["SmoothQuant"]}, "extra_options"),
        ({"extra_options": {"TensorQuantOverrides": {"x": [{"convert": {}, "scale": 1.0}, {}]}}}, "'x'"),
        ({"extra_options": {"TensorQuantOverrides": {"x": [{"axis": 1}]}}}, "'x'"),
        ({"extra_options": {"TensorQuantOverrides": {"no": [{"scale": 1.0}]}}}, "'no'"),
        ({"calibrate_method": CalibrationMethod.Distribution}, "calibrate_method"),
        ({"activation_type": "int8"}, "activation_type"),
        ({"nodes_to_exclude": [1]}, "nodes_to_exclude"),
        ({"calibration_data_reader": [1]}, "calibration_data_reader"),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(files: Files, options: dict[str, Any], name: str) -> None:
    with pytest.raises(IntactError, match=name):
        ort_quantization.quantize_static(*files, **{"calibration_data_reader": Reader(), **options})
    assert not files[1].exists()


def test_seven_bits_are_refused_for_engines_that_may_need_them(files: Files) -> None:
    intact.ort.policy(quantization="onnxruntime")
    with pytest.raises(UnsupportedError, match="reduce_range"):
        ort_quantization.quantize_static(*files, Reader(), reduce_range=True)


# --- configurations, quantize_dynamic -------------------------------------------------------------------


def test_configurations_quantize_likewise(files: Files) -> None:
    ort_quantization.quantize(*files, StaticQuantConfig(Reader(), activation_type=QuantType.QUInt8))
    assert read_in_codes(files[1], "conv2") and decibels(files) > 30
    ort_quantization.quantize(files[0], files[1], ort_quantization.get_qdq_config(files[0], Reader()))
    assert read_in_codes(files[1], "conv2") and decibels(files) > 25
    ort_quantization.quantize(*files, DynamicQuantConfig(nodes_to_exclude=["nothing"]))
    assert op_types(files[1]).count("MatMulNBits") == 1
    ort_quantization.quantize(*files, matmul_nbits_quantizer.RTNWeightOnlyQuantConfig())
    assert op_types(files[1]).count("MatMulNBits") == 1
    with pytest.raises(TypeError, match="Invalid quantization config"):
        ort_quantization.quantize(*files, "int8")


def test_linear_layers_get_ranges_while_the_model_runs(files: Files, caplog: Any) -> None:
    ort_quantization.quantize_dynamic(
        *files, op_types_to_quantize=["MatMul", "Conv"], per_channel=True, weight_type=QuantType.QUInt8
    )
    assert op_types(files[1]).count("MatMulNBits") == 1 and op_types(files[1]).count("ConvInteger") == 3
    assert "stay in float" not in caplog.text and "per_channel" in caplog.text
    ort_quantization.quantize_dynamic(*files, op_types_to_quantize=["MatMul", "Softmax"])
    assert "ConvInteger" not in op_types(files[1]) and decibels(files) > 35
    assert "Softmax stay in float" in caplog.text
    with pytest.raises(UnsupportedError, match="op_types_to_quantize"):
        ort_quantization.quantize_dynamic(*files, op_types_to_quantize=["Softmax"])
    with pytest.raises(UnsupportedError, match="weight_type"):
        ort_quantization.quantize_dynamic(*files, weight_type=QuantType.QInt16)


@pytest.mark.parametrize("requested", [None, ["Gather"], ["Gather", "MatMul"], ["MatMul"]])
def test_rows_of_tables_get_codes(tmp_path: Path, requested: list[str] | None) -> None:
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], name="embed"),
        helper.make_node("MatMul", ["rows", "w"], ["y"], name="linear"),
    ]
    weights = {name: rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) for name in ("table", "w")}
    inputs = {"ids": helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["n"])}
    model = onnx_model(nodes, list(inputs.values()), {"y": ["n", WIDTH]}, weights)
    files = tmp_path / "float.onnx", tmp_path / "quantized.onnx"
    onnx.save(model, files[0])
    ort_quantization.quantize_dynamic(*files, op_types_to_quantize=requested)
    wanted = requested or ["Gather", "MatMul"]
    assert ("GatherBlockQuantized" in op_types(files[1])) == ("Gather" in wanted)
    assert ("MatMulNBits" in op_types(files[1])) == ("MatMul" in wanted)
    names = {tensor.name for tensor in onnx.load(files[1]).graph.initializer}
    assert ("table" in names) == ("Gather" not in wanted), "the table in float is gone"
    ids = np.arange(WIDTH)[::-1].copy()
    outputs = [_session(path).run(None, {"ids": ids})[0] for path in files]
    noise = float(np.sum((outputs[0] - outputs[1]) ** 2))
    assert 35 < 10 * np.log10(float(np.sum(outputs[0] ** 2)) / noise) < 60


# --- MatMulNBitsQuantizer -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "operator", "least"),
    [
        ({"block_size": 32, "accuracy_level": 4}, "MatMulNBits", 15),
        ({"block_size": 32, "is_symmetric": True, "quant_format": QuantFormat.QDQ}, "DequantizeLinear", 15),
        ({"bits": 8, "block_size": 16}, "MatMulNBits", 40),
        ({"algo_config": "KQuantWeightOnlyQuantConfig", "block_size": 32}, "MatMulNBits", 15),
        ({"algo_config": "HQQWeightOnlyQuantConfig"}, "MatMulNBits", 15),
        ({"algo_config": "GPTQWeightOnlyQuantConfig", "block_size": 32}, "MatMulNBits", 15),
    ],
)
def test_weights_in_blocks_are_written_as_a_script_asks(
    files: Files, options: dict[str, Any], operator: str, least: float
) -> None:
    if (name := options.get("algo_config")) is not None:
        data = {"calibration_data_reader": Reader()} if name.startswith("GPTQ") else {}
        options = {**options, "algo_config": getattr(matmul_nbits_quantizer, name)(**data)}
    quantizer = matmul_nbits_quantizer.MatMulNBitsQuantizer(str(files[0]), **options)
    quantizer.process()
    quantizer.model.save_model_to_file(str(files[1]))
    assert op_types(files[1]).count(operator) == 1 and decibels(files) > least


def test_single_nodes_of_weights_in_blocks(files: Files, caplog: Any) -> None:
    config = matmul_nbits_quantizer.RTNWeightOnlyQuantConfig(customized_weight_config={"linear": {"bits": 8}})
    quantizer = matmul_nbits_quantizer.MatMulNBitsQuantizer(
        onnx.load(files[0]), nodes_to_include=["linear"], algo_config=config
    )
    quantizer.process()
    (node,) = [node for node in quantizer.model.nodes() if node.op_type == "MatMulNBits"]
    assert {a.name: a.i for a in node.attribute}["bits"] == 8 and "nodes_to_include" in caplog.text


@pytest.mark.parametrize(
    "options",
    [
        {"accuracy_level": 2},
        {"quant_axes": (("MatMul", 1),)},
        {"op_types_to_quantize": ("Gather",)},
        {"algo_config": matmul_nbits_quantizer.GPTQWeightOnlyQuantConfig(actorder=True)},
        {"algo_config": matmul_nbits_quantizer.RTNWeightOnlyQuantConfig(ratios={"linear": 0.9})},
    ],
)
def test_what_blocks_cannot_have_is_refused_by_name(files: Files, options: dict[str, Any]) -> None:
    quantizer = matmul_nbits_quantizer.MatMulNBitsQuantizer(onnx.load(files[0]), **options)
    with pytest.raises(UnsupportedError, match=r"actorder|ratios|accuracy_level|quant_axes|op_types"):
        quantizer.process()


# --- scripts --------------------------------------------------------------------------------------------

SCRIPT = """
import sys
import numpy as np
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

class Reader(CalibrationDataReader):
    def __init__(self):
        rng = np.random.default_rng(0)
        self.data = iter([{"x": rng.standard_normal((8, 3, 16, 16)).astype(np.float32)} for _ in range(4)])
    def get_next(self):
        return next(self.data, None)

quantize_static(sys.argv[1], sys.argv[2], Reader(), weight_type=QuantType.QInt8)
quantizer = MatMulNBitsQuantizer(sys.argv[1], block_size=32)
quantizer.process()
quantizer.model.save_model_to_file(sys.argv[3])
"""


@pytest.mark.parametrize("target", ["intact", ""])
def test_a_script_runs_unedited(files: Files, tmp_path: Path, target: str) -> None:
    script, blocks = tmp_path / "script.py", tmp_path / "blocks.onnx"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "intact.ort", script, *files, blocks],
        capture_output=True, text=True, check=False,
        env={**os.environ, "INTACT_ORT_QUANTIZATION": target, "INTACT_ORT_CACHE": str(tmp_path / "cache")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (onnx.load(files[1]).producer_name == "onnx.quantize") == (target == "")
    assert decibels(files) > (30 if target else 0) and op_types(blocks).count("MatMulNBits") == 1
