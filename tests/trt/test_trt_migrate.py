"""From implicit int8 to a Q/DQ file: what is read, what is measured, and what is written."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.onnx_models import onnx_model

from intact.calib import TrtCache
from intact.cli.error_handling import run_verb
from intact.errors import IntactError
from intact.graph.files import io, save
from intact.trt.migration import ImplicitRecipe, migrate, read_ranges

SCRIPT = """
    import sys
    import numpy as np
    import tensorrt as trt

    class Calibrator(trt.IInt8EntropyCalibrator2):
        def __init__(self):
            super().__init__()
            rng = np.random.default_rng(1)
            self.batches = iter(rng.standard_normal((4, 1, 8, 12, 12)).astype(np.float32))
        def get_batch_size(self):
            return 1
        def get_batch(self, names):
            batch = next(self.batches, None)
            return None if batch is None else [batch]

    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    config = builder.create_builder_config()
    parser = trt.OnnxParser(network, logger)
    assert parser.parse_from_file(sys.argv[1])
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = Calibrator()
    engine = builder.build_engine(network, config)
    print("engine of", engine.num_layers, "layers")
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A network with a residual addition, and a product that no scale is given for in `scales`."""
    make, rng = onnx.helper.make_node, np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        values = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        return onnx.numpy_helper.from_array(values.astype(np.float32), name)

    pads = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        make("Conv", ["x", "w1"], ["c1"], name="conv1", **pads), make("Relu", ["c1"], ["r1"], name="relu1"),
        make("Conv", ["r1", "w2"], ["c2"], name="conv2", **pads),
        make("Add", ["c2", "r1"], ["a"], name="add"),
        make("Relu", ["a"], ["r2"], name="relu2"), make("GlobalAveragePool", ["r2"], ["g"], name="pool"),
        make("Flatten", ["g"], ["f"], name="flat"), make("Gemm", ["f", "w3"], ["y"], name="fc", transB=1),
    ]  # fmt: skip
    weights = [weight("w1", 16, 8, 3, 3), weight("w2", 16, 16, 3, 3), weight("w3", 10, 16)]
    onnx.save(onnx_model(nodes, {"x": [1, 8, 12, 12]}, {"y": [1, 10]}, weights), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


RANGES = {"x": 4.0, "r1": 5.0, "r2": 6.0, "g": 2.0, "f": 2.0}


@pytest.fixture
def ranges(tmp_path: Path) -> Path:
    """Dynamic ranges as TensorRT's sampleINT8API reads them."""
    path = tmp_path / "ranges.txt"
    path.write_text("".join(f"{name}: {amax}\n" for name, amax in RANGES.items()))
    return path


def test_ranges_are_read_from_text_json_and_caches(tmp_path: Path, ranges: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps({n: [-v / 2, v] for n, v in RANGES.items()}))
    scales = read_ranges(ranges)[0].scales
    assert read_ranges(tmp_path / "r.json")[0].scales == scales
    assert scales["x"] == np.float32(4 / 127)
    TrtCache(scales).save(tmp_path / "c")
    assert read_ranges(tmp_path / "c") == (TrtCache(scales), "calibration cache")


@pytest.mark.parametrize(
    "text",
    ["", "x\n", "x: one\n", "x: 1\nx: 2\n", "x: -1\n", "x: 1e999\n", '{"x": "1"}', '{"x": [1, 2, 3]}', "{"],
)
def test_what_is_no_range_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "r").write_text(text)
    with pytest.raises(IntactError):
        read_ranges(tmp_path / "r")


def test_the_file_answers_as_the_implicit_engine_and_layers_without_a_range_stay_in_float(
    model: Path, ranges: Path
) -> None:
    cache, kind = read_ranges(ranges)
    done = migrate(ImplicitRecipe(model, cache, kind))
    assert done.answers.is_equal and done.answers.samples == 8 and "noise" in done.data
    assert {layer.after for layer in done.answers.layers} == {"int8"}
    assert all(layer.difference.compared for layer in done.answers.layers)
    assert all(layer.loss_after.noise > 0 for layer in done.answers.layers)
    less = TrtCache({name: s for name, s in cache.scales.items() if name not in ("f", "g")})
    partly = migrate(ImplicitRecipe(model, less, kind))
    assert partly.answers.is_equal and partly.from_cache.missing
    layers = {layer.name: (layer.before, layer.after) for layer in partly.answers.layers}
    assert layers["fc"] == ("float", "float") and layers["conv2"] == ("int8", "int8")


