"""Widens activations to 16 bits, together with the weights that multiply them.

A code of 16 bits beside one of 8 keeps the error of 8, so that half of the work would be for nothing; and a
layer that reads 16 bits computes in float in every engine, whatever its weight is.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from intact.graph import FORMAT_OPSETS, REASON_KEY, Model, Node, ops, upgrade_opset
from intact.placement import Layer
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.quantization_ranges import QuantizedWeight, weights_of
from intact.ptq.scope.quantization_targets import Key, Target
from intact.ptq.scope.settings import Bits16

_WIDE = {"int8": "int16", "uint8": "uint16"}
"""Formats that can be widened: others were asked for."""

_OPSET = max(FORMAT_OPSETS[format] for format in _WIDE.values())


@dataclass(frozen=True)
class Unit:
    """Holds activations with one range and their readers, which are widened together.

    Attributes:
        key: The key of their targets.
        tensors: The names of the activations.
        nodes: The names of the nodes that read their codes, also behind moving operators, in graph order.
    """

    key: Key
    tensors: tuple[str, ...]
    nodes: tuple[str, ...]

    def fits(self, pattern: str, op_types: Mapping[str, str]) -> bool:
        """Return whether `pattern` names one of the tensors, or a node or operator type that reads them."""
        names = (*self.tensors, *self.nodes, *(op_types[node] for node in self.nodes))
        return any(fnmatchcase(name, pattern) for name in names)


def units_of(state: State) -> list[Unit]:
    """Return the units that can be widened, in the order of the targets."""
    nodes = {node.name or "": node for node in state.model.graph}
    order = {name: index for index, name in enumerate(nodes)}
    pairs = {target.site.value for target in state.activations}
    groups: dict[Key, list[Target]] = {}
    for target in state.activations:
        if target.format in _WIDE and target.settings.grid is None:
            groups.setdefault(target.key, []).append(target)
    return [
        Unit(
            key,
            tuple(dict.fromkeys(target.site.value for target in group)),
            tuple(sorted(readers_behind(nodes, readers_of(group), pairs), key=order.__getitem__)),
        )
        for key, group in groups.items()
    ]  # fmt: skip


def readers_of(targets: Iterable[Target]) -> list[str]:
    """Return the names of the nodes that read `targets`."""
    return [name for target in targets for name, _ in target.readers]


def readers_behind(nodes: Mapping[str, Node], readers: Iterable[str], pairs: Container[str]) -> Iterator[str]:
    """Yield the readers of the inputs of `readers`, through moving operators, up to the next pair.

    Args:
        nodes: Of the graph, by name.
        readers: Names of nodes.
        pairs: Names of values that have pairs of their own.
    """
    waiting, visited = list(readers), set[str]()
    while waiting:
        name = waiting.pop()
        node = nodes.get(name)  # None: in a subgraph
        if node is None or name in visited:
            continue
        visited.add(name)
        yield name
        if ops.may_move(node):
            outputs = [value for value in node.outputs if value.name not in pairs]
            waiting += [use.node.name or "" for value in outputs for use in value.uses()]


def widen_by_name(state: State) -> State:
    """Return `state` with 16 bits for the tensors that its settings name.

    Raises:
        UnsupportedError: The model cannot be brought to an opset that has them.
    """
    patterns = state.settings.bits16
    if isinstance(patterns, str):
        return state
    nodes, units = list(state.model.graph), units_of(state)
    types = {node.name or "": node.op_type for node in nodes}
    fits = {pattern: [unit for unit in units if unit.fits(pattern, types)] for pattern in patterns}
    idle = [pattern for pattern in _fitting(nodes, patterns) if not fits[pattern]]
    warnings = (f"bits16: {pattern!r} fits nothing that is quantized to 8 bits" for pattern in idle)
    state = replace(state, warnings=(*state.warnings, *warnings))
    why = {unit: f"bits16 names it: {pattern!r}" for pattern in reversed(patterns) for unit in fits[pattern]}
    return widen(with_int16_opset(state), why) if why else state


def _fitting(nodes: Iterable[Node], patterns: Sequence[str]) -> tuple[str, ...]:
    """Return those of `patterns` that match a node, an operator or a tensor of `nodes`."""
    names: set[str | None] = set()
    for node in nodes:
        names |= {node.name, node.op_type, *(v.name for v in (*node.inputs, *node.outputs) if v is not None)}
    return tuple(p for p in patterns if any(fnmatchcase(name, p) for name in names if name))


def patterns_about(model: Model, bits16: Bits16) -> Bits16:
    """Return those patterns of `bits16` that match `model`, which may be a branch of the file."""
    return bits16 if isinstance(bits16, str) else _fitting(model.graph.all_nodes(), bits16) or "never"


def with_int16_opset(state: State) -> State:
    """Return `state` in an opset whose pairs can have 16 bits.

    Raises:
        UnsupportedError: An operator has no form in it; names the node.
    """
    if state.opset >= _OPSET:
        return state
    model = state.model.clone()
    upgrade_opset(model, _OPSET)
    return replace(state, model=model, opset=_OPSET)


def widen(state: State, why: Mapping[Unit, str]) -> State:
    """Return `state` with 16 bits for some units; ranges must be chosen again.

    The range of a widened tensor is whole where the method was free: it has codes for outliers and the rest.

    Args:
        state: In front of the pairs; with weights or still without.
        why: The units, each with the reason.
    """
    targets = tuple(_widen_targets(state.targets, why))
    reasons = {node: f"16 bits, in float: {reason}" for unit, reason in why.items() for node in unit.nodes}
    layers = tuple(with_reason(layer, reasons) for layer in state.placement.layers)
    keys = {(unit.key[0], _WIDE[unit.key[1]], *unit.key[2:]): reason for unit, reason in why.items()}
    return replace(
        state, targets=targets, weights=_weights(state, targets) if state.weights else (),
        placement=replace(state.placement, layers=layers), bits16=keys,
    )  # fmt: skip


def _weights(state: State, targets: Sequence[Target]) -> tuple[QuantizedWeight, ...]:
    """Return the weights of `targets`: those of `state`, and new ones for widened targets."""
    weights = dict(zip((t for t in state.targets if t.site.role == "weight"), state.weights, strict=True))
    chosen = [target for target in targets if target.site.role == "weight"]
    added = [target for target in chosen if target not in weights]
    weights |= zip(added, weights_of(state.model.graph, added), strict=True)
    return tuple(weights[target] for target in chosen)


def _widen_targets(targets: Sequence[Target], why: Mapping[Unit, str]) -> Iterator[Target]:
    keys = {unit.key for unit in why}
    nodes = {node for unit in why for node in unit.nodes}
    for target in targets:
        if target.site.role == "activation":
            yield _wide(target) if target.key in keys else target
            continue
        ours = tuple(reader for reader in target.readers if reader[0] in nodes)
        float_readers = tuple(reader for reader in target.readers if reader[0] not in nodes)
        if not ours or target.format not in _WIDE:
            yield target
            continue
        if float_readers:
            yield replace(target, readers=float_readers)
        yield _wide(replace(target, readers=ours))


def _wide(target: Target) -> Target:
    """Return `target` on the grid of 16 bits."""
    if target.site.role != "weight":
        return wide_activation(target)
    format = _WIDE[target.format]
    return replace(target, format=format, settings=replace(target.settings, weights=format))


def wide_activation(target: Target, format: str = "") -> Target:
    """Return an activation on the grid of 16 bits, its range whole where the method was free."""
    settings, format = target.settings, format or _WIDE[target.format]
    method = "max" if settings.method == "auto" else settings.method
    return replace(target, format=format, settings=replace(settings, activations=format, method=method))


def note_reasons(model: Model, reasons: Mapping[str, str]) -> None:
    """Store in the file's metadata why nodes have their formats, in place."""
    for node in model.graph:
        if (reason := reasons.get(node.name or "")) is not None:
            node.metadata_props[REASON_KEY] = reason


def with_reason(layer: Layer, reasons: Mapping[str, str], integer: Container[str] = ()) -> Layer:
    """Return `layer` in float, with the reason that `reasons` has for one of its nodes.

    It keeps its precision where that node is in `integer`.

    Args:
        layer: Of the placement.
        reasons: By name of a node.
        integer: Names of nodes that compute in integers all the same.
    """
    node = next((node for node in layer.nodes if node in reasons), None)
    if node is None:
        return layer
    return replace(layer, precision=layer.precision if node in integer else "float", reason=reasons[node])
