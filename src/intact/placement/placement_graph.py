"""The graph as placement reads it: Q/DQ pairs are marks on the edges, constants are no nodes.

A float graph and the same graph with its pairs have equal views but for the marks, so that the rules and the
fusion are written once for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from intact.graph import Constants, Model, Node, Value, has_few_bits, ops
from intact.graph.ops import may_move
from intact.processes import cached_property

FLOATS = {"FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"}
_PAIR = frozenset({"QuantizeLinear", "DequantizeLinear"})


@dataclass(frozen=True, eq=False)
class Op:
    """One node.

    Attributes:
        node: The node of the graph.
        name: Its name; that of its first output where it has none.
        inputs: What it reads, Q/DQ pairs and what belongs to them taken away; None where left out.
        op_type: Its operator.
        domain: The operator's domain; "" for ONNX's own.
        outputs: What it makes.
    """

    node: Node
    name: str
    inputs: tuple[Value | None, ...]
    op_type: str = field(init=False)
    domain: str = field(init=False)
    outputs: tuple[Value, ...] = field(init=False)

    def __post_init__(self) -> None:
        # Placement asks for these 20 times a node: as properties they take a tenth of its time.
        node = self.node
        self.__dict__.update(op_type=node.op_type, domain=node.domain, outputs=tuple(node.outputs))

    @cached_property
    def record(self) -> ops.Operator | None:
        """The node with its attributes; None where nothing is known of its operator."""
        return ops.read(self.node)

    @property
    def display_name(self) -> str:
        """The name of what it computes in reports: mostly its operator."""
        return self.op_type if self.record is None else self.record.display_name

    def __str__(self) -> str:
        return f"{self.op_type} '{self.name}'"


@dataclass(frozen=True)
class EdgeMark:
    """Pair on an edge: `q` is None for stored codes, `dq` for codes read as they are."""

    q: Node | None
    dq: Node | None

    @property
    def wide(self) -> str:
        """The format of codes that no integer kernel multiplies, "int16" or "uint16"; "" of all others."""
        return self._dtype if self._dtype in ("int16", "uint16") else ""

    @property
    def small_float(self) -> str:
        """The format of codes that are floats of 8 or 4 bits, such as "float8e4m3fn"; "" of all others."""
        return self._dtype if self._dtype.startswith("float") else ""

    @property
    def _dtype(self) -> str:
        codes = (
            self.dq.inputs[0] if self.dq is not None else self.q.outputs[0] if self.q is not None else None
        )
        return codes.dtype.name.lower() if codes is not None and codes.dtype is not None else ""

    @property
    def in_blocks(self) -> bool:
        """Return whether each block of an axis has its own scale, so that sums over several blocks are
        floats."""
        return self.dq is not None and ops.DequantizeLinear.of(self.dq).block_size > 0


Reader = tuple[Op, int]


class View:
    """The main graph of a model.

    Args:
        model: Not changed while this is used.
        constants: Those of its graph, where the caller has them.

    Attributes:
        ops: Its nodes in topological order, without constants and Q/DQ.
        constants: Values that depend on no input.
        marks: The pair on each edge that has one.
        output_marks: The pair in front of each graph output that has one, by the value in front of it.
    """

    def __init__(self, model: Model, constants: Constants | None = None) -> None:
        self.model = model
        self.constants = Constants(model.graph) if constants is None else constants
        self._glue = _glue(model)
        self.marks: dict[Reader, EdgeMark] = {}
        self.ops: list[Op] = []
        self._readers: dict[Value, list[Reader]] = {}
        for index, node in enumerate(model.graph):
            if not self._is_quantizer(node) and not self.constants.issuperset(node.outputs):
                self._add(node, index)
        self._position = {op: i for i, op in enumerate(self.ops)}
        self._producers = {value: op for op in self.ops for value in op.outputs}
        self.output_marks: dict[Value, EdgeMark | None] = {}
        for output in model.graph.outputs:
            source, mark = self.trace(output)
            self.output_marks[source] = mark if self.output_marks.get(source, mark) else None

    def _is_quantizer(self, node: Node) -> bool:
        return is_pair(node) or node in self._glue

    def _add(self, node: Node, index: int) -> None:
        traced = [(None, None) if v is None else self.trace(v) for v in node.inputs]
        name = node.name or (node.outputs[0].name if node.outputs else None) or f"{node.op_type}_{index}"
        op = Op(node, name, tuple(source for source, _ in traced))
        self.ops.append(op)
        for i, (source, mark) in enumerate(traced):
            if source is not None:
                self._readers.setdefault(source, []).append((op, i))
            if mark is not None:
                self.marks[op, i] = mark

    def trace(self, value: Value) -> tuple[Value, EdgeMark | None]:
        """Return the value behind the Q/DQ pairs of `value`, and the pair nearest to its reader."""
        mark: EdgeMark | None = None
        while (node := value.producer()) is not None:
            above = node.inputs[0] if node.inputs else None
            if above is None:
                break
            if is_pair(node):
                mark = mark or _mark(node)
            elif node not in self._glue and not (
                mark is None and value in self.constants and self._moves_stored_codes(node)
            ):
                break
            value = above
        return value, mark

    def _moves_stored_codes(self, node: Node) -> bool:
        while may_move(node, keeps_all=True) and node.inputs[0] is not None:
            above = node.inputs[0].producer()
            if above is None:
                return False
            node = above
        return is_pair(node)

    def producer(self, value: Value | None) -> Op | None:
        """Return the op that makes `value`; None for inputs and constants."""
        return None if value is None else self._producers.get(value)

    def position(self, op: Op) -> int:
        """Return the position of `op` in the graph's order."""
        return self._position[op]

    def readers(self, value: Value) -> list[Reader]:
        """Return every op of the main graph that reads `value`, with the index of the input."""
        return self._readers.get(value, [])

    def is_output(self, value: Value) -> bool:
        """Return whether a graph output shows `value`, through a pair or not."""
        return value in self.output_marks

    def only_reader(self, value: Value) -> Reader | None:
        """Return the reader of a value that has only one."""
        readers = self.readers(value)
        alone = len(readers) == 1 and not self.is_output(value) and value not in self.read_by_subgraphs
        return readers[0] if alone else None

    def is_constant(self, value: Value | None) -> bool:
        """Return whether `value` depends on no input."""
        return value in self.constants

    @cached_property
    def read_by_subgraphs(self) -> dict[Value, str]:
        """Values that a subgraph reads, with the name of a node that does."""
        main = self.model.graph
        return {
            self.trace(value)[0]: node.name or node.op_type
            for node in main.all_nodes()
            if node.graph is not main
            for value in node.inputs
            if value is not None and value.graph is main
        }

    def has_quantizers(self) -> bool:
        """Return whether the main graph has Q/DQ nodes, but for those of weights of 4 bits or fewer."""
        return any(is_pair(node) and not has_few_bits(node) for node in self.model.graph)


