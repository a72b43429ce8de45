"""Checks in a model's code, left out of what is exported: they compute nothing that the model answers.

`torch._check_tensor_all`, `torch._assert`, ``assert mask.any()`` and ``if x.isnan().any(): raise`` ask a
tensor for its value. A trace has no values, and ONNX has no operator that raises an error.
"""

from __future__ import annotations

import ast
import functools
import linecache
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import Tensor, fx
from torch.onnx._internal.exporter import _fx_passes
from torch.overrides import TorchFunctionMode

from intact.torch.tracing.user_frames import OURS

__all__ = ["CHECKS", "remove_unread", "without_check_nodes", "without_checks"]


# ---- while the model's code runs ----


@contextmanager
def without_checks() -> Iterator[None]:
    """While it is open, checks of a tensor's value pass in code that is traced."""
    with _ChecksPass():
        yield


_UNCHECKED: dict[Any, Callable[..., Any]] = {
    torch.inverse: torch.linalg.inv_ex,
    torch.linalg.inv: torch.linalg.inv_ex,
    torch.linalg.solve: torch.linalg.solve_ex,
    torch.linalg.cholesky: torch.linalg.cholesky_ex,
    Tensor.inverse: torch.linalg.inv_ex,
}
"""Function that raises an error for a singular matrix -> one that answers the same, and a number beside."""


class _ChecksPass(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch._assert:
            return None
        if func in _UNCHECKED:
            return _UNCHECKED[func](*args, **(kwargs or {}))[0]
        if getattr(func, "__name__", "") in ("__bool__", "is_nonzero") and isinstance(args[0], Tensor):
            passes = _passing_value(_asking_frame())
            if passes is not None:
                return passes
        return func(*args, **(kwargs or {}))


def _asking_frame() -> FrameType | None:
    """The frame that asks a tensor for its truth."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _hands_on_calls(frame):
        frame = frame.f_back
    return frame


def _hands_on_calls(frame: FrameType) -> bool:
    """Whether it is one of the modes that see each call: those of torch.export or ours."""
    return frame.f_code.co_name == "__torch_function__" or frame.f_code.co_filename.startswith(OURS)


def _passing_value(frame: FrameType | None) -> bool | None:
    """The truth value with which the check at `frame` passes; None where the code there is no check."""
    if frame is None:
        return None
    checks = _checks_of(frame.f_code.co_filename)
    if not checks:
        return None
    # The jump may have the place of the whole statement: what it asks for was made right before.
    positions = list(frame.f_code.co_positions())[: frame.f_lasti // 2 + 1][-2:]
    found = (checks.get((line, column)) for _, line, _, column in reversed(positions))
    return next((value for value in found if value is not None), None)


@functools.cache
def _checks_of(file: str) -> dict[tuple[int | None, int | None], bool]:
    """Line and column of the end of each expression that a check of `file` asks -> the value that passes."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:  # a notebook's cell with magic in it
        return {}
    found: dict[tuple[int | None, int | None], bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            found |= _asked(node.test, passes=True)
        elif isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise) and not node.orelse:
            found |= _asked(node.test, passes=False)
    return found


def _asked(test: ast.expr, *, passes: bool) -> dict[tuple[int | None, int | None], bool]:
    """The parts of `test` that are asked, where all must have one value for the check to pass."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _asked(test.operand, passes=not passes)
    if isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) != passes:
            return {}  # one of them is enough, and nobody knows which
        return {place: value for part in test.values for place, value in _asked(part, passes=passes).items()}
    return {(test.end_lineno, test.end_col_offset): passes}


# ---- in the traced program ----


CHECKS = {
    torch.ops.aten.sym_constrain_range.default,
    torch.ops.aten.sym_constrain_range_for_size.default,
    torch.ops.aten._assert_async.default,
    torch.ops.aten._assert_async.msg,
    torch.ops.aten._assert_scalar.default,
    torch.ops.aten._assert_tensor_metadata.default,
    torch.ops.aten._functional_assert_async.msg,
    torch.ops.aten._functional_assert_scalar.default,
    torch.ops.aten._functional_sym_constrain_range_for_size.default,
}


@contextmanager
def without_check_nodes() -> Iterator[None]:
    """Let torch's exporter drop checks together with what is computed for them alone.

    It drops the checks, and then finds no ONNX form of `aten._is_all_true`, which only a check has read.
    """
    known = getattr(_fx_passes, "remove_assertion_nodes", None)
    if known is None:
        yield
        return

    def remove(graph_module: fx.GraphModule) -> fx.GraphModule:
        for part in graph_module.modules():
            if isinstance(part, fx.GraphModule):
                _remove_checks(part.graph)
        done: fx.GraphModule = known(graph_module)
        return done

    _fx_passes.remove_assertion_nodes = remove
    try:
        yield
    finally:
        _fx_passes.remove_assertion_nodes = known


def _remove_checks(graph: fx.Graph) -> None:
    remove_unread(node for node in graph.nodes if node.op == "call_function" and node.target in CHECKS)


def remove_unread(nodes: Iterable[fx.Node]) -> None:
    """Remove calls that nothing reads, and what is computed for them alone."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node.users or node.op not in ("call_function", "get_attr") or node._erased:
            continue
        inputs = node.all_input_nodes
        node.graph.erase_node(node)
        waiting += inputs
