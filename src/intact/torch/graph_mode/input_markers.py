"""Mark the tensors that calls read, while a model is traced, by `intact::edge`, which is ``intact::Edge`` in
ONNX.

A trace has one marker for each tensor of each call. `torch.onnx.ops.symbolic`, which makes any operator,
costs several times as much in every pass of the export.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["DOMAIN", "mark_input", "marker_translation"]

DOMAIN = "intact"

_LIB = torch.library.Library(DOMAIN, "FRAGMENT")  # type: ignore[no-untyped-call]
_LIB.define("edge(Tensor x, int number) -> Tensor")  # type: ignore[no-untyped-call]


def _run(x: Tensor, number: int) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def _sizes(x: Tensor, number: int) -> Tensor:
    return x.new_empty(x.shape)


_LIB.impl("edge", _run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
torch.library.register_fake("intact::edge", _sizes, lib=_LIB)
torch.library.register_vmap(
    "intact::edge", lambda info, dims, x, number: (mark_input(x, number), dims[0]), lib=_LIB
)


def mark_input(x: Tensor, number: int) -> Tensor:
    """Return x behind a marker with this number."""
    marked: Tensor = torch.ops.intact.edge.default(x, number)
    return marked


def marker_translation() -> dict[Any, Callable[..., Any]]:
    """Return the operator and its ONNX writer, for a `custom_translation_table`."""
    import onnx_ir as ir
    from onnxscript import evaluator as evaluators

    def write(*args: Any) -> Any:
        x, number = args
        node = ir.Node(DOMAIN, "Edge", [x], [ir.AttrInt64("id", number)])
        evaluators.default().nodes.append(node)  # type: ignore[attr-defined]
        return node.outputs[0]

    return {torch.ops.intact.edge.default: write}
