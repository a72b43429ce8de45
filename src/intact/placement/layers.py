"""Group nodes into layers, and decide which layers run in int8, for float and for Q/DQ graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from intact.graph import Value
from intact.graph.ops import CONVOLUTIONS, MULTIPLY_WIDE, PRODUCTS
from intact.layer import Layer
from intact.placement.epilogue_chains import Chain, linear_tail, with_activation
from intact.placement.placement_graph import EdgeMark, Op, Reader, View, shape_of
from intact.placement.profiles import Profile
from intact.placement.records import Fusion, Kept
from intact.placement.rules import Rule, rules_of
from intact.placement.rules.float_reasons import float_reason

_ACTIVATED = frozenset({"Add", "Mul"})


class Fuser:
    """Groups the ops of a view into layers.

    Args:
        view: The graph.
        profile: What fuses.
        quantized: Whether a pair stands on an edge.
        reasons: Why ops stay in float, where it is known.
        barred: Ops that the user keeps apart.
    """

    def __init__(
        self, view: View, profile: Profile, quantized: Callable[[Reader], bool],
        reasons: Mapping[Op, str] | None = None, barred: Callable[[Op], bool] = lambda op: False,
    ) -> None:  # fmt: skip
        self._view, self._profile = view, profile
        self._quantized, self._reasons, self._barred = quantized, reasons or {}, barred
        self.carries, self.hands_on = cache(self._carries), cache(self._hands_on)
        self._answer_in_order()

    def _answer_in_order(self) -> None:
        """Fill both caches along the graph, so that a long row of moving operators is no deep recursion."""
        for op in self._view.ops:
            for index in range(len(op.inputs)):
                self.carries((op, index))
        for op in reversed(self._view.ops):
            for value in op.outputs:
                self.hands_on(value)

    def layers(self) -> tuple[tuple[Layer, ...], tuple[Fusion, ...]]:
        """Return every op in exactly one layer, in the order of their first ops, and the fusion of each."""
        claimed: set[Op] = set()
        done: list[Chain] = []
        for heads in (self._is_root, lambda op: True):
            for op in self._view.ops:
                if op in claimed or not heads(op):
                    continue
                chain = self._chain(op, claimed)
                claimed.update(chain.ops)
                done.append(chain)
        done.sort(key=lambda chain: self._view.position(chain.root))
        return tuple(map(self._layer, done)), tuple(chain.fusion for chain in done)

    @staticmethod
    def _is_root(op: Op) -> bool:
        return op.domain == "" and op.op_type in CONVOLUTIONS | PRODUCTS

    def _chain(self, op: Op, claimed: set[Op]) -> Chain:
        """Return the layer that starts at `op`."""
        if self._is_root(op):
            chain = linear_tail(self._view, op, self._barred, self._quantized)
            if self._float_reason(op) is None:
                chain = self._with_residual(chain)
        else:
            chain = Chain(op)
        if self._is_root(op) or (op.domain == "" and op.op_type in _ACTIVATED and not self._has_constant(op)):
            longer = with_activation(self._view, self._profile, chain, self._barred, self._quantized)
            return chain if claimed.intersection(longer.ops) else longer
        return chain

    def _has_constant(self, op: Op) -> bool:
        return any(map(self._view.is_constant, op.inputs))

    def _with_residual(self, chain: Chain) -> Chain:
        """Fuse a residual Add into a layer.

        Before: ``Conv -> Add <- Q/DQ(x)``.  After: Conv+Add, which reads the codes of x.

        Guards: nobody else reads the Conv; no pair between it and the Add; x comes in int8, in one shape.
        """
        reader = self._view.only_reader(chain.output)
        if reader is None or reader[0].op_type != "Add" or reader[0].domain or self._quantized(reader):
            return chain
        add, index = reader
        other = add, 1 - index
        if self._barred(add) or self._has_constant(add) or not self.carries(other) or not _same_shape(add):
            return chain
        return replace(chain, residual=other)

    def _float_reason(self, op: Op) -> str | None:
        """Return why `op` runs in float; None where it runs in int8."""
        if op in self._reasons:
            return self._reasons[op]
        why: list[str] = []
        for rule in rules_of(op.op_type, op.domain):
            if rule.kind == "joins":
                continue
            inputs = rule.reads(self._view, op)
            missing = self._missing(rule, op, inputs) if not isinstance(inputs, Kept) else inputs.reason
            if missing is None:
                return None
            why.append(missing)
        return why[0] if why else float_reason(op.op_type, op.domain)

    def _missing(self, rule: Rule, op: Op, inputs: tuple[int, ...]) -> str | None:
        if rule.kind == "moves":
            if self._moves_down(op, inputs) or self._moves_up(op):
                return None
            return "no int8 comes in, and none is asked for"
        for index in inputs:
            if not self.carries((op, index)) and not self._multiplies_wide(op, index):
                return f"its input {index} ('{_name((op, index))}') {self._comes((op, index))}"
        if rule.kind == "computes":
            chain = self._chain_of(op)
            if not self.hands_on(chain):
                return f"its output ('{chain.name}') goes on in float: a QuantizeLinear is missing behind it"
        return None

    def _comes(self, reader: Reader) -> str:
        """Describe an edge that brings no codes for integer kernels."""
        source = self._source(reader)
        if wide := self._wide(source):
            return f"comes in {wide}, and integer kernels take {'int8' if 'float' in wide else '8 bits'}"
        if self._in_blocks(source):
            return "has a scale for each block, and sums run over blocks"
        return "does not come through DequantizeLinear"

    def _source(self, reader: Reader) -> Reader:
        """Return the edge whose pair an edge's codes come from, or the last one up through moved data."""
        while reader not in self._view.marks:
            producer = self._view.producer(reader[0].inputs[reader[1]])
            if not (inputs := self._moving_inputs(producer)) or producer is None:
                break
            reader = producer, inputs[0]
        return reader

    def _wide(self, reader: Reader) -> str:
        """Return the format of an edge's pair where the engine computes in floats.

        It is one of floats (docs/decisions/0029-int16-pairs.md), or has no kernels; else "".
        """
        mark = self._view.marks.get(reader)
        if mark is None:
            return ""
        return mark.wide or ("" if self._profile.small_floats else mark.small_float)

    def _in_blocks(self, reader: Reader) -> bool:
        mark = self._view.marks.get(reader)
        return mark is not None and mark.in_blocks

    def _multiplies_wide(self, op: Op, index: int) -> bool:
        """Return whether an input of 16 bits is multiplied by constant weights of 8 (decision 43)."""
        if index != 0 or self._wide((op, 0)) not in ("int16", "uint16") or op.domain:
            return False
        weighted = op.op_type in MULTIPLY_WIDE and self._view.is_constant(op.inputs[1])
        return weighted and self.carries((op, 1))

    def _chain_of(self, op: Op) -> Value:
        """Return the output of `op` and its activation."""
        if op.op_type in _ACTIVATED:
            chain = Chain(op)
            return with_activation(self._view, self._profile, chain, self._barred, self._quantized).output
        return op.outputs[0]

    def _moves_down(self, op: Op, inputs: tuple[int, ...]) -> bool:
        return all(self.carries((op, i)) for i in inputs)

    def _moves_up(self, op: Op) -> bool:
        used = [v for v in op.outputs if self._view.readers(v) or self._view.is_output(v)]
        return bool(used) and all(map(self.hands_on, used))

    def _moving_inputs(self, op: Op | None) -> tuple[int, ...] | None:
        """Return the data inputs of an op that only moves data; None for others."""
        for rule in rules_of(op.op_type, op.domain) if op is not None else ():
            if rule.kind == "moves" and op is not None and op not in self._reasons:
                inputs = rule.reads(self._view, op)
                return None if isinstance(inputs, Kept) else inputs
        return None

    def _carries(self, reader: Reader) -> bool:
        """Return whether an edge brings codes: from a pair on it, or from one above operators that only
        move data."""
        if self._quantized(reader):
            return not self._wide(reader) and not self._in_blocks(reader)
        producer = self._view.producer(reader[0].inputs[reader[1]])
        inputs = self._moving_inputs(producer)
        return producer is not None and inputs is not None and self._moves_down(producer, inputs)

    def _hands_on(self, value: Value) -> bool:
        """Return whether all readers of `value` take codes: through a pair, or below operators that only
        move data."""
        view = self._view
        if value in view.read_by_subgraphs or (
            view.is_output(value) and not _puts_out_codes(view.output_marks[value])
        ):
            return False
        readers = view.readers(value)
        return bool(readers or view.is_output(value)) and all(map(self._takes, readers))

    def _takes(self, reader: Reader) -> bool:
        if self._quantized(reader):
            return not self._wide(reader)
        return self._moving_inputs(reader[0]) is not None and self._moves_up(reader[0])

    def _layer(self, chain: Chain) -> Layer:
        head = chain.root
        why = self._float_reason(head)
        nodes = sorted(chain.ops, key=self._view.position)
        return Layer(
            name=head.name,
            op_type=head.op_type,
            nodes=tuple(op.name for op in nodes),
            precision="int8" if why is None else "float",
            fused=chain.fusion.label,
            reason=self._int8_reason(chain) if why is None else why,
        )

    def _int8_reason(self, chain: Chain) -> str:
        head = chain.root
        kinds = {rule.kind for rule in rules_of(head.op_type, head.domain)}
        if "moves" in kinds:
            return "it only moves data: codes pass"
        if not kinds & {"multiplies", "projects"}:
            return "codes come in and go out"
        residual = f"; the Add reads '{_name(chain.residual)}' in int8" if chain.residual is not None else ""
        if "projects" in kinds:
            inputs = (
                "come in 16 bits and their weights" if self._wide((head, 0)) else "and their weights come"
            )
            return f"its inputs {inputs} in int8; its states, and what they multiply, are floats"
        out = "int8" if self.hands_on(chain.output) else "float"
        if self._wide((head, 0)):
            return f"it multiplies codes of 16 bits by int8 weights, in integers{residual}; it writes {out}"
        return f"all its inputs come in int8{residual}; it writes {out}"


def _puts_out_codes(mark: EdgeMark | None) -> bool:
    return mark is not None and not mark.wide


def _name(reader: Reader) -> str:
    value = reader[0].inputs[reader[1]]
    return (value.name if value is not None else None) or ""


def _same_shape(add: Op) -> bool:
    a, b = map(shape_of, add.inputs)
    return a is None or b is None or a == b
