"""Fold shape arithmetic into constants, and propagate names of free dimensions."""

from __future__ import annotations

from functools import partial

import numpy as np

from intact.engine.lower.passes.output_sizes import OUTPUT_SIZES, ShapeRule, part_shape, window_steps
from intact.engine.lower.passes.quotients import number_of_float, whole_size
from intact.engine.lower.passes.size_numbers import NUMBERS, WIDE_INTEGERS, NumberRule
from intact.engine.lower.passes.size_walk import Numbers, Size, Sizes
from intact.engine.steps.base.dims import names_in
from intact.graph import (
    DOUBTFUL,
    UNKNOWN_SIZE,
    Constants,
    Model,
    Node,
    Note,
    Scene,
    Value,
    forget_doubtful_names,
    layer_sizes,
    refresh_shapes,
    set_shape,
)

_MOST_NUMBERS = 4096  # of a constant that arithmetic with sizes reads
_MOST_WALKS = 4  # through a graph: each tells sizes behind operators that ONNX's inference alone knows


def fold_sizes(model: Model) -> list[Note]:
    """Replace shape arithmetic by constants where the sizes are known.

    Before: ``Reshape(x, Concat(Shape(x)[0], Shape(x)[2] / 4))``.  After: constants where sizes are known.

    What stays free keeps its name through Reshape and Transpose, so that two tensors of one shape are seen
    to have one.

    Guards: few integers, computed from sizes that the graph declares.
    """
    folded = 0
    forget_doubtful_names(model)
    for _ in range(_MOST_WALKS):
        walk = _Walk(model)
        for node in list(model.graph):
            walk.visit(node)
        folded += walk.folded
        if not walk.folded and not walk.resized:
            break
        refresh_shapes(model)  # what follows from what is known now is seen by the next walk
        if not walk.resized:
            break
    return [Note("", f"{folded} results of arithmetic with sizes are constants")] if folded else []


def find_numbers(model: Model, constants: Constants) -> dict[Value, Sizes]:
    """Return what integer vectors and scalars hold, as far as arithmetic with sizes tells.

    Args:
        model: Not changed.
        constants: Those of its graph.
    """
    walk = _Walk(model, constants)
    for node in model.graph:
        walk.visit(node)
    return {value: list(map(whole_size, n.reshape(-1))) for value, n in walk.numbers.items() if n.ndim < 2}


class _Walk:
    """One way through the graph.

    Args:
        model: The model.
        constants: Of a graph that is only read; None: what turns out constant becomes a constant of it.

    Attributes:
        folded: How many values became constants.
        resized: How many tensors got sizes that the graph did not say.
        numbers: Elements of integer tensors.
        shapes: Sizes of tensors, as far as they are known better than the graph says.
    """

    def __init__(self, model: Model, constants: Constants | None = None) -> None:
        self._folds = constants is None
        self.folded = self.resized = 0
        self.numbers: dict[Value, Numbers] = {}
        self.shapes: dict[Value, Sizes] = {}
        self._scene = Scene(model.graph)
        self.constants = self._scene.constants if constants is None else constants
        self._free = {str(n) for value in model.graph.inputs for n in _sizes(value) or ()}

    def visit(self, node: Node) -> None:
        """Derive the sizes and values of a node's outputs from those of its inputs."""
        if not node.outputs:
            return
        value = node.outputs[0]
        if value in self.constants and not node.domain:
            self._measure_constant(value)
            return
        if not node.domain and (arithmetic := NUMBERS.get(node.op_type)) is not None:
            self._compute(node, value, arithmetic)
        if node.op_type != "Split" or node.domain:
            self._measure(node, value, None if node.domain else OUTPUT_SIZES.get(node.op_type))
            return
        for place, part in enumerate(node.outputs):  # alone it has several outputs whose sizes are computed
            self._measure(node, part, partial(part_shape, place=place))

    def _measure(self, node: Node, value: Value, rule: ShapeRule | None) -> None:
        """Derive the sizes of an output, where the graph does not say them in those of its inputs."""
        declared = self._sizes_in_graph(value)
        if declared is not None and all(map(self._is_told, declared)):
            return
        try:
            sizes = layer_sizes(node, self.shape, window_steps) if rule is None else rule(self, node)
        except (IndexError, ZeroDivisionError):  # a damaged node names axes that its input has not
            return
        if sizes is None or (declared is not None and len(declared) != len(sizes)):
            return
        merged = [
            a if self._is_told(a) or b is None else b for a, b in zip(sizes, declared or sizes, strict=True)
        ]
        self.shapes[value] = merged
        if merged != declared:
            self.resized += merged != [None] * len(merged) or declared is None
            set_shape(value, merged)

    def _is_told(self, size: Size) -> bool:
        """Return whether the sizes of the graph's inputs determine a size; exporters name others, too."""
        return size is not None and names_in(size) <= self._free

    def _measure_constant(self, value: Value) -> None:
        """Infer the sizes of a constant from its nodes, where ONNX's inference could not."""
        declared = self._sizes_in_graph(value)
        if declared is not None and None not in declared:
            return
        array = self.constants(value)
        if array is not None and (declared is None or len(declared) == array.ndim):
            self.shapes[value] = list(array.shape)
            set_shape(value, list(array.shape))

    def _compute(self, node: Node, value: Value, rule: NumberRule) -> None:
        read = [] if node.op_type in ("Shape", "Size") else [v for v in node.inputs if v is not None]
        inputs = list[Numbers]()
        for v in read:
            if (operand := self._numbers_of(v)) is None:
                return
            inputs.append(operand)
        numbers = rule(self, node, inputs)
        if numbers is None:
            return
        self.numbers[value] = numbers
        fixed = self._folds and all(isinstance(n, int) for n in numbers.reshape(-1))
        if not fixed or value.is_graph_output() or value.dtype is None:
            return
        if value.dtype.name not in WIDE_INTEGERS:
            return
        insert = self._scene.inserter(node)
        constant = insert.constant(f"{value.name}.size", np.array(numbers, value.dtype.numpy()))
        value.replace_all_uses_with(constant)
        self.numbers[constant] = numbers
        self.folded += 1

    def _numbers_of(self, value: Value) -> Numbers | None:
        if value in self.numbers:
            return self.numbers[value]
        array = self.constants(value) if value in self.constants else None
        if array is None or array.dtype.kind not in "iubf" or array.size > _MOST_NUMBERS:
            return None
        number_of = number_of_float if array.dtype.kind == "f" else int
        return np.array([number_of(n) for n in array.reshape(-1).tolist()], object).reshape(array.shape)

    def content(self, value: Value | None) -> Sizes | None:
        """Return the elements of an integer vector or scalar; None where they are not known."""
        numbers = None if value is None else self._numbers_of(value)
        return None if numbers is None or numbers.ndim > 1 else list(map(whole_size, numbers.reshape(-1)))

    def shape(self, value: Value | None) -> Sizes | None:
        """Return the sizes of a tensor; None where its rank is not known."""
        return None if value is None else self.shapes.get(value, self._sizes_in_graph(value))

    def _sizes_in_graph(self, value: Value) -> Sizes | None:
        sizes = _sizes(value)
        if sizes is None:
            return None
        if DOUBTFUL in value.meta:
            return [n if isinstance(n, int) else None for n in sizes]
        return [None if str(n).startswith(UNKNOWN_SIZE) and n not in self._free else n for n in sizes]


def _sizes(value: Value) -> Sizes | None:
    if value.shape is None:
        return None
    return [n if isinstance(n, int) else n.value for n in value.shape]
