"""build, run, bench and verify: what they say, what they write, and how they fail."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.onnx_models import onnx_model

import intact
from intact.cli.verbs import bench
from intact.cli.verbs.verify import sentences
from intact.engine.files import plan_files as files
from intact.kernels.registry import ISA_LEVELS, instructions


@pytest.fixture
def plan(int8: Path, tmp_path: Path) -> Path:
    """The quantized network as a plan."""
    intact.compile(int8, threads=1).save(tmp_path / "net.plan")
    return tmp_path / "net.plan"


def test_build_writes_a_plan_that_runs(run, int8: Path, tmp_path: Path, samples: Path) -> None:
    status, shown, _ = run("build", int8, "-o", tmp_path / "out.plan", "--notes", "--threads", 1)
    assert status == 0
    for word in ("layers in int8", "native steps", "subgraphs in ONNX Runtime", "bytes after"):
        assert word in shown
    x = np.load(samples)
    assert np.array_equal(intact.load(tmp_path / "out.plan")(x), intact.compile(int8)(x))


def test_build_fixes_shapes(run, int8: Path, tmp_path: Path) -> None:
    port = intact.compile(int8, threads=1).inputs[0]
    sizes = [dim if isinstance(dim, int) else 3 for dim in port.shape]
    fixed = f"{port.name}:{'x'.join(map(str, sizes))}"
    status, _, _ = run("build", int8, "-o", tmp_path / "fixed.plan", "--shapes", fixed)
    assert status == 0
    assert intact.load(tmp_path / "fixed.plan").inputs[0].shape == tuple(sizes)
    status, _, output = run("build", int8, "-o", tmp_path / "no.plan", "--shapes", f"{port.name}:3x")
    assert status == 2 and "--shapes" in output and not (tmp_path / "no.plan").exists()


def test_build_says_as_json_what_it_built(run, int8: Path, tmp_path: Path) -> None:
    status, shown, _ = run("build", int8, "-o", tmp_path / "out.plan", "--json")
    output = json.loads(shown)
    assert status == 0
    assert output["steps"]["conv"] == 2 and output["layers"]["int8"] >= 4 and output["onnxruntime"] == {}
    assert output["bytes"] == {"before": int8.stat().st_size, "after": (tmp_path / "out.plan").stat().st_size}


@pytest.mark.parametrize("batch", [1, "n"])
@pytest.mark.parametrize("counts", [(1, 1, 2, 1, 3, 1), (2, 2, 2)])
def test_run_keeps_which_rows_are_whose_where_values_decide_how_many(
    run, tmp_path: Path, batch: int | str, counts: tuple[int, ...]
) -> None:
    x = np.zeros((len(counts), 8), np.float32)
    for image, above in enumerate(counts):
        x[image, :above] = 1
    nodes = [helper.make_node("NonZero", ["x"], ["t"]), helper.make_node("Transpose", ["t"], ["y"])]
    model = onnx_model(nodes, {"x": [batch, 8]}, {"y": (7, ["k", 2])})
    onnx.save(model, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", x)
    words = ("--data", tmp_path / "x.npy", "-o", tmp_path / "y.npz", "--batch-size", 1, "--json")
    status, shown, _ = run("run", tmp_path / "m.onnx", *words)
    output = json.loads(shown)
    assert status == 0 and output["samples"] == len(counts) and output["batches"] == [1] * len(counts)
    with np.load(tmp_path / "y.npz") as result:
        assert tuple(len(result[f"y.{number}"]) for number in range(len(counts))) == counts


@pytest.mark.parametrize("kind", ["a plan", "a file"])
def test_run_writes_every_output(
    run, int8: Path, plan: Path, samples: Path, tmp_path: Path, kind: str
) -> None:
    model = plan if kind == "a plan" else int8
    out = tmp_path / "out.npz"
    status, shown, _ = run("run", model, "--data", samples, "-o", out, "--batch-size", 5, "--json")
    output = json.loads(shown)
    assert status == 0 and output["samples"] == 16 and output["outputs"] == {"prob": [16, 10]}
    with np.load(out) as result:
        assert np.array_equal(result["prob"], intact.compile(int8)(np.load(samples)))


def test_run_gives_the_integer_references_answers(run, int8: Path, samples: Path, tmp_path: Path) -> None:
    out, x = tmp_path / "out.npz", np.load(samples)
    status, _, _ = run("run", int8, "--data", samples, "-o", out, "--reference", "--json")
    assert status == 0
    with np.load(out) as result:
        assert np.array_equal(result["prob"], intact.run_reference(int8, x)["prob"])


def test_run_profiles_every_step(run, plan: Path) -> None:
    status, shown, _ = run("run", plan, "--profile", "--threads", 1, "--json")
    timed = json.loads(shown)["profile"]
    assert status == 0
    assert [item["name"] for item in timed if item["kind"] == "conv"] == ["/conv1", "/conv2"]
    assert "GMAC/s" in run("run", plan, "--profile")[1]


def test_run_needs_something_to_do(run, plan: Path) -> None:
    status, _, output = run("run", plan)
    assert status == 2
    assert (
        output
        == "intact: --data, --profile: got neither, want one of the two. Fix: say what to run the model on\n"
    )


def test_bench_times_models_side_by_side(run, plan: Path, net: Path) -> None:
    words = ("--threads", 1, "--batch", 2, "--seconds", 0, "--rounds", 1)
    status, shown, _ = run("bench", plan, net, "--peers", *words)
    assert status == 0
    for word in (
        "batch 2, 1 thread",
        "intact: net.plan",
        "intact: net.onnx",
        "onnxruntime: net.onnx",
        "ratio",
    ):
        assert word in shown
    status, shown, _ = run("bench", plan, "--json", *words)
    output = json.loads(shown)
    (case,) = output["cases"]
    assert status == 0 and output["batch"] == 2
    assert case["instructions"] == instructions("gemm")
    assert case["engine"] == "intact" and 0 < case["ms"] <= case["median_ms"] and case["runs"] >= 10


def test_bench_keeps_both_sides_to_the_same_instructions(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment said before; ONNX Runtime has no such switch, and the table says so."""
    monkeypatch.setenv("INTACT_MAX_ISA", "none")
    sides = {engine: bench.Case(engine, net, isa=bench.Isa.AVX2) for engine in ("intact", *bench.PEERS)}
    for side in sides.values():
        assert side.environment()["INTACT_MAX_ISA"] == "avx2"
        assert side.environment()["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    assert sides["intact"].instructions() == instructions("gemm", "avx2")
    assert sides["openvino"].instructions() == "AVX2"
    assert sides["onnxruntime"].instructions() == "all there are"
    assert not sides["onnxruntime"].has_limit
    assert bench.Case("intact", net).instructions() == "none"
    assert set(bench.Isa) < set(ISA_LEVELS)
    assert set(bench.ONEDNN_NAMES) == set(bench.Isa)


def test_bench_takes_the_inputs_of_a_file(run, net: Path, tmp_path: Path) -> None:
    name = onnx.load(net).graph.input[0].name
    words = ("--threads", 1, "--seconds", 0, "--rounds", 1, "--json", "--data")
    np.savez(tmp_path / "other.npz", other=np.zeros(3, np.float32))
    status, _, output = run("bench", net, *words, tmp_path / "other.npz")
    assert status == 2 and f"no array '{name}'" in output
    status, _, output = run("bench", net, *words, net)
    assert status == 2 and output.count("\n") == 1
    sizes = [dim.dim_value or 1 for dim in onnx.load(net).graph.input[0].type.tensor_type.shape.dim]
    np.savez(tmp_path / "inputs.npz", **{name: np.zeros(sizes, np.float32)})
    status, shown, _ = run("bench", net, *words, tmp_path / "inputs.npz")
    assert status == 0 and json.loads(shown)["cases"][0]["ms"] > 0


def test_bench_of_a_file_that_does_not_run_names_it(run, tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    status, _, output = run("bench", tmp_path / "broken.onnx", "--seconds", 0)
    assert status == 2
    assert (
        output.startswith(f"intact: intact, file '{tmp_path / 'broken.onnx'}': got ")
        and output.count("\n") == 1
    )


def test_verify_finds_the_engine_exact(run, int8: Path, samples: Path) -> None:
    status, shown, _ = run("verify", int8, "--data", samples, "--all")
    assert status == 0
    assert "codes, engine against integer reference: 0 of" in shown
    assert "top-1, engine against reference: 0 of 8 differ" in shown
    assert "top-1, engine against file in ONNX Runtime: 0 of 16 differ" in shown
    assert "/conv1" in shown
    flat = " ".join(shown.split())
    assert "outputs, engine against integer reference: 0 of 80 differ" in flat
    assert "outputs, engine against file in ONNX Runtime: " in flat
    assert "in other runtimes 1 float step (Softmax x 1) may round differently" in flat


def test_verify_as_json_has_every_tensor(run, int8: Path, plan: Path, samples: Path) -> None:
    words = ("--plan", plan, "--data", samples, "--traced", 2, "--threads", 1, "--json")
    status, shown, _ = run("verify", int8, *words)
    output = json.loads(shown)
    assert status == 0 and output["exact"] and output["samples"] == output["traced"] == 16
    assert output["first"]["engine"] is None
    assert output["outputs"]["reference"] == {
        "compared": 160,
        "differing": 0,
        "largest": 0.0,
        "decibels": None,
    }
    assert output["outputs"]["file"]["compared"] == 160 and output["float_steps"] == {"Softmax": 1}
    assert output["parts"] == [] and "leaves" in output
    assert output["codes"]["engine"]["differing"] == 0 < output["codes"]["engine"]["compared"]
    assert {t["layer"] for t in output["tensors"]} >= {"/conv1", "/conv2", "/fc"}


def test_verify_names_the_layer_where_a_plan_departs(run, int8: Path, samples: Path, tmp_path: Path) -> None:
    """The plan is that of another model: one weight of /conv2 differs."""
    model = onnx.load(int8)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.shape == (16, 16, 3, 3):
            other = array.copy()
            other[:, :, 1, 1] = -other[:, :, 1, 1]
            tensor.CopyFrom(numpy_helper.from_array(other, tensor.name))
    onnx.save(model, tmp_path / "other.onnx")
    intact.compile(tmp_path / "other.onnx").save(tmp_path / "other.plan")
    status, shown, _ = run("verify", int8, "--plan", tmp_path / "other.plan", "--data", samples)
    assert status == 0, "the engine is the plan's reference; it is the file that says something else"
    assert "first in /conv2" in shown


def test_verify_compares_a_module(run, int8: Path, samples: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "module.py"
    script.write_text(
        "import torch\n"
        "class Same(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.nn.functional.one_hot(torch.zeros(len(x), dtype=torch.long), 10)\n"
        "def load_module():\n"
        "    return Same()\n"
    )
    status, shown, _ = run("verify", int8, "--module", script, "--data", samples, "--json")
    answers = json.loads(shown)["answers"]
    engine = intact.compile(int8)(np.load(samples)).argmax(1)
    assert status == 0
    assert answers["module"] == {
        "compared": 16, "differing": int((engine != 0).sum()), "largest": 0.0
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "got no function load_module, want load_module() that returns the module"),
        ("def load_module():\n    return 3\n", "module: got a int, want a torch.nn.Module"),
    ],
    ids=["no function", "no module"],
)
def test_verify_wants_a_module(
    run, int8: Path, samples: Path, tmp_path: Path, text: str, message: str
) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "module.py"
    script.write_text(text)
    status, _, output = run("verify", int8, "--module", script, "--data", samples)
    assert status == 2 and message in output


def test_explain_reads_a_plan_by_the_same_code(run, int8: Path, plan: Path) -> None:
    rows = [json.loads(run("explain", model, "--json")[1])["layers"] for model in (int8, plan)]
    assert rows[0] == rows[1]
    status, shown, _ = run("explain", plan)
    assert status == 0 and "net.plan: as the file says" in shown and "/conv1" in shown


def test_explain_says_how_sums_become_codes(run, plan: Path) -> None:
    layers = json.loads(run("explain", plan, "--json")[1])["layers"]
    rounding = {row["layer"]: row["rounding"] for row in layers if "conv" in row["steps"]}
    assert set(rounding.values()) <= {"product", "division"} and rounding
    steps = [step for step in files.load(plan).plan.steps if step.kind == "conv"]
    for step in steps:
        assert rounding[step.nodes[0]] == ("division" if step.epilogue.divides else "product")
    assert f"codes by a {rounding[steps[0].nodes[0]]}" in " ".join(run("explain", plan)[1].split())


@pytest.mark.parametrize("verb", ["run", "explain", "bench"])
def test_a_damaged_plan_is_one_line(run, plan: Path, verb: str) -> None:
    content = bytearray(plan.read_bytes())
    content[300] ^= 1
    plan.write_bytes(content)
    words = {"run": ("--profile",), "explain": (), "bench": ("--seconds", 0)}[verb]
    status, _, output = run(verb, plan, *words)
    assert status == 2 and output.startswith("intact: ") and output.count("\n") == 1
    assert str(plan) in output


def test_a_model_without_a_kernel_says_what_runs_elsewhere(run, tmp_path: Path) -> None:
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 4])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 4])
    node = onnx.helper.make_node("LpNormalization", ["x"], ["y"], name="angle")
    model = onnx_model([node], [x], [y])
    onnx.save(model, tmp_path / "angle.onnx")
    status, shown, _ = run("build", tmp_path / "angle.onnx", "-o", tmp_path / "angle.plan")
    assert status == 0 and "in ONNX Runtime: " in shown and "LpNormalization" in shown
    assert [step.kind for step in files.load(tmp_path / "angle.plan").plan.steps] == ["onnx"]
    assert "in ONNX Runtime: " in run("explain", tmp_path / "angle.plan")[1]