def test_pins_are_kept_and_an_excluded_layer_shows_as_a_change(model: Path, ranges: Path) -> None:
    cache, kind = read_ranges(ranges)
    pinned = migrate(ImplicitRecipe(model, cache, kind, floats=("conv1",)))
    layers = {layer.name: (layer.before, layer.after) for layer in pinned.answers.layers}
    assert layers["conv1"] == ("float", "float") and pinned.answers.is_equal
    changed = migrate(ImplicitRecipe(model, cache, kind), exclude=["fc"])
    layers = {layer.name: (layer.before, layer.after) for layer in changed.answers.layers}
    assert layers["fc"] == ("int8", "float")
    assert not changed.answers.is_equal and 0 < changed.answers.largest < 1
    (output,) = changed.answers.outputs
    assert output.loss_after.noise < output.loss_before.noise


def test_the_verb_writes_file_and_page_and_says_what_it_measured(
    model: Path, ranges: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out" / "q.onnx"
    out.parent.mkdir()
    assert run_verb(["migrate", str(ranges), "--onnx", str(model), "-o", str(out)]) == 0
    assert "are those of the implicit engine, to the bit, on 8 batches of noise" in capsys.readouterr().out
    assert {path.name for path in out.parent.iterdir()} == {"q.onnx", "q.html"}
    page = (out.parent / "q.html").read_text()
    assert "conv2" in page and "dynamic ranges" in page
    onnx.checker.check_model(onnx.load(out), full_check=True)


def test_weights_that_fill_no_file_lie_beside_it(
    model: Path, ranges: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(save, "MAX_BYTES", 2**20)  # stands for 2 GiB; the file itself needs one of them
    monkeypatch.setattr(io, "MAX_BYTES", 100)
    out = tmp_path / "out" / "q.onnx"
    out.parent.mkdir()
    assert run_verb(["migrate", str(ranges), "--onnx", str(model), "-o", str(out)]) == 0
    assert {path.name for path in out.parent.iterdir()} == {"q.onnx", "q.onnx.data", "q.html"}
    assert "to the bit" in (out.parent / "q.html").read_text()


def test_a_script_runs_only_when_asked_and_its_patch_runs_on_the_new_file(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script, out = tmp_path / "build.py", tmp_path / "q.onnx"
    script.write_text(textwrap.dedent(SCRIPT))
    before = set(tmp_path.iterdir())
    assert run_verb(["migrate", str(script), "-o", str(out)]) == 2
    assert "let it run with --run" in capfd.readouterr().err and set(tmp_path.iterdir()) == before
    assert run_verb(["migrate", str(script), "--run", "-o", str(out), "--json", "--", str(model)]) == 0
    shown = capfd.readouterr()
    record = json.loads(shown.out)
    assert "engine of" in shown.err and record["equal"] and record["by_hand"] == []
    assert record["measured_on"] == "the first 4 batches of the calibrator"
    patch = (tmp_path / "q.patch").read_text()
    assert "+engine = trt.Runtime(builder.logger).deserialize_cuda_engine(" in patch
    assert "-class Calibrator(trt.IInt8EntropyCalibrator2):" in patch


def test_nothing_is_written_where_a_part_fails(model: Path, ranges: Path, tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    before = set(tmp_path.iterdir())
    command = ["migrate", str(ranges), "--onnx", str(model), "-o", str(tmp_path / "q.onnx")]
    assert run_verb([*command, "--page", str(tmp_path / "page")]) == 2
    ranges.write_text("nobody: 1.0\n")
    assert run_verb(command) == 2
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--onnx"), (["--cache", "r"], "leave out --cache"), (["--run"], "leave out --run"),
        (["--build", "0"], "leave out --build"), (["--", "word"], "leave out arguments"),
    ],
)  # fmt: skip
def test_options_that_mean_nothing_are_refused(
    arguments: list[str], says: str, ranges: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r").write_text("x: 1\n")
    assert run_verb(["migrate", str(ranges), "-o", "q.onnx", *arguments]) == 2
    assert says in capsys.readouterr().err
