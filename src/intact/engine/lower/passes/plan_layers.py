"""List the layers of a plan, and where they differ from what placement said.

A layer of a plan is what one step does, with the small ones that only serve it. Nodes that ONNX Runtime runs
keep the layers of placement, in float.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from intact.engine.plan import Plan
from intact.engine.steps import (
    Add,
    BlockFloatLinear,
    BlockLinear,
    ChosenBlockLinear,
    Conv,
    ConvTranspose,
    Dequantize,
    DynamicConv,
    DynamicQuantize,
    DynamicRecurrent,
    FakeQuantize,
    FallbackSubgraph,
    FloatConv,
    FloatConvTranspose,
    FloatLinear,
    FloatMatMul,
    LayerNorm,
    Linear,
    MatMul,
    Pool,
    Quantize,
    Reduce,
    Reinterpret,
    Rescale,
    Softmax,
    SplitQuantize,
    Step,
    Table,
)  # fmt: skip
from intact.engine.steps.base.wiring import reads, writes
from intact.graph import Model
from intact.graph.ops import display_name
from intact.layer import Layer, Precision
from intact.placement import Placement, is_pair

_SUMS = (BlockLinear, Conv, ConvTranspose, DynamicConv, DynamicRecurrent, Linear, MatMul)
_INTEGER = (*_SUMS, Add, Pool, Table)
"""They read codes and compute with them."""
_FLOAT = (
    BlockFloatLinear,
    FakeQuantize,
    FloatConv,
    FloatConvTranspose,
    FloatLinear,
    FloatMatMul,
    LayerNorm,
    Reduce,
    Softmax,
)
"""They compute in float whatever they read and write."""
_BORDERS = (Quantize, SplitQuantize, Dequantize, Rescale, Reinterpret)


@dataclass
class _Run:
    """Nodes that run as one.

    Attributes:
        nodes: By name, in the graph's order.
        steps: What runs them; the subgraph, for ONNX Runtime's.
    """

    nodes: set[str]
    steps: list[Step] = field(default_factory=list)

    @property
    def outside(self) -> bool:
        """Return whether ONNX Runtime runs the nodes."""
        return isinstance(self.steps[0], FallbackSubgraph)


def layers_of(
    plan: Plan, placement: Placement, model: Model, reasons: Mapping[str, str]
) -> tuple[Layer, ...]:
    """Return the layers of a plan, in the graph's order; every node with a step is in exactly one layer.

    Args:
        plan: Its steps, in their last form.
        placement: What was to be.
        model: What the steps were chosen for: it names their nodes.
        reasons: Why nodes have no step of their own, or none in codes, by name.
    """
    placed = _PlacedNodes(plan, placement, model, reasons)
    runs = [*_native(plan.steps, placed), *_outside(plan.steps, placed)]
    runs.sort(key=lambda run: min(placed.position[name] for name in run.nodes))
    return tuple(placed.layer(run) for run in runs)


class _PlacedNodes:
    """Looks up the place, the layer and the part of each node by its name, and who makes what in the plan."""

    def __init__(self, plan: Plan, placement: Placement, model: Model, reasons: Mapping[str, str]) -> None:
        self._plan = plan
        self._wide = {step.y for step in plan.steps if isinstance(step, FakeQuantize)}
        self._quantizers = {step.y: step for step in plan.steps if isinstance(step, DynamicQuantize)}
        nodes = {node.name or "": node for node in model.graph if not is_pair(node)}
        self.position = {name: i for i, name in enumerate(nodes)}
        self._op_types = {name: node.op_type for name, node in nodes.items()}
        self._reasons = reasons
        self.layers: dict[str, Layer] = {}
        self._parts: dict[str, tuple[str, tuple[str, ...]]] = {
            name: (display_name(node), (name,)) for name, node in nodes.items()
        }
        for layer, fusion in zip(placement.layers, placement.fusions, strict=True):
            self.layers |= dict.fromkeys(layer.nodes, layer)
            self._parts |= {name: part for part in fusion.parts for name in part[1]}

    def layer(self, run: _Run) -> Layer:
        """Return the layer that explain shows for `run`: placement's own words where they are true."""
        nodes = sorted(run.nodes, key=self.position.__getitem__)
        main = next((s.name for s in run.steps if s.name in run.nodes and _computes_with_codes(s)), "")
        main = main or next((s.name for s in run.steps if s.name in run.nodes), nodes[0])
        placed, precision = (
            self.layers.get(main),
            "float" if run.outside else _precision(self._plan, run.steps),
        )
        if placed is not None and set(placed.nodes) == run.nodes and placed.name in run.nodes:
            main = placed.name
        layer = Layer(main, self._op_types[main], tuple(nodes), precision, self._label(nodes), "")
        return replace(layer, reason=self._reason(run, layer, placed))

    def _label(self, nodes: Sequence[str]) -> str:
        """Return the parts that lie in `nodes` as a whole, and the other nodes by themselves."""
        labels: dict[tuple[str, ...], str] = {}
        for name in nodes:
            label, part = self._parts[name]
            whole = set(part).issubset(nodes)
            labels.setdefault(part if whole else (name,), label if whole else self._op_types[name])
        return "+".join(labels.values())

    def _why(self, nodes: Sequence[str]) -> str:
        """Return why the nodes have no step, or none in codes."""
        return "; ".join(dict.fromkeys(self._reasons[n] for n in nodes if n in self._reasons))

    def _reason(self, run: _Run, layer: Layer, placed: Layer | None) -> str:
        if run.outside:
            why = self._why(layer.nodes)
            first = f"{placed.reason}; " if placed is not None and placed.precision == "float" else ""
            return f"{first}ONNX Runtime runs it" + (f": {why}" if why else "")
        reads_blocks = any(isinstance(step, _ON_FLOATS) for step in run.steps)
        same = placed is not None and placed.precision == layer.precision and not reads_blocks
        if placed is not None and same and (layer.precision == "float" or set(placed.nodes) == run.nodes):
            why = self._why(layer.nodes) if self._reads_16_bits(run) else ""
            return f"{placed.reason}; {why}" if why else placed.reason
        reason = self._summary(run.steps, layer.precision)
        if layer.precision == "float" and (why := self._why(layer.nodes)):
            reason += f": {why}"
        apart = [n for n in placed.nodes if n not in run.nodes] if placed is not None else []
        if apart and placed is not None and placed.name == layer.name:
            reason += f"; {' and '.join(map(repr, apart))} of {placed.fused} could not be taken in"
        return reason

    def _reads_16_bits(self, run: _Run) -> bool:
        """Return whether it computes in floats of a pair that it could have multiplied the codes of (N62)."""
        return any(name in self._wide for step in run.steps for name in reads(step))

    def _summary(self, steps: Sequence[Step], precision: Precision) -> str:
        """Say what a layer multiplies, and what it writes."""
        plan, outputs = self._plan, [name for step in steps for name in writes(step)]
        inside = {name for step in steps for name in reads(step)}
        ends = [name for name in outputs if name not in inside or name in plan.outputs]
        written = "int8" if all(plan.tensors[name].codes is not None for name in ends) else "float"
        if any(getattr(step, "low", "") for step in steps if isinstance(step, _SUMS)):
            return f"it multiplies codes of 16 bits by int8 weights, in integers; it writes {written}"
        if product := next((step for step in steps if _multiplies_blocks_of_codes(step)), None):
            states = any(isinstance(step, DynamicRecurrent) for step in steps)
            return self._numerics_of(product) + ("; its states are codes in each step" if states else "")
        if floats := next((step for step in steps if isinstance(step, _ON_FLOATS)), None):
            return f"it multiplies floats by the floats of {_weights_of(floats)}; it writes {written}"
        if any(isinstance(step, _SUMS) for step in steps):
            return f"all that it multiplies comes in int8; it writes {written}"
        if precision == "int8":
            return "codes come in and go out"
        return f"a native step computes it in float; it writes {written}"

    def _numerics_of(self, product: BlockLinear | ChosenBlockLinear | DynamicConv) -> str:
        """Say what a product with dynamic ranges multiplies."""
        quantize = self._quantizers.get(product.x)
        of_x = (
            "one range for all" if quantize is None or not quantize.block
            else f"a range per {quantize.block}"
        )  # fmt: skip
        return (
            f"it multiplies {self._plan.tensors[product.x].dtype} codes with {of_x} of its input by "
            f"{_weights_of(product)}, in integers; it writes float"
        )


