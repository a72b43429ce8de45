"""Contents of steps that plan files must not have."""

import pytest

from intact.engine import Plan, Tensor
from intact.engine.files.limits import check_limits
from intact.engine.steps import (
    ArgMax,
    CumSum,
    GatherElements,
    GatherRows,
    GridSample,
    ScatterElements,
    ScatterRows,
    TopK,
)
from intact.errors import FileFormatError


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (TopK("step", (), "x", "y", "i", 2, 1), "axis 2, want one of 2 axes"),
        (TopK("step", (), "x", "y", "i", 0, -1), "-1 elements, want 0 or more"),
        (TopK("step", (), "b", "b2", "i", 0, 1), "got bool, want one of codes"),
        (TopK("step", (), "x", "y", "y2", 0, 1), "got float32, want int64"),
        (ScatterElements("step", (), "x", "i", "x", "y", 2), "axis 2, want one of 2 axes"),
        (ScatterElements("step", (), "x", "x", "x", "y", 0), "want int32 or int64"),
        (ScatterElements("step", (), "x", "i", "i", "y", 0), "want one dtype"),
        (ScatterElements("step", (), "x", "i", "x", "y", 0, "sum"), "got sum, want one of none"),
        (ScatterElements("step", (), "b", "i", "b", "b2", 0, "add"), "add of bool, want one of float32"),
        (ScatterRows("step", (), "x", "i", "x", "y", ()), "sizes of axes"),
        (ScatterRows("step", (), "x", "i", "x", "v", (3,)), "want matrices"),
        (GatherRows("step", (), "x", "i", "y", (-1,)), "sizes of axes"),
        (GatherRows("step", (), "x", "i", "i2", (3,)), "want one dtype"),
        (GridSample("step", (), "x", "x", "y"), "want images"),
    ],
)
def test_files_cannot_ask_for_what_no_step_does(step, message):
    shapes = dict.fromkeys(("x", "y", "y2"), "float32")
    shapes |= {"i": "int64", "i2": "int64", "b": "bool", "b2": "bool"}
    tensors = {name: Tensor(name, dtype, (3, 4)) for name, dtype in shapes.items()}
    tensors["v"] = Tensor("v", "float32", (3,))
    with pytest.raises(FileFormatError, match=message):
        check_limits(Plan((step,), tensors, {}, ("x", "i", "b", "v"), (step.y,)), {})


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (CumSum("step", (), "x", "y", 2), "axis 2, want one of 2 axes"),
        (CumSum("step", (), "b", "b2", 0), "got bool, want one of float32"),
        (CumSum("step", (), "x", "i2", 0), "want one dtype"),
        (ArgMax("step", (), "x", "i2", -1), "axis -1, want one of 2 axes"),
        (ArgMax("step", (), "b", "i2", 0), "got bool, want one of float32"),
        (ArgMax("step", (), "x", "y", 0), "got float32, want int64"),
        (GatherElements("step", (), "x", "i", "y", 2), "axis 2, want one of 2 axes"),
        (GatherElements("step", (), "x", "x", "y", 0), "want int32 or int64"),
        (GatherElements("step", (), "x", "i", "i2", 0), "want one dtype"),
        (GatherElements("step", (), "x", "v", "y", 0), "want one rank for all"),
    ],
)
def test_files_cannot_ask_for_what_nothing_along_an_axis_does(step, message):
    shapes = {"x": "float32", "y": "float32", "i": "int64", "i2": "int64", "b": "bool", "b2": "bool"}
    tensors = {name: Tensor(name, dtype, (3, 4)) for name, dtype in shapes.items()}
    tensors["v"] = Tensor("v", "int64", (3,))
    with pytest.raises(FileFormatError, match=message):
        check_limits(Plan((step,), tensors, {}, ("x", "i", "b", "v"), (step.y,)), {})
