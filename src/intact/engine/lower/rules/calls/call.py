"""Lowers nodes of registered operators to calls, in codes where the operator's body takes codes."""

from __future__ import annotations

import json
from typing import Any

from intact.engine.custom import Operator, find
from intact.engine.lower.base.builder import NoMatch, Output, PlanBuilder, dtype_of, is_float32
from intact.engine.steps import Call
from intact.graph import Node, ops


def lower_call(builder: PlanBuilder, node: Node) -> None:
    """Lower a custom operator, and the pairs around it, to one call: ``[DQ ->] custom operator [-> Q]``."""
    name = f"{node.domain}::{node.op_type}"
    operator = find(name)
    if operator is None:
        raise NoMatch(f"no kernel for {name}, which nobody registered")
    values = [value for value in node.inputs if value is not None]
    if operator.codes:
        xs = tuple(builder.require_codes(value)[0] for value in values)
    else:
        xs = tuple(builder.either(v) if v in builder.constants else builder.real(v) for v in values)
    ys = []
    for value in node.outputs:
        if not operator.codes and value.dtype is not None and not is_float32(value):
            ys.append(
                builder.write_plain(value, dtype_of(value))
            )  # what it makes is written as the graph has it
            continue
        output = _output(builder, operator, value)
        ys.append(builder.write(output, value))
    builder.add(
        Call(
            node.name or name,
            (node.name or name,),
            name,
            xs,
            tuple(ys),
            json.dumps(ops.plain(node), sort_keys=True),
        ),
        node,
    )


def _output(builder: PlanBuilder, operator: Operator, value: Any) -> Output:
    output = builder.output(value)
    if operator.codes and output.grid is None:
        raise NoMatch(f"its output '{output.name}' goes on in floats, and its body makes codes: quantize it")
    return output if operator.codes else Output(value.name or "", None)
