"""`PlanBuilder`, which maps values of the graph to steps and tensors of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.lower.base.grids import FloatGrid, Grid, Grids
from intact.engine.steps import STRING, Codes, Dequantize, Dim, Reinterpret, Reshape, Step, Tensor
from intact.engine.steps.base.dims import names_in
from intact.engine.steps.base.wiring import reads, writes
from intact.errors import QuantValueError
from intact.graph import Constants, Model, Node, Value, find_data_dependent_shapes, is_op, ops
from intact.processes import cached_property

MOST_RANK = 6
"""Axes that native steps walk."""


class NoMatch(Exception):
    """A rule does not apply; its text says why, as a clause."""


@contextmanager
def in_range() -> Iterator[None]:
    """Turn an overflow while constants of an integer layer are computed into `NoMatch`.

    Raises:
        NoMatch: One is beyond what float32 arithmetic stays finite with: scales are too far apart.
    """
    try:
        yield
    except QuantValueError as error:
        raise NoMatch(f"its {error.where} is {error.got}, not {error.want}") from error


def check_ratio(read: Grid, written: Grid) -> None:
    """Refuse to rescale codes between grids whose ratio of scales is no float32.

    Raises:
        NoMatch: As `in_range` says.
    """
    with in_range():
        numerics.ratio(np.float32(read.scale), np.float32(written.scale))


@dataclass(frozen=True)
class Output:
    """Names the tensor, and its grid, that a step writes for a real value of the graph.

    Attributes:
        name: The tensor.
        grid: Its grid where every reader wants the same codes; None: floats.
    """

    name: str
    grid: Grid | None


@dataclass
class PlanBuilder:
    """The plan as far as it is written.

    Attributes:
        model: The graph after all rewrites.
        constants: Its constant values.
        steps, tensors, arrays: As in a Plan; steps in no particular order yet.
        done: Nodes that the steps cover.
        reasons: Why nodes are not covered; of products in float, why not in codes.
        numbers: What integer vectors and scalars hold that the sizes of the graph's inputs determine.
    """

    model: Model
    constants: Constants
    grids: Grids
    steps: list[Step] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    arrays: dict[str, NDArray[np.generic]] = field(default_factory=dict)
    done: dict[Node, None] = field(default_factory=dict)
    reasons: dict[Node, str] = field(default_factory=dict)
    numbers: Mapping[Value, tuple[Dim, ...]] = field(default_factory=dict)

    # -- reading

    def codes(self, value: Value | None) -> tuple[str, Codes] | None:
        """Return the tensor of codes behind `value`, which a DequantizeLinear makes.

        None where it has none.
        """
        node = value.producer() if value is not None else None
        if node is None or not is_op(node, "DequantizeLinear") or value in self.constants:
            return None
        tensor = self.tensors.get(_name(node.inputs[0]))
        if tensor is None or tensor.codes is None:
            return None
        grid = self.grids.of(node)
        if grid is None or Grid.of(tensor.codes) == grid:
            return tensor.name, tensor.codes
        return self.read_as(tensor, tensor.codes, grid, node)

    def read_as(self, tensor: Tensor, codes: Codes, grid: Grid, node: Node) -> tuple[str, Codes]:
        """Reinterpret the codes of `tensor` on another grid: the same bytes stand for other floats."""
        if grid.signed != codes.signed:
            raise NoMatch(f"'{tensor.name}' is read in another type than it is made in")
        name = f"{tensor.name}.as.{grid.scale:.9g}.{grid.zero_point}"
        if name not in self.tensors:
            self._define(Tensor(name, "codes", tensor.shape, grid.codes(codes.low, codes.high)))
            self.add(Reinterpret(node.name or name, (node.name or name,), tensor.name, name))
        read_codes = self.tensors[name].codes
        assert read_codes is not None
        return name, read_codes

    def require_codes(self, value: Value | None) -> tuple[str, Codes]:
        """Return what `codes` returns, which must not be None.

        Raises:
            NoMatch: It has none.
        """
        name_and_codes = self.codes(value)
        if name_and_codes is None:
            raise NoMatch(f"'{_name(value)}' {self._how(value)}")
        return name_and_codes

    def _how(self, value: Value | None) -> str:
        """Describe in words the form of a value without codes."""
        node = value.producer() if value is not None else None
        while node is not None and ops.may_move(node) and node.inputs and node.inputs[0] is not None:
            node = node.inputs[0].producer()
        grid = self.grids.any_of(node) if is_op(node, "DequantizeLinear") and node is not None else None
        if isinstance(grid, FloatGrid):
            return f"comes in {grid.format}: kernels multiply int8"
        return "does not come as int8 or uint8 codes with one constant scale"

    def real(self, value: Value | None) -> str:
        """Return the tensor that holds `value` as the graph does; codes are dequantized where needed.

        Raises:
            NoMatch: No step makes it, or it is no float32.
        """
        name = _name(value)
        if name in self.tensors and self.tensors[name].codes is None:
            return name
        name_and_codes = self.codes(value)
        if name_and_codes is None or value is None:
            raise NoMatch(f"'{name}' is made by no native step")
        if not is_float32(value):
            raise NoMatch(f"'{name}' is {_dtype(value)}: native steps know float32 alone")
        self._define(Tensor(name, "float32", dims_of(value)))
        producer = value.producer()
        assert producer is not None
        self.add(Dequantize(producer.name or name, (producer.name or name,), name_and_codes[0], name))
        return name

    def either(self, value: Value | None) -> str:
        """Return the tensor of codes where there is one, else of floats, else a float32 constant."""
        name_and_codes = self.codes(value)
        if name_and_codes is not None:
            return name_and_codes[0]
        if value in self.constants:
            array = self.constants(value)
            assert array is not None
            if array.dtype != np.float32:
                raise NoMatch(f"'{_name(value)}' is {array.dtype}: native steps know float32 alone")
            return self.hold(_name(value), array)
        return self.real(value)

    def variable_tensor(self, value: Value | None) -> str:
        """Return what `either` returns for a value that is no constant.

        Raises:
            NoMatch: It is a constant.
        """
        if value in self.constants:
            raise NoMatch(f"'{_name(value)}' is a constant")
        return self.either(value)

    def rank(self, name: str) -> int:
        """Return the number of axes of a tensor, or of a constant in its place."""
        return len(self.tensors[name].shape) if name in self.tensors else self.arrays[name].ndim

    def constant(self, value: Value | None, what: str) -> NDArray[np.generic]:
        """Return the constant array of `value`.

        Raises:
            NoMatch: It depends on an input of the graph.
        """
        array = self.constants(value)
        if array is None:
            raise NoMatch(f"{what} is not a constant")
        return array

    def sizes(self, value: Value | None, what: str) -> tuple[Dim, ...]:
        """Return the numbers of an integer vector or scalar, constant or as the inputs' sizes determine them.

        Raises:
            NoMatch: Nobody knows them before a run.
        """
        if value in self.constants:
            return tuple(int(n) for n in self.constant(value, what).reshape(-1))
        if value is None or value not in self.numbers:
            raise NoMatch(f"{what} is computed")
        return self.numbers[value]

    # -- writing

    def output(self, value: Value) -> Output:
        """Return the tensor to write for a real value: codes where all its readers quantize it alike.

        Raises:
            NoMatch: Reals are needed, and in another dtype than float32.
        """
        if (quantize := self.sole_quantizer(value)) is not None:
            return Output(_name(quantize.outputs[0]), self.grids.of(quantize))
        if not is_float32(value):
            raise NoMatch(f"'{_name(value)}' is {_dtype(value)}: native steps know float32 alone")
        return Output(_name(value), None)

    def sole_quantizer(self, value: Value) -> Node | None:
        """Return the QuantizeLinear that alone reads `value`, where its grid is native."""
        readers = list(value.uses())
        if value.is_graph_output() or len(readers) != 1 or readers[0].idx != 0:
            return None
        node = readers[0].node
        here = is_op(node, "QuantizeLinear") and node.graph is self.model.graph
        return node if here and self.grids.of(node) is not None else None

    def write(self, output: Output, value: Value, low: int | None = None, high: int | None = None) -> str:
        """Define the tensor of `output`; its codes, if any, stay within [low, high]."""
        if output.grid is None:
            self._define(Tensor(output.name, "float32", dims_of(value)))
        else:
            self._define(Tensor(output.name, "codes", dims_of(value), output.grid.codes(low, high)))
            quantize = self.sole_quantizer(value)
            assert quantize is not None
            self.done[quantize] = None
        return output.name

    def write_codes(self, value: Value, codes: Codes) -> str:
        """Define the tensor of a value that holds codes in the graph too."""
        self._define(Tensor(_name(value), "codes", dims_of(value), codes))
        return _name(value)

    def write_plain(self, value: Value, dtype: str) -> str:
        """Define a tensor of anything but codes."""
        self._define(Tensor(_name(value), dtype, dims_of(value)))
        return _name(value)

    def scratch(self, name: str, dtype: str, shape: tuple[Dim, ...], codes: Codes | None = None) -> str:
        """Define a tensor that the graph does not have."""
        unique = self._free(name)
        self._define(Tensor(unique, dtype, shape, codes))
        return unique

    def hold(self, name: str, array: NDArray[np.generic]) -> str:
        """Store a constant of the plan; equal ones of one name are stored once."""
        existing = self.arrays.get(name)
        if existing is not None and existing.dtype == array.dtype and np.array_equal(existing, array):
            return name
        unique = self._free(name)
        self.arrays[unique] = np.asarray(array, order="C")  # of rank 0 too
        return unique

    def add(self, step: Step, *nodes: Node) -> None:
        """Append a step, which covers `nodes`.

        Raises:
            NoMatch: It is native and names a tensor of strings, or one of more axes than native steps walk;
                or it is a Reshape to several sizes that what it reads does not tell.
        """
        if isinstance(step, Reshape):
            self._check_told(self.tensors[step.x].shape, self.tensors[step.y].shape)
        for name in (*reads(step), *writes(step)):
            if step.native and name in self.tensors and self.tensors[name].dtype == STRING:
                raise NoMatch(f"'{name}' holds strings: no kernel has them")
            if name in self.tensors and len(self.tensors[name].shape) > MOST_RANK:
                raise NoMatch(
                    f"'{name}' has {len(self.tensors[name].shape)} axes: native steps walk {MOST_RANK}"
                )
        self.steps.append(step)
        self.done.update(dict.fromkeys(nodes))

    def _check_told(self, x: tuple[Dim, ...], y: tuple[Dim, ...]) -> None:
        if len(new := [dim for dim in new_sizes(y, x) if not self.is_told(dim)]) > 1:
            raise NoMatch(f"its output has the sizes {', '.join(new)}, which its input does not tell")

    def is_told(self, dim: Dim) -> bool:
        """Return whether the sizes of the graph's inputs determine a size, so that it is known before any
        step."""
        return names_in(dim) <= self._input_sizes

    @cached_property
    def _input_sizes(self) -> frozenset[str]:
        shapes = [value.shape for value in self.model.graph.inputs if value.shape is not None]
        return frozenset(
            dim.value for shape in shapes for dim in shape if not isinstance(dim, int) and dim.value
        )

    def _free(self, name: str) -> str:
        """Return a name that no constant and no tensor has or may get: tensors are named as in the graph."""
        unique, count = name, 0
        while unique in self.arrays or unique in self.tensors or unique in self._values:
            count += 1
            unique = f"{name}_{count}"
        return unique

    @cached_property
    def data_dependent_nodes(self) -> set[Node]:
        """Nodes of which values of the inputs say how large their outputs are."""
        return find_data_dependent_shapes(self.model).nodes

    @cached_property
    def _values(self) -> set[str]:
        graph = self.model.graph
        outputs = {v for node in graph for v in node.outputs if v not in self.constants}
        return {v.name or "" for v in (*outputs, *graph.inputs)}

    def _define(self, tensor: Tensor) -> None:
        assert tensor.name not in self.tensors, tensor.name
        self.tensors[tensor.name] = tensor

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Undo the changes of a rule that gives up."""
        steps, tensors, done = len(self.steps), len(self.tensors), len(self.done)
        try:
            yield
        except NoMatch:
            del self.steps[steps:]
            for written, count in ((self.tensors, tensors), (self.done, done)):
                while len(written) > count:
                    written.popitem()  # the latest: nobody takes away, or puts in anew, what was there before
            raise