def test_outputs_of_unlike_sizes_are_an_array_each() -> None:
    from intact.cli.verbs.run import _concatenate
    from intact.engine.engine import Port

    port, short, long = Port("h", "float32", ("n", "l", 4)), np.zeros((2, 3, 4)), np.ones((2, 5, 4))
    apart = _concatenate(port, [short, long], ["n"], [2, 2])
    assert {name: array.shape for name, array in apart.items()} == {"h.0": (2, 3, 4), "h.1": (2, 5, 4)}
    assert _concatenate(port, [short, short], ["n"], [2, 2])["h"].shape == (4, 3, 4)


def test_tables_fit_a_terminal_of_80_columns(run, net, int8, samples, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    verbs = (
        ("run", int8, "--data", samples, "--profile"), ("explain", int8), ("kernels",),
        ("verify", int8, "--data", samples, "--all"), ("build", int8, "-o", tmp_path / "net.plan"),
        ("calibrate", net, "--data", samples, "--no-progress"),
    )  # fmt: skip
    for words in verbs:
        status, shown, _ = run(*words)
        table = [line for line in shown.splitlines() if line[:1] and line[0] in "┏┃┡│└"]
        assert status == 0 and table and max(map(len, table)) <= 80, words


def test_indices_are_counted_and_have_no_distance() -> None:
    pytest.importorskip("torch")
    from intact.engine.compare.comparison_counts import Comparison, Counts, TensorCounts
    from intact.torch.qdq.verify_export import EndToEnd

    indices, rest = np.array([1, 6624, 3]), np.array([1, 0, 3])
    tensor = TensorCounts("top", "arg", codes=False, indices=True)
    tensor.file.add(indices, rest, indices=True)
    result = Comparison([tensor], traced=3, answers={"file": Counts()})
    result.answers["file"].add(indices, rest, indices=True)
    output = "top-1, engine against file in ONNX Runtime: 1 of 3 differ"
    left = "the file in ONNX Runtime leaves the reference first in the indices 'top' of arg: 1 of 3 differ"
    assert sentences(result)[:2] == [output, left]
    end = EndToEnd()
    end.add(indices, rest, first=True)
    assert (end.answers, end.answers_differing, end.values, end.max_abs_diff) == (3, 1, 0, 0.0)


def test_build_measures_where_it_is_asked_to_and_explain_says_what_decided(run, int8: Path, tmp_path: Path):
    plan, cache = tmp_path / "net.plan", tmp_path / "times.json"
    requested = "--tune-seconds", "0.05", "--timing-cache", cache
    status, shown, _ = run("build", int8, "-o", plan, "--threads", 1, *requested)
    assert status == 0 and cache.is_file() and "forms of layers by" in shown
    status, shown, _ = run("explain", plan, "--kernels", "--json")
    layers = json.loads(shown)["layers"]
    assert status == 0 and layers
    for layer in layers:
        assert (layer["by"] == "cache") == (len(layer["seconds"]) > 1) or layer["by"] == "model"
        assert not layer["seconds"] or layer["runs"] in layer["seconds"]
    status, shown, _ = run("explain", plan, "--kernels")
    assert status == 0 and "chosen by" in shown
    status, _, output = run("build", int8, "-o", plan, "--tune-seconds", "nan")
    assert status == 2 and "seconds" in output


@pytest.fixture
def model_of_labels(tmp_path: Path) -> Path:
    """A network that reads words, and says in words which class is the largest."""
    text, real, info = onnx.TensorProto.STRING, onnx.TensorProto.FLOAT, helper.make_tensor_value_info
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="fc"),
        helper.make_node("ArgMax", ["m"], ["i"], axis=1, keepdims=0),
        helper.make_node("Gather", ["labels", "i"], ["label"]),
        helper.make_node("Concat", ["word", "label"], ["y"], axis=0),
    ]
    weight = np.random.default_rng(0).standard_normal((16, 3)).astype(np.float32)
    onnx.save(
        onnx_model(
            nodes,
            [info("x", real, ["n", 16]), info("word", text, ["n"])],
            [info("m", real, ["n", 3]), info("y", text, ["k"])],
            [
                numpy_helper.from_array(weight, "w"),
                helper.make_tensor("labels", text, [3], [b"cat", b"dog", b"cow"]),
            ],
        ),
        tmp_path / "words.onnx",
    )
    x = np.random.default_rng(1).standard_normal((6, 16)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, word=np.array(["a", "b\u00e9", "", "d", "e", "f"]))
    return tmp_path


