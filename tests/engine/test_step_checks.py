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
        (TopK("step", (), "x", "y", "i", 2, 1), r"axis 2, rank\(x\) 2, want an axis of x"),
        (TopK("step", (), "x", "y", "i", 0, -1), "k -1, want 0 elements or more"),
        (TopK("step", (), "b", "b2", "i", 0, 1), "bool in .b., want one of codes"),
        (TopK("step", (), "x", "y", "y2", 0, 1), "float32 in .y2?., want int64"),
        (ScatterElements("step", (), "x", "i", "x", "y", 2), r"axis 2, rank\(x\) 2, want an axis of x"),
        (ScatterElements("step", (), "x", "x", "x", "y", 0), "want int32 or int64"),
        (ScatterElements("step", (), "x", "i", "i", "y", 0), "want one dtype"),
        (ScatterElements("step", (), "x", "i", "x", "y", 0, "sum"), "got sum, want one of none"),
        (ScatterElements("step", (), "b", "i", "b", "b2", 0, "add"), "add of bool, want one of float32"),
        (ScatterRows("step", (), "x", "i", "x", "y", ()), "sizes of axes"),
        (ScatterRows("step", (), "x", "i", "x", "v", (3,)), "want rank 2"),
        (GatherRows("step", (), "x", "i", "y", (-1,)), "sizes of axes"),
        (GatherRows("step", (), "x", "i", "i2", (3,)), "want one dtype"),
        (GridSample("step", (), "x", "x", "y"), "want rank 4"),
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
        (CumSum("step", (), "x", "y", 2), r"axis 2, rank\(x\) 2, want an axis of x"),
        (CumSum("step", (), "b", "b2", 0), "bool in .b., want one of float32"),
        (CumSum("step", (), "x", "i2", 0), "want one dtype"),
        (ArgMax("step", (), "x", "i2", -1), r"axis -1, rank\(x\) 2, want an axis of x"),
        (ArgMax("step", (), "b", "i2", 0), "bool in .b., want one of float32"),
        (ArgMax("step", (), "x", "y", 0), "float32 in .y2?., want int64"),
        (GatherElements("step", (), "x", "i", "y", 2), r"axis 2, rank\(x\) 2, want an axis of x"),
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
