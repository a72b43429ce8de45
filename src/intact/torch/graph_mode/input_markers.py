"""`intact::edge` stands on a tensor that a call reads, while a model is traced; ``intact::Edge`` in ONNX.

A trace has one for each tensor of each call. torch's `symbolic`, which makes any operator, costs several
times as much in every pass of the export.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["DOMAIN", "edge", "edge_translation"]

DOMAIN = "intact"

_LIB = torch.library.Library(DOMAIN, "FRAGMENT")  # type: ignore[no-untyped-call]
_LIB.define("edge(Tensor x, int number) -> Tensor")  # type: ignore[no-untyped-call]


def _run(x: Tensor, number: int) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def _sizes(x: Tensor, number: int) -> Tensor:
    return x.new_empty(x.shape)


_LIB.impl("edge", _run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
torch.library.register_fake("intact::edge", _sizes, lib=_LIB)


def edge(x: Tensor, number: int) -> Tensor:
    """x, with the edge of this number on it."""
    made: Tensor = torch.ops.intact.edge.default(x, number)
    return made


def edge_translation() -> dict[Any, Callable[..., Any]]:
    """How the exporter writes edges, for a `custom_translation_table`."""
    import onnx_ir as ir
    from onnxscript import evaluator as evaluators

    def write(*args: Any) -> Any:
        x, number = args
        node = ir.Node(DOMAIN, "Edge", [x], [ir.AttrInt64("id", number)])
        evaluators.default().nodes.append(node)  # type: ignore[attr-defined]
        return node.outputs[0]

    return {torch.ops.intact.edge.default: write}