def test_words_go_in_and_come_out_of_npz_files(run, model_of_labels: Path) -> None:
    data, q, plan = (model_of_labels / name for name in ("data.npz", "q.onnx", "q.plan"))
    assert run("quantize", model_of_labels / "words.onnx", "--data", data, "-o", q)[0] == 0
    assert run("build", q, "-o", plan)[0] == 0
    assert run("run", plan, "--data", data, "-o", model_of_labels / "out.npz", "--batch-size", 6)[0] == 0
    with np.load(model_of_labels / "out.npz") as out:  # nothing in it is pickled
        assert out["y.0"].dtype.kind == "U"
        assert out["y.0"][:6].tolist() == ["a", "b\u00e9", "", "d", "e", "f"]
        assert set(out["y.0"][6:]) <= {"cat", "dog", "cow"}
    status, shown, _ = run("verify", q, "--data", data)
    assert status == 0 and "engine against integer reference: 0 of" in " ".join(shown.split())


def test_objects_are_read_from_no_file(run, model_of_labels: Path) -> None:
    np.savez(model_of_labels / "data.npz", x=np.zeros((1, 16), np.float32), word=np.array(["a"], object))
    status, _, output = run("run", model_of_labels / "words.onnx", "--data", model_of_labels / "data.npz")
    assert status == 2 and "array 'word'" in output and "no objects" in output
