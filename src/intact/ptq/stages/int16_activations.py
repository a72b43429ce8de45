"""What 16 bits are given to: an activation and the weights that multiply it, together.

A code of 16 bits beside one of 8 keeps the error of 8, so that half of the work would be for nothing; and a
layer that reads 16 bits computes in float in every engine, whatever its weight is.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from intact.graph import FORMAT_OPSETS, REASON_KEY, Constants, Model, Node, ops, raise_opset
from intact.placement import Layer
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.quantization_ranges import QuantizedWeight, weight_of
from intact.ptq.scope.quantization_targets import Key, Target
from intact.ptq.scope.settings import Bits16

_WIDE = {"int8": "int16", "uint8": "uint16"}
"""What can be widened: other formats were asked for."""

_OPSET = max(FORMAT_OPSETS[format] for format in _WIDE.values())


@dataclass(frozen=True)
class Unit:
    """Activations of one range, and who multiplies them: what is widened as one.

    Attributes:
        key: Of their targets.
        tensors: Their names.
        nodes: Those that read their codes, behind what moves them, too; in the graph's order.
    """

    key: Key
    tensors: tuple[str, ...]
    nodes: tuple[str, ...]

    def fits(self, pattern: str, op_types: Mapping[str, str]) -> bool:
        """Whether `pattern` names one of the tensors, or a node or operator type that reads them."""
        names = (*self.tensors, *self.nodes, *(op_types[node] for node in self.nodes))
        return any(fnmatchcase(name, pattern) for name in names)


def units_of(state: State) -> list[Unit]:
    """What can be widened, in the order of the targets."""
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
            tuple(sorted(behind(nodes, readers_of(group), pairs), key=order.__getitem__)),
        )
        for key, group in groups.items()
    ]  # fmt: skip


def readers_of(targets: Iterable[Target]) -> list[str]:
    """Names of the nodes that read them."""
    return [name for target in targets for name, _ in target.readers]


def behind(nodes: Mapping[str, Node], readers: Iterable[str], pairs: Container[str]) -> Iterator[str]:
    """The nodes that read what `readers` read: through those that only move codes, up to the next pair.

    Args:
        nodes: Of the graph, by name.
        readers: Names of nodes.
        pairs: Names of values that have pairs of their own.
    """
    waiting, seen = list(readers), set[str]()
    while waiting:
        name = waiting.pop()
        node = nodes.get(name)  # None: in a subgraph
        if node is None or name in seen:
            continue
        seen.add(name)
        yield name
        if ops.may_move(node):
            made = [value for value in node.outputs if value.name not in pairs]
            waiting += [use.node.name or "" for value in made for use in value.uses()]


def widened_by_name(state: State) -> State:
    """`state` with 16 bits for what its settings name.

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
    return widened(raised(state), why) if why else state


def _fitting(nodes: Iterable[Node], patterns: Sequence[str]) -> tuple[str, ...]:
    """Those of `patterns` that fit a node, an operator or a tensor of `nodes`."""
    names: set[str | None] = set()
    for node in nodes:
        names |= {node.name, node.op_type, *(v.name for v in (*node.inputs, *node.outputs) if v is not None)}
    return tuple(p for p in patterns if any(fnmatchcase(name, p) for name in names if name))


def asked_of(model: Model, asked: Bits16) -> Bits16:
    """What of `asked` is about `model`: patterns may be about other parts of the same file."""
    return asked if isinstance(asked, str) else _fitting(model.graph.all_nodes(), asked) or "never"


def raised(state: State) -> State:
    """`state` in an opset whose pairs can have 16 bits.

    Raises:
        UnsupportedError: An operator has no form in it; names the node.
    """
    if state.opset >= _OPSET:
        return state
    model = state.model.clone()
    raise_opset(model, _OPSET)
    return replace(state, model=model, opset=_OPSET)


def widened(state: State, why: Mapping[Unit, str]) -> State:
    """`state` with 16 bits for some units; its ranges are still to be chosen, and its opset must have them.

    The range of a widened tensor is whole where the method was free: it has codes for outliers and the rest.

    Args:
        state: In front of the pairs; with weights or still without.
        why: The units, each with the reason.
    """
    targets = tuple(_widened(state.targets, why))
    reasons = {node: f"16 bits, in float: {said}" for unit, said in why.items() for node in unit.nodes}
    layers = tuple(said_of(layer, reasons) for layer in state.placement.layers)
    keys = {(unit.key[0], _WIDE[unit.key[1]], *unit.key[2:]): said for unit, said in why.items()}
    return replace(
        state, targets=targets, weights=_weights(state, targets) if state.weights else (),
        placement=replace(state.placement, layers=layers), bits16=keys,
    )  # fmt: skip


def _weights(state: State, targets: Sequence[Target]) -> tuple[QuantizedWeight, ...]:
    """Those of `targets`: what `state` has, and new ones for what was widened."""
    known = dict(zip((t for t in state.targets if t.site.role == "weight"), state.weights, strict=True))
    constants = Constants(state.model.graph)
    values = {v.name: v for v in state.model.graph.initializers.values()}
    values |= {v.name: v for node in state.model.graph for v in node.outputs}
    return tuple(
        known[target] if target in known else weight_of(target, constants, values[target.site.value])
        for target in targets
        if target.site.role == "weight"
    )


def _widened(targets: Sequence[Target], why: Mapping[Unit, str]) -> Iterator[Target]:
    keys = {unit.key for unit in why}
    nodes = {node for unit in why for node in unit.nodes}
    for target in targets:
        if target.site.role == "activation":
            yield _wide(target) if target.key in keys else target
            continue
        ours = tuple(reader for reader in target.readers if reader[0] in nodes)
        others = tuple(reader for reader in target.readers if reader[0] not in nodes)
        if not ours or target.format not in _WIDE:
            yield target
            continue
        if others:
            yield replace(target, readers=others)
        yield _wide(replace(target, readers=ours))


def _wide(target: Target) -> Target:
    """`target` on the grid of 16 bits."""
    if target.site.role != "weight":
        return wide_activation(target)
    format = _WIDE[target.format]
    return replace(target, format=format, settings=replace(target.settings, weights=format))


def wide_activation(target: Target, format: str = "") -> Target:
    """An activation on the grid of 16 bits, its range whole where the method was free."""
    settings, format = target.settings, format or _WIDE[target.format]
    method = "max" if settings.method == "auto" else settings.method
    return replace(target, format=format, settings=replace(settings, activations=format, method=method))


def note_reasons(model: Model, reasons: Mapping[str, str]) -> None:
    """Let the file say why nodes have their formats, in place: by name."""
    for node in model.graph:
        if (said := reasons.get(node.name or "")) is not None:
            node.metadata_props[REASON_KEY] = said


def said_of(layer: Layer, reasons: Mapping[str, str], integer: Container[str] = ()) -> Layer:
    """`layer` in float, with the reason that `reasons` has for one of its nodes, where there is one; still in
    integers where that one is among `integer`."""
    node = next((node for node in layer.nodes if node in reasons), None)
    if node is None:
        return layer
    return replace(layer, precision=layer.precision if node in integer else "float", reason=reasons[node])
