"""Tensors of strings: they go through a plan in ONNX Runtime and in Python, beside what kernels do."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.loaders.seeds import plan_file, plan_parts
from tests.onnx_models import onnx_graph, onnx_model

import intact
from intact.errors import FileFormatError, QuantValueError

STRING, FLOAT, INT64, BOOL = (
    getattr(onnx.TensorProto, kind) for kind in ("STRING", "FLOAT", "INT64", "BOOL")
)
node = helper.make_node
Ports = list[tuple[str, int, list[int | str] | None]]


def text(*words: str) -> np.ndarray:
    return np.array(words, object)


def model(
    nodes: list[Any], inputs: Ports, outputs: Ports, opset: int = 20, **constants: Any
) -> onnx.ModelProto:
    info = helper.make_tensor_value_info
    return onnx_model(
        nodes,
        [info(*port) for port in inputs],
        [info(*port) for port in outputs],
        [_tensor(name, np.asarray(array)) for name, array in constants.items()],
        opset=opset,
        domains={"ai.onnx.ml": 3},
        ir_version=9,
    )


def _tensor(name: str, array: np.ndarray) -> onnx.TensorProto:
    if array.dtype.kind != "O":
        return numpy_helper.from_array(array, name)
    words = [str(word).encode() for word in array.reshape(-1)]
    return helper.make_tensor(name, STRING, array.shape, words)


def branch(name: str, source: str) -> onnx.GraphProto:
    info = helper.make_tensor_value_info(name, STRING, ["n"])
    return onnx_graph([node("Identity", [source], [name])], (), [info], name=name)


NOISE = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
ROWS = np.array([["a", "bé"], ["", "dd"], ["e", "f"]], object)
N, AB = ["n"], ["a", "b"]
CASES: dict[str, tuple[onnx.ModelProto, dict[str, np.ndarray]]] = {
    "Identity": (
        model([node("Identity", ["x"], ["y"])], [("x", STRING, N)], [("y", STRING, N)]),
        {"x": text("a", "bé")},
    ),
    "a scalar": (
        model([node("Identity", ["x"], ["y"])], [("x", STRING, [])], [("y", STRING, [])]),
        {"x": np.array("word", object)},
    ),
    "an input that is an output": (
        model([node("Relu", ["f"], ["g"])], [("x", STRING, N), ("f", FLOAT, AB)],
              [("g", FLOAT, AB), ("x", STRING, N)]),
        {"x": text("a", "b"), "f": NOISE},
    ),
    "an input that nobody reads": (
        model([node("Relu", ["f"], ["g"])], [("x", STRING, N), ("f", FLOAT, AB)], [("g", FLOAT, AB)]),
        {"x": text("a", "b"), "f": NOISE},
    ),
    "moves": (
        model([node("Transpose", ["x"], ["t"]), node("Reshape", ["t", "flat"], ["r"]),
               node("Slice", ["r", "one", "end"], ["y"])],
              [("x", STRING, AB)], [("y", STRING, ["k"])], flat=[-1], one=[1], end=[5]),
        {"x": ROWS},
    ),
    "Gather by what values say": (
        model([node("ArgMax", ["f"], ["i"], axis=1, keepdims=0), node("Gather", ["labels", "i"], ["y"])],
              [("f", FLOAT, ["n", 3])], [("y", STRING, N)], labels=text("cat", "dog", "bird")),
        {"f": NOISE},
    ),
    "labels that are joined": (
        model([node("Concat", ["p", "q"], ["labels"], axis=0), node("Gather", ["labels", "i"], ["y"])],
              [("i", INT64, N)], [("y", STRING, N)], p=text("a"), q=text("bé", "c")),
        {"i": np.array([2, 1, 0])},
    ),
    "Concat and Where": (
        model([node("Concat", ["x", "z"], ["c"], axis=0), node("Where", ["b", "c", "no"], ["y"])],
              [("x", STRING, ["a"]), ("z", STRING, ["b"]), ("b", BOOL, ["c"])], [("y", STRING, ["c"])],
              no=text("no")),
        {"x": text("a"), "z": text("b", "c"), "b": np.array([True, False, True])},
    ),
    "a normalizer of text": (
        model([node("StringNormalizer", ["x"], ["y"], case_change_action="UPPER", stopwords=["b"],
                    is_case_sensitive=0, locale="C")], [("x", STRING, ["a"])], [("y", STRING, ["c"])]),
        {"x": text("a", "b", "c")},
    ),
    "words to numbers": (
        model([node("LabelEncoder", ["x"], ["i"], domain="ai.onnx.ml", keys_strings=["a", "b"],
                    values_int64s=[0, 1], default_int64=2), node("Gather", ["table", "i"], ["e"]),
               node("Relu", ["e"], ["y"])], [("x", STRING, N)], [("y", FLOAT, ["n", 3])], table=NOISE),
        {"x": text("b", "?", "a")},
    ),
    "numbers to words": (
        model([node("Relu", ["f"], ["r"]), node("Cast", ["r"], ["y"], to=STRING)], [("f", FLOAT, AB)],
              [("y", STRING, AB)]),
        {"f": np.float32([[1.5, -2.0]])},
    ),
    "sizes": (
        model([node("Shape", ["x"], ["s"]), node("Reshape", ["f", "s"], ["y"])],
              [("x", STRING, AB), ("f", FLOAT, ["m"])], [("y", FLOAT, AB)]),
        {"x": ROWS, "f": np.float32([1, 2, 3, 4, 5, 6])},
    ),
    "as many words as values say": (
        model([node("Unique", ["x"], ["y", "", "", "count"])], [("x", STRING, N)],
              [("y", STRING, ["k"]), ("count", INT64, ["k"])]),
        {"x": text("a", "b", "a")},
    ),
    "branches": (
        model([node("If", ["b"], ["y"], then_branch=branch("t", "x"), else_branch=branch("e", "z"))],
              [("b", BOOL, []), ("x", STRING, N), ("z", STRING, N)], [("y", STRING, N)]),
        {"b": np.array(False), "x": text("a"), "z": text("b")},
    ),
    "constant outputs": (
        model([node("Relu", ["f"], ["g"]), node("Identity", ["names"], ["y"]),
               node("Gather", ["kept", "i"], ["z"])],
              [("f", FLOAT, AB), ("i", INT64, N)],
              [("g", FLOAT, AB), ("y", STRING, [2]), ("kept", STRING, [2]), ("z", STRING, N)],
              names=text("a", "bé"), kept=text("u", "v")),
        {"f": NOISE, "i": np.array([1, 1])},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_strings_come_out_as_from_onnx_runtime(case: str, tmp_path: Path) -> None:
    proto, feeds = CASES[case]
    want = intact.graph.Session(proto.SerializeToString()).run(feeds)
    engine = intact.compile(proto, threads=1)
    engine.save(tmp_path / "a.plan")
    loaded = intact.load(tmp_path / "a.plan", threads=1)
    as_numpy = {name: array.astype(str) if array.dtype == object else array for name, array in feeds.items()}
    for outputs in (
        engine.run(feeds), engine.run(as_numpy), engine.tap(feeds), loaded.run(feeds),
        intact.run_reference(proto, feeds),
    ):  # fmt: skip
        for name, array in want.items():
            assert outputs[name].dtype == array.dtype
            assert np.array_equal(outputs[name], array)
    assert [port.dtype for port in engine.outputs] == [want[port.name].dtype for port in engine.outputs]
    engine.profile()


def test_kernels_and_parts_with_strings_take_turns() -> None:
    proto = model(
        [
            node("Gather", ["table", "i"], ["e"]), node("Relu", ["e"], ["r"]),
            node("Cast", ["r"], ["words"], to=STRING), node("StringConcat", ["x", "words"], ["joined"]),
            node("Neg", ["r"], ["y"]), node("Identity", ["joined"], ["z"]),
        ],
        [("x", STRING, ["n", 1]), ("i", INT64, N)],
        [("y", FLOAT, ["n", 3]), ("z", STRING, ["n", 3])],
        table=np.float32([[1, -2, 3], [0, 5, -1]]),
    )  # fmt: skip
    engine = intact.compile(proto, threads=2)
    for words, index in ((["a", "b"], [1, 0]), (["c"], [1]), ([], [])):
        feeds = {"x": np.array(words, object).reshape(-1, 1), "i": np.array(index, np.int64)}
        want = intact.graph.Session(proto.SerializeToString()).run(feeds)
        outputs = pickle.loads(pickle.dumps(engine)).run(feeds)
        assert np.array_equal(outputs["z"], want["z"]) and np.array_equal(outputs["y"], want["y"])
    mine = np.empty((1, 3), object)
    engine.run({"x": text("c").reshape(1, 1), "i": np.array([0])}, out={"z": mine})
    assert mine.tolist() == [["c1", "c0", "c3"]]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([1, 2]), "dtype int64"),
        (np.array(["a", 1], object), "expected str"),
        (np.array(["a", None], object), "expected str"),
        (np.array([b"a", b"b"], object), "expected str"),
        (np.array(["a", "\ud800"]), "surrogates"),
        (np.frombuffer(b"\xff\xff\xff\x7f", "<U1"), "maximum character"),
    ],
)
def test_what_is_no_text_is_refused_by_name(array: np.ndarray, message: str) -> None:
    with pytest.raises(QuantValueError, match=rf"input 'x': .*{message}.*array of strings"):
        intact.compile(CASES["Identity"][0]).run({"x": array})


def test_a_network_beside_strings_is_quantized(tmp_path: Path) -> None:
    weight = np.random.default_rng(1).standard_normal((5, 3, 3, 3)).astype(np.float32)
    proto = model(
        [
            node("Conv", ["f", "w"], ["c"], name="conv"), node("Relu", ["c"], ["y"]),
            node("GlobalAveragePool", ["y"], ["p"]), node("Flatten", ["p"], ["q"]),
            node("ArgMax", ["q"], ["i"], axis=1, keepdims=0), node("Gather", ["labels", "i"], ["label"]),
            node("StringConcat", ["x", "label"], ["z"]),
        ],
        [("f", FLOAT, ["n", 3, 8, 8]), ("x", STRING, ["n"])],
        [("y", FLOAT, ["n", 5, 6, 6]), ("z", STRING, ["n"])],
        w=weight, labels=text("cat", "dog", "bird", "cow", "fish"),
    )  # fmt: skip
    images = np.random.default_rng(2).standard_normal((6, 3, 8, 8)).astype(np.float32)
    data = [{"f": images[i : i + 2], "x": np.array(["a ", "the "])} for i in (0, 2, 4)]
    quantized = intact.quantize(proto, data, progress=False)
    assert {row["layer"]: row["precision"] for row in quantized.explain()}["conv"] == "int8"
    quantized.save(tmp_path / "q.onnx")
    want = intact.graph.Session((tmp_path / "q.onnx").read_bytes()).run({**data[0], "x": text("a ", "the ")})
    outputs = intact.compile(tmp_path / "q.onnx").run(data[0])
    assert outputs["z"].tolist() == want["z"].tolist()


def edit_plan(path: Path, edit: Any) -> Path:
    content, arrays = plan_parts(path.read_bytes())
    edit(content)
    path.write_bytes(plan_file(content, arrays))
    return path


def test_plans_that_give_strings_to_kernels_are_refused(tmp_path: Path) -> None:
    proto = model([node("Transpose", ["f"], ["y"])], [("f", INT64, AB)], [("y", INT64, ["b", "a"])])
    intact.compile(proto).save(tmp_path / "a.plan")

    def as_strings(content: dict[str, Any]) -> None:
        for tensor in content["tensors"]:
            tensor["dtype"] = "string"

    with pytest.raises(FileFormatError, match="Transpose_y': got strings, 'f'"):
        intact.load(edit_plan(tmp_path / "a.plan", as_strings))


def test_plans_whose_branches_a_string_decides_are_refused(tmp_path: Path) -> None:
    intact.compile(CASES["branches"][0]).save(tmp_path / "a.plan")

    def decide(content: dict[str, Any]) -> None:
        content["deciding"] = ["x"]

    with pytest.raises(FileFormatError, match="the deciding inputs: got 'x'"):
        intact.load(edit_plan(tmp_path / "a.plan", decide))


def test_plans_that_make_numbers_of_what_is_strings_are_refused(tmp_path: Path) -> None:
    intact.compile(CASES["Identity"][0]).save(tmp_path / "a.plan")

    def as_numbers(content: dict[str, Any]) -> None:
        next(tensor for tensor in content["tensors"] if tensor["name"] == "y")["dtype"] = "int64"

    with pytest.raises(FileFormatError, match="output 'y': got object in the model, want int64"):
        intact.load(edit_plan(tmp_path / "a.plan", as_numbers))


def test_labels_of_any_bytes_are_joined_as_they_are() -> None:
    proto = model(
        [node("Concat", ["p", "q"], ["labels"], axis=0), node("StringConcat", ["labels", "ends"], ["whole"]),
         node("Gather", ["whole", "i"], ["y"])],
        [("i", INT64, N)], [("y", STRING, N)], p=text("a", "b'c'"), q=text("bé"), ends=text("1", "2", "3"),
    )  # fmt: skip
    output = intact.compile(proto).run({"i": np.array([0, 1, 2])})["y"]
    assert output.tolist() == ["a1", "b'c'2", "bé3"]
