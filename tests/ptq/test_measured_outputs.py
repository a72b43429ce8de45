"""Errors are measured in front of NonMaxSuppression, TopK or NonZero where these choose an output's rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

import intact
from intact import graph
from intact.ptq.analysis import analyze
from intact.ptq.measure.measured_outputs import outputs_to_measure
from intact.ptq.measure.output_errors import OutputReference, align_rows

_INT = TensorProto.INT64
_TYPES = {"sel": _INT, "where": _INT, "order": _INT}


def _detector(
    tail: list[tuple[Any, ...]], outputs: dict[str, list[Any]], *, seed: int = 0, **more: np.ndarray
) -> onnx.ModelProto:
    """Three Convs, raw [N, 5, 64] behind them, its boxes [N, 64, 4] and scores [N, 1, 64]; then `tail`."""
    rng = np.random.default_rng(seed)
    weights = {
        "w0": rng.standard_normal((8, 3, 3, 3)) * 0.27,
        "w1": rng.standard_normal((8, 8, 3, 3)) * 0.17,
        "wh": rng.standard_normal((5, 8, 1, 1)) * 0.5,
        "iou": np.array([0.5]), "thr": np.array([0.5]), "half": np.array(0.5),
    }  # fmt: skip
    numbers = {
        "shape": np.array([0, 5, -1]), "four": np.array([4, 1]), "most": np.array([20]), "two": np.array(2),
        "first": np.array([0]), "last": np.array([-1]),
    }  # fmt: skip
    arrays = {name: array.astype(np.float32) for name, array in weights.items()} | numbers | more
    body: list[tuple[Any, ...]] = [
        ("Conv", "x w0", "c0", {"pads": [1] * 4}), ("Relu", "c0", "r0"),
        ("Conv", "r0 w1", "c1", {"pads": [1] * 4}), ("Relu", "c1", "r1"),
        ("Conv", "r1 wh", "head"), ("Reshape", "head shape", "raw"),
        ("Split", "raw four", "left right", {"axis": 1}),
        ("Transpose", "left", "boxes", {"perm": [0, 2, 1]}), ("Sigmoid", "right", "scores"),
    ]  # fmt: skip
    nodes = [_node(*item) for item in body + tail]
    output_infos = [
        helper.make_tensor_value_info(n, _TYPES.get(n, TensorProto.FLOAT), shape)
        for n, shape in outputs.items()
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    return onnx_model(nodes, [x], output_infos, arrays)


def _node(op: str, ins: str, outs: str, attributes: dict[str, Any] | None = None) -> onnx.NodeProto:
    outputs = outs.split()
    return helper.make_node(op, ins.split(), outputs, name=f"n_{outputs[0]}", **(attributes or {}))


_NMS: list[tuple[Any, ...]] = [
    ("NonMaxSuppression", "boxes scores most iou thr", "sel", {"center_point_box": 1}),
    ("Gather", "sel two", "index", {"axis": 1}),
    ("Squeeze", "boxes first", "plain"),
    ("Gather", "plain index", "dets", {"axis": 0}),
]
_TOP: list[tuple[Any, ...]] = [
    ("Squeeze", "scores first", "flat"),
    ("TopK", "flat most", "best order"),
    ("Squeeze", "order first", "index"),
    ("Gather", "boxes index", "dets", {"axis": 1}),
]
_FOUND: list[tuple[Any, ...]] = [
    ("Squeeze", "scores", "flat"),
    ("Greater", "flat half", "above"),
    ("NonZero", "above", "where"),
    ("Transpose", "where", "index", {"perm": [1, 0]}),
    ("Squeeze", "boxes first", "plain"),
    ("GatherND", "plain index", "dets"),
]
_COMPRESSED: list[tuple[Any, ...]] = [
    ("Squeeze", "scores", "flat"),
    ("Greater", "flat half", "above"),
    ("Squeeze", "boxes first", "plain"),
    ("Compress", "plain above", "dets", {"axis": 0}),
]
_ONE: list[tuple[Any, ...]] = [
    ("ArgMax", "scores", "place", {"axis": 2, "keepdims": 0}),
    ("Squeeze", "place", "index"),
    ("Gather", "boxes index", "dets", {"axis": 1}),
]
_CLASSES: list[tuple[Any, ...]] = [
    ("ArgMax", "left", "label", {"axis": 1, "keepdims": 0}),
    ("Cast", "label", "dets", {"to": TensorProto.FLOAT}),
]
_TAILS = {
    "NonMaxSuppression": (_NMS, {"left", "scores"}),
    "TopK": (_TOP, {"left", "scores"}),
    "NonZero": (_FOUND, {"left", "scores"}),
    "Compress": (_COMPRESSED, {"left", "scores"}),
    "ArgMax": (_ONE, {"left", "scores"}),
    "labels as floats": (_CLASSES, {"head"}),
}


@pytest.mark.parametrize("kind", _TAILS)
def test_what_enters_a_selection_is_measured_in_place_of_what_leaves_it(kind):
    tail, _ = _TAILS[kind]
    result = outputs_to_measure(graph.load(_detector(tail, {"dets": None})))  # type: ignore[dict-item]
    assert "dets" in result.replaced and "dets" not in result.names and not result.unordered
    assert set(result.names) <= {"head", "raw", "left", "right", "scores", "boxes", "plain", "flat"}
    assert len(result.names) >= (1 if kind == "labels as floats" else 2)


def test_selected_indices_alone_are_measured_by_what_enters_too():
    result = outputs_to_measure(graph.load(_detector(_FOUND[:3], {"where": ["a", "k"]})))
    assert result.names == ("scores",)


def test_a_selection_by_inputs_is_exact_and_outputs_behind_it_are_measured_themselves():
    masked = [("ReduceMax", "x", "largest"), ("Greater", "x largest", "m"), ("NonZero", "m", "where")]
    result = outputs_to_measure(graph.load(_detector(masked, {"where": ["a", "k"], "boxes": [1, 64, 4]})))
    assert result.names == ("where", "boxes") and not result.replaced


def test_layers_behind_a_selection_are_measured_with_rows_in_any_order():
    w2 = np.random.default_rng(1).standard_normal((4, 7)).astype(np.float32)
    model = _detector([*_TOP, ("MatMul", "dets w2", "second")], {"second": [1, 20, 7]}, w2=w2)
    result = outputs_to_measure(graph.load(model))
    assert result.names == ("second",) and result.unordered == {"second"}


def test_a_second_selection_is_measured_by_what_layers_behind_the_first_give_it():
    w2 = np.random.default_rng(1).standard_normal((4, 1)).astype(np.float32)
    tail = [
        *_TOP, ("MatMul", "dets w2", "second"), ("Squeeze", "second last", "again"),
        ("TopK", "again few", "final place"),
    ]  # fmt: skip
    model = _detector(tail, {"final": [1, 5]}, w2=w2, few=np.array([5]))
    result = outputs_to_measure(graph.load(model))
    assert result.unordered and "final" in result.replaced and result.names == ("again",)


def test_rows_that_scatter_puts_back_are_compared_place_by_place():
    tail = [
        *_FOUND[:4], ("Squeeze", "boxes first", "plain"), ("GatherND", "plain index", "dets"),
        ("Relu", "dets", "changed"), ("ScatterND", "plain index changed", "whole"),
    ]  # fmt: skip
    result = outputs_to_measure(graph.load(_detector(tail, {"whole": [64, 4]})))
    assert result.names == ("whole",) and not result.unordered


@pytest.mark.parametrize("tail", [_NMS, _TOP, _FOUND, _COMPRESSED])
@pytest.mark.parametrize("seed", range(2))
def test_layers_in_int8_do_not_depend_on_the_selection_behind_them(tail, seed):
    x = np.random.default_rng(7).random((24, 3, 8, 8)).astype(np.float32)
    head = ["n_head", "n_raw", "n_left", "n_boxes", "n_scores"]
    results = [
        intact.quantize(
            _detector(behind, outputs, seed=seed), x, progress=False,
            exclude=[*head, *(f"n_{item[2].split()[0]}" for item in behind)],
        )
        for behind, outputs in ((tail, {"dets": None}), ([], {"boxes": [1, 64, 4], "scores": [1, 1, 64]}))
    ]  # fmt: skip
    int8 = [{r["layer"] for r in item.explain() if r["precision"] == "int8"} for item in results]
    assert int8[0] == int8[1] and {"n_c0", "n_c1"} <= int8[0]
    assert "dets" not in results[0].sqnr and min(results[0].sqnr.values()) > 20
    assert any("output 'dets'" in note for note in results[0].notes)


def test_analysis_measures_what_enters_a_selection():
    x = np.random.default_rng(7).random((8, 3, 8, 8)).astype(np.float32)
    analysis = analyze(_detector(_NMS, {"dets": None}), x, progress=False)  # type: ignore[dict-item]
    assert "dets" not in analysis.sqnr and min(analysis.sqnr.values()) > 20


def test_a_row_more_is_not_a_loss_of_all_rows():
    want = np.array([[1, 2], [30, 4]], np.float32)
    got = np.array([[9, 9], [30, 5], [1, 2]], np.float32)
    errors, squares = OutputReference.of(want, None).errors_of(got)
    assert errors.sum() == 1 and squares.sum() == 1 + 4 + 900 + 16


def test_a_row_that_has_no_counterpart_is_lost_alone():
    want = np.array([[1, 2], [30, 4]], np.float32)
    errors, _ = OutputReference.of(want, None).errors_of(np.array([[30, 4]], np.float32))
    assert errors.sum() == 5


def test_equal_sizes_are_compared_in_any_order_only_where_values_order_them():
    want = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert OutputReference.of(want, None).errors_of(want[::-1])[0].sum() > 0
    assert OutputReference.of(want, None, True).errors_of(want[::-1])[0].sum() == 0


@pytest.mark.parametrize("shape", [(2, 3), (4,), (0, 2), (1, 2, 2)])
def test_rows_are_matched_or_all_is_lost_in_any_shape(shape):
    want = np.ones((3, 2), np.float32)
    errors, squares = OutputReference.of(want, None).errors_of(np.zeros(shape, np.float32))
    assert errors.sum() == squares.sum() == 6


def test_no_rows_match_no_rows():
    assert align_rows(np.ones((3, 2)), np.zeros((0, 2))).shape == (0, 2)  # type: ignore[union-attr]
