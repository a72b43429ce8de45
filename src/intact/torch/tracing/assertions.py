"""Leave assertions in a model's code out of what is exported; they do not change its outputs.

`torch._check_tensor_all`, `torch._assert`, ``assert mask.any()`` and ``if x.isnan().any(): raise`` ask a
tensor for its value. A trace has no values, and ONNX has no operator that raises an error.
"""

from __future__ import annotations

import ast
import functools
import linecache
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import Tensor, fx

from intact.torch.private_torch import ASSERTION_OPERATORS, REMOVE_ASSERTION_NODES, assert_function, is_erased
from intact.torch.tracing.user_frames import OURS

__all__ = ["PassingAssertions", "remove_dead_calls", "remove_assertion_nodes"]


# ---- while the model's code runs ----


_UNCHECKED: dict[Any, Callable[..., Any]] = {
    torch.inverse: torch.linalg.inv_ex,
    torch.linalg.inv: torch.linalg.inv_ex,
    torch.linalg.solve: torch.linalg.solve_ex,
    torch.linalg.cholesky: torch.linalg.cholesky_ex,
    Tensor.inverse: torch.linalg.inv_ex,
}
"""Function that raises for a singular matrix -> one that returns the same and a status number beside it."""


class PassingAssertions:
    """The change of traced calls by which assertions on a tensor's value pass."""

    names: Collection[str] = frozenset(
        {"__bool__", "is_nonzero", assert_function.__name__, *(f.__name__ for f in _UNCHECKED)}
    )
    sees_all = False

    def perform(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer the assertion; NotImplemented where the code asks for something else."""
        if func is assert_function:
            return None
        if func in _UNCHECKED:
            return _UNCHECKED[func](*args, **kwargs)[0]
        if name in ("__bool__", "is_nonzero") and isinstance(args[0], Tensor):
            passes = _passing_value(_asking_frame())
            return NotImplemented if passes is None else passes
        return NotImplemented


def _asking_frame() -> FrameType | None:
    """Return the frame that asks a tensor for its truth value."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_dispatch_mode(frame):
        frame = frame.f_back
    return frame


def _is_dispatch_mode(frame: FrameType) -> bool:
    """Return whether a frame belongs to a mode that sees each call: one of torch.export's, or ours."""
    return frame.f_code.co_name == "__torch_function__" or frame.f_code.co_filename.startswith(OURS)


def _passing_value(frame: FrameType | None) -> bool | None:
    """Return the truth value with which the assertion at `frame` passes; None where the code is no
    assertion.
    """
    if frame is None:
        return None
    assertions = _assertions_of(frame.f_code.co_filename)
    if not assertions:
        return None
    # The jump may carry the position of the whole statement, so look at the instruction before it, too.
    positions = list(frame.f_code.co_positions())[: frame.f_lasti // 2 + 1][-2:]
    values = (assertions.get((line, column)) for _, line, _, column in reversed(positions))
    return next((value for value in values if value is not None), None)


@functools.cache
def _assertions_of(file: str) -> dict[tuple[int | None, int | None], bool]:
    """Map the end (line, column) of each expression that an assertion in `file` tests to its passing
    value.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:  # a notebook's cell with magic in it
        return {}
    assertions: dict[tuple[int | None, int | None], bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            assertions |= _asserted_values(node.test, passes=True)
        elif isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise) and not node.orelse:
            assertions |= _asserted_values(node.test, passes=False)
    return assertions


def _asserted_values(test: ast.expr, *, passes: bool) -> dict[tuple[int | None, int | None], bool]:
    """Return the parts of `test` that must all have one value for the assertion to pass."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _asserted_values(test.operand, passes=not passes)
    if isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) != passes:
            return {}  # one of them is enough, and which one is unknown
        return {
            place: value
            for part in test.values
            for place, value in _asserted_values(part, passes=passes).items()
        }
    return {(test.end_lineno, test.end_col_offset): passes}


# ---- in the traced program ----


@contextmanager
def remove_assertion_nodes() -> Iterator[None]:
    """Make torch's exporter drop assertions, and values computed for them alone.

    Otherwise it drops only the assertions, and then finds no ONNX form of `aten._is_all_true`, which only
    they read.
    """

    def wrap(original: Any) -> Any:
        def remove(graph_module: fx.GraphModule) -> Any:
            for part in graph_module.modules():
                if isinstance(part, fx.GraphModule):
                    _remove_assertions(part.graph)
            return original(graph_module)

        return remove

    with REMOVE_ASSERTION_NODES.wrapping(wrap):
        yield


def _remove_assertions(graph: fx.Graph) -> None:
    remove_dead_calls(
        node for node in graph.nodes if node.op == "call_function" and node.target in ASSERTION_OPERATORS
    )


def remove_dead_calls(nodes: Iterable[fx.Node]) -> None:
    """Remove calls without readers, and values computed for them alone."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node.users or node.op not in ("call_function", "get_attr") or is_erased(node):
            continue
        inputs = node.all_input_nodes
        node.graph.erase_node(node)
        waiting += inputs
