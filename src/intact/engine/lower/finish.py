"""From a sheet to a plan: stretches for what is left, an order in which everything can run, names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from intact.engine.lower.sheet import Cannot, Sheet
from intact.engine.plan import Plan
from intact.engine.steps import OUTSIDE, Ending, Step, Stretch
from intact.engine.wiring import constants, reads, writes
from intact.errors import UnsupportedError
from intact.graph import Node, Value, cut, is_op
from intact.placement import Layer


def finish(sheet: Sheet, layers: tuple[Layer, ...], notes: list[str]) -> Plan:
    """The plan of `sheet`.

    Raises:
        UnsupportedError: The graph puts out or reads what a plan cannot hold.
    """
    said = list[str]()
    try:
        steps = _ordered(sheet, said)
    except Cannot as why:  # a value that a stretch would hand over has no known rank
        said.clear()
        _give_up_all(sheet, str(why))
        steps = _all_at_once(sheet, said)
    inputs = tuple(value.name or "" for value in sheet.model.graph.inputs)
    outputs = tuple(value.name or "" for value in sheet.model.graph.outputs)
    steps = _named(sheet, steps, inputs, outputs)
    used = {name for step in steps for name in (*reads(step), *writes(step))} | {*inputs, *outputs}
    held = {name for step in steps for name in (*constants(step), *reads(step))}
    return Plan(
        tuple(steps),
        {name: tensor for name, tensor in sheet.tensors.items() if name in used},
        {name: array for name, array in sheet.arrays.items() if name in held},
        inputs, outputs, layers, (*notes, *said),
    )  # fmt: skip


def _give_up_all(sheet: Sheet, why: str) -> None:
    """Leave the whole graph to one stretch."""
    graph = sheet.model.graph
    ports = {value.name for value in (*graph.inputs, *graph.outputs)}
    sheet.steps.clear()
    sheet.done.clear()
    sheet.reasons = dict.fromkeys(graph, why)
    for name in [name for name in sheet.tensors if name not in ports]:
        del sheet.tensors[name]


def _all_at_once(sheet: Sheet, notes: list[str]) -> list[Step]:
    try:
        return _ordered(sheet, notes)
    except Cannot as why:
        raise UnsupportedError(
            "model",
            str(why),
            "inputs and outputs of a known rank",
            "export the model again, with their shapes",
        ) from why


def _ordered(sheet: Sheet, notes: list[str]) -> list[Step]:
    """The steps that the outputs need, in the graph's order, cut by as few stretches as possible."""
    order = _Order(sheet)
    while order.native() or order.stretch(notes):
        pass
    return order.steps


class _Order:
    """Runs what can: native steps while there are some, then all other nodes that can, as one stretch."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet, self.steps = sheet, list[Step]()
        graph = sheet.model.graph
        self._left = _needed_nodes(sheet)
        self._demand_reals()
        self._waiting = _needed_steps(sheet, self._left)
        self._ready = {v.name or "" for v in graph.inputs} | set(sheet.arrays)
        position = {node.name: i for i, node in enumerate(graph)}
        self._waiting.sort(key=lambda step: max(position.get(name, -1) for name in step.nodes))

    def _demand_reals(self) -> None:
        """What a stretch reads or the graph puts out must exist as it is in the graph."""
        sheet = self.sheet
        made = {value for node in self._left for value in node.outputs}
        for node in self._left:
            for value in _values_read(node):
                if value not in made and value not in sheet.constants:
                    _demand(sheet, value, f"{node.op_type} '{node.name}'")
        for value in sheet.model.graph.outputs:
            if value not in made:
                _demand(sheet, value, "the graph's output")

    def native(self) -> bool:
        """Move every native step that can run; whether there was one."""
        before, late = len(self.steps), list[Step]()
        for step in self._waiting:
            if self._ready.issuperset(reads(step)):
                self.steps.append(step)
                self._ready.update(writes(step))
            else:
                late.append(step)
        self._waiting = late
        return len(self.steps) > before

    def stretch(self, notes: list[str]) -> bool:
        """Cut one stretch out of the nodes that can run now; whether there were some."""
        sheet = self.sheet
        nodes, late, made = list[Node](), list[Node](), set[Value]()
        for node in self._left:
            missing = [
                v for v in _values_read(node)
                if v not in made and v not in sheet.constants and (v.name or "") not in self._ready
            ]  # fmt: skip
            (late if missing else nodes).append(node)
            made.update(() if missing else node.outputs)
        if not nodes:
            assert not self._left and not self._waiting, "the graph is in order"
            return False
        self._left = late
        read = {name for step in self._waiting for name in reads(step)}
        read |= {v.name or "" for node in late for v in _values_read(node)}
        step = _stretch(sheet, nodes, read | {v.name or "" for v in sheet.model.graph.outputs})
        self.steps.append(step)
        self._ready.update(step.ys)
        notes.append(f"{len(nodes)} nodes run in ONNX Runtime from '{step.name}': {step.reason}")
        return True


def _values_read(node: Node) -> list[Value]:
    return [value for value in (*node.inputs, *_captured(node)) if value is not None]


def _captured(node: Node) -> list[Value]:
    """Values of the main graph that the subgraphs of `node` read."""
    graphs = [g for a in node.attributes.values() for g in _graphs(a)]
    inner = {n for g in graphs for n in g.all_nodes()}
    own = {v for g in graphs for v in (*g.inputs, *g.initializers.values())}
    own |= {v for g in graphs for s in g.subgraphs() for v in (*s.inputs, *s.initializers.values())}
    found = [v for n in inner for v in n.inputs if v is not None]
    found += [v for g in graphs for v in g.outputs]
    return [v for v in dict.fromkeys(found) if v not in own and v.producer() not in inner]


def _graphs(attribute: Any) -> list[Any]:
    if attribute.type.name == "GRAPH":
        return [attribute.as_graph()]
    return list(attribute.as_graphs()) if attribute.type.name == "GRAPHS" else []


def _demand(sheet: Sheet, value: Value, who: str) -> None:
    tensor = sheet.tensors.get(value.name or "")
    if tensor is not None:
        return
    try:
        sheet.real(value)
    except Cannot as why:
        raise UnsupportedError(
            f"tensor '{value.name}'", str(why), f"a tensor that {who} can read", "export the model again"
        ) from why


def _needed_nodes(sheet: Sheet) -> list[Node]:
    """The nodes without a step that some output needs, in the graph's order."""
    graph, makers = sheet.model.graph, _makers(sheet)
    wanted: list[Value | str] = list(graph.outputs)
    seen: set[Value | str] = set()
    found: set[Node] = set()
    by_name = {v.name: v for n in graph for v in n.outputs}
    while wanted:
        one = wanted.pop()
        if one in seen or (one in sheet.constants and one not in graph.outputs):
            continue
        seen.add(one)
        name = one if isinstance(one, str) else one.name or ""
        if (step := makers.get(name)) is not None:
            wanted += [by_name.get(n, n) for n in reads(step)]
            continue
        value = by_name.get(name)
        node = value.producer() if value is not None else None
        if node is None or node in found:
            continue
        if node in sheet.done:  # a pair, or the inside of a step
            wanted += [v for v in node.inputs[:1] if v is not None]
        else:
            found.add(node)
            wanted += _values_read(node)
    return [node for node in graph if node in found]