def is_quantize(node: Node) -> bool:
    """Return whether `node` is a QuantizeLinear."""
    return node.domain == "" and node.op_type == "QuantizeLinear"


def is_dequantize(node: Node) -> bool:
    """Return whether `node` is a DequantizeLinear."""
    return node.domain == "" and node.op_type == "DequantizeLinear"


def is_pair(node: Node) -> bool:
    """Return whether `node` is a half of a Q/DQ pair."""
    return node.op_type in _PAIR and node.domain == ""


def shape_of(value: Value | None) -> list[int | None] | None:
    """Return the sizes of a value, None for each that is not known; None where its rank is not known."""
    if value is None or value.shape is None:
        return None
    return [size if isinstance(size, int) else None for size in value.shape]


def may_be_float(value: Value | None) -> bool:
    """Return whether a value holds floats; an unknown type may."""
    return value is not None and (value.dtype is None or value.dtype.name in FLOATS)


def _mark(node: Node) -> EdgeMark:
    if is_quantize(node):
        return EdgeMark(node, None)
    above = node.inputs[0].producer() if node.inputs[0] is not None else None
    return EdgeMark(above if above is not None and is_quantize(above) else None, node)


def _glue(model: Model) -> set[Node]:
    """Find Casts between float types that serve only a pair: right behind a DQ, or read by nothing but Q."""
    return set(_casts_of_pairs(model))


def _casts_of_pairs(model: Model) -> Iterator[Node]:
    for node in model.graph:
        if node.op_type != "Cast" or node.domain or not may_be_float(node.outputs[0]):
            continue
        source = node.inputs[0]
        above = source.producer() if source is not None else None
        uses = list(node.outputs[0].uses())
        if not may_be_float(source) or node.outputs[0].is_graph_output():
            continue
        if (above is not None and is_dequantize(above)) or (
            uses and all(is_quantize(use.node) and use.idx == 0 for use in uses)
        ):
            yield node
