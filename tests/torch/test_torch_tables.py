"""A sample of PyTorch's own tables of operators and modules; `benchmarks/torch_sweep.py` takes them all."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.fuzz.torch_check import check_module
from tests.fuzz.torch_tables import cases

ENTRIES = {
    "nn.functional.avg_pool2d:float32": "equal", "nn.functional.avg_pool3d:float32": "said",
    "nn.functional.batch_norm:float32": "said", "atan2:float32": "equal", "atan2:int64": "equal",
    "div.floor_rounding:float32": "equal", "nn.functional.gelu:float32": "equal", "log1p:float32": "equal",
    "nn.functional.pad.reflect:float32": "equal", "nn.GroupNorm:module": "equal",
}  # fmt: skip
"""Entry of the tables -> what becomes of its calls together."""


@pytest.mark.slow
def test_entries_are_equal_or_said_to_differ() -> None:
    outcomes = {}
    for case in cases(4, is_wanted=ENTRIES.__contains__):
        net, args = case.network()
        outcomes[case.name] = check_module(net, args)
    assert {name: outcome.status for name, outcome in outcomes.items()} == ENTRIES, outcomes


LEFT_OUT = {
    "aten_avg_pool2d": "divisor_override", "aten_avg_pool3d": "divisor_override",
    "aten_cross_entropy_loss": "label_smoothing",
}  # fmt: skip
"""Arguments that change values and that translations of INTact read (`operator_translations`)."""

HARMLESS = {
    "C", "HxW", "cudnn_enable", "cudnn_enabled", "dim", "dtype", "device", "equal_nan", "generator",
    "implicit", "layout", "memory_format", "non_blocking", "output_size", "path", "pin_memory",
    "quant_max", "quant_min", "replacement", "return_complex", "return_counts", "return_debug_mask",
    "return_inverse", "scale_grad_by_freq", "scales", "scales_d", "scales_h", "scales_w", "self",
    "sorted", "sparse", "sparse_grad", "stable", "stride",
}  # fmt: skip
"""Arguments that say nothing about the values of a forward, or that are written otherwise."""


def test_no_other_argument_is_left_out_by_torchs_exporter() -> None:
    """Arguments that the body of no translation reads, of torch's exporter, are known."""
    ops = pytest.importorskip("onnxscript.function_libs.torch_lib.ops")
    unread = {}
    for path in sorted(Path(ops.__file__).parent.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef) or "torch_op" not in map(_name_of, node.decorator_list):
                continue
            names = {x.id for x in ast.walk(node) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Load)}
            arguments = (x.arg for x in (*node.args.args, *node.args.kwonlyargs))
            if left := [x for x in arguments if x not in names and x not in HARMLESS]:
                unread[node.name] = ", ".join(left)
    embeddings = {name: unread.pop(name, "") for name in ("aten_embedding", "aten_embedding_bag")}
    assert set(embeddings.values()) <= {"", "padding_idx"}  # of gradients alone, or refused by name
    assert unread == LEFT_OUT


def _name_of(decorator: ast.expr) -> str:
    call = decorator.func if isinstance(decorator, ast.Call) else decorator
    return call.id if isinstance(call, ast.Name) else ""