def dims_of(value: Value) -> tuple[Dim, ...]:
    """Return the sizes of a value; unknown ones get names of their own.

    Raises:
        NoMatch: Its rank is not known.
    """
    if value.shape is None:
        raise NoMatch(f"the rank of '{_name(value)}' is not known")
    return tuple(
        dim if isinstance(dim, int) else str(dim.value) if dim.value is not None else f"{_name(value)}.{axis}"
        for axis, dim in enumerate(value.shape)
    )


def new_sizes(output_sizes: tuple[Dim, ...], read: tuple[Dim, ...]) -> list[str]:
    """Return the names of output sizes that the sizes of `read` do not determine."""
    return [dim for dim in output_sizes if isinstance(dim, str) and dim not in read]


def dtype_of(value: Value) -> str:
    """Return the plan's name for the dtype of a value, which must be known."""
    assert value.dtype is not None, value.name
    return STRING if value.dtype.name == "STRING" else str(value.dtype.numpy().name)


def is_float32(value: Value | None) -> bool:
    """Return whether a value holds float32; one of unknown type counts as float32."""
    return value is not None and (value.dtype is None or value.dtype.name in ("FLOAT", "UNDEFINED"))


def _dtype(value: Value) -> str:
    return value.dtype.name.lower() if value.dtype is not None else "of no known type"


def _name(value: Value | None) -> str:
    return (value.name if value is not None else None) or ""
