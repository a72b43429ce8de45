"""Skip work of torch's exporter that changes nothing, and takes as long as torch.export itself.

onnxscript tries each of its rules at each node, and for rules with several outputs lists the whole graph each
time. The pass that promotes types runs every call of the program again, to compute types that the trace has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import fx

from intact.torch.private_torch import (
    PROMOTE_NODE,
    PROMOTE_TYPES_OF_NODE,
    SET_CURRENT_NODE,
    TRY_REWRITE,
    TYPE_PROMOTION_RULE,
    last_pattern_node,
)

__all__ = ["skip_exporter_work"]


@contextmanager
def skip_exporter_work() -> Iterator[None]:
    """Make torch's exporter skip such work inside the context. What it writes is the same."""
    with ExitStack() as stack:
        stack.enter_context(_match_rules_by_operator())
        stack.enter_context(_reuse_traced_types())
        yield


@contextmanager
def _match_rules_by_operator() -> Iterator[None]:
    """Try a rule only at nodes whose operator its pattern ends with."""

    def wrap(original: Any) -> Any:
        last_operators: dict[Any, Any] = {}  # by rule: each is asked of every node

        def try_rewrite(rule: Any, model: Any, graph: Any, node: Any, **options: Any) -> Any:
            last = last_operators.get(rule)
            if last is None:
                last = last_operators[rule] = last_pattern_node(rule).op
            return original(rule, model, graph, node, **options) if last.matches(node.op_type) else None

        return try_rewrite

    with TRY_REWRITE.wrapping(wrap):
        yield


@contextmanager
def _reuse_traced_types() -> Iterator[None]:
    """Reuse the values that the trace recorded for calls whose operands keep their types."""

    def wrap(original: Any) -> Any:
        find_rule, promote_node = TYPE_PROMOTION_RULE.require(), PROMOTE_NODE.require()
        set_current_node = SET_CURRENT_NODE.require()

        def run_node(interpreter: Any, node: fx.Node) -> Any:
            if node.op != "call_function" or node.meta.get("val") is None:
                return original(interpreter, node)
            with set_current_node(interpreter, node):
                rule = find_rule(node, interpreter.type_promotion_table)
                if rule is not None:
                    promote_node(interpreter, node, rule)
            return node.meta["val"]

        return run_node

    with PROMOTE_TYPES_OF_NODE.wrapping(wrap):
        yield