def _native(steps: Sequence[Step], placed: _PlacedNodes) -> list[_Run]:
    """Group steps into runs: those that share nodes are one run."""
    runs: dict[str, _Run] = {}
    for step in steps:
        names = {name for name in step.nodes if name in placed.position}
        if isinstance(step, FallbackSubgraph) or not names:
            continue
        overlapping = list({id(runs[name]): runs[name] for name in names if name in runs}.values())
        run = overlapping[0] if overlapping else _Run(set())
        for other in overlapping[1:]:
            run.nodes |= other.nodes
            run.steps += other.steps
            runs |= dict.fromkeys(other.nodes, run)
        run.nodes |= names
        run.steps.append(step)
        runs |= dict.fromkeys(names, run)
    return list({id(run): run for run in runs.values()}.values())


def _outside(steps: Sequence[Step], placed: _PlacedNodes) -> Iterator[_Run]:
    """Yield the layers of each subgraph, as far as they lie in it."""
    for step in steps:
        if isinstance(step, FallbackSubgraph):
            split: dict[object, set[str]] = {}
            for name in step.nodes:
                if name in placed.position:
                    layer = placed.layers.get(name)
                    split.setdefault(name if layer is None else layer.name, set()).add(name)
            yield from (_Run(names, [step]) for names in split.values())


def _precision(plan: Plan, steps: Sequence[Step]) -> Precision:
    """Return int8 where the steps compute with codes, or read and write codes alone."""
    working = [step for step in steps if not isinstance(step, _BORDERS)]
    if any(map(_computes_with_codes, working)):
        return "int8"
    codes = all(
        name in plan.constants or plan.tensors[name].codes is not None
        for step in working or steps
        for name in _data(step)
    )
    return "int8" if codes and not any(isinstance(step, _FLOAT) for step in working) else "float"


def _data(step: Step) -> list[str]:
    index = getattr(step, "index", "")
    return [name for name in (*reads(step), *writes(step)) if name != index]


_ON_CODES = (BlockLinear, ChosenBlockLinear, DynamicConv)
_ON_FLOATS = (BlockFloatLinear, ChosenBlockLinear)


def _multiplies_blocks_of_codes(step: Step) -> TypeGuard[BlockLinear | ChosenBlockLinear | DynamicConv]:
    has_codes = not isinstance(step, ChosenBlockLinear) or bool(step.x_scales)
    return has_codes and isinstance(step, _ON_CODES)


def _computes_with_codes(step: Step) -> bool:
    return isinstance(step, _INTEGER) or _multiplies_blocks_of_codes(step)


def _weights_of(product: BlockLinear | BlockFloatLinear | ChosenBlockLinear | DynamicConv) -> str:
    if isinstance(product, DynamicConv):
        return "weights of 8 bits with a scale per channel"
    per = "channel" if product.block >= product.inputs else str(product.block)
    indices = " (indices of 16 values)" if product.table else ""
    return f"weights of {product.bits} bits{indices} with a scale per {per}"
