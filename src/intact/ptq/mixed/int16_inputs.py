"""Gives 16-bit inputs to layers whose weights stay in 8 bits.

A layer with constant weights multiplies codes of 16 bits as two bytes, exactly, and takes about twice as long
as with one, where floats take twenty times (docs/decisions/0043-int16-activations-int8-weights.md). The pair
stands right in front of the layer, behind what only moves data; whoever else reads the tensor, an Add for
one, reads its floats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace

from intact.calib import Calibration, Stats
from intact.graph import Node, is_op, ops
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.quantization_targets import Target
from intact.ptq.stages.int16_activations import Unit, note_reasons, wide_activation, with_reason


@dataclass
class WideReads:
    """Lists the reads of one unit that get 16-bit pairs.

    Attributes:
        readers: The (node name, input index) of the layers that multiply each tensor.
        sources: The targets whose values each tensor holds.
    """

    readers: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    sources: dict[str, list[Target]] = field(default_factory=dict)


class WideUnits:
    """Finds the units of a model that can have 16 bits.

    Args:
        state: In front of the pairs.
    """

    def __init__(self, state: State) -> None:
        self._nodes = {node.name or "": node for node in state.model.graph}
        weights = (t for t in state.targets if t.site.role == "weight" and t.format in ("int8", "uint8"))
        read = {name for target in weights for name, index in target.readers if index == 1}
        self.layers = frozenset(name for name in read if is_op(self._nodes.get(name), *ops.MULTIPLY_WIDE))
        """Products with constant weights of 8 bits: the engine computes them in integers from 16, too."""
        self._targets: dict[object, list[Target]] = {}
        for target in state.activations:
            self._targets.setdefault(target.key, []).append(target)
        self._known: dict[Unit, WideReads | None] = {}
        self._paired = {target.site.value for target in state.activations}

    def reads(self, unit: Unit) -> WideReads | None:
        """Return where 16-bit pairs would stand; None where no layer can read them, or one needs other inputs
        too.
        """
        if unit not in self._known:
            self._known[unit] = self._reads(unit)
        return self._known[unit]

    def _reads(self, unit: Unit) -> WideReads | None:
        wide_reads, parts = WideReads(), dict[str, dict[int, list[Target]]]()
        for target in self._targets[unit.key]:
            self._follow(target.site.value, target.readers, [target], wide_reads, parts)
        while whole := [name for name, read in parts.items() if len(read) == len(self._nodes[name].inputs)]:
            for name in whole:
                sources = [target for part in parts.pop(name).values() for target in part]
                self._follow_made(self._nodes[name], sources, wide_reads, parts)
        return wide_reads if wide_reads.readers and not parts else None

    def _follow(
        self,
        value: str,
        uses: Iterable[tuple[str, int]],
        sources: list[Target],
        wide_reads: WideReads,
        parts: dict[str, dict[int, list[Target]]],
    ) -> None:
        """Find the layers that read `value`, also behind moving operators; a Concat waits for all its
        inputs.
        """
        for name, index in uses:
            node = self._nodes.get(name)
            if name in self.layers and index == 0:
                readers = wide_reads.readers.setdefault(value, [])
                if (name, index) not in readers:
                    readers.append((name, index))
                    wide_reads.sources[value] = sources
            elif is_op(node, "Concat"):
                parts.setdefault(name, {})[index] = sources
            elif node is not None and ops.may_move(node) and index == 0:
                self._follow_made(node, sources, wide_reads, parts)

    def _follow_made(
        self,
        node: Node,
        sources: list[Target],
        wide_reads: WideReads,
        parts: dict[str, dict[int, list[Target]]],
    ) -> None:
        for output in node.outputs:
            if output.name not in self._paired:
                uses = [(use.node.name or "", use.idx) for use in output.uses()]
                self._follow(output.name or "", uses, sources, wide_reads, parts)


def with_wide_inputs(state: State, why: Mapping[Unit, str]) -> State:
    """Return `state` with 16-bit inputs for some units; ranges must be chosen again.

    Args:
        state: In front of the pairs; its opset must have such codes.
        why: Units that can have them, each with the reason.
    """
    assert state.calibration is not None
    wide, keys = WideUnits(state), {unit.key for unit in why}
    units = {unit.key: unit for unit in why}  # that are still to come
    targets, reasons = list[Target](), dict(state.bits16)
    data = [state.calibration, *(half.calibration for half in state.halves)]
    statistics = [dict(calibration) for calibration in data]
    for target in state.targets:
        if target.site.role == "weight" or target.key not in keys:
            targets.append(target)
            continue
        if (unit := units.pop(target.key, None)) is None:  # a further one of its key
            continue
        reads = wide.reads(unit)
        assert reads is not None, "a unit that can have 16 bits"
        for value, readers in reads.readers.items():
            sources = reads.sources[value]
            site = replace(sources[0].site, value=value)
            widened = wide_activation(replace(sources[0], site=site, readers=tuple(readers)))
            targets.append(widened)
            reasons[widened.key] = why[unit]
            for merged, calibration in zip(statistics, data, strict=True):
                if value not in merged:
                    merged[value] = _merge_statistics(calibration, sources)
    reason_by_node = {
        node: f"inputs of 16 bits: {reason}" for unit, reason in why.items() for node in unit.nodes
    }
    layers = tuple(with_reason(layer, reason_by_node, wide.layers) for layer in state.placement.layers)
    model = state.model.clone()
    note_reasons(model, reason_by_node)
    calibration, *rests = (Calibration(s, d.provenance) for s, d in zip(statistics, data, strict=True))
    return replace(
        state, model=model, targets=tuple(targets), bits16=reasons, calibration=calibration,
        placement=replace(state.placement, layers=layers),
        halves=tuple(replace(half, calibration=rest) for half, rest in zip(state.halves, rests, strict=True)),
    )  # fmt: skip


def _merge_statistics(calibration: Calibration, sources: Iterable[Target]) -> Stats:
    """Merge the statistics of tensors that are joined into one."""
    first, *further = dict.fromkeys(target.site.value for target in sources)
    stats = calibration[first]
    if further:
        stats = deepcopy(stats)
        for name in further:
            stats.merge(calibration[name])  # type: ignore[arg-type]
    return stats
