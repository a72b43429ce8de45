"""Leave out work of torch's exporter that changes nothing: it takes as long as torch.export itself.

onnxscript tries each of its rules at each node, and for rules with several outputs lists the whole graph each
time. The pass that promotes types runs every call of the program again to learn types that the trace has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import fx
from torch.onnx._internal.fx.passes import type_promotion

__all__ = ["passes_shortened"]


@contextmanager
def passes_shortened() -> Iterator[None]:
    """Let torch's exporter skip such work; what it writes is the same."""
    with ExitStack() as stack:
        stack.enter_context(_rules_by_operator())
        stack.enter_context(_types_of_the_trace())
        yield


@contextmanager
def _rules_by_operator() -> Iterator[None]:
    """A rule is tried at the nodes whose operator its pattern ends with."""
    from onnxscript.rewriter import _rewrite_rule

    kind = getattr(_rewrite_rule, "RewriteRule", None)
    known = getattr(kind, "try_rewrite", None)
    if kind is None or known is None:
        yield
        return

    def try_rewrite(rule: Any, model: Any, graph: Any, node: Any, **options: Any) -> Any:
        last = rule._target_pattern.output_nodes[0]
        return known(rule, model, graph, node, **options) if last.op.matches(node.op_type) else None

    kind.try_rewrite = try_rewrite
    try:
        yield
    finally:
        kind.try_rewrite = known


@contextmanager
def _types_of_the_trace() -> Iterator[None]:
    """Calls whose operands keep their types have the values that the trace noted for them."""
    kind: Any = getattr(type_promotion, "_TypePromotionInterpreter", None)
    known = vars(kind or object).get("run_node")
    if known is None:
        yield
        return

    def run_node(interpreter: Any, node: fx.Node) -> Any:
        if node.op != "call_function" or node.meta.get("val") is None:
            return known(interpreter, node)
        with interpreter._set_current_node(node):
            rule = type_promotion.get_type_promotion_rule(node, interpreter.type_promotion_table)
            if rule is not None:
                interpreter._maybe_promote_node(node, rule)
        return node.meta["val"]

    kind.run_node = run_node
    try:
        yield
    finally:
        kind.run_node = known