def _makers(sheet: Sheet) -> dict[str, Step]:
    return {name: step for step in sheet.steps for name in writes(step)}


def _needed_steps(sheet: Sheet, left: Iterable[Node]) -> list[Step]:
    makers = _makers(sheet)
    wanted = [v.name or "" for v in sheet.model.graph.outputs]
    wanted += [v.name or "" for node in left for v in _values_read(node)]
    found: dict[int, Step] = {}
    while wanted:
        step = makers.get(wanted.pop())
        if step is not None and id(step) not in found:
            found[id(step)] = step
            wanted += reads(step)
    return list(found.values())


def _stretch(sheet: Sheet, nodes: list[Node], read: set[str]) -> Stretch:
    made = {value for node in nodes for value in node.outputs}
    xs = dict.fromkeys(
        v for node in nodes for v in _values_read(node) if v not in made and v not in sheet.constants
    )
    ys = [value for node in nodes for value in node.outputs if value.name in read]
    reasons = dict.fromkeys(f"{n.op_type}: {sheet.reasons[n]}" for n in nodes if n in sheet.reasons)
    for value in ys:
        if (value.name or "") not in sheet.tensors:
            sheet.write_plain(value, value.dtype.numpy().name if value.dtype is not None else "float32")
    name = nodes[0].name or nodes[0].op_type
    model = sheet.hold(f"{name}.onnx", np.frombuffer(cut(sheet.model, list(xs), ys), np.uint8))
    return Stretch(
        name, tuple(n.name or "" for n in nodes), tuple(v.name or "" for v in xs),
        tuple(v.name or "" for v in ys), model, "; ".join(reasons),
    )  # fmt: skip


def _named(sheet: Sheet, steps: list[Step], inputs: tuple[str, ...], outputs: tuple[str, ...]) -> list[Step]:
    """Call tensors of codes as the graph calls the reals that they stand for, where that name is free."""
    used = {name for step in steps for name in (*reads(step), *writes(step))}
    outside = [step for step in steps if isinstance(step, OUTSIDE)]
    fixed = {*inputs, *outputs, *(name for step in outside for name in (*reads(step), *writes(step)))}
    names: dict[str, str] = {}
    for node in sheet.model.graph:
        if not is_op(node, "QuantizeLinear", "DequantizeLinear"):
            continue
        real, codes = node.inputs[0], node.outputs[0]
        if node.op_type == "DequantizeLinear":
            assert real is not None
            real, codes = codes, real
        if real is None or codes.name not in used or codes.name in fixed or codes.name in names:
            continue
        if real.name and real.name not in used | fixed and real.name not in names.values():
            names[codes.name or ""] = real.name
    for old, new in names.items():
        sheet.tensors[new] = replace(sheet.tensors.pop(old), name=new)
    return [_renamed(step, names) for step in steps]


def _renamed(step: Step, names: dict[str, str]) -> Step:
    changes: dict[str, Any] = {}
    for one in fields(step):
        value = getattr(step, one.name)
        if one.name in _TENSORS:
            changes[one.name] = (
                tuple(names.get(v, v) for v in value) if isinstance(value, tuple) else names.get(value, value)
            )
        elif isinstance(value, Ending):
            changes[one.name] = replace(value, residual=names.get(value.residual, value.residual))
    return replace(step, **changes)


_TENSORS = {"x", "xs", "y", "ys", "a", "b", "mask", "residual"}
